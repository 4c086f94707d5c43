"""Reports: one HTML page anyone can open, figures and tables for papers, a leaderboard site, model cards."""

from gauntlet.report.assembly import Options, build_report
from gauntlet.report.write import FORMATS, write_report

__all__ = ["FORMATS", "Options", "build_report", "write_report"]

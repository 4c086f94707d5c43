"""Every command group, imported so that it registers itself."""

from gauntlet.cli import data, demo, doctor, leaderboard, listing, report, run, show, train

__all__ = ["data", "demo", "doctor", "leaderboard", "listing", "report", "run", "show", "train"]

"""Figures that others have published, packaged with their sources and their known faults.

>>> from gauntlet.results import published
>>> rows = published.find("SegFormer", "MIT-B0", "ADE20K")
>>> float(rows.query("kind == 'clean' and metric == 'mIoU'")["value"].iloc[0])
0.3741
"""

from gauntlet.results.published.flags import FLAGS, Flag
from gauntlet.results.published.lookup import find, of_threat
from gauntlet.results.published.summaries import gam, rem
from gauntlet.results.published.table import frame, models, sources, unflagged

__all__ = ["FLAGS", "Flag", "find", "frame", "gam", "models", "of_threat", "rem", "sources", "unflagged"]

"""Figures that others have published, packaged with their sources and their known faults.

The data is `figures.csv.gz`; `reading` gives it as tidy frames, `sources` says where each figure comes from, `flags`
what is known to be wrong with it, `lookup` finds the figures of one model and of one threat.

>>> from gauntlet.results import published
>>> rows = published.find("SegFormer", "MIT-B0", "ADE20K")
>>> float(rows.query("kind == 'clean' and metric == 'mIoU'")["value"].iloc[0])
0.3741
"""

from gauntlet.results.published.flags import FLAGS, Flag
from gauntlet.results.published.lookup import find, of_threat
from gauntlet.results.published.reading import frame, models, sources, unflagged

__all__ = ["FLAGS", "Flag", "find", "frame", "models", "of_threat", "sources", "unflagged"]

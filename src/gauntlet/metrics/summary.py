"""ReM and GAM: the benchmark's one-number summaries (docs/specs/metrics.md, 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SEGMENTATION_ATTACKS = ("pgd", "segpgd", "cospgd")
DETECTION_ATTACKS = ("bim", "pgd")


@dataclass(frozen=True)
class Summary:
    """A minimum and a mean over members; NaN unless every member has a figure.

    Attributes:
        minimum: ReM or GAM.
        mean: mean over the same members.
        members: the names that were asked for.
        missing: those of them without a figure.
    """

    minimum: float
    mean: float
    members: tuple[str, ...]
    missing: tuple[str, ...]


def summarise(figures: Mapping[str, float], members: Sequence[str]) -> Summary:
    """The smallest dataset figure over members (attacks for ReM, corruptions for GAM), and the mean.

    Args:
        figures: dataset figure (mIoU or mAP) by member name.
        members: the names that define the summary.
    """
    missing = tuple(name for name in members if math.isnan(figures.get(name, math.nan)))
    if missing or not members:
        return Summary(math.nan, math.nan, tuple(members), missing)
    values = [figures[name] for name in members]
    return Summary(min(values), sum(values) / len(values), tuple(members), ())

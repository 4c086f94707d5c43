"""Does a finding hold here? One rule for every claim: its margin over the resampled images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gauntlet.report.tables import Interval
from gauntlet.studies.contract import Claim, Study
from gauntlet.studies.results import Results, interval

LEAST_IMAGES = 16
"""Below so many images no verdict is given."""
HOLDS, FAILS, OPEN = "reproduces", "does not reproduce", "cannot be told"


@dataclass(frozen=True)
class Verdict:
    """What became of a claim.

    Attributes:
        model: whose results; "" for a claim over several models.
        claim: what is claimed.
        margin: by how much it holds, with its 95 % interval.
        verdict: HOLDS where the interval is above 0, FAILS where it is below, else OPEN with the number of images.
    """

    model: str
    claim: Claim
    margin: Interval
    verdict: str


def judge(study: Study, results: Results) -> list[Verdict]:
    """A verdict on every claim: for each model where one is enough, else once."""
    verdicts = []
    for claim in study.claims:
        if claim.models > len(results.models):
            reason = f"{OPEN} with {len(results.models)} of {claim.models} models"
            verdicts.append(Verdict("", claim, Interval(math.nan), reason))
            continue
        parts: Sequence[tuple[str, Results]] = (
            [("", results)] if claim.models > 1 else [(model, results.of(model)) for model in results.models]
        )
        for model, part in parts:
            margin = interval(claim.margin(part))
            verdicts.append(Verdict(model, claim, margin, decide(margin, results.images)))
    return verdicts


def decide(margin: Interval, images: int) -> str:
    """The verdict on a margin."""
    if images < LEAST_IMAGES or math.isnan(margin.value) or math.isnan(margin.low):
        return f"{OPEN} with {images} images"
    if margin.low > 0:
        return HOLDS
    return FAILS if margin.high < 0 else f"{OPEN} with {images} images"

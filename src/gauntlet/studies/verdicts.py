"""Does a finding hold here? One rule for every claim: its margin over the resampled images."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gauntlet.report.tables import Interval, format_value
from gauntlet.studies.contract import Claim, Study
from gauntlet.studies.figures import Figures, interval
from gauntlet.studies.printed import Printed
from gauntlet.studies.results import Results

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
        verdict: HOLDS where the interval is above 0, FAILS where it is below, else OPEN with the number of images
            or of models, or because a figure is missing.
    """

    model: str
    claim: Claim
    margin: Interval
    verdict: str


def judge(study: Study, results: Results) -> list[Verdict]:
    """A verdict on every claim about such a dataset: for each model where one is enough, else once."""
    verdicts = []
    for claim in study.claims:
        if claim.on is not None and not claim.on(results.dataset):
            continue
        if claim.models > len(results.models):
            reason = f"{OPEN} with {len(results.models)} of {claim.models} models"
            verdicts.append(Verdict("", claim, Interval(math.nan), reason))
            continue
        for model, part in parts_of(claim, results):
            margin = interval(claim.margin(part))
            verdicts.append(Verdict(model, claim, margin, decide(margin, results.images)))
    return verdicts


def printed_words(claim: Claim, printed: Printed | None) -> str:
    """Whether a claim holds in what the paper prints: by how many points, or for how many of its networks."""
    if printed is None:
        return ""
    margins = [
        float(claim.margin(part)[0])
        for network, part in parts_of(claim, printed)
        if claim.on is None or claim.on(printed_dataset(network))
    ]
    known = [margin for margin in margins if not math.isnan(margin)]
    if not known:
        return "not printed"
    if len(known) == 1:
        return f"{'holds' if known[0] > 0 else 'does not hold'} ({format_value(known[0], 'points')})"
    return f"holds for {sum(margin > 0 for margin in known)} of {len(known)} networks"


def printed_dataset(network: str) -> str:
    """The dataset of a printed network, as ours are called; networks of several datasets say theirs at the end.

    >>> printed_dataset("SegNet (VGG), VOC")
    'voc'
    """
    return network.rpartition(", ")[2].lower()


def parts_of(claim: Claim, figures: Figures) -> list[tuple[str, Figures]]:
    """What a claim is about: each model alone where one is enough, else all of them."""
    if claim.models > 1:
        return [("", figures)]
    return [(model, figures.of(model)) for model in figures.models]


def decide(margin: Interval, images: int) -> str:
    """The verdict on a margin."""
    if math.isnan(margin.value):
        return f"{OPEN}: a figure is missing"
    if images < LEAST_IMAGES or math.isnan(margin.low):
        return f"{OPEN} with {images} images"
    if margin.low > 0:
        return HOLDS
    return FAILS if margin.high < 0 else f"{OPEN} with {images} images"

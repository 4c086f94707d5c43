"""Does a finding hold here? One rule for every claim: its margin over the resampled images."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gauntlet.report.tables import Interval, format_cell
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
            or of models, or because a figure is missing or a condition of the claim is not met.
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
        parts = parts_of(claim, results)
        if not parts:
            verdicts.append(Verdict("", claim, Interval(math.nan), f"{OPEN}: no model of this kind"))
        for model, part in parts:
            margin = interval(claim.margin(part))
            lacking = lacks(claim, part)
            verdict = f"{OPEN}: {lacking}" if lacking else decide(margin, results.images)
            verdicts.append(Verdict(model, claim, margin, verdict))
    return verdicts


def lacks(claim: Claim, figures: Figures) -> str:
    """The conditions of a claim that figures do not meet, in words; "" where they meet all."""
    return "; ".join(filter(None, (condition.lacking(figures) for condition in claim.conditions)))


def margin_words(claim: Claim, margin: Interval) -> str:
    """A margin in its unit: "+2.1 (-1.0 to +4.0)" in points, "+0.80 (+0.20 to +0.90) of rho"."""
    if claim.unit == "points":
        return format_cell(margin, "points")
    bounds = "" if math.isnan(margin.low) else f" ({margin.low:+.2f} to {margin.high:+.2f})"
    return "-" if math.isnan(margin.value) else f"{margin.value:+.2f}{bounds} of rho"


def printed_words(claim: Claim, printed: Printed | None) -> str:
    """Whether a claim holds in what the paper prints: by how many points, or for how many of its networks.

    A network that does not meet a condition of the claim (a figure at the floor) counts on neither side.
    """
    if printed is None:
        return ""
    parts = [
        part for network, part in parts_of(claim, printed) if claim.on is None or claim.on(printed_dataset(network))
    ]
    met = [part for part in parts if not lacks(claim, part)]
    if parts and not met:
        return f"cannot be judged: {lacks(claim, parts[0])}"
    margins = [float(claim.margin(part)[0]) for part in met]
    known = [margin for margin in margins if not math.isnan(margin)]
    if not known:
        return "not printed"
    if len(parts) == 1:
        return f"{'holds' if known[0] > 0 else 'does not hold'} ({margin_words(claim, Interval(known[0]))})"
    left = len(parts) - len(met)
    words = f"holds for {sum(margin > 0 for margin in known)} of {len(known)} networks"
    return words + (f", {left} cannot be judged" if left else "")


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
    return [(model, figures.of(model)) for model in figures.models if claim.of is None or claim.of(model)]


def decide(margin: Interval, images: int) -> str:
    """The verdict on a margin."""
    if math.isnan(margin.value):
        return f"{OPEN}: a figure is missing"
    if images < LEAST_IMAGES or math.isnan(margin.low):
        return f"{OPEN} with {images} images"
    if margin.low > 0:
        return HOLDS
    return FAILS if margin.high < 0 else f"{OPEN} with {images} images"

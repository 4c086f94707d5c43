"""Marchiori Pietrosanti et al.: Benchmarking the Spatial Robustness of DNNs. docs/specs/studies.md, 1."""

from __future__ import annotations

import numpy as np

from gauntlet.metrics.arithmetic import divide
from gauntlet.report.document import Block
from gauntlet.studies.contract import Claim, Condition, Description, Study, studies
from gauntlet.studies.drawings import curves
from gauntlet.studies.figures import Figures, FloatArray, mean_of
from gauntlet.studies.papers.localized import LEAST_EFFECT
from gauntlet.threats.suites import LARGE, localized, rounds_in_square

WEIGHTS = tuple(tenth / 10 for tenth in range(11))
"""Weight of the second network, the one that is robust to natural corruptions."""
CORRUPTIONS = ("gaussian_noise", "snow", "brightness")
CORRUPTED = tuple(f"{name} 3" for name in CORRUPTIONS)
ATTACKED = "region-aware"


def member(weight: float) -> str:
    """The label of an ensemble."""
    return f"weight {weight:g}"


def ensembles() -> dict[str, str]:
    """The ensemble of a network that is robust to attacks with the second; gamma is the weight of the first."""
    return {member(weight): f"ensemble:gamma={1 - weight:g}:[{{model}}]+[{{second}}]" for weight in WEIGHTS}


def threats() -> dict[str, Description]:
    """Localized corruptions and the region-aware attack, beside clean images."""
    natural = {label: localized(name) for label, name in zip(CORRUPTED, CORRUPTIONS, strict=True)}
    return {"clean": "clean", **natural, ATTACKED: rounds_in_square(LARGE)}


def natural_error(results: Figures, weight: float) -> FloatArray:
    """CE_Nat (Eq. 12): loss inside the corrupted region relative to the second network, mean over corruptions."""
    return mean_of([_relative_loss(results, member(1.0), member(weight), threat, "inside") for threat in CORRUPTED])


def adversarial_error(results: Figures, weight: float) -> FloatArray:
    """CE_Adv (Eq. 13): loss outside the attacked region relative to the first network, each attacked on itself."""
    return _relative_loss(results, member(0.0), member(weight), ATTACKED, "outside")


def clean_error(results: Figures, weight: float) -> FloatArray:
    """Loss on clean images relative to the better of the two networks; may be negative."""
    best = np.maximum(results.accuracy(member(0.0), "clean"), results.accuracy(member(1.0), "clean"))
    return np.asarray(divide(best - results.accuracy(member(weight), "clean"), best), dtype=np.float64)


def _relative_loss(results: Figures, reference: str, other: str, threat: str, view: str) -> FloatArray:
    base = results.image_accuracy(reference, threat, view=view)
    return np.asarray(divide(base - results.image_accuracy(other, threat, view=view), base), dtype=np.float64)


def drawing(results: Figures) -> list[Block]:
    """The three errors over the weight."""
    errors = {  # clean first, as the figure has it on top
        "clean error": clean_error,
        "CE natural (inside)": natural_error,
        "CE adversarial (outside)": adversarial_error,
    }
    lines = {name: [(weight, error(results, weight)) for weight in WEIGHTS] for name, error in errors.items()}
    return curves(
        results,
        "Errors of the ensemble",
        lines,
        "weight of the network that is robust to natural corruptions",
        "relative error",
        caption="By Eq. 11 gamma is the weight of the first network; the paper's text praises gamma 0.4 as the "
        "weight of the second, which is gamma 0.6 of `ensemble:`.",
    )


SOMETHING_NATURAL = Condition(
    "a verdict on the natural error takes a second network that bears corruptions better than the first",
    lambda results: "" if natural_error(results, 0.0)[0] > 0 else "the second network bears corruptions no better",
)
SOMETHING_ADVERSARIAL = Condition(
    "a verdict on the adversarial error takes a first network that bears the attack better, by "
    f"{100 * LEAST_EFFECT:g} % at least",
    lambda results: (
        "" if adversarial_error(results, 1.0)[0] >= LEAST_EFFECT else "the first network bears the attack hardly better"
    ),
)
NATURAL = "streets/segformer"
ENSEMBLES = Study(
    name="spatial/figure-11",
    title="Ensembles of a network robust to attacks and one robust to corruptions",
    question="What does an ensemble of a robust and an accurate network trade?",
    setting="DeepLabV3 (MobileNet, ResNet), BiSeNet-R101 or DDRNet23 with SegFormer b0 or b1; Cityscapes validation.",
    finding="With a weight of about 0.4 on the transformer the natural error has dropped clearly while the adversarial "
    "one is still small; clean accuracy does not suffer.",
    unknown="Corruptions, severity, ratio, epsilon, patch and rounds; ours are those of its other figures (gaussian "
    "noise, snow, brightness at severity 3, half of the patches of 256; a centred square of 200, 16/255, 3 rounds of "
    "50 steps), sizes relative to a height of 1024.",
    members=ensembles(),
    second_model=NATURAL,
    threats=threats(),
    drawing=drawing,
    claims=[
        Claim(
            "A weight of 0.4 on the second network halves the natural error at least (bound ours).",
            lambda results: np.asarray(0.5 * natural_error(results, 0.0) - natural_error(results, 0.4)),
            conditions=[SOMETHING_NATURAL],
        ),
        Claim(
            "At a weight of 0.4 the adversarial error is below a quarter (bound ours) of what it is at 1.",
            lambda results: np.asarray(0.25 * adversarial_error(results, 1.0) - adversarial_error(results, 0.4)),
            conditions=[SOMETHING_ADVERSARIAL],
        ),
        Claim(
            "At a weight of 0.4 clean accuracy is not worse than that of the better network by more than 1 % of it "
            "(bound ours).",
            lambda results: np.asarray(0.01 - clean_error(results, 0.4)),
        ),
    ],
    also=tuple(f"spatial/figure-11{part}" for part in "abcdefgh"),
)

studies.add(ENSEMBLES.name, ENSEMBLES, aliases=tuple(ENSEMBLES.also))

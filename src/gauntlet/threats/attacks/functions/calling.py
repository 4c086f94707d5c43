"""From a call of a typed function to the attack of that name, and the arguments that many functions share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import torch

from gauntlet.samples import Boxes
from gauntlet.threats.attacks.combined.battery_outcome import BatteryOutcome
from gauntlet.threats.attacks.engine.outcome import Outcome
from gauntlet.threats.attacks.engine.regions import Region
from gauntlet.threats.attacks.engine.targets import Target
from gauntlet.threats.attacks.presets import build

Labels = torch.Tensor | Sequence[Boxes]
Norm = Literal["linf", "l2"]
Returns = Literal["last", "best"]

CALL_ARGUMENTS = ("target", "region", "fooling_region", "seed", "start")


class CombinedCall(TypedDict, total=False):
    """What every function takes; see `Attack.__call__` and the attributes of `Attack`.

    Attributes:
        target: makes the attack targeted: a class, a label map, K classes, "least-likely", {"rank": n}; on detectors a
            class, boxes or a file. None for the attack's own, which few have.
        region: pixels that may change: a mask, or a description such as {"square": {"size": 100}}.
        fooling_region: pixels, or objects, that the attack aims at: the same, or a class.
        seed: one for all images or one per image, 0 by default.
        samples: gradients averaged per step, for models that are random; 1 by default.
        precision: of the model's passes, "fp32" by default.
        ignore_index: the label that counts for nothing; "model", what the model states, by default.
    """

    target: Target
    region: Region
    fooling_region: Region
    seed: int | Sequence[int]
    samples: int
    precision: Literal["fp32", "bf16"]
    ignore_index: int | str | None


class Call(CombinedCall, total=False):
    """What every single attack takes.

    Attributes:
        start: images to start from, (N, 3, H, W).
    """

    start: torch.Tensor | None


class BallCall(Call, total=False):
    """What attacks in a ball take besides, see `BallAttack`.

    Attributes:
        threshold: share of pixels from which an image counts as fooled in `Outcome.success`, 0.99 by default.
        noise: of a random start, "uniform" by default.
        class_weights: one per class, None by default.
        box: whether to stay in [0, 1], True by default.
    """

    threshold: float
    noise: Literal["uniform", "scaled"]
    class_weights: Sequence[float] | None
    box: bool


class StepsCall(BallCall, total=False):
    """What attacks by equal steps take besides, see `GradientAttack`.

    Attributes:
        reduction: of the loss over pixels, "sum" by default.
        evaluate_last: whether the point after the last step is a candidate for "best", True by default.
        labels_from: what an untargeted attack leaves, the option `labels` of `build`: the "truth" or, as `ifgsm` does,
            the model's clean "prediction".
        moving_target: whether the least likely class is chosen anew at every step, as `ifgsm_ll` does.
    """

    reduction: Literal["sum", "mean"]
    evaluate_last: bool
    labels_from: Literal["truth", "prediction"]
    moving_target: bool


def run_attack(name: str, arguments: Mapping[str, Any]) -> Outcome:
    """Builds an attack and calls it.

    Args:
        name: as `build` knows it.
        arguments: all arguments of a typed function, its `locals()`.
    """
    outcome: Outcome = _run(name, arguments)
    return outcome


def run_battery(name: str, arguments: Mapping[str, Any]) -> BatteryOutcome:
    """Builds a battery and calls it; arguments as for `run_attack`."""
    outcome: BatteryOutcome = _run(name, arguments)
    return outcome


def _run(name: str, arguments: Mapping[str, Any]) -> Any:
    options = {**arguments, **arguments["more"]}
    del options["more"]
    model, images, labels = (options.pop(key) for key in ("model", "images", "labels"))
    call = {key: options.pop(key) for key in CALL_ARGUMENTS if key in options}
    if "labels_from" in options:
        options["labels"] = options.pop("labels_from")
    return build(name, **options)(model, images, labels, **call)

"""What the typed functions of `functions` take besides model, images, labels and budget, and how they call an attack.

Every argument is an option of `build` or an argument of `Attack.__call__`; one that is left out has the attack's own
default, see docs/attacks.md. Lengths are in units of images in [0, 1]; numbers may be texts such as "8/255".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import torch

from gauntlet.numbers import Number
from gauntlet.samples import Boxes
from gauntlet.threats.attacks.combined.battery_outcome import BatteryOutcome
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.outcome import Outcome
from gauntlet.threats.attacks.engine.regions import Region
from gauntlet.threats.attacks.engine.targets import Target
from gauntlet.threats.attacks.presets import build

Truth = torch.Tensor | Sequence[Boxes]
Bound = Number | None
Steps = int | None
Inner = Attack | Mapping[str, Any] | str


class Call(TypedDict, total=False):
    """What every function takes.

    Attributes:
        target: makes the attack targeted: a class, a label map, K classes, "least-likely", {"rank": n}; on detectors a
            class, boxes or a file.
        region: pixels that may change: a mask, or a description such as {"square": {"size": 100}}.
        fooling_region: pixels, or objects, that the attack aims at: the same, or a class.
        seed: one for all images or one per image.
        samples: gradients averaged per step, for models that are random.
        precision: of the model's passes.
        ignore_index: the label that counts for nothing; "model" for what the model states.
        ignore: classes whose pixels the attack leaves out of account, such as the background.
    """

    target: Target
    region: Region
    fooling_region: Region
    seed: int | Sequence[int]
    samples: int
    precision: Literal["fp32", "bf16"]
    ignore_index: int | str | None
    ignore: int | Sequence[int]


class SingleCall(Call, total=False):
    """What every single attack takes.

    Attributes:
        start: images to start from, (N, 3, H, W).
        norm: of the perturbation.
        threshold: share of pixels from which an image counts as fooled in `Outcome.success`.
    """

    start: torch.Tensor | None
    norm: Literal["linf", "l2"]
    threshold: float


class BallCall(SingleCall, total=False):
    """What attacks in a ball take, see `BallAttack`.

    Attributes:
        random_start: whether to start at a random point of the ball. noise: how that point is drawn.
        restarts: how many runs; the best one per image is kept.
        loss: a registered loss per pixel. class_weights: factors on it, one per class.
        box: whether to stay in [0, 1].
    """

    random_start: bool
    noise: Literal["uniform", "scaled"]
    restarts: int
    loss: str
    class_weights: Sequence[float] | None
    box: bool


class StepsCall(BallCall, total=False):
    """What attacks by equal steps take, see `GradientAttack`.

    Attributes:
        alpha: the length of a step; None for the paper's, which can depend on epsilon.
        rule: a registered step rule.
        returns: the last point, or the one that fools most pixels.
        evaluate_last: whether the point after the last step is a candidate for "best".
        reduction: of the loss over pixels.
        labels_from: what an untargeted attack leaves, the option `labels` of `build`: the ground truth, or the model's
            prediction for the clean image.
        moving_target: whether the least likely class is chosen anew at every step.
    """

    alpha: Number | None
    rule: str
    returns: Literal["last", "best"]
    evaluate_last: bool
    reduction: Literal["sum", "mean"]
    labels_from: Literal["truth", "prediction"]
    moving_target: bool


class NthCall(StepsCall, total=False):
    """`rank`: of the class to go to, 1 for the most likely one."""

    rank: int


class ArnabCall(StepsCall, total=False):
    """`iteration_rule`: how many steps are made of an epsilon, where `steps` is 0."""

    iteration_rule: Literal["paper", "kurakin"]


class TogCall(StepsCall, total=False):
    """`confidence`: the score from which a detection counts as one of the detector's own."""

    confidence: Number


class MislabelCall(TogCall, total=False):
    """`towards`: the least likely class of a detection, or the most likely other one."""

    towards: Literal["ll", "ml"]


class ApgdCall(BallCall, total=False):
    """`returns`: the point that fools most pixels, the one of highest loss, or the last one."""

    returns: Literal["best", "best-loss", "last"]


class SeaCall(ApgdCall, total=False):
    """`radius`: shrinks to epsilon in three stages, or is epsilon throughout."""

    radius: Literal["reduction", "fixed"]


class LeanCall(BallCall, total=False):
    """What members of the battery `gauntlet` take, see `Lean`.

    Attributes:
        returns: as `ApgdCall`, or the point of lowest mIoU.
        radius: as `SeaCall`, or 1.5 epsilon for the first 40 % of the steps.
        first_step: of every stage, in units of its radius.
        warm_start, worth_from: in a battery, the metric by whose worst case so far it starts, and the figures below
            which an image is left out.
    """

    returns: Literal["best", "best-loss", "last", "best-miou"]
    radius: Literal["reduction", "fixed", "wave"]
    first_step: Number
    warm_start: Literal["accuracy", "miou"] | None
    worth_from: Number


class MinimumCall(SingleCall, total=False):
    """Options of attacks that look for the smallest perturbation, see `MinimumNorm`.

    Attributes:
        alpha: the length of a step, in the attack's own units.
        clip: how a perturbation longer than `epsilon` is shortened.
    """

    alpha: Number | None
    clip: Literal["elementwise", "rescale"]


class AlmaCall(MinimumCall, total=False):
    """`penalty_grad`: the exact gradient of the penalty, or that of the public code."""

    penalty_grad: Literal["exact", "reference"]


class DagCall(MinimumCall, total=False):
    """`steps` None is 200 on pixels and 150 on a detector.

    `on_fail`: which image to return for one that resists. `strong`: the criterion of the public code.
    """

    on_fail: Literal["last", "clean"]
    strong: bool


class FmnCall(MinimumCall, total=False):
    """`gamma`, `last_gamma`: relative change of the radius, first and last. `pixels`: those that the loss is over."""

    gamma: Number
    last_gamma: Number
    pixels: Literal["open", "all"]


class MinimalPgdCall(MinimumCall, total=False):
    """`loss`: of PGD. `rounds`: bisections of the radius. `largest`: radius; None for 1 in linf and 80 in l2."""

    loss: str
    rounds: int
    largest: Number | None


class LabelOnlyCall(SingleCall, total=False):
    """`loss`: what is lowered, right pixels or the mIoU of the image."""

    loss: Literal["accuracy", "miou"]


class SquareCall(SingleCall, total=False):
    """What the Square Attack takes, see `Square`.

    Attributes:
        loss: what is lowered. restarts: how many runs; the best point of all is kept.
        share: of the pixels in the first squares.
    """

    loss: Literal["margin", "accuracy", "ce", "clipped"]
    restarts: int
    share: Number


class RegionAwareCall(Call, total=False):
    """`attack` is the attack of every round: a name, a description such as {"name": "pgd", "steps": 20}, or an attack.

    `rounds`: how many attacks. `literal`: the update as the paper prints it.
    """

    rounds: int
    literal: bool


class BatteryCall(Call, total=False):
    """What batteries take; `budget` is a factor on every number of steps.

    `skip`, `table`, `keep`, `together`: see `Battery`.
    """

    skip: bool
    table: bool
    keep: bool
    together: bool


CALL_ARGUMENTS = ("target", "region", "fooling_region", "seed", "start")
"""What `Attack.__call__` takes; all else is an option of `build`."""


def run(name: str, model: Any, images: torch.Tensor, labels: Truth, more: Mapping[str, Any], **budget: Any) -> Outcome:
    """Builds the attack of a name and calls it; `more` has options and arguments of the call."""
    outcome: Outcome = _run(name, (model, images, labels), {**budget, **more})
    return outcome


def run_battery(
    name: str, model: Any, images: torch.Tensor, labels: Truth, more: Mapping[str, Any], **budget: Any
) -> BatteryOutcome:
    """Builds a battery and calls it; arguments as for `run`."""
    outcome: BatteryOutcome = _run(name, (model, images, labels), {**budget, **more})
    return outcome


def _run(name: str, batch: tuple[Any, torch.Tensor, Truth], options: dict[str, Any]) -> Any:
    call = {key: options.pop(key) for key in CALL_ARGUMENTS if key in options}
    if "labels_from" in options:
        options["labels"] = options.pop("labels_from")
    return build(name, **options)(*batch, **call)

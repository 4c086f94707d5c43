"""What every attack shares: options that check themselves, a description, and the way from a call to an outcome."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import torch

from gauntlet.errors import GauntletError
from gauntlet.models.asked import has_gradient
from gauntlet.models.precision import PRECISIONS
from gauntlet.numbers import parse_fraction
from gauntlet.tasks import DETECTION, SEGMENTATION, task_of
from gauntlet.threats.attacks.detection.goals import LOSS, TO_LEAST_LIKELY, TO_MOST_LIKELY
from gauntlet.threats.attacks.detection.matching import CONFIDENCE
from gauntlet.threats.attacks.engine.batch_call import BatchAttack, BatchCall
from gauntlet.threats.attacks.engine.constraints import NORMS
from gauntlet.threats.attacks.engine.option_checks import classes, one_of, whole
from gauntlet.threats.attacks.engine.outcome import Outcome
from gauntlet.threats.attacks.engine.posing import check_start, pose
from gauntlet.threats.attacks.engine.problem import BatchProblem, steady
from gauntlet.threats.attacks.engine.regions import describe_region, region_text
from gauntlet.threats.attacks.engine.request import MODEL_IGNORE_INDEX, Request
from gauntlet.threats.attacks.engine.result import Result, outcome_of
from gauntlet.threats.attacks.engine.seeds import image_seed
from gauntlet.threats.attacks.engine.targets import describe_target, needs_logits, target_text
from gauntlet.threats.attacks.registration import names_for
from gauntlet.threats.options import NAME, Option
from gauntlet.threats.passes import Passes


def _classes_text(indices: Sequence[int]) -> str:
    """Classes in the name of a threat: "0", "0+3"."""
    return "+".join(str(index) for index in indices)


@dataclass(frozen=True, kw_only=True)
class Attack(BatchAttack[Outcome]):
    """An attack with all its options; call it on a model and a batch.

    Attributes:
        name: the registered name.
        norm: "linf" or "l2".
        samples: gradients averaged per step, for models that are random (expectation over transformation).
        precision: "fp32", or "bf16" for the model's passes under autocast; losses stay in full precision.
        ignore_index: the label that counts for nothing, None for none, "model" for what the model states (else 255).
        ignore: classes of the ground truth whose pixels the attack leaves out of account, such as the background.
        target: default for the call's `target`.
        region: default for the call's `region`. fooling_region: likewise.
        threshold: share of counted pixels from which an image counts as fooled.
        version: raised whenever the same description gives other images.
        needs_gradient: whether it differentiates the model; one that does not never makes a backward pass.
        synonyms: other names of options, from the papers.
        settled: options of `build` that the attack's definition leaves no choice about, with their only value.
    """

    version: ClassVar[int] = 1
    needs_gradient: ClassVar[bool] = True
    synonyms: ClassVar[Mapping[str, str]] = {}
    settled: ClassVar[Mapping[str, Any]] = {}

    name: str = field(metadata=NAME.metadata)
    norm: str = field(default="linf", metadata=Option("always", place=-3, written="{value}", swept=True).metadata)
    samples: int = field(default=1, metadata=Option(place=3, swept=True).metadata)
    precision: str = "fp32"
    ignore_index: int | str | None = field(default=MODEL_IGNORE_INDEX, metadata=Option("never").metadata)
    ignore: tuple[int, ...] = field(
        default=(), metadata=Option(place=23, written="ignoring {value}", text=_classes_text).metadata
    )
    target: Any = field(default=None, metadata=Option(place=20, written="to {value}", text=target_text).metadata)
    region: Any = field(default=None, metadata=Option(place=22, written="in {value}", text=region_text).metadata)
    fooling_region: Any = field(
        default=None, metadata=Option(place=21, written="aimed at {value}", text=region_text).metadata
    )
    threshold: float = field(default=0.99, metadata=Option(place=8, swept=True).metadata)

    def __post_init__(self) -> None:
        one_of(self.norm, "norm", NORMS)
        one_of(self.precision, "precision", PRECISIONS)
        whole(self.samples, "samples", 1)
        if isinstance(self.ignore_index, str) and self.ignore_index != MODEL_IGNORE_INDEX:
            raise GauntletError(
                f"ignore_index must be a label, None or '{MODEL_IGNORE_INDEX}', not {self.ignore_index}."
            )
        self._set(
            ignore=classes(self.ignore, "ignore"),
            target=describe_target(self.target),
            region=describe_region(self.region, "region"),
            fooling_region=describe_region(self.fooling_region, "fooling_region"),
            threshold=parse_fraction(self.threshold, "threshold"),
        )

    def _set(self, **values: Any) -> None:
        """Stores parsed options in a frozen dataclass, while it is being made."""
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def describe(self) -> dict[str, Any]:
        """Every option with its value, JSON-able; `build(**description)` makes an equal attack.

        `ignore` is left out where nothing is ignored: descriptions of version 0.1.0 do not have it.
        """
        described = {each.name: _plain(getattr(self, each.name)) for each in fields(self)}
        return {name: value for name, value in described.items() if name != "ignore" or value}

    @property
    def retarget(self) -> bool:
        """Whether a least-likely target is chosen anew at every iterate."""
        return False

    @property
    def own_prediction(self) -> bool:
        """Whether the model's clean prediction takes the place of the ground truth."""
        return False

    @property
    def starts_from(self) -> str | None:
        """The metric by whose worst case so far a battery starts it; None for a start of its own."""
        return None

    @property
    def worth_above(self) -> float:
        """A battery leaves out images whose every figure is at most this already."""
        return 0.0

    @property
    def tasks(self) -> tuple[str, ...]:
        """What the attack can be used on, "segmentation" and "detection"."""
        return (SEGMENTATION,)

    @property
    def object_goal(self) -> str:
        """What it wants of a detector, one of `goals.GOALS`."""
        return LOSS

    @property
    def object_confidence(self) -> float:
        """The score from which a detection counts as one of the detector's own."""
        return CONFIDENCE

    def passes(self, task: str = SEGMENTATION) -> Passes:
        """How often a model of a task is asked about one image, at most; exactly where nothing stops early.

        Here one gradient for every step of every restart; an attack that asks otherwise says so itself.
        """
        times = (getattr(self, "steps", None) or 1) * (getattr(self, "restarts", None) or 1)
        return self.posing_passes(task) + times * Passes(self.samples, self.samples)

    def posing_passes(self, task: str) -> Passes:
        """The looks at the clean image that the target, or the own labels, of the attack are made from."""
        if task == DETECTION:
            relabels = self.object_goal in (TO_LEAST_LIKELY, TO_MOST_LIKELY) and self.target is None
            return Passes(forward=int(self.object_goal != LOSS) + int(relabels))
        if self.target is None:
            return Passes(forward=int(self.own_prediction))
        return Passes(forward=int(needs_logits(self.target) and not self.retarget))

    @abstractmethod
    def run(self, problem: Any, seeds: Sequence[int], start: torch.Tensor | None) -> Result:
        """Attacks the images of a `BatchProblem` of one of its tasks, each of which has something to win."""

    def check_task(self, model: Any) -> None:
        """Raises unless the attack can be used on the model."""
        task = task_of(model)
        if self.needs_gradient and not has_gradient(model):
            raise GauntletError(
                f"the attack '{self.name}' needs the gradient of the model, and this one can only be asked; use square"
                f"{'' if task == DETECTION else ' or label-only'}, or a transfer from a model with a gradient."
            )
        if task == DETECTION and self.ignore:
            raise GauntletError(
                "ignore leaves pixels of some classes out, and a detector predicts boxes; do not set it."
            )
        if task in self.tasks:
            return
        if task == DETECTION:
            raise GauntletError(
                f"the attack '{self.name}' aims at pixels, not at boxes; on detectors use one of "
                f"{', '.join(names_for(DETECTION))}."
            )
        raise GauntletError(
            f"the attack '{self.name}' aims at boxes, not at pixels; choose one for pixels, such as pgd or cospgd."
        )

    def pose(self, call: BatchCall) -> BatchProblem:
        """The problem of a call: its own arguments, and this attack's where they are None."""
        self.check_task(call.model)
        request = Request(
            target=self.target if call.target is None else call.target,
            region=self.region if call.region is None else call.region,
            fooling_region=self.fooling_region if call.fooling_region is None else call.fooling_region,
            samples=self.samples,
            precision=self.precision,
            seeds=call.seeds,
            ignore_index=self.ignore_index,
            ignore=self.ignore,
            retarget=self.retarget,
            own_prediction=self.own_prediction,
            goal=self.object_goal,
            confidence=self.object_confidence,
        )
        return pose(call.model, call.images, call.labels, request)

    def attack_batch(self, call: BatchCall) -> Outcome:
        images, seeds, start = call.images, call.seeds, call.start
        with steady(call.model, images.device, image_seed(seeds[0], "model")):
            problem = self.pose(call)
            check_start(start, images)
            rows = torch.nonzero(problem.counts > 0).flatten()
            result = self._run_on(problem, rows, seeds, start)
        return outcome_of(problem, rows, result, norm=self.norm, threshold=self.threshold)

    def _run_on(
        self, problem: BatchProblem, rows: torch.Tensor, seeds: Sequence[int], start: torch.Tensor | None
    ) -> Result:
        """The result for some rows of a batch; seeds and start are those of the whole batch."""
        if len(rows) == 0:
            return Result.of_nothing(problem.images)
        part = problem.select(rows)
        begin = None if start is None else _allowed(start[rows].to(problem.images), part)
        return self.run(part, [seeds[row] for row in rows.tolist()], begin)


def _allowed(start: torch.Tensor, problem: BatchProblem) -> torch.Tensor:
    """The start inside the box, and equal to the images outside the region."""
    start = start.clamp(0, 1)
    return start if problem.region is None else torch.where(problem.region.unsqueeze(1), start, problem.images)


def _plain(value: Any) -> Any:
    """An option's value as JSON has it."""
    return list(value) if isinstance(value, tuple) else value

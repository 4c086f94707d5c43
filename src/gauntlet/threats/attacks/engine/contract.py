"""What every attack shares: options that check themselves, a description, and the way from a call to an outcome."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import torch

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.numbers import Number, parse_fraction, parse_number
from gauntlet.registry import Registry
from gauntlet.samples import Boxes
from gauntlet.seeding import torch_generator
from gauntlet.threats.attacks.detection.matching import CONFIDENCE
from gauntlet.threats.attacks.detection.problem import LEAST_LIKELY, LOSS, MOST_LIKELY
from gauntlet.threats.attacks.engine.constraints import NORMS
from gauntlet.threats.attacks.engine.device import bridge, crosses
from gauntlet.threats.attacks.engine.inputs import MODEL_IGNORE_INDEX, expand_seeds
from gauntlet.threats.attacks.engine.norms import image_norm
from gauntlet.threats.attacks.engine.outcome import Outcome, Queries
from gauntlet.threats.attacks.engine.posing import DETECTION, SEGMENTATION, pose_task, task_of
from gauntlet.threats.attacks.engine.problem import PRECISIONS, BatchProblem, steady
from gauntlet.threats.attacks.engine.regions import Region, describe_region, region_text
from gauntlet.threats.attacks.engine.targets import Target, describe_target, needs_logits, target_text
from gauntlet.threats.options import NAME, Option
from gauntlet.threats.passes import Passes

RETURNS = ("last", "best", "best-loss")


def image_seed(seed: int, purpose: str) -> int:
    """63 bits for one purpose ("start|0") from an image's seed."""
    digest = hashlib.sha256(f"{seed}|{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "little") & (2**63 - 1)


def uniform_draws(like: torch.Tensor, seeds: Sequence[int], purpose: str, *, normal: bool = False) -> torch.Tensor:
    """One draw per image from its own generator, float64: uniform in [-1, 1], or standard normal."""
    draws = []
    for seed in seeds:
        generator = torch_generator(image_seed(seed, purpose))
        if normal:
            draws.append(torch.randn(like.shape[1:], generator=generator, dtype=torch.float64))
        else:
            draws.append(torch.rand(like.shape[1:], generator=generator, dtype=torch.float64).mul_(2).sub_(1))
    return torch.stack(draws).to(like.device)


@dataclass
class Result:
    """What an attack found for the images of a problem.

    Attributes:
        points: (N, 3, H, W), allowed points.
        fooled: how much is won at these points, int64 (N,), or None when they were not evaluated.
        norms: float64 (N,), or None for the norm of points - images.
        unclipped: the points before clipping to epsilon, or None.
        details: facts per image by name, lists of N entries.
    """

    points: torch.Tensor
    fooled: torch.Tensor | None
    norms: torch.Tensor | None = None
    unclipped: torch.Tensor | None = None
    details: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Attack(ABC):
    """An attack with all its options; call it on a model and a batch.

    Attributes:
        name: the registered name.
        norm: "linf" or "l2".
        samples: gradients averaged per step, for models that are random (expectation over transformation).
        precision: "fp32", or "bf16" for the model's passes under autocast; losses stay in full precision.
        ignore_index: the label that counts for nothing, None for none, "model" for what the model states (else 255).
        target: default for the call's `target`.
        region: default for the call's `region`. fooling_region: likewise.
        threshold: share of counted pixels from which an image counts as fooled.
        version: raised whenever the same description gives other images.
        synonyms: other names of options, from the papers.
        settled: options of `build` that the attack's definition leaves no choice about, with their only value.
    """

    version: ClassVar[int] = 1
    synonyms: ClassVar[Mapping[str, str]] = {}
    settled: ClassVar[Mapping[str, Any]] = {}

    name: str = field(metadata=NAME.metadata)
    norm: str = field(default="linf", metadata=Option("always", place=-3, written="{value}", swept=True).metadata)
    samples: int = field(default=1, metadata=Option(place=3, swept=True).metadata)
    precision: str = "fp32"
    ignore_index: int | str | None = field(default=MODEL_IGNORE_INDEX, metadata=Option("never").metadata)
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
        """Every option with its value, JSON-able; `build(**description)` makes an equal attack."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}

    @property
    def retarget(self) -> bool:
        """Whether a least-likely target is found anew at every iterate."""
        return False

    @property
    def own_prediction(self) -> bool:
        """Whether the model's clean prediction takes the place of the ground truth."""
        return False

    @property
    def tasks(self) -> tuple[str, ...]:
        """What the attack can be used on, "segmentation" and "detection"."""
        return (SEGMENTATION,)

    @property
    def object_goal(self) -> str:
        """What it wants of a detector, one of `objects.GOALS`."""
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
            relabels = self.object_goal in (LEAST_LIKELY, MOST_LIKELY) and self.target is None
            return Passes(forward=int(self.object_goal != LOSS) + int(relabels))
        if self.target is None:
            return Passes(forward=int(self.own_prediction))
        return Passes(forward=int(needs_logits(self.target) and not self.retarget))

    @abstractmethod
    def run(self, problem: Any, seeds: Sequence[int], start: torch.Tensor | None) -> Result:
        """Attacks the images of a `BatchProblem` of one of its tasks, each of which has something to win."""

    def check_task(self, model: Any) -> None:
        """One sentence unless the attack can be used on the model."""
        task = task_of(model)
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

    def pose(
        self,
        model: Any,
        images: torch.Tensor,
        truth: torch.Tensor | Sequence[Boxes],
        target: Target,
        region: Region,
        fooling_region: Region,
        seeds: Sequence[int],
    ) -> BatchProblem:
        """The problem of a call: its own arguments, and this attack's where they are None."""
        self.check_task(model)
        return pose_task(
            model,
            images,
            truth,
            target=self.target if target is None else target,
            retarget=self.retarget,
            own_prediction=self.own_prediction,
            goal=self.object_goal,
            confidence=self.object_confidence,
            region=self.region if region is None else region,
            fooling_region=self.fooling_region if fooling_region is None else fooling_region,
            ignore_index=self.ignore_index,
            samples=self.samples,
            precision=self.precision,
            seeds=seeds,
        )

    def __call__(
        self,
        model: Any,
        images: torch.Tensor,
        labels: torch.Tensor | Sequence[Boxes],
        target: Target = None,
        region: Region = None,
        fooling_region: Region = None,
        seed: int | Sequence[int] = 0,
        start: torch.Tensor | None = None,
    ) -> Outcome:
        """Attacks a batch; the model is left as it was.

        Args:
            model: any callable from (N, 3, H, W) in [0, 1] to logits (N, K, H, W), or a `DetectionModel`; a module is
                put in eval mode meanwhile.
            images: float32 or float64 (N, 3, H, W) in [0, 1]; the attack works in this type.
            labels: integers (N, H, W), the ignore index counts for nothing; for a detector one `Boxes` per image.
            target: makes the attack targeted: a class index, a label map, K class indices (where each class is to
                go), "least-likely" or {"rank": n}; for a detector see `object_targets.wanted_boxes`.
            region: pixels that may change, a mask or a description (see `regions`); the others stay bit-identical.
            fooling_region: pixels that the attack aims at and that success is measured on, likewise; or a class. For a
                detector the objects with their centre in it, or of this class.
            seed: one for all images, or one per image. The draws for an image depend on its seed only, never on its
                batch mates or its place in the batch.
            start: images to start from instead of the clean or random start; moved into the allowed set first.

        Where the images' device has no float64, the attack computes on the CPU around the model's passes there
        (see `bridging`).
        """
        if crosses(model, images):
            bridged = bridge(model, images, labels)
            return self(*bridged, target, region, fooling_region, seed, start).to(images.device)
        seeds = expand_seeds(seed, len(images))
        with steady(model, images.device, image_seed(seeds[0], "model")):
            problem = self.pose(model, images, labels, target, region, fooling_region, seeds)
            if start is not None and start.shape != images.shape:
                raise GauntletError(
                    f"start has the shape {tuple(start.shape)}; expected that of the images, {tuple(images.shape)}."
                )
            counts = problem.counts
            rows = torch.nonzero(counts > 0).flatten()
            if len(rows) == 0:
                result = Result(images.clone()[:0], torch.zeros(0, dtype=torch.int64, device=images.device))
            else:
                part = problem.select(rows)
                begin = None if start is None else _allowed(start[rows].to(images), part)
                result = self.run(part, [seeds[row] for row in rows.tolist()], begin)
        return self._outcome(problem, rows, result)

    def _outcome(self, problem: BatchProblem, rows: torch.Tensor, result: Result) -> Outcome:
        images = problem.images.clone()
        images[rows] = result.points
        norms = image_norm(images - problem.images, self.norm)
        if result.norms is not None:
            norms[rows] = result.norms.to(norms)
        unclipped = None
        if result.unclipped is not None:
            unclipped = problem.images.clone()
            unclipped[rows] = result.unclipped
        tally = problem.tally
        details: dict[str, list[Any]] = {
            "zero_gradient_share": [None if value != value else value for value in tally.zero_gradient.tolist()],
            "non_finite_gradients": tally.non_finite.tolist(),
        }
        for key, values in result.details.items():
            column: list[Any] = [None] * len(images)
            for row, value in zip(rows.tolist(), values, strict=True):
                column[row] = value
            details[key] = column
        queries = Queries(tally.forward.clone(), tally.backward.clone())
        judged = images if unclipped is None else unclipped
        return Outcome(
            images=images,
            norms=norms,
            queries=queries,
            threshold=self.threshold,
            counted=problem.counts,
            count_fooled=_counter(problem, rows, judged, result.fooled),
            details=details,
            region=problem.region,
            unclipped=unclipped,
        )


def _allowed(start: torch.Tensor, problem: BatchProblem) -> torch.Tensor:
    start = start.clamp(0, 1)
    return start if problem.region is None else torch.where(problem.region.unsqueeze(1), start, problem.images)


def _counter(
    problem: BatchProblem, rows: torch.Tensor, images: torch.Tensor, fooled: torch.Tensor | None
) -> Callable[[], torch.Tensor]:
    def count() -> torch.Tensor:
        total = torch.zeros(len(images), dtype=torch.int64, device=images.device)
        if fooled is not None:
            total[rows] = fooled
        elif len(rows):
            with steady(problem.model, images.device, 0):
                total[rows] = problem.select(rows).won(images[rows])
        return total

    return count


def one_of(value: str, name: str, allowed: Sequence[str]) -> None:
    """One sentence unless the value is one of the allowed ones."""
    if value not in allowed:
        raise unknown_name(name, str(value), allowed)


def whole(value: int, name: str, least: int) -> None:
    """One sentence unless the value is a whole number that is not too small."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise GauntletError(f"{name} must be a whole number of at least {least}, not {value!r}.")


def positive(value: Number, name: str) -> float:
    """A number above 0."""
    number = parse_number(value, name)
    if number <= 0:
        raise GauntletError(f"{name} must be positive, not {value}.")
    return number


def radius(value: Number, norm: str) -> float:
    """An epsilon: at least 0; at most 1 for linf, since pixels lie in [0, 1]."""
    number = parse_number(value, "epsilon")
    if number < 0:
        raise GauntletError(f"epsilon must not be negative, it is {value}.")
    if norm == "linf" and number > 1:
        raise GauntletError(
            f"epsilon must lie in [0, 1], it is {value}; pixels lie in [0, 1], so write 8 grey levels as '8/255'."
        )
    return number


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


AttackFactory = Callable[..., Any]
attacks: Registry[AttackFactory] = Registry("attack", "gauntlet.attacks")
"""Attacks by name; an entry takes options by keyword and returns something to call like an `Attack`."""


def names_for(task: str) -> list[str]:
    """The attacks for a task, in the order of registration; those of other packages are for pixels unless they say."""
    return [name for name in attacks.names() if task in _tasks(attacks[name])]


def _tasks(make: AttackFactory) -> tuple[str, ...]:
    try:
        tasks: tuple[str, ...] = getattr(make(), "tasks", (SEGMENTATION,))
    except TypeError:  # somebody's attack that needs options
        return (SEGMENTATION,)
    return tasks


@dataclass(frozen=True)
class Preset:
    """An attack with a name: a class and what this name changes about its defaults."""

    name: str
    kind: type[Attack]
    defaults: Mapping[str, Any]

    @property
    def options(self) -> list[str]:
        """Names that can be set."""
        known = [each.name for each in fields(self.kind) if each.name != "name"]
        return [*known, *self.kind.synonyms, *self.kind.settled]

    def __call__(self, **given: Any) -> Attack:
        chosen: dict[str, Any] = {}
        for key, value in given.items():
            if key not in self.options:
                raise unknown_name(f"option of the attack '{self.name}'", key, self.options)
            if value is None and key != "ignore_index":
                continue
            if key in self.kind.settled:
                only = self.kind.settled[key]
                if value != only:
                    raise GauntletError(f"the attack '{self.name}' always has {key}={only!r}; leave it out.")
                continue
            chosen[self.kind.synonyms.get(key, key)] = value
        return self.kind(name=self.name, **{**self.defaults, **chosen})


def register(name: str, kind: type[Attack], **defaults: Any) -> None:
    """Gives an attack a name: `register("segpgd", GradientAttack, loss="segpgd")`."""
    attacks.add(name, Preset(name, kind, defaults))

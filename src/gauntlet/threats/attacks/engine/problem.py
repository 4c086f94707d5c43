"""One batch under attack: the only place that calls the model, differentiates it and counts how often."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import nn

from gauntlet.errors import GauntletError, NotFiniteError
from gauntlet.models import SegmentationModel
from gauntlet.models.asked import is_label_map, label_scores
from gauntlet.models.precision import model_precision
from gauntlet.models.randomness import AttackDraws, RandomPart, drawing, random_parts
from gauntlet.threats.attacks.engine.device import computing_device
from gauntlet.threats.attacks.engine.labels import image_figures, label_map, least_likely
from gauntlet.threats.attacks.engine.losses import PixelLoss
from gauntlet.threats.attacks.engine.pixels import Pixels
from gauntlet.threats.attacks.watching import show_points

Model = Callable[[torch.Tensor], torch.Tensor]


@dataclass
class Tally:
    """Counters per image of the whole batch, shared by all parts of it."""

    forward: torch.Tensor
    backward: torch.Tensor
    non_finite: torch.Tensor
    zero_gradient: torch.Tensor

    @classmethod
    def of(cls, count: int) -> Tally:
        """All zero, for `count` images; the share of zero gradients starts unknown (NaN)."""
        zeros = torch.zeros(count, dtype=torch.int64)
        return cls(zeros.clone(), zeros.clone(), zeros.clone(), torch.full((count,), float("nan"), dtype=torch.float64))


class Workspace:
    """Memory that lives as long as the attack: on a CPU fresh pages cost more than what is done in them."""

    def __init__(self) -> None:
        self._buffer: torch.Tensor | None = None
        self._held: torch.Tensor | None = None

    def hold(self, logits: torch.Tensor) -> None:
        """Keeps the last logits until the next pass has made its own.

        With everything of a pass freed, the C library returns the memory to the system and the next pass faults it in
        again, page by page: a tenth of the time of a step.
        """
        if logits.device.type == "cpu":
            self._held = logits.detach()

    def like(self, logits: torch.Tensor) -> torch.Tensor:
        """A tensor like the logits with arbitrary content; the same memory each time."""
        buffer = self._buffer
        if (
            buffer is None
            or len(buffer) < len(logits)
            or buffer.shape[1:] != logits.shape[1:]
            or buffer.stride() != logits.stride()
            or buffer.dtype != logits.dtype
            or buffer.device != logits.device
        ):
            self._buffer = buffer = torch.empty_like(logits.detach())
        return buffer[: len(logits)]


@dataclass(frozen=True)
class Wanted:
    """What a pass is to report: the gradient, how much is won in pixels and in mIoU, the tracked loss."""

    gradient: bool
    count: bool
    track: bool
    overlap: bool = False


@dataclass
class PassResult:
    """What one forward (and backward) pass says about N points.

    Attributes:
        gradient: of the loss with respect to the points, (N, 3, H, W), zero outside the region; empty when none was
            asked for.
        fooled: how much the attack has of what it wants, out of `counts`, int64 (N,); empty when not asked for.
        tracked: the loss that iterates are compared by, (N,); empty when not asked for.
        overlap: `Pixels.won_overlap`, float64 (N,); empty when not asked for, and on detectors.
    """

    gradient: torch.Tensor
    fooled: torch.Tensor
    tracked: torch.Tensor
    overlap: torch.Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.float64))


Visit = Callable[[Pixels, slice], torch.Tensor]
"""Looks at the pixels of some images (a slice of the batch) and returns what to maximise there, (n, H, W)."""

# Logits are visited a few images at a time: what a loss needs then stays in the cache and out of the peak memory.
_VISITED_AT_ONCE = 2**21


@dataclass(frozen=True)
class BatchProblem(ABC):
    """Images of one batch, what their predictions are measured against, and the model, whatever the task.

    Attributes:
        model: what is attacked.
        images: the clean images, (N, 3, H, W), in the working type.
        region: bool (N, H, W) of pixels that may change, or None for all.
        samples: gradients averaged per step (expectation over transformation).
        precision: "fp32", or "bf16" for the model's own passes under autocast.
        rows: position of each image in the batch that the tally counts.
        seeds: one per image of that batch, for what a random model draws; 0 for every image where there are none.
        metrics: names of `figures`; the first one decides which images of a battery are handed out.
        count_every: after how many steps what is won is counted, for the best iterate: every step where the pass of the
            step itself tells, more rarely where counting takes a forward pass of its own.
    """

    metrics: ClassVar[tuple[str, ...]]
    count_every: ClassVar[int]

    model: Any
    images: torch.Tensor
    region: torch.Tensor | None
    samples: int
    precision: str
    rows: torch.Tensor
    tally: Tally
    seeds: Sequence[int] | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.images)

    @property
    @abstractmethod
    def counts(self) -> torch.Tensor:
        """What there is to win per image, int64 (N,); 0 where there is nothing to attack."""

    @abstractmethod
    def select(self, rows: torch.Tensor) -> Any:
        """Some of the images, as a problem of the same kind; counters go on in the same tally."""

    @abstractmethod
    def answer(self, points: torch.Tensor, loss: PixelLoss, progress: float, wanted: Wanted) -> PassResult:
        """What `evaluate` returns."""

    def evaluate(
        self,
        points: torch.Tensor,
        loss: PixelLoss,
        progress: float,
        *,
        gradient: bool = True,
        count: bool = False,
        track: bool = False,
        overlap: bool = False,
    ) -> PassResult:
        """The loss at some points, its gradient, how much is won there.

        Args:
            points: (N, 3, H, W).
            loss: what to maximise at every pixel; a detector has a loss per image instead, and its problem a goal.
            progress: evaluation index over the number of steps, for losses that change on the way.
            gradient: whether to differentiate.
            count: whether to count what is won.
            track: whether to report the tracked loss.
            overlap: whether to report what is won of the mIoU; pixels only.
        """
        return self.answer(points, loss, progress, Wanted(gradient, count, track, overlap))

    @abstractmethod
    def won(self, points: torch.Tensor) -> torch.Tensor:
        """How much the attack has of what it wants, out of `counts`, int64 (N,); one forward pass."""

    @abstractmethod
    def figures(self, points: torch.Tensor) -> dict[str, torch.Tensor]:
        """What worst cases are chosen by, for each of `metrics`: float64 (N,) on the CPU, the lower the worse.

        NaN where nothing counts; one forward pass.
        """

    @cached_property
    def _random_parts(self) -> list[RandomPart]:
        return random_parts(self.model)

    @contextmanager
    def asking(self, points: torch.Tensor) -> Iterator[None]:
        """Around one forward pass: the model's precision, numbers of its own for a random model, and the count.

        A number depends on an image's seed and on how often this image was looked at, so that batch mates and images
        that were dropped change nothing, and every sample of an averaged gradient is another draw.
        """
        passes = self.tally.forward[self.rows].tolist()
        seeds = [0 if self.seeds is None else self.seeds[row] for row in self.rows.tolist()]
        device = computing_device(self.model, points)
        with model_precision(self.precision, device), drawing(self._random_parts, AttackDraws(seeds, passes)):
            yield
        self.tally.forward[self.rows] += 1

    @contextmanager
    def telling_the_pass(self) -> Iterator[None]:
        """Says in which pass of the attack a model gave no numbers."""
        try:
            yield
        except NotFiniteError as error:
            raise NotFiniteError(f"pass {int(self.tally.forward[self.rows].max())} of the attack: {error}") from None

    def counts_after(self, steps: int) -> bool:
        """Whether to count what is won after so many steps."""
        return self.count_every == 1 or (steps > 0 and steps % self.count_every == 0)

    def averaged(self, points: torch.Tensor, gradient: Callable[[], torch.Tensor]) -> torch.Tensor:
        """The mean of `samples` gradients at some points."""
        show_points(points)
        total = gradient()
        for _ in range(self.samples - 1):
            total = total + gradient()
        return total / self.samples if self.samples > 1 else total

    def cleaned(self, gradient: torch.Tensor) -> torch.Tensor:
        """A gradient without elements that are not finite (they become 0 and are counted), inside the region."""
        if not all(math.isfinite(extreme) for extreme in gradient.aminmax()):
            finite = torch.isfinite(gradient)
            self.tally.non_finite[self.rows] += (~finite).flatten(1).sum(1).cpu()
            gradient = torch.where(finite, gradient, torch.zeros_like(gradient))
        if self.region is not None:
            gradient = gradient * self.region.unsqueeze(1)
        self._note_zeros(gradient)
        return gradient

    def _note_zeros(self, slope: torch.Tensor) -> None:
        """Remembers the share of exactly zero elements of an image's first gradient: a sign of masking."""
        fresh = torch.isnan(self.tally.zero_gradient[self.rows])
        if not fresh.any():
            return
        rows = fresh.to(slope.device)
        elements = slope[rows].flatten(1)
        free = torch.full((len(elements),), elements.shape[1], device=slope.device)
        if self.region is not None:
            free = slope.shape[1] * self.region[rows].flatten(1).sum(1)
        zeros = free - (elements != 0).sum(1)
        self.tally.zero_gradient[self.rows[fresh]] = (zeros.double() / free.clamp_min(1)).cpu()


@dataclass(frozen=True)
class Problem(BatchProblem):
    """Images of one batch whose pixels have labels, and a model that gives logits.

    Attributes:
        model: (N, 3, H, W) in [0, 1] to logits (N, K, H, W).
        labels: int64 (N, H, W), 0 where a pixel does not count; the target map when `targeted`.
        counted: bool (N, H, W).
        targeted: whether `labels` is the aim.
        least_likely: whether the aim is the least likely class at every point anew (iterative FGSM ll).
        highest: the largest label of the batch.
        workspace: memory for the gradient of the logits, used anew in every step.
    """

    metrics = ("accuracy", "miou")
    count_every = 1

    model: Model
    labels: torch.Tensor
    counted: torch.Tensor
    targeted: bool
    least_likely: bool
    highest: int
    workspace: Workspace = field(default_factory=Workspace, repr=False)

    @property
    def counts(self) -> torch.Tensor:
        """Counted pixels per image, int64 (N,)."""
        return self.counted.flatten(1).sum(1)

    def select(self, rows: torch.Tensor) -> Problem:
        """Some of the images; counters go on in the same tally."""
        return replace(
            self,
            images=self.images[rows],
            labels=self.labels[rows],
            counted=self.counted[rows],
            region=None if self.region is None else self.region[rows],
            rows=self.rows[rows.to(self.rows.device)],
        )

    def logits(self, points: torch.Tensor) -> torch.Tensor:
        """The model's logits in the working type, (N, K, H, W), after a check of their shape.

        A label map becomes scores of 1 and 0: all that there is to compare.
        """
        with self.asking(points):
            # A callable that is no Gauntlet model may write to what it gets.
            logits = self.model(points if isinstance(self.model, SegmentationModel) else points.clone())
        if is_label_map(logits):
            logits = label_scores(logits, 1 + max(self.highest, int(logits.long().max())))
        count, _, height, width = points.shape
        expected = f"({count}, K, {height}, {width})"
        if not isinstance(logits, torch.Tensor):
            raise GauntletError(f"the model returned a {type(logits).__name__}; expected logits of shape {expected}.")
        if logits.ndim != 4 or logits.shape[0] != count or logits.shape[2:] != points.shape[2:]:
            raise GauntletError(
                f"the model returned logits of shape {tuple(logits.shape)} for images of shape {tuple(points.shape)}; "
                f"expected {expected}, one score per class and labelled pixel."
            )
        return logits.to(points.dtype)

    def label_maps(self, points: torch.Tensor) -> tuple[torch.Tensor, int]:
        """The predicted classes, int64 (N, H, W), and how many classes there are; one forward pass."""
        with torch.no_grad(), self.telling_the_pass():
            logits = self.logits(points)
            return label_map(logits), logits.shape[1]

    def look(self, points: torch.Tensor) -> Pixels:
        """The logits view without a gradient."""
        with torch.no_grad():
            return self._pixels(self.logits(points), slice(0, len(points)))

    def answer(self, points: torch.Tensor, loss: PixelLoss, progress: float, wanted: Wanted) -> PassResult:
        fooled = torch.empty(len(points) if wanted.count else 0, dtype=torch.int64, device=points.device)
        tracked = torch.empty(len(points) if wanted.track else 0, dtype=points.dtype, device=points.device)
        overlap = torch.empty(len(points) if wanted.overlap else 0, dtype=torch.float64, device=points.device)

        def visit(pixels: Pixels, part: slice) -> torch.Tensor:
            values = loss(pixels, progress)
            if wanted.count:
                fooled[part] = pixels.fooled_counts
            if wanted.track:
                tracked[part] = loss.tracked(pixels, progress).detach().flatten(1).mean(1)
            if wanted.overlap:
                overlap[part] = pixels.won_overlap
            return values

        return PassResult(self.sweep(points, visit, gradient=wanted.gradient), fooled, tracked, overlap)

    def sweep(self, points: torch.Tensor, visit: Visit, *, gradient: bool = True) -> torch.Tensor:
        """One forward pass, a visit of the logits, and the gradient of the sum of what the visits return.

        The loss is differentiated to the logits image by image and only then through the model: one pass over the
        logits, no weight gradients, nothing of the loss left in memory while the model is differentiated. With
        `samples` > 1 all of this is repeated and gradients are averaged; what a visit wrote last stays.
        """
        with self.telling_the_pass():
            if gradient:
                return self.averaged(points, lambda: self._gradient(points, visit))
            with torch.no_grad():
                logits = self.logits(points)
                for part in _parts(logits):
                    visit(self._pixels(logits[part], part), part)
            return points.new_empty(0)

    def _gradient(self, points: torch.Tensor, visit: Visit) -> torch.Tensor:
        inputs = points.detach().requires_grad_(True)
        logits = self.logits(inputs)
        if not logits.requires_grad:
            raise GauntletError(NO_GRADIENT)
        self.workspace.hold(logits)
        upstream = self.workspace.like(logits)
        for part in _parts(logits):
            leaf = logits[part].detach().requires_grad_(True)
            objective = visit(self._pixels(leaf, part, upstream[part]), part).sum()
            if torch.isnan(objective):
                raise NotFiniteError(
                    "the model returned NaN or infinite logits under attack; check the model and its precision."
                )
            (slope,) = torch.autograd.grad(objective, leaf)
            if slope.data_ptr() != upstream[part].data_ptr():
                upstream[part] = slope
        (gradient,) = torch.autograd.grad(logits, inputs, upstream, allow_unused=True)
        if gradient is None:
            raise GauntletError(NO_GRADIENT)
        self.tally.backward[self.rows] += 1
        return self.cleaned(gradient)

    def won(self, points: torch.Tensor) -> torch.Tensor:
        return self.look(points).fooled_counts

    def figures(self, points: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.look(points).logits
        values = image_figures(label_map(logits), self.labels, self.counted, logits.shape[1])
        return dict(zip(self.metrics, values, strict=True))

    def _pixels(self, logits: torch.Tensor, part: slice, workspace: torch.Tensor | None = None) -> Pixels:
        labels = self.labels[part]
        if self.least_likely:
            labels = least_likely(logits.detach())
        elif self.highest >= logits.shape[1]:
            raise GauntletError(
                f"a label is {self.highest}, but the model has {logits.shape[1]} classes (0 to {logits.shape[1] - 1}); "
                "check the labels or set ignore_index."
            )
        return Pixels(logits, labels, self.counted[part], self.targeted, workspace)


NO_GRADIENT = (
    "the model's output does not depend on its input through torch operations, so it has no gradient; "
    "remove no_grad or detach from it, wrap its non-differentiable parts with straight_through, or use an attack that "
    "needs no gradient, square or label-only."
)


def _parts(logits: torch.Tensor) -> list[slice]:
    """Slices of the batch that are visited together."""
    size = max(1, _VISITED_AT_ONCE // max(1, logits[0].numel()))
    return [slice(first, min(first + size, len(logits))) for first in range(0, len(logits), size)]


@contextmanager
def steady(model: Model, device: torch.device, seed: int) -> Iterator[None]:
    """Gradients on, the model in eval mode, its own randomness fixed by the seed; all of it undone afterwards."""
    switched = [each for each in model.modules() if each.training] if isinstance(model, nn.Module) else []
    devices = [device] if device.type == "cuda" else []
    apple = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None  # which fork_rng does not know
    try:
        for each in switched:
            each.training = False
        with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            yield
    finally:
        for each in switched:
            each.training = True
        if apple is not None:
            torch.mps.set_rng_state(apple)

"""One batch under attack: the only place that calls the model, differentiates it and counts how often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import nn

from gauntlet.errors import GauntletError
from gauntlet.threats.attacks.losses import PixelLoss
from gauntlet.threats.attacks.pixels import Pixels

Model = Callable[[torch.Tensor], torch.Tensor]
PRECISIONS = ("fp32", "bf16")


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


@dataclass
class Evaluation:
    """What one forward (and backward) pass says about N points.

    Attributes:
        pixels: the logits view; its graph is gone when a gradient was taken.
        gradient: of the loss with respect to the points, (N, 3, H, W), zero outside the region, or None.
        tracked: mean of the tracked loss over all H x W positions, (N,), or None.
    """

    pixels: Pixels
    gradient: torch.Tensor | None
    tracked: torch.Tensor | None

    @property
    def fooled(self) -> torch.Tensor:
        """Counted pixels per image where the attack has what it wants, int64 (N,)."""
        return self.pixels.fooled_counts

    @property
    def slope(self) -> torch.Tensor:
        """The gradient, where one was asked for."""
        assert self.gradient is not None
        return self.gradient


@dataclass(frozen=True)
class Problem:
    """Images of one batch, what their pixels are measured against, and the model.

    Attributes:
        model: (N, 3, H, W) in [0, 1] to logits (N, K, H, W).
        images: the clean images, in the working type.
        labels: int64 (N, H, W), 0 where a pixel does not count; the target map when `targeted`.
        counted: bool (N, H, W).
        region: bool (N, H, W) of pixels that may change, or None for all.
        targeted: whether `labels` is the aim.
        least_likely: whether the aim is the least likely class at every point anew (iterative FGSM ll).
        samples: gradients averaged per step (expectation over transformation).
        precision: "fp32", or "bf16" for the model's own passes under autocast.
        rows: position of each image in the batch that the tally counts.
        highest: the largest label of the batch.
    """

    model: Model
    images: torch.Tensor
    labels: torch.Tensor
    counted: torch.Tensor
    region: torch.Tensor | None
    targeted: bool
    least_likely: bool
    samples: int
    precision: str
    rows: torch.Tensor
    tally: Tally
    highest: int

    def __len__(self) -> int:
        return len(self.images)

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
        """The model's logits in the working type, (N, K, H, W), after a check of their shape."""
        with _precision(self.precision, points.device):
            logits = self.model(points)
        self.tally.forward[self.rows] += 1
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

    def look(self, points: torch.Tensor) -> Pixels:
        """The logits view without a gradient."""
        with torch.no_grad():
            return self._pixels(self.logits(points))

    def evaluate(
        self,
        points: torch.Tensor,
        loss: PixelLoss,
        progress: float,
        *,
        gradient: bool = True,
        track: bool = False,
    ) -> Evaluation:
        """The loss at some points.

        Args:
            points: (N, 3, H, W).
            loss: what to maximise.
            progress: evaluation index over the number of steps, for losses that change on the way.
            gradient: whether to differentiate.
            track: whether to report the tracked loss.
        """
        if not gradient:
            pixels = self.look(points)
            return Evaluation(pixels, None, self._mean(loss, pixels, progress) if track else None)
        total: torch.Tensor | None = None
        for _ in range(self.samples):
            inputs = points.detach().requires_grad_(True)
            pixels = self._pixels(self.logits(inputs))
            values = loss(pixels, progress)
            slope = self.differentiate(values.sum(), inputs)
            total = slope if total is None else total + slope
        assert total is not None
        tracked = self._mean(loss, pixels, progress) if track else None
        return Evaluation(pixels, total / self.samples if self.samples > 1 else total, tracked)

    def differentiate(self, objective: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """The gradient of a scalar with respect to the points only: no weight gradients, zero outside the region.

        Elements that are not finite become 0 (no step there) and are counted in the tally.
        """
        if torch.isnan(objective):
            raise GauntletError(
                "the model returned NaN (or infinite) logits under attack; check the model and its precision."
            )
        slope = None
        if objective.requires_grad:
            (slope,) = torch.autograd.grad(objective, inputs, allow_unused=True)
        if slope is None:
            raise GauntletError(
                "the model's output does not depend on its input through torch operations, so it has no gradient; "
                "remove no_grad or detach from it, or wrap its non-differentiable parts with straight_through."
            )
        self.tally.backward[self.rows] += 1
        finite = torch.isfinite(slope)
        if not finite.all():
            self.tally.non_finite[self.rows] += (~finite).flatten(1).sum(1).cpu()
            slope = torch.where(finite, slope, torch.zeros_like(slope))
        if self.region is not None:
            slope = slope * self.region.unsqueeze(1)
        self._note_zeros(slope)
        return slope

    def _note_zeros(self, slope: torch.Tensor) -> None:
        """Remembers the share of exactly zero elements of an image's first gradient: masking shows there (T6)."""
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

    def _pixels(self, logits: torch.Tensor) -> Pixels:
        labels = self.labels
        if self.least_likely:
            labels = logits.detach().argmin(1)
        elif self.highest >= logits.shape[1]:
            raise GauntletError(
                f"a label is {self.highest}, but the model has {logits.shape[1]} classes (0 to {logits.shape[1] - 1}); "
                "check the labels or set ignore_index."
            )
        return Pixels(logits, labels, self.counted, self.targeted)

    def _mean(self, loss: PixelLoss, pixels: Pixels, progress: float) -> torch.Tensor:
        return loss.tracked(pixels, progress).detach().flatten(1).mean(1)


@contextmanager
def steady(model: Model, device: torch.device, seed: int) -> Iterator[None]:
    """Gradients on, the model in eval mode, its own randomness fixed by the seed; all of it undone afterwards."""
    switched = [each for each in model.modules() if each.training] if isinstance(model, nn.Module) else []
    devices = [device] if device.type == "cuda" else []
    try:
        for each in switched:
            each.training = False
        with torch.enable_grad(), torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            yield
    finally:
        for each in switched:
            each.training = True


def _precision(precision: str, device: torch.device) -> torch.autocast:
    """bfloat16 when asked for; else full precision, even inside somebody's autocast (attacks.md, P1)."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")

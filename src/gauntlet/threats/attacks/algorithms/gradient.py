"""Equal steps in a ball: FGSM, BIM, PGD, SegPGD, CosPGD, MI-FGSM, PAdam, Arnab's family."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from gauntlet.errors import GauntletError
from gauntlet.tasks import DETECTION, SEGMENTATION
from gauntlet.threats.attacks.detection.problem import ObjectProblem
from gauntlet.threats.attacks.engine.constraints import Ball, ball
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.losses import PixelLoss, balanced, losses
from gauntlet.threats.attacks.engine.option_checks import one_of, radius, step_length, whole
from gauntlet.threats.attacks.engine.problem import BatchProblem
from gauntlet.threats.attacks.engine.result import Result
from gauntlet.threats.attacks.engine.seeds import uniform_draws
from gauntlet.threats.attacks.engine.step_rules import step_rules
from gauntlet.threats.attacks.engine.targets import needs_logits
from gauntlet.threats.options import ALPHA, EPSILON, LOSS, RANK, STEPS, Option
from gauntlet.threats.passes import Passes

NOISES = ("uniform", "scaled")
LABELS = ("truth", "prediction")


class Best:
    """The point of every image with the most fooled pixels so far; ties go to the latest.

    Points that are offered must not be written to afterwards.

    Args:
        points: (N, 3, H, W), what to return for an image that is never offered anything.
        kind: of `fooled`: counts of pixels, or float64 where points are ranked by another gain of at least 0.
    """

    def __init__(self, points: torch.Tensor, kind: torch.dtype = torch.int64) -> None:
        self.points = points
        self.fooled = torch.full((len(points),), -1, dtype=kind, device=points.device)

    def offer(self, rows: torch.Tensor, points: torch.Tensor, fooled: torch.Tensor, *, strict: bool = False) -> None:
        """Points of some rows, in order, with their fooled counts; `strict` keeps the earlier one of a tie."""
        if len(rows) == len(self.points):  # all of them, in order
            better = fooled > self.fooled if strict else fooled >= self.fooled
            self.points = torch.where(better.view(-1, 1, 1, 1), points, self.points)
            self.fooled = torch.where(better, fooled, self.fooled)
            return
        better = fooled > self.fooled[rows] if strict else fooled >= self.fooled[rows]
        self.points[rows[better]] = points[better]
        self.fooled[rows[better]] = fooled[better]


@dataclass(frozen=True, kw_only=True)
class BallAttack(Attack):
    """An attack that climbs a loss inside a norm ball.

    Attributes:
        epsilon: radius on the [0, 1] scale; 8/255 (linf) or 64/255 (l2) by default.
        steps: gradient steps.
        random_start: from a random point of the ball instead of the image.
        noise: "uniform" in the ball (scaled to its surface in l2), or "scaled" as AutoAttack draws it (largest element
            equal to epsilon; Gaussian in l2).
        restarts: runs per image; later ones only for images that are not fully fooled, kept when strictly better.
        returns: "last" iterate or the "best" one seen (most fooled pixels, ties to the latest; an image whose every
            pixel is fooled stops there). On a detector, where looking costs a forward pass, every tenth iterate and the
            last one are looked at.
        loss: name of a loss per pixel. class_weights: one weight per class, multiplied into it ("mce-bal" without
            them takes one over the image's own pixel count of the class).
        box: stay in [0, 1]; False reproduces Arnab et al.'s code.
    """

    epsilon: Any = field(default=None, metadata=EPSILON.metadata)
    steps: int = field(default=20, metadata=STEPS.metadata)
    random_start: bool = field(default=False, metadata=Option(place=6).metadata)
    noise: str = "uniform"
    restarts: int = field(default=1, metadata=Option(place=2, swept=True).metadata)
    returns: str = field(default="last", metadata=Option(place=7).metadata)
    loss: str = field(default="ce", metadata=LOSS.metadata)
    class_weights: tuple[float, ...] | None = None
    box: bool = True

    returnable: ClassVar[Sequence[str]] = ("last", "best")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is None:
            self._set(epsilon=8 / 255 if self.norm == "linf" else 64 / 255)
        self._set(epsilon=radius(self.epsilon, self.norm), loss=losses.canonical(self.loss))
        whole(self.steps, "steps", 1)
        whole(self.restarts, "restarts", 1)
        one_of(self.noise, "noise", NOISES)
        one_of(self.returns, "returned iterate", self.returnable)
        if self.class_weights is not None:
            weights = tuple(float(weight) for weight in self.class_weights)
            if not weights or min(weights) < 0 or sum(weights) <= 0:
                raise GauntletError("class_weights must be non-negative numbers, one per class, not all of them 0.")
            self._set(class_weights=weights)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Detectors too, where the loss is the plain one: a detector has its own in its place."""
        plain = self.loss == "ce" and self.class_weights is None and not self.retarget and not self.own_prediction
        ranked = needs_logits(self.target) or (isinstance(self.target, dict) and "permutation" in self.target)
        return (SEGMENTATION, DETECTION) if plain and not ranked else (SEGMENTATION,)

    @property
    def pixel_loss(self) -> PixelLoss:
        """The loss with its class weights."""
        if self.class_weights is None:
            return losses[self.loss]
        return balanced(losses["mce" if self.loss == "mce-bal" else self.loss], self.class_weights)

    def ball(self, problem: BatchProblem, factor: float = 1.0) -> Ball:
        """Where the attack may go; `factor` scales the radius."""
        size = torch.full((len(problem),), self.epsilon * factor, dtype=torch.float64, device=problem.images.device)
        return ball(self.norm, problem.images, size, problem.region, self.box)

    def first_points(
        self, region: Ball, seeds: Sequence[int], start: torch.Tensor | None, restart: int
    ) -> torch.Tensor:
        """Where a run starts: the given points, a random draw (of its own for every restart) or the images."""
        if start is not None and restart == 0:
            return region.project(start)
        if not self.random_start and restart == 0:
            return region.images
        scaled = self.noise == "scaled"
        draw = uniform_draws(region.images, seeds, f"start|{restart}", normal=scaled and self.norm == "l2")
        return region.project(region.noise(draw, scaled))

    def passes(self, task: str = SEGMENTATION) -> Passes:
        judged = Passes(forward=int(self.restarts > 1 and self.returns != "best"))
        return self.posing_passes(task) + self.restarts * (self.climb_passes(task) + judged)

    def climb_passes(self, task: str) -> Passes:
        """How often one run from one start asks the model, at most."""
        return self.steps * Passes(self.samples, self.samples)

    @abstractmethod
    def climb(self, problem: BatchProblem, seeds: Sequence[int], start: torch.Tensor | None, restart: int) -> Result:
        """One run from one start."""

    def run(self, problem: BatchProblem, seeds: Sequence[int], start: torch.Tensor | None) -> Result:
        result = self.climb(problem, seeds, start, 0)
        if self.restarts == 1:
            return result
        best = Best(problem.images)
        rows = torch.arange(len(problem), device=problem.images.device)
        best.offer(rows, result.points, self._fooled(problem, result))
        for restart in range(1, self.restarts):
            rows = torch.nonzero(best.fooled < problem.counts).flatten()
            if len(rows) == 0:
                break
            part = problem.select(rows)
            result = self.climb(part, [seeds[row] for row in rows.tolist()], None, restart)
            best.offer(rows, result.points, self._fooled(part, result), strict=True)
        return Result(best.points, best.fooled)

    @staticmethod
    def _fooled(problem: BatchProblem, result: Result) -> torch.Tensor:
        return problem.won(result.points) if result.fooled is None else result.fooled


@dataclass(frozen=True, kw_only=True)
class GradientAttack(BallAttack):
    """a <- Π(a + alpha * direction(g)), `steps` times (docs/specs/attacks.md, 1 to 4 and 7).

    Attributes:
        alpha: step size on the [0, 1] scale; 0.01 (linf) or 0.1 (l2) by default.
        rule: step rule: "steepest", "sign", "raw", "momentum", "amsgrad", or one of another package.
        reduction: "sum" over pixels, or their "mean": matters to AMSGrad only, through its constant 1e-8.
        evaluate_last: whether the point after the last step is a candidate for "best" (one more forward pass); Rony's
            code leaves it out.
        labels: what an untargeted attack leaves: the "truth", or the model's own clean "prediction" (Arnab et al.).
        moving_target: find the least likely class anew at every iterate (iterative FGSM ll).
    """

    alpha: Any = field(default=None, metadata=ALPHA.metadata)
    rule: str = field(default="steepest", metadata=Option(place=5).metadata)
    reduction: str = "sum"
    evaluate_last: bool = True
    labels: str = "truth"
    moving_target: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha is None:
            self._set(alpha=self.default_alpha())
        self._set(alpha=step_length(self.alpha, self.norm), rule=step_rules.canonical(self.rule))
        one_of(self.reduction, "reduction", ("sum", "mean"))
        one_of(self.labels, "labels", LABELS)

    def default_alpha(self) -> float:
        """The step size where none is given."""
        return 0.01 if self.norm == "linf" else 0.1

    @property
    def retarget(self) -> bool:
        return self.moving_target

    @property
    def own_prediction(self) -> bool:
        return self.labels == "prediction"

    def climb_passes(self, task: str) -> Passes:
        looks = 0
        if self.returns == "best":
            looks = (self.steps - 1) // ObjectProblem.count_every + 1 if task == DETECTION else int(self.evaluate_last)
        return Passes(forward=looks) + super().climb_passes(task)

    def climb(self, problem: BatchProblem, seeds: Sequence[int], start: torch.Tensor | None, restart: int) -> Result:
        allowed = self.ball(problem)
        size = torch.full_like(allowed.radius, self.alpha)
        return self.ascend(problem, allowed, self.first_points(allowed, seeds, start, restart), size)

    def ascend(self, problem: BatchProblem, allowed: Ball, points: torch.Tensor, size: torch.Tensor) -> Result:
        """The steps from given points.

        Args:
            problem: the images.
            allowed: where to stay.
            points: where to start, inside.
            size: step size per image, (N, 1, 1, 1).
        """
        everywhere = allowed
        size = size.to(points.dtype)
        rule = step_rules[self.rule](self.norm, points)
        loss = self.pixel_loss
        scale = 1.0 if self.reduction == "sum" else 1 / points[0, 0].numel()
        best = Best(points) if self.returns == "best" else None
        rows = torch.arange(len(problem), device=points.device)
        counts = problem.counts
        for step in range(self.steps):
            final = step == self.steps - 1 and not self.evaluate_last
            look = best is not None and (final or problem.counts_after(step))
            seen = problem.evaluate(points, loss, step / self.steps, count=look)
            slope = seen.gradient if scale == 1 else seen.gradient * scale
            if best is not None and look:
                best.offer(rows, points, seen.fooled)
                going = seen.fooled < counts[rows]
                if not going.all():
                    rows, kept = rows[going], torch.nonzero(going).flatten()
                    if len(rows) == 0:
                        break
                    problem, allowed = problem.select(kept), allowed.select(kept)
                    points, slope, size = points[kept], slope[kept], size[kept]
                    rule.select(kept)
            points = allowed.project(torch.addcmul(points, size, rule.direction(slope, step)))
        if best is None:
            return Result(allowed.finish(points), None)
        if self.evaluate_last and len(rows):
            best.offer(rows, points, problem.won(points))
        return Result(everywhere.finish(best.points), best.fooled)


@dataclass(frozen=True, kw_only=True)
class SingleStep(GradientAttack):
    """One step to the surface of the ball: alpha = epsilon by default (docs/specs/attacks.md, 1)."""

    steps: int = 1

    def default_alpha(self) -> float:
        return float(self.epsilon) or 1.0


@dataclass(frozen=True, kw_only=True)
class NthMostLikely(SingleStep):
    """FGSM towards the class of rank n at every pixel of the clean image (Arnab et al.).

    Attributes:
        rank: n, from 1 (the predicted class) to the number of classes (the least likely one).
    """

    rank: int = field(default=2, metadata=RANK.metadata)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.rank, "rank", 1)
        if self.target is None:
            self._set(target={"rank": self.rank})


@dataclass(frozen=True, kw_only=True)
class ArnabIterative(GradientAttack):
    """Iterative FGSM with Arnab et al.'s step and number of iterations, both from epsilon (docs/specs/attacks.md, 2).

    Attributes:
        iteration_rule: "paper": ceil(max(e + 4, ceil(5e))), "kurakin": max(1, ceil(min(e + 4, 1.25e))), e in grey
            levels; sets `steps` where none are given.
    """

    steps: int = 0
    iteration_rule: str = "paper"

    def __post_init__(self) -> None:
        one_of(self.iteration_rule, "iteration rule", ("paper", "kurakin"))
        if self.steps == 0:
            epsilon = 8 / 255 if self.epsilon is None else radius(self.epsilon, self.norm)
            self._set(steps=arnab_steps(epsilon, self.iteration_rule))
        super().__post_init__()

    def default_alpha(self) -> float:
        return min(1 / 255, float(self.epsilon)) or 1 / 255


def arnab_steps(epsilon: float, rule: str = "paper") -> int:
    """Iterations of Arnab et al.'s iterative attacks.

    >>> [arnab_steps(e / 255) for e in (0.25, 0.5, 1, 2, 4, 8, 16, 32)]
    [5, 5, 5, 10, 20, 40, 80, 160]
    """
    levels = round(epsilon * 255, 9)
    if rule == "paper":
        return math.ceil(max(levels + 4, math.ceil(5 * levels)))
    return max(1, math.ceil(min(levels + 4, 1.25 * levels)))


@dataclass(frozen=True, kw_only=True)
class MomentumAttack(GradientAttack):
    """MI-FGSM: alpha = epsilon / steps by default (docs/specs/attacks.md, 1)."""

    def default_alpha(self) -> float:
        return float(self.epsilon) / self.steps or 1.0


@dataclass(frozen=True, kw_only=True)
class ProjectedAdam(GradientAttack):
    """PAdam: AMSGrad with projection (Halmosi et al., section 4; docs/specs/attacks.md, 7)."""

    synonyms: ClassVar[Mapping[str, str]] = {"lr": "alpha"}

    def default_alpha(self) -> float:
        return 2 / 255

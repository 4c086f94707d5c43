"""DAG: normalised gradient steps on what is still right, pixels or proposals (docs/specs/attacks.md, 8 and 15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from gauntlet.tasks import DETECTION, SEGMENTATION
from gauntlet.threats.attacks.algorithms.minimum_norm import MinimumNorm, signed_margin
from gauntlet.threats.attacks.detection.goals import TowardsTargets
from gauntlet.threats.attacks.detection.matching import counted
from gauntlet.threats.attacks.detection.problem import ObjectProblem
from gauntlet.threats.attacks.detection.proposals import Pursuit, select_proposals
from gauntlet.threats.attacks.engine.norms import image_length
from gauntlet.threats.attacks.engine.option_checks import one_of
from gauntlet.threats.attacks.engine.outcome import reached
from gauntlet.threats.attacks.engine.pixels import Pixels
from gauntlet.threats.attacks.engine.problem import BatchProblem, Problem
from gauntlet.threats.attacks.engine.result import Result
from gauntlet.threats.attacks.engine.seeds import image_seed
from gauntlet.threats.passes import Passes


class Margins:
    """What DAG pursues on pixels: the margins of those that are still right."""

    steps, alpha = 200, 0.001

    def __init__(self, problem: Problem, threshold: float) -> None:
        self.problem, self.threshold = problem, threshold

    def look(self, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The gradient, (N, 3, H, W), what is won per image, int64 (N,), and whether that is enough, bool (N,)."""
        counts = self.problem.counts
        won = torch.zeros_like(counts)

        def visit(pixels: Pixels, part: slice) -> torch.Tensor:
            won[part] = pixels.fooled_counts
            return -signed_margin(pixels).clamp_min(0) * pixels.counted

        slope = self.problem.sweep(points, visit)
        return slope, won, reached(won, counts, self.threshold) | (counts == 0)

    def select(self, rows: torch.Tensor) -> Margins:
        """The pursuit of some of the images."""
        return Margins(self.problem.select(rows), self.threshold)


class LedProposals:
    """What DAG pursues on a detector: the scores of the clean image's proposals."""

    steps, alpha = 150, 0.5 / 255

    def __init__(self, problem: ObjectProblem, pursuit: Pursuit) -> None:
        self.problem, self.pursuit = problem, pursuit

    @classmethod
    def of(cls, problem: ObjectProblem, seeds: Sequence[int], strong: bool) -> LedProposals:
        """The pursuit of all images, with the proposals that it selects; `strong` as in `Pursuit`."""
        objects = [counted(each) for each in problem.truth]
        wanted = [counted(each) for each in problem.goal.wanted] if isinstance(problem.goal, TowardsTargets) else None
        drawn = [image_seed(seed, "classes") for seed in seeds]
        candidates = problem.candidates(problem.images)
        present = [each.classes for each in problem.truth]
        return cls(problem, Pursuit(select_proposals(candidates, objects, present, drawn, wanted), strong))

    def look(self, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """As `Margins.look`, counting proposals; an image is done when all of them are won."""
        slope = self.problem.differentiate(points, lambda inputs: self.pursuit(self.problem.model.candidates(inputs)))
        self.pursuit.first = False
        won = self.pursuit.won
        return slope, won.to(points.device), (won >= self.pursuit.selected).to(points.device)

    def select(self, rows: torch.Tensor) -> LedProposals:
        """The pursuit of some of the images."""
        return LedProposals(self.problem.select(rows), self.pursuit.select(rows))


@dataclass(frozen=True, kw_only=True)
class DenseAdversary(MinimumNorm):
    """DAG; an image stops at its first successful point.

    On a detector it stops when every selected proposal has left its object's class (docs/specs/attacks.md, 15).

    Attributes:
        alpha: the step γ in the attack's norm; None for 0.001 on pixels (Halmosi et al.: 0.001 and 0.003),
            0.5/255 on proposals.
        steps: at most so many; None for 200 on pixels, 150 on proposals.
        on_fail: what an image without success returns: its "last" point, or "clean" as adv_lib does.
        strong: detectors only: a proposal that has come to its wanted class must also be sure of it (Xie's code; False
            is the paper's algorithm); see `proposals.Pursuit`.
    """

    steps: Any = None
    alpha: Any = None
    on_fail: str = "last"
    strong: bool = False

    synonyms: ClassVar[Mapping[str, str]] = {"gamma": "alpha"}
    settled: ClassVar[Mapping[str, Any]] = {"random_start": False, "restarts": 1, "returns": "last"}

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.on_fail, "on_fail", ("last", "clean"))

    @property
    def tasks(self) -> tuple[str, ...]:
        return (DETECTION,) if self.strong else (SEGMENTATION, DETECTION)

    def passes(self, task: str = SEGMENTATION) -> Passes:
        pursuit = LedProposals if task == DETECTION else Margins
        steps = pursuit.steps if self.steps is None else self.steps
        look = Passes(forward=1)  # at the clean image's proposals, or at the points without success
        return self.posing_passes(task) + look + steps * Passes(self.samples, self.samples)

    def run(self, problem: BatchProblem, seeds: Sequence[int], start: torch.Tensor | None) -> Result:
        pursuit: Margins | LedProposals
        if isinstance(problem, ObjectProblem):
            pursuit = LedProposals.of(problem, seeds, self.strong)
        else:
            assert isinstance(problem, Problem)
            pursuit = Margins(problem, self.threshold)
        alpha = pursuit.alpha if self.alpha is None else self.alpha
        clean = problem.images
        points = clean.clone()
        fooled = torch.zeros_like(problem.counts)
        rows = torch.arange(len(points), device=points.device)
        shift = torch.zeros_like(points) if start is None else start - points
        for _ in range(pursuit.steps if self.steps is None else self.steps):
            wanted = clean + shift
            current = wanted.clamp(0, 1)
            slope, won, done = pursuit.look(current)
            points[rows[done]], fooled[rows[done]] = current[done], won[done]
            if done.any():
                kept = torch.nonzero(~done).flatten()
                rows, pursuit, clean = rows[kept], pursuit.select(kept), clean[kept]
                shift, wanted, current, slope = shift[kept], wanted[kept], current[kept], slope[kept]
                if len(rows) == 0:
                    break
            slope = slope * (wanted == current)  # the box lets no gradient through where it holds a pixel
            size = slope.abs().amax(dim=(1, 2, 3), keepdim=True) if self.norm == "linf" else image_length(slope)
            shift = shift + alpha * slope / size.clamp_min(1e-8)
        if len(rows) and self.on_fail == "last":
            points[rows] = (clean + shift).clamp(0, 1)
        if isinstance(problem, ObjectProblem):  # proposals are not what an image is judged by
            return self.smallest(problem, points, None, {})
        if len(rows):
            fooled[rows] = problem.select(rows).won(points[rows])
        return self.smallest(problem, points, fooled, {})

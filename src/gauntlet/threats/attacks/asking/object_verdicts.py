"""What the Square Attack lowers on a detector: the scores of its own detections, or the share that stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from gauntlet.samples import Boxes
from gauntlet.threats.attacks.asking.verdicts import Judge, Verdicts
from gauntlet.threats.attacks.detection.goals import TowardsTargets
from gauntlet.threats.attacks.detection.matching import ANY_SCORE, confident, counted, matched_detections
from gauntlet.threats.attacks.detection.problem import ObjectProblem


@dataclass(frozen=True)
class ObjectJudge(Judge):
    """Sums the scores of the detections that match given boxes.

    Attributes:
        problem: the images.
        boxes: the detector's own confident detections of the clean images, whose scores are to fall; with a target the
            wanted boxes, whose scores are to rise. None where the loss is the share of the goal that is not won.
    """

    problem: ObjectProblem
    boxes: tuple[Boxes, ...] | None

    def select(self, rows: torch.Tensor) -> ObjectJudge:
        boxes = None if self.boxes is None else tuple(self.boxes[row] for row in rows.tolist())
        return replace(self, problem=self.problem.select(rows), boxes=boxes)

    def judge(self, points: torch.Tensor) -> Verdicts:
        return self.of_detections(self.problem.detections(points))

    def of_detections(self, detected: Sequence[Boxes]) -> Verdicts:
        """The verdicts on what the detector found in every image."""
        problem = self.problem
        fooled = problem.won_by(detected)
        if self.boxes is None:
            return Verdicts((problem.counts - fooled).double(), fooled)
        sums = [matched_scores(boxes, found) for boxes, found in zip(self.boxes, detected, strict=True)]
        loss = torch.tensor(sums, dtype=torch.float64, device=fooled.device)
        return Verdicts(-loss if isinstance(problem.goal, TowardsTargets) else loss, fooled)


def first_look(problem: ObjectProblem, loss: str, confidence: float) -> tuple[ObjectJudge, Verdicts]:
    """The judge of some images, and what it says about the clean ones; one query.

    Args:
        problem: the images.
        loss: "margin" for scores, "accuracy" for the share.
        confidence: the score from which a detection of the clean image is one of the detector's own.
    """
    detected = problem.detections(problem.images)
    boxes: tuple[Boxes, ...] | None = None
    if loss == "margin" and isinstance(problem.goal, TowardsTargets):
        boxes = problem.goal.wanted
    elif loss == "margin":
        own = (confident(each, confidence).as_truth() for each in detected)
        boxes = tuple(problem.aim.marked(row, each) for row, each in enumerate(own))
    judge = ObjectJudge(problem, boxes)
    return judge, judge.of_detections(detected)


def matched_scores(boxes: Boxes, detected: Boxes) -> float:
    """The sum of the scores of the detections that find some boxes."""
    found = matched_detections(counted(boxes), detected, ANY_SCORE)
    scores = detected.scores
    return float((found >= 0).sum() if scores is None else scores[found[found >= 0]].sum())

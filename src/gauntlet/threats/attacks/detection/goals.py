"""What an attack on a detector wants: a value per image to drive up, and how much of it is reached."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn import functional

from gauntlet.models.contract import DetectionModel
from gauntlet.samples import Boxes
from gauntlet.threats.attacks.detection.aims import Aim
from gauntlet.threats.attacks.detection.matching import CONFIDENCE, confident, counted, f1, matched_detections, recall

LOSS, UNTARGETED, VANISHING, FABRICATION = "loss", "untargeted", "vanishing", "fabrication"
TO_LEAST_LIKELY, TO_MOST_LIKELY = "mislabeling-ll", "mislabeling-ml"
GOALS = (LOSS, UNTARGETED, VANISHING, FABRICATION, TO_LEAST_LIKELY, TO_MOST_LIKELY)
"""What an attack can want: the training loss of the ground truth up (or of the targets down), or a goal of TOG."""
ALMOST = 1 - 1e-6
"""The share where F1 is 0 but a detection of low score still finds an object: the attack is not done yet."""


class Goal(ABC):
    """What is wanted of every image of a batch."""

    @abstractmethod
    def select(self, rows: torch.Tensor) -> Goal:
        """The goal for some of the images."""

    @abstractmethod
    def value(self, model: DetectionModel, points: torch.Tensor) -> torch.Tensor:
        """What to maximise, (N,), differentiable."""

    @abstractmethod
    def share(self, detected: Sequence[Boxes]) -> list[float]:
        """How much of what it wants the attack has, in [0, 1], from the final detections; 1 is all there can be."""


def _rows(values: Sequence[Boxes], rows: torch.Tensor) -> tuple[Boxes, ...]:
    return tuple(values[row] for row in rows.tolist())


@dataclass(frozen=True)
class AwayFromLabels(Goal):
    """The largest training loss for some labels; without labels as many boxes as possible (TOG, untargeted).

    Attributes:
        labels: what the loss is computed with: the ground truth, or the detector's own clean detections.
        truth: what F1 is computed with.
        aim: which objects count.
        fabricate: whether an image without labels gets the loss of `Objectness` instead of the training loss.
    """

    labels: tuple[Boxes, ...]
    truth: tuple[Boxes, ...]
    aim: Aim
    fabricate: bool = False

    def select(self, rows: torch.Tensor) -> AwayFromLabels:
        return replace(self, labels=_rows(self.labels, rows), truth=_rows(self.truth, rows), aim=self.aim.select(rows))

    def value(self, model: DetectionModel, points: torch.Tensor) -> torch.Tensor:
        blank = torch.tensor([self.fabricate and len(counted(labels)) == 0 for labels in self.labels])
        if not blank.any():
            return model.losses(points, self.labels)
        parts: dict[int, torch.Tensor] = {}
        for rows, without in ((torch.nonzero(~blank).flatten(), False), (torch.nonzero(blank).flatten(), True)):
            if len(rows):
                part = points[rows.to(points.device)]
                values = (
                    objectness(model, part, self.aim.select(rows), 1)
                    if without
                    else model.losses(part, _rows(self.labels, rows))
                )
                parts.update(zip(rows.tolist(), values.unbind(), strict=True))
        return torch.stack([parts[row] for row in range(len(points))])

    def share(self, detected: Sequence[Boxes]) -> list[float]:
        shares = []
        for row, (truth, boxes) in enumerate(zip(self.truth, detected, strict=True)):
            near = self.aim.inside(row, boxes)
            lost = 1 - f1(truth, near)
            shares.append(min(lost, ALMOST) if lost == 1 and recall(truth, near) > 0 else lost)
        return shares


@dataclass(frozen=True)
class TowardsTargets(Goal):
    """The smallest training loss for wanted boxes and classes (targeted attacks; TOG, mislabelling).

    Attributes:
        wanted: boxes with the classes they are to get.
    """

    wanted: tuple[Boxes, ...]

    def select(self, rows: torch.Tensor) -> TowardsTargets:
        return replace(self, wanted=_rows(self.wanted, rows))

    def value(self, model: DetectionModel, points: torch.Tensor) -> torch.Tensor:
        return -model.losses(points, self.wanted)

    def share(self, detected: Sequence[Boxes]) -> list[float]:
        """Share of the wanted boxes that a confident detection of the wanted class stands at."""
        there = [
            matched_detections(counted(wanted), boxes) >= 0 for wanted, boxes in zip(self.wanted, detected, strict=True)
        ]
        return [float(each.mean()) if len(each) else 0.0 for each in there]


@dataclass(frozen=True)
class Objectness(Goal):
    """An objectness of `towards` at every candidate (TOG: 0 vanishing, 1 fabrication).

    Attributes:
        towards: 0 or 1.
        before: confident detections of the clean images.
        aim: which candidates count.
        confidence: the score from which a detection counts.
    """

    towards: int
    before: tuple[int, ...]
    aim: Aim
    confidence: float = CONFIDENCE

    def select(self, rows: torch.Tensor) -> Objectness:
        return replace(self, before=tuple(self.before[row] for row in rows.tolist()), aim=self.aim.select(rows))

    def value(self, model: DetectionModel, points: torch.Tensor) -> torch.Tensor:
        return objectness(model, points, self.aim, self.towards)

    def share(self, detected: Sequence[Boxes]) -> list[float]:
        """Vanishing: share of the clean image's detections that are gone. Fabrication: share of those that are new."""
        shares = []
        for row, (before, boxes) in enumerate(zip(self.before, detected, strict=True)):
            now = len(confident(self.aim.inside(row, boxes), self.confidence))
            if self.towards == 0:
                shares.append(1 - min(1.0, now / before) if before else float(now == 0))
            else:  # there is always room for another box
                shares.append(min(ALMOST, 1 - min(1.0, before / now)) if now else 0.0)
        return shares


def objectness(model: DetectionModel, points: torch.Tensor, aim: Aim, towards: int) -> torch.Tensor:
    """-Σ BCE(objectness logit, towards) over the candidates of each image, (N,) (docs/specs/attacks.md, 15).

    Candidates that only fill up a batch have the logit -inf and count for nothing.
    """
    candidates = model.candidates(points)
    logits = candidates.objectness
    counted = ~torch.isneginf(logits.detach())
    among = aim.among(candidates)
    if among is not None:
        counted &= among
    values = functional.softplus(torch.where(counted, -logits if towards else logits, torch.zeros_like(logits)))
    return -(values * counted).sum(1)

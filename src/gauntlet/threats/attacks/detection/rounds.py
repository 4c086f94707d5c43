"""The region-aware multi-attack on a detector: each round aims at the objects that are still detected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.errors import GauntletError
from gauntlet.metrics.detection.overlap import box_iou, ignored_objects
from gauntlet.samples import Boxes
from gauntlet.threats.attacks.detection.aims import aside
from gauntlet.threats.attacks.detection.goals import LOSS
from gauntlet.threats.attacks.detection.matching import IOU, matched_detections
from gauntlet.threats.attacks.detection.problem import ObjectProblem
from gauntlet.threats.attacks.detection.targets import wanted_boxes
from gauntlet.threats.attacks.engine.batch_call import BatchCall
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.outcome import Outcome, Queries
from gauntlet.threats.attacks.engine.problem import steady
from gauntlet.threats.attacks.engine.targets import Target


@dataclass
class RemainingObjects:
    """The objects of one image and what is left of them.

    Attributes:
        truth: the objects.
        counts: (n,) whether an object is neither a crowd nor difficult.
        finder: (n,) the detection of the clean image that finds each, or -1.
        open: (n,) whether it counts, is detected in the clean image and no round has won it yet.
        clean: the detections of the clean image.
        added: detections that took the place of lost objects.
    """

    truth: Boxes
    counts: npt.NDArray[np.bool_]
    finder: npt.NDArray[np.int64]
    open: npt.NDArray[np.bool_]
    clean: Boxes
    added: list[Boxes]

    @classmethod
    def of(cls, truth: Boxes, clean: Boxes) -> RemainingObjects:
        """Before the first round."""
        counts, finder = ~ignored_objects(truth), matched_detections(truth, clean)
        return cls(truth, counts, finder, counts & (finder >= 0), clean, [])

    @property
    def lost(self) -> npt.NDArray[np.bool_]:
        """(n,) the objects that count and are not open: never detected, or won by a round."""
        return self.counts & ~self.open

    def update(self, detected: Boxes, target: Target, classes: int) -> int:
        """Takes what a round has won; returns how many objects that are."""
        places = np.nonzero(self.open)[0]
        left = self.truth.select(self.open)
        if target is None:
            won = places[matched_detections(left, detected) < 0]
        else:
            (wanted,) = wanted_boxes(target, [left], classes)
            won = places[matched_detections(wanted, detected) >= 0]
        if len(won):
            self.open[won] = False
            near = box_iou(self.truth.xyxy[won], detected.xyxy).max(0, initial=0) >= IOU
            neighbours = matched_detections(self.truth.select(self.open), detected)
            near[neighbours[neighbours >= 0]] = False  # their clean detections stay
            self.added.append(detected.select(near))
        return len(won)

    def worst_case(self) -> Boxes:
        """The clean detections, with what the rounds saw instead of the objects that they won."""
        gone = self.finder[self.lost & (self.finder >= 0)]
        kept = self.clean.select(np.setdiff1d(np.arange(len(self.clean)), gone))
        parts = [kept, *self.added]
        scores = [np.ones(len(part), np.float32) if part.scores is None else part.scores for part in parts]
        return Boxes(
            np.concatenate([part.xyxy for part in parts]),
            np.concatenate([part.classes for part in parts]),
            np.concatenate(scores),
        )


def attack_objects_in_rounds(attack: Attack, rounds: int, call: BatchCall) -> Outcome:
    """Attacks a batch in rounds.

    Every round attacks the clean image anew and aims at the objects that the detector still finds. An object is lost
    when no confident detection of its class is left there (targeted: when one of the target class does). Lost
    objects are crowds in later rounds: as background they would draw the attack to keep them, which they still do on
    detectors that take crowds for background (see `aims.aside`).
    """
    if attack.object_goal != LOSS:
        raise GauntletError(
            f"'{attack.name}' aims at whole images, so that every round would be the same; use it without region-aware."
        )
    target, device = call.target, call.images.device
    if target is not None and target is not True and not isinstance(target, int):
        raise GauntletError("region-aware on a detector takes a class as its target.")
    with steady(call.model, device, 0):
        problem = attack.pose(call)
        assert isinstance(problem, ObjectProblem)
        record = RoundsRecord(problem, problem.detections(problem.images))
    call = replace(call, region=problem.region, fooling_region=None)
    for _ in range(rounds):
        rows = record.open_rows()
        if not rows:
            break
        here = torch.tensor(rows, device=device)
        outcome = attack.attack_batch(replace(call.select(here), labels=record.aims(rows)))
        with steady(call.model, device, 0):
            detected = problem.select(here).detections(outcome.images)
        record.add(rows, outcome, detected, target)
    return record.outcome(attack.threshold)


class RoundsRecord:
    """What the rounds so far have made of the images of a batch.

    Args:
        problem: the batch.
        clean: the detections of the clean images.
    """

    def __init__(self, problem: ObjectProblem, clean: Sequence[Boxes]) -> None:
        images, count = problem.images, len(problem)
        self.problem = problem
        self.objects = [RemainingObjects.of(truth, seen) for truth, seen in zip(problem.truth, clean, strict=True)]
        self.lost_before = self._lost()
        self.points, self.most = images.clone(), [0] * count
        self.norms = torch.zeros(count, dtype=torch.float64, device=images.device)
        self.forward, self.backward = problem.tally.forward.clone(), problem.tally.backward.clone()
        self.aimed_at: list[list[int]] = [[] for _ in range(count)]
        self.newly_lost: list[list[int]] = [[] for _ in range(count)]
        self.outcomes: list[Outcome] = []

    def _lost(self) -> list[int]:
        return [int(each.lost.sum()) for each in self.objects]

    def open_rows(self) -> list[int]:
        """Images with objects left to aim at."""
        return [row for row, each in enumerate(self.objects) if each.open.any()]

    def aims(self, rows: Sequence[int]) -> list[Boxes]:
        """The objects of some images, those that a round has won as crowds."""
        return [aside(self.objects[row].truth, ~self.objects[row].open) for row in rows]

    def add(self, rows: Sequence[int], outcome: Outcome, detected: Sequence[Boxes], target: Target) -> None:
        """Takes a round of some images: its outcome and what is detected in its images, in order."""
        self.forward[rows] += outcome.queries.forward
        self.backward[rows] += outcome.queries.backward
        for place, row in enumerate(rows):
            self.aimed_at[row].append(int(self.objects[row].open.sum()))
            new = self.objects[row].update(detected[place], target, self.problem.model.num_classes)
            self.newly_lost[row].append(new)
            if new > self.most[row] or len(self.newly_lost[row]) == 1:
                self.most[row] = new
                self.points[row], self.norms[row] = outcome.images[place], outcome.norms[place]
        self.outcomes.append(outcome)

    def outcome(self, threshold: float) -> Outcome:
        """The images of the round that won most, and the worst case per object."""
        device = self.points.device
        lost = torch.tensor(self._lost(), device=device)
        return Outcome(
            images=self.points,
            norms=self.norms,
            queries=Queries(self.forward, self.backward),
            threshold=threshold,
            counted=torch.tensor([int(each.counts.sum()) for each in self.objects], device=device),
            count_fooled=lambda: lost,
            details={
                "clean_fooled": self.lost_before,
                "fooling_objects": self.aimed_at,
                "newly_fooled": self.newly_lost,
            },
            region=self.problem.region,
            detections=[each.worst_case() for each in self.objects],
            rounds=tuple(self.outcomes),
            originals=self.problem.images,
        )

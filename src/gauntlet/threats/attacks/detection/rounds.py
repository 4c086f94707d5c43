"""The region-aware multi-attack on a detector: rounds that aim at what is still found, worst cases per object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.errors import GauntletError
from gauntlet.metrics.detection.overlap import box_iou, ignored_objects
from gauntlet.models.contract import DetectionModel
from gauntlet.samples import Boxes
from gauntlet.threats.attacks.detection.aims import aside
from gauntlet.threats.attacks.detection.matching import IOU, found_by
from gauntlet.threats.attacks.detection.problem import LOSS, ObjectProblem
from gauntlet.threats.attacks.detection.targets import wanted_boxes
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.inputs import expand_seeds
from gauntlet.threats.attacks.engine.outcome import Outcome, Queries
from gauntlet.threats.attacks.engine.problem import steady
from gauntlet.threats.attacks.engine.regions import Region
from gauntlet.threats.attacks.engine.targets import Target


@dataclass
class Standing:
    """The objects of one image and what is left of them.

    Attributes:
        truth: the objects.
        counts: (n,) whether an object is neither a crowd nor difficult.
        finder: (n,) the detection of the clean image that finds each, or -1.
        open: (n,) whether it counts, is found and no round has won it yet.
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
    def of(cls, truth: Boxes, clean: Boxes) -> Standing:
        """Before the first round."""
        counts, finder = ~ignored_objects(truth), found_by(truth, clean)
        return cls(truth, counts, finder, counts & (finder >= 0), clean, [])

    @property
    def lost(self) -> npt.NDArray[np.bool_]:
        """(n,) the objects that count and are not found, or no longer."""
        return self.counts & ~self.open

    def update(self, detected: Boxes, target: Target, classes: int) -> int:
        """Takes what a round has won; returns how many objects that are."""
        places = np.nonzero(self.open)[0]
        left = self.truth.select(self.open)
        if target is None:
            won = places[found_by(left, detected) < 0]
        else:
            (wanted,) = wanted_boxes(target, [left], classes)
            won = places[found_by(wanted, detected) >= 0]
        if len(won):
            self.open[won] = False
            near = box_iou(self.truth.xyxy[won], detected.xyxy).max(0, initial=0) >= IOU
            neighbours = found_by(self.truth.select(self.open), detected)
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


def attack_objects_in_rounds(
    attack: Attack,
    rounds: int,
    model: DetectionModel,
    images: torch.Tensor,
    boxes: Sequence[Boxes],
    target: Target,
    region: Region,
    fooling_region: Region,
    seed: int | Sequence[int],
) -> Outcome:
    """Attacks a batch; arguments as for any attack.

    Every round attacks the clean image anew and aims at the objects that the detector still finds. An object is lost
    when no confident detection of its class stands there any more (targeted: when one of the target class does). Lost
    objects are crowds in later rounds: as background they would draw the attack to keep them, which they still do on
    detectors that take crowds for background (see `aims.aside`).
    """
    if attack.object_goal != LOSS:
        raise GauntletError(
            f"'{attack.name}' aims at whole images, so that every round would be the same; use it without region-aware."
        )
    target = attack.target if target is None else target
    if target is not None and target is not True and not isinstance(target, int):
        raise GauntletError("region-aware on a detector takes a class as its target.")
    seeds = expand_seeds(seed, len(images))
    with steady(model, images.device, 0):
        problem = attack.pose(model, images, boxes, target, region, fooling_region, seeds)
        assert isinstance(problem, ObjectProblem)
        clean = problem.detections(problem.images)
    standings = [Standing.of(truth, found) for truth, found in zip(problem.truth, clean, strict=True)]
    lost_before = [int(each.lost.sum()) for each in standings]
    outcomes: list[Outcome] = []
    points, norms = problem.images.clone(), torch.zeros(len(images), dtype=torch.float64, device=images.device)
    forward, backward = problem.tally.forward.clone(), problem.tally.backward.clone()
    most = [0] * len(images)
    aims: list[list[int]] = [[] for _ in standings]
    news: list[list[int]] = [[] for _ in standings]
    for _ in range(rounds):
        rows = [row for row, each in enumerate(standings) if each.open.any()]
        if not rows:
            break
        here = torch.tensor(rows, device=images.device)
        left = [aside(standings[row].truth, ~standings[row].open) for row in rows]
        mask = None if problem.region is None else problem.region[here]
        outcome = attack(model, images[here], left, target, mask, None, [seeds[row] for row in rows])
        with steady(model, images.device, 0):
            found = problem.select(here).detections(outcome.images)
        forward[rows] += outcome.queries.forward
        backward[rows] += outcome.queries.backward
        for place, row in enumerate(rows):
            aims[row].append(int(standings[row].open.sum()))
            new = standings[row].update(found[place], target, model.num_classes)
            news[row].append(new)
            if new > most[row] or len(news[row]) == 1:
                most[row], points[row], norms[row] = new, outcome.images[place], outcome.norms[place]
        outcomes.append(outcome)
    lost = torch.tensor([int(each.lost.sum()) for each in standings], device=images.device)
    return Outcome(
        images=points,
        norms=norms,
        queries=Queries(forward, backward),
        threshold=attack.threshold,
        counted=torch.tensor([int(each.counts.sum()) for each in standings], device=images.device),
        count_fooled=lambda: lost,
        details={"clean_fooled": lost_before, "fooling_objects": aims, "newly_fooled": news},
        region=problem.region,
        detections=[each.worst_case() for each in standings],
        rounds=tuple(outcomes),
    )

"""A batch of images with boxes under attack, and how it is posed: the counterpart of pixels with labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from gauntlet.errors import GauntletError, NotFiniteError
from gauntlet.metrics.detection.overlap import box_iou
from gauntlet.models.contract import Candidates, DetectionModel
from gauntlet.samples import Boxes
from gauntlet.threats.attacks.detection.aims import Aim, parse_aim, pixel_mask
from gauntlet.threats.attacks.detection.goals import (
    FABRICATION,
    LOSS,
    TO_LEAST_LIKELY,
    TO_MOST_LIKELY,
    UNTARGETED,
    AwayFromLabels,
    Goal,
    Objectness,
    TowardsTargets,
)
from gauntlet.threats.attacks.detection.matching import confident, counted, f1, recall
from gauntlet.threats.attacks.detection.targets import wanted_boxes
from gauntlet.threats.attacks.engine.losses import PixelLoss
from gauntlet.threats.attacks.engine.problem import (
    NO_GRADIENT,
    BatchProblem,
    PassResult,
    Tally,
    Wanted,
)
from gauntlet.threats.attacks.engine.request import Request

WHOLE = 720720
"""Shares of F1 are counted in units of one WHOLE-th; divisible by 1 to 16, so that the usual fractions stay exact."""
SAMPLER_SEED = 0


@dataclass(frozen=True)
class ObjectProblem(BatchProblem):
    """Images of one batch whose objects have boxes, and a detector.

    Attributes:
        model: the detector.
        truth: the objects of every image; those that are not aimed at count for nothing, as crowds do.
        goal: what the attack wants.
        aim: which objects count.
        open: bool (N,), whether there is something to attack in an image.
    """

    metrics = ("f1", "recall")
    count_every = 10

    model: DetectionModel
    truth: tuple[Boxes, ...]
    goal: Goal
    aim: Aim
    open: torch.Tensor

    @property
    def counts(self) -> torch.Tensor:
        """WHOLE where there is something to attack, int64 (N,)."""
        return self.open.long() * WHOLE

    def select(self, rows: torch.Tensor) -> ObjectProblem:
        rows = rows.to(self.images.device)
        return replace(
            self,
            images=self.images[rows],
            region=None if self.region is None else self.region[rows],
            rows=self.rows[rows.to(self.rows.device)],
            truth=tuple(self.truth[row] for row in rows.tolist()),
            goal=self.goal.select(rows),
            aim=self.aim.select(rows),
            open=self.open[rows],
        )

    def answer(self, points: torch.Tensor, loss: PixelLoss, progress: float, wanted: Wanted) -> PassResult:
        values = points.new_empty(0)

        def objective(inputs: torch.Tensor) -> torch.Tensor:
            nonlocal values
            values = self.goal.value(self.model, inputs)
            return values

        if wanted.gradient:
            slope = self.differentiate(points, objective)
        else:
            slope = points.new_empty(0)
            if wanted.track:
                with torch.no_grad():
                    self._ask(points, objective)
        fooled = self.won(points) if wanted.count else torch.empty(0, dtype=torch.int64, device=points.device)
        return PassResult(slope, fooled, values.detach().to(points.dtype) if wanted.track else points.new_empty(0))

    def differentiate(self, points: torch.Tensor, objective: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """The gradient of the sum of an objective per image, (N, 3, H, W), averaged over `samples`."""
        return self.averaged(points, lambda: self._gradient(points, objective))

    def _gradient(self, points: torch.Tensor, objective: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        inputs = points.detach().requires_grad_(True)
        values = self._ask(inputs, objective)
        if not values.requires_grad:
            raise GauntletError(NO_GRADIENT)
        (gradient,) = torch.autograd.grad(values.sum(), inputs, allow_unused=True)
        if gradient is None:
            raise GauntletError(NO_GRADIENT)
        self.tally.backward[self.rows] += 1
        return self.cleaned(gradient)

    def _ask(self, points: torch.Tensor, objective: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """The objective at some points, checked; a detector that samples draws the same at every step."""
        if self.samples == 1:
            torch.manual_seed(SAMPLER_SEED)
        with self.telling_the_pass():
            with self.asking(points):
                values = objective(points)
            return self._checked(values, points)

    def _checked(self, values: Any, points: torch.Tensor) -> torch.Tensor:
        """Values of an objective, one number per image."""
        if not isinstance(values, torch.Tensor) or tuple(values.shape) != (len(points),):
            shape = tuple(values.shape) if isinstance(values, torch.Tensor) else type(values).__name__
            raise GauntletError(
                f"the detector's losses have the shape {shape}; expected one per image, ({len(points)},)."
            )
        if not torch.isfinite(values.detach()).all():
            raise NotFiniteError(
                "the detector's loss is NaN or infinite under attack; check the model and its precision."
            )
        return values

    def detections(self, points: torch.Tensor) -> list[Boxes]:
        """What the detector finds in each image; one forward pass."""
        with torch.no_grad(), self.telling_the_pass(), self.asking(points):
            detected = self.model.predict(points)
        if len(detected) != len(points):
            raise GauntletError(f"the detector returned boxes for {len(detected)} images of {len(points)}.")
        return detected

    def candidates(self, points: torch.Tensor) -> Candidates:
        """What the detector proposes before suppression, without a gradient; one forward pass."""
        with torch.no_grad(), self.asking(points):
            return self.model.candidates(points)

    def won(self, points: torch.Tensor) -> torch.Tensor:
        return self.won_by(self.detections(points))

    def won_by(self, detected: Sequence[Boxes]) -> torch.Tensor:
        """How much the attack has of what it wants where these are the detections of every image, int64 (N,)."""
        shares = torch.tensor(self.goal.share(detected), dtype=torch.float64)
        return (shares * WHOLE).round().long().to(self.open.device) * self.open

    def figures(self, points: torch.Tensor) -> dict[str, torch.Tensor]:
        near = [self.aim.inside(row, each) for row, each in enumerate(self.detections(points))]
        missing = torch.tensor([not self.aim.everything and len(counted(truth)) == 0 for truth in self.truth])
        return {
            metric: torch.tensor(
                [figure(truth, detected) for truth, detected in zip(self.truth, near, strict=True)], dtype=torch.float64
            ).masked_fill(missing, float("nan"))
            for metric, figure in (("f1", f1), ("recall", recall))
        }


def pose_objects(model: DetectionModel, images: torch.Tensor, boxes: Any, request: Request) -> ObjectProblem:
    """The problem that an attack on a detector solves.

    Args:
        model: the detector.
        images: (N, 3, H, W) in [0, 1].
        boxes: the objects of each image, one `Boxes` per image.
        request: what the attack wants.
    """
    check_boxes(boxes, images, model.num_classes)
    aim = parse_aim(request.fooling_region, images, request.seeds)
    truth = tuple(aim.marked(row, each) for row, each in enumerate(boxes))
    something = torch.tensor([aim.everything or len(counted(each)) > 0 for each in truth], device=images.device)
    problem = ObjectProblem(
        model=model,
        images=images.detach().clone() if images.is_inference() else images.detach(),
        region=pixel_mask(request.region, images, "region", request.seeds),
        samples=request.samples,
        precision=request.precision,
        rows=torch.arange(len(images)),
        tally=Tally.of(len(images)),
        seeds=request.seeds,
        truth=truth,
        goal=AwayFromLabels(truth, truth, aim),
        aim=aim,
        open=something,
    )
    if request.goal != LOSS:
        return _with_own_detections(problem, request)
    if request.target is None:
        return problem
    return _towards(problem, wanted_boxes(request.target, truth, model.num_classes))


def _with_own_detections(problem: ObjectProblem, request: Request) -> ObjectProblem:
    """The problem of a goal of TOG, which is about what the detector itself says about the clean images."""
    goal, target, aim = request.goal, request.target, problem.aim
    own = [
        aim.marked(row, confident(each, request.confidence).as_truth())
        for row, each in enumerate(problem.detections(problem.images))
    ]
    if goal in (TO_LEAST_LIKELY, TO_MOST_LIKELY):
        if target is None:
            return _towards(problem, _other_classes(problem, own, goal, request.confidence))
        return _towards(problem, wanted_boxes(target, own, problem.model.num_classes))
    if target is not None:
        raise GauntletError(f"the goal '{goal}' has no target; use the goal of mislabelling, or pgd with a target.")
    everywhere = torch.ones_like(problem.open)
    if goal == UNTARGETED:
        return replace(problem, goal=AwayFromLabels(tuple(own), problem.truth, aim, fabricate=True), open=everywhere)
    before = tuple(len(counted(each)) for each in own)
    objectness = Objectness(int(goal == FABRICATION), before, aim, request.confidence)
    return replace(problem, goal=objectness, open=everywhere)


def _towards(problem: ObjectProblem, wanted: Sequence[Boxes]) -> ObjectProblem:
    """The problem of reaching wanted boxes; an image that has none is not attacked."""
    there = torch.tensor([len(counted(each)) > 0 for each in wanted], device=problem.images.device)
    return replace(problem, goal=TowardsTargets(tuple(wanted)), open=there)


def _other_classes(problem: ObjectProblem, own: Sequence[Boxes], goal: str, confidence: float) -> list[Boxes]:
    """TOG's targets: the least likely class of each detection, or the most likely one that is not detected there.

    The classes of a detection are scored by the candidate that it came from: among those that overlap it most, the one
    with the highest score for its class. Probabilities are sigmoids of the logits.
    """
    if problem.model.num_classes < 2:
        raise GauntletError("mislabelling needs a detector with at least 2 classes.")
    candidates = problem.candidates(problem.images)
    wanted = []
    for row, boxes in enumerate(own):
        scores = candidates.scores[row].cpu().double().numpy()
        overlap = box_iou(boxes.xyxy, candidates.boxes[row].cpu().numpy())
        classes = np.empty(len(boxes), np.int64)
        for index, detected in enumerate(boxes.classes):
            near = overlap[index] >= overlap[index].max() - 1e-6
            logits = np.array(scores[np.where(near, scores[:, detected], -np.inf).argmax()])
            logits[detected] = np.inf if goal == TO_LEAST_LIKELY else -np.inf
            if goal == TO_MOST_LIKELY:
                quiet = np.where(1 / (1 + np.exp(-logits)) <= confidence, logits, -np.inf)
                logits = quiet if np.isfinite(quiet).any() else logits
            classes[index] = logits.argmin() if goal == TO_LEAST_LIKELY else logits.argmax()
        wanted.append(replace(boxes, classes=classes))
    return wanted


def check_boxes(boxes: Any, images: torch.Tensor, num_classes: int) -> None:
    """Raises unless there is one `Boxes` per image with classes that the detector knows."""
    if not isinstance(boxes, Sequence) or not all(isinstance(each, Boxes) for each in boxes):
        raise GauntletError(
            "a detector is attacked with boxes; give one gauntlet.samples.Boxes per image instead of label maps."
        )
    if len(boxes) != len(images):
        raise GauntletError(f"boxes of {len(boxes)} images were given for {len(images)} images; give one per image.")
    for each in boxes:
        outside = each.classes[(each.classes < 0) | (each.classes >= num_classes)]
        if len(outside):
            raise GauntletError(
                f"a box has class {int(outside[0])}, but the detector has {num_classes} classes "
                f"(0 to {num_classes - 1}); check the dataset."
            )

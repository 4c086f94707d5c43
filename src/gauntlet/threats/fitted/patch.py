"""One patch for all images, fitted over its places: Adam on segmentation models, sign steps on detectors.

docs/specs/beyond.md, 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.contract import GauntletModel
from gauntlet.numbers import parse_number
from gauntlet.samples import Batch, Boxes
from gauntlet.seeding import ImageSeed, numpy_generator
from gauntlet.tasks import DETECTION, get_task, task_of
from gauntlet.threats.artifacts import Artifact
from gauntlet.threats.attacks.detection.goals import FABRICATION, UNTARGETED, VANISHING, TowardsTargets
from gauntlet.threats.attacks.detection.problem import ObjectProblem, pose_objects
from gauntlet.threats.attacks.engine.device import bridge
from gauntlet.threats.attacks.engine.option_checks import check_unit_scale
from gauntlet.threats.attacks.engine.posing import pose_pixels
from gauntlet.threats.attacks.engine.problem import Problem, steady
from gauntlet.threats.attacks.engine.request import Request
from gauntlet.threats.fitted.fit_images import Tell, fit_facts, load_batches, model_seeds, quiet
from gauntlet.threats.fitted.patch_losses import (
    DYNAMIC,
    PLAIN,
    Gamma,
    composed_direction,
    default_colors,
    pixel_terms,
    printability,
    smoothness,
    unit,
)
from gauntlet.threats.fitted.placing import Laid, Placement, lay, paste
from gauntlet.threats.fitted.universal import class_index, predicted

KIND = "patch"
GOALS = (UNTARGETED, VANISHING, FABRICATION)
SHARE, ASPECT = 0.04, 2.0
"""The usual patch: four hundredths of the image, twice as wide as high."""

BETAS = (0.9, 0.999)
"""Of Adam."""


@dataclass(frozen=True, kw_only=True)
class PatchRule:
    """How a patch is fitted.

    Attributes:
        size: height and width in pixels; None for `SHARE` of the first image's area.
        steps: updates of the patch, each from one batch of images.
        batch: images per update.
        rate: length of a step; 0.05 (Adam) for segmentation, 2/255 (sign) for detection.
        gamma: segmentation only, see `patch_losses.Gamma`.
        goal: detection only: "untargeted" (the loss of the detector's own clean detections up), "vanishing",
            "fabrication".
        target: class, by name or index, that everything outside the patch is to become; on a detector the class of
            one box, the patch.
        smoothness, printability: weights of the two regularisers, against the attack's own direction of length 1.
        colors: printable colours in [0, 1]; a coarse set of 27 by default.
        placement: where it may lie and how it may look.
        seed: of all draws.
    """

    size: tuple[int, int] | None = None
    steps: int = 200
    batch: int = 8
    rate: float | str | None = None
    gamma: Gamma = DYNAMIC
    goal: str = UNTARGETED
    target: int | str | None = None
    smoothness: float = 0.0
    printability: float = 0.0
    colors: tuple[tuple[float, float, float], ...] | None = None
    placement: Placement = field(default_factory=Placement)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.size is not None and (len(self.size) != 2 or min(self.size) < 1):
            raise GauntletError(f"the size of a patch is a height and a width in pixels from 1 on, not {self.size}.")
        if self.steps < 0 or self.batch < 1:
            raise GauntletError("steps of a patch are a whole number from 0 on, and batch one from 1 on.")
        if self.goal not in GOALS:
            raise unknown_name("goal of a patch", self.goal, GOALS)
        if isinstance(self.gamma, str) and self.gamma not in (DYNAMIC, PLAIN):
            raise unknown_name("gamma of a patch", self.gamma, (DYNAMIC, PLAIN))
        if not isinstance(self.gamma, str) and not 0 <= self.gamma <= 1:
            raise GauntletError(f"gamma of a patch lies in 0 to 1, or is '{DYNAMIC}' or '{PLAIN}', not {self.gamma}.")
        if min(self.smoothness, self.printability) < 0:
            raise GauntletError("smoothness and printability of a patch are weights from 0 on.")
        if self.rate is not None and parse_number(self.rate, "rate") <= 0:
            raise GauntletError(f"the rate of a patch lies above 0, not {self.rate}.")
        if self.rate is not None:
            check_unit_scale(self.rate, "the rate of a patch", "linf")

    def rate_for(self, task: str) -> float:
        """Length of a step on the [0, 1] scale."""
        if self.rate is not None:
            return parse_number(self.rate, "rate")
        return 2 / 255 if task == DETECTION else 0.05

    def describe(self, task: str) -> dict[str, Any]:
        """JSON-able; what does not concern the task is left out."""
        described: dict[str, Any] = {"steps": self.steps, "batch": self.batch, "rate": self.rate_for(task)}
        described |= {"goal": self.goal} if task == DETECTION else {"gamma": self.gamma}
        for name in ("target", "smoothness", "printability", "colors"):
            if getattr(self, name):
                described[name] = getattr(self, name)
        return {**described, "placement": self.placement.describe()}


Direction = Callable[[torch.Tensor, int, Batch, Sequence[Laid | None]], tuple[torch.Tensor, float]]
"""Where to move a patch (a leaf that requires gradients) for a batch, and what is maximised there.

Takes the patch, the number of the batch, the batch and where the patch lies in its images.
"""


def usual_size(height: int, width: int) -> tuple[int, int]:
    """Height and width of the usual patch in an image."""
    side = math.sqrt(SHARE * height * width / ASPECT)
    return max(1, round(side)), max(1, round(ASPECT * side))


def laid_in(batch: Batch, placement: Placement, patch: tuple[int, int], seeds: Sequence[int]) -> list[Laid | None]:
    """Where the patch lies in each image of a batch; the seed of an image does not depend on its batch mates."""
    return [lay(placement, sample, patch, seed) for sample, seed in zip(batch.samples, seeds, strict=True)]


def step_seeds(batch: Batch, seed: int, step: int) -> list[int]:
    """One seed per image for the places of a step."""
    return [ImageSeed(seed, sample.id).stream(f"patch|{step}") for sample in batch.samples]


def fit_loop(
    start: torch.Tensor, batches: Sequence[Batch], direction: Direction, rule: PatchRule, task: str, tell: Tell = quiet
) -> torch.Tensor:
    """The patch after all steps, (3, a, b) in [0, 1].

    Args:
        start: (3, a, b).
        batches: the fit set; each step takes the next one, in an order that is drawn anew for every pass.
        direction: of a step, of unit length for segmentation.
        rule: how.
        task: "segmentation" (Adam) or "detection" (sign steps).
        tell: told once per step.
    """
    patch = start.clone().requires_grad_(True)
    rate = rule.rate_for(task)
    first, second = torch.zeros_like(start), torch.zeros_like(start)  # Adam's moments
    colors = default_colors() if rule.colors is None else torch.tensor(rule.colors)
    size = (start.shape[1], start.shape[2])
    for step, number in zip(range(rule.steps), _order(len(batches), rule.seed), strict=False):
        batch = batches[number]
        laid = laid_in(batch, rule.placement, size, step_seeds(batch, rule.seed, step))
        towards, value = direction(patch, number, batch, laid)
        if rule.smoothness:
            towards = towards - rule.smoothness * unit(torch.autograd.grad(smoothness(patch), patch)[0])
        if rule.printability:
            towards = towards - rule.printability * unit(torch.autograd.grad(printability(patch, colors), patch)[0])
        with torch.no_grad():
            if task == DETECTION:
                patch += rate * towards.sign()
            else:
                first = BETAS[0] * first + (1 - BETAS[0]) * towards
                second = BETAS[1] * second + (1 - BETAS[1]) * towards.square()
                mean, square = (
                    each / (1 - beta ** (step + 1)) for each, beta in zip((first, second), BETAS, strict=True)
                )
                patch += rate * mean / (square.sqrt() + 1e-8)
            patch.clamp_(0, 1)
        tell(value)
    return patch.detach()


def _order(count: int, seed: int) -> Iterator[int]:
    """Numbers of batches without end: every pass over the fit set is another permutation; one batch stays one."""
    draws = numpy_generator(ImageSeed(seed, "").stream("patch|order"))
    while True:
        yield from draws.permutation(count).tolist()


def pixel_direction(problems: Sequence[Problem], gamma: Gamma, *, targeted: bool = False) -> Direction:
    """The direction of Nesti et al.: pixels that are still right and pixels that are wrong, weighed by gamma.

    Args:
        problems: one per batch; their labels are the truth, or the target.
        gamma: see `patch_losses.Gamma`.
        targeted: whether the labels are the target: their cross-entropy is minimised.
    """

    def direction(
        patch: torch.Tensor, number: int, batch: Batch, laid: Sequence[Laid | None]
    ) -> tuple[torch.Tensor, float]:
        problem = problems[number]
        points, masks = paste(problem.images, patch, laid)
        terms = pixel_terms(
            problem.logits(points), problem.labels, problem.counted & ~masks, PLAIN if targeted else gamma
        )
        if all(each is None for each in laid):
            return torch.zeros_like(patch), 0.0
        value = float(terms.right.detach() + (0 if terms.gamma == 1 else terms.wrong.detach()))
        towards = composed_direction(terms, patch)
        return (-towards, -value) if targeted else (towards, value)

    return direction


def object_direction(problems: Sequence[ObjectProblem], target: int | None) -> Direction:
    """The gradient of a detector's goal; with a target class, of one box: the patch (DPatch).

    Args:
        problems: one per batch.
        target: class of the box, or None.
    """

    def direction(
        patch: torch.Tensor, number: int, batch: Batch, laid: Sequence[Laid | None]
    ) -> tuple[torch.Tensor, float]:
        problem = problems[number]
        points, masks = paste(problem.images, patch, laid)
        goal = problem.goal if target is None else TowardsTargets(tuple(_patch_box(mask, target) for mask in masks))
        value = 0.0

        def objective(inputs: torch.Tensor) -> torch.Tensor:
            nonlocal value
            values = goal.value(problem.model, inputs)
            value = float(values.detach().sum())
            return values

        slope = problem.differentiate(points, objective)
        if not points.requires_grad:  # the patch lies in none of these images
            return torch.zeros_like(patch), value
        (towards,) = torch.autograd.grad(points, patch, slope.to(points))
        return towards, value

    return direction


def _patch_box(mask: torch.Tensor, target: int) -> Boxes:
    """The box around a patch, of one class; none where there is no patch."""
    rows, columns = (each.cpu().numpy() for each in torch.nonzero(mask, as_tuple=True))
    if not len(rows):
        return Boxes(np.zeros((0, 4), np.float32), np.zeros(0, np.int64))
    corners = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    return Boxes(np.array([corners], np.float32), np.array([target], np.int64))


def fit_patch(model: GauntletModel, dataset: Dataset, rule: PatchRule | None = None, tell: Tell = quiet) -> Artifact:
    """Fits a patch on the images of a dataset; they are held in memory.

    The artifact also holds what it is compared with: a crop of an image of the fit set, of the same size.

    Args:
        model: what it is fitted against; frozen.
        dataset: the fit set; evaluate on another split.
        rule: how.
        tell: told once per step.
    """
    rule = rule or PatchRule()
    task = task_of(model)
    batches = load_batches(dataset, model, rule.batch)
    size = rule.size or usual_size(*batches[0].images.shape[2:])
    target = None if rule.target is None else class_index(rule.target, get_task(task).class_names(dataset))
    crop = _crop(batches, size, rule.seed)
    with steady(model, model.device, rule.seed):
        if task == DETECTION:
            direction = object_direction([_pose_objects(model, batch, rule) for batch in batches], target)
        else:
            problems = [_pose_pixels(model, batch, rule, target) for batch in batches]
            direction = pixel_direction(problems, rule.gamma, targeted=target is not None)
        start = torch.full((3, *size), 0.5)
        patch = fit_loop(start, batches, direction, rule, task, tell)
    facts = {**fit_facts(model, dataset, rule.seed), **rule.describe(task)}
    if target is not None:
        facts["target"] = target
    return Artifact(KIND, {"patch": patch, "crop": crop}, facts)


def _pose_pixels(model: Any, batch: Batch, rule: PatchRule, target: int | None) -> Problem:
    if batch.labels is None:
        labels, void = predicted(model, batch).to(batch.images.device), None
    else:
        labels, void = batch.labels, batch.ignore_index
    bridged, images, truth = bridge(model, batch.images, labels)
    request = Request(seeds=model_seeds(batch, rule.seed, KIND), ignore_index=void)
    problem = pose_pixels(bridged, images, truth, request)
    return problem if target is None else replace(problem, labels=torch.full_like(problem.labels, target))


def _pose_objects(model: Any, batch: Batch, rule: PatchRule) -> ObjectProblem:
    bridged, images, boxes = bridge(model, batch.images, batch.boxes)
    request = Request(goal=rule.goal, seeds=model_seeds(batch, rule.seed, KIND))
    return pose_objects(bridged, images, boxes, request)


def _crop(batches: Sequence[Batch], size: tuple[int, int], seed: int) -> torch.Tensor:
    """A piece of an image of the fit set, (3, a, b): what a harmless poster would show."""
    draws = numpy_generator(ImageSeed(seed, "").stream("patch|crop"))
    batch = batches[int(draws.integers(len(batches)))]
    image = batch.images[int(draws.integers(len(batch)))].cpu()
    if image.shape[1] < size[0] or image.shape[2] < size[1]:
        raise GauntletError(f"a patch of {size[0]}x{size[1]} pixels is larger than an image of the fit set.")
    top, left = (int(draws.integers(of - side + 1)) for of, side in zip(image.shape[1:], size, strict=True))
    return image[:, top : top + size[0], left : left + size[1]].clone()

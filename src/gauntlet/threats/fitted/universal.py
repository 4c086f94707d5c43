"""One perturbation for all images, fitted by sign steps on the mean gradient of a fit set.

Metzen et al. 2017; docs/specs/beyond.md, 6.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.contract import GauntletModel
from gauntlet.models.randomness import AttackDraws, drawing, random_parts
from gauntlet.numbers import parse_number
from gauntlet.samples import Batch
from gauntlet.tasks import DETECTION, get_task, task_of
from gauntlet.threats.artifacts import Artifact
from gauntlet.threats.attacks.detection.goals import FABRICATION, UNTARGETED, VANISHING
from gauntlet.threats.attacks.detection.problem import ObjectProblem, pose_objects
from gauntlet.threats.attacks.engine.constraints import NORMS, largest_at_most
from gauntlet.threats.attacks.engine.device import bridge
from gauntlet.threats.attacks.engine.labels import label_map
from gauntlet.threats.attacks.engine.option_checks import check_unit_scale
from gauntlet.threats.attacks.engine.posing import pose_pixels
from gauntlet.threats.attacks.engine.problem import steady
from gauntlet.threats.attacks.engine.request import Request
from gauntlet.threats.fitted.fit_images import Tell, fit_facts, load_batches, model_seeds, quiet
from gauntlet.threats.fitted.tiles import folded, tiled, tiled_length
from gauntlet.threats.fitted.universal_targets import PixelAim, without_class

_LOGGER = logging.getLogger(__name__)
KIND = "universal"
STATIC, HIDE = "static", "hide"
SEGMENTATION_AIMS = (UNTARGETED, STATIC, HIDE)
DETECTION_AIMS = (UNTARGETED, VANISHING, FABRICATION, HIDE)


@dataclass(frozen=True, kw_only=True)
class UniversalRule:
    """How a universal perturbation is fitted.

    Attributes:
        epsilon: norm of the perturbation at most, on the [0, 1] scale, "10/255" as text.
        norm: "linf", or "l2" of the tile repeated over an image of the fit set.
        alpha: length of a step; 1/255 for linf, a tenth of epsilon for l2.
        passes: over the fit set.
        batch: images per update; None for one update per pass, from the mean over all images.
        tile: (height, width) of the perturbation, repeated over an image; None for the size of the first image.
        aim: "untargeted"; for segmentation also "static" (one label map everywhere) and "hide" (a class takes the
            labels of what surrounds it); for detection also "vanishing", "fabrication" and "hide" (a class vanishes).
        hide: the class to hide, by name or index.
        scene: which image of the fit set, in the order of its ids, has the prediction that a static target is.
        sure: pixels whose target has more probability than this are left out (tau).
        weight: of the pixels of the hidden class; the others have 1 - weight (omega).
        seed: of what a random model draws.
    """

    epsilon: float | str = "10/255"
    norm: str = "linf"
    alpha: float | str | None = None
    passes: int = 60
    batch: int | None = None
    tile: tuple[int, int] | None = None
    aim: str = UNTARGETED
    hide: int | str | None = None
    scene: int = 0
    sure: float = 0.75
    weight: float = 0.9999
    seed: int = 0

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise unknown_name("norm", str(self.norm), NORMS)
        if self.radius <= 0 or self.step <= 0:
            raise GauntletError(f"epsilon and alpha must lie above 0, not {self.epsilon} and {self.alpha}.")
        check_unit_scale(self.epsilon, "epsilon", self.norm)
        check_unit_scale(self.step if self.alpha is None else self.alpha, "alpha", self.norm)
        if self.passes < 1 or (self.batch is not None and self.batch < 1):
            raise GauntletError("passes and batch are whole numbers from 1 on.")
        if self.tile is not None and (len(self.tile) != 2 or min(self.tile) < 1):
            raise GauntletError(f"tile is a height and a width in pixels from 1 on, not {self.tile}.")
        if (self.aim == HIDE) != (self.hide is not None):
            raise GauntletError("the aim 'hide' and the class to hide belong together: aim='hide', hide='car'.")
        if not (0 < self.sure <= 1 and 0 < self.weight <= 1):
            raise GauntletError(f"sure and weight lie above 0 and up to 1, not {self.sure} and {self.weight}.")

    @property
    def radius(self) -> float:
        """Epsilon as a number."""
        return parse_number(self.epsilon, "epsilon")

    @property
    def step(self) -> float:
        """Alpha as a number."""
        if self.alpha is not None:
            return parse_number(self.alpha, "alpha")
        return 1 / 255 if self.norm == "linf" else self.radius / 10

    def describe(self) -> dict[str, Any]:
        """JSON-able; what does not concern the aim is left out."""
        described: dict[str, Any] = {
            "epsilon": self.radius,
            "norm": self.norm,
            "alpha": self.step,
            "passes": self.passes,
            "batch": self.batch,
            "aim": self.aim,
        }
        if self.aim in (STATIC, HIDE):
            described |= {"sure": self.sure}
        if self.aim == HIDE:
            described |= {"hide": self.hide, "weight": self.weight}
        return described


class Aimed(Protocol):
    """A batch, and the gradient of what is wanted of it."""

    @property
    def images(self) -> torch.Tensor:
        """(N, 3, H, W), clean."""

    def gradient(self, points: torch.Tensor) -> tuple[torch.Tensor, float]:
        """Of what is maximised, (N, 3, H, W), and its sum over the images."""


@dataclass(frozen=True)
class ObjectAim:
    """What a perturbation wants of the objects of a batch."""

    problem: ObjectProblem

    @property
    def images(self) -> torch.Tensor:
        return self.problem.images

    def gradient(self, points: torch.Tensor) -> tuple[torch.Tensor, float]:
        values = points.new_zeros(0)

        def objective(inputs: torch.Tensor) -> torch.Tensor:
            nonlocal values
            values = self.problem.goal.value(self.problem.model, inputs)
            return values

        slope = self.problem.differentiate(points, objective)
        return slope, float(values.detach().sum())


def fit_perturbation(batches: Sequence[Aimed], rule: UniversalRule, tell: Tell = quiet) -> torch.Tensor:
    """The perturbation, (3, h, w): xi <- clip(xi + alpha sgn(mean over images of the sum over tiles of the gradient)).

    The gradient is that of the loss at B(x + tile(xi)) with respect to xi: where the box holds a pixel back, it is 0.
    For l2 the step is alpha times the unit gradient, and the ball is that of the tiled perturbation.

    Args:
        batches: the fit set.
        rule: how.
        tell: told once per pass.
    """
    first = batches[0].images
    size = rule.tile or (first.shape[2], first.shape[3])
    perturbation = torch.zeros(3, *size, dtype=first.dtype)
    for _ in range(rule.passes):
        total, value, waiting = torch.zeros(3, *size, dtype=torch.float64), 0.0, 0
        for index, batch in enumerate(batches):
            images = batch.images
            shown = images + tiled(perturbation, *images.shape[2:]).to(images.device)
            slope, worth = batch.gradient(shown.clamp(0, 1))
            total += folded(slope * ((shown >= 0) & (shown <= 1)), size)
            value, waiting = value + worth, waiting + len(images)
            if index == len(batches) - 1 or (rule.batch is not None and waiting >= rule.batch):
                perturbation = _stepped(perturbation, total, rule, (first.shape[2], first.shape[3]))
                total, waiting = torch.zeros_like(total), 0
        tell(value / sum(len(batch.images) for batch in batches))
    return perturbation


def _stepped(
    perturbation: torch.Tensor, slope: torch.Tensor, rule: UniversalRule, image: tuple[int, int]
) -> torch.Tensor:
    """One step along the gradient, back into the ball."""
    if rule.norm == "linf":
        reach = largest_at_most(rule.radius, perturbation.dtype)
        return (perturbation + rule.step * slope.sign().to(perturbation.dtype)).clamp(-reach, reach)
    moved = perturbation.double() + rule.step * slope / slope.norm().clamp_min(1e-12)
    factor = min(1.0, rule.radius * (1 - 1e-6) / max(tiled_length(moved, *image), 1e-12))
    inside: torch.Tensor = (moved * factor).to(perturbation.dtype)
    return inside


def fit_universal(
    model: GauntletModel, dataset: Dataset, rule: UniversalRule | None = None, tell: Tell = quiet
) -> Artifact:
    """Fits a universal perturbation on the images of a dataset; they are held in memory.

    Args:
        model: what it is fitted against; frozen.
        dataset: the fit set; evaluate on another split.
        rule: how.
        tell: told once per pass.
    """
    rule = rule or UniversalRule()
    aims = DETECTION_AIMS if task_of(model) == DETECTION else SEGMENTATION_AIMS
    if rule.aim not in aims:
        raise unknown_name(f"aim of a universal perturbation of a {model.task} model", rule.aim, aims)
    at_once = {} if rule.batch is None else {"at_once": rule.batch}
    batches = load_batches(dataset, model, **at_once)
    tensors: dict[str, torch.Tensor] = {}
    left_out: list[str] = []
    with steady(model, model.device, rule.seed):
        if task_of(model) == DETECTION:
            aimed: list[Aimed] = [ObjectAim(_pose_objects(model, batch, rule, dataset)) for batch in batches]
        elif rule.aim == STATIC:
            tensors["target"] = _scene_prediction(model, batches, rule.scene)
            aimed = [_towards(model, batch, tensors["target"], rule) for batch in batches]
        elif rule.aim == HIDE:
            hidden = class_index(rule.hide, get_task(model.task).class_names(dataset))
            aimed = [each for batch in batches if (each := _hiding(model, batch, hidden, rule, left_out)) is not None]
        else:
            aimed = [_leaving(model, batch, rule) for batch in batches]
        if not aimed:
            raise GauntletError("every image of the fit set shows the hidden class and nothing else; choose others.")
        for name in left_out:
            _LOGGER.warning("image '%s' is left out of the fit: the model sees nothing but the hidden class.", name)
        perturbation = fit_perturbation(aimed, rule, tell)
    facts = {**fit_facts(model, dataset, rule.seed), **rule.describe(), "left_out": left_out}
    if rule.aim == HIDE:
        facts["hide"] = class_index(rule.hide, get_task(model.task).class_names(dataset))
    return Artifact(KIND, {"perturbation": perturbation.float(), **tensors}, facts)


def class_index(name: int | str | None, class_names: Sequence[str]) -> int:
    """A class by its name or its index."""
    if isinstance(name, str) and not name.isdecimal():
        if name not in class_names:
            raise unknown_name("class", name, class_names)
        return list(class_names).index(name)
    index = int(str(name))
    if not 0 <= index < len(class_names):
        raise GauntletError(f"the class {index} is none of the {len(class_names)} classes; choose one from 0 on.")
    return index


def _pose(model: Any, batch: Batch, labels: torch.Tensor, rule: UniversalRule, ignore_index: int | None) -> Any:
    bridged, images, truth = bridge(model, batch.images, labels.to(batch.images.device))
    seeds = model_seeds(batch, rule.seed, KIND)
    return pose_pixels(bridged, images, truth, Request(seeds=seeds, ignore_index=ignore_index))


def predicted(model: GauntletModel, batch: Batch) -> torch.Tensor:
    """The label maps (N, H, W) that a model sees on clean images, on the CPU."""
    draws = AttackDraws(model_seeds(batch, 0, f"{KIND}|clean"), [0] * len(batch))
    with torch.no_grad(), drawing(random_parts(model), draws):
        return label_map(model(batch.images)).cpu()


def _leaving(model: GauntletModel, batch: Batch, rule: UniversalRule) -> PixelAim:
    if batch.labels is None:
        return PixelAim(_pose(model, batch, predicted(model, batch), rule, None), towards=False)
    return PixelAim(_pose(model, batch, batch.labels, rule, batch.ignore_index), towards=False)


def _towards(model: GauntletModel, batch: Batch, target: torch.Tensor, rule: UniversalRule) -> PixelAim:
    if target.shape != batch.images.shape[2:]:
        raise GauntletError("a static target is one label map for all images; the fit set has images of other sizes.")
    everywhere = target.long().expand(len(batch), *target.shape)
    return PixelAim(_pose(model, batch, everywhere, rule, None), towards=True, sure=rule.sure)


def _hiding(
    model: GauntletModel, batch: Batch, hidden: int, rule: UniversalRule, left_out: list[str]
) -> PixelAim | None:
    """The aim of a batch; images that show the hidden class only are left out, and named."""
    clean = predicted(model, batch)
    filled = {row: without_class(each.numpy(), hidden) for row, each in enumerate(clean)}
    targets = {row: each for row, each in filled.items() if each is not None}
    rows = list(targets)
    left_out += [sample.id for row, sample in enumerate(batch.samples) if row not in rows]
    if not rows:
        return None
    kept = replace(batch, samples=[batch.samples[row] for row in rows], images=batch.images[rows], labels=None)
    target = torch.from_numpy(np.stack(list(targets.values())))
    posed = _pose(model, kept, target, rule, None)
    own = (clean[rows] == hidden).to(posed.images.device)
    weights = torch.where(own, rule.weight, 1 - rule.weight).to(posed.images.dtype)
    return PixelAim(posed, towards=True, weights=weights, sure=rule.sure)


def _pose_objects(model: Any, batch: Batch, rule: UniversalRule, dataset: Dataset) -> ObjectProblem:
    bridged, images, boxes = bridge(model, batch.images, batch.boxes)
    region = None
    if rule.aim == HIDE:
        region = {"class": class_index(rule.hide, get_task(DETECTION).class_names(dataset))}
    goal = {UNTARGETED: "loss", HIDE: VANISHING}.get(rule.aim, rule.aim)
    request = Request(goal=goal, fooling_region=region, seeds=model_seeds(batch, rule.seed, KIND))
    return pose_objects(bridged, images, boxes, request)


def _scene_prediction(model: GauntletModel, batches: Sequence[Batch], scene: int) -> torch.Tensor:
    """What the model sees on one image of the fit set, uint8 or int16 (H, W)."""
    for batch in batches:
        if scene < len(batch):
            kind = torch.uint8 if model.num_classes <= 256 else torch.int16
            return predicted(model, batch)[scene].to(kind)
        scene -= len(batch)
    raise GauntletError("the scene of the static target is none of the fit set; images are counted from 0.")

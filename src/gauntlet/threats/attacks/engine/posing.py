"""From a call, whose arguments are checked, to the problem of its task: pixels with labels, or objects with boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gauntlet.errors import GauntletError
from gauntlet.samples import Boxes, own_array
from gauntlet.tasks import DETECTION, task_of
from gauntlet.threats.attacks.detection.problem import pose_objects
from gauntlet.threats.attacks.engine.problem import BatchProblem, Model, Problem, Tally
from gauntlet.threats.attacks.engine.regions import region_mask
from gauntlet.threats.attacks.engine.request import Request
from gauntlet.threats.attacks.engine.targets import LEAST_LIKELY, Target, is_target_file, needs_logits, target_map


def pose(model: Any, images: torch.Tensor, truth: torch.Tensor | Sequence[Boxes], request: Request) -> BatchProblem:
    """The problem of a batch, whatever the model's task.

    Args:
        model: (N, 3, H, W) in [0, 1] to logits (N, K, H, W), or a detector.
        images: (N, 3, H, W).
        truth: labels (N, H, W), or the objects of each image.
        request: what the attack wants.
    """
    check_images(images)
    if task_of(model) == DETECTION:
        return pose_objects(model, images, truth, request)
    return pose_pixels(model, images, truth, request)


def pose_pixels(model: Model, images: torch.Tensor, truth: Any, request: Request) -> Problem:
    """The problem of images whose pixels have labels; arguments as for `pose`."""
    _check_kinds(truth, request.target)
    labels = check_labels(truth, images)
    void_label = ignore_index_of(model, request.ignore_index)
    void = _equal_to(labels, void_label)
    for index in request.ignore:
        void |= labels == index
    known = labels.masked_fill(void, 0)
    _check_classes(known, getattr(model, "num_classes", None), void_label)
    aim = region_mask(request.fooling_region, labels, "fooling_region", request.seeds)
    problem = Problem(
        model=model,
        images=images.detach().clone() if images.is_inference() else images.detach(),
        labels=known,
        counted=~void if aim is None else ~void & aim,
        region=region_mask(request.region, labels, "region", request.seeds),
        targeted=False,
        least_likely=False,
        samples=request.samples,
        precision=request.precision,
        rows=torch.arange(len(images)),
        tally=Tally.of(len(images)),
        seeds=request.seeds,
        highest=int(known.max()),
    )
    if request.target is not None:
        return _targeted(problem, request, void, void_label)
    return _leaving_its_prediction(problem) if request.own_prediction else problem


def check_batch(images: torch.Tensor) -> None:
    """Raises unless the images are a tensor of floats (N, 3, H, W), with what would make one of what was given."""
    if not isinstance(images, torch.Tensor):
        advice = "gauntlet.samples.images_to_tensor([image, ...]) makes one of uint8 images (H, W, 3)"
        raise GauntletError(f"images must be a tensor (N, 3, H, W), not a {type(images).__name__}; {advice}.")
    if images.ndim != 4 or images.shape[1] != 3 or 0 in images.shape:
        advice = ""
        if images.ndim == 3 and images.shape[0] == 3:
            advice = "; give a single image and its labels as a batch of one: image[None], labels[None]"
        elif images.ndim == 4 and images.shape[3] == 3:
            advice = "; images.permute(0, 3, 1, 2) has the channels where they belong"
        raise GauntletError(f"images must be a tensor of shape (N, 3, H, W), not {tuple(images.shape)}{advice}.")
    if images.dtype not in (torch.float32, torch.float64):
        advice = "; 8-bit images become it by images.float() / 255" if images.dtype == torch.uint8 else ""
        raise GauntletError(f"images must be float32 or float64 in [0, 1], not {images.dtype}{advice}.")


def check_images(images: torch.Tensor) -> None:
    """Raises unless the images are (N, 3, H, W) floats in [0, 1]."""
    check_batch(images)
    low, high = images.aminmax()
    if not (low.item() >= 0 and high.item() <= 1):
        raise GauntletError(
            f"images must lie in [0, 1], not [{low.item():g}, {high.item():g}]; divide 8-bit images by 255."
        )


def check_labels(labels: Any, images: torch.Tensor) -> torch.Tensor:
    """The labels as int64 on the images' device; raises unless they are integers (N, H, W)."""
    if isinstance(labels, np.ndarray):
        labels = torch.from_numpy(own_array(labels, "labels"))
    given: torch.Tensor = torch.as_tensor(labels)
    expected = (images.shape[0], *images.shape[2:])
    if given.is_floating_point() or given.dtype == torch.bool or tuple(given.shape) != expected:
        raise GauntletError(
            f"labels must be integers of shape {expected}, not {given.dtype} of shape {tuple(given.shape)}."
        )
    return given.to(device=images.device, dtype=torch.int64)


def check_start(start: torch.Tensor | None, images: torch.Tensor) -> None:
    """Raises unless a start has the shape of the images."""
    if start is None:
        return
    if not isinstance(start, torch.Tensor):
        raise GauntletError(f"start must be a tensor like the images, not a {type(start).__name__}.")
    if start.shape != images.shape:
        raise GauntletError(
            f"start has the shape {tuple(start.shape)}; expected that of the images, {tuple(images.shape)}."
        )
    if not bool(torch.isfinite(start).all()):
        raise GauntletError("start holds NaN or infinite numbers; expected images in [0, 1].")


def ignore_index_of(model: Model, ignore_index: int | str | None) -> int | None:
    """The label that counts for nothing, or None."""
    if isinstance(ignore_index, str):
        stated = getattr(model, "ignore_index", 255)
        return None if stated is None else int(stated)
    return ignore_index


def _check_kinds(truth: Any, target: Target) -> None:
    """Raises for boxes and for targets that only detectors understand."""
    if not isinstance(truth, torch.Tensor) and any(isinstance(each, Boxes) for each in truth):
        raise GauntletError("a segmentation model is attacked with label maps (N, H, W), not with boxes.")
    if target is True or is_target_file(target):
        raise GauntletError(
            f"the target {target!r} is for detectors; give a class, a label map, a rank or a permutation."
        )


def _check_classes(labels: torch.Tensor, classes: int | None, void_label: int | None) -> None:
    """Raises unless all labels are classes; without `classes` the number of them is checked against the logits."""
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest < 0 or (classes is not None and highest >= classes):
        wrong = lowest if lowest < 0 else highest
        bound = "the number of classes" if classes is None else f"{classes} classes"
        raise GauntletError(
            f"a label is {wrong}, outside 0 to K-1 of {bound} and not the ignore index {void_label}; "
            "check the labels or set ignore_index."
        )


def _check_wanted(wanted: torch.Tensor, classes: int | None) -> None:
    """Raises unless all target classes are classes of the model."""
    lowest, highest = int(wanted.min()), int(wanted.max())
    if lowest < 0 or (classes is not None and highest >= classes):
        wrong = lowest if lowest < 0 else highest
        raise GauntletError(f"the target class {wrong} is none of the model's classes; choose one from 0 on.")


def _equal_to(labels: torch.Tensor, label: int | None) -> torch.Tensor:
    """Where the labels are a label, bool (N, H, W); nowhere without one."""
    return torch.zeros_like(labels, dtype=torch.bool) if label is None else labels == label


def _leaving_its_prediction(problem: Problem) -> Problem:
    """The problem with the model's clean prediction in the place of the ground truth."""
    return replace(problem, labels=problem.look(problem.images).logits.argmax(1), highest=0)


def _targeted(problem: Problem, request: Request, void: torch.Tensor, void_label: int | None) -> Problem:
    """The problem of reaching a target; pixels whose target is the void label do not count.

    Args:
        problem: the untargeted problem of the same images.
        request: with a target.
        void: bool (N, H, W), pixels without a label.
        void_label: the ignore index, or None.
    """
    target = request.target
    if request.retarget:
        if target != LEAST_LIKELY:
            raise GauntletError(f"retarget needs the target '{LEAST_LIKELY}', not {target!r}.")
        return replace(problem, targeted=True, least_likely=True)
    clean_logits = problem.look(problem.images).logits if needs_logits(target) else None
    wanted = target_map(target, problem.labels, clean_logits, void)
    unreachable = _equal_to(wanted, void_label)
    wanted = wanted.masked_fill(unreachable, 0)
    _check_wanted(wanted, getattr(problem.model, "num_classes", None))
    counted = problem.counted & ~unreachable
    return replace(problem, labels=wanted, counted=counted, targeted=True, highest=int(wanted.max()))

"""From what a caller gives to a Problem: every check of images, labels, masks and targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from gauntlet.errors import GauntletError
from gauntlet.threats.attacks.engine.problem import Model, Problem, Tally
from gauntlet.threats.attacks.engine.regions import Region, region_mask
from gauntlet.threats.attacks.engine.targets import LEAST_LIKELY, Target, needs_logits, target_map

MODEL_IGNORE_INDEX = "model"
"""Stands for the ignore index that the model states; 255 where it states none."""


def check_images(images: torch.Tensor) -> None:
    """One sentence unless the images are (N, 3, H, W) floats in [0, 1]."""
    if not isinstance(images, torch.Tensor) or images.ndim != 4 or images.shape[1] != 3 or 0 in images.shape:
        shape = tuple(images.shape) if isinstance(images, torch.Tensor) else type(images).__name__
        raise GauntletError(f"images must be a tensor of shape (N, 3, H, W), not {shape}.")
    if images.dtype not in (torch.float32, torch.float64):
        raise GauntletError(f"images must be float32 or float64 in [0, 1], not {images.dtype}.")
    low, high = images.aminmax()
    if not (low.item() >= 0 and high.item() <= 1):
        raise GauntletError(
            f"images must lie in [0, 1], not [{low.item():g}, {high.item():g}]; divide 8-bit images by 255."
        )


def check_labels(labels: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """The labels as int64 on the images' device; one sentence unless they are integers (N, H, W)."""
    labels = torch.as_tensor(labels)
    expected = (images.shape[0], *images.shape[2:])
    if labels.is_floating_point() or labels.dtype == torch.bool or tuple(labels.shape) != expected:
        raise GauntletError(
            f"labels must be integers of shape {expected}, not {labels.dtype} of shape {tuple(labels.shape)}."
        )
    return labels.to(device=images.device, dtype=torch.int64)


def ignore_index_of(model: Model, ignore_index: int | str | None) -> int | None:
    """The label that counts for nothing, or None."""
    if isinstance(ignore_index, str):
        stated = getattr(model, "ignore_index", 255)
        return None if stated is None else int(stated)
    return ignore_index


def expand_seeds(seed: int | Sequence[int], count: int) -> list[int]:
    """One seed per image; a single one is used for every image, so that it does not matter where an image stands."""
    if isinstance(seed, int):
        return [seed] * count
    seeds = [int(each) for each in seed]
    if len(seeds) != count:
        raise GauntletError(f"{len(seeds)} seeds were given for {count} images; give one per image or a single one.")
    return seeds


def pose(
    model: Model,
    images: torch.Tensor,
    labels: torch.Tensor,
    *,
    target: Target,
    retarget: bool,
    own_prediction: bool,
    region: Region,
    fooling_region: Region,
    ignore_index: int | str | None,
    samples: int,
    precision: str,
    seeds: Sequence[int] | None = None,
) -> Problem:
    """The problem that an attack solves.

    Args:
        model: (N, 3, H, W) to logits (N, K, H, W).
        images, labels: the batch.
        target: see `targets.target_map`; None for an untargeted attack.
        retarget: whether a least-likely target is found anew at every point.
        own_prediction: whether the model's clean prediction takes the place of the ground truth (Arnab et al.).
        region: pixels that may change. fooling_region: pixels that the attack aims at.
        ignore_index: the void label, None for none, "model" for the model's own.
        samples, precision: see `Problem`.
        seeds: one per image, for regions that are drawn at random.
    """
    check_images(images)
    labels = check_labels(labels, images)
    void_label = ignore_index_of(model, ignore_index)
    void = torch.zeros_like(labels, dtype=torch.bool) if void_label is None else labels == void_label
    lowest = int(labels.masked_fill(void, 0).min())
    classes = getattr(model, "num_classes", None)
    highest = int(labels.masked_fill(void, 0).max())
    if lowest < 0 or (classes is not None and highest >= classes):
        wrong = lowest if lowest < 0 else highest
        bound = "the number of classes" if classes is None else f"{classes} classes"
        raise GauntletError(
            f"a label is {wrong}, outside 0 to K-1 of {bound} and not the ignore index {void_label}; "
            "check the labels or set ignore_index."
        )
    aim = region_mask(fooling_region, labels, "fooling_region", seeds)
    counted = ~void if aim is None else ~void & aim
    problem = Problem(
        model=model,
        images=images.detach().clone() if images.is_inference() else images.detach(),
        labels=labels.masked_fill(void, 0),
        counted=counted,
        region=region_mask(region, labels, "region", seeds),
        targeted=False,
        least_likely=False,
        samples=samples,
        precision=precision,
        rows=torch.arange(len(images)),
        tally=Tally.of(len(images)),
        highest=highest,
    )
    if target is None:
        if not own_prediction:
            return problem
        logits = problem.look(images).logits
        return replace(problem, labels=logits.argmax(1), highest=0)
    if retarget:
        if target != LEAST_LIKELY:
            raise GauntletError(f"retarget needs the target '{LEAST_LIKELY}', not {target!r}.")
        return replace(problem, targeted=True, least_likely=True)
    clean_logits = problem.look(images).logits if needs_logits(target) else None
    wanted = target_map(target, labels, clean_logits, void)
    unreachable = wanted == void_label if void_label is not None else torch.zeros_like(void)
    wanted = wanted.masked_fill(unreachable, 0)
    if int(wanted.min()) < 0 or (classes is not None and int(wanted.max()) >= classes):
        wrong = int(wanted.min()) if int(wanted.min()) < 0 else int(wanted.max())
        raise GauntletError(f"the target class {wrong} is none of the model's classes; choose one from 0 on.")
    return replace(problem, labels=wanted, counted=counted & ~unreachable, targeted=True, highest=int(wanted.max()))

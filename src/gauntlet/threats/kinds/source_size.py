"""Attacks made at another size than the images have, on a source that takes one only (docs/specs/defences.md, 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.nn import functional

from gauntlet.errors import GauntletError
from gauntlet.models import GauntletModel
from gauntlet.samples import Batch
from gauntlet.seeding import ImageSeed
from gauntlet.threats.attacks import Attack
from gauntlet.threats.attacks.engine.constraints import ball
from gauntlet.threats.attacks.engine.norms import image_norm
from gauntlet.threats.contract import Perturbed
from gauntlet.threats.kinds.attack import AttackThreat, need_labels

Size = tuple[int, int]


def parse_source_size(value: str | Sequence[int]) -> Size:
    """Height and width in pixels, from "512x1024" or [512, 1024]."""
    parts = value.split("x") if isinstance(value, str) else list(value)
    try:
        height, width = (int(part) for part in parts)
    except (ValueError, TypeError):
        height = width = 0
    if min(height, width) < 1:
        raise GauntletError(f"a source_size is HEIGHTxWIDTH in pixels, as in 512x1024, not {value!r}.")
    return height, width


def check_resizable(inner: AttackThreat) -> None:
    """An error for an attack that is tied to the size of the images."""
    if inner.region.describe():
        raise GauntletError("an attack with a region is made at the size of the images; leave out source_size.")


def at_size(batch: Batch, size: Size) -> Batch:
    """The batch at another size: images bilinear, labels of the nearest pixel."""
    images = functional.interpolate(batch.images, size=size, mode="bilinear", align_corners=False)
    labels = need_labels(batch)[:, None].double()
    nearest = functional.interpolate(labels, size=size, mode="nearest-exact")[:, 0].long()
    return replace(batch, images=images, labels=nearest)


def attack_at_size(
    inner: AttackThreat, source: GauntletModel, resized: Batch, images: torch.Tensor, seeds: Sequence[ImageSeed]
) -> tuple[Perturbed, torch.Tensor]:
    """What an attack makes of a resized batch, and its perturbation on the images themselves.

    The perturbation is resized bilinearly, then brought back into the ball of the attack and into [0, 1]. Norms are of
    what is shown; that of an attack for the smallest perturbation is the smallest on the source, not on the target.

    Args:
        inner, source, seeds: the attack, where it is made, and how it draws.
        resized: the batch at the size of the source.
        images: (N, 3, H, W) at their own size.
    """
    made = inner.perturb(source, resized, seeds)
    change = functional.interpolate(
        made.images - resized.images, size=images.shape[-2:], mode="bilinear", align_corners=False
    )
    shown = allowed(inner.attack, images, images + change)
    norms = image_norm(shown - images, inner.attack.norm).tolist()
    return replace(made, details={**made.details, "norm": norms}), shown


def allowed(attack: Attack, images: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Points inside [0, 1] and, where the attack has a budget, inside its ball around the images."""
    epsilon = getattr(attack, "epsilon", None)
    if epsilon is None:
        return points.clamp(0, 1)
    around = ball(attack.norm, images, images.new_full((len(images),), float(epsilon), dtype=torch.float64), None)
    return around.finish(around.project(points))

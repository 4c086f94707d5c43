"""Where an attack may act and where it aims: squares, grids of patches, classes, any mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gauntlet.errors import GauntletError, unknown_name

SHAPES = ("centre", "top-left", "top-right", "bottom-left", "bottom-right", "grid")
Region = torch.Tensor | np.ndarray[Any, Any] | Mapping[str, Any] | int | None


def square(height: int, width: int, size: int | Sequence[int], shape: str = "centre") -> torch.Tensor:
    """A rectangle in the middle or in a corner, bool (H, W).

    Args:
        height, width: of the image, in pixels.
        size: side of the rectangle in pixels, or (height, width); cut where larger than the image.
        shape: "centre" (top = floor((H - h) / 2), left likewise), "top-left", "bottom-right", ...
    """
    tall, wide = _pair(size, "size")
    tall, wide = min(tall, height), min(wide, width)
    top, left = (height - tall) // 2, (width - wide) // 2
    if shape != "centre":
        vertical, horizontal = shape.split("-")
        top = 0 if vertical == "top" else height - tall
        left = 0 if horizontal == "left" else width - wide
    mask = torch.zeros(height, width, dtype=torch.bool)
    mask[top : top + tall, left : left + wide] = True
    return mask


def grid(height: int, width: int, size: int | Sequence[int], spacing: int | Sequence[int]) -> torch.Tensor:
    """Patches of one size whose top left corners lie on a grid, bool (H, W).

    Args:
        height, width: of the image, in pixels.
        size: of a patch in pixels.
        spacing: from one patch's corner to the next, in pixels.
    """
    (tall, wide), (down, right) = _pair(size, "size"), _pair(spacing, "spacing")
    rows = torch.arange(height).remainder(down) < tall
    columns = torch.arange(width).remainder(right) < wide
    return rows[:, None] & columns[None, :]


def describe_region(region: Region, name: str) -> dict[str, Any] | int | None:
    """A region given as an option, checked, in its JSON-able form; masks are given when the attack is called."""
    if region is None or isinstance(region, int):
        return region
    if not isinstance(region, Mapping):
        raise GauntletError(
            f"{name} as an option is a description such as {{'shape': 'centre', 'size': 100}}; "
            "give a mask when calling the attack."
        )
    options = dict(region)
    if "class" in options:
        return {"class": int(options["class"])}
    shape = str(options.get("shape", "centre"))
    if shape not in SHAPES:
        raise unknown_name("shape of a region", shape, SHAPES)
    known = {"shape", "size"} | ({"spacing"} if shape == "grid" else set())
    for key in options:
        if key not in known:
            raise unknown_name("option of a region", str(key), known)
    if "size" not in options:
        raise GauntletError(f"{name} needs a size in pixels, such as 100 or [100, 200].")
    result: dict[str, Any] = {"shape": shape, "size": list(_pair(options["size"], "size"))}
    if shape == "grid":
        result["spacing"] = list(_pair(options.get("spacing", [2 * side for side in result["size"]]), "spacing"))
    return result


def region_mask(region: Region, labels: torch.Tensor, name: str) -> torch.Tensor | None:
    """A region as a mask, bool (N, H, W), on the labels' device; None stays None (everywhere).

    Args:
        region: a mask (H, W) or (N, H, W); a description {"shape": "centre", "size": 100}, {"shape": "grid",
            "size": 16, "spacing": 64} or {"class": 3}; a class index (pixels with this label).
        labels: int64 (N, H, W).
        name: of the argument, for messages.
    """
    if region is None:
        return None
    if isinstance(region, (Mapping, int)):
        description = describe_region(region, name)
        if isinstance(description, int):
            description = {"class": description}
        assert description is not None
        if "class" in description:
            return labels.eq(int(description["class"]))
        height, width = labels.shape[-2:]
        if description["shape"] == "grid":
            mask = grid(height, width, description["size"], description["spacing"])
        else:
            mask = square(height, width, description["size"], description["shape"])
        return mask.to(labels.device).expand(labels.shape)
    mask = torch.as_tensor(region, device=labels.device)
    if mask.ndim == 4 and mask.shape[1] == 1:
        mask = mask.squeeze(1)
    if mask.shape not in (labels.shape, labels.shape[1:]):
        raise GauntletError(
            f"{name} has the shape {tuple(mask.shape)}; expected {tuple(labels.shape[1:])} or {tuple(labels.shape)}."
        )
    if mask.dtype != torch.bool:
        if not ((mask == 0) | (mask == 1)).all():
            raise GauntletError(f"{name} must hold booleans, or zeros and ones.")
        mask = mask == 1
    return mask.expand(labels.shape)


def _pair(value: int | Sequence[int], name: str) -> tuple[int, int]:
    sides = (value, value) if isinstance(value, int) else tuple(value)
    if len(sides) != 2 or any(not isinstance(side, int) or isinstance(side, bool) or side < 1 for side in sides):
        raise GauntletError(f"the {name} of a region must be a positive number of pixels or two of them, not {value}.")
    return sides[0], sides[1]

"""Bilinear resampling that pools as it goes, where no gradient is wanted: one pass over memory where torch takes three.

The values are those of `torch.nn.functional.interpolate` (bilinear, corners not aligned), bit for bit: whether torch
adds up on this processor as the loops here do is tried once per process, and where it does not, torch does the work. So
it does for small images, other layouts and other devices.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from gauntlet.compiling import compiled, fused

Floats = npt.NDArray[np.floating]
Whole = npt.NDArray[np.int64]

REPLACE, LARGEST, ADD = "replace", "max", "add"
_NUMBERS = {REPLACE: 0, LARGEST: 1, ADD: 2}
"""What becomes of a value that is there already; compiled loops take a number."""

LARGE = 128
"""Height plus width above which torch goes row by row too; below it adds up in another order."""
FOUR_WEIGHTS = 3
"""Channels for which torch forms four products per pixel; for others it goes along rows first."""


def resampled(values: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Values (N, C, h, w) at a size (H, W); a scale factor would sample other positions where the size is not whole."""
    if not _is_plain(values, size):
        return _as_torch_does(values, size)
    return pour(values, values.new_empty(*values.shape[:2], *size), REPLACE)


def pour(values: torch.Tensor, target: torch.Tensor, pooling: str) -> torch.Tensor:
    """Writes values (N, C, h, w) at the size of the target (N, C, H, W) into it, without a gradient.

    Args:
        values: of the target's type.
        target: changed in place where it can be.
        pooling: "replace", "max" (NaN wins) or "add".

    Returns:
        the target.
    """
    size = (target.shape[-2], target.shape[-1])
    if values.shape[-2:] == size or not (_is_plain(values, size) and _is_plain(target, size)):
        seen = values if values.shape[-2:] == size else _as_torch_does(values, size)
        if pooling == LARGEST:
            return torch.maximum(target, seen, out=target)
        return target.copy_(seen) if pooling == REPLACE else target.add_(seen)
    return _pour_compiled(values, target, pooling)


def _pour_compiled(values: torch.Tensor, target: torch.Tensor, pooling: str) -> torch.Tensor:
    planes, onto = (each.detach().flatten(0, 1).numpy() for each in (values, target))  # (N C, height, width)
    rows, columns = (_places(planes.shape[side], onto.shape[side], planes.dtype) for side in (1, 2))
    pour_planes = _pour_four_weights if values.shape[1] == FOUR_WEIGHTS else _pour
    pour_planes(planes, rows, columns, onto, _NUMBERS[pooling])
    return target


@cache
def _is_as_torch_does() -> bool:
    """Whether the compiled loops round as torch's do on this processor."""
    generator = torch.Generator().manual_seed(0)
    for channels in (1, FOUR_WEIGHTS):
        values = torch.randn(1, channels, 70, 90, generator=generator)
        for size in ((97, 131), (53, 81)):
            poured = _pour_compiled(values, values.new_empty(1, channels, *size), REPLACE)
            if not torch.equal(poured, _as_torch_does(values, size)):
                return False
    return True


def _as_torch_does(values: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    return functional.interpolate(values, size=size, mode="bilinear", align_corners=False, antialias=False)


def _is_plain(values: torch.Tensor, size: tuple[int, int]) -> bool:
    """Whether the compiled loop may bring a tensor to a size, or write to it."""
    wanted = torch.is_grad_enabled() and values.requires_grad
    numbers = values.is_cpu and values.dtype == torch.float32 and values.is_contiguous()
    return numbers and sum(size) > LARGE and not wanted and _is_as_torch_does()


def _places(length: int, wanted: int, kind: np.dtype[Any]) -> tuple[Whole, Whole, Floats, Floats]:
    """For every place along a side: the two places of the input between which it lies, and their weights."""
    half = kind.type(0.5)
    scale = kind.type(length) / kind.type(wanted)
    exact = np.float64(scale) * (np.arange(wanted, dtype=kind) + half).astype(np.float64) - 0.5
    place = np.maximum(exact.astype(kind), kind.type(0))
    low = np.minimum(place.astype(np.int64), length - 1)
    second = np.clip(place - low.astype(kind), kind.type(0), kind.type(1))
    return low, np.minimum(low + 1, length - 1), kind.type(1) - second, second


@fused
def _along(row: Floats, low: Whole, high: Whole, first: Floats, second: Floats, wide: Floats) -> None:
    for x in range(len(wide)):
        wide[x] = row[low[x]] * first[x] + row[high[x]] * second[x]


@fused
def _between(above: Floats, below: Floats, first: np.floating, second: np.floating, onto: Floats, pooling: int) -> None:
    if pooling == 0:
        for x in range(len(onto)):
            onto[x] = above[x] * first + below[x] * second
    elif pooling == 1:
        for x in range(len(onto)):
            value, there = above[x] * first + below[x] * second, onto[x]
            onto[x] = there if there >= value or there != there else value
    else:
        for x in range(len(onto)):
            value = above[x] * first + below[x] * second
            onto[x] += value


@compiled
def _pour(
    planes: Floats,
    rows: tuple[Whole, Whole, Floats, Floats],
    columns: tuple[Whole, Whole, Floats, Floats],
    onto: Floats,
    pooling: int,
) -> None:
    """Rows of the input are widened once each; two neighbouring ones are kept, by the parity of their numbers."""
    above, below, first, second = rows
    low, high, left, right = columns
    wide = np.empty((2, onto.shape[2]), onto.dtype)
    kept = np.empty(2, np.int64)
    for plane in range(len(planes)):
        kept[:] = -1
        for y in range(onto.shape[1]):
            for row in (above[y], below[y]):
                if kept[row % 2] != row:
                    _along(planes[plane, row], low, high, left, right, wide[row % 2])
                    kept[row % 2] = row
            _between(wide[above[y] % 2], wide[below[y] % 2], first[y], second[y], onto[plane, y], pooling)


@fused
def _mixed(
    above: Floats,
    below: Floats,
    columns: tuple[Whole, Whole, Floats, Floats],
    first: np.floating,
    second: np.floating,
    wide: Floats,
) -> None:
    low, high, left, right = columns
    for x in range(len(wide)):
        wide[x] = (
            above[low[x]] * (first * left[x])
            + above[high[x]] * (first * right[x])
            + below[low[x]] * (second * left[x])
            + below[high[x]] * (second * right[x])
        )


@compiled
def _pour_four_weights(
    planes: Floats,
    rows: tuple[Whole, Whole, Floats, Floats],
    columns: tuple[Whole, Whole, Floats, Floats],
    onto: Floats,
    pooling: int,
) -> None:
    """As `_pour`, with the four products of a pixel added up one after the other."""
    above, below, first, second = rows
    wide = np.empty(onto.shape[2], onto.dtype)
    one, zero = onto.dtype.type(1), onto.dtype.type(0)
    for plane in range(len(planes)):
        for y in range(onto.shape[1]):
            _mixed(planes[plane, above[y]], planes[plane, below[y]], columns, first[y], second[y], wide)
            _between(wide, wide, one, zero, onto[plane, y], pooling)

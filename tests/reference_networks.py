"""The reference of published networks: the deterministic fill, its image, and statistics of what comes out."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import torch
from torch import nn

REFERENCE = Path(__file__).parent / "data" / "architecture_reference.json.gz"
MODULUS = 2**31 - 1
SLICE = 1 << 16  # half a megabyte, which stays in the cache of the processor
PARTS = ("modules", "aux_modules", "unused_modules")
TENSORS = {
    "conv": ("weight", "bias"),
    "tconv": ("weight", "bias"),
    "linear": ("weight", "bias"),
    "bn": ("weight", "bias", "running_mean", "running_var"),
    "ln": ("weight", "bias"),
    "affine": ("weight", "bias"),
    "prelu": ("weight",),
    "scale": ("",),
}


@cache
def reference() -> dict[str, Any]:
    with gzip.open(REFERENCE, "rt") as stream:
        content: dict[str, Any] = json.load(stream)
    return content


def draw(number: int, start: int, stop: int) -> torch.Tensor:
    """The integers t of the fill's rule for flat positions start..stop-1 of tensor `number`, int64."""
    return torch.from_numpy(_draw(*reference()["fill"]["abc"], number, start, stop))


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _draw(a: int, b: int, c: int, number: int, start: int, stop: int) -> npt.NDArray[np.int64]:
    """The rule, a k^2 + b k + c (number + 1) modulo 2^31 - 1, from each k to the next by adding.

    The larger networks have a hundred million positions, and a remainder for each would take most of the time.
    """
    drawn = np.empty(stop - start, np.int64)
    value = (a * ((start * start) % MODULUS) + b * start + c * (number + 1)) % MODULUS
    step, change = (a * (2 * start + 1) + b) % MODULUS, (2 * a) % MODULUS
    for k in range(stop - start):
        drawn[k] = value
        value += step
        value -= MODULUS if value >= MODULUS else 0
        step += change
        step -= MODULUS if step >= MODULUS else 0
    return drawn


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _spread(drawn: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """From integers below the modulus to [-1, 1]."""
    return drawn * 2.0 / MODULUS - 1.0


def transform(kind: str, name: str, shape: torch.Size) -> Callable[[torch.Tensor], torch.Tensor]:
    """From draws in [-1, 1] to values, by the kind of module and the tensor's name."""
    if name in ("bias", "running_mean"):
        return lambda value: 0.1 * value
    if name == "running_var":
        return lambda value: 1 + 0.3 * value
    if kind in ("bn", "ln", "affine", "scale"):
        return lambda value: 0.8 + 0.2 * value
    if kind == "prelu":
        return lambda value: 0.25 + 0.1 * value
    scale = math.sqrt((3 if shape[1] == 1 else 6) / math.prod(shape[1:]))
    return lambda value: scale * value


def numbered(entry: dict[str, Any]) -> Iterator[tuple[int, str, str, str, str]]:
    """(number, part, kind, key of the module, name of the tensor) of every tensor, in the order of the fill."""
    number = 0
    for part in PARTS:
        for kind, key, _, options, *_ in entry.get(part, []):
            for name in TENSORS[kind]:
                if name == "bias" and kind in ("conv", "tconv", "linear") and "bias" not in options.split():
                    continue
                yield number, part, kind, key, name
                number += 1


def fill(tensor: torch.Tensor, number: int, kind: str, name: str) -> None:
    flat = tensor.view(-1)
    shaped = transform(kind, name, tensor.shape)
    for start in range(0, flat.numel(), SLICE):
        stop = min(start + SLICE, flat.numel())
        flat[start:stop] = shaped(torch.from_numpy(_spread(draw(number, start, stop).numpy())))


def image(shape: list[int]) -> torch.Tensor:
    channel, row, column = torch.meshgrid(
        *(torch.arange(size, dtype=torch.float64) for size in shape[1:]), indexing="ij"
    )
    pattern = (
        torch.sin(0.11 * row + 0.9 * channel)
        + torch.cos(0.07 * column - 0.5 * channel)
        + 0.5 * torch.sin(0.013 * row * column + 0.3 * channel)
    )
    return pattern[None].expand(shape).contiguous()


def statistics(output: torch.Tensor) -> tuple[float, float]:
    return output.mean().item(), output.std(correction=0).item()


def watch(module: nn.Module, seen: dict[str, tuple[list[int], float, float]], key: str) -> None:
    """Notes shape, mean and deviation of what a module gives at its first call."""

    def note(_: nn.Module, __: Any, output: torch.Tensor) -> None:
        seen.setdefault(key, (list(output.shape[1:]), *statistics(output)))

    module.register_forward_hook(note)

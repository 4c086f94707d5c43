"""Jitter of hue, saturation and value, differentiable almost everywhere.

Saturation and value lie in [0, 255], hue in [0, `turn`): 180 in the 8-bit convention, 360 in degrees. Every division is
guarded inside `where`: both of its branches are differentiated, and 0/0 would make NaN of the gradient of grey pixels.
Where no gradient is wanted, the same arithmetic runs pixel by pixel in a compiled loop: two dozen passes over the image
would cost more than a small network.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.compiling import compiled, inlined

Planes = tuple[npt.NDArray[np.floating], ...]

LEVELS = 255.0
TURN = 180.0


def to_hsv(images: torch.Tensor, turn: float = TURN) -> torch.Tensor:
    """Hue, saturation and value, (N, 3, H, W), of RGB images in [0, 1]; red before green before blue in ties."""
    red, green, blue = images.unbind(1)
    largest, smallest = images.amax(dim=1), images.amin(dim=1)
    spread = largest - smallest
    divisor = torch.where(spread > 0, spread, 1)
    first = (green - blue) / divisor
    sector = torch.where(
        largest == red,
        torch.where(first < 0, first + 6, first),  # modulo 6, several times faster
        torch.where(largest == green, (blue - red) / divisor + 2, (red - green) / divisor + 4),
    )
    hue = torch.where(spread > 0, turn / 6 * sector, 0)
    saturation = LEVELS * spread / torch.where(largest > 0, largest, 1)
    return torch.stack([hue, saturation, LEVELS * largest], dim=1)


def to_rgb(values: torch.Tensor, turn: float = TURN) -> torch.Tensor:
    """RGB in [0, 1] of what `to_hsv` gives: f(n) = v - v s clip(min(k, 4 - k), 0, 1), k = (n + h) mod 6."""
    hue, saturation, value = values.unbind(1)
    sector, value = hue * (6 / turn), value / LEVELS
    chroma = value * saturation / LEVELS
    steps = torch.tensor([5.0, 3.0, 1.0]).to(values).view(1, 3, 1, 1)
    turned = sector.unsqueeze(1) + steps  # (N, 3, H, W): one plane for r, g and b each
    turned = torch.where(turned >= 6, turned - 6, turned)
    return value.unsqueeze(1) - chroma.unsqueeze(1) * torch.minimum(turned, 4 - turned).clamp(0, 1)


def hsv_jitter(images: torch.Tensor, shifts: torch.Tensor, turn: float = TURN) -> torch.Tensor:
    """Images (N, 3, H, W) with hue, saturation and value shifted.

    Args:
        images: RGB in [0, 1].
        shifts: (N, 3, H, W), or whatever broadcasts to it; hue wraps around, the others are clipped.
        turn: one turn of the hue.
    """
    wanted = torch.is_grad_enabled() and (images.requires_grad or shifts.requires_grad)
    if images.is_cpu and images.dtype in (torch.float32, torch.float64) and not wanted and _is_near(shifts, turn):
        return _pixel_by_pixel(images, shifts, turn)
    moved = to_hsv(images, turn) + shifts
    hue, rest = moved[:, :1].remainder(turn), moved[:, 1:].clamp(0, LEVELS)
    return to_rgb(torch.cat([hue, rest], dim=1), turn)


def _is_near(shifts: torch.Tensor, turn: float) -> bool:
    """Whether no hue is shifted by more than half a turn: then one turn brings it back to where it belongs.

    Larger shifts take a remainder, which torch computes.
    """
    low, high = (shifts[:, :1] if shifts.ndim == 4 else shifts).aminmax()
    return bool(low >= -turn / 2) and bool(high <= turn / 2)


def _pixel_by_pixel(images: torch.Tensor, shifts: torch.Tensor, turn: float) -> torch.Tensor:
    """`hsv_jitter` bit for bit, without a gradient."""
    jittered = torch.empty_like(images, memory_format=torch.contiguous_format)
    numbers = [0, 1, 2, 3, 4, 5, 6, LEVELS, turn, turn / 6, 6 / turn]
    kind = jittered.numpy().dtype
    # Planes that lie in one piece: the loop runs on many pixels at once then, an order of magnitude faster.
    seen, moved = (each.detach().contiguous().flatten(2).numpy() for each in (images, shifts.expand(images.shape)))
    for image, shift, onto in zip(seen, moved, jittered.flatten(2).numpy(), strict=True):
        _jitter(tuple(image), tuple(shift), tuple(np.array(numbers, dtype=kind)), tuple(onto))
    return jittered


@compiled
def _jitter(image: Planes, shifts: Planes, numbers: tuple[np.floating, ...], onto: Planes) -> None:
    """Writes one shifted image; an image is three planes of (P,).

    Args:
        image, shifts: as `hsv_jitter` takes them, no hue shifted by more than half a turn.
        numbers: 0 to 6, LEVELS, turn, turn / 6, 6 / turn, in the type of the images: a literal would be a float64.
        onto: where to write.
    """
    red, green, blue = image
    hues, saturations, values = shifts
    to_red, to_green, to_blue = onto
    for pixel in range(len(red)):
        hue, saturation, value = _moved(
            red[pixel], green[pixel], blue[pixel], hues[pixel], saturations[pixel], values[pixel], numbers
        )
        to_red[pixel] = _channel(numbers[5], hue, saturation, value, numbers)
        to_green[pixel] = _channel(numbers[3], hue, saturation, value, numbers)
        to_blue[pixel] = _channel(numbers[1], hue, saturation, value, numbers)


@inlined
def _moved(red: Any, green: Any, blue: Any, by_hue: Any, by_saturation: Any, by_value: Any, numbers: Any) -> Any:
    """Hue in sixths of a turn, saturation in [0, LEVELS] and value in [0, 1] after the shifts; choices, no branches."""
    zero, one, two, _, four, _, six, levels, turn, to_turn, to_sector = numbers
    largest = max(max(red, green), blue)
    spread = largest - min(min(red, green), blue)
    divisor = spread if spread > zero else one
    of_red = (green - blue) / divisor
    of_red = of_red + six if of_red < zero else of_red
    of_green, of_blue = (blue - red) / divisor + two, (red - green) / divisor + four
    sector = of_red if largest == red else of_green if largest == green else of_blue
    hue = (to_turn * sector if spread > zero else zero) + by_hue
    hue = hue - turn if hue >= turn else hue
    hue = hue + turn if hue < zero else hue
    saturation = levels * spread / (largest if largest > zero else one)
    saturation = min(max(saturation + by_saturation, zero), levels)
    return hue * to_sector, saturation, min(max(levels * largest + by_value, zero), levels) / levels


@inlined
def _channel(step: Any, sector: Any, saturation: Any, value: Any, numbers: Any) -> Any:
    """One channel of `to_rgb`."""
    zero, one, _, _, four, _, six, levels, _, _, _ = numbers
    turned = sector + step
    turned = turned - six if turned >= six else turned
    return value - value * saturation / levels * min(max(min(turned, four - turned), zero), one)

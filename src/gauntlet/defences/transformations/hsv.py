"""Jitter of hue, saturation and value, differentiable almost everywhere.

Saturation and value lie in [0, 255], hue in [0, `turn`): 180 in the 8-bit convention, 360 in degrees. Every division is
guarded inside `where`: both of its branches are differentiated, and 0/0 would make NaN of the gradient of grey pixels.
Where no gradient is wanted, the same arithmetic runs pixel by pixel in a compiled loop: two dozen passes over the image
would cost more than a small network.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.compiling import compiled

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
    if images.is_cpu and images.dtype in (torch.float32, torch.float64) and not wanted:
        return _pixel_by_pixel(images, shifts, turn)
    moved = to_hsv(images, turn) + shifts
    hue, rest = moved[:, :1].remainder(turn), moved[:, 1:].clamp(0, LEVELS)
    return to_rgb(torch.cat([hue, rest], dim=1), turn)


def _pixel_by_pixel(images: torch.Tensor, shifts: torch.Tensor, turn: float) -> torch.Tensor:
    """`hsv_jitter` bit for bit, without a gradient."""
    jittered = torch.empty_like(images, memory_format=torch.contiguous_format)
    numbers = [0, 1, 2, 3, 4, 5, 6, LEVELS, turn, turn / 6, 6 / turn]
    kind = jittered.numpy().dtype
    moved = shifts.expand(images.shape).detach().numpy()
    _jitter(images.detach().numpy(), moved, tuple(np.array(numbers, dtype=kind)), jittered.numpy())
    return jittered


@compiled
def _jitter(
    images: npt.NDArray[np.floating],
    shifts: npt.NDArray[np.floating],
    numbers: tuple[np.floating, ...],
    jittered: npt.NDArray[np.floating],
) -> None:
    """Writes the shifted images; all arrays are (N, 3, H, W) of one type.

    Args:
        images, shifts: as `hsv_jitter` takes them.
        numbers: 0 to 6, LEVELS, turn, turn / 6, 6 / turn, in the type of the images: a literal would be a float64.
        jittered: where to write.
    """
    zero, one, two, three, four, five, six, levels, turn, to_turn, to_sector = numbers
    count, _, height, width = images.shape
    for image in range(count):
        for row in range(height):
            for column in range(width):
                red, green, blue = (
                    images[image, 0, row, column],
                    images[image, 1, row, column],
                    images[image, 2, row, column],
                )
                largest = max(red, green, blue)
                spread = largest - min(red, green, blue)
                hue = zero
                if spread > zero:
                    if largest == red:
                        sector = (green - blue) / spread
                        sector = sector + six if sector < zero else sector
                    elif largest == green:
                        sector = (blue - red) / spread + two
                    else:
                        sector = (red - green) / spread + four
                    hue = to_turn * sector
                saturation = levels * spread / (largest if largest > zero else one)
                hue += shifts[image, 0, row, column]
                hue = hue if zero <= hue < turn else hue % turn
                saturation = min(max(saturation + shifts[image, 1, row, column], zero), levels)
                value = min(max(levels * largest + shifts[image, 2, row, column], zero), levels) / levels
                sector, chroma = hue * to_sector, value * saturation / levels
                for channel in range(3):
                    turned = sector + (five if channel == 0 else three if channel == 1 else one)
                    turned = turned - six if turned >= six else turned
                    part = min(max(min(turned, four - turned), zero), one)
                    jittered[image, channel, row, column] = value - chroma * part

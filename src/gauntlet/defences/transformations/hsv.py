"""Jitter of hue, saturation and value, differentiable almost everywhere.

Saturation and value lie in [0, 255], hue in [0, `turn`): 180 in the 8-bit convention, 360 in degrees. Every division is
guarded inside `where`: both of its branches are differentiated, and 0/0 would make NaN of the gradient of grey pixels.
"""

from __future__ import annotations

import torch

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
    moved = to_hsv(images, turn) + shifts
    hue, rest = moved[:, :1].remainder(turn), moved[:, 1:].clamp(0, LEVELS)
    return to_rgb(torch.cat([hue, rest], dim=1), turn)

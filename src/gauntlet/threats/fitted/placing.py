"""Where a patch lies in an image and how it is lit: drawn per image from its seed, differentiable in the patch.

docs/specs/beyond.md, 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.samples import Sample
from gauntlet.seeding import numpy_generator
from gauntlet.threats.fitted.projecting import Floats, homography, rectangle
from gauntlet.threats.fitted.scene_places import SURFACES, scene_places

IMAGE = "image"
PLACES = (IMAGE, *SURFACES)


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where a patch may lie and how it may look; every range is drawn from anew for each image and step.

    Attributes:
        place: "image", flat in the picture; "facade", "billboard" or "surface" (either): in a scene of `streets`, in
            perspective, behind what stands before it.
        centre: row and column of its centre, as shares of the image.
        move: translation up to this share of the patch's own height and width.
        scale: its size between 1 - scale and 1 + scale times its own.
        rotation: in degrees, to either side.
        perspective: each corner is moved by up to this share of the patch's half sides.
        noise: standard deviation of Gaussian noise on its pixels.
        brightness: standard deviation of a shift. contrast: of a factor around 1.
        metres: width of the patch in a scene.
        corners: four points x, y in pixels, clockwise from the top left, instead of a place that is drawn.
    """

    place: str = IMAGE
    centre: tuple[float, float] = (0.5, 0.5)
    move: float = 0.5
    scale: float = 0.2
    rotation: float = 0.0
    perspective: float = 0.0
    noise: float = 0.1
    brightness: float = 0.0
    contrast: float = 0.0
    metres: float = 4.0
    corners: tuple[tuple[float, float], ...] | None = None

    def __post_init__(self) -> None:
        if self.place not in PLACES:
            raise unknown_name("place of a patch", str(self.place), PLACES)
        for each in ("move", "scale", "rotation", "perspective", "noise", "brightness", "contrast"):
            if getattr(self, each) < 0:
                raise GauntletError(f"{each} of a patch's placement is a range from 0 on, not {getattr(self, each)}.")
        if self.scale >= 1 or self.perspective >= 1 or self.metres <= 0:
            raise GauntletError("scale and perspective of a placement lie below 1, and metres above 0.")
        if self.corners is not None and (len(self.corners) != 4 or any(len(each) != 2 for each in self.corners)):
            raise GauntletError(f"corners are four points x, y in pixels, not {self.corners}.")

    def fixed(self) -> Placement:
        """The same place without any draws (`eot` 0)."""
        return Placement(place=self.place, centre=self.centre, metres=self.metres, corners=self.corners, **NO_DRAWS)

    def describe(self) -> dict[str, Any]:
        """JSON-able: all fields."""
        described = asdict(self)
        return {key: _listed(value) for key, value in described.items() if value is not None}

    @classmethod
    def of(cls, described: dict[str, Any]) -> Placement:
        """What `describe` gave."""
        known = {each.name for each in fields(cls)}
        for key in described:
            if key not in known:
                raise unknown_name("option of a patch's placement", key, known)
        return cls(**{key: _tupled(value) for key, value in described.items()})


NO_DRAWS: dict[str, float] = dict.fromkeys(
    ("move", "scale", "rotation", "perspective", "noise", "brightness", "contrast"), 0.0
)


@dataclass(frozen=True)
class Laid:
    """A patch in one image.

    Attributes:
        corners: (4, 2) x, y in pixels: top left, top right, bottom right, bottom left of the patch.
        hidden: bool (H, W), where something stands before it, or None for nowhere.
        noise: (3, a, b), added to its pixels.
        shift, factor: of brightness and contrast.
    """

    corners: Floats
    hidden: npt.NDArray[np.bool_] | None
    noise: npt.NDArray[np.float32]
    shift: float
    factor: float


def lay(placement: Placement, sample: Sample, patch: tuple[int, int], seed: int) -> Laid | None:
    """Where and how a patch lies in an image; None where the scene has no place for it.

    Args:
        placement: the ranges.
        sample: the image; its depth and its id where the patch lies in the scene.
        patch: height and width of the patch in pixels.
        seed: of this image and step.
    """
    draws = numpy_generator(seed)
    height, width = sample.image.shape[:2]
    hidden = None
    if placement.place != IMAGE:
        places = scene_places(sample, placement.place, (placement.metres * patch[0] / patch[1], placement.metres))
        if not places:
            return None
        # Places come by falling size: without draws the largest.
        place = places[int(draws.integers(len(places))) if placement.move > 0 else 0]
        corners, hidden = place.corners, place.hidden(sample)
    elif placement.corners is not None:
        corners = np.array(placement.corners, np.float64)
    else:
        corners = _flat_corners(placement, (height, width), patch, draws)
    noise = placement.noise * draws.standard_normal((3, *patch))
    shift, factor = placement.brightness * draws.standard_normal(), 1 + placement.contrast * draws.standard_normal()
    return Laid(corners, hidden, noise.astype(np.float32), float(shift), float(factor))


def _flat_corners(
    placement: Placement, image: tuple[int, int], patch: tuple[int, int], draws: np.random.Generator
) -> Floats:
    """A rectangle in the picture, moved, scaled, turned and pulled at its corners; moved back inside where it left."""
    height, width = patch
    down, across, size, angle = draws.uniform(-1, 1, 4)
    pulled = draws.uniform(-1, 1, (4, 2)) * placement.perspective * np.array([width, height]) / 2
    factor = 1 + placement.scale * size
    turn = np.deg2rad(placement.rotation * angle)
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    corners = ((rectangle(height, width) - np.array([width, height]) / 2 + pulled) * factor) @ rotation.T
    # On whole pixels, so that a patch that is neither scaled nor turned is shown as it is.
    top = np.floor(image[0] * placement.centre[0] - height / 2 + placement.move * down * height + 0.5)
    left = np.floor(image[1] * placement.centre[1] - width / 2 + placement.move * across * width + 0.5)
    corners += np.array([left + width / 2, top + height / 2])
    low, high = corners.min(axis=0), corners.max(axis=0)
    limit = np.array([image[1], image[0]], np.float64)
    if (high - low > limit).any():
        raise GauntletError(
            f"a patch of {height}x{width} pixels does not fit into an image of {image[0]}x{image[1]} with these draws; "
            "use a smaller patch, or smaller ranges of scale and rotation."
        )
    return np.asarray(corners + np.maximum(-low, 0) - np.maximum(high - limit, 0))


def paste(images: torch.Tensor, patch: torch.Tensor, laid: Sequence[Laid | None]) -> tuple[torch.Tensor, torch.Tensor]:
    """Images with the patch in them, differentiable in the patch, and where it is, bool (N, H, W).

    The mask is the warped mask of ones, from 1/2 on; pixels outside it stay as they are, bit by bit.

    Args:
        images: (N, 3, H, W) in [0, 1].
        patch: (3, a, b) in [0, 1].
        laid: one per image; an image with None stays clean.
    """
    made, masks = [], []
    height, width = images.shape[2:]
    for image, place in zip(images, laid, strict=True):
        if place is None:
            made.append(image)
            masks.append(torch.zeros(height, width, dtype=torch.bool, device=images.device))
            continue
        grid, ahead = _grid(place.corners, patch.shape[1:], (height, width))
        grid = grid.to(images)
        lit = (patch * place.factor + place.shift + torch.from_numpy(place.noise).to(patch)).clamp(0, 1)
        shown = _warped(lit.to(images), grid, "border")
        whole = torch.ones(1, *patch.shape[1:], dtype=images.dtype, device=images.device)
        mask = _warped(whole, grid, "zeros")[0] >= 0.5
        mask &= ahead.to(images.device)
        if place.hidden is not None:
            mask &= ~torch.from_numpy(place.hidden).to(images.device)
        made.append(torch.where(mask, shown, image))
        masks.append(mask)
    return torch.stack(made), torch.stack(masks)


def _warped(patch: torch.Tensor, grid: torch.Tensor, outside: str) -> torch.Tensor:
    """A patch (C, a, b) at the places of a grid (H, W, 2), bilinear, (C, H, W)."""
    return functional.grid_sample(patch[None], grid[None], "bilinear", outside, align_corners=False)[0]


def _grid(corners: Floats, patch: torch.Size, image: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """For every pixel its place in the patch as `grid_sample` takes it, (H, W, 2), and whether it has one, (H, W)."""
    inverse = homography(corners, rectangle(patch[0], patch[1]))
    y, x = np.mgrid[: image[0], : image[1]] + 0.5
    u, v, w = (row[0] * x + row[1] * y + row[2] for row in inverse)
    w_of_patch = inverse[2] @ np.append(corners.mean(axis=0), 1.0)
    ahead = w * np.sign(w_of_patch) > 1e-9  # beyond the horizon of its plane a patch would be mirrored
    safe = np.where(ahead, w, 1.0)
    place = np.stack([2 * u / safe / patch[1] - 1, 2 * v / safe / patch[0] - 1], axis=-1)
    return torch.from_numpy(np.clip(place, -1e3, 1e3)), torch.from_numpy(ahead)


def _listed(value: Any) -> Any:
    return [_listed(each) for each in value] if isinstance(value, (tuple, list)) else value


def _tupled(value: Any) -> Any:
    return tuple(_tupled(each) for each in value) if isinstance(value, (tuple, list)) else value

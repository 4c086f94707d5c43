"""Where in an image a threat acts: grids of patches, squares, boxes. Corruptions and attacks share them.

A mask is a bool array (H, W). It is described by one key and its options, as JSON: {"patches": {"patch": 64,
"ratio": 0.5}}, {"square": {"size": 64, "position": "centre"}}, {"box": [top, left, bottom, right]}. A size that is no
square is {"height": 32, "width": 64}; the canonical form, which results are stored under, is [32, 64].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.numbers import Number, parse_fraction
from gauntlet.registry import Registry, callable_as
from gauntlet.seeding import numpy_generator
from gauntlet.threats.options import MODE, PATCH, RATIO, Option, merged, options_of

Mask = npt.NDArray[np.bool_]
Size = int | str | Sequence[int] | Mapping[str, int]
"""Whole pixels, (height, width) or {"height": 32, "width": 64} in pixels, or a share of the shorter side of the image:
"half", "quarter", "eighth", or "100/1024", which is 100 pixels where that side has 1024 and as much of it elsewhere."""
Mode = Literal["bernoulli", "exact"]

MODES = ("bernoulli", "exact")
POSITIONS = ("centre", "top-left", "top-right", "bottom-left", "bottom-right")
SHARES = {"half": 2, "quarter": 4, "eighth": 8}
"""Words for a share of the shorter side: one over this."""
SIDES = ("height", "width")

MaskBuilder = Callable[[int, int, int], Mask]
"""(height, width, seed) -> mask."""

masks: Registry[Callable[[Any], MaskBuilder]] = Registry(
    "mask", "gauntlet.masks", check=callable_as("a function that takes the options and returns what builds the mask")
)
"""Kinds of masks by the key of their description; an entry checks the options and returns what builds the mask."""


def patch_grid_mask(height: int, width: int, patch: Size, ratio: Number, seed: int, mode: Mode = "bernoulli") -> Mask:
    """Patches of a grid, chosen at random (docs/specs/corruptions.md, section 6).

    The grid starts at the top left pixel, its last patches may be cut. One uniform number is drawn per patch, row by
    row; the masks of two ratios under one seed are therefore nested.

    Args:
        height, width: of the image, in pixels.
        patch: size of a patch.
        ratio: share of the patches to choose, in [0, 1].
        seed: the only source of randomness.
        mode: "bernoulli" chooses every patch on its own with probability `ratio`; "exact" chooses the share itself,
            rounded to whole patches.
    """
    ratio = parse_fraction(ratio, "ratio")
    check_mode(mode)
    patch_height, patch_width = resolve_size(patch, height, width, "patch")
    shape = (-(-height // patch_height), -(-width // patch_width))
    draws = numpy_generator(seed).random(shape)
    if mode == "bernoulli":
        chosen = draws < ratio
    else:
        chosen = np.zeros(draws.size, np.bool_)
        chosen[np.argsort(draws, axis=None, kind="stable")[: round(ratio * draws.size)]] = True
        chosen = chosen.reshape(shape)
    return chosen.repeat(patch_height, axis=0)[:height].repeat(patch_width, axis=1)[:, :width]


def square_mask(height: int, width: int, size: Size, position: str = "centre") -> Mask:
    """A rectangle in the middle or in a corner.

    Placement in the middle: top = floor((H - h) / 2), left = floor((W - w) / 2) (docs/specs/attacks.md, section 13).

    Args:
        height, width: of the image, in pixels.
        size: of the rectangle; not larger than the image.
        position: "centre", "top-left", "top-right", "bottom-left" or "bottom-right".
    """
    tall, wide = resolve_size(size, height, width, "size")
    if tall > height or wide > width:
        raise GauntletError(
            f"a square of {tall}x{wide} pixels does not fit an image of {height}x{width}; choose a smaller size."
        )
    check_position(position)
    top, left = (height - tall) // 2, (width - wide) // 2
    if position != "centre":
        vertical, horizontal = position.split("-")
        top = 0 if vertical == "top" else height - tall
        left = 0 if horizontal == "left" else width - wide
    return box_mask(height, width, (top, left, top + tall, left + wide))


def box_mask(height: int, width: int, box: Sequence[int]) -> Mask:
    """A rectangle given as (top, left, bottom, right) in pixels; bottom and right are the first ones outside."""
    check_box(box)
    top, left, bottom, right = box
    if not (0 <= top < bottom <= height and 0 <= left < right <= width):
        raise GauntletError(
            f"the box {list(box)} (top, left, bottom, right) is empty or leaves the image of {height}x{width}."
        )
    mask = np.zeros((height, width), np.bool_)
    mask[top:bottom, left:right] = True
    return mask


def parse_mask(description: Mapping[str, Any]) -> MaskBuilder:
    """What builds the masks of a description; raises for every fault that does not depend on the image.

    Args:
        description: one key of `masks.names()` with its options.
    """
    if not isinstance(description, Mapping) or len(description) != 1:
        raise GauntletError(
            f"a mask is described by one of {', '.join(masks.names())} and its options, not by {description!r}."
        )
    kind, options = next(iter(description.items()))
    return masks[kind](options)


def build_mask(description: Mapping[str, Any], height: int, width: int, seed: int = 0) -> Mask:
    """The mask of a description for one image.

    Args:
        description: one key of `masks.names()` with its options.
        height, width: of the image, in pixels.
        seed: the source of randomness of masks that have any: `ImageSeed.stream("mask")`.

    >>> int(build_mask({"square": {"size": 2}}, 4, 6).sum())
    4
    """
    return parse_mask(description)(height, width, seed)


def canonical_mask(description: Mapping[str, Any]) -> dict[str, Any]:
    """A description, checked, in the form that results are stored under.

    >>> canonical_mask({"square": {"size": {"height": 32, "width": 64}}})
    {'square': {'size': [32, 64]}}
    """
    parse_mask(description)
    ((kind, options),) = description.items()
    if not isinstance(options, Mapping):
        return {kind: list(options) if isinstance(options, tuple) else options}
    rectangles = {name for name, option in mask_options().items() if option.rectangle}
    return {kind: {key: canonical_size(value, key) if key in rectangles else value for key, value in options.items()}}


def mask_text(description: Mapping[str, Any]) -> str:
    """A canonical description in the name of a threat: "square 100 centre"."""
    ((kind, options),) = description.items()
    if isinstance(options, Mapping):  # ours in one order, however they were written
        ours = [name for name in mask_options() if name in options]
        values = [options[name] for name in [*ours, *(name for name in options if name not in ours)]]
    else:
        values = list(options)
    return " ".join([kind, *map(str, values)])


def canonical_size(size: Size, name: str) -> int | str | list[int]:
    """A size, checked, in the form that results are stored under: whole pixels, a word, or [height, width]."""
    if isinstance(size, Mapping):
        if set(size) != set(SIDES):
            raise GauntletError(f"{name} as a rectangle is {{height: 32, width: 64}}, not {dict(size)}.")
        size = [size[side] for side in SIDES]
    if isinstance(size, str):
        _share(size, name)
        return size
    pair: list[Any] = list(size) if isinstance(size, Sequence) else [size, size]
    if len(pair) != 2 or not all(_is_whole(value) and value >= 1 for value in pair):
        raise GauntletError(
            f"{name} must be a whole number of pixels from 1 on, or {{height: 32, width: 64}}, not {size!r}."
        )
    return [int(value) for value in pair] if isinstance(size, Sequence) else int(pair[0])


def resolve_size(size: Size, height: int, width: int, name: str) -> tuple[int, int]:
    """Height and width in pixels of a size given in any of its forms."""
    size = canonical_size(size, name)
    if isinstance(size, str):
        pixels, of = _share(size, name)
        side = max(1, min(height, width) * pixels // of)
        return side, side
    return (size[0], size[1]) if isinstance(size, list) else (size, size)


def _share(size: str, name: str) -> tuple[int, int]:
    """A share of the shorter side, as a quotient."""
    if size in SHARES:
        return 1, SHARES[size]
    pixels, slash, of = size.partition("/")
    if not (slash and pixels.isdecimal() and of.isdecimal()):
        raise unknown_name(f"word for '{name}'", size, SHARES)
    if not 0 < int(pixels) <= int(of):
        raise GauntletError(
            f"{name} as a share of the shorter side lies above 0 and up to 1, such as 100/1024, not {size}."
        )
    return int(pixels), int(of)


def check_box(box: object) -> None:
    """An error for anything that is not four whole numbers."""
    if not isinstance(box, Sequence) or len(box) != 4 or not all(_is_whole(value) for value in box):
        raise GauntletError(f"a box is four whole numbers top, left, bottom, right, not {box!r}.")


def check_mode(mode: object) -> None:
    """An error for anything that is not a mode of a patch mask."""
    if mode not in MODES:
        raise unknown_name("mode of a patch mask", str(mode), MODES)


def check_position(position: object) -> None:
    """An error for anything that is not a position of a square."""
    if position not in POSITIONS:
        raise unknown_name("position", str(position), POSITIONS)


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


@dataclass(frozen=True, kw_only=True)
class PatchesOptions:
    """Patches of a grid, chosen at random; see `patch_grid_mask`."""

    ratio: Number = field(metadata=RATIO.metadata)
    patch: Size = field(metadata=PATCH.metadata)
    mode: str = field(default="bernoulli", metadata=MODE.metadata)


@dataclass(frozen=True, kw_only=True)
class SquareOptions:
    """A rectangle in the middle or in a corner; see `square_mask`."""

    size: Size = field(metadata=Option(swept=True, rectangle=True).metadata)
    position: str = field(default="centre", metadata=Option(swept=True).metadata)


def mask_options() -> dict[str, Option]:
    """What is known about the options of masks, by name."""
    return merged(options_of(schema) for schema in (PatchesOptions, SquareOptions))


def _check_options(kind: str, schema: type[Any], options: object) -> dict[str, Any]:
    """The options of a mask that were given; one sentence for what is unknown or missing."""
    if not isinstance(options, Mapping):
        raise GauntletError(f"the options of the mask '{kind}' must be a mapping, not {options!r}.")
    known = {each.name: each for each in fields(schema)}
    for key in options:
        if key not in known:
            raise unknown_name(f"option of the mask '{kind}'", str(key), known)
    for key, each in known.items():
        if each.default is MISSING and key not in options:
            raise GauntletError(f"the mask '{kind}' needs the option '{key}'.")
    return dict(options)


@masks.register("patches")
def _patches(options: Any) -> MaskBuilder:
    arguments = _check_options("patches", PatchesOptions, options)
    canonical_size(arguments["patch"], "patch")
    check_mode(arguments.get("mode", "bernoulli"))
    parse_fraction(arguments["ratio"], "ratio")
    return lambda height, width, seed: patch_grid_mask(height, width, seed=seed, **arguments)


@masks.register("square")
def _square(options: Any) -> MaskBuilder:
    arguments = _check_options("square", SquareOptions, options)
    canonical_size(arguments["size"], "size")
    check_position(arguments.get("position", "centre"))
    return lambda height, width, seed: square_mask(height, width, **arguments)


@masks.register("box")
def _box(options: Any) -> MaskBuilder:
    check_box(options)
    return lambda height, width, seed: box_mask(height, width, options)

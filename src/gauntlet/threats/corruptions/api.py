"""One call that corrupts one image."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.seeding import ImageSeed
from gauntlet.threats.corruptions.catalogue import Image, registry
from gauntlet.threats.corruptions.depth import estimated_depth
from gauntlet.threats.corruptions.settings import Channels, DepthRule, Stream, check_settings

SEVERITIES = (1, 2, 3, 4, 5)
SMALLEST = 32
"""The least height and width of an image, in pixels."""


def corrupt(
    image: npt.NDArray[Any],
    name: str,
    severity: int = 3,
    seed: int = 0,
    *,
    stream: Stream = "fast",
    channels: Channels = "rgb",
    convert: bool = False,
    depth: npt.NDArray[Any] | None = None,
    depth_rule: DepthRule = "metric",
    **options: Any,
) -> Image:
    """A corrupted copy of an image.

    The same image, name, severity and seed give the same bytes on any machine and in any order; no global random state
    is read or changed.

    Args:
        image: uint8 (H, W, 3), RGB, at least 32 pixels high and wide.
        name: a name of `names()` or an alias.
        severity: 1 to 5.
        seed: the only source of randomness.
        stream: "fast", or "legacy" for the random numbers that the reference package draws under that NumPy seed.
        channels: "bgr" applies the corruption to the channels in that order, as both benchmarks do; the image that
            comes in and goes out is RGB all the same.
        convert: take greyscale (replicated) and RGBA (transparency dropped) images too.
        depth: distance in metres (H, W), inf where there is none; for corruptions in 3D that need it, others ignore it.
        depth_rule: "metric" takes the metres as they are; "estimated" as the reference takes a depth map that a network
            estimated, without a scale (`depth.estimated_depth`), which is what DetecBench's images are made with.
        options: what the corruption itself takes (`frost_textures` of frost).

    >>> corrupt(np.full((32, 32, 3), 128, np.uint8), "brightness", severity=2)[0, 0].tolist()
    [179, 179, 179]
    """
    corruption = registry[check_name(name)]
    check_severity(severity)
    check_options(name, options)
    pixels = check_image(image, convert=convert)
    check_settings(stream, channels, depth_rule)
    check_seed(seed)
    if corruption.needs_depth:
        metres = check_depth(depth, check_name(name), pixels.shape[:2])
        options["depth"] = estimated_depth(metres) if depth_rule == "estimated" else metres

    from gauntlet.threats.corruptions.draws import FastDraws, LegacyDraws  # brings the compiler, so not before

    draws = FastDraws(int(seed)) if stream == "fast" else LegacyDraws(int(seed))
    if channels == "bgr":
        return corruption.function(pixels[..., ::-1].copy(), int(severity), draws, **options)[..., ::-1].copy()
    return corruption.function(pixels, int(severity), draws, **options)


def corruption_stream(seed: ImageSeed, name: str, severity: int) -> int:
    """The seed of a corruption of one image in one run (docs/specs/corruptions.md, section 6).

    Where all severities of an image share one draw (section 4.5), the severity is no part of it.
    """
    return seed.stream(f"corruption|{name}" if registry[name].shares_draw else f"corruption|{name}|{severity}")


def names(group: str | None = None) -> list[str]:
    """Names of all corruptions, or of a group (noise, blur, weather, digital, extra, 3d, video, c-bar)."""
    if group is None:
        return registry.names()
    groups = {name: corruption.group for name, corruption in registry.items()}
    if group not in groups.values():
        raise unknown_name("group of corruptions", group, groups.values())
    return [name for name in groups if groups[name] == group]


def check_name(name: str) -> str:
    """The registered name behind a name or an alias; an error with a suggestion for any other."""
    return registry.canonical(name)


def check_severity(severity: object) -> None:
    """An error for anything but 1, 2, 3, 4, 5."""
    if isinstance(severity, bool) or not isinstance(severity, (int, np.integer)) or severity not in SEVERITIES:
        share = ""
        if isinstance(severity, float) and 0 < severity < 1:
            share = f"; as a share of the strongest it would be severity {max(1, round(5 * severity))}"
        raise GauntletError(f"the severity of a corruption must be 1, 2, 3, 4 or 5, not {severity!r}{share}.")


def check_seed(seed: object) -> None:
    """An error for anything but a whole number from 0 on."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise GauntletError(f"the seed of a corruption must be a whole number from 0 on, not {seed!r}.")


def check_options(name: str, options: dict[str, Any]) -> None:
    """An error for an option that the corruption does not take."""
    known = registry[name].options
    for option in options:
        if option not in known:
            raise unknown_name(f"option of the corruption '{check_name(name)}'", option, known)


def check_image(image: npt.NDArray[Any], *, convert: bool = False) -> Image:
    """A contiguous uint8 (H, W, 3) array, or an error that says what is wrong with the image."""
    pixels = np.asarray(image)
    shape = pixels.shape
    if pixels.size == 0:
        raise GauntletError(f"an image to corrupt must have pixels, but its shape is {shape}.")
    if pixels.dtype != np.uint8:
        hint = "; multiply values in [0, 1] by 255 and round first" if pixels.dtype.kind == "f" else ""
        raise GauntletError(f"an image to corrupt must be uint8 with values 0 to 255, not {pixels.dtype}{hint}.")
    grey = pixels.ndim == 2 or (pixels.ndim == 3 and shape[2] == 1)
    if not convert and (grey or (pixels.ndim == 3 and shape[2] == 4)):
        kind = "greyscale" if grey else "RGBA"
        raise GauntletError(
            f"an image to corrupt must be RGB (H, W, 3), not {kind} {shape}; pass convert=True to convert it."
        )
    if grey:
        pixels = np.repeat(pixels.reshape(*shape[:2], 1), 3, axis=2)
    elif pixels.ndim == 3 and shape[2] == 4:
        pixels = pixels[..., :3]
    if pixels.ndim != 3 or pixels.shape[2] != 3:
        raise GauntletError(f"an image to corrupt must be RGB (H, W, 3), not {shape}.")
    if min(shape[:2]) < SMALLEST:
        raise GauntletError(
            f"an image to corrupt must be at least {SMALLEST} pixels high and wide, not {shape[0]}x{shape[1]}."
        )
    return np.require(pixels, requirements=("C", "W"))  # writeable, or the loops would be compiled once more


def check_depth(depth: npt.NDArray[Any] | None, name: str, size: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """The depth of an image of (H, W) in metres, or an error that says what is wrong with it."""
    if depth is None:
        raise GauntletError(
            f"the corruption '{name}' needs depth; pass depth=, the distance of every pixel in metres (H, W), or use a "
            "dataset with depth, such as streets."
        )
    metres = np.ascontiguousarray(depth, dtype=np.float64)
    if metres.shape != size:
        raise GauntletError(
            f"the depth of an image of {size[0]}x{size[1]} must have the same size, not {metres.shape}."
        )
    if not (metres > 0).all():
        raise GauntletError("depth must be positive everywhere, in metres; write inf where there is none.")
    return metres

"""The corruptions by name: fifteen common ones, four extra, nine in 3D, two of video, ten of C-bar, and others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError
from gauntlet.registry import Registry, import_target, instance_of

Image = npt.NDArray[np.uint8]
CorruptionFunction = Callable[..., Image]
"""(image, severity, draws, **options) -> image: uint8 (H, W, 3), 1 to 5, a `Draws`; the input stays as it is."""

RESERVED = ("image", "name", "severity", "seed", "stream", "channels", "convert", "depth", "depth_rule")
"""Arguments of `corrupt`, which no corruption can have as options of its own."""


@dataclass(frozen=True)
class Corruption:
    """One corruption.

    Attributes:
        group: "noise", "blur", "weather", "digital", "extra", "3d", "video", "c-bar", or whatever its author says.
        random: whether the outcome depends on the seed.
        target: the function, or "module:function" when it is only to be imported at the first use.
        options: names of keyword arguments it takes beyond image, severity and draws.
        needs_depth: whether it takes the keyword argument `depth`, float64 (H, W): metres, inf where there is none;
            under the depth rule "estimated" what stands for metres (`depth.estimated_depth`), finite everywhere.
        shares_draw: whether all severities of an image in a run share one seed.
    """

    group: str
    random: bool
    target: CorruptionFunction | str
    options: tuple[str, ...] = ()
    needs_depth: bool = False
    shares_draw: bool = False

    def __post_init__(self) -> None:
        for option in self.options:
            if option in RESERVED:
                raise GauntletError(f"a corruption cannot have an option '{option}'; that is an argument of corrupt().")

    @property
    def function(self) -> CorruptionFunction:
        """The function itself; imports it (and the compiler) when that has not happened yet."""
        if not isinstance(self.target, str):
            return self.target
        function: CorruptionFunction = import_target(self.target)
        return function


def from_function(
    function: CorruptionFunction,
    *,
    group: str = "other",
    random: bool = True,
    options: tuple[str, ...] | None = None,
    needs_depth: bool | None = None,
    shares_draw: bool = False,
) -> Corruption:
    """The corruption that a function stands for.

    Args:
        function: takes image, severity and draws, and by name what else it wants.
        group, random, shares_draw: as in `Corruption`.
        options: by default the parameters after the third, but for `depth`.
        needs_depth: by default whether the function has a parameter `depth`.
    """
    named = _named_parameters(function)
    if options is None:
        options = tuple(name for name in named if name != "depth")
    if needs_depth is None:
        needs_depth = "depth" in named
    return Corruption(group, random, function, options, needs_depth, shares_draw)


def _named_parameters(function: CorruptionFunction) -> list[str]:
    """The names of the parameters after image, severity and draws; none where the function does not say (builtins)."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[3:]
    except (TypeError, ValueError):
        return []
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [parameter.name for parameter in parameters if parameter.kind in by_name]


def _as_corruption(name: str, entry: Any) -> Any:
    """A plain function as a corruption; anything else as it is."""
    is_function = callable(entry) and not isinstance(entry, type)
    return from_function(entry) if is_function else entry


registry: Registry[Corruption] = Registry(
    "corruption",
    "gauntlet.corruptions",
    check=instance_of(Corruption, "a function of (image, severity, draws) or a Corruption"),
    wrap=_as_corruption,
)
"""Corruptions by name; a plain function is stored as the corruption of `from_function`."""


def register(
    name: str,
    *,
    group: str = "other",
    random: bool = True,
    aliases: tuple[str, ...] = (),
    options: tuple[str, ...] | None = None,
    needs_depth: bool | None = None,
    shares_draw: bool = False,
) -> Callable[[CorruptionFunction], CorruptionFunction]:
    """A decorator that makes a function a corruption; the arguments are those of `from_function`.

    Other packages can instead name the function, or a `Corruption`, in the entry-point group "gauntlet.corruptions".

    >>> @register("darkness", random=False)
    ... def darkness(image, severity, draws):
    ...     return image // (severity + 1)
    """

    def store(function: CorruptionFunction) -> CorruptionFunction:
        corruption = from_function(
            function,
            group=group,
            random=random,
            options=options,
            needs_depth=needs_depth,
            shares_draw=shares_draw,
        )
        registry.add(name, corruption, aliases=aliases)
        return function

    return store


def _built_in(name: str, group: str, module: str, *aliases: str, random: bool, **more: Any) -> str:
    target = f"gauntlet.threats.corruptions.{module}:{name}"
    registry.add(name, Corruption(group, random, target, **more), aliases=aliases)
    return name


# Order, groups and names of docs/specs/corruptions.md, section 1; the aliases are the names in the benchmarks' papers.
COMMON: tuple[str, ...] = (
    _built_in("gaussian_noise", "noise", "noise", random=True),
    _built_in("shot_noise", "noise", "noise", random=True),
    _built_in("impulse_noise", "noise", "noise", random=True),
    _built_in("defocus_blur", "blur", "blur", random=False),
    _built_in("glass_blur", "blur", "blur", "frosted_glass_blur", random=True),
    _built_in("motion_blur", "blur", "blur", random=True),
    _built_in("zoom_blur", "blur", "blur", random=False),
    _built_in("snow", "weather", "weather", random=True),
    _built_in("frost", "weather", "weather", random=True, options=("frost_textures",)),
    _built_in("fog", "weather", "weather", random=True),
    _built_in("brightness", "weather", "color", random=False),
    _built_in("contrast", "digital", "color", random=False),
    _built_in("elastic_transform", "digital", "digital", "elastic", random=True),
    _built_in("pixelate", "digital", "digital", random=False),
    _built_in("jpeg_compression", "digital", "digital", "jpeg", random=False),
)
"""The fifteen common corruptions of both benchmarks."""

EXTRA: tuple[str, ...] = (
    _built_in("speckle_noise", "extra", "noise", random=True),
    _built_in("gaussian_blur", "extra", "blur", random=False),
    _built_in("spatter", "extra", "weather", random=True),
    _built_in("saturate", "extra", "color", random=False),
)
"""The four further ones, which no published figure of the benchmarks uses."""

# Section 4 of the specification; the order is alphabetical, as in DetecBench's tables.
COMMON_3D: tuple[str, ...] = (
    _built_in("color_quant", "3d", "color", random=False),
    _built_in("far_focus", "3d", "focus", random=False, needs_depth=True),
    _built_in("fog_3d", "3d", "fog_and_flash", random=False, needs_depth=True),
    _built_in("iso_noise", "3d", "noise", random=True),
    _built_in("low_light", "3d", "noise", random=True),
    _built_in("near_focus", "3d", "focus", random=False, needs_depth=True),
    _built_in("xy_motion_blur", "3d", "motion_3d", random=True, needs_depth=True, shares_draw=True),
    _built_in("z_motion_blur", "3d", "motion_3d", random=True, needs_depth=True, shares_draw=True),
)
"""The eight corruptions in 3D that DetecBench's GAM counts; five of them need depth."""

_built_in(
    "flash", "3d", "fog_and_flash", random=False, needs_depth=True
)  # part of the 3D reference, in no published figure

VIDEO: tuple[str, ...] = (
    _built_in("h265_crf", "video", "video", random=True, needs_depth=True, shares_draw=True),
    _built_in("h265_abr", "video", "video", random=True, needs_depth=True, shares_draw=True),
)
"""Run for most of DetecBench's detectors, but no part of its GAM; they need the extra `video`."""

C_BAR: tuple[str, ...] = (
    _built_in("blue_noise_sample", "c-bar", "c_bar.spectra", random=True),
    _built_in("brownish_noise", "c-bar", "c_bar.spectra", random=True),
    _built_in("caustic_refraction", "c-bar", "c_bar.caustics", random=True),
    _built_in("checkerboard_cutout", "c-bar", "c_bar.waves", random=True),
    _built_in("cocentric_sine_waves", "c-bar", "c_bar.waves", random=True),
    _built_in("inverse_sparkles", "c-bar", "c_bar.stars", random=True),
    _built_in("perlin_noise", "c-bar", "c_bar.perlin", random=True),
    _built_in("plasma_noise", "c-bar", "c_bar.waves", random=True),
    _built_in("single_frequency_greyscale", "c-bar", "c_bar.waves", random=True),
    _built_in("sparkles", "c-bar", "c_bar.stars", random=True),
)
"""The ten of ImageNet-C-bar (Mintun et al. 2021), unlike the common ones (docs/specs/beyond.md, 9)."""

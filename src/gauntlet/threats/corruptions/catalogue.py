"""The corruptions by name: fifteen common ones, four extra ones, nine in 3D, and whatever else is registered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.registry import Registry

Image = npt.NDArray[np.uint8]
CorruptionFunction = Callable[..., Image]
"""(image, severity, draws, **options) -> image: uint8 (H, W, 3), 1 to 5, a `Draws`; the input stays as it is."""


@dataclass(frozen=True)
class Corruption:
    """One corruption.

    Attributes:
        group: "noise", "blur", "weather", "digital", "extra", "3d", or whatever its author says.
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

    @property
    def function(self) -> CorruptionFunction:
        """The function itself; imports it (and the compiler) when that has not happened yet."""
        if not isinstance(self.target, str):
            return self.target
        module, _, name = self.target.partition(":")
        function: CorruptionFunction = getattr(import_module(module), name)
        return function


registry: Registry[Corruption] = Registry("corruption", "gauntlet.corruptions")


def register(
    name: str,
    *,
    group: str = "other",
    random: bool = True,
    aliases: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
    needs_depth: bool = False,
    shares_draw: bool = False,
) -> Callable[[CorruptionFunction], CorruptionFunction]:
    """A decorator that makes a function a corruption; the arguments are those of `Corruption`.

    Other packages can instead name a `Corruption` in the entry-point group "gauntlet.corruptions".

    >>> @register("darkness", random=False)
    ... def darkness(image, severity, draws):
    ...     return image // (severity + 1)
    """

    def store(function: CorruptionFunction) -> CorruptionFunction:
        corruption = Corruption(group, random, function, options, needs_depth, shares_draw)
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
    _built_in("fog_3d", "3d", "light", random=False, needs_depth=True),
    _built_in("iso_noise", "3d", "noise", random=True),
    _built_in("low_light", "3d", "noise", random=True),
    _built_in("near_focus", "3d", "focus", random=False, needs_depth=True),
    _built_in("xy_motion_blur", "3d", "motion_3d", random=True, needs_depth=True, shares_draw=True),
    _built_in("z_motion_blur", "3d", "motion_3d", random=True, needs_depth=True, shares_draw=True),
)
"""The eight corruptions in 3D that DetecBench's GAM counts; five of them need depth."""

_built_in("flash", "3d", "light", random=False, needs_depth=True)  # part of the 3D reference, in no published figure

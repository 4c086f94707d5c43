"""Settings of `crf:` and the published ones by name (docs/specs/defences.md, section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gauntlet.defences.contract import DefenceSettings, parse_choice, parse_flag, parse_whole
from gauntlet.defences.crf.mean_field import AFTER, NORMALISATIONS, SYMMETRIC
from gauntlet.defences.crf.parameters import parameters_digest
from gauntlet.errors import GauntletError
from gauntlet.numbers import Number, parse_number

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "crfrnn": {
        "theta_alpha": 160,
        "theta_beta": 3,
        "w_bilateral": 5,
        "theta_gamma": 3,
        "w_spatial": 3,
        "iterations": 10,
        "normalisation": AFTER,
    },
    "deeplab-resnet": {
        "theta_alpha": 67,
        "theta_beta": 3,
        "w_bilateral": 4,
        "theta_gamma": 1,
        "w_spatial": 3,
        "iterations": 10,
        "normalisation": AFTER,
    },
    "deeplab-vgg": {
        "theta_alpha": 65,
        "theta_beta": 3,
        "w_bilateral": 4,
        "theta_gamma": 2,
        "w_spatial": 2,
        "iterations": 10,
        "normalisation": AFTER,
    },
    "pydensecrf": {
        "theta_alpha": 80,
        "theta_beta": 13,
        "w_bilateral": 10,
        "theta_gamma": 3,
        "w_spatial": 3,
        "iterations": 5,
        "normalisation": SYMMETRIC,
    },
}
"""Published parameters: CRF-RNN's initial ones, DeepLab v2 with ResNet-101 and with VGG-16, pydensecrf's example."""

AUTO, EXACT, CELLS = "auto", "exact", "cells"
METHODS = (AUTO, EXACT, CELLS)
EXACT_PIXELS = 16_384
"""Up to this many pixels method=auto is exact."""
EXACT_BYTES = 4 * 2**30
"""An exact kernel must be smaller."""
LARGEST_SIDE = 4.0
"""Of a cell, in standard deviations: coarser ones have little to do with the kernel."""


@dataclass(frozen=True)
class CrfSettings(DefenceSettings):
    """Kernels, weights, and how they are computed.

    Attributes:
        preset: whose parameters stand for those that are not given.
        iterations: of mean field; 0 leaves the model alone.
        theta_alpha: standard deviation of positions in the bilateral kernel, in pixels.
        theta_beta: standard deviation of colours in it, in grey levels from 0 to 255.
        theta_gamma: standard deviation of the spatial kernel, in pixels.
        w_bilateral: weight of the bilateral kernel.
        w_spatial: weight of the spatial kernel.
        normalisation: how the weights between pixels are normalised.
        self_term: whether a pixel hears itself, as in all public code; the paper leaves it out.
        method: of the bilateral kernel: "exact" for small images, "cells" for large ones, or "auto": exact up to
            16,384 pixels.
        side: of a cell, in standard deviations.
        scale: "auto" multiplies theta_alpha and theta_gamma by max(H, W) / 500, "none" leaves them.
        clip: smallest probability of a class before inference, as in deeplab-pytorch (1e-5); 0 for none.
        image_gradient: whether the gradient also goes through the colours of the kernel; CRF-RNN leaves that out.
        parameters: a safetensors file with learned weights and compatibilities, which then replace the weights.
    """

    without_effect: ClassVar[tuple[str, ...]] = ("preset", "parameters")

    preset: str = "crfrnn"
    iterations: Number | None = None
    theta_alpha: Number | None = None
    theta_beta: Number | None = None
    theta_gamma: Number | None = None
    w_bilateral: Number | None = None
    w_spatial: Number | None = None
    normalisation: str | None = None
    self_term: bool | str = True
    method: str = AUTO
    side: Number | None = None
    scale: str = "none"
    clip: Number = 0.0
    image_gradient: bool | str = True
    parameters: str | None = None

    def __post_init__(self) -> None:
        preset = PRESETS[parse_choice(self.preset, "preset of crf:", list(PRESETS))]

        def chosen(name: str) -> Any:
            given = getattr(self, name)
            return preset[name] if given is None else given

        self._set(
            iterations=parse_whole(chosen("iterations"), "the iterations of crf:", 0),
            normalisation=parse_choice(chosen("normalisation"), "normalisation of crf:", NORMALISATIONS),
            self_term=parse_flag(self.self_term, "self_term of crf:"),
            image_gradient=parse_flag(self.image_gradient, "image_gradient of crf:"),
            **{name: _positive(chosen(name), name) for name in ("theta_alpha", "theta_beta", "theta_gamma")},
        )
        parse_choice(self.method, "method of crf:", METHODS)
        parse_choice(self.scale, "scale of crf:", ("none", "auto"))
        self._set_side()
        self._set_weights(chosen)
        clip = parse_number(self.clip, "the clip of crf:")
        if not 0 <= clip < 1:
            raise GauntletError(f"the clip of crf: is a probability in [0, 1), not {clip:g}.")
        self._set(clip=clip)

    def _set_side(self) -> None:
        if self.method == EXACT:
            if self.side is not None:
                raise GauntletError("method=exact of crf: has no cells, so it takes no side.")
            return
        side = _positive(1 if self.side is None else self.side, "side")
        if side > LARGEST_SIDE:
            raise GauntletError(f"the side of crf: must be at most {LARGEST_SIDE:g} standard deviations, not {side:g}.")
        self._set(side=side)

    def _set_weights(self, chosen: Any) -> None:
        if self.parameters is None:
            names = ("w_bilateral", "w_spatial")
            self._set(**{name: parse_number(chosen(name), f"{name} of crf:") for name in names})
        elif self.w_bilateral is not None or self.w_spatial is not None:
            raise GauntletError("the file of parameters= of crf: has the weights; give no others beside it.")
        else:
            self._set(parameters=str(self.parameters))

    @property
    def words(self) -> str:
        learned = "" if self.parameters is None else f",parameters={parameters_digest(self.parameters)}"
        return super().words + learned

    @property
    def neutral(self) -> bool:
        return self.iterations == 0 or (self.w_bilateral == 0 and self.w_spatial == 0)

    def exact(self, pixels: int) -> bool:
        """Whether every pixel of so many hears every other one."""
        return self.method == EXACT or (self.method == AUTO and pixels <= EXACT_PIXELS)

    def check_size(self, height: int, width: int, bytes_per_number: int = 4) -> None:
        needed = (height * width) ** 2 * max(4, bytes_per_number)
        if self.exact(height * width) and self.w_bilateral != 0 and needed >= EXACT_BYTES:
            raise GauntletError(
                f"the exact kernel of crf: for {height}x{width} pixels takes {needed / 2**30:.0f} GiB, and less than "
                f"{EXACT_BYTES // 2**30} are kept; use method=cells."
            )


def _positive(value: Number, name: str) -> float:
    number = parse_number(value, f"{name} of crf:")
    if not number > 0:
        raise GauntletError(f"{name} of crf: must be greater than 0, not {number:g}.")
    return number

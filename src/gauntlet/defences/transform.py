"""transform: an input transformation before a model, drawn anew per image (Arnab et al.; docs/specs/defences.md, 2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch

from gauntlet.defences.contract import (
    Addressed,
    Defence,
    DefenceSettings,
    parse_choice,
    parse_flag,
    parse_numbers,
    parse_whole,
)
from gauntlet.defences.transformations.blur import NO_BLUR, blur, check_reach
from gauntlet.defences.transformations.grey import grey
from gauntlet.defences.transformations.hsv import TURN, hsv_jitter
from gauntlet.defences.transformations.jpeg import jpeg
from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel
from gauntlet.models.randomness import RandomPart
from gauntlet.numbers import Number, parse_number
from gauntlet.seeding import numpy_generator

TRIALS = 9
"""Repetitions of the inference in Arnab et al."""
TOLERANCE = 1e-3
"""How far images may leave [0, 1] by rounding, such as that of a resized image."""
UNITS = {"8bit": TURN, "degrees": 2 * TURN}
"""One turn of the hue by the name of its units."""

Range = tuple[float, float]


@dataclass(frozen=True)
class TransformSettings(DefenceSettings):
    """Which transformation, and what is drawn; those of other kinds stay None.

    Attributes:
        kind: "jpeg", "blur", "hsv", "grey" or "none".
        quality: jpeg: lowest and highest, whole numbers from 1 to 100; 50+100 by default.
        sigma: blur: lowest and highest bandwidth in pixels of the input; 0+2 by default.
        range: hsv: the largest shift up and down; 30 by default.
        units: hsv: "8bit" (hue up to 180, saturation and value up to 255), or "degrees" (hue up to 360).
        shared: hsv: whether a pixel's hue, saturation and value are shifted by the same number.
        fixed: a parameter that is used instead of a draw: a quality, a bandwidth, a shift of all pixels, three weights.
        trials: how often an evaluation repeats the inference, each time with other draws.
    """

    kind: str = "jpeg"
    quality: Number | Sequence[Number] | None = None
    sigma: Number | Sequence[Number] | None = None
    range: Number | None = None
    units: str | None = None
    shared: bool | str | None = None
    fixed: Number | Sequence[Number] | None = None
    trials: Number | None = None

    def __post_init__(self) -> None:
        parse_choice(self.kind, "kind of transform:", list(KINDS))
        kind = KINDS[self.kind]
        for each in fields(self):
            general = ("kind", *(("fixed", "trials") if self.kind != "none" else ()))
            if getattr(self, each.name) is not None and each.name not in (*general, *kind.settings):
                raise GauntletError(f"the setting '{each.name}' of transform: is none of kind={self.kind}.")
        if self.fixed is not None and any(getattr(self, name) is not None for name in kind.drawn):
            raise GauntletError(f"transform: has either fixed or {' and '.join(kind.drawn)}, not both.")
        if self.fixed is not None and self.kind != "grey":
            self._set(fixed=_one(self.fixed, self.kind))
        self._set(**kind.canonical(self))
        drawn = self.kind != "none" and self.fixed is None
        trials = parse_whole(TRIALS if self.trials is None else self.trials, "trials of transform:", 1)
        self._set(trials=trials if drawn else None)

    @property
    def neutral(self) -> bool:
        return KINDS[self.kind].neutral(self)

    def check_size(self, height: int, width: int) -> None:
        KINDS[self.kind].check_size(self, height, width)

    @property
    def is_random(self) -> bool:
        """Whether something is drawn."""
        return self.trials is not None


class Kind(ABC):
    """A kind of transformation.

    Attributes:
        settings: names of its own settings. drawn: those that say what is drawn, which a fixed parameter replaces.
    """

    settings: ClassVar[tuple[str, ...]] = ()
    drawn: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def canonical(self, given: TransformSettings) -> dict[str, Any]:
        """Its own settings, checked, defaults filled in; a range of one value becomes a fixed one."""

    def neutral(self, settings: TransformSettings) -> bool:
        """Whether nothing is changed."""
        return False

    def check_size(self, settings: TransformSettings, height: int, width: int) -> None:  # noqa: B027 - most take all
        """An error where images of a size cannot be transformed."""

    @abstractmethod
    def draw(self, settings: TransformSettings, generator: np.random.Generator, size: tuple[int, int]) -> Any:
        """The parameter of one image, in float64."""

    @abstractmethod
    def apply(self, settings: TransformSettings, images: torch.Tensor, parameters: Sequence[Any]) -> torch.Tensor:
        """The images (N, 3, H, W) with one parameter each."""


class Jpeg(Kind):
    """Compression with a quality drawn evenly."""

    settings = drawn = ("quality",)

    def canonical(self, given: TransformSettings) -> dict[str, Any]:
        low, high = _range(given.fixed if given.fixed is not None else given.quality, (50, 100), "quality of jpeg")
        if not (low.is_integer() and high.is_integer() and low >= 1 and high <= 100):
            raise GauntletError(f"the quality of jpeg must be whole numbers from 1 to 100, not {low:g} to {high:g}.")
        return {"quality": None, "fixed": int(low)} if low == high else {"quality": (int(low), int(high))}

    def draw(self, settings: TransformSettings, generator: np.random.Generator, size: tuple[int, int]) -> int:
        low, high = _pair(settings.quality)
        return int(generator.integers(low, high + 1))

    def apply(self, settings: TransformSettings, images: torch.Tensor, parameters: Sequence[int]) -> torch.Tensor:
        return jpeg(images, parameters)


class Blur(Kind):
    """Gaussian blur with a bandwidth drawn evenly."""

    settings = drawn = ("sigma",)

    def canonical(self, given: TransformSettings) -> dict[str, Any]:
        low, high = _range(given.fixed if given.fixed is not None else given.sigma, (0, 2), "sigma of blur")
        if low < 0:
            raise GauntletError(f"the sigma of blur must be at least 0 pixels, not {low:g}.")
        return {"sigma": None, "fixed": low} if low == high else {"sigma": (low, high)}

    def neutral(self, settings: TransformSettings) -> bool:
        return isinstance(settings.fixed, float) and settings.fixed < NO_BLUR

    def draw(self, settings: TransformSettings, generator: np.random.Generator, size: tuple[int, int]) -> float:
        return float(generator.uniform(*_pair(settings.sigma)))

    def apply(self, settings: TransformSettings, images: torch.Tensor, parameters: Sequence[float]) -> torch.Tensor:
        self.check_size(settings, *images.shape[-2:])
        return blur(images, parameters)

    def check_size(self, settings: TransformSettings, height: int, width: int) -> None:
        # A range that does not fit is refused whatever was drawn, not for some draws only.
        largest: Any = settings.fixed if settings.sigma is None else _pair(settings.sigma)[1]
        check_reach(largest, height, width)


class Hsv(Kind):
    """Every pixel shifted in hue, saturation and value."""

    settings = ("range", "units", "shared")
    drawn = ("range", "shared")

    def canonical(self, given: TransformSettings) -> dict[str, Any]:
        units = parse_choice(given.units or "8bit", "units of hsv", list(UNITS))
        if given.fixed is not None:
            return {"units": units, "fixed": given.fixed}
        reach = parse_number(30 if given.range is None else given.range, "the range of hsv")
        if reach < 0:
            raise GauntletError(f"the range of hsv must be at least 0, not {reach:g}.")
        if reach == 0:
            return {"units": units, "range": None, "shared": None, "fixed": 0.0}
        return {"units": units, "range": reach, "shared": parse_flag(given.shared or False, "shared")}

    def neutral(self, settings: TransformSettings) -> bool:
        return settings.fixed == 0

    def draw(self, settings: TransformSettings, generator: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
        reach = float(settings.range or 0)
        return generator.uniform(-reach, reach, (*size, 1 if settings.shared else 3))

    def apply(self, settings: TransformSettings, images: torch.Tensor, parameters: Sequence[Any]) -> torch.Tensor:
        fields = [np.full((1, 1, 1), each, dtype=np.float64) if np.ndim(each) == 0 else each for each in parameters]
        height, width, channels = fields[0].shape
        shifts = images.new_empty((len(fields), channels, height, width))  # 3 channels or 1, rounded as it is filled
        for place, field in zip(shifts, fields, strict=True):
            place.copy_(torch.from_numpy(field).permute(2, 0, 1))
        return hsv_jitter(images, shifts, UNITS[settings.units or "8bit"])


class Grey(Kind):
    """A convex combination of the channels with weights from a flat Dirichlet distribution."""

    def canonical(self, given: TransformSettings) -> dict[str, Any]:
        if given.fixed is None:
            return {}
        weights = parse_numbers(given.fixed, "a weight of grey")
        if len(weights) != 3 or min(weights) < 0 or abs(sum(weights) - 1) > 1e-6:
            raise GauntletError(
                f"the fixed weights of grey must be three numbers from 0 on that sum to 1, not {weights}."
            )
        return {"fixed": weights}

    def draw(self, settings: TransformSettings, generator: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
        return generator.dirichlet((1, 1, 1))

    def apply(self, settings: TransformSettings, images: torch.Tensor, parameters: Sequence[Any]) -> torch.Tensor:
        return grey(images, torch.from_numpy(np.array(parameters, dtype=np.float64)).to(images))


class Nothing(Kind):
    """The images as they are."""

    def canonical(self, given: TransformSettings) -> dict[str, Any]:
        return {}

    def neutral(self, settings: TransformSettings) -> bool:
        return True

    def draw(self, settings: TransformSettings, generator: np.random.Generator, size: tuple[int, int]) -> None:
        return None

    def apply(self, settings: TransformSettings, images: torch.Tensor, parameters: Sequence[Any]) -> torch.Tensor:
        return images


KINDS: dict[str, Kind] = {"jpeg": Jpeg(), "blur": Blur(), "hsv": Hsv(), "grey": Grey(), "none": Nothing()}
"""The transformations by name."""


class TransformedModel(Defence, RandomPart):
    """A model that sees transformed images, with parameters drawn per image and forward pass.

    Args:
        model: what sees them.
        settings: those of `TransformSettings`.
    """

    prefix = "transform"
    settings_type = TransformSettings
    settings: TransformSettings

    def __init__(self, model: GauntletModel, **settings: Any) -> None:
        checked = TransformSettings(**settings)
        super().__init__([model], checked)
        self.draw_name, self.is_random = checked.kind, checked.is_random
        self.trials = int(checked.trials or 1)

    def defend(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(self.transform(images))
        return logits

    def transform(self, images: torch.Tensor) -> torch.Tensor:
        """What the model inside sees, (N, 3, H, W)."""
        check_range(images, self.prefix)
        kind, settings = KINDS[self.settings.kind], self.settings
        if self.is_random:
            size = (images.shape[-2], images.shape[-1])
            parameters = [kind.draw(settings, numpy_generator(number), size) for number in self.numbers()]
        else:
            parameters = [settings.fixed] * len(images)
        return kind.apply(settings, images, parameters)


def check_range(images: torch.Tensor, prefix: str) -> None:
    """Raises for images outside [0, 1]."""
    low, high = (extreme.item() for extreme in images.detach().aminmax())
    if not (low >= -TOLERANCE and high <= 1 + TOLERANCE):
        raise GauntletError(f"'{prefix}:' takes images in [0, 1], not [{low:g}, {high:g}].")


def _range(given: Any, usual: Range, name: str) -> Range:
    """Lowest and highest of a range; one number is both."""
    numbers = parse_numbers(usual if given is None else given, f"the {name}")
    if len(numbers) not in (1, 2):
        raise GauntletError(f"the {name} must be one number, or a lowest and a highest one, not {given}.")
    low, high = numbers[0], numbers[-1]
    if low > high:
        raise GauntletError(f"the {name} must go from low to high, not from {low:g} to {high:g}.")
    return low, high


def _pair(value: Any) -> tuple[Any, Any]:
    low, high = value
    return low, high


def _one(value: Number | Sequence[Number], kind: str) -> float:
    """The only number of a fixed parameter."""
    numbers = parse_numbers(value, f"fixed of kind={kind}")
    if len(numbers) != 1:
        raise GauntletError(f"fixed of kind={kind} must be one number, not {value}.")
    return numbers[0]


source = Addressed(TransformedModel)

"""What every defence shares: a model in, a model out, settings that are part of its identity, an address.

A defence is a class derived from `Defence`, its settings a frozen dataclass derived from `DefenceSettings`, and
`source = Addressed(TheClass)` in its module makes `PREFIX:SETTINGS:ADDRESS` an address (docs/specs/defences.md, 0).
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import torch

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.code_identity import code_of_class, joined_codes
from gauntlet.models.contract import GauntletModel, LabelSpace, ModelIdentity, SegmentationModel
from gauntlet.models.defended_names import bounded_in
from gauntlet.models.sources.contract import ModelSource, coded_identity
from gauntlet.numbers import Number, parse_number
from gauntlet.tasks import SEGMENTATION, task_of

Made = TypeVar("Made", bound="Defence")


@dataclass(frozen=True)
class DefenceSettings:
    """Settings of a defence, checked and in canonical form; a field may be given as the text of an address has it.

    Attributes:
        without_effect: fields that change no logit, and are therefore no part of the identity.
    """

    without_effect: ClassVar[tuple[str, ...]] = ()

    @property
    def words(self) -> str:
        """Every setting that may change a logit, defaults filled in: two spellings of one setting are one text."""
        named = [each.name for each in fields(self) if each.name not in self.without_effect]
        values = [(name, getattr(self, name)) for name in named]
        return ",".join(f"{name}={canonical(value)}" for name, value in values if value is not None)

    @property
    def neutral(self) -> bool:
        """Whether the defence does nothing, so that an inner model's own output is returned, bit for bit."""
        return False

    def check_size(self, height: int, width: int) -> None:
        """An error where the defence cannot take images of a size; most take every one."""

    def sizes_inside(self, height: int, width: int) -> Sequence[tuple[int, int]]:
        """The sizes at which the models inside see an image of a size."""
        return [(height, width)]

    def _set(self, **values: Any) -> None:
        """Stores parsed settings in a frozen dataclass, while it is being made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


class Defence(SegmentationModel):
    """A segmentation model around one or more others.

    Attributes:
        prefix: of its addresses.
        version: raised whenever the same settings give other logits.
        settings_type: the class of its settings.
        adds_noise: whether the models inside see images outside [0, 1].
        settings: the settings.
        inner: the models inside.
    """

    prefix: ClassVar[str]
    version: ClassVar[int] = 1
    adds_noise: ClassVar[bool] = False
    settings_type: ClassVar[type[DefenceSettings]]

    def __init__(self, inner: Sequence[GauntletModel], settings: DefenceSettings) -> None:
        for each in inner:
            refuse_detector(self.prefix, task_of(each), each.identity.name)
            self.check_inner(each, settings)
        first = inner[0]
        super().__init__(
            num_classes=first.num_classes,
            class_names=first.class_names,
            ignore_index=first.ignore_index,
            identity=self.identity_of([each.identity for each in inner], settings),
        )
        self.settings = settings
        self.inner = torch.nn.ModuleList(inner)
        self.freeze()

    @property
    def model(self) -> SegmentationModel:
        """The model inside, the first of several."""
        first = self.inner[0]
        assert isinstance(first, SegmentationModel)
        return first

    @property
    def undefended(self) -> SegmentationModel:
        """The model inside that answers for itself where the settings are neutral."""
        return self.model

    @classmethod
    def check_inner(cls, inner: GauntletModel | ModelSource, settings: DefenceSettings) -> None:
        """An error where it cannot stand around a model, told without loading it."""
        bounded = bounded_in(inner.identity.name) if cls.adds_noise and not settings.neutral else None
        if bounded is not None:
            raise GauntletError(
                f"the noise of '{cls.prefix}:' is not clipped, and '{bounded}:' inside it takes images in [0, 1] only; "
                f"put '{bounded}:' around '{cls.prefix}:'."
            )

    def check_size(self, height: int, width: int) -> None:
        _check_size(self.settings, [each for each in self.inner if isinstance(each, GauntletModel)], height, width)

    @classmethod
    def around(cls: type[Made], inner: Sequence[GauntletModel], settings: DefenceSettings) -> Made:
        """The defence of some models with checked settings."""
        given = {each.name: getattr(settings, each.name) for each in fields(settings)}
        return cls(inner[0], **given)  # type: ignore[arg-type] # a defence of one model takes it and its settings

    @classmethod
    def version_with(cls, settings: DefenceSettings) -> int:
        """The version for some settings; another than the others have where only these give other logits."""
        return cls.version

    @classmethod
    def identity_of(cls, inner: Sequence[ModelIdentity], settings: DefenceSettings) -> ModelIdentity:
        """The identity of a defended model, without loading it."""
        words = settings.words
        digests = "|".join(each.digest for each in inner)
        whole = f"{digests}|{cls.prefix}|{words}|{cls.version_with(settings)}"
        digest = hashlib.sha256(whole.encode()).hexdigest()[:16]
        name = inner[0].name if len(inner) == 1 else "+".join(f"[{each.name}]" for each in inner)
        code = joined_codes([*(each.code for each in inner), code_of_class(cls)])
        return ModelIdentity(" ".join(part for part in (name, cls.prefix, words) if part), digest, code=code)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if self.settings.neutral:
            return self.undefended(images)  # type: ignore[no-any-return]
        logits = self.defend(images)
        if not is_finite(logits.detach()):
            raise GauntletError(
                f"'{self.prefix}:' made NaN or infinite logits of what '{self.model.identity.name}' says; check the "
                "model inside and its precision."
            )
        return logits

    @abstractmethod
    def defend(self, images: torch.Tensor) -> torch.Tensor:
        """Logits (N, K, H, W) of images (N, 3, H, W) in [0, 1]; not called with neutral settings."""


def is_finite(values: torch.Tensor) -> bool:
    """Whether no value is NaN or infinite; their sum tells at half the price of a look at each, unless it overflows."""
    return math.isfinite(values.sum()) or all(math.isfinite(extreme) for extreme in values.aminmax())


@dataclass(frozen=True)
class DefendedSource(ModelSource):
    """A defence around models that may not be loaded yet."""

    defence: type[Defence]
    inner: tuple[ModelSource, ...]
    settings: DefenceSettings

    @property
    def identity(self) -> ModelIdentity:
        return self.defence.identity_of([coded_identity(each) for each in self.inner], self.settings)

    @property
    def needs_num_classes(self) -> bool:
        return any(each.needs_num_classes for each in self.inner)

    @property
    def label_space(self) -> LabelSpace | None:
        return self.inner[0].label_space

    def check_size(self, height: int, width: int) -> None:
        _check_size(self.settings, self.inner, height, width)

    def load(self) -> GauntletModel:
        return self.defence.around([each.load() for each in self.inner], self.settings)


@dataclass(frozen=True)
class Addressed:
    """A defence as a source of models: PREFIX:SETTINGS:ADDRESS, with the options of the model at the address."""

    defence: type[Defence]

    def __call__(self, rest: str, options: Mapping[str, Any]) -> ModelSource:
        text, address = split_settings(rest)
        prefix = self.defence.prefix
        if not address:
            raise GauntletError(f"{prefix}:{rest} must name a model behind its settings, as in {self.example}.")
        settings = self.defence.settings_type(**parse_settings(text, self.defence))
        inner = tuple(self.inner(address, options))
        for each in inner:
            refuse_detector(prefix, each.task, each.identity.name)
            self.defence.check_inner(each, settings)
        return DefendedSource(self.defence, inner, settings)

    @property
    def example(self) -> str:
        """An address with every setting that a wrapper has by default."""
        return f"{self.defence.prefix}:{self.defence.settings_type().words}:ADDRESS"

    def inner(self, address: str, options: Mapping[str, Any]) -> Sequence[ModelSource]:
        """The sources of the models inside."""
        # Not at the top: the function that finds every source finds this one too.
        from gauntlet.models.loading import resolve_model

        return [resolve_model(address, **options)]


def _check_size(
    settings: DefenceSettings, inner: Iterable[GauntletModel | ModelSource], height: int, width: int
) -> None:
    """An error where a defence, or a model inside it, cannot take images of a size."""
    if not settings.neutral:
        settings.check_size(height, width)
    for each in inner:
        for size in settings.sizes_inside(height, width):
            each.check_size(*size)


def refuse_detector(prefix: str, task: str, name: str) -> None:
    """Raises for models that are not segmentation models."""
    if task != SEGMENTATION:
        raise GauntletError(f"'{name}' is a {task} model; '{prefix}:' is defined for segmentation models only.")


def split_settings(rest: str) -> tuple[str, str]:
    """The settings and the address of what stands behind a prefix; settings may be left out.

    >>> split_settings("pool=mean:hf:FOLDER"), split_settings("streets/enet"), split_settings("hf:FOLDER")
    (('pool=mean', 'hf:FOLDER'), ('', 'streets/enet'), ('', 'hf:FOLDER'))
    """
    first, _, address = rest.partition(":")
    return (first, address) if "=" in first and not first.startswith("[") else ("", rest)


def parse_settings(text: str, defence: type[Defence]) -> dict[str, str]:
    """The settings of an address by name, as texts; a name without a value is switched on."""
    known = [each.name for each in fields(defence.settings_type)]
    given: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in known:
            raise unknown_name(f"setting of {defence.prefix}:", name, known)
        if name in given:
            raise GauntletError(f"the setting '{name}' of {defence.prefix}: is given twice.")
        if equals and not value:
            raise GauntletError(f"the setting '{name}' of {defence.prefix}: has no value behind its '='.")
        given[name] = value if equals else "true"
    return given


def parse_numbers(value: Number | Sequence[Number], name: str) -> tuple[float, ...]:
    """Numbers from a number, a sequence of them or a text such as "0.5+3/4+1"."""
    parts = value.split("+") if isinstance(value, str) else [value] if isinstance(value, (int, float)) else list(value)
    return tuple(parse_number(part, name) for part in parts)


def parse_whole(value: Number, name: str, low: int) -> int:
    """A whole number of at least `low`."""
    number = parse_number(value, name)
    if not number.is_integer() or number < low:
        raise GauntletError(f"{name} must be a whole number of at least {low}, not {value}.")
    return int(number)


def parse_flag(value: bool | str, name: str) -> bool:
    """Whether a setting is switched on."""
    if isinstance(value, bool):
        return value
    if str(value).lower() not in ("true", "false"):
        raise GauntletError(f"{name} must be true or false, not {value!r}.")
    return str(value).lower() == "true"


def parse_choice(value: str, name: str, choices: Sequence[str]) -> str:
    """One of some names."""
    if value not in choices:
        raise unknown_name(name, str(value), choices)
    return value


def canonical(value: Any) -> str:
    """The shortest text of a setting that gives it back.

    >>> canonical((0.5, 1.0)), canonical(True), canonical("max")
    ('0.5+1', 'true', 'max')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return "+".join(map(canonical, value))
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)

"""The threat of one common corruption: {"corruption": {"name": "fog", "severity": 3}}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator, model_validator

from gauntlet.datasets.contents import file_digests, text_digest
from gauntlet.datasets.images import read_image
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.code_identity import code_of_others
from gauntlet.models.contract import GauntletModel
from gauntlet.samples import Batch, Sample, images_to_tensor
from gauntlet.seeding import ImageSeed
from gauntlet.threats.contract import Perturbed, Threat, threats
from gauntlet.threats.corruptions.api import check_name, check_severity, corrupt, corruption_stream
from gauntlet.threats.corruptions.catalogue import Image, registry
from gauntlet.threats.corruptions.settings import Channels, DepthRule, Stream, check_settings
from gauntlet.threats.corruptions.writing import copies_of, find_copy
from gauntlet.threats.options import NAME, PLAIN, Option, in_name_order, options_of

Options = TypeVar("Options", bound=BaseModel)


class CorruptionOptions(BaseModel):
    """What a corruption threat is made of.

    Attributes:
        name: of the corruption, or an alias.
        severity: 1 to 5.
        stream: "fast", or "legacy" for the reference's own random numbers.
        channels: the order in which the corruption sees the channels; "bgr" is what both benchmarks do.
        depth_rule: how corruptions in 3D read depth: "metric" as metres, "estimated" as DetecBench's images have it.
        copies: a folder of images that were corrupted before (`gauntlet data corrupt`, or the benchmark's own layout);
            they are read instead of computed, and no depth is needed.

    Further keys are the corruption's own options (`frost_textures` of frost).
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: Annotated[str, NAME]
    severity: Annotated[int, Option("always", place=-1, written="{value}", swept=True, axis="severity")] = 3
    stream: Annotated[Stream, Option(written="{value}")] = "fast"
    channels: Annotated[Channels, Option(written="{value}")] = "rgb"
    depth_rule: Annotated[DepthRule, Option(written="{value}")] = "metric"
    copies: Annotated[str | None, Option(written="copies {value}")] = None

    @field_validator("name")
    @classmethod
    def _known_name(cls, name: str) -> str:
        return check_name(name)

    @field_validator("severity", mode="before")
    @classmethod
    def _known_severity(cls, severity: object) -> object:
        check_severity(severity)
        return severity

    @field_validator("stream", "channels", "depth_rule", mode="before")
    @classmethod
    def _known_setting(cls, value: object, info: ValidationInfo) -> object:
        check_settings(**{str(info.field_name): value})
        return value

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Only keys of the schema and of the corruption; None stands for an option's default."""
        name = given.get("name")
        own: tuple[str, ...] = ()
        whose = "threat 'corruption'"
        if isinstance(name, str) and name in registry:
            own, whose = registry[name].options, f"corruption '{registry.canonical(name)}'"
        for key in given:
            if key not in cls.model_fields and key not in own:
                raise unknown_name(f"option of the {whose}", str(key), [*cls.model_fields, *own])
        return {key: value for key, value in given.items() if key not in own or value is not None}

    @model_validator(mode="after")
    def _depth_rule_for_depth(self) -> CorruptionOptions:
        if self.depth_rule != "metric" and not registry[self.name].needs_depth:
            raise GauntletError(f"the corruption '{self.name}' does not look at depth; leave out depth_rule.")
        return self

    def arguments(self) -> dict[str, Any]:
        """The corruption's own options."""
        return dict(self.model_extra or {})


def parse_options(kind: str, schema: type[Options], options: Mapping[str, Any] | None) -> Options:
    """Options checked against their schema; the first fault in one sentence."""
    given = dict(options or {})
    for key in given:
        if key not in schema.model_fields and schema.model_config.get("extra") != "allow":
            raise unknown_name(f"option of the threat '{kind}'", str(key), schema.model_fields)
    try:
        return schema.model_validate(given)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        inner = fault.get("ctx", {}).get("error")
        if isinstance(inner, GauntletError):
            raise inner from None
        field = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "missing":
            raise GauntletError(f"the threat '{kind}' needs the option '{field}'.") from None
        raise GauntletError(
            f"the option '{field}' of the threat '{kind}' is {fault['input']!r}, but: {fault['msg']}."
        ) from None


def _read_copy(sample: Sample, folder: str, name: str, severity: int) -> Image:
    """The image of a sample that was corrupted before; an error where it has another size."""
    copy = read_image(find_copy(Path(folder).expanduser(), sample.id, name, severity), convert=True)
    if copy.shape != sample.image.shape:
        raise GauntletError(
            f"the copy of the image '{sample.id}' in '{folder}' is {copy.shape[0]}x{copy.shape[1]}, the image "
            f"{sample.image.shape[0]}x{sample.image.shape[1]}; use the protocol that the copies were made with."
        )
    return copy


@threats.register("corruption")
class CorruptionThreat(Threat):
    """One corruption of the whole image; it does not look at the model."""

    needs_model = False

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = parse_options("corruption", CorruptionOptions, options)

    @property
    def name(self) -> str:
        """Such as "fog 3", followed by what is not as usual."""
        described = self.describe()["corruption"]
        declared = dict.fromkeys(described, PLAIN) | self.declared_options()
        words = [option.word(key, described[key]) for key, option in in_name_order(declared) if key in described]
        return " ".join(words)

    @classmethod
    def declared_options(cls) -> dict[str, Option]:
        return options_of(CorruptionOptions)

    def describe(self) -> dict[str, Any]:
        changed = self.options.model_dump(exclude_defaults=True)
        return {"corruption": {"name": self.options.name, "severity": self.options.severity, **changed}}

    def uses(self) -> str:
        files, corruption = [], registry[self.options.name]
        if self.options.copies is not None:
            files = copies_of(Path(self.options.copies).expanduser(), self.options.name, self.options.severity)
        elif (textures := self.options.arguments().get("frost_textures")) is not None:
            files = sorted(Path(textures).glob("frost*.*"))
        built_in = isinstance(corruption.target, str) and corruption.target.startswith("gauntlet.")
        own = "" if built_in else code_of_others(corruption.function)
        return text_digest(own, [path.name for path in files], file_digests(files)) if files else own

    @property
    def needs_depth(self) -> bool:
        return self.options.copies is None and registry[self.options.name].needs_depth

    def apply(self, sample: Sample, seed: ImageSeed) -> Image:
        """The corrupted image of one sample, uint8 (H, W, 3)."""
        options = self.options
        if options.copies is not None:
            return _read_copy(sample, options.copies, options.name, options.severity)
        return corrupt(
            sample.image,
            options.name,
            options.severity,
            corruption_stream(seed, options.name, options.severity),
            stream=options.stream,
            channels=options.channels,
            depth=sample.depth,
            depth_rule=options.depth_rule,
            **options.arguments(),
        )

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        corrupted = [self.apply(sample, seed) for sample, seed in zip(batch.samples, seeds, strict=True)]
        return Perturbed(images_to_tensor(corrupted, batch.images.device))

"""A training recipe as data: a YAML file in, a validated object out; unknown fields are an error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from gauntlet.errors import GauntletError
from gauntlet.numbers import parse_number
from gauntlet.yaml_files import read_yaml

Number = Annotated[float, BeforeValidator(parse_number)]
Probability = Annotated[float, BeforeValidator(parse_number), Field(ge=0, le=1)]
Positive = Annotated[float, BeforeValidator(parse_number), Field(gt=0)]


# Croce, Singh & Hein 2024 (arXiv:2306.12941), section 4: what "sea-at" fills in where the recipe says nothing.
SEA_ATTACK = {"name": "pgd", "epsilon": "4/255", "alpha": 0.01, "steps": 5}
SEA_SCHEDULE = {"name": "linear", "warmup": 0.2, "warmup_start": 1e-5}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelConfig(_Section):
    """Which network, and where its weights come from.

    Attributes:
        architecture: a name of `gauntlet.models.architectures`, a segmentation network or a detector; "net:NAME" for a
            published network, whose auxiliary heads train with it; or "python:module:callable" for a segmentation
            network of your own, made by the callable from `options`, and from num_classes where it names that.
        options: of that network.
        num_classes: number of classes; the dataset's by default (its object classes for a detector).
        stride: what height and width must be a multiple of for the network; what it says itself by default, else 1.
        mean, std: normalisation inside the model, per channel, RGB on the [0, 1] scale.
        initial_weights: what to start from: a safetensors file, the folder of a trained model, or the name of a shipped
            model ("streets/enet"). Clean weights for adversarial training, robust ones for PIR-AT. None: random.
        initial_part: take only this part of the initial weights ("encoder"), from a network that shares it; the other
            parts start at random.
    """

    architecture: str
    options: dict[str, Any] = {}
    num_classes: int | None = Field(default=None, ge=1)
    stride: int | None = Field(default=None, ge=1)
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[Positive, Positive, Positive] = (0.25, 0.25, 0.25)
    initial_weights: str | None = None
    initial_part: str | None = None

    @model_validator(mode="after")
    def _check(self) -> ModelConfig:
        if self.initial_part is not None and self.initial_weights is None:
            raise ValueError("initial_part says which part of initial_weights to take: give initial_weights too")
        return self


class DataConfig(_Section):
    """Which data; names and options are those of `gauntlet.load_dataset`.

    Attributes:
        split, options: of the training data.
        validation_split, validation_options: of the data that figures are measured on; options default to `options`.
        validation_limit: only the first so many validation samples; all by default.
        cache: keep samples in memory after the first use (before augmentation).
        workers: threads or processes that prepare samples in the background; 0 prepares them in turn.
        worker_kind: "thread", or "process" where preparing a sample holds the interpreter lock.
        prefetch: batches prepared ahead.
    """

    name: str
    split: str = "train"
    options: dict[str, Any] = {}
    validation_split: str = "val"
    validation_options: dict[str, Any] | None = None
    validation_limit: int | None = Field(default=None, ge=1)
    cache: bool = False
    workers: int = Field(default=1, ge=0)
    worker_kind: Literal["thread", "process"] = "thread"
    prefetch: int = Field(default=2, ge=1)


class ColorJitterConfig(_Section):
    """Largest relative change of brightness, contrast and saturation, and of the hue as a share of the circle."""

    brightness: Probability = 0.0
    contrast: Probability = 0.0
    saturation: Probability = 0.0
    hue: Annotated[float, BeforeValidator(parse_number), Field(ge=0, le=0.5)] = 0.0


class CutoutConfig(_Section):
    """A rectangle of the image is painted with grey and its labels are ignored (DeVries & Taylor 2017).

    Attributes:
        probability: share of the samples.
        ratio: area of the rectangle as a share of the image, drawn between both values.
        ignore: whether the covered pixels leave the loss.
    """

    probability: Probability = 0.5
    ratio: tuple[Probability, Probability] = (0.02, 0.2)
    ignore: bool = True


class CutmixConfig(_Section):
    """A rectangle of another sample, image and labels, is pasted in (Yun et al. 2019).

    Attributes:
        probability: share of the samples.
        ratio: area of the rectangle as a share of the image, drawn between both values.
    """

    probability: Probability = 0.5
    ratio: tuple[Probability, Probability] = (0.05, 0.5)


class LocalizedCorruptionConfig(_Section):
    """A common corruption inside a rectangle; the labels stay.

    Attributes:
        probability: share of the samples.
        names: corruptions to draw from; the fifteen common ones by default.
        severities: to draw from, 1 to 5.
        ratio: area of the rectangle as a share of the image, drawn between both values.
    """

    probability: Probability = 0.5
    names: tuple[str, ...] | None = None
    severities: tuple[Annotated[int, Field(ge=1, le=5)], ...] = (1, 2, 3)
    ratio: tuple[Probability, Probability] = (0.05, 0.5)

    @model_validator(mode="after")
    def _check(self) -> LocalizedCorruptionConfig:
        from gauntlet.threats.corruptions import registry

        for name in self.names or ():
            if registry[name].needs_depth:
                raise ValueError(f"{name} needs depth, which training samples do not have; choose other corruptions")
        return self


class AugmentationConfig(_Section):
    """What is done to a training sample, in this order; everything is off by default.

    Attributes:
        scale: smallest and largest factor of the random resize.
        rotation: largest angle in degrees.
        crop: height and width of the random crop (padded with ignored pixels where the image is smaller).
        flip: probability of a horizontal mirror.
        blur: probability of a Gaussian blur with a 5x5 window.
        color_jitter, cutmix, cutout, localized_corruption: as said there.
        noise: standard deviation of Gaussian noise on the [0, 1] scale, added last and not clipped: what the base model
            of a certificate is trained on (Cohen et al. 2019).
    """

    scale: tuple[Positive, Positive] | None = None
    rotation: Annotated[float, Field(ge=0, le=180)] = 0.0
    crop: tuple[Annotated[int, Field(ge=8)], Annotated[int, Field(ge=8)]] | None = None
    flip: Probability = 0.0
    blur: Probability = 0.0
    color_jitter: ColorJitterConfig | None = None
    cutmix: CutmixConfig | None = None
    cutout: CutoutConfig | None = None
    localized_corruption: LocalizedCorruptionConfig | None = None
    noise: Annotated[float, BeforeValidator(parse_number), Field(ge=0)] = 0.0


class OptimiserConfig(_Section):
    """SGD with momentum, or AdamW; weight decay leaves out biases and normalisation."""

    name: Literal["sgd", "adamw"] = "adamw"
    learning_rate: Positive = 1e-3
    weight_decay: Annotated[float, BeforeValidator(parse_number), Field(ge=0)] = 1e-2
    momentum: Probability = 0.9
    betas: tuple[Probability, Probability] = (0.9, 0.999)
    nesterov: bool = False
    clip_norm: Positive | None = None


class ScheduleConfig(_Section):
    """Learning rate over the steps: a linear warm-up, then poly, linear (poly with power 1), cosine or constant.

    Attributes:
        name: shape of the decay after the warm-up.
        power: of poly, (1 - t/T) ** power.
        warmup: share of all steps spent warming up.
        warmup_start: factor of the learning rate at the first step.
        final: factor of the learning rate at the end.
    """

    name: Literal["poly", "linear", "cosine", "constant"] = "poly"
    power: Positive = 0.9
    warmup: Annotated[float, BeforeValidator(parse_number), Field(ge=0, lt=1)] = 0.0
    warmup_start: Probability = 0.01
    final: Probability = 0.0


class LossConfig(_Section):
    """Cross-entropy over the labelled pixels.

    Attributes:
        name: "cross_entropy" over all of them, "ohem" over the hardest (online hard example mining); what the network
            was published with by default, "cross_entropy" where it says nothing.
        threshold, share: of "ohem": pixels whose right class has a probability below the threshold count, and at least
            this share of the labelled pixels, the hardest first; 0.7 and 1/16 by default.
        auxiliary: weights of the losses of the network's auxiliary heads, [] for no such heads; the published ones by
            default.
        class_weights: None; "log" for 1 / ln(1.02 + p) of the E-Net paper; "median" for median-frequency balancing;
            "root" for the square root of that; or one weight per class.
        frequency_samples: training samples that the frequencies p are counted on.
        label_smoothing: mass spread over all classes.
    """

    name: Literal["cross_entropy", "ohem"] | None = None
    threshold: Annotated[float, BeforeValidator(parse_number), Field(gt=0, lt=1)] | None = None
    share: Annotated[float, BeforeValidator(parse_number), Field(gt=0, le=1)] | None = None
    auxiliary: tuple[Annotated[float, BeforeValidator(parse_number), Field(ge=0)], ...] | None = None
    class_weights: Literal["log", "median", "root"] | tuple[Positive, ...] | None = None
    frequency_samples: int = Field(default=128, ge=1)
    label_smoothing: Probability = 0.0

    @model_validator(mode="after")
    def _check(self) -> LossConfig:
        if self.name != "ohem" and (self.threshold, self.share) != (None, None):
            raise ValueError("threshold and share are of the loss 'ohem': give name: ohem too")
        return self


class AdversarialConfig(_Section):
    """Adversarial training.

    Attributes:
        method: "pgd-at" trains on the images of any attack (PGD-AT, SegPGD-AT, CosPGD-AT by the attack's name);
            "sea-at" is the same with the published recipe filled in (PIR-AT: 5-step PGD at 4/255, warm-up and linear
            decay; start it from robust weights); "ddc-at" is dynamic divide-and-conquer training.
        attack: name and options of an attack of the engine.
        share: share of the batch that is adversarial; 0.5 and 1.0 are the published settings. DDC-AT fixes 0.5.
        ramp: share of the training over which the budget grows to its full size; 0 trains at full strength at once.
    """

    method: Literal["pgd-at", "sea-at", "ddc-at"] = "pgd-at"
    attack: dict[str, Any] = {}
    share: Probability = 1.0
    ramp: Probability = 0.0

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("method") == "sea-at":
            return {**data, "attack": {**SEA_ATTACK, **data.get("attack", {})}}
        return data

    @model_validator(mode="after")
    def _check(self) -> AdversarialConfig:
        if "name" not in self.attack:
            raise ValueError("attack needs a name, such as {name: pgd, epsilon: 8/255, steps: 3}")
        if self.method == "ddc-at" and self.share != 0.5:
            raise ValueError("ddc-at divides a batch into halves: set share to 0.5")
        if self.share == 0:
            raise ValueError("share must be above 0; leave out 'adversarial' for clean training")
        return self


class CheckpointConfig(_Section):
    """How often a resumable state is written (besides the end of every epoch and of the training)."""

    minutes: Positive = 5.0


class TrainingConfig(_Section):
    """A whole recipe.

    Attributes:
        name: what the trained model is called.
        description: one sentence for the model card.
        seed: of everything random; the same seed gives the same weights on the same kind of machine.
        steps, epochs: how long to train, one of them; a step is one update of the weights.
        batch_size: samples per step, over all processes and accumulated parts.
        accumulation: parts a process's share of the batch is computed in.
        precision: "float32", or autocast to "bfloat16" or "float16" (with loss scaling).
        ema: decay of the exponential moving average of the weights that is validated and kept; None keeps the last.
        channels_last: memory format of images and weights; faster for convolutions on CPU.
        threads: torch threads; None leaves torch's own choice.
        device: "auto", "cpu", "cuda", ...
        validate_every: steps between two measurements of the figures; None measures at the end only.
        log_every: steps between two lines of log.csv.
        trackers: "tensorboard", "wandb", "mlflow" beside the CSV file, where installed.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str = ""
    seed: int = 0
    model: ModelConfig
    data: DataConfig
    steps: int | None = Field(default=None, ge=1)
    epochs: int | None = Field(default=None, ge=1)
    batch_size: int = Field(default=8, ge=1)
    accumulation: int = Field(default=1, ge=1)
    augmentation: AugmentationConfig = AugmentationConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    loss: LossConfig = LossConfig()
    adversarial: AdversarialConfig | None = None
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    ema: Annotated[float, BeforeValidator(parse_number), Field(gt=0, lt=1)] | None = None
    channels_last: bool = False
    threads: int | None = Field(default=None, ge=1)
    device: str = "auto"
    validate_every: int | None = Field(default=None, ge=1)
    log_every: int = Field(default=10, ge=1)
    checkpoint: CheckpointConfig = CheckpointConfig()
    trackers: tuple[Literal["tensorboard", "wandb", "mlflow"], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        adversarial = data.get("adversarial") if isinstance(data, dict) else None
        if isinstance(adversarial, dict) and adversarial.get("method") == "sea-at":
            return {"schedule": SEA_SCHEDULE, **data}
        return data

    @model_validator(mode="after")
    def _check(self) -> TrainingConfig:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs")
        if self.batch_size % self.accumulation:
            raise ValueError(f"batch_size {self.batch_size} must be a multiple of accumulation {self.accumulation}")
        return self

    def overruled(self, options: Mapping[str, object]) -> TrainingConfig:
        """The recipe with options of a user in place of its own: name, num_classes, mean, std, initial weights."""
        names = {"weights": "initial_weights"}
        model = {names.get(name, name): value for name, value in options.items() if name != "name"}
        given = {"name": options["name"]} if "name" in options else {}
        fields = self.model_dump(exclude_unset=True)
        return parse_config({**fields, **given, "model": {**fields["model"], **model}}) if options else self

    def as_dict(self) -> dict[str, Any]:
        """The recipe as plain data, defaults included."""
        return self.model_dump(mode="json")


def parse_config(data: object, source: str = "the training recipe") -> TrainingConfig:
    """A recipe from plain data; the first fault in one sentence."""
    if isinstance(data, TrainingConfig):
        return data
    if not isinstance(data, dict):
        raise GauntletError(f"{source} must be a mapping of fields to values, not {type(data).__name__}.")
    try:
        return TrainingConfig.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "recipe"
        if first["type"] == "extra_forbidden":
            raise GauntletError(f"{source}: unknown field '{place}'; see docs/training.md for the fields.") from None
        reason = first["msg"].removeprefix("Value error, ")
        raise GauntletError(f"{source}: {place}: {reason}.") from None


def load_config(path: str | Path) -> TrainingConfig:
    """A recipe from a YAML file."""
    path = Path(path)
    return parse_config(read_yaml(path, "the training recipe"), f"'{path}'")

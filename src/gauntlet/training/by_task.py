"""What differs between training a segmentation network and a detector: samples, model, loss, figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from gauntlet.class_numbers import check_void, void_label
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.architectures import NET, WrappedDetector, architectures, build_detector, build_network, detectors
from gauntlet.models.wrapping import Normalisation, WrappedSegmentation
from gauntlet.own_code import PREFIX
from gauntlet.training.augmentation.box_augmentation import BoxAugmentation
from gauntlet.training.augmentation.images_and_labels import Augmentation
from gauntlet.training.auxiliary import auxiliary_heads, supervision
from gauntlet.training.class_weights import class_weights
from gauntlet.training.config import LossConfig, TrainingConfig
from gauntlet.training.distributed import Processes
from gauntlet.training.division import DividedObjective
from gauntlet.training.initial_weights import load_weights
from gauntlet.training.objectives import (
    AdversarialDetectionObjective,
    AdversarialObjective,
    DetectionObjective,
    Objective,
)
from gauntlet.training.outputs import TrainedModel
from gauntlet.training.pixel_loss import PixelLoss
from gauntlet.training.sample_feed import BoxPreparation, Preparation, SamplePreparation
from gauntlet.training.validation import Figures, validate, validate_detector


class TrainingTask(ABC):
    """One kind of training.

    Args:
        config: the recipe.
        dataset: the training data.
    """

    figures: ClassVar[tuple[str, ...]]
    """Names of the validation's figures, the most important first."""

    def __init__(self, config: TrainingConfig, dataset: Dataset) -> None:
        self.config = config
        self.dataset = dataset

    @abstractmethod
    def preparation(self) -> SamplePreparation[Any]:
        """Where augmented samples come from."""

    @abstractmethod
    def model(self) -> TrainedModel:
        """The network behind its contract, with its initial weights."""

    @abstractmethod
    def objective(self, model: TrainedModel, preparation: SamplePreparation[Any]) -> Objective:
        """What the recipe minimises."""

    @abstractmethod
    def validate(self, model: TrainedModel, dataset: Dataset, processes: Processes) -> Figures:
        """Figures of a model in eval mode."""

    def classes(self, names: Sequence[str]) -> tuple[int, Sequence[str] | None]:
        """How many classes the network has, and their names where they are those of the data."""
        wanted = self.config.model.num_classes
        if wanted is not None and wanted < len(names):
            raise GauntletError(f"model.num_classes is {wanted}, but the dataset has {len(names)} classes.")
        return (len(names), names) if wanted in (None, len(names)) else (wanted or 0, None)


class SegmentationTask(TrainingTask):
    """A label for every pixel."""

    figures = ("mIoU", "aAcc")

    @property
    def ignored(self) -> int:
        """The label of void, which crops beyond an image need even where the data has none."""
        classes, _ = self.classes(self.dataset.class_names)
        check_void(self.dataset.ignore_index, len(self.dataset.class_names))
        return void_label(classes) if self.dataset.ignore_index is None else self.dataset.ignore_index

    def preparation(self) -> Preparation:
        augmentation = Augmentation(self.config.augmentation, self.ignored)
        return Preparation(self.dataset, augmentation, self.config.seed, cache=self.config.data.cache)

    def model(self) -> WrappedSegmentation:
        settings = self.config.model
        num_classes, names = self.classes(self.dataset.class_names)
        network = build_network(settings.architecture, num_classes, settings.options)
        if settings.initial_weights is not None:
            load_weights(network, settings.initial_weights, settings.initial_part)
        return WrappedSegmentation(
            network,
            num_classes=num_classes,
            normalisation=Normalisation(settings.mean, settings.std),
            class_names=names,
            ignore_index=self.ignored,
            stride=settings.stride or int(getattr(network, "stride", 1)),
        )

    def objective(self, model: TrainedModel, preparation: SamplePreparation[Any]) -> Objective:
        assert isinstance(model, WrappedSegmentation)
        assert isinstance(preparation, Preparation)
        losses = supervision(model.module, self.config.loss)
        weight, smoothing = class_weights(self.config.loss, preparation), self.config.loss.label_smoothing
        criterion = PixelLoss(self.ignored, weight=weight, label_smoothing=smoothing, hard=losses.hard)
        adversarial = self.config.adversarial
        if adversarial is not None and adversarial.method == "ddc-at":
            if self.config.loss.auxiliary:
                raise GauntletError("ddc-at has branches of its own and trains no auxiliary heads: no loss.auxiliary.")
            return DividedObjective(model, adversarial, criterion)
        heads = auxiliary_heads(model.module, losses, criterion)
        if adversarial is None:
            return Objective(model, criterion, heads)
        return AdversarialObjective(model, adversarial, criterion, heads)

    def validate(self, model: TrainedModel, dataset: Dataset, processes: Processes) -> Figures:
        assert isinstance(model, WrappedSegmentation)
        return validate(model, dataset, processes)


class DetectionTask(TrainingTask):
    """Boxes with classes; the loss is the network's own."""

    figures = ("mAP", "mAP50")

    def preparation(self) -> BoxPreparation:
        augmentation = BoxAugmentation(self.config.augmentation)
        return BoxPreparation(self.dataset, augmentation, self.config.seed, cache=self.config.data.cache)

    def model(self) -> WrappedDetector:
        settings = self.config.model
        if settings.stride is not None:
            raise GauntletError("model.stride is for segmentation networks; a detector says its own.")
        if not self.dataset.box_class_names:
            raise GauntletError(f"the dataset '{self.dataset.name}' has no boxes, which a detector is trained on.")
        num_classes, names = self.classes(self.dataset.box_class_names)
        network = build_detector(settings.architecture, num_classes, **settings.options)
        if settings.initial_weights is not None:
            load_weights(network, settings.initial_weights, settings.initial_part)
        return WrappedDetector(
            network, num_classes=num_classes, mean=settings.mean, std=settings.std, class_names=names
        )

    def objective(self, model: TrainedModel, preparation: SamplePreparation[Any]) -> Objective:
        if self.config.loss != LossConfig():
            raise GauntletError("the fields of 'loss' are for segmentation; a detector has a loss of its own.")
        adversarial = self.config.adversarial
        if adversarial is None:
            return DetectionObjective(model)
        if adversarial.method == "ddc-at":
            raise GauntletError("ddc-at divides pixels and trains segmentation networks; use pgd-at for a detector.")
        return AdversarialDetectionObjective(model, adversarial)

    def validate(self, model: TrainedModel, dataset: Dataset, processes: Processes) -> Figures:
        assert isinstance(model, WrappedDetector)
        return validate_detector(model, dataset, processes)


def training_task(config: TrainingConfig, dataset: Dataset) -> TrainingTask:
    """The kind of training that the recipe's network needs."""
    name = config.model.architecture
    if name in detectors:
        return DetectionTask(config, dataset)
    if name not in architectures and not name.startswith((PREFIX, NET)):
        raise unknown_name("architecture", name, [*architectures.names(), *detectors.names()])
    return SegmentationTask(config, dataset)

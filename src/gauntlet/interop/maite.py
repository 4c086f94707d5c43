"""MAITE's protocols by duck typing (docs/specs/beyond.md, 10): `maite.tasks.evaluate` takes what is made here.

Images are float32 (3, H, W), RGB in [0, 1]; uint8 ones are converted. A segmentation target is one-hot (K, H, W), all
zero where a pixel is void; a prediction has probabilities in its place. MAITE knows no ignore index: the label map
itself stands in the metadata of a datum, as `label_map`, and our metric reads it there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.class_numbers import void_label
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.metrics import WHOLE, DetectionMetric, SegmentationMetric
from gauntlet.metrics.segmentation.metric import DensePrediction
from gauntlet.models import DetectionModel, GauntletModel, SegmentationModel, wrap_model
from gauntlet.models.asked import AskedPart
from gauntlet.models.contract import Candidates, ModelIdentity, weights_digest
from gauntlet.models.randomness import EvaluationDraws, drawing, random_parts
from gauntlet.samples import Batch, Boxes, Sample
from gauntlet.seeding import ImageSeed
from gauntlet.tasks import DETECTION
from gauntlet.threats import build_threat

Metadata = dict[str, Any]
VOID = 255
"""The label of void in label maps that are made of one-hot targets."""


@dataclass(frozen=True)
class DetectionTarget:
    """MAITE's target of a detector: boxes (n, 4) as x0, y0, x1, y1, labels (n,), scores (n,)."""

    boxes: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]


class MaiteModel:
    """A model of ours that takes a sequence of images and gives a sequence of targets."""

    def __init__(self, model: GauntletModel) -> None:
        self.model = model
        self.metadata: Metadata = {"id": model.identity.name, "index2label": dict(enumerate(model.class_names))}

    def __call__(self, batch: Sequence[Any]) -> list[Any]:
        """One image at a time: MAITE's batches may hold several sizes."""
        return [self._answer(_image(each)[None].to(self.model.device)) for each in batch]

    def _answer(self, image: torch.Tensor) -> Any:
        if isinstance(self.model, DetectionModel):
            return _target(self.model.predict(image)[0])
        with torch.no_grad():
            content = hashlib.sha256(image.cpu().numpy().tobytes()).hexdigest()  # MAITE's images have no names here
            with drawing(random_parts(self.model), EvaluationDraws([ImageSeed(0, content)])):
                return self.model(image).softmax(dim=1)[0].cpu().numpy()


class MaiteDataset:
    """A dataset of ours as (image, target, metadata with `id`, and `label_map` where it has one)."""

    def __init__(self, dataset: Dataset, task: str = "segmentation") -> None:
        self.dataset, self.task = dataset, task
        names = dataset.box_class_names if task == DETECTION else dataset.class_names
        self.metadata: Metadata = {"id": f"{dataset.name}/{dataset.split}", "index2label": dict(enumerate(names))}

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[npt.NDArray[np.float32], Any, Metadata]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        sample = self.dataset[index]
        return sample.tensor().numpy(), *_truth(sample, len(self.metadata["index2label"]), self.dataset.ignore_index)


class MaiteMetric:
    """A metric of ours, from its counts per image; `compute` gives the headline figures, fractions in [0, 1]."""

    def __init__(self, class_names: Sequence[str], task: str = "segmentation", ignore_index: int | None = VOID) -> None:
        self.metadata: Metadata = {"id": f"gauntlet-{task}"}
        self._detection = DetectionMetric(class_names) if task == DETECTION else None
        self._segmentation = SegmentationMetric(class_names, ignore_index=ignore_index)
        self._counts: list[Any] = []

    def reset(self) -> None:
        self._counts = []

    def update(self, predictions: Sequence[Any], targets: Sequence[Any], metadatas: Sequence[Metadata], /) -> None:
        for prediction, target, metadata in zip(predictions, targets, metadatas, strict=True):
            if self._detection is not None:
                counts: Any = self._detection.update(_boxes(prediction, scored=True), _boxes(target))
            else:
                void = self._segmentation.ignore_index
                void = void_label(len(target)) if void is None else void
                truth = metadata.get("label_map")
                truth = _label_map(target, void) if truth is None else np.asarray(truth)
                counts = self._segmentation.update(DensePrediction(np.asarray(prediction).argmax(axis=0)), truth)
            self._counts.append(counts)

    def compute(self) -> dict[str, float]:
        metric = self._segmentation if self._detection is None else self._detection
        figures = metric.compute(self._counts, WHOLE)
        return {each.metric: each.value for each in figures if not each.class_name and each.view == "all"}


class MaiteThreat:
    """A threat as an augmentation. Attacks need the model that they are made on; corruptions and moves need none.

    Args:
        threat: a name or a description, as in `gauntlet.evaluate`.
        model: what attacks are made on.
        seed: of the run; an image's own draws hang on its `id`, as in an evaluation.
    """

    def __init__(self, threat: str | Mapping[str, Any], model: GauntletModel | None = None, *, seed: int = 0) -> None:
        self.threat, self.model, self.seed = build_threat(threat), model, seed
        if self.threat.needs_model and model is None:
            raise GauntletError(f"the threat '{self.threat.name}' needs a model; pass MaiteThreat(threat, model).")
        self.metadata: Metadata = {"id": self.threat.name}

    def __call__(
        self, data: tuple[Sequence[Any], Sequence[Any], Sequence[Metadata]]
    ) -> tuple[list[Any], list[Any], list[Any]]:
        inputs, targets, metadatas = data
        changed = [self._one(*each) for each in zip(inputs, targets, metadatas, strict=True)]
        return [each[0] for each in changed], [each[1] for each in changed], [each[2] for each in changed]

    def _one(self, image: Any, target: Any, metadata: Metadata) -> tuple[Any, Any, Metadata]:
        """One image at a time: MAITE's batches may hold several sizes."""
        tensor = _image(image)
        pixels = (255 * tensor).round().to(torch.uint8).permute(1, 2, 0).numpy()
        sample = Sample(str(metadata["id"]), pixels)
        dense = not hasattr(target, "boxes")
        classes = len(target) if dense else 0
        void = metadata.get("ignore_index", void_label(classes))
        if dense:
            labels = np.asarray(metadata["label_map"]) if "label_map" in metadata else _label_map(target, void)
            sample = replace(sample, labels=labels)
        else:
            sample = replace(sample, boxes=_boxes(target))
        truth = None if sample.labels is None else torch.from_numpy(sample.labels.astype(np.int64))[None]
        device = torch.device("cpu") if self.model is None else self.model.device
        batch = Batch([sample], tensor[None].to(device), None if truth is None else truth.to(device), void)
        # Threats that need no model never look at it.
        perturbed = self.threat.perturb(self.model, batch, [ImageSeed(self.seed, sample.id)])  # type: ignore[arg-type]
        if perturbed.samples is not None:
            moved, facts = _truth(perturbed.samples[0], classes, void)
            target, metadata = moved, {**metadata, **facts}
        return perturbed.images[0].cpu().numpy(), target, metadata


def wrap_maite_model(model: Any, *, task: str = "segmentation", digest: str = "") -> GauntletModel:
    """A MAITE model as one of ours. It can only be asked: attacks that follow a gradient are refused.

    Args:
        model: with `metadata` (`id`, `index2label`) and a call that takes a sequence of images.
        task: "segmentation" or "detection".
        digest: of its weights; what tells two checkpoints of one `id` apart in a store. Made of the weights where the
            model, or its `model`, is a torch module; without it two models of one `id` are the same to a store.
    """
    labels = model.metadata.get("index2label")
    if not labels:
        raise GauntletError("the MAITE model has no 'index2label' in its metadata; add the names of its classes.")
    names = [labels[index] for index in range(len(labels))]
    identity = ModelIdentity(str(model.metadata["id"]), f"maite:{model.metadata['id']}:{digest or _weights(model)}")
    if task == DETECTION:
        return _AskedDetector(model, names, identity)
    wrapped: SegmentationModel = wrap_model(
        _AskedScores(model), num_classes=len(names), class_names=names, name=identity.name
    )
    wrapped._identity = identity
    return wrapped


def _weights(model: Any) -> str:
    """The digest of the weights, where they can be seen."""
    modules = [each for each in (model, getattr(model, "model", None)) if isinstance(each, torch.nn.Module)]
    return weights_digest(modules[0]) if modules else ""


def _logits(scores: torch.Tensor) -> torch.Tensor:
    """Scores (K, H, W) as logits: MAITE's models give probabilities, whose softmax would be taken twice."""
    sums = scores.sum(dim=0)
    probabilities = bool((scores >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-3)
    return scores.clamp_min(1e-12).log() if probabilities else scores


class _AskedScores(AskedPart):
    """Scores (N, K, H, W) of a MAITE model."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.ask = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        answers = self.ask(list(images.detach().cpu().numpy()))
        scores = [torch.as_tensor(np.asarray(each), dtype=images.dtype) for each in answers]
        return torch.stack([_logits(each) for each in scores]).to(images.device)


class _AskedDetector(DetectionModel):
    """A detector that only says what it found."""

    def __init__(self, model: Any, names: Sequence[str], identity: ModelIdentity) -> None:
        super().__init__(num_classes=len(names), class_names=names, ignore_index=None, identity=identity)
        self.asked = _AskedScores(model)  # marks it as a model without a gradient

    def predict(self, images: torch.Tensor) -> list[Boxes]:
        return [_boxes(each, scored=True) for each in self.asked.ask(list(images.detach().cpu().numpy()))]

    def losses(self, images: torch.Tensor, targets: Sequence[Boxes]) -> torch.Tensor:
        raise GauntletError(f"the MAITE model '{self.identity.name}' has no loss; use threats that need no gradient.")

    def candidates(self, images: torch.Tensor) -> Candidates:
        raise GauntletError(
            f"the MAITE model '{self.identity.name}' has no candidates; use threats that need no gradient."
        )


def _image(image: Any) -> torch.Tensor:
    """An image (3, H, W) as float32 in [0, 1]."""
    array = np.asarray(image)
    scale = 255 if array.dtype == np.uint8 else 1
    return torch.from_numpy(array.astype(np.float32) / scale)


def _truth(sample: Sample, classes: int, void: int | None) -> tuple[Any, Metadata]:
    """Target and metadata of a sample."""
    if sample.labels is None:
        if sample.boxes is None:
            raise GauntletError(f"the image '{sample.id}' has neither labels nor boxes.")
        return _target(sample.boxes), {"id": sample.id}
    one_hot = (sample.labels[None] == np.arange(classes)[:, None, None]).astype(np.float32)
    return one_hot, {"id": sample.id, "label_map": sample.labels, "ignore_index": void}


def _label_map(one_hot: Any, void: int) -> npt.NDArray[np.int64]:
    """(H, W) classes of a one-hot target (K, H, W); void where a column is all zero."""
    array = np.asarray(one_hot)
    return np.where(array.sum(axis=0) > 0, array.argmax(axis=0), void).astype(np.int64)


def _target(boxes: Boxes) -> DetectionTarget:
    scores = np.ones(len(boxes), np.float32) if boxes.scores is None else boxes.scores
    return DetectionTarget(boxes.xyxy, boxes.classes, scores)


def _boxes(target: Any, *, scored: bool = False) -> Boxes:
    """Boxes of a target; of scores (n, K) the largest, with its class."""
    corners = np.asarray(target.boxes, np.float32).reshape(-1, 4)
    classes = np.asarray(target.labels, np.int64)
    if not scored:
        return Boxes(corners, classes)
    scores = np.asarray(target.scores, np.float32)
    return Boxes(corners, classes, scores.max(axis=1) if scores.ndim == 2 else scores)

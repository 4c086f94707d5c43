"""Arrays and tensors that a user or a dataset gives are only read: by threats, metrics, defences, training, reports."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import gauntlet
from gauntlet.datasets.contract import Dataset, Subset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.prediction import predict_dense
from gauntlet.evaluation.reloading import Loaders
from gauntlet.metrics import DetectionMetric, SegmentationMetric
from gauntlet.models import GauntletModel, SegmentationModel, load_model
from gauntlet.report import Options, write_report
from gauntlet.results import Store
from gauntlet.samples import Sample, collate
from gauntlet.threats import attacks, corruptions
from gauntlet.threats.fitted import PatchRule, UniversalRule, fit_patch, fit_universal
from gauntlet.training import train
from tiny import TinyDataset
from tiny_detector import TinyBoxes, tiny_detector

SIZES = ((32, 40),)
PLAIN = {"epsilon": "8/255"}
FEW: dict[str, dict[str, Any]] = {
    **{name: {"steps": 2} for name in (*attacks.names("segmentation"), *attacks.names("detection"))},
    **{name: {} for name in ("fgsm", "fgsm-ll", "fgsm-nth")},
    **{name: {"queries": 6} for name in ("square", "label-only")},
    "region-aware": {"steps": 2, "rounds": 2},
}
NOISE: dict[str, Any] = {"name": "gaussian_noise", "severity": 3}
KINDS: dict[str, Any] = {
    "clean": "clean",
    "battery": {"battery": {"name": "semsegbench", **PLAIN, "steps": 2}},
    "region_aware": {
        "region_aware": {
            "attack": {"name": "bim", **PLAIN, "steps": 2},
            "rounds": 2,
            "region": {"square": {"size": 8, "position": "centre"}},
        }
    },
    **{name: {"corruption": {"name": name, "severity": 3}} for name in ("brightness", "frost", "elastic_transform")},
    "localized": {"localized": {"corruption": NOISE, "ratio": 0.5, "patch": 8}},
    "geometric": {"geometric": {"name": "rotation", "degrees": 10}},
    "geometric_worst": {"geometric_worst": {"draws": 3, "degrees": 10, "shift": 0.1}},
    "certify": {"certify": {"sigma": 0.25, "n0": 2, "n": 40, "tau": 0.6}},
    "permutation": {"attack": {"name": "pgd", "steps": 2, "target": {"permutation": [1, 2, 0]}}},
}


def arrays_of(sample: Sample) -> Iterator[npt.NDArray[Any]]:
    """The arrays of a sample and of its boxes."""
    boxes = sample.boxes
    parts: list[npt.NDArray[Any] | None] = [sample.image, sample.labels, sample.depth]
    if boxes is not None:
        parts += [boxes.xyxy, boxes.classes, boxes.crowd, boxes.difficult, boxes.area]
    return (each for each in parts if each is not None)


class Locked(Subset):
    """The samples of a dataset, each made once; their arrays may only be read."""

    def __init__(self, dataset: Dataset, *, depth: bool = False) -> None:
        super().__init__(dataset, len(dataset))
        self.has_depth = depth
        self.samples = [self._made(dataset[index], depth) for index in range(len(dataset))]
        self.before = [[each.copy() for each in arrays_of(sample)] for sample in self.samples]

    @staticmethod
    def _made(sample: Sample, depth: bool) -> Sample:
        height, width = sample.image.shape[:2]
        distances = np.tile(np.linspace(80, 2, height, dtype=np.float32)[:, None], (1, width)) if depth else None
        labels = None if sample.labels is None else sample.labels.astype(np.int64)  # torch's own type
        made = Sample(sample.id, sample.image, labels, sample.boxes, distances)
        for each in arrays_of(made):
            each.setflags(write=False)
        return made

    def __getitem__(self, index: int) -> Sample:
        return self.samples[index]

    def check(self) -> None:
        """Raises unless every array is what it was: torch writes to what NumPy has locked."""
        for sample, before in zip(self.samples, self.before, strict=True):
            for now, then in zip(arrays_of(sample), before, strict=True):
                assert np.array_equal(now, then)


def labelled(*, depth: bool = False) -> Locked:
    return Locked(TinyDataset(2, sizes=SIZES), depth=depth)


def weights(sample: Sample) -> npt.NDArray[np.floating[Any]]:
    """Importance that may only be read."""
    found = np.linspace(0, 1, sample.image[..., 0].size).reshape(sample.image.shape[:2])
    found.setflags(write=False)
    return found


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_threat_only_reads(name: str, tiny_model: SegmentationModel) -> None:
    data = labelled()
    options: dict[str, Any] = {} if name == "certify" else {"importance": weights}
    gauntlet.evaluate(tiny_model, data, KINDS[name], batch_size=2, **options)
    data.check()


@pytest.mark.slow
def test_every_corruption_only_reads(tiny_model: SegmentationModel) -> None:
    data = labelled(depth=True)
    video = find_spec("av") is not None
    names = [name for name in corruptions.names() if video or not name.startswith("h265")]
    threats: list[Any] = [{"corruption": {"name": name, "severity": 3}} for name in names]
    gauntlet.evaluate(tiny_model, data, threats, batch_size=2)
    data.check()


def test_what_is_fitted_only_reads(tiny_model: SegmentationModel) -> None:
    data = labelled()
    universal = fit_universal(tiny_model, data, UniversalRule(passes=1, epsilon="8/255"))
    patch = fit_patch(tiny_model, data, PatchRule(steps=2, batch=2, size=(5, 8)))
    for kind, artifact in (("universal", universal), ("patch", patch)):
        threat = {kind: {"artifact": artifact, "fit_images": True}}
        gauntlet.evaluate(tiny_model, data, threat, batch_size=2)
    data.check()


@pytest.mark.parametrize("name", attacks.names("segmentation"))
def test_every_attack_on_pixels_leaves_its_tensors_alone(name: str, tiny_model: SegmentationModel) -> None:
    batch = collate([TinyDataset(2)[index] for index in range(2)])
    assert batch.labels is not None
    given = {
        "images": batch.images,
        "labels": batch.labels,
        "region": torch.ones(16, 24, dtype=torch.bool),
        "fooling_region": torch.ones(2, 16, 24, dtype=torch.bool),
    }
    single: dict[str, Any] = {"start": (batch.images + 0.01).clamp(0, 1), "target": (batch.labels + 1) % 3}
    attack = attacks.build(name, **FEW[name])
    for more in ({}, *({key: value} for key, value in single.items())):
        tensors = {**given, **more}
        before = {key: (value._version, value.clone()) for key, value in tensors.items()}
        try:
            attack(tiny_model, **tensors)
        except GauntletError:  # it takes no start, or no target
            assert more
        for key, (version, value) in before.items():
            assert tensors[key]._version == version, key
            assert torch.equal(tensors[key], value), key


@pytest.mark.parametrize("name", attacks.names("detection"))
def test_every_attack_on_objects_only_reads(name: str) -> None:
    data = Locked(TinyBoxes(2))
    batch = collate(data.samples)
    before = batch.images._version, batch.images.clone()
    attacks.build(name, **FEW[name])(tiny_detector(), batch.images, batch.boxes)
    assert batch.images._version == before[0]
    assert torch.equal(batch.images, before[1])
    data.check()


@pytest.mark.parametrize("threat", ["clean", {"corruption": NOISE}, KINDS["geometric"], KINDS["localized"]], ids=str)
def test_detection_only_reads(threat: Any) -> None:
    data = Locked(TinyBoxes(2))
    gauntlet.evaluate(tiny_detector(), data, threat, batch_size=2)
    data.check()


def test_metrics_only_read(tiny_model: SegmentationModel) -> None:
    data, region = labelled(), np.zeros(SIZES[0], bool)
    region[:10] = True
    region.setflags(write=False)
    metric = SegmentationMetric(data.class_names, 255, objects=True)
    for sample in data.samples:
        (said,) = predict_dense(tiny_model, sample.tensor()[None], [sample.id])
        for each in (said.labels, said.confidence, said.entropy, said.log_odds):
            assert each is not None
            each.setflags(write=False)
        assert sample.labels is not None
        metric.update(said, sample.labels, region, weights(sample))
    data.check()
    objects = Locked(TinyBoxes(2))
    detection = DetectionMetric(objects.box_class_names)
    for sample in objects.samples:
        assert sample.boxes is not None
        (found,) = tiny_detector().predict(sample.tensor()[None])
        detection.update(found, sample.boxes, np.zeros(sample.image.shape[:2], bool))
    objects.check()


@pytest.mark.parametrize(
    "settings",
    [
        "noise:sigma=0.1",
        "transform:kind=jpeg",
        "smoothed:sigma=0.25,n0=2,n=30,tau=0.6",
        "tiled:size=16",
        pytest.param("crf", marks=pytest.mark.slow),
    ],
)
def test_defences_only_read(settings: str) -> None:
    try:
        model: GauntletModel = load_model(f"{settings}:python:tiny:tiny_network", num_classes=3)
    except GauntletError as error:
        pytest.skip(str(error))
    data = labelled()
    for threat in ("clean", {"attack": {"name": "square", "queries": 4, **PLAIN}}):
        gauntlet.evaluate(model, data, threat, batch_size=2)
    data.check()


def test_a_report_only_reads(tiny_model: SegmentationModel, tmp_path: Path) -> None:
    data, store = labelled(), Store()
    threats = ["clean", {"attack": {"name": "pgd", **PLAIN, "steps": 2}}, KINDS["localized"]]
    gauntlet.evaluate(tiny_model, data, threats, store=store)
    loaders = Loaders(model=lambda address: tiny_model, dataset=lambda name, split: data)
    write_report(store, tmp_path / "report.html", options=Options(gallery=2, loaders=loaders))
    data.check()


LOCKED: list[Locked] = []
"""Datasets that a training has loaded."""


def training_data(split: str = "train") -> Locked:
    """What the recipe below loads."""
    data = labelled()
    data.split = split
    LOCKED.append(data)
    return data


def test_training_only_reads(tmp_path: Path) -> None:
    cut = {"scale": [0.8, 1.2], "crop": [32, 32], "flip": 0.5, "cutmix": {}, "cutout": {}, "blur": 0.5}
    config: dict[str, Any] = {
        "name": "tiny",
        "model": {"architecture": "enet"},
        "data": {"name": f"python:{__name__}:training_data", "workers": 0},
        "epochs": 1,
        "batch_size": 2,
        "optimiser": {"learning_rate": 0.01},
        "augmentation": cut,
        "adversarial": {"attack": {"name": "pgd", "steps": 1, **PLAIN}},
        "threads": 1,
    }
    LOCKED.clear()
    train(config, tmp_path, progress=Silent())
    assert LOCKED
    for data in LOCKED:
        data.check()

"""MAITE's protocols: the names that they ask for, and the figures of our own evaluation through them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.defences import NoisyModel
from gauntlet.errors import GauntletError
from gauntlet.interop.maite import (
    DetectionTarget,
    MaiteDataset,
    MaiteMetric,
    MaiteModel,
    MaiteThreat,
    wrap_maite_model,
)
from gauntlet.models import DetectionModel
from gauntlet.models.contract import weights_digest
from tiny_detector import TinyBoxes, TinyDetector

REFERENCE = {  # specs/beyond_reference.json, exchange.maite: attributes and methods of every protocol
    "Model": ["metadata", "__call__"],
    "Dataset": ["metadata", "__len__", "__getitem__"],
    "Metric": ["metadata", "reset", "update", "compute"],
    "Augmentation": ["metadata", "__call__"],
}


def evaluate(model: Any, dataset: Any, metric: Any, augmentation: Any = None, batch_size: int = 2) -> dict[str, float]:
    """What `maite.tasks.evaluate` does, with nothing but the protocols."""
    metric.reset()
    for start in range(0, len(dataset), batch_size):
        data = [dataset[index] for index in range(start, min(start + batch_size, len(dataset)))]
        inputs, targets, metadatas = ([each[part] for each in data] for part in range(3))
        if augmentation is not None:
            inputs, targets, metadatas = augmentation((inputs, targets, metadatas))
        metric.update(model(inputs), targets, metadatas)
    figures: dict[str, float] = metric.compute()
    return figures


@pytest.fixture(scope="module")
def streets() -> Any:
    return gauntlet.load_dataset("streets", split="val", limit=2)


@pytest.fixture(scope="module")
def network(streets: Any) -> Any:
    torch.manual_seed(0)
    return gauntlet.wrap_model(
        torch.nn.Conv2d(3, 11, 1), num_classes=11, class_names=streets.class_names, ignore_index=11, name="tiny"
    )


def test_every_protocol_has_its_names(streets: Any, network: Any) -> None:
    made = {
        "Model": MaiteModel(network),
        "Dataset": MaiteDataset(streets),
        "Metric": MaiteMetric(streets.class_names),
        "Augmentation": MaiteThreat("fog"),
    }
    for protocol, names in REFERENCE.items():
        assert [name for name in names if not hasattr(made[protocol], name)] == []
        assert isinstance(made[protocol].metadata["id"], str)  # type: ignore[attr-defined]
    dataset = MaiteDataset(streets)
    with pytest.raises(IndexError):
        dataset[2]
    assert dataset.metadata["index2label"][3] == "road"


@pytest.mark.parametrize("threat", [None, {"corruption": {"name": "gaussian_noise", "severity": 3}},
                                    {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 2}}])  # fmt: skip
def test_figures_are_those_of_an_evaluation(threat: Any, streets: Any, network: Any) -> None:
    metric = MaiteMetric(streets.class_names, ignore_index=streets.ignore_index)
    augmentation = None if threat is None else MaiteThreat(threat, network)
    figures = evaluate(MaiteModel(network), MaiteDataset(streets), metric, augmentation)
    ours = gauntlet.evaluate(network, streets, threat or "clean", batch_size=1, prepare="off").figures
    for name in ("mIoU", "NmIoU", "aAcc"):
        assert figures[name] == pytest.approx(ours[name], abs=1e-3)


def test_void_is_a_column_of_zeros(streets: Any) -> None:
    _, target, metadata = MaiteDataset(streets)[0]
    void = streets[0].labels == streets.ignore_index
    assert void.any()
    assert not target[:, void].any()
    assert (target[:, ~void].sum(axis=0) == 1).all()
    assert metadata["id"] == streets[0].id
    metric = MaiteMetric(streets.class_names)
    metric.update([target], [target], [{"id": "without a label map"}])
    assert metric.compute()["aAcc"] == 1.0


def test_uint8_images_are_converted(streets: Any, network: Any) -> None:
    image = streets[0].image.transpose(2, 0, 1)
    model = MaiteModel(network)
    assert np.array_equal(model([image])[0], model([image.astype(np.float32) / 255])[0])


def test_detectors_and_moved_boxes() -> None:
    data, detector = TinyBoxes(), TinyDetector()
    metric = MaiteMetric(data.box_class_names, task="detection")
    figures = evaluate(MaiteModel(detector), MaiteDataset(data, task="detection"), metric)
    assert figures["mAP"] == pytest.approx(gauntlet.evaluate(detector, data, "clean").figures["mAP"], abs=1e-6)
    image, target, metadata = MaiteDataset(data, task="detection")[0]
    shift = MaiteThreat({"geometric": {"name": "translation", "dx": 12, "dy": 0}})
    (_,), (moved,), _ = shift(([image], [target], [metadata]))
    inside = target.boxes[:, 2] + 12 <= image.shape[2]
    assert inside.any()
    assert np.allclose(moved.boxes[: inside.sum()], target.boxes[inside] + [12, 0, 12, 0], atol=0.6)


def test_an_attack_needs_a_model() -> None:
    with pytest.raises(GauntletError, match="needs a model"):
        MaiteThreat("pgd")


def test_probabilities_are_not_taken_for_logits_and_checkpoints_are_told_apart(streets: Any, network: Any) -> None:
    back = wrap_maite_model(MaiteModel(network))
    images = streets[0].tensor()[None]
    with torch.no_grad():
        sure, ours = (model(images).softmax(dim=1).amax(dim=1) for model in (back, network))
    assert torch.allclose(sure, ours, atol=1e-5)
    assert weights_digest(network) in back.identity.digest
    given = wrap_maite_model(MaiteModel(network), digest="second checkpoint")
    assert given.identity.digest != back.identity.digest


def test_batches_may_hold_several_sizes(network: Any) -> None:
    small, large = MaiteModel(network)([np.zeros((3, 32, 48), np.float32), np.zeros((3, 48, 64), np.float32)])
    assert (small.shape[1:], large.shape[1:]) == ((32, 48), (48, 64))


def test_a_random_model_is_asked_with_draws_of_the_image(network: Any) -> None:
    images = np.random.default_rng(0).random((2, 3, 16, 16), np.float32)
    noisy = MaiteModel(NoisyModel(network))
    both, alone = noisy(list(images)), noisy([images[1]])
    assert np.array_equal(both[1], alone[0])
    assert not np.array_equal(both[1], MaiteModel(network)([images[1]])[0])


def test_a_model_of_maite_is_one_of_ours(streets: Any, network: Any) -> None:
    back = wrap_maite_model(MaiteModel(network))
    assert back.class_names == tuple(streets.class_names)
    ours = gauntlet.evaluate(network, streets, "clean").figures["mIoU"]
    assert gauntlet.evaluate(back, streets, "clean").figures["mIoU"] == pytest.approx(ours, abs=1e-6)
    with pytest.raises(GauntletError):
        gauntlet.evaluate(back, streets, "pgd")
    detector = wrap_maite_model(MaiteModel(TinyDetector()), task="detection")
    assert isinstance(detector, DetectionModel)
    assert gauntlet.evaluate(detector, TinyBoxes(), "clean").figures["mAP"] > 0.5
    assert isinstance(MaiteModel(detector)([np.zeros((3, 32, 48), np.float32)])[0], DetectionTarget)

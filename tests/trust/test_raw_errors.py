"""Values that a user gives in another type than expected are taken, or refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import SegmentationModel, wrap_model
from gauntlet.samples import Boxes, Sample
from gauntlet.threats import attacks
from tiny import TinyDataset, tiny_network
from tiny_detector import TinyBoxes, TinyDetector

SIZES = ((32, 40),)
PGD = {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 2}}


def data(**attributes: Any) -> TinyDataset:
    made = TinyDataset(2, sizes=SIZES)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    "given",
    [
        {"ignore_index": np.int64(255)},
        {"class_names": np.array(["dark", "light", "red"])},
        {"colors": np.zeros((3, 3), np.uint8)},
    ],
    ids=lambda given: next(iter(given)),
)
def test_attributes_of_a_dataset_may_be_those_of_numpy(
    given: dict[str, Any], tiny_model: SegmentationModel, tmp_path: Any
) -> None:
    expected = gauntlet.evaluate(tiny_model, data()).figures
    found = gauntlet.evaluate(tiny_model, data(**given), store=tmp_path / "store.db").figures
    assert found == pytest.approx(expected, nan_ok=True, abs=0)
    assert "2 images" in repr(data(**given))


def test_names_of_boxes_may_be_an_array() -> None:
    class Named(TinyBoxes):
        box_class_names = class_names = np.array(["red", "green", "blue"])  # type: ignore[assignment]

    expected = gauntlet.evaluate(TinyDetector(), TinyBoxes(2)).figures
    assert gauntlet.evaluate(TinyDetector(), Named(2)).figures == pytest.approx(expected, nan_ok=True, abs=0)


def test_seed_and_batch_size_may_be_those_of_numpy(tiny_model: SegmentationModel, tmp_path: Any) -> None:
    numbers: dict[str, Any] = {"seed": np.int64(3), "batch_size": np.int32(2)}
    found = gauntlet.evaluate(tiny_model, data(), PGD, store=tmp_path / "store.db", **numbers)
    assert found.figures == gauntlet.evaluate(tiny_model, data(), PGD, seed=3, batch_size=2).figures
    with pytest.raises(GauntletError, match="seed must be a whole number, not 'three'"):
        gauntlet.evaluate(tiny_model, data(), seed="three")


def test_ids_may_be_numbers(tiny_model: SegmentationModel, tmp_path: Any) -> None:
    class Numbered(TinyDataset):
        def __getitem__(self, index: int) -> Sample:
            sample = super().__getitem__(index)
            return Sample(np.int64(index), sample.image, sample.labels)  # type: ignore[arg-type]

        def ids(self) -> list[Any]:
            return list(range(len(self)))

    assert gauntlet.evaluate(tiny_model, Numbered(2, sizes=SIZES), store=tmp_path / "store.db").images == 2


@pytest.mark.parametrize("threat", ["clean", PGD, {"certify": {"sigma": 0.25, "n0": 2, "n": 40, "tau": 0.6}}])
def test_a_dataset_without_images_is_refused(threat: Any, tiny_model: SegmentationModel) -> None:
    class Listed(TinyDataset):
        def __getitem__(self, index: int) -> Sample:
            return list[Sample]()[index]

    with pytest.raises(GauntletError, match="the dataset 'tiny' has no images"):
        gauntlet.evaluate(tiny_model, Listed(0), threat)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_weights_of_another_precision_are_named(kind: torch.dtype) -> None:
    model = wrap_model(tiny_network().to(kind), num_classes=3)
    with pytest.raises(GauntletError, match=f"weights of {kind} and does not take images of torch.float32"):
        gauntlet.evaluate(model, data())


@pytest.mark.parametrize(
    ("weigh", "message"),
    [
        (lambda sample: np.ones((3, 3)), r"the importance has the shape \(3, 3\); expected one weight per pixel"),
        (lambda sample: np.ones(sample.image.shape), r"the importance has the shape \(32, 40, 3\)"),
        (lambda sample: None, "the importance must be an array of numbers"),
        (lambda sample: np.full((32, 40), "1"), "the importance must be an array of numbers"),
        (lambda sample: np.ma.masked_less(np.ones((32, 40)), 2), "the importance must not be a masked array"),
    ],
)
def test_importance_is_one_weight_per_pixel(
    weigh: Callable[[Sample], Any], message: str, tiny_model: SegmentationModel
) -> None:
    with pytest.raises(GauntletError, match=f"image 'tiny/0': {message}"):
        gauntlet.evaluate(tiny_model, data(), importance=weigh)


def test_importance_may_be_a_tensor_or_lists(tiny_model: SegmentationModel) -> None:
    expected = gauntlet.evaluate(tiny_model, data(), importance=lambda sample: np.ones((32, 40))).figures["A_P"]
    for weigh in (lambda sample: torch.ones(32, 40), lambda sample: [[1] * 40] * 32):
        found: Any = weigh
        assert gauntlet.evaluate(tiny_model, data(), importance=found).figures["A_P"] == expected


def test_a_permutation_takes_an_image_that_is_all_void(tiny_model: SegmentationModel) -> None:
    images, labels = torch.rand(1, 3, 16, 24), torch.full((1, 16, 24), 255)
    attack = attacks.build("pgd", steps=2, target={"permutation": [1, 2, 0]})
    assert torch.equal(attack(tiny_model, images, labels).images, images)


@pytest.mark.parametrize(
    "changed", [lambda array: array.astype(">i4"), lambda array: array[..., ::-1].copy()[..., ::-1]]
)
def test_labels_and_regions_of_an_attack_may_be_any_array(
    changed: Callable[[Any], Any], tiny_model: SegmentationModel
) -> None:
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(1, 3, 16, 24, generator=generator)
    labels = torch.randint(0, 3, (1, 16, 24), generator=generator)
    region = torch.randint(0, 2, (16, 24), generator=generator)
    for target in (None, torch.flip(labels, [1])):
        attack = attacks.build("pgd", steps=2)
        expected = attack(tiny_model, images, labels, target=target, region=region).images
        wanted = None if target is None else changed(target.numpy())
        found = attack(tiny_model, images, changed(labels.numpy()), target=wanted, region=changed(region.numpy()))
        assert torch.equal(found.images, expected)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (np.zeros((1, 3, 16, 24), np.float32), "start must be a tensor like the images, not a ndarray"),
        (torch.full((1, 3, 16, 24), torch.nan), "start holds NaN or infinite numbers"),
    ],
)
def test_a_start_that_cannot_be_is_named(start: Any, message: str, tiny_model: SegmentationModel) -> None:
    labels = torch.zeros(1, 16, 24, dtype=torch.int64)
    with pytest.raises(GauntletError, match=message):
        attacks.build("pgd", steps=2)(tiny_model, torch.rand(1, 3, 16, 24), labels, start=start)


def test_dag_takes_classes_and_crowds_of_any_integers() -> None:
    class Narrow(TinyBoxes):
        def __getitem__(self, index: int) -> Sample:
            sample = super().__getitem__(index)
            boxes: Any = sample.boxes
            crowd: Any = np.zeros(len(boxes), np.int64)
            return Sample(sample.id, sample.image, boxes=Boxes(boxes.xyxy, boxes.classes.astype(np.uint8), crowd=crowd))

    dag = {"attack": {"name": "dag", "steps": 2}}
    expected = gauntlet.evaluate(TinyDetector(), TinyBoxes(2), dag).figures
    assert gauntlet.evaluate(TinyDetector(), Narrow(2), dag).figures == pytest.approx(expected, nan_ok=True, abs=0)


class FunctionalNorm(nn.Module):
    """A network that calls torch's function with the statistics of its batch norm."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(8, 3, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        norm = self.norm
        features = functional.batch_norm(
            self.first(images), norm.running_mean, norm.running_var, norm.weight, norm.bias, False, 0.1, norm.eps
        )
        logits: torch.Tensor = self.last(features)
        return logits


def test_folding_leaves_the_statistics_that_a_function_reads() -> None:
    with torch.random.fork_rng():
        model = wrap_model(FunctionalNorm(), num_classes=3)
    expected = gauntlet.evaluate(model, data(), PGD, prepare="off").figures
    assert gauntlet.evaluate(model, data(), PGD, prepare="fold").figures == pytest.approx(
        expected, nan_ok=True, abs=1e-6
    )

"""The trivial answer: figures of the most frequent class everywhere, from the counts of any evaluation."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

import gauntlet
from gauntlet.analysis import trivial_figures
from gauntlet.analysis.trivial import read_trivial
from gauntlet.datasets import Dataset
from gauntlet.errors import GauntletError
from gauntlet.metrics.segmentation.confusion import confusion
from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.metrics.segmentation.trivial import most_frequent_figures, only_predicted
from gauntlet.results import Store
from gauntlet.samples import Sample

CLASSES, VOID = 4, 255


def drawn_labels(images: int, seed: int) -> list[np.ndarray]:
    """Label maps with void, one class missing and one image without a valid pixel."""
    generator = np.random.default_rng(seed)
    labels = [generator.choice([0, 1, 2, VOID], p=generator.dirichlet(np.ones(4)), size=(6, 7)) for _ in range(images)]
    labels[1][:] = VOID
    return [each.astype(np.uint8) for each in labels]


def figures_of(answers: list[np.ndarray], labels: list[np.ndarray]) -> dict[str, float]:
    """The figures of some predictions by loops over classes and images."""
    valid = [label != VOID for label in labels]
    everything = np.concatenate([label[seen] for label, seen in zip(labels, valid, strict=True)])
    said = np.concatenate([answer[seen] for answer, seen in zip(answers, valid, strict=True)])

    def iou(truth: np.ndarray, answer: np.ndarray) -> float:
        values = [
            ((truth == k) & (answer == k)).sum() / ((truth == k) | (answer == k)).sum()
            for k in range(CLASSES)
            if ((truth == k) | (answer == k)).any()
        ]
        return float(np.mean(values))

    pairs = [(label[seen], answer[seen]) for label, seen, answer in zip(labels, valid, answers, strict=True)]
    pairs = [(truth, answer) for truth, answer in pairs if truth.size]
    return {
        "mIoU": iou(everything, said),
        "mAcc": float(np.mean([(said == k)[everything == k].mean() for k in np.unique(everything)])),
        "aAcc": float((everything == said).mean()),
        "aAcc_images": float(np.mean([(truth == answer).mean() for truth, answer in pairs])),
        "NmIoU": float(np.mean([iou(truth, answer) for truth, answer in pairs])),
    }


@pytest.mark.parametrize("seed", range(5))
def test_figures_are_those_of_the_answer(seed: int) -> None:
    labels = drawn_labels(5, seed)
    model = np.random.default_rng(seed + 100).integers(0, CLASSES, (5, 6, 7)).astype(np.uint8)
    table = CountTable.of(
        (confusion(said, true, CLASSES)[0] for said, true in zip(model, labels, strict=True)), CLASSES
    )
    counts = np.bincount(np.concatenate([label[label != VOID] for label in labels]))
    answers = [np.full((6, 7), counts.argmax(), np.uint8) for _ in labels]
    assert most_frequent_figures(table) == pytest.approx(figures_of(answers, labels))
    assert only_predicted(table) == [3]


class Labelled(Dataset):
    """Images of noise with drawn labels."""

    name, split, class_names = "drawn", "all", ("a", "b", "c", "only predicted")

    def __init__(self) -> None:
        self.labels = drawn_labels(4, 0)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Sample:
        labels = np.kron(self.labels[index], np.ones((6, 6), np.uint8))
        pixels = np.random.default_rng(index).integers(0, 256, (*labels.shape, 3), dtype=np.uint8)
        return Sample(str(index), pixels, labels)

    def ids(self) -> list[str]:
        return [str(index) for index in range(len(self))]


REGION = {"localized": {"corruption": {"name": "gaussian_noise"}, "patch": 8, "ratio": 0.5}}
BATTERY = {"battery": {"name": "semsegbench", "epsilon": "8/255", "steps": 1}}


def test_every_kind_of_evaluation_has_the_same_trivial_answer() -> None:
    data = Labelled()
    model = gauntlet.wrap_model(nn.Conv2d(3, CLASSES, 1), num_classes=CLASSES)
    answers = [np.full((6, 7), read_answer(data), np.uint8) for _ in data.labels]
    expected = figures_of(answers, data.labels)
    with Store() as store:
        for threat in ("clean", REGION, BATTERY):
            evaluation = gauntlet.evaluate(model, data, threat, store=store, device="cpu")
            assert trivial_figures(store, evaluation.key) == pytest.approx(expected)
        with pytest.raises(GauntletError, match="no finished evaluation with the key 'none'"):
            trivial_figures(store, "none")


def test_a_class_that_is_only_predicted_is_named() -> None:
    network = nn.Conv2d(3, CLASSES, 1)
    nn.init.zeros_(network.weight)
    assert network.bias is not None
    network.bias.data = network.bias.new_tensor([0.0, 0.0, 0.0, 1.0])
    model = gauntlet.wrap_model(network, num_classes=CLASSES)
    with Store() as store:
        evaluation = gauntlet.evaluate(model, Labelled(), store=store, device="cpu")
        assert read_trivial(store, evaluation.key).only_predicted == ["only predicted"]


def read_answer(data: Labelled) -> int:
    return int(np.bincount(np.concatenate([label[label != VOID] for label in data.labels])).argmax())

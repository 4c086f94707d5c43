"""The map that never looks at an image: its classes and its figures, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gauntlet.datasets import load_dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.plan import DatasetEntry, open_dataset
from gauntlet.studies.pages.blind import Blind, judge, most_frequent, training_split

VOID = 255
LITTLE = {"size": [16, 24]}


def test_every_pixel_gets_its_most_frequent_class_and_void_counts_for_nothing() -> None:
    maps = [
        np.array([[0, 1, VOID], [2, VOID, 1]]),
        np.array([[0, 2, VOID], [1, VOID, 1]]),
        np.array([[1, 2, 2], [2, VOID, 0]]),
    ]
    # The third pixel is void twice and 2 once; the fifth is always void and gets the first class.
    assert most_frequent(maps, 3).tolist() == [[0, 2, 2], [2, 0, 1]]
    assert most_frequent(maps[:2], 3).tolist() == [[0, 1, 0], [1, 0, 1]]  # ties go to the first class


def test_its_figures_by_hand() -> None:
    prediction = np.array([[0, 0, 1, 1]])
    images = [np.array([[0, 0, 1, VOID]]), np.array([[0, 1, 0, 1]])]
    blind = Blind(3, judge(prediction, images, 2, VOID))
    # All images, without the first, without the second.
    # First image: 3 of 3 right. Second: 2 of 4 right, IoU of both classes 1 / 3.
    assert blind.accuracy == pytest.approx([5 / 7, 2 / 4, 1])
    # Pooled: class 0 has 3 right of a union of 5, class 1 has 2 of 4.
    assert blind.miou == pytest.approx([(3 / 5 + 2 / 4) / 2, 1 / 3, 1])
    assert blind.nmiou == pytest.approx([(1 + 1 / 3) / 2, 1 / 3, 1])
    assert "in 3 label maps of the training split" in blind.words


def test_training_labels_are_sized_as_the_test_images_are() -> None:
    test = open_dataset(DatasetEntry(name="streets", split="val", protocol=LITTLE)).subset(2, spread=True)
    training = training_split(test)
    assert (training.split, len(training)) == ("train", 400)
    assert training.protocol == test.protocol
    labels = training[0].labels
    assert labels is not None
    assert labels.shape == (16, 24)


def test_a_dataset_of_another_making_has_no_training_split_to_find() -> None:
    dataset = load_dataset("streets", split="val", limit=1)
    dataset.origin = None
    with pytest.raises(GauntletError, match="training split of 'streets' is unknown"):
        training_split(dataset)

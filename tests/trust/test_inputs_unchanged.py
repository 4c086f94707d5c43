"""Arrays of a user are never written to, and the type of a label map changes no figure."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import gauntlet
from gauntlet.datasets.contract import Dataset
from gauntlet.models import SegmentationModel
from gauntlet.samples import Sample
from tiny import TinyDataset

LabelMap = npt.NDArray[Any]
THREATS: tuple[Any, ...] = (
    "clean",
    {"corruption": {"name": "brightness", "severity": 3}},
    {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 3}},
)


class Kept(Dataset):
    """Four images in memory, a quarter of their pixels void, with label maps of some type and layout."""

    class_names = TinyDataset.class_names
    ignore_index = 255

    def __init__(self, stored: Callable[[LabelMap], LabelMap] = np.array) -> None:
        self.name, self.split = "kept", "val"
        data = TinyDataset(4, sizes=((32, 40),))
        self.images = [data[index].image for index in range(4)]
        self.labels = [self._voided(data[index], stored) for index in range(4)]

    @staticmethod
    def _voided(sample: Sample, stored: Callable[[LabelMap], LabelMap]) -> LabelMap:
        labels = np.array(sample.labels)
        labels[:8] = 255
        return stored(labels)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Sample:
        return Sample(f"kept/{index}", self.images[index], self.labels[index])

    def ids(self) -> list[str]:
        return [f"kept/{index}" for index in range(len(self))]


class Refilled(Kept):
    """The same data, read into one buffer for images and one for labels."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.label_map = np.empty_like(self.images[0]), np.empty_like(self.labels[0])

    def __getitem__(self, index: int) -> Sample:
        self.image[:], self.label_map[:] = self.images[index], self.labels[index]
        return Sample(f"kept/{index}", self.image, self.label_map)


def memory_mapped(labels: LabelMap) -> LabelMap:
    """The labels as a file that may only be read."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, labels)
        file.flush()
        mapped: LabelMap = np.load(file.name, mmap_mode="r")
    return mapped


def spread(labels: LabelMap) -> LabelMap:
    """The labels as every second number of every second row of a larger array, from the right to the left."""
    larger = np.full([2 * side for side in labels.shape], 7, np.int64)
    larger[::2, ::-2] = labels
    return larger[::2, ::-2]


def of_type(dtype: str) -> Callable[[LabelMap], LabelMap]:
    """A function that gives labels a type."""
    return lambda labels: labels.astype(dtype)


TYPES = ("int16", "uint16", "int32", "uint32", "int64", "uint64", ">i2", ">u2", ">i4", ">i8", "float32")
STORED: dict[str, Callable[[LabelMap], LabelMap]] = {
    **{dtype: of_type(dtype) for dtype in TYPES},
    "fortran": np.asfortranarray,
    "fortran int64": lambda labels: np.asfortranarray(labels.astype(np.int64)),
    "strided": spread,
    "memmap": memory_mapped,
    "memmap int64": lambda labels: memory_mapped(labels.astype(np.int64)),
    "rows of torch": lambda labels: torch.from_numpy(labels.astype(np.int64)).numpy(),
}


def locked(labels: LabelMap) -> LabelMap:
    """The labels as an array that may only be read."""
    labels.setflags(write=False)
    return labels


def test_int64_label_maps_stay_as_they_are_and_count_as_others(tiny_model: SegmentationModel) -> None:
    narrow, wide = Kept(), Kept(lambda labels: labels.astype(np.int64))
    before = [np.array(each) for each in wide.labels]
    for threat in THREATS:
        expected = gauntlet.evaluate(tiny_model, narrow, threat).figures
        assert gauntlet.evaluate(tiny_model, wide, threat).figures == pytest.approx(expected, nan_ok=True, abs=0)
    assert all(map(np.array_equal, wide.labels, before))


@pytest.mark.parametrize("name", STORED)
def test_type_and_layout_of_label_maps_change_no_figure(name: str, tiny_model: SegmentationModel) -> None:
    data = Kept(lambda labels: locked(STORED[name](labels)))
    for threat in THREATS:
        expected = gauntlet.evaluate(tiny_model, Kept(), threat).figures
        assert gauntlet.evaluate(tiny_model, data, threat).figures == pytest.approx(expected, nan_ok=True, abs=0)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_dataset_may_refill_one_buffer(size: int, tiny_model: SegmentationModel) -> None:
    for threat in THREATS:
        expected = gauntlet.evaluate(tiny_model, Kept(), threat, batch_size=size).figures
        found = gauntlet.evaluate(tiny_model, Refilled(), threat, batch_size=size).figures
        assert found == pytest.approx(expected, nan_ok=True, abs=0)

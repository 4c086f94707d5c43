"""Arrays of a user are never written to, and the type of a label map changes no figure."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import gauntlet
from gauntlet.datasets.contract import Dataset
from gauntlet.models import SegmentationModel
from gauntlet.samples import Sample
from tiny import TinyDataset

THREATS: tuple[Any, ...] = (
    "clean",
    {"corruption": {"name": "brightness", "severity": 3}},
    {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 3}},
)


class Kept(Dataset):
    """Four images in memory, a quarter of their pixels void, with label maps of one type."""

    class_names = TinyDataset.class_names
    ignore_index = 255

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.name, self.split = "kept", "val"
        self.samples = [
            self._made(each, dtype) for each in map(TinyDataset(4, sizes=((32, 40),)).__getitem__, range(4))
        ]

    @staticmethod
    def _made(sample: Sample, dtype: npt.DTypeLike) -> Sample:
        labels = np.array(sample.labels)
        labels[:8] = 255
        return Sample(sample.id, sample.image, labels.astype(dtype))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Sample:
        return self.samples[index]

    def ids(self) -> list[str]:
        return [each.id for each in self.samples]


def test_int64_label_maps_stay_as_they_are_and_count_as_others(tiny_model: SegmentationModel) -> None:
    narrow, wide = Kept(np.uint8), Kept(np.int64)
    before = [np.array(each.labels) for each in wide.samples]
    for threat in THREATS:
        expected = gauntlet.evaluate(tiny_model, narrow, threat).figures
        assert gauntlet.evaluate(tiny_model, wide, threat).figures == pytest.approx(expected, nan_ok=True, abs=0)
    for sample, labels in zip(wide.samples, before, strict=True):
        assert np.array_equal(np.asarray(sample.labels), labels)

"""Samples that were loaded once and are asked for again, by the next threat on the same images."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from gauntlet.datasets.contents import Told
from gauntlet.datasets.contract import Dataset, Subset
from gauntlet.samples import Sample

CACHE_BYTES = 64 * 2**20


class SampleCache(Subset):
    """All samples of a dataset; those asked for last are kept in memory, up to a number of bytes."""

    def __init__(self, dataset: Dataset, limit: int = CACHE_BYTES) -> None:
        super().__init__(dataset, max(1, len(dataset)))
        self._limit, self._bytes = limit, 0
        self._samples: OrderedDict[int, Sample] = OrderedDict()

    def __getitem__(self, index: int) -> Sample:
        sample = self._samples.pop(index, None)
        if sample is None:
            sample = super().__getitem__(index)
            self._bytes += _size(sample)
        self._samples[index] = sample
        while self._bytes > self._limit:
            _, oldest = self._samples.popitem(last=False)
            self._bytes -= _size(oldest)
        return sample

    def source_digests(
        self, positions: Sequence[int], told: Told | None = None, samples: Sequence[Sample] | None = None
    ) -> list[str]:
        return super().source_digests(positions, told, _Kept(self, positions) if samples is None else samples)


class _Kept(Sequence[Sample]):
    """Samples of a cache at some positions, each loaded when it is asked for."""

    def __init__(self, cache: SampleCache, positions: Sequence[int]) -> None:
        self._cache, self._positions = cache, positions

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: Any) -> Any:
        return self._cache[self._positions[index]]


def _size(sample: Sample) -> int:
    return sum(array.nbytes for array in (sample.image, sample.labels, sample.depth) if array is not None)

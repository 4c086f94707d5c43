"""Units of work: the batch an image is computed in is fixed by the evaluation, whoever computes it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.models.contract import GauntletModel
from gauntlet.samples import Batch, Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats.contract import Perturbed, Threat

_AHEAD = 2


@dataclass(frozen=True)
class Unit:
    """Positions start to stop - 1 of a dataset, computed and committed together."""

    start: int
    stop: int

    @property
    def positions(self) -> range:
        return range(self.start, self.stop)


def cut_units(images: int, batch_size: int) -> list[Unit]:
    """The units of an evaluation: consecutive batches, the last one may be shorter."""
    return [Unit(start, min(start + batch_size, images)) for start in range(0, images, batch_size)]


@dataclass(frozen=True)
class Loaded:
    """A batch of one size of a unit, with the positions of its images, perturbed already where no model is needed."""

    positions: list[int]
    batch: Batch
    seeds: list[ImageSeed]
    perturbed: Perturbed | None


def load_unit(
    dataset: Dataset, unit: Unit, threat: Threat, model: GauntletModel, seed: int, device: torch.device
) -> list[Loaded]:
    """Loads the samples of a unit and groups them by size; runs threats that do not look at the model."""
    by_size: dict[tuple[int, ...], list[tuple[int, Sample]]] = {}
    for position in unit.positions:
        sample = dataset[position]
        by_size.setdefault(sample.image.shape, []).append((position, sample))
    loaded = []
    for group in by_size.values():
        batch = collate([sample for _, sample in group], device, dataset.ignore_index)
        seeds = [ImageSeed(seed, sample.id) for _, sample in group]
        perturbed = None if threat.needs_model else threat.perturb(model, batch, seeds)
        loaded.append(Loaded([position for position, _ in group], batch, seeds, perturbed))
    return loaded


def load_ahead(
    dataset: Dataset, units: Iterable[Unit], threat: Threat, model: GauntletModel, seed: int, device: torch.device
) -> Iterator[tuple[Unit, list[Loaded]]]:
    """Loads units in a background thread, a few ahead, so that the model does not wait; order is kept."""
    with ThreadPoolExecutor(1, thread_name_prefix="gauntlet-load") as pool:
        remaining = iter(units)
        waiting: list[tuple[Unit, Future[list[Loaded]]]] = []

        def submit(count: int) -> None:
            for unit in itertools.islice(remaining, count):
                waiting.append((unit, pool.submit(load_unit, dataset, unit, threat, model, seed, device)))  # noqa: PERF401

        submit(_AHEAD)
        try:
            while waiting:
                unit, future = waiting.pop(0)
                yield unit, future.result()
                submit(1)
        finally:
            for _, future in waiting:
                future.cancel()

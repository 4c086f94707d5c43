"""Units of work, from the images of a dataset to rows of counts.

The batch an image is computed in is fixed by the evaluation, whoever computes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError, NotFiniteError
from gauntlet.evaluation.counting import Counter
from gauntlet.evaluation.execution.progress import Progress
from gauntlet.evaluation.kept_images import KeptImages
from gauntlet.metrics import WHOLE, Views
from gauntlet.models import GauntletModel
from gauntlet.results.record import ImageRow
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
class Group:
    """The images of a unit that have one size, as a batch.

    Attributes:
        positions: of the images in the dataset.
        batch: the samples.
        seeds: one per image.
        perturbed: what the threat made of the batch, where it ran before the model was free; else None.
    """

    positions: list[int]
    batch: Batch
    seeds: list[ImageSeed]
    perturbed: Perturbed | None = None

    def halves(self) -> list[Group]:
        """The group cut in two; a threat that ran already runs again, on each half."""
        middle = len(self.positions) // 2
        return [self._part(slice(None, middle)), self._part(slice(middle, None))]

    def _part(self, which: slice) -> Group:
        batch = self.batch
        labels = None if batch.labels is None else batch.labels[which]
        part = replace(batch, samples=batch.samples[which], images=batch.images[which], labels=labels)
        return Group(self.positions[which], part, self.seeds[which])


def load_unit(dataset: Dataset, unit: Unit, seed: int, device: torch.device) -> list[Group]:
    """Loads the samples of a unit and groups them by size."""
    by_size: dict[tuple[int, ...], list[tuple[int, Sample]]] = {}
    for position in unit.positions:
        sample = dataset[position]
        by_size.setdefault(sample.image.shape, []).append((position, sample))
    groups = []
    for members in by_size.values():
        batch = collate([sample for _, sample in members], device, dataset.ignore_index)
        seeds = [ImageSeed(seed, sample.id) for _, sample in members]
        groups.append(Group([position for position, _ in members], batch, seeds))
    return groups


@dataclass(frozen=True)
class UnitComputer:
    """Turns units of a dataset into rows of counts; local runs and the workers of a cluster share it.

    Attributes:
        dataset, model, threat, seed: what is computed.
        counter: turns what the model says into counts.
        device: where images are put.
        progress: told when memory runs out, or None.
        kept: where perturbed images are written, or None.
    """

    dataset: Dataset
    model: GauntletModel
    threat: Threat
    seed: int
    counter: Counter
    device: torch.device
    progress: Progress | None = None
    kept: KeptImages | None = None

    def load(self, unit: Unit) -> list[Group]:
        """The groups of a unit; a threat that does not look at the model has run on them, so any thread may do this."""
        groups = load_unit(self.dataset, unit, self.seed, self.device)
        if self.threat.needs_model:
            return groups
        return [replace(group, perturbed=self._perturb(group)) for group in groups]

    def load_ahead(self, units: Iterable[Unit]) -> Iterator[tuple[Unit, list[Group]]]:
        """Loads units in a background thread, a few ahead, so that the model does not wait; order is kept."""
        with ThreadPoolExecutor(1, thread_name_prefix="gauntlet-load") as pool:
            remaining = iter(units)
            waiting: list[tuple[Unit, Future[list[Group]]]] = []

            def submit(count: int) -> None:
                for unit in itertools.islice(remaining, count):
                    waiting.append((unit, pool.submit(self.load, unit)))  # noqa: PERF401

            submit(_AHEAD)
            try:
                while waiting:
                    unit, future = waiting.pop(0)
                    yield unit, future.result()
                    submit(1)
            finally:
                for _, future in waiting:
                    future.cancel()

    def compute(self, groups: Sequence[Group]) -> tuple[list[ImageRow], Views]:
        """Rows of the images of a unit, in the order of the dataset, and what their views are."""
        rows: list[ImageRow] = []
        views = WHOLE
        for group in groups:
            more, views = self._compute_group(group)
            rows += more
        return sorted(rows, key=lambda row: row.position), views

    def _compute_group(self, group: Group) -> tuple[list[ImageRow], Views]:
        outcome = None
        try:
            perturbed = self._perturb(group)
            outcome = perturbed, *self.counter.count(self.model, group.batch, perturbed, group.seeds)
        except torch.cuda.OutOfMemoryError:
            pass  # tried again below: inside this block the traceback would keep the failed pass in memory
        if outcome is None:
            if len(group.positions) == 1:
                raise GauntletError(
                    f"image '{group.batch.samples[0].id}' alone does not fit into the memory of {self.model.device}; "
                    "use smaller images (a protocol) or another device."
                )
            torch.cuda.empty_cache()
            if self.progress is not None:
                self.progress.note_once("out of memory: batches are halved where they do not fit.")
            return self.compute(group.halves())
        perturbed, counts, views = outcome
        rows = []
        digests = [""] * len(group.positions)
        if not self.dataset.trusted:
            digests = self.dataset.image_digests(group.positions, samples=group.batch.samples)
        for index, (position, sample) in enumerate(zip(group.positions, group.batch.samples, strict=True)):
            if self.kept is not None:
                moved = None if perturbed.samples is None else perturbed.samples[index]
                self.kept.write(position, sample.id, perturbed.images[index], moved)
            details = {name: values[index] for name, values in perturbed.details.items()}
            rows.append(ImageRow(position, sample.id, counts[index].to_bytes(), details, digests[index]))
        return rows, views

    def _perturb(self, group: Group) -> Perturbed:
        """What the threat makes of a group: the only place where a threat runs."""
        if group.perturbed is not None:
            return group.perturbed
        try:
            return self.threat.perturb(self.model, group.batch, group.seeds)
        except NotFiniteError as error:
            if len(group.positions) == 1:
                raise GauntletError(f"image '{group.batch.samples[0].id}': {error}") from error
            for half in group.halves():  # an attack on one image says which one it was
                self._perturb(half)
            raise

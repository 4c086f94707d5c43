"""Results of versions 0.1.0 and 0.2.0, which recorded neither contents of data nor code: checked and recorded.

The model and the images are loaded from where the results say they came from; some images are computed again, and where
their counts are those that are stored, all results of this model on these images get the key that is asked for now.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gauntlet.datasets.contents import Contents
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError, first_line
from gauntlet.evaluation.counting import build_counter
from gauntlet.evaluation.execution.progress import Progress
from gauntlet.evaluation.execution.units import UnitComputer, cut_units
from gauntlet.evaluation.jobs import Settings, make_job, prepare_for, ready_model
from gauntlet.evaluation.reloading import Loaders, evaluated_again
from gauntlet.models.contract import GauntletModel
from gauntlet.models.sources.contract import coded_identity
from gauntlet.results.origin import read_origin
from gauntlet.results.record import Evaluation, ImageRow, Job, Recorded, read_counts
from gauntlet.results.store import Store
from gauntlet.tasks import get_task
from gauntlet.threats.build import rebuild_threat

LONGEST = 60.0
"""Seconds that the sample of a second threat may take."""
CLOSE = 1e-3
"""Difference of an image's main figure, a fraction, up to which counts of another machine are the same."""


@dataclass(frozen=True)
class Adoption:
    """What became of the old results of one model on one dataset.

    Attributes:
        model, dataset: their names.
        adopted: what is recorded now, by the old key.
        left: keys that stay as they are, with the reason.
        images: how many were computed again.
        bitwise: True if all their counts were those that are stored, bit for bit.
        digests: of all images by position.
    """

    model: str
    dataset: str
    adopted: Mapping[str, Recorded]
    left: Mapping[str, str]
    images: int = 0
    bitwise: bool = True
    digests: Sequence[str] = ()

    @property
    def note(self) -> dict[str, Any]:
        """What the provenance of an adopted evaluation says."""
        return {"images": self.images, "bitwise": self.bitwise}


def adopt(store: Store, progress: Progress, *, images: int = 4, loaders: Loaders | None = None) -> Iterator[Adoption]:
    """Adopts what can be adopted of a store, model by model and dataset by dataset.

    Args:
        store: which.
        progress: told what is computed.
        images: how many are computed again, under the plainest threat and, where that is quick, under one other.
        loaders: how models and data are found; where the results say they came from by default.
    """
    groups: dict[tuple[str, str, str, str], list[Evaluation]] = {}
    for evaluation in store.without_record():
        origin = read_origin(evaluation.provenance)
        place = (evaluation.model, evaluation.model_digest, evaluation.dataset_digest, repr(origin.dataset))
        groups.setdefault(place, []).append(evaluation)
    for evaluations in groups.values():
        yield _adopt_group(store, progress, evaluations, images, loaders or Loaders())


def _adopt_group(
    store: Store, progress: Progress, evaluations: Sequence[Evaluation], images: int, loaders: Loaders
) -> Adoption:
    first = evaluations[0]
    try:
        with evaluated_again(first, loaders) as (dataset, model):
            return _Group(store, progress, evaluations, _same_images(dataset, first), model).adopt(images)
    except GauntletError as error:
        return Adoption(first.model, first.dataset, {}, {each.key: first_line(error) for each in evaluations})


def _same_images(dataset: Dataset, evaluation: Evaluation) -> Dataset:
    """The part of a dataset that has the ids of a result: the origin of the oldest ones does not name it."""
    length, wanted = evaluation.images, evaluation.dataset_identity.get("ids")
    parts = (dataset, dataset.subset(length), dataset.subset(length, spread=True))
    for part in parts:
        if part.identify(Contents((), "")).ids_digest == wanted:
            return part
    raise GauntletError(f"the images of '{evaluation.dataset}' have other ids than those that were evaluated.")


@dataclass(frozen=True)
class _Group:
    """Old results of one model on one dataset, both loaded again."""

    store: Store
    progress: Progress
    evaluations: Sequence[Evaluation]
    dataset: Dataset
    model: GauntletModel

    def adopt(self, images: int) -> Adoption:
        contents = self.dataset.contents()
        jobs, left = self._jobs(contents)
        known = [each for each in self.evaluations if each.key in jobs]
        plain = sorted(known, key=lambda each: (each.kind != "clean", each.duration, each.key))
        # A battery of thousands of passes proves nothing more of model, data and code than the plainest threat does.
        sample = [*plain[:1], *(each for each in plain[1:2] if each.duration * images <= LONGEST * each.images)]
        again = [self._same(evaluation, images) for evaluation in sample]
        count, bitwise = sum(count for count, _ in again), all(bitwise for _, bitwise in again)
        first, adopted = self.evaluations[0], {key: Recorded.of(job) for key, job in jobs.items()}
        done = Adoption(first.model, first.dataset, adopted, left, count, bitwise, contents.images)
        for key, recorded in adopted.items():
            self.store.adopt(key, recorded, contents.images, done.note)
        return done

    def _jobs(self, contents: Contents) -> tuple[dict[str, Job], dict[str, str]]:
        """The job that every result is of, as it would be asked for now; else why it cannot be told."""
        jobs, left = {}, {}
        identity, data = coded_identity(self.model), self.dataset.identify(contents)
        for evaluation in self.evaluations:
            threat = rebuild_threat(evaluation.description)
            objects = bool(self.store.metric_options(evaluation.key).get("objects"))
            precision = str(evaluation.provenance.get("precision", "fp32"))
            settings = Settings(evaluation.seed, precision=precision, objects=objects)
            try:
                job = make_job(identity, evaluation.task, data, threat, settings)
            except GauntletError as error:  # the source of a transfer is gone
                left[evaluation.key] = first_line(error)
                continue
            if job.unrecorded.key == evaluation.key:
                jobs[evaluation.key] = job
            else:
                left[evaluation.key] = (
                    "its key is not the one that its parts have now: another version of the threat or the metric, "
                    "other images, or a function of importance."
                )
        return jobs, left

    def _same(self, evaluation: Evaluation, images: int) -> tuple[int, bool]:
        """How many images of a result were computed again, and whether bit for bit; an error where they differ."""
        started = self.store.started(evaluation.key)
        assert started is not None
        stored = {row.position: row for row in self.store.image_rows(started)}
        options = self.store.metric_options(evaluation.key)
        counter = build_counter(evaluation.task, options, precision=str(evaluation.provenance.get("precision", "fp32")))
        model = ready_model(self.model, self.dataset, torch.device("cpu"))
        model = prepare_for(model, self.dataset, started.preparation or ())
        threat = rebuild_threat(evaluation.description)
        computer = UnitComputer(self.dataset, model, threat, evaluation.seed, counter, model.device, self.progress)
        units = cut_units(len(self.dataset), started.batch_size)[: max(1, -(-images // started.batch_size))]
        count, bitwise = 0, True
        self.progress.start(f"{evaluation.model} | {evaluation.threat} again", units[-1].stop)
        for unit in units:
            rows, views = computer.compute(computer.load(unit))
            for row in rows:
                count += 1
                same = row.counts == stored[row.position].counts
                bitwise = bitwise and same
                if not same and not _close(counter.metric, row, stored[row.position], views, evaluation.task):
                    raise GauntletError(
                        f"the image '{row.image_id}' under '{evaluation.threat}' has other counts now: the model, the "
                        "data or the code is not what it was."
                    )
            self.progress.advance(len(rows))
        return count, bitwise


def _close(metric: Any, one: ImageRow, other: ImageRow, views: Any, task: str) -> bool:
    """True if the main figure of an image is the same up to `CLOSE` in both counts."""
    name = get_task(task).image_figure
    values = [
        [row.get(name, math.nan) for row in metric.per_image(read_counts(metric, each), views)] for each in (one, other)
    ]
    return all(
        abs(mine - theirs) <= CLOSE or (math.isnan(mine) and math.isnan(theirs))
        for mine, theirs in zip(*values, strict=True)
    )

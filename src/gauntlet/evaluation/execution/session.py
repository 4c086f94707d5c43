"""A session of work on one job: what the store has of it already, where new counts go, and its figures at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from gauntlet.errors import GauntletError
from gauntlet.evaluation.counting import Counter, RunningFigure, build_counter, metric_options
from gauntlet.evaluation.execution.probing import check_probe
from gauntlet.evaluation.execution.units import Unit, cut_units
from gauntlet.evaluation.jobs import PlannedJob
from gauntlet.evaluation.kept_images import KeptImages
from gauntlet.evaluation.provenance import describe_run
from gauntlet.evaluation.rereading import stored_as_asked
from gauntlet.metrics import WHOLE, Views
from gauntlet.models.contract import GauntletModel
from gauntlet.models.preparation import parse_steps
from gauntlet.models.probe import PROBE, Probe
from gauntlet.results.claims import Claims
from gauntlet.results.model_facts import FIELD as FACTS
from gauntlet.results.model_facts import ModelFacts, said_facts
from gauntlet.results.origin import FIELD, SETTINGS
from gauntlet.results.record import Evaluation, ImageRow, read_counts
from gauntlet.results.store import Started, Store


@dataclass
class Session:
    """Work on a job that the store knows.

    Attributes:
        planned: what is computed.
        store, started: where counts go.
        counter: makes the counts, and reads them.
        images: how many the dataset has.
        done: positions of the images whose counts are committed.
        views: what the views of the counts are; None before the first unit.
        running_figure: the figure over the images computed in this session so far (mIoU, or the mean F1 of images).
        figure: its value, NaN where the threat has no plain one.
        preparation: steps with which the model's passes are made faster (`models.preparation`); None when they are to
            be measured first.
        kept: where perturbed images are written, or None.
        hosts: machines that are recorded already.
        probe: of the model, or None where nobody asked it.
    """

    planned: PlannedJob
    store: Store
    started: Started
    counter: Counter
    images: int
    done: set[int]
    views: Views | None
    running_figure: RunningFigure
    preparation: tuple[str, ...] | None = ()
    kept: KeptImages | None = None
    figure: float = float("nan")
    hosts: set[str] = field(default_factory=set)
    probe: Probe | None = None

    def keep_preparation(self, steps: tuple[str, ...]) -> tuple[str, ...]:
        """Stores the chosen steps unless another process did first; returns the stored ones."""
        if self.preparation is None:
            self.preparation = self.store.keep_preparation(self.started, steps)
        return self.preparation

    def note_host(self, host: str, facts: Mapping[str, str]) -> None:
        """Records a machine that computes some of the images, with its versions."""
        if host not in self.hosts:
            self.store.note_host(self.started, host, facts)
            self.hosts.add(host)

    def units_left(self) -> list[Unit]:
        """Units with an image that is not committed; cut as they were when the evaluation began."""
        units = cut_units(self.images, self.started.batch_size)
        return [unit for unit in units if not self.done.issuperset(unit.positions)]

    def commit(self, unit: Unit, rows: Sequence[ImageRow], views: Views, seconds: float) -> None:
        """Writes the counts of a unit, all or nothing; an error where an image is not the one that was planned."""
        self._check_images(rows)
        self.store.add_images(self.started, rows, views, seconds)
        self.done.update(unit.positions)
        self.views = views
        if views == WHOLE:
            self.figure = self.running_figure.add([read_counts(self.counter.metric, row) for row in rows])

    def _check_images(self, rows: Sequence[ImageRow]) -> None:
        contents = self.planned.contents
        if contents is None or contents.trusted:
            return
        for row in rows:
            if row.digest != contents.images[row.position]:
                raise GauntletError(
                    f"the image '{row.image_id}' or its ground truth is not what it was when the evaluation was "
                    "planned; a file was changed meanwhile, or the process that read it has other data; run it again."
                )

    def finish(self) -> Evaluation:
        """Computes the figures of a job whose images are all committed, and marks it complete."""
        if self.views is None:
            raise GauntletError("the dataset has no images; nothing was evaluated.")
        if self.kept is not None:
            self.kept.write_index(self.planned)
        metric = self.counter.metric
        counts = (read_counts(metric, row) for row in self.store.image_rows(self.started))
        return self.store.finish(self.started, metric.compute(counts, self.views))


def begin_session(
    store: Store,
    planned: PlannedJob,
    device: torch.device,
    threads: int | None = None,
    facts: ModelFacts | None = None,
    reuse: bool = True,
    probe: Probe | None = None,
) -> Session:
    """Registers a job in the store, or takes up what is there of it.

    Counts that another evaluation has of the same images are taken over, with its batch size, preparation and hosts;
    not those of a model that differs from itself.

    Args:
        store: where the job goes.
        planned: what is to be computed.
        device: where it is computed.
        threads: torch threads of the workers that compute it; this process's by default.
        facts: of the model, where this process has loaded it; by default what is known about its address.
        reuse: False to compute all images anew.
        probe: of the model, where this process has loaded it; an error where what is stored of the job has another.
    """
    job, settings, images = planned.job, planned.settings, len(planned.dataset)
    options = metric_options(job.task, planned.dataset, planned.threat, objects=settings.objects)
    counter = build_counter(job.task, options, importance=settings.importance, precision=settings.precision)
    steps = parse_steps(settings.prepare) if planned.threat.passes(job.task).backward else ()
    provenance = describe_run(
        device=device, batch_size=settings.batch_size, precision=settings.precision, threads=threads, preparation=steps
    )
    provenance[FIELD] = planned.origin.as_dict()
    provenance[SETTINGS] = settings.in_key
    provenance[FACTS] = (facts or model_facts(planned)).as_dict()
    if probe is not None:
        provenance[PROBE] = probe.as_dict()
    kept = None if settings.images_folder is None else KeptImages.of(settings.images_folder, planned)
    shared = None
    repeats = probe is None or not probe.random
    if reuse and repeats and kept is None and store.started(job.key) is None:
        shared = _counted_elsewhere(store, planned, options)
    if probe is not None:
        check_probe(store, planned, probe, [job.key, *([shared[0].key] if shared is not None else [])])
    if shared is not None:
        then = store.provenance(shared[0].key)
        made_with = {name: then[name] for name in ("gauntlet", "torch", "device") if name in then}
        provenance["counts_from"] = {"key": shared[0].key, "images": len(shared[1]), **made_with}
        provenance["hosts"] = then.get("hosts", {})
        provenance["preparation"] = list(shared[0].preparation or ())
        provenance["batch_size"] = shared[0].batch_size
    batch_size = settings.batch_size if shared is None else shared[0].batch_size
    started = store.begin(job, images=images, batch_size=batch_size, metric=options, provenance=provenance)
    if probe is not None:  # again: another process may have begun it since
        check_probe(store, planned, probe, [job.key])
    if shared is not None and shared[0].views is not None:
        store.add_images(started, shared[1], shared[0].views)
        started = replace(started, views=shared[0].views)
    done = store.positions(started)
    if started.preparation is None and done:  # begun by a version that prepared nothing
        started = replace(started, preparation=store.keep_preparation(started, ()))
    figure = counter.running_figure()
    return Session(
        *(planned, store, started, counter, images, done, started.views, figure, started.preparation, kept),
        probe=probe,
    )


def _counted_elsewhere(
    store: Store, planned: PlannedJob, options: Mapping[str, Any]
) -> tuple[Started, list[ImageRow]] | None:
    """Counts that another evaluation of the same model and threat has of images of a job, at their positions in it."""
    contents = planned.contents
    if contents is None or contents.trusted:
        return None
    ids = planned.dataset.ids()
    found = store.counted_images(planned.job.family, options, dict(zip(ids, contents.images, strict=True)))
    if found is None:
        return None
    positions = {image_id: position for position, image_id in enumerate(ids)}
    return found[0], [replace(row, position=positions[row.image_id]) for row in found[1]]


def awaited(claims: Claims, store: Store, planned: PlannedJob) -> Evaluation | None:
    """What another driver completed of a job while this one waited for it, or None; it is new, also for `--again`."""
    return stored_as_asked(store, planned) if claims.waited_for(planned.job.key) else None


def model_facts(planned: PlannedJob, model: GauntletModel | None = None) -> ModelFacts:
    """What is known about the model of a job, and by the model itself where it is loaded."""
    return said_facts(model, (planned.origin.model or {}).get("address"))


def images_done(store: Store, jobs: Sequence[PlannedJob]) -> int:
    """How many images of some jobs are committed already."""
    begun = [store.started(planned.job.key) for planned in jobs]
    return sum(len(store.positions(started)) for started in begun if started is not None)

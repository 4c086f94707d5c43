"""A worker: keeps one model and the datasets of its orders, and computes one unit after the other."""

from __future__ import annotations

import json
import pickle
import time
from dataclasses import replace
from pathlib import Path

import cv2
import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.sample_cache import SampleCache
from gauntlet.evaluation.counting import build_counter
from gauntlet.evaluation.execution.memory import keep_freed_memory
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.execution.units import UnitComputer
from gauntlet.evaluation.execution.workers.orders import Delivery, Order, PickledFile
from gauntlet.evaluation.execution.workers.proof import (
    Expected,
    Station,
    check_images,
    check_model,
    check_threat_files,
    station_here,
)
from gauntlet.evaluation.jobs import prepare_for, ready_model, steps_for, with_preparation
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry, open_dataset
from gauntlet.evaluation.provenance import choose_device
from gauntlet.models import GauntletModel, resolve_model
from gauntlet.models.sources.contract import coded_identity
from gauntlet.threats.build import rebuild_threat
from gauntlet.threats.contract import Threat


class Notes(Silent):
    """Keeps what a user is to be told, for the driver to say."""

    def __init__(self) -> None:
        self.texts: dict[str, None] = {}

    def note_once(self, text: str) -> None:
        self.texts[text] = None


class Worker:
    """Computes units in a process of its own, with its own number of torch threads."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        cv2.setNumThreads(threads)
        keep_freed_memory()
        self._loaded: tuple[ModelEntry | PickledFile, GauntletModel] | None = None
        self._digests: tuple[str, str] | None = None
        self._proven: tuple[GauntletModel, Expected] | None = None
        self._prepared: tuple[GauntletModel, tuple[str, ...], GauntletModel] | None = None
        self._datasets: dict[str, Dataset] = {}
        self._built: tuple[str, Threat] | None = None

    def ready(self) -> Station:
        """Where the worker runs, told as soon as it has a place to run."""
        return station_here()

    def compute(self, order: Order) -> Delivery:
        """The rows of one unit."""
        began = time.perf_counter()
        dataset = self._dataset(order.dataset)
        check_images(order.expected, dataset, order.unit.positions)
        model = ready_model(self._model(order.model), dataset, choose_device(order.device))
        self._prove(model, order.expected)
        threat = self._threat(order, dataset)
        steps = order.preparation
        if steps is None:
            steps = steps_for(model, dataset, threat, order.batch_size)
        counter = build_counter(model.task, order.metric, precision=order.precision)
        prepared = self._prepare(model, dataset, steps)
        notes = Notes()
        computer = UnitComputer(dataset, prepared, threat, order.seed, counter, model.device, notes, order.kept)
        rows, views = computer.compute(computer.load(order.unit))
        return Delivery(rows, views, time.perf_counter() - began, steps, tuple(notes.texts))

    def _prove(self, model: GauntletModel, expected: Expected) -> None:
        """An error where the model is not the run's; looked at once for a model."""
        which = replace(expected, images=())
        if self._loaded is None or self._proven == (model, which):
            return
        check_model(expected, self._digests, model)
        self._proven = model, which

    def _threat(self, order: Order, dataset: Dataset) -> Threat:
        """The threat of an order; one may have a model of its own, which is prepared once for all units."""
        key = json.dumps([order.threat, order.prepare, repr(order.dataset)], sort_keys=True, default=repr)
        if self._built is None or self._built[0] != key:
            threat = rebuild_threat(order.threat)
            check_threat_files(order.expected, threat)
            self._built = key, with_preparation(threat, order.prepare, dataset)
        return self._built[1]

    def _dataset(self, source: DatasetEntry | PickledFile) -> Dataset:
        name = repr(source)
        if name not in self._datasets:
            if isinstance(source, PickledFile):
                dataset: Dataset = pickle.loads(Path(source.path).read_bytes())  # nosec B301 # written by our driver
            else:
                dataset = open_dataset(source)
            self._datasets[name] = SampleCache(dataset)
        return self._datasets[name]

    def _model(self, source: ModelEntry | PickledFile) -> GauntletModel:
        if self._loaded is None or self._loaded[0] != source:
            self._prepared = self._loaded = self._proven = None  # the model before it is released
            if isinstance(source, PickledFile):
                # Mapped, not read: the weights of all workers are the same pages of memory.
                model: GauntletModel = torch.load(source.path, mmap=True, weights_only=False)  # nosec B614 # as above
                self._digests = None  # the driver's own object, from a file that it wrote for this run
            else:
                found = resolve_model(source.address, **source.options)
                identity, model = coded_identity(found), found.load()
                self._digests = identity.digest, identity.code
            self._loaded = (source, model)
        return self._loaded[1]

    def _prepare(self, model: GauntletModel, dataset: Dataset, steps: tuple[str, ...]) -> GauntletModel:
        if self._prepared is None or self._prepared[0] is not model or self._prepared[1] != steps:
            self._prepared = (model, steps, prepare_for(model, dataset, steps))
        return self._prepared[2]

"""Training from a recipe: the loop, its resumable state, its figures."""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.progress import Progress, Silent, Terminal
from gauntlet.models import GauntletModel
from gauntlet.models.sources.trained import CARD_FILE, TrainedModel, register
from gauntlet.own_code import PREFIX, find_callable
from gauntlet.results.tracking import Tracker
from gauntlet.seeding import ImageSeed
from gauntlet.training import outputs
from gauntlet.training.averaging import MovingAverage
from gauntlet.training.by_task import training_task
from gauntlet.training.checkpoint import load_state, remove_state, save_state
from gauntlet.training.config import OptimiserConfig, TrainingConfig, load_config, parse_config
from gauntlet.training.distributed import Processes, joined_processes
from gauntlet.training.log import open_trackers
from gauntlet.training.objectives import StepInfo
from gauntlet.training.sample_feed import Loader, SampleOrder
from gauntlet.training.schedule import learning_rate_factor
from gauntlet.training.validation import Figures

AUTOCAST = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}

# Fields that change how fast or where a recipe is computed, not what it computes: a resumed run may change them.
FREE_FIELDS = ("device", "threads", "checkpoint", "trackers", "description")
# Fields that version 0.1.0 did not have; what they say by default is what it did.
LATER_FIELDS = {"model": ("stride",), "loss": ("name", "threshold", "share", "auxiliary")}
FREE_DATA_FIELDS = ("cache", "workers", "worker_kind", "prefetch")


@dataclass(frozen=True)
class TrainingResult(TrainedModel):
    """A trained model, as `evaluate` takes it; its folder has model.safetensors, config.yaml, log.csv and the cards."""

    @cached_property
    def model(self) -> GauntletModel:
        """The network with the weights that were kept: frozen, in eval mode, on the CPU."""
        return self.load()

    @property
    def headline(self) -> tuple[str, float]:
        """Name and value of the most important clean figure on the validation split: mIoU or mAP, in [0, 1]."""
        name, value = next(iter(self.card["figures"]["clean"].items()))
        return name, value

    @property
    def miou(self) -> float:
        """Clean mIoU of a segmentation network on the validation split, in [0, 1]."""
        value: float = self.card["figures"]["clean"]["mIoU"]
        return value


def train(
    config: TrainingConfig | dict[str, Any] | str | Path,
    output: str | Path | None = None,
    *,
    resume: bool = True,
    progress: Progress | None = None,
) -> TrainingResult:
    """Trains a model, or continues a training that was stopped; returns the model, at once when it is already done.

    Args:
        config: a recipe, its plain data, or the path of a YAML file.
        output: folder of the trained model; "trained/NAME" by default.
        resume: continue from the folder's checkpoint; False starts anew.
        progress: told about every step; a bar on a terminal, else plain lines on stderr, by default.
    """
    recipe = load_config(config) if isinstance(config, (str, Path)) else parse_config(config)
    folder = Path(output) if output is not None else Path("trained") / recipe.name
    threads = torch.get_num_threads()
    try:
        if recipe.threads is not None:
            torch.set_num_threads(recipe.threads)
        with joined_processes(recipe.device) as processes, torch.random.fork_rng():
            if not processes.is_first:
                return Training(recipe, folder, processes, Silent()).run(resume=resume)
            if progress is not None:
                return Training(recipe, folder, processes, progress).run(resume=resume)
            with Terminal() as display:
                return Training(recipe, folder, processes, display).run(resume=resume)
    finally:
        torch.set_num_threads(threads)


class Training:
    """One run of a recipe in one process.

    Args:
        config: the recipe.
        folder: where everything is written.
        processes: this process among all.
        progress: told about every step.
    """

    def __init__(self, config: TrainingConfig, folder: Path, processes: Processes, progress: Progress) -> None:
        self.config = config
        self.folder = folder
        self.processes = processes
        self.progress = progress
        parts = processes.count * config.accumulation
        if config.batch_size % parts:
            raise GauntletError(
                f"batch_size {config.batch_size} must be a multiple of {processes.count} processes times "
                f"accumulation {config.accumulation}."
            )
        self.part_size = config.batch_size // parts

    def run(self, *, resume: bool) -> TrainingResult:
        """Trains to the end, from the folder's checkpoint when there is one."""
        if not resume and self.processes.is_first:
            remove_state(self.folder)
            (self.folder / CARD_FILE).unlink(missing_ok=True)
        self.processes.wait()
        finished = self._finished()
        if finished is not None:
            return finished
        self._build()
        state = load_state(self.folder)
        if state is not None:
            self._restore(state)
        trackers: Sequence[Tracker] = ()
        if self.processes.is_first:
            self.folder.mkdir(parents=True, exist_ok=True)
            trackers = open_trackers(self.config, self.folder, self.step, self.task.figures)
        try:
            figures = self._loop(trackers)
        finally:
            for tracker in trackers:
                tracker.close()
            self.loader.close()
        return self._finish(figures)

    # -- what a run is made of

    def _build(self) -> None:
        config, device = self.config, self.processes.device
        self.train_data = open_dataset(config.data.name, config.data.split, config.data.options)
        validation_options = config.data.validation_options
        self.validation_data = open_dataset(
            config.data.name,
            config.data.validation_split,
            validation_options if validation_options is not None else config.data.options,
        )
        if config.data.validation_limit is not None:
            self.validation_data = self.validation_data.subset(config.data.validation_limit)
        self.task = training_task(config, self.train_data)
        preparation = self.task.preparation()
        self.loader = Loader(
            preparation,
            SampleOrder(len(self.train_data), config.seed),
            workers=config.data.workers,
            kind=config.data.worker_kind,
            prefetch=config.data.prefetch,
            noise=config.augmentation.noise,
        )
        self.total_steps = config.steps or math.ceil((config.epochs or 1) * len(self.train_data) / config.batch_size)
        torch.manual_seed(self._seed("weights"))
        self.model = self.task.model().to(device)
        self.objective = self.task.objective(self.model, preparation).to(device)
        if config.channels_last:
            self.objective.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimiser = build_optimiser(config.optimiser, self.objective)
        self.average = MovingAverage(self.model.module, config.ema) if config.ema is not None else None
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "float16")
        self.step = 0
        self.seconds = 0.0
        self.interval_loss = 0.0
        self.interval_steps = 0

    # -- the loop

    def _loop(self, trackers: Sequence[Tracker]) -> Figures:
        config = self.config
        distributed: nn.Module = self.objective
        if self.processes.count > 1:
            distributed = DistributedDataParallel(self.objective)
        batches = self.loader.batches(
            self._positions(step, part)
            for step in range(self.step, self.total_steps)
            for part in range(config.accumulation)
        )
        began, before = time.monotonic(), self.seconds
        last_checkpoint = began
        figures: Figures | None = None
        self.progress.start(f"training {config.name}", self.total_steps, self.step, "steps")
        while self.step < self.total_steps:
            loss = self._update_weights(distributed, batches)
            self.interval_loss += loss
            self.interval_steps += 1
            epoch_before = self._epoch(self.step)
            self.step += 1
            self.seconds = before + time.monotonic() - began
            last = self.step == self.total_steps
            figures = None
            if last or (config.validate_every is not None and self.step % config.validate_every == 0):
                figures = self._validate()
            if self.processes.is_first and (last or figures is not None or self.step % config.log_every == 0):
                self._log(trackers, figures)
            self.progress.advance(1, text=f"loss {loss:.4f}")
            due = time.monotonic() - last_checkpoint >= 60 * config.checkpoint.minutes
            if self.processes.is_first and not last and (due or self._epoch(self.step) != epoch_before):
                save_state(self.folder, self._state())
                last_checkpoint = time.monotonic()
        return figures if figures is not None else self._validate()

    def _update_weights(self, distributed: nn.Module, batches: Iterator[Any]) -> float:
        """One step; returns the loss over the whole batch."""
        config, device = self.config, self.processes.device
        factor = learning_rate_factor(config.schedule, self.step, self.total_steps)
        for group in self.optimiser.param_groups:
            group["lr"] = config.optimiser.learning_rate * factor
        self.objective.train()
        autocast = AUTOCAST[config.precision]
        mean_loss = torch.zeros(())
        for part in range(config.accumulation):
            positions = self._positions(self.step, part)
            torch.manual_seed(self._seed(f"layers from sample {positions.start}"))
            batch = next(batches)
            images, labels = batch.images.to(device), batch.labels
            if isinstance(labels, torch.Tensor):
                labels = labels.to(device)
            if config.channels_last:
                images = images.contiguous(memory_format=torch.channels_last)
            seeds = [self._seed(f"attack on sample {position}") for position in positions]
            inputs = self.objective.prepare(images, labels, StepInfo(self.step / self.total_steps, seeds))
            unfinished = part + 1 < config.accumulation and isinstance(distributed, DistributedDataParallel)
            with distributed.no_sync() if unfinished else nullcontext():  # type: ignore[operator]
                with torch.autocast(device.type, autocast, enabled=autocast is not None):
                    loss = distributed(*inputs) / config.accumulation
                self.scaler.scale(loss).backward()
            mean_loss += loss.detach().cpu() / self.processes.count
        self.scaler.unscale_(self.optimiser)
        if config.optimiser.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.objective.parameters(), config.optimiser.clip_norm)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)
        if self.average is not None:
            self.average.update(self.model.module, self.step)
        total = float(self.processes.total(mean_loss))
        if not math.isfinite(total):
            raise GauntletError(
                f"the loss is {total} at step {self.step}; lower optimiser.learning_rate or set optimiser.clip_norm."
            )
        return total

    def _positions(self, step: int, part: int) -> range:
        """Positions in the endless order of samples that this process computes in a part of a step."""
        first = step * self.config.batch_size
        first += (self.processes.rank * self.config.accumulation + part) * self.part_size
        return range(first, first + self.part_size)

    def _validate(self) -> Figures:
        return self.task.validate(self._kept_model(), self.validation_data, self.processes)

    def _kept_model(self) -> outputs.TrainedModel:
        """A frozen copy of the model with the weights that are kept: the average when there is one."""
        kept = copy.deepcopy(self.model)
        if self.average is not None:
            kept.module.load_state_dict(self.average.state)
        kept.freeze()
        return kept

    def _log(self, trackers: Sequence[Tracker], figures: Figures | None) -> None:
        row: dict[str, float] = {
            "epoch": self.step * self.config.batch_size / len(self.train_data),
            "loss": self.interval_loss / max(1, self.interval_steps),
            "learning_rate": self.optimiser.param_groups[0]["lr"],
            "seconds": self.seconds,
        }
        if figures is not None:
            row |= figures.summary
        for tracker in trackers:
            tracker.log(row, self.step)
        self.interval_loss, self.interval_steps = 0.0, 0

    def _epoch(self, step: int) -> int:
        return step * self.config.batch_size // len(self.train_data)

    def _seed(self, purpose: str) -> int:
        return ImageSeed(self.config.seed, "training").stream(purpose)

    # -- what survives a crash

    def _state(self) -> dict[str, Any]:
        return {
            "recipe": json.dumps(binding_fields(self.config)),
            "step": self.step,
            "seconds": self.seconds,
            "interval": [self.interval_loss, self.interval_steps],
            "objective": self.objective.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": self.average.state if self.average is not None else None,
            "scaler": self.scaler.state_dict(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        if json.loads(state["recipe"]) != json.loads(json.dumps(binding_fields(self.config))):
            raise GauntletError(
                f"'{self.folder}' holds a checkpoint of another recipe; choose another folder, or start anew with "
                "--restart (resume=False)."
            )
        self.objective.load_state_dict(state["objective"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.scaler.load_state_dict(state["scaler"])
        if self.average is not None:
            for name, value in state["average"].items():
                self.average.state[name].copy_(value)
        self.step, self.seconds = state["step"], state["seconds"]
        self.interval_loss, self.interval_steps = state["interval"]

    def _finished(self) -> TrainingResult | None:
        """The result of a training that is already done in this folder."""
        path = self.folder / CARD_FILE
        if not path.exists():
            return None
        card = json.loads(path.read_text(encoding="utf-8"))
        if binding_fields(parse_config(card["recipe"], f"'{path}'")) != binding_fields(self.config):
            raise GauntletError(
                f"'{self.folder}' holds a model of another recipe; choose another folder, or start anew with "
                "--restart (resume=False)."
            )
        register(self.config.name, self.folder)
        return TrainingResult(self.folder)

    def _finish(self, figures: Figures) -> TrainingResult:
        outcome = outputs.Outcome(
            self.total_steps,
            self.total_steps * self.config.batch_size,
            self.seconds,
            self.processes.count,
            figures,
        )
        kept = self._kept_model()
        card = outputs.describe(self.config, kept, self.train_data, self.validation_data, outcome)
        if self.processes.is_first:
            outputs.write_model(self.folder, self.config, kept, card)
            remove_state(self.folder)
        self.processes.wait()
        return TrainingResult(self.folder)


def open_dataset(name: str, split: str, options: dict[str, Any]) -> Dataset:
    """A dataset by name, or "python:module:callable" for one that a callable makes from (split, **options)."""
    if name.startswith(PREFIX):
        made: Dataset = find_callable(name.removeprefix(PREFIX))(split=split, **options)
        return made
    from gauntlet.datasets import load_dataset

    dataset: Dataset = load_dataset(name, split=split, **options)
    return dataset


def build_optimiser(config: OptimiserConfig, module: nn.Module) -> torch.optim.Optimizer:
    """SGD or AdamW; biases and the parameters of normalisation layers do not decay."""
    matrices = [parameter for parameter in module.parameters() if parameter.ndim > 1]
    vectors = [parameter for parameter in module.parameters() if parameter.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    if config.name == "sgd":
        return torch.optim.SGD(groups, lr=config.learning_rate, momentum=config.momentum, nesterov=config.nesterov)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas)


def binding_fields(config: TrainingConfig) -> dict[str, Any]:
    """The fields of a recipe that decide what is computed; later ones only where given: checkpoints have none."""
    fields = {name: value for name, value in config.as_dict().items() if name not in FREE_FIELDS}
    for section, later in LATER_FIELDS.items():
        given = fields[section].items()
        fields[section] = {name: value for name, value in given if name not in later or value is not None}
    fields["data"] = {name: value for name, value in fields["data"].items() if name not in FREE_DATA_FIELDS}
    return fields

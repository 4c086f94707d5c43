"""Experiment trackers behind one small interface: TensorBoard, Weights & Biases, MLflow."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.extras import install_command

PROJECT = "gauntlet"


class Tracker(Protocol):
    """Receives figures by name, step by step."""

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Takes the figures of one step."""

    def close(self) -> None:
        """Ends the run in the tracker; nothing is logged after it."""


class TensorBoardTracker:
    """Event files in a folder."""

    def __init__(self, name: str, config: Mapping[str, Any], folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard" / name))
        self._writer.add_text("config", str(dict(config)))

    def log(self, figures: Mapping[str, float], step: int) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WandbTracker:
    """A Weights & Biases run; offline unless WANDB_MODE says otherwise."""

    def __init__(self, name: str, config: Mapping[str, Any], folder: Path) -> None:
        import wandb

        mode = os.environ.get("WANDB_MODE", "offline")
        self._run = wandb.init(
            project=PROJECT, name=name, dir=str(folder), config=dict(config), mode=mode, reinit="create_new"
        )

    def log(self, figures: Mapping[str, float], step: int) -> None:
        self._run.log(dict(figures), step=step)

    def close(self) -> None:
        self._run.finish()


class MlflowTracker:
    """An MLflow run; a local store in the folder unless MLFLOW_TRACKING_URI says otherwise."""

    def __init__(self, name: str, config: Mapping[str, Any], folder: Path) -> None:
        import mlflow

        uri = os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{folder.resolve() / 'mlflow.db'}")
        self._client = mlflow.MlflowClient(tracking_uri=uri)
        existing = self._client.get_experiment_by_name(PROJECT)
        experiment = existing.experiment_id if existing is not None else self._client.create_experiment(PROJECT)
        self._run_id = self._client.create_run(experiment, run_name=name).info.run_id
        for key, value in config.items():
            self._client.log_param(self._run_id, key, str(value)[:500])

    def log(self, figures: Mapping[str, float], step: int) -> None:
        for name, value in figures.items():
            self._client.log_metric(self._run_id, name, value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._run_id)


TRACKERS: dict[str, Callable[[str, Mapping[str, Any], Path], Tracker]] = {
    "tensorboard": TensorBoardTracker,
    "wandb": WandbTracker,
    "mlflow": MlflowTracker,
}


def open_tracker(kind: str, name: str, config: Mapping[str, Any], folder: Path) -> Tracker:
    """A tracker by its kind.

    Args:
        kind: one of TRACKERS.
        name: of the run in the tracker.
        config: what is tracked, shown beside the figures.
        folder: where local files go.
    """
    if kind not in TRACKERS:
        raise unknown_name("tracker", kind, TRACKERS)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return TRACKERS[kind](name, config, folder)
    except ImportError:
        raise GauntletError(f"the tracker '{kind}' is not installed; run: {install_command('tracking')}.") from None

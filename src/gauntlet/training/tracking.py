"""Where the curves go: always log.csv; TensorBoard, Weights & Biases and MLflow beside it when asked for."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gauntlet.errors import GauntletError
from gauntlet.training.checkpoint import write_atomically
from gauntlet.training.config import TrainingConfig

COLUMNS = ("step", "epoch", "loss", "learning_rate", "mIoU", "aAcc", "seconds")

Row = Mapping[str, float]


class Tracker(Protocol):
    """Receives a row of figures now and then."""

    def log(self, row: Row) -> None:
        """Takes the figures of one step; a figure that was not measured is missing."""

    def close(self) -> None:
        """Nothing comes any more."""


class CsvLog:
    """log.csv: a line per logged step, flushed at once.

    Args:
        path: of the file.
        last_step: what comes after this step is cut off, since a resumed run does it again.
    """

    def __init__(self, path: Path, last_step: int) -> None:
        rows = [row for row in read_log(path) if int(row["step"]) <= last_step]
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(path, buffer.getvalue().encode())
        self._stream = path.open("a", encoding="utf-8", newline="")
        self._writer = csv.DictWriter(self._stream, COLUMNS, lineterminator="\n")

    def log(self, row: Row) -> None:
        self._writer.writerow({name: f"{value:.9g}" for name, value in row.items()})
        self._stream.flush()

    def close(self) -> None:
        self._stream.close()


def read_log(path: Path) -> list[dict[str, str]]:
    """The lines of a log.csv that are whole; none when there is no file."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    return list(csv.DictReader(io.StringIO(whole)))


class TensorBoardTracker:
    """Event files under the output folder."""

    def __init__(self, config: TrainingConfig, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def log(self, row: Row) -> None:
        for name, value in _figures(row).items():
            self._writer.add_scalar(name, value, int(row["step"]))

    def close(self) -> None:
        self._writer.close()


class WandbTracker:
    """A Weights & Biases run; offline unless WANDB_MODE says otherwise."""

    def __init__(self, config: TrainingConfig, folder: Path) -> None:
        import wandb

        mode = os.environ.get("WANDB_MODE", "offline")
        self._run = wandb.init(
            project="gauntlet", name=config.name, dir=str(folder), config=config.as_dict(), mode=mode, reinit=True
        )

    def log(self, row: Row) -> None:
        self._run.log(_figures(row), step=int(row["step"]))

    def close(self) -> None:
        self._run.finish()


class MlflowTracker:
    """An MLflow run; a local store under the output folder unless MLFLOW_TRACKING_URI says otherwise."""

    def __init__(self, config: TrainingConfig, folder: Path) -> None:
        import mlflow

        uri = os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{folder.resolve() / 'mlflow.db'}")
        self._client = mlflow.MlflowClient(tracking_uri=uri)
        found = self._client.get_experiment_by_name("gauntlet")
        experiment = found.experiment_id if found is not None else self._client.create_experiment("gauntlet")
        self._run_id = self._client.create_run(experiment, run_name=config.name).info.run_id
        for name, value in config.as_dict().items():
            self._client.log_param(self._run_id, name, str(value)[:500])

    def log(self, row: Row) -> None:
        for name, value in _figures(row).items():
            self._client.log_metric(self._run_id, name, value, step=int(row["step"]))

    def close(self) -> None:
        self._client.set_terminated(self._run_id)


TRACKERS: dict[str, Any] = {"tensorboard": TensorBoardTracker, "wandb": WandbTracker, "mlflow": MlflowTracker}


def open_trackers(config: TrainingConfig, folder: Path, last_step: int) -> Sequence[Tracker]:
    """The CSV log and the trackers of the recipe."""
    trackers: list[Tracker] = [CsvLog(folder / "log.csv", last_step)]
    return [*trackers, *(_open(name, config, folder) for name in config.trackers)]


def _open(name: str, config: TrainingConfig, folder: Path) -> Tracker:
    try:
        tracker: Tracker = TRACKERS[name](config, folder)
    except ImportError:
        raise GauntletError(
            f"the tracker '{name}' is not installed; run 'pip install {name}' or remove it from the recipe."
        ) from None
    return tracker


def _figures(row: Row) -> dict[str, float]:
    return {name: value for name, value in row.items() if name != "step"}

"""Where the curves go: always log.csv; TensorBoard, Weights & Biases and MLflow beside it when asked for."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from gauntlet.results.tracking import Tracker as FigureTracker
from gauntlet.results.tracking import open_tracker
from gauntlet.training.checkpoint import write_atomically
from gauntlet.training.config import TrainingConfig

SEGMENTATION_FIGURES = ("mIoU", "aAcc")

Row = Mapping[str, float]


class RowTracker(Protocol):
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
        figures: names of the validation's figures.
    """

    def __init__(self, path: Path, last_step: int, figures: Sequence[str] = SEGMENTATION_FIGURES) -> None:
        columns = ("step", "epoch", "loss", "learning_rate", *figures, "seconds")
        rows = [row for row in read_log(path) if int(row["step"]) <= last_step]
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(path, buffer.getvalue().encode())
        self._stream = path.open("a", encoding="utf-8", newline="")
        self._writer = csv.DictWriter(self._stream, columns, lineterminator="\n")

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


class Forwarded:
    """Hands rows on to a tracker of `gauntlet.results.tracking`."""

    def __init__(self, tracker: FigureTracker) -> None:
        self._tracker = tracker

    def log(self, row: Row) -> None:
        self._tracker.log({name: value for name, value in row.items() if name != "step"}, int(row["step"]))

    def close(self) -> None:
        self._tracker.close()


def open_trackers(config: TrainingConfig, folder: Path, last_step: int, figures: Sequence[str]) -> Sequence[RowTracker]:
    """The CSV log and the trackers of the recipe."""
    others = [Forwarded(open_tracker(kind, config.name, config.as_dict(), folder)) for kind in config.trackers]
    return [CsvLog(folder / "log.csv", last_step, figures), *others]

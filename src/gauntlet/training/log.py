"""The curve of a training: log.csv, and the trackers that the recipe names beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from gauntlet.files import write_atomically
from gauntlet.results.tracking import Tracker, open_tracker
from gauntlet.training.config import TrainingConfig


class CsvLog:
    """log.csv as a tracker: a line per logged step, flushed at once.

    Args:
        path: of the file.
        last_step: the step that the training continues after; later lines of the file are cut off, since these steps
            are computed again.
        figures: names of the validation's figures.
    """

    def __init__(self, path: Path, last_step: int, figures: Sequence[str]) -> None:
        columns = ("step", "epoch", "loss", "learning_rate", *figures, "seconds")
        rows = [row for row in read_log(path) if int(row["step"]) <= last_step]
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(path, buffer.getvalue().encode(), sync=True)
        self._stream = path.open("a", encoding="utf-8", newline="")
        self._writer = csv.DictWriter(self._stream, columns, lineterminator="\n")

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Writes one line; the column of a figure that was not measured stays empty."""
        self._writer.writerow({"step": step, **{name: f"{value:.9g}" for name, value in figures.items()}})
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


def open_trackers(config: TrainingConfig, folder: Path, last_step: int, figures: Sequence[str]) -> list[Tracker]:
    """The CSV log and the trackers of the recipe."""
    others = [open_tracker(kind, config.name, config.as_dict(), folder) for kind in config.trackers]
    return [CsvLog(folder / "log.csv", last_step, figures), *others]

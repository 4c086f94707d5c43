"""Progress that is honest: a bar with remaining time on a terminal, plain lines elsewhere; else notes to the log."""

from __future__ import annotations

import logging
import math
import sys
import time
from types import TracebackType
from typing import Protocol, TextIO

from gauntlet.numbers import format_duration

_LINE_EVERY_SECONDS = 10.0


class Progress(Protocol):
    """What an evaluation or a training tells while it runs."""

    def start(self, label: str, total: int, done: int = 0, unit: str = "images") -> None:
        """An evaluation of `total` images (a training of `total` steps) begins; `done` of them were done before."""

    def advance(self, count: int, figure: float = math.nan, name: str = "mIoU", text: str = "") -> None:
        """So many images or steps more are done.

        Args:
            count: how many.
            figure: over this session's images, a fraction; NaN where there is none.
            name: of the figure.
            text: said beside it, such as the loss of a training.
        """

    def note_once(self, text: str) -> None:
        """Something the user should know; the same text is said once."""


class Silent:
    """Says nothing."""

    def start(self, label: str, total: int, done: int = 0, unit: str = "images") -> None: ...

    def advance(self, count: int, figure: float = math.nan, name: str = "mIoU", text: str = "") -> None: ...

    def note_once(self, text: str) -> None: ...


class Logged(Silent):
    """Shows no progress, and gives notes to a module's logger as warnings: for callers that gave no display.

    Args:
        logger: of the module that makes the notes.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._notes: set[str] = set()

    def note_once(self, text: str) -> None:
        if text not in self._notes:
            self._notes.add(text)
            self._logger.warning(text)


class Terminal:
    """A rich bar on a terminal, a line every ten seconds elsewhere; both go to standard error."""

    def __init__(self, stream: TextIO | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._stream = stream or sys.stderr
        self._console = Console(file=self._stream)
        self._label, self._unit, self._total, self._done, self._fresh = "", "images", 0, 0, 0
        self._began = self._said = 0.0
        self._notes: set[str] = set()
        self._bar: RichProgress | None = None
        if self._console.is_terminal:
            self._bar = RichProgress(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(), console=self._console, transient=True,
            )  # fmt: skip

    def __enter__(self) -> Terminal:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, label: str, total: int, done: int = 0, unit: str = "images") -> None:
        self._label, self._unit, self._total, self._done, self._fresh = label, unit, total, done, 0
        self._began = self._said = time.monotonic()
        if self._bar is not None:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._bar.add_task(label, total=total, completed=done, rate="")
        elif done < total:
            self._line(f"{label}: {total} {unit}" + (f", {done} of them done before" if done else ""))

    def advance(self, count: int, figure: float = math.nan, name: str = "mIoU", text: str = "") -> None:
        self._done += count
        self._fresh += count
        rate = self._fresh / max(time.monotonic() - self._began, 1e-9)
        pace = f"{rate:.1f} {self._unit}/s"
        if self._bar is not None:
            percent = "" if math.isnan(figure) else f"{name} {100 * figure:.1f}"
            shown = ", ".join(part for part in (pace, percent, text) if part)
            self._bar.update(self._bar.task_ids[-1], completed=self._done, rate=shown)
        elif time.monotonic() - self._said >= _LINE_EVERY_SECONDS:
            self._said = time.monotonic()
            left = f"{format_duration((self._total - self._done) / rate)} left"
            place = f"{self._label}: {self._done}/{self._total} {self._unit}"
            self._line(", ".join(part for part in (place, text, pace, left) if part))

    def note_once(self, text: str) -> None:
        if text not in self._notes:
            self._notes.add(text)
            self._line(text)

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

"""How far a training is: a bar with the remaining time on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol, TextIO

LINE_SECONDS = 15.0
"""Least time between two plain lines."""


class Progress(Protocol):
    """Told about every step; used as a context around the training."""

    def __enter__(self) -> Progress: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, step: int, total: int, message: str) -> None:
        """`step` of `total` steps are done."""


class SilentProgress:
    """Says nothing: for processes other than the first, and for callers that do not want it."""

    def __enter__(self) -> SilentProgress:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, step: int, total: int, message: str) -> None:
        return None


class LineProgress:
    """A line now and then, with the remaining time from the pace of this session."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._start: tuple[float, int] | None = None
        self._last = float("-inf")

    def __enter__(self) -> LineProgress:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, step: int, total: int, message: str) -> None:
        now = time.monotonic()
        if self._start is None:
            self._start = (now, step)
            return
        if now - self._last < LINE_SECONDS and step != total:
            return
        self._last = now
        began, first = self._start
        remaining = (now - began) / max(1, step - first) * (total - step)
        print(f"step {step}/{total}  {message}  {format_duration(remaining)} left", file=self._stream, flush=True)


class BarProgress:
    """A rich bar."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[message]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task("training", total=None, message="")

    def __enter__(self) -> BarProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, step: int, total: int, message: str) -> None:
        self._bar.update(self._task, completed=step, total=total, message=message)


def default_progress() -> Progress:
    """A bar when someone watches, lines when not."""
    return BarProgress() if sys.stderr.isatty() else LineProgress()


def format_duration(seconds: float) -> str:
    """Hours, minutes and seconds, as far as they matter.

    >>> format_duration(75), format_duration(3700)
    ('1 min 15 s', '1 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

"""Evaluations that did not finish, and why, in one line."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

from gauntlet.errors import GauntletError
from gauntlet.evaluation.jobs import PlannedJob


@dataclass(frozen=True)
class Failure:
    """An evaluation that did not finish, and why."""

    planned: PlannedJob
    error: str


def describe_error(error: BaseException) -> str:
    """One line: the sentence of an error that a user can act on, else its type and where it came from."""
    if isinstance(error, GauntletError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"

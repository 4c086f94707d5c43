"""The command line program, run in the process of the tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Protocol

import pytest

from gauntlet.cli import app as application
from gauntlet.cli import commands  # noqa: F401 - registers the commands


class Call(Protocol):
    """The program with some arguments: exit code, standard output, standard error."""

    def __call__(self, *arguments: str | Path) -> tuple[int, str, str]: ...


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """The program, run in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gauntlet", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            application.main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return run

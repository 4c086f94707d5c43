"""Programs in a process of their own that need not import torch again: it is forked from one that has."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from subprocesses import environment

# Imports what takes seconds, and nothing of ours; then forks a child for every line that tells it what to run.
SERVER = """
import json, os, sys, traceback
import cv2, numba, numpy, pandas, pydantic, scipy.ndimage, sqlalchemy, torch, typer, yaml

def run(asked):
    for number, path in ((1, asked["out"]), (2, asked["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(asked["folder"])
    os.environ.update(asked["variables"])
    sys.path[1:1] = asked["path"]
    sys.argv = ["-c", *asked["arguments"]]
    try:
        exec(compile(asked["program"], asked["file"], "exec"), globals())
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = run(json.loads(line))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class FreshPython:
    """Runs programs, each in a process that has imported nothing of Gauntlet.

    Args:
        folder: for what programs print.
    """

    def __init__(self, folder: Path) -> None:
        self._out, self._err = folder / "out", folder / "err"
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment(),
        )

    def run(
        self, program: str | Path, *arguments: str, folder: Path, path: tuple[Path, ...] = (), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """What a program printed, and its exit code.

        Args:
            program: Python code, or a file with it.
            arguments: what it finds in `sys.argv`.
            folder: where it runs.
            path: folders from which it may import.
            variables: of its environment, beside those of this process.
        """
        asked = {
            "program": program.read_text() if isinstance(program, Path) else program,
            "file": str(program) if isinstance(program, Path) else "<string>",
            "arguments": arguments,
            "folder": str(folder),
            "path": [str(each) for each in path],
            "variables": variables,
            "out": str(self._out),
            "err": str(self._err),
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        return subprocess.CompletedProcess(arguments, code, self._out.read_text(), self._err.read_text())

    def close(self) -> None:
        """Ends the process that forks, also where a process that a test left behind still holds its input open."""
        self._server.kill()
        self._server.communicate()


@pytest.fixture(scope="session")
def fresh_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshPython]:
    """One per process of the tests, started when it is first asked for."""
    python = FreshPython(tmp_path_factory.mktemp("fresh-python"))
    yield python
    python.close()

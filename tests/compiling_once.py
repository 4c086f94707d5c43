"""Workers of the tests compile no loop twice: one waits while another compiles, then loads its machine code.

In a fresh clone two workers would compile the same loops at the same time, over a minute of processor time each.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

try:
    import fcntl
except ImportError:  # Windows: every worker compiles for itself
    fcntl = None  # type: ignore[assignment]


def pytest_configure(config: pytest.Config) -> None:
    """Puts a lock around compiling where there are workers."""
    if "PYTEST_XDIST_WORKER" not in os.environ or fcntl is None:
        return
    folder = Path(tempfile.gettempdir()) / f"gauntlet-compiling-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    alone = Dispatcher.compile

    def compile_once(self: Any, signature: Any) -> Any:
        # This process's own lock first: a thread that holds it asks for the locks of the functions inside.
        with global_compiler_lock, locked(folder / f"{self.py_func.__module__}.{self.py_func.__qualname__}"):
            return alone(self, signature)

    Dispatcher.compile = compile_once


_held: set[Path] = set()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a file while something is done; other processes wait, this one may come again (for a recursion)."""
    if path in _held:
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _held.add(path)
        try:
            yield
        finally:
            _held.remove(path)

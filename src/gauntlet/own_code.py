"""Callables of the user's own, by "module:attribute"."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

from gauntlet.errors import GauntletError, first_line
from gauntlet.files import cache_folder, write_atomically

PREFIX = "python:"

_REFUSED: ContextVar[str | None] = ContextVar("why code of the user's own is refused", default=None)
"""None where the user named it themselves; "" where somebody else did, whom the user trusts this once."""


@contextmanager
def refusing_code(why: str) -> Iterator[None]:
    """Inside, nothing is imported by "module:attribute" that this user has not run before, and no model is trusted.

    For addresses that the user did not write: those that a store or a card holds. Code that they once named themselves,
    and that lies below the folder they were in, is theirs.

    Args:
        why: what to do about it, the end of a sentence; "" to allow code again.
    """
    token = _REFUSED.set(why)
    try:
        yield
    finally:
        _REFUSED.reset(token)


def is_code_refused() -> bool:
    """Whether addresses come from somebody else here."""
    return bool(_REFUSED.get())


def find_callable(target: str, folders: Sequence[str] = ()) -> Callable[..., Any]:
    """What "package.module:callable" stands for; modules of the working folder are found too.

    Args:
        target: module and attribute, without the prefix.
        folders: where else to look, after everything that Python knows.
    """
    why = _REFUSED.get()
    if why and not _was_run_here(target):
        raise GauntletError(f"{PREFIX}{target} is code that would run here; {why}")
    module_name, _, attribute = target.partition(":")
    if not attribute:
        raise GauntletError(f"{PREFIX}{target} must name a callable, as in python:my_project.nets:build.")
    # Running `gauntlet` as a program leaves the working folder out of the path, where the user's code is.
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    sys.path.extend(folder for folder in folders if folder not in sys.path and Path(folder).is_dir())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise GauntletError(f"{PREFIX}{target} cannot be imported: {error}.") from None
    except Exception as error:  # the user's code, which may fail in any way
        what = f"{type(error).__name__}: {first_line(error)}"
        raise GauntletError(f"{PREFIX}{target} cannot be imported: {what}") from error
    if not hasattr(module, attribute):
        raise GauntletError(f"the module {module_name} has no '{attribute}'.")
    found: Callable[..., Any] = getattr(module, attribute)
    if why is None and _is_below(module, Path.cwd()):
        _remember(target)
    return found


def _is_below(module: ModuleType, folder: Path) -> bool:
    """Whether a module's file lies below a folder: what is installed takes anybody's arguments, and is nobody's own."""
    file = getattr(module, "__file__", None)
    if file is None or "site-packages" in Path(file).parts:  # also that of an environment below the folder
        return False
    return Path(file).resolve().is_relative_to(folder.resolve())


def _was_run_here(target: str) -> bool:
    """Whether this user named a callable themselves before, with the same working folder."""
    return [str(Path.cwd()), target] in _remembered()


def _remember(target: str) -> None:
    if _was_run_here(target):
        return
    try:
        write_atomically(_memory(), json.dumps([*_remembered(), [str(Path.cwd()), target]], indent=1).encode())
    except (OSError, RuntimeError):  # no home, or none that can be written: they will be asked
        return


def _remembered() -> list[list[str]]:
    try:
        content = json.loads(_memory().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):
        return []
    return content if isinstance(content, list) else []


def _memory() -> Path:
    return cache_folder() / "own-code.json"


def folder_of(function: Callable[..., Any]) -> str:
    """The folder from which the module of a callable was imported, "" where there is none."""
    module = sys.modules.get(getattr(function, "__module__", ""))
    file = getattr(module, "__file__", None)
    if module is None or file is None:
        return ""
    levels = module.__name__.count(".") + (Path(file).name == "__init__.py")
    return str(Path(file).resolve().parents[levels])

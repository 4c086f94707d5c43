"""Callables of the user's own, by "module:attribute"."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from gauntlet.errors import GauntletError, first_line

PREFIX = "python:"

_REFUSED: ContextVar[str] = ContextVar("why code of the user's own is refused", default="")


@contextmanager
def refusing_code(why: str) -> Iterator[None]:
    """Inside, nothing is imported by "module:attribute", and no model is trusted.

    For addresses that the user did not write: those that a store or a card holds.

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
    if why := _REFUSED.get():
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
    return found


def folder_of(function: Callable[..., Any]) -> str:
    """The folder from which the module of a callable was imported, "" where there is none."""
    module = sys.modules.get(getattr(function, "__module__", ""))
    file = getattr(module, "__file__", None)
    if module is None or file is None:
        return ""
    levels = module.__name__.count(".") + (Path(file).name == "__init__.py")
    return str(Path(file).resolve().parents[levels])

"""The decorator of the renderer's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compiles with numba, keeps the machine code on disk, and keeps the types for the type checker.

    Fast-math stays off: without it the compiler may neither reorder nor fuse floating-point operations, so that the
    kernels, which use only + - * / and sqrt, give the same bits on every machine.
    """
    return cast(
        "Callable[P, R]", numba.njit(cache=True, fastmath=False, error_model="numpy", forceinline=True)(function)
    )

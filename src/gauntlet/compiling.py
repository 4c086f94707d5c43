"""The one way loops are compiled here: exact IEEE arithmetic, no threads, the machine code kept between runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": False, "parallel": False}


def compiled(function: F) -> F:
    """Compiles a function at its first call and caches the machine code.

    Without fast-math the compiler may neither reorder nor fuse floating-point operations, so the result is the same
    on every processor. The interpreter lock is released, so that a thread can prepare images while a model runs.
    The cache lies beside the source, else in the user's cache folder; where neither can be written every process
    compiles for itself. It notices a change of the function's own file only: whoever edits a function that is called
    from a compiled one in another file must remove the cached code (`*.nbi` in `__pycache__`).
    """
    return _compile(function)


def inlined(function: F) -> F:
    """As `compiled`, and copied into every compiled function that calls it: for small functions of inner loops."""
    return _compile(function, forceinline=True)


def summed(function: F) -> F:
    """As `compiled`, but sums may be added up in any order and fused: for long dot products where speed decides.

    The last bits may then differ between kinds of processors, as they do for torch's own matrix products.
    """
    return _compile(function, fastmath={"reassoc", "contract", "nsz"})


def fused(function: F) -> F:
    """As `compiled`, but a product may be added without being rounded first, as torch's own loops do.

    The last bits may then differ between kinds of processors, as theirs do.
    """
    return _compile(function, fastmath={"contract"})


def _compile(function: F, **options: Any) -> F:
    try:
        return cast(F, numba.njit(cache=True, **{**OPTIONS, **options})(function))
    except RuntimeError:  # numba found no folder that it may write to
        return cast(F, numba.njit(**{**OPTIONS, **options})(function))

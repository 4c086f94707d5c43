"""Memory that a process keeps between passes."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX of malloc.h


def keep_freed_memory() -> bool:
    """Lets the C library keep what is freed for the next allocation; False where it has no such setting.

    By default glibc gives large blocks back to the system at once, which hands them out again page by page, zeroed: an
    eighth of the time of a pass of SegFormer. The peak stays the same; it is kept until the process ends. So this is
    for processes that do nothing but evaluate.
    """
    try:
        library = ctypes.CDLL(None)
        return bool(library.mallopt(_MMAP_MAX, 0) and library.mallopt(_TRIM_THRESHOLD, -1))
    except (AttributeError, OSError, TypeError):  # not glibc, not even a Unix
        return False

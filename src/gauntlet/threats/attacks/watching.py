"""Looking on while an attack proceeds: whoever watches is shown the points of every step.

Nothing of the attack depends on being watched: it hands over what it has, its random numbers and its count of passes
stay as they were. An observer that raises ends the attack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

Observer = Callable[[torch.Tensor], None]
"""Takes the points (N, 3, H, W) of images under attack; it must not write to them, and copies what it keeps."""

_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def watching(observer: Observer) -> Iterator[None]:
    """Attacks of this thread show their points meanwhile: before every gradient, or after every query.

    An attack of n gradient steps shows n times, first where it starts; what it returns comes after the last one.
    """
    before = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(before)


def show_points(points: torch.Tensor) -> None:
    """For attacks: what they have now, to whoever watches."""
    observer = _observer.get()
    if observer is None:
        return
    with torch.random.fork_rng(devices=[points.device] if points.device.type == "cuda" else []):
        observer(points.detach())

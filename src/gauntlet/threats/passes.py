"""How often a model is asked about one image."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Passes:
    """Passes of a model per image.

    Attributes:
        forward: all forward passes, also those that a backward pass follows.
        backward: backward passes.

    >>> Passes(1) + 3 * Passes(1, 1)
    Passes(forward=4, backward=3)
    """

    forward: int = 0
    backward: int = 0

    def __add__(self, other: Passes) -> Passes:
        return Passes(self.forward + other.forward, self.backward + other.backward)

    def __rmul__(self, times: int) -> Passes:
        return Passes(times * self.forward, times * self.backward)

"""The views of an image's counts: one of the whole image, one per part of it, per trial or per attack of a battery."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto


class ViewKind(Enum):
    """What the views of counts are."""

    WHOLE = auto()
    """One view: all of the image."""
    REGION = auto()
    """Inside and outside the region a threat acted in, under the threat and clean."""
    CANDIDATES = auto()
    """One view per candidate of a battery: the clean image and every attack."""
    TRIALS = auto()
    """One view of the whole image per trial of a random model."""


@dataclass(frozen=True)
class Views:
    """The views of the counts of an evaluation, in their order; the same for all of its images.

    Attributes:
        kind: what they are.
        names: one per view; figures carry them.
    """

    kind: ViewKind
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    @classmethod
    def of_candidates(cls, names: Iterable[str]) -> Views:
        """One view per candidate of a battery."""
        return cls(ViewKind.CANDIDATES, tuple(names))

    @classmethod
    def of_trials(cls, count: int) -> Views:
        """One view per trial of a random model."""
        return cls(ViewKind.TRIALS, tuple(f"trial {trial}" for trial in range(count)))

    def to_json(self) -> list[str]:
        """The form that a store keeps: the names."""
        return list(self.names)

    @classmethod
    def from_json(cls, names: Iterable[str]) -> Views:
        """What `to_json` gave: names that are neither those of WHOLE, of REGION nor of trials are candidates."""
        names = tuple(names)
        known = (WHOLE, REGION, cls.of_trials(len(names)))
        return next((each for each in known if each.names == names), cls.of_candidates(names))


WHOLE = Views(ViewKind.WHOLE, ("all",))
REGION = Views(ViewKind.REGION, ("inside", "outside", "clean inside", "clean outside"))

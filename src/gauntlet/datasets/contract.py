"""What a dataset must be: an ordered, countable source of samples with a stable identity."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gauntlet.notebooks import facts_table
from gauntlet.numbers import counted, parse_count
from gauntlet.registry import import_target
from gauntlet.samples import Sample

if TYPE_CHECKING:
    from PIL.Image import Image

Color = tuple[int, int, int]


@dataclass(frozen=True)
class DatasetIdentity:
    """Which data this is: name, split, protocol (how images are sized) and a digest of the image ids, in order."""

    name: str
    split: str
    length: int
    ids_digest: str
    protocol: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "split": self.split,
            "length": self.length,
            "ids": self.ids_digest,
            "protocol": self.protocol,
        }


class Dataset(ABC):
    """An ordered source of samples.

    Attributes:
        name, split: what it is called.
        class_names: names of the K classes; label k means class_names[k].
        ignore_index: the label that counts for nothing, or None.
        background_index: the class that foreground-only figures leave out, or None.
        colors: one RGB colour per class, for pictures.
        box_class_names: names of the object classes when there are boxes, else empty.
        protocol: how images are resized or cropped, JSON-able.
        has_depth: whether every sample has depth.
        origin: the arguments with which `load_dataset` made it; None for a dataset of another making.
    """

    name: str
    split: str
    class_names: Sequence[str]
    ignore_index: int | None = 255
    background_index: int | None = None
    colors: Sequence[Color] = ()
    box_class_names: Sequence[str] = ()
    protocol: dict[str, Any] = {}  # noqa: RUF012 - replaced, never mutated
    has_depth: bool = False
    origin: Mapping[str, Any] | None = None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> Sample: ...

    @abstractmethod
    def ids(self) -> Sequence[str]:
        """The id of every sample, in order, without loading any."""

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def identity(self) -> DatasetIdentity:
        digest = hashlib.sha256(json.dumps(list(self.ids())).encode()).hexdigest()[:16]
        return DatasetIdentity(self.name, self.split, len(self), digest, dict(self.protocol))

    def subset(self, limit: int, *, spread: bool = False) -> Dataset:
        """`limit` samples, as a dataset with an identity of its own.

        Args:
            limit: how many at most.
            spread: at equal distances, for lists whose neighbours are alike (frames of a video); else the first ones.
        """
        return Subset(self, limit, spread=spread)

    def show(self, index: int = 0) -> Image:
        """A picture of a sample beside its label map and its objects; a notebook draws it, `.save(path)` keeps it."""
        picture: Image = import_target("gauntlet.pictures.showing:sample_picture")(self, index)
        return picture

    def __repr__(self) -> str:
        facts = [
            counted(len(self), "image"),
            counted(len(self.class_names), "class", "classes") if self.class_names else "",
            counted(len(self.box_class_names), "class of boxes", "classes of boxes") if self.box_class_names else "",
            "depth" if self.has_depth else "",
        ]
        return f"<{type(self).__name__} '{self.name}' {self.split}: {', '.join(fact for fact in facts if fact)}>"

    def _repr_html_(self) -> str:
        facts = {
            "split": self.split,
            "images": len(self),
            "classes": ", ".join(self.class_names),
            "classes of boxes": ", ".join(self.box_class_names),
            "depth": "yes" if self.has_depth else None,
            "protocol": ", ".join(f"{name}: {value}" for name, value in self.protocol.items()),
        }
        return facts_table(f"{type(self).__name__} '{self.name}'", facts)


class Subset(Dataset):
    """Some samples of another dataset: the first ones, or as many at equal distances."""

    def __init__(self, dataset: Dataset, limit: int, *, spread: bool = False) -> None:
        limit = parse_count(limit, "limit")
        self._dataset = dataset
        length = min(limit, len(dataset))
        self._positions = [index * len(dataset) // length for index in range(length)] if spread else range(length)
        self.name, self.split = dataset.name, dataset.split
        self.class_names, self.ignore_index = dataset.class_names, dataset.ignore_index
        self.background_index, self.colors = dataset.background_index, dataset.colors
        self.box_class_names, self.protocol = dataset.box_class_names, dataset.protocol
        self.has_depth = dataset.has_depth
        said = {"limit": length, **({"spread": True} if spread else {})}
        self.origin = None if dataset.origin is None else {**dataset.origin, **said}

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: int) -> Sample:
        return self._dataset[self._positions[index]]

    def ids(self) -> Sequence[str]:
        every = self._dataset.ids()
        return [every[position] for position in self._positions]

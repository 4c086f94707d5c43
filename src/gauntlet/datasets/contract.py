"""What a dataset must be: an ordered, countable source of samples with a stable identity."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gauntlet.datasets.contents import Contents, Told, meaning_digest, sample_digest
from gauntlet.notebooks import facts_table
from gauntlet.numbers import counted, parse_count
from gauntlet.registry import import_target
from gauntlet.samples import Sample

if TYPE_CHECKING:
    from PIL.Image import Image

Color = tuple[int, int, int]


@dataclass(frozen=True)
class DatasetIdentity:
    """Which data this is.

    Attributes:
        name, split: what it is called.
        length: number of images.
        ids_digest: of the image ids, in order.
        protocol: how images are resized or cropped.
        contents: digest of images, ground truth and classes (`datasets.contents`); "" where nobody recorded it.
        meaning: the part of `contents` that says what labels mean.
    """

    name: str
    split: str
    length: int
    ids_digest: str
    protocol: dict[str, Any] = field(default_factory=dict)
    contents: str = ""
    meaning: str = ""

    def as_dict(self) -> dict[str, Any]:
        """JSON-able; equal dictionaries mean equal data."""
        recorded = {"contents": self.contents, "meaning": self.meaning} if self.contents else {}
        return {
            "name": self.name,
            "split": self.split,
            "length": self.length,
            "ids": self.ids_digest,
            "protocol": self.protocol,
            **recorded,
        }


_OF_CLASSES = frozenset({"class_names", "box_class_names", "colors", "ignore_index", "background_index"})
"""Attributes of a dataset that a user may give as NumPy has them."""


def _plain(value: Any) -> Any:
    """A NumPy array as a list and a NumPy number as Python's; anything else as it is."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


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
        trusted: True where the contents of files are not read to identify them; results say so.
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
    trusted: bool = False

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        for name in _OF_CLASSES & vars(cls).keys():
            setattr(cls, name, _plain(vars(cls)[name]))

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, _plain(value) if name in _OF_CLASSES else value)

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
        """Name, split, ids, protocol and contents; reads every file that has changed since it was read last."""
        return self.identify(self.contents())

    def identify(self, contents: Contents) -> DatasetIdentity:
        """The identity for contents that were read before."""
        ids = hashlib.sha256(json.dumps(list(self.ids())).encode()).hexdigest()[:16]
        protocol = dict(self.protocol)
        return DatasetIdentity(self.name, self.split, len(self), ids, protocol, contents.digest, contents.meaning)

    def contents(self, told: Told | None = None) -> Contents:
        """Digests of all images with their ground truth, and of what labels mean.

        Args:
            told: told how many files of those to be read have been read.
        """
        if self.trusted:
            return Contents(("",) * len(self), self.meaning(), trusted=True)
        return Contents(tuple(self.image_digests(range(len(self)), told)), self.meaning())

    def meaning(self) -> str:
        """Digest of what labels mean: class names, colours, void."""
        names = ("class_names", "box_class_names", "colors", "ignore_index", "background_index")
        return meaning_digest({name: getattr(self, name) for name in names})

    def image_digests(
        self, positions: Sequence[int], told: Told | None = None, samples: Sequence[Sample] | None = None
    ) -> list[str]:
        """Digest of the image and the ground truth at every position.

        A class of another package that changes what a class of ours reads is digested by its decoded samples, unless
        it has `source_digests` of its own.

        Args:
            positions: of the images.
            told: see `contents`.
            samples: the samples at the positions where they are loaded already.
        """
        for kind in type(self).__mro__:
            if "source_digests" in vars(kind):
                found: list[str] = kind.source_digests(self, positions, told, samples)  # type: ignore[attr-defined]
                return found
            if kind.__module__.partition(".")[0] != __name__.partition(".")[0]:
                break
        return Dataset.source_digests(self, positions, told, samples)

    def source_digests(
        self, positions: Sequence[int], told: Told | None = None, samples: Sequence[Sample] | None = None
    ) -> list[str]:
        """Digest of what every sample is read from: here the decoded sample itself.

        A dataset whose files tell without decoding them overrides this.
        """
        digests = []
        for number, position in enumerate(positions):
            digests.append(sample_digest(self[position] if samples is None else samples[number]))
            if told is not None:
                told(number + 1, len(positions))
        return digests

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
        self.has_depth, self.trusted = dataset.has_depth, dataset.trusted
        self.origin = _origin_of_subset(dataset, length, spread)

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: int) -> Sample:
        return self._dataset[self._positions[index]]

    def ids(self) -> Sequence[str]:
        every = self._dataset.ids()
        return [every[position] for position in self._positions]

    def source_digests(
        self, positions: Sequence[int], told: Told | None = None, samples: Sequence[Sample] | None = None
    ) -> list[str]:
        return self._dataset.image_digests([self._positions[position] for position in positions], told, samples)


def _origin_of_subset(dataset: Dataset, length: int, spread: bool) -> Mapping[str, Any] | None:
    """Arguments that make a subset; None for a part of spread images or the reverse, which no arguments make."""
    origin = dataset.origin
    if origin is None:
        return None
    if length == len(dataset):
        return {**origin, "limit": length}
    if "limit" in origin and (spread or origin.get("spread")):
        return None
    return {**origin, "limit": length, **({"spread": True} if spread else {})}

"""Datasets that are image files in a folder, with a label image or boxes for each."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gauntlet.datasets.contents import Told, file_digests, text_digest
from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.images import is_turned, read_image, read_indices
from gauntlet.datasets.label_numbers import LabelTable
from gauntlet.datasets.tree import Tree, check_files_exist
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.samples import Boxes, Sample


@dataclass(frozen=True)
class Entry:
    """One image of a dataset and where its files are, relative to the root.

    Attributes:
        id: unique in the dataset.
        image: the image file.
        labels: the file of its ground truth, or None where the annotations are elsewhere.
    """

    id: str
    image: str
    labels: str | None = None


class ImageFiles(Dataset):
    """Images in a folder.

    Args:
        tree: the folder.
        split: which part of the dataset.
        entries: the images, in order.
        convert: whether greyscale, palette and transparent images are turned into RGB, None: with a note; else they
            are an error.

    Attributes:
        lengths: how many images each published split has, for `gauntlet data check`.
        splits: the names of the splits that have ground truth.
        folder: the sub-folder of $GAUNTLET_DATA that is looked up when no root is given; the name by default.
    """

    lengths: ClassVar[Mapping[str, int]] = {}
    splits: ClassVar[tuple[str, ...]] = ()
    folder: ClassVar[str | None] = None

    def __init__(self, tree: Tree, split: str, entries: Sequence[Entry], *, convert: bool | None) -> None:
        self.split = split
        self.tree = tree
        self.convert = convert
        self._entries = list(entries)
        if not self._entries:
            raise GauntletError(f"the split '{split}' of the dataset '{self.name}' in '{tree.root}' has no images.")
        self._check_ids()

    def __len__(self) -> int:
        return len(self._entries)

    def ids(self) -> Sequence[str]:
        return [entry.id for entry in self._entries]

    def __getitem__(self, index: int) -> Sample:
        entry = self._entries[index]
        image = read_image(self.tree.path(entry.image), convert=self.convert)
        self.check_size(entry, image.shape[0], image.shape[1])
        return Sample(entry.id, image, **self.ground_truth(entry))

    def is_turned(self, index: int) -> bool:
        """True if a camera's tag tells viewers to turn an image; its pixels are read as stored."""
        return is_turned(self.tree.path(self._entries[index].image))

    def without_image(self) -> list[str]:
        """Label files that no image has, for `gauntlet data check`; most datasets do not look."""
        return []

    @abstractmethod
    def ground_truth(self, entry: Entry) -> dict[str, Any]:
        """What is known of an image: the fields of its Sample apart from id and image."""

    def check_size(self, entry: Entry, height: int, width: int) -> None:
        """An error where the annotations of an image are for another size than the file's; most say none."""

    def source_digests(
        self, positions: Sequence[int], told: Told | None = None, samples: Sequence[Sample] | None = None
    ) -> list[str]:
        """Of the bytes of the image file and of the ground truth, without decoding anything."""
        entries = [self._entries[position] for position in positions]
        names = [[name for name in (entry.image, entry.labels) if name is not None] for entry in entries]
        digests = iter(file_digests([self.tree.path(name) for each in names for name in each], told))
        return [
            text_digest(*(next(digests) for _ in each), self.described(entry))
            for entry, each in zip(entries, names, strict=True)
        ]

    def described(self, entry: Entry) -> str:
        """Digest of the ground truth of an image that stands in no file of its own; "" by default."""
        return ""

    def content_digest(self) -> str:
        """A digest of the sizes of all files, for data without a published identity: equal ids, other files."""
        digest = hashlib.sha256()
        for entry in self._entries:
            for relative in (entry.image, entry.labels):
                if relative is not None:
                    digest.update(f"{relative}|{self.tree.path(relative).stat().st_size}|".encode())
        return digest.hexdigest()[:16]

    def _check_ids(self) -> None:
        seen: set[str] = set()
        for entry in self._entries:
            if entry.id in seen:
                raise GauntletError(
                    f"the dataset '{self.name}' in '{self.tree.root}' has two images with the id '{entry.id}'; "
                    "ids must be unique."
                )
            seen.add(entry.id)


class LabelledImages(ImageFiles):
    """Images with a label image each.

    Attributes:
        table: what the values in the label files mean.
    """

    table: LabelTable

    def ground_truth(self, entry: Entry) -> dict[str, Any]:
        assert entry.labels is not None
        path = self.tree.path(entry.labels)
        return {"labels": self.table.apply(self.read_labels(path), path)}

    def read_labels(self, path: Path) -> npt.NDArray[np.integer]:
        """The values that a label file stores, (H, W)."""
        return read_indices(path)


class BoxedImages(ImageFiles):
    """Images with objects."""

    def ground_truth(self, entry: Entry) -> dict[str, Any]:
        return {"boxes": self.read_boxes(entry)}

    @abstractmethod
    def read_boxes(self, entry: Entry) -> Boxes:
        """The objects of an image."""


def other_size(path: Path, stored: tuple[int, int], annotated: tuple[int, int], where: str) -> GauntletError:
    """The error for an image whose annotations are for another size.

    Args:
        path: the image file.
        stored: its height and width.
        annotated: height and width that the annotation says.
        where: the annotation, for the message.
    """
    turned = stored == annotated[::-1] and is_turned(path)
    reason = "its camera tag (EXIF) turns it; save it turned, without the tag" if turned else "correct either of them"
    return GauntletError(
        f"the image '{path}' has {stored[1]}x{stored[0]} pixels (width x height), and {where} says "
        f"{annotated[1]}x{annotated[0]}, so its boxes would be wrong; {reason}."
    )


def check_split(dataset: str, split: str, known: Sequence[str]) -> None:
    """An error for a split that the dataset does not have, or has without ground truth."""
    if split not in known:
        raise unknown_name(f"split of the dataset '{dataset}'", split, known)


def pair_by_name(
    tree: Tree,
    *,
    images: str,
    image_suffix: str,
    labels: str,
    label_suffix: str,
    prefix: str = "",
) -> list[Entry]:
    """Entries for every image below a folder, each with the label file of the same name in a parallel folder.

    Args:
        tree: the dataset's folder.
        images: folder of the images.
        image_suffix: how the name of an image ends ("_leftImg8bit.png").
        labels: folder of the label files, with the same sub-folders.
        label_suffix: what stands in its place in the name of the label file ("_gtFine_labelIds.png").
        prefix: put before the name of the file to make its id.
    """
    paths = tree.files(images, image_suffix)
    if not paths:
        raise tree.wrong_layout([f"{images}/**/*{image_suffix}"], instead=f"{tree.summary(images)} in '{images}'")
    stems = [path[len(images) + 1 : -len(image_suffix)] for path in paths]
    entries = [
        Entry(prefix + stem.rpartition("/")[2], image, f"{labels}/{stem}{label_suffix}")
        for stem, image in zip(stems, paths, strict=True)
    ]
    wanted = [entry.labels for entry in entries if entry.labels is not None]
    check_files_exist(tree, wanted, tree.files(labels, label_suffix), "label files")
    return entries

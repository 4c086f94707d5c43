"""Datasets of the Hugging Face hub, or saved by its library: an image column, and label images or objects."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.images import note_conversion
from gauntlet.datasets.label_numbers import IGNORE, LabelTable, parse_class_names
from gauntlet.datasets.palettes import voc_palette
from gauntlet.errors import GauntletError
from gauntlet.samples import Boxes, Sample

IMAGE_COLUMNS = ("image", "pixel_values", "img")
LABEL_COLUMNS = ("label", "annotation", "mask", "semantic_mask", "segmentation", "labels")
OBJECT_COLUMN = "objects"


class HuggingFace(Dataset):
    """A dataset of the hub, by name, or a local folder made by `save_to_disk`.

    Only data is loaded: a dataset that needs code of its own to be run is refused by the library.

    Args:
        root: "owner/name" on the hub, or a local folder.
        split: as the dataset calls it.
        image: name of the image column; by default the first of "image", "pixel_values", "img".
        labels: name of the column with label images; by default the first of "label", "annotation", "mask", ... that
            is there. A column "objects" with "bbox" (x, y, width, height) and "category" gives boxes.
        classes: names of the classes, or their number; needed for label images, taken from the dataset for objects.
        ignore_index: the value in label images that counts for nothing; 255 by default, 65535 where 255 is a class.
        reduce_zero_label: 0 in label images counts for nothing as well, and 1, 2, ... become 0, 1, ...
        revision: a commit or tag on the hub; part of the identity.
        config: which configuration of the dataset.
        convert: turn greyscale and transparent images into RGB, None: with a note; False makes them an error.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "validation",
        *,
        image: str | None = None,
        labels: str | None = None,
        classes: Sequence[str] | int | str | None = None,
        ignore_index: int | None = None,
        reduce_zero_label: bool = False,
        revision: str | None = None,
        config: str | None = None,
        convert: bool | None = None,
    ) -> None:
        self.name = f"hf:{Path(root).name if Path(root).is_dir() else root}"
        self.split = split
        self._rows = _load(str(root), split, revision, config)
        columns = list(self._rows.column_names)
        self._image = _column(self.name, columns, image, IMAGE_COLUMNS, "images")
        self._convert = convert
        self._objects = labels is None and OBJECT_COLUMN in columns
        if self._objects:
            self.ignore_index = None
            self.class_names = self.box_class_names = _object_classes(self.name, self._rows.features, classes)
        else:
            self._labels = _column(self.name, columns, labels, LABEL_COLUMNS, "label images")
            if classes is None:
                raise _without_classes(self.name)
            self.class_names = parse_class_names(classes, f"the dataset '{self.name}'")
            self._table = LabelTable.plain(
                len(self.class_names), ignore_index=ignore_index, reduce_zero_label=reduce_zero_label
            )
            self.ignore_index = self._table.void
        self.colors = voc_palette(len(self.class_names))
        settings: dict[str, Any] = {"revision": revision, "config": config, "reduce_zero": reduce_zero_label or None}
        if not self._objects and self._table.void != (IGNORE if ignore_index is None else ignore_index):
            settings["void"] = self._table.void
        self.protocol = {key: value for key, value in settings.items() if value is not None}

    def __len__(self) -> int:
        return len(self._rows)

    def ids(self) -> Sequence[str]:
        return [f"{index:06d}" for index in range(len(self))]

    def __getitem__(self, index: int) -> Sample:
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        row = self._rows[index]
        image_id = f"{index:06d}"
        image = self._pixels(row[self._image], image_id)
        if self._objects:
            return Sample(image_id, image, boxes=self._boxes(row[OBJECT_COLUMN], image_id))
        where = Path(f"{self.name}/{self.split}/{image_id}")
        stored = np.asarray(row[self._labels])
        if stored.ndim != 2:
            raise GauntletError(f"the label image of '{where}' has the shape {stored.shape}; expected (H, W).")
        return Sample(image_id, image, labels=self._table.apply(stored, where))

    def _pixels(self, value: Any, image_id: str) -> npt.NDArray[np.uint8]:
        if not isinstance(value, Image.Image):
            raise GauntletError(
                f"the column '{self._image}' of the dataset '{self.name}' holds {type(value).__name__}; "
                "expected images."
            )
        if value.mode != "RGB" and self._convert is None:
            note_conversion(self.name, value.mode)
        if value.mode != "RGB" and self._convert is False:
            raise GauntletError(
                f"the image {image_id} of the dataset '{self.name}' has the mode {value.mode}, not RGB; load the "
                "dataset with convert=True."
            )
        return np.array(value.convert("RGB"))

    def _boxes(self, objects: Mapping[str, Any], image_id: str) -> Boxes:
        corners = np.array(objects["bbox"], dtype=np.float32).reshape(-1, 4)
        corners[:, 2:] += corners[:, :2]
        classes = np.array(objects["category"], dtype=np.int64)
        if classes.size and not (classes.min() >= 0 and classes.max() < len(self.class_names)):
            raise GauntletError(
                f"the image {image_id} of the dataset '{self.name}' has an object of the class {classes.max()}; "
                f"expected 0 to {len(self.class_names) - 1}."
            )
        return Boxes(corners, classes)


def _load(name: str, split: str, revision: str | None, config: str | None) -> Any:
    try:
        library: Any = importlib.import_module("datasets")
    except ImportError:
        library = None
    # A folder called "datasets" in the working directory imports as an empty package.
    if not hasattr(library, "load_dataset"):
        raise GauntletError(
            "datasets of the Hugging Face hub need the package 'datasets'; install it with 'pip install datasets'."
        )
    try:
        if not Path(name).is_dir():
            return library.load_dataset(name, config, split=split, revision=revision)
        saved = library.load_from_disk(name)
    # The library raises errors of a dozen types of its own and of its dependencies; all mean the same to the user.
    except Exception as error:
        raise GauntletError(
            f"the split '{split}' of the Hugging Face dataset '{name}' could not be loaded: "
            f"{str(error).splitlines()[0] if str(error) else type(error).__name__}."
        ) from error
    if isinstance(saved, Mapping):
        if split not in saved:
            raise GauntletError(f"the dataset '{name}' has no split '{split}'; it has {', '.join(saved)}.")
        return saved[split]
    return saved


def _column(name: str, columns: Sequence[str], given: str | None, usual: Sequence[str], what: str) -> str:
    for candidate in usual if given is None else (given,):
        if candidate in columns:
            return candidate
    expected = f"'{given}'" if given is not None else "one of " + ", ".join(usual)
    raise GauntletError(
        f"the dataset '{name}' has no column of {what}: expected {expected}, found {', '.join(columns)}."
    )


def _object_classes(
    name: str, features: Mapping[str, Any], classes: Sequence[str] | int | str | None
) -> tuple[str, ...]:
    if classes is not None:
        return parse_class_names(classes, f"the dataset '{name}'")
    objects = features[OBJECT_COLUMN]
    # Older versions of the library wrap a mapping of lists; newer ones list the mapping.
    category = getattr(objects, "feature", objects)
    category = category["category"] if isinstance(category, Mapping) else None
    names = getattr(getattr(category, "feature", category), "names", None)
    if names is None:
        raise _without_classes(name)
    return tuple(str(each) for each in names)


def _without_classes(name: str) -> GauntletError:
    return GauntletError(
        f"the dataset '{name}' does not say what its labels mean; give classes, their names or their number."
    )

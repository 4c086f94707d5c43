"""A folder of one's own: images, masks, and an optional file that names the classes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.datasets.contract import Color
from gauntlet.datasets.image_files import Entry, LabelledImages
from gauntlet.datasets.images import color_mode, read_colors, read_indices
from gauntlet.datasets.label_numbers import IGNORE, LabelTable, parse_class_names
from gauntlet.datasets.palettes import voc_palette
from gauntlet.datasets.tree import IMAGE_SUFFIXES, Tree, check_files_exist
from gauntlet.errors import GauntletError

CLASS_FILES = ("classes.txt", "classes.json")
WHOLE = "all"
"""What results call the split of a folder without splits."""
MASK_FOLDERS = ("masks", "labels", "annotations")
MASK_SUFFIXES = (".png", ".bmp", ".tif", ".tiff")

_IGNORED_NAME = "ignore"


@dataclass(frozen=True)
class ClassList:
    """The classes of a folder.

    Attributes:
        names: one per class.
        colors: one per class where the file gives them, else empty.
        ignored: colours in masks that count for nothing (the lines called "ignore").
    """

    names: tuple[str, ...]
    colors: tuple[Color, ...] = ()
    ignored: tuple[Color, ...] = ()


class Folder(LabelledImages):
    """Images with masks: `images/NAME.jpg`, `masks/NAME.png`, `classes.txt`.

    Masks hold class indices (grey or palette), or colours where the class file gives a colour for every class. Splits
    are sub-folders: `images/SPLIT` and `masks/SPLIT`, or `SPLIT/images` and `SPLIT/masks`.

    Args:
        root: the folder.
        split: a sub-folder, or None for everything.
        classes: names of the classes, or their number; by default the class file, else as many as the masks use.
        ignore_index: the value in the masks that counts for nothing.
        reduce_zero_label: 0 in the masks counts for nothing as well, and 1, 2, ... become 0, 1, ...
        background_index: the class that foreground-only figures leave out.
        convert: see `ImageFiles`; with a note by default.
    """

    def __init__(
        self,
        root: str | Path,
        split: str | None = None,
        *,
        classes: Sequence[str] | int | str | None = None,
        ignore_index: int = IGNORE,
        reduce_zero_label: bool = False,
        background_index: int | None = None,
        convert: bool | None = None,
    ) -> None:
        tree = Tree("folder", root)
        self.name = f"folder:{tree.root.resolve().name}"
        entries = _entries(tree, split)
        listed = _class_list(tree) if classes is None else None
        first = entries[0].labels
        assert first is not None
        self._colored = color_mode(tree.path(first)) in ("RGB", "RGBA")
        if self._colored and (listed is None or not listed.colors):
            raise GauntletError(
                f"the mask '{tree.root / first}' is a colour image; expected class indices, or a class file with a "
                "colour for every class ('NAME R G B' a line in classes.txt)."
            )
        if self._colored and reduce_zero_label:
            raise GauntletError("reduce_zero_label is for masks with class indices; these masks are colour images.")
        super().__init__(tree, split or WHOLE, entries, convert=convert)
        self.ignore_index = ignore_index
        self._stored_colors = _stored_colors(listed, ignore_index) if listed is not None and self._colored else {}
        if listed is not None:
            names = listed.names
        else:
            given = self._largest_value() + 1 - int(reduce_zero_label) if classes is None else classes
            names = parse_class_names(given, f"the folder '{tree.root}'")
        self.class_names = names
        self.colors = listed.colors if listed is not None and listed.colors else voc_palette(len(names))
        self.background_index = background_index
        self.table = LabelTable.plain(len(names), ignore_index=ignore_index, reduce_zero_label=reduce_zero_label)
        labels = {"classes": len(names), "ignore": ignore_index, "reduce_zero": reduce_zero_label}
        self.protocol = {"content": self.content_digest(), "labels": labels}

    def read_labels(self, path: Path) -> npt.NDArray[np.integer]:
        if not self._colored:
            return read_indices(path)
        stored = read_colors(path)
        known = np.array(sorted(self._stored_colors), dtype=np.int32)
        place = np.minimum(np.searchsorted(known, stored), len(known) - 1)
        unknown = stored[known[place] != stored]
        if unknown.size:
            red, green, blue = (int(unknown.flat[0]) >> shift & 255 for shift in (16, 8, 0))
            raise GauntletError(
                f"the label file '{path}' holds the colour ({red}, {green}, {blue}), which the class file does not "
                f"name; add the class, or a line '{_IGNORED_NAME} {red} {green} {blue}'."
            )
        return np.array([self._stored_colors[int(color)] for color in known], dtype=np.int32)[place]

    def _largest_value(self) -> int:
        largest = -1
        for entry in self._entries:
            assert entry.labels is not None
            stored = read_indices(self.tree.path(entry.labels))
            counted = stored[stored != self.ignore_index]
            largest = max(largest, int(counted.max()) if counted.size else -1)
        return largest


def _entries(tree: Tree, split: str | None) -> list[Entry]:
    images, masks = _folders(tree, split)
    paths = tree.files(images, IMAGE_SUFFIXES)
    if not paths:
        raise tree.wrong_layout([f"{images}/*.jpg (or .png, ...)"], instead=f"{tree.summary(images)} in '{images}'")
    stems = [str(PurePosixPath(path).relative_to(images).with_suffix("")) for path in paths]
    available = tree.files(masks, MASK_SUFFIXES)
    mask_of = {str(PurePosixPath(path).relative_to(masks).with_suffix("")): path for path in available}
    entries = [
        Entry(stem, image, mask_of.get(stem, f"{masks}/{stem}.png")) for stem, image in zip(stems, paths, strict=True)
    ]
    check_files_exist(tree, [entry.labels or "" for entry in entries], available, "masks")
    return entries


def _folders(tree: Tree, split: str | None) -> tuple[str, str]:
    if split == WHOLE and not tree.has(f"images/{WHOLE}") and not tree.has(WHOLE):
        split = None  # what results call a folder without splits
    pairs = [("images", masks) for masks in MASK_FOLDERS]
    if split is not None:
        pairs = [
            pair
            for images, masks in pairs
            for pair in ((f"{images}/{split}", f"{masks}/{split}"), (f"{split}/{images}", f"{split}/{masks}"))
        ]
    for images, masks in pairs:
        if tree.has(images, masks):
            return images, masks
    raise tree.wrong_layout(pairs[0])


def _class_list(tree: Tree) -> ClassList | None:
    for name in CLASS_FILES:
        if tree.has(name):
            rows = _text_rows(tree, name) if name.endswith(".txt") else _json_rows(tree, name)
            return _as_class_list(rows, str(tree.root / name))
    return None


def _text_rows(tree: Tree, name: str) -> list[tuple[str, Color | None]]:
    rows: list[tuple[str, Color | None]] = []
    for line in tree.lines(name):
        match = re.fullmatch(r"(.*\S)[\s,;]+(\d{1,3})[\s,;]+(\d{1,3})[\s,;]+(\d{1,3})", line)
        if match is None:
            rows.append((line, None))
        else:
            rows.append((match[1].rstrip(",;"), (int(match[2]), int(match[3]), int(match[4]))))
    return rows


def _json_rows(tree: Tree, name: str) -> list[tuple[str, Color | None]]:
    path = tree.path(name)
    expected = 'expected a list of names, or of {"name": ..., "color": [r, g, b]}'
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise GauntletError(f"the class file '{path}' cannot be read as JSON: {error}.") from error
    if not isinstance(content, list):
        raise GauntletError(f"the class file '{path}' holds a {type(content).__name__}; {expected}.")
    return [_json_row(row, path, expected) for row in content]


def _json_row(row: Any, path: Path, expected: str) -> tuple[str, Color | None]:
    if isinstance(row, str):
        return row, None
    color = row.get("color") if isinstance(row, Mapping) else None
    if not isinstance(row, Mapping) or "name" not in row or (color is not None and len(color) != 3):
        raise GauntletError(f"the class file '{path}' has the entry {row!r}; {expected}.")
    return str(row["name"]), None if color is None else (int(color[0]), int(color[1]), int(color[2]))


def _as_class_list(rows: Sequence[tuple[str, Color | None]], path: str) -> ClassList:
    classes = [(name, color) for name, color in rows if name.lower() != _IGNORED_NAME]
    names = tuple(name for name, _ in classes)
    colors = tuple(color for _, color in classes if color is not None)
    ignored = tuple(color for name, color in rows if name.lower() == _IGNORED_NAME and color is not None)
    if not names or len(set(names)) != len(names):
        raise GauntletError(f"the class file '{path}' must name at least one class, and each one once.")
    used = [*colors, *ignored]
    if (colors and len(colors) != len(names)) or len(set(used)) != len(used) or any(max(c) > 255 for c in used):
        raise GauntletError(
            f"the class file '{path}' must give every class a colour of its own, from 0 to 255, or none a colour."
        )
    return ClassList(names, colors, ignored)


def _stored_colors(listed: ClassList, ignore_index: int) -> dict[int, int]:
    def number(color: Color) -> int:
        return (color[0] << 16) | (color[1] << 8) | color[2]

    classes = {number(color): index for index, color in enumerate(listed.colors)}
    return classes | {number(color): ignore_index for color in listed.ignored}

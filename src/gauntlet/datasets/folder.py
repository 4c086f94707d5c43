"""A folder of one's own: images, masks, and an optional file that names the classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from gauntlet.class_numbers import WIDE_VOID
from gauntlet.datasets.class_files import ClassList, read_class_list
from gauntlet.datasets.doubts import spread
from gauntlet.datasets.image_files import Entry, LabelledImages
from gauntlet.datasets.images import color_mode
from gauntlet.datasets.label_numbers import IGNORE, LabelTable, parse_class_names
from gauntlet.datasets.mask_files import (
    COLOR_MODES,
    INDICES,
    READINGS,
    MaskReader,
    choose_reading,
    class_of_color,
    no_colors,
    values_of,
)
from gauntlet.datasets.palettes import voc_palette
from gauntlet.datasets.tree import IMAGE_SUFFIXES, Tree, check_files_exist
from gauntlet.errors import GauntletError

WHOLE = "all"
"""What results call the split of a folder without splits."""
MASK_FOLDERS = ("masks", "labels", "annotations")
MASK_SUFFIXES = (".png", ".bmp", ".tif", ".tiff", ".gif")
BINARY_NAMES = ("background", "foreground")

_LOOKED_AT = 16
"""Masks that are read when a folder is opened, to see of what kind they are."""


class Folder(LabelledImages):
    """Images with masks: `images/NAME.jpg`, `masks/NAME.png`, `classes.txt`.

    Masks hold class numbers (grey or palette), or colours where the class file gives a colour for every class; every
    file is read by what it is (the table in docs/datasets.md). Splits are sub-folders: `images/SPLIT` and
    `masks/SPLIT`, or `SPLIT/images` and `SPLIT/masks`.

    Args:
        root: the folder.
        split: a sub-folder, or None for everything.
        classes: names of the classes, or their number; by default the class file, else as many as the masks use.
        ignore_index: the value in the masks that counts for nothing; 255 by default, 65535 where 255 is a class.
            The label of void is this value where it is outside the classes, else 255 or 65535.
        reduce_zero_label: 0 in the masks counts for nothing as well, and 1, 2, ... become 0, 1, ...
        background_index: the class that foreground-only figures leave out.
        binary: True for two classes in masks of 0 and 255 (black and white) or of 0 and 1; False where 255 in such
            masks counts for nothing; None makes masks that hold only 0 and 255 an error that asks.
        masks: "indices" or "colors": how greyscale and palette masks are read where the class file has colours; None
            decides by what they hold.
        convert: see `ImageFiles`; with a note by default.
    """

    def __init__(
        self,
        root: str | Path,
        split: str | None = None,
        *,
        classes: Sequence[str] | int | str | None = None,
        ignore_index: int | None = None,
        reduce_zero_label: bool = False,
        background_index: int | None = None,
        binary: bool | None = None,
        masks: str | None = None,
        convert: bool | None = None,
    ) -> None:
        if masks is not None and masks not in READINGS:
            raise GauntletError(f"masks must be one of {', '.join(READINGS)}, not '{masks}'.")
        tree = Tree("folder", root)
        self.name = f"folder:{tree.root.resolve().name}"
        super().__init__(tree, split or WHOLE, _entries(tree, split), convert=convert)
        self.background_index = background_index
        self._mask_folder = _folders(tree, split)[1]
        listed = read_class_list(tree) if classes is None else None
        ignored = (0,) if reduce_zero_label else () if listed is None else listed.ignored_values
        looked_at = self._spread_masks()
        colored = next((path for path in looked_at if color_mode(path) in COLOR_MODES), None)
        if colored is not None and not binary:
            if listed is None or not (listed.colors or listed.ignored):
                raise no_colors(colored)
            if reduce_zero_label:
                raise GauntletError("reduce_zero_label is for masks with class indices; these masks are colour images.")
        given = classes if listed is None else listed.names
        if given is None:
            given = BINARY_NAMES if binary else self._counted(ignored, ignore_index, asks=binary is None)
        self.class_names = parse_class_names(given, f"the folder '{tree.root}'")
        if binary and self.num_classes != 2:
            raise GauntletError(f"binary=True is for two classes; the folder '{tree.root}' has {self.num_classes}.")
        self.colors = listed.colors if listed is not None and listed.colors else voc_palette(self.num_classes)
        self.table = LabelTable.plain(self.num_classes, ignore_index=ignore_index, ignored=ignored)
        self.ignore_index = self.table.void
        colors = {} if binary else class_of_color(listed, self.table.void)
        reader = MaskReader(self.table, colors, settled=masks is not None, binary=bool(binary))
        reading = masks or choose_reading(reader, looked_at)
        self.reader = MaskReader(self.table, colors, reading, settled=reader.settled, binary=reader.binary)
        if reading == INDICES and not binary:
            self._check_numbers(looked_at, listed, ignored, asks=binary is None, zero_said=reduce_zero_label)
        said = self.table.void if ignore_index is None else ignore_index
        labels: dict[str, Any] = {"classes": self.num_classes, "ignore": said, "reduce_zero": reduce_zero_label}
        if said != self.table.void:
            labels["void"] = self.table.void
        if binary:
            labels["binary"] = True
        elif ignored and not reduce_zero_label:
            labels["ignored_values"] = list(ignored)
        if any(color_mode(path) not in COLOR_MODES for path in looked_at if colors):
            labels["masks"] = reading
        self.protocol = {"content": self.content_digest(), "labels": labels}

    def ground_truth(self, entry: Entry) -> dict[str, Any]:
        assert entry.labels is not None
        return {"labels": self.reader.labels(self.tree.path(entry.labels))}

    def without_image(self) -> list[str]:
        used = {entry.labels for entry in self._entries}
        return [path for path in self.tree.files(self._mask_folder, MASK_SUFFIXES) if path not in used]

    def _masks(self) -> list[Path]:
        return [self.tree.path(entry.labels) for entry in self._entries if entry.labels is not None]

    def _spread_masks(self) -> list[Path]:
        """At most `_LOOKED_AT` masks at equal distances."""
        chosen = (self._entries[index].labels for index in spread(len(self._entries), _LOOKED_AT))
        return [self.tree.path(labels) for labels in chosen if labels is not None]

    def _counted(self, ignored: Sequence[int], ignore_index: int | None, *, asks: bool) -> int:
        """How many classes the values in all masks stand for."""
        values = set().union(*(values_of(path) for path in self._masks()))
        if asks:
            self._ask_if_binary(values, ignore_index)
        void = {IGNORE, WIDE_VOID} if ignore_index is None else {ignore_index}
        largest = max(values - void, default=-1)
        return largest + 1 - sum(value <= largest for value in ignored)

    def _check_numbers(
        self,
        looked_at: Iterable[Path],
        listed: ClassList | None,
        ignored: Sequence[int],
        *,
        asks: bool,
        zero_said: bool,
    ) -> None:
        """Raise an error if masks can be read in two ways: values 0 and 255, or a class file that starts with void."""
        binary = asks and self.num_classes <= 2
        first = listed is not None and 0 in listed.ignored_values and not zero_said
        values = set().union(*(values_of(path) for path in looked_at)) if binary or first else set()
        if binary:
            self._ask_if_binary(values, self.ignore_index)
        if first and self.num_classes - 1 + len(ignored) not in values:
            raise GauntletError(
                f"the class file of '{self.tree.root}' starts with a line 'ignore', and no mask that was looked at "
                "tells what 0 is: say reduce_zero_label=True where 0 counts for nothing, or move the line to the end "
                "where 0 is the first class."
            )

    def _ask_if_binary(self, values: set[int], ignore_index: int | None) -> None:
        if ignore_index in (None, IGNORE) and IGNORE in values and values <= {0, IGNORE}:
            raise GauntletError(
                f"the masks in '{self.tree.root}' hold only 0 and 255, which is either two classes (say binary=True) "
                "or one class with pixels that count for nothing (say binary=False)."
            )


def _entries(tree: Tree, split: str | None) -> list[Entry]:
    images, masks = _folders(tree, split)
    paths = tree.files(images, IMAGE_SUFFIXES)
    available = tree.files(masks, MASK_SUFFIXES)
    stem_of = {path: _stem(path, masks) for path in available}
    twice = [stem for stem, count in Counter(stem_of.values()).items() if count > 1]
    if twice:
        first, second = [path for path, stem in stem_of.items() if stem == twice[0]][:2]
        raise GauntletError(f"'{tree.root}' has two masks for '{twice[0]}': '{first}' and '{second}'; remove one.")
    mask_of = {stem: path for path, stem in stem_of.items()}
    unread = [path for path in tree.files(images, "") if path not in set(paths) and _stem(path, images) in mask_of]
    if unread:
        raise GauntletError(
            f"{len(unread)} images of '{tree.root}' have a mask and a format that is not read, the first one is "
            f"'{unread[0]}'; expected {', '.join(IMAGE_SUFFIXES)}: convert them, or remove their masks and them."
        )
    if not paths:
        raise tree.wrong_layout([f"{images}/*.jpg (or .png, ...)"], instead=f"{tree.summary(images)} in '{images}'")
    stems = [_stem(path, images) for path in paths]
    entries = [
        Entry(stem, image, mask_of.get(stem, f"{masks}/{stem}.png")) for stem, image in zip(stems, paths, strict=True)
    ]
    check_files_exist(tree, [entry.labels or "" for entry in entries], available, "masks")
    return entries


def _stem(path: str, folder: str) -> str:
    """The path of a file in a folder, without its ending."""
    return str(PurePosixPath(path).relative_to(folder).with_suffix(""))


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

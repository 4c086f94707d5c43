"""Mask files as labels: class numbers, the colours of a class file, or black and white."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gauntlet.datasets.class_files import IGNORED_NAME, ClassList
from gauntlet.datasets.contract import Color
from gauntlet.datasets.images import color_mode, read_colors, read_indices
from gauntlet.datasets.label_numbers import LabelTable
from gauntlet.errors import GauntletError

INDICES, COLORS = "indices", "colors"
READINGS = (INDICES, COLORS)
"""Contents of greyscale and palette masks: class numbers, or the colours of the class file."""
COLOR_MODES = ("RGB", "RGBA")
BLACK, WHITE = 0, 0xFFFFFF

Labels = npt.NDArray[np.integer]


@dataclass(frozen=True)
class MaskReader:
    """Labels of mask files, each file read by what it is.

    Attributes:
        table: class of every number in index masks.
        colors: class of every colour (65536 R + 256 G + B) of the class file; empty where it has none.
        reading: how greyscale and palette masks are read.
        settled: True where the user said how; else a mask that only has the other reading is an error.
        binary: True where masks hold two classes in black and white, or 0 and 1.
    """

    table: LabelTable
    colors: Mapping[int, int]
    reading: str = INDICES
    settled: bool = False
    binary: bool = False

    def labels(self, path: Path) -> Labels:
        """Class of every pixel of a mask, (H, W)."""
        if self.binary:
            return _black_and_white(path)
        if color_mode(path) in COLOR_MODES:
            return self._by_color(path)
        try:
            return self._read_as(self.reading, path)
        except GauntletError:
            if not self.settled and self.colors and READINGS[1 - READINGS.index(self.reading)] in self.readings(path):
                raise _two_readings(path) from None
            raise

    def readings(self, path: Path) -> list[str]:
        """Readings of a greyscale or palette mask under which every pixel has a class."""
        possible = []
        for reading in READINGS:
            try:
                self._read_as(reading, path)
            except GauntletError:
                continue
            possible.append(reading)
        return possible

    def _read_as(self, reading: str, path: Path) -> Labels:
        if reading == COLORS:
            return self._by_color(path)
        labels = self.table.apply(read_indices(path), path)
        if self.colors and not self.settled and color_mode(path) == "P":
            self._check_positions(labels, path)
        return labels

    def _check_positions(self, labels: Labels, path: Path) -> None:
        """An error where most colours of a palette are those of classes, and of others than their positions say."""
        codes = np.unique((read_colors(path).astype(np.int64) << 32) | labels)  # far faster than unique pairs
        pairs = [(code >> 32, code & 0xFFFFFFFF) for code in codes.tolist()]
        named = [(self.colors[color], label) for color, label in pairs if color in self.colors]
        some_unnamed = len(named) < len(pairs)  # where all have a name, both readings are possible
        if some_unnamed and 2 * len(named) > len(pairs) and any(by_color != label for by_color, label in named):
            other = next(color for color, _ in pairs if color not in self.colors)
            raise GauntletError(
                f"most colours of the mask '{path}' are those of other classes than their positions in its palette, "
                f"and the colour {_rgb(other)} is not in the class file; add it (or a line '{IGNORED_NAME} R G B'), or "
                f"say masks='{INDICES}' where the positions are the classes."
            )

    def _by_color(self, path: Path) -> Labels:
        if not self.colors:
            raise no_colors(path)
        stored = read_colors(path)
        known = np.array(sorted(self.colors), dtype=np.int32)
        place = np.minimum(np.searchsorted(known, stored), len(known) - 1)
        unknown = stored[known[place] != stored]
        if unknown.size:
            red, green, blue = _rgb(int(unknown.flat[0]))
            raise GauntletError(
                f"the label file '{path}' holds the colour ({red}, {green}, {blue}), which the class file does not "
                f"name; add the class, or a line '{IGNORED_NAME} {red} {green} {blue}'."
            )
        classes = np.array([self.colors[int(color)] for color in known], dtype=np.int32)
        return np.asarray(classes[place], dtype=np.uint8 if classes.max() < 256 else np.int32)


def _rgb(color: int) -> tuple[int, int, int]:
    """Red, green and blue of 65536 R + 256 G + B."""
    return color >> 16, color >> 8 & 255, color & 255


def choose_reading(reader: MaskReader, paths: Sequence[Path]) -> str:
    """How greyscale and palette masks are read: as the one reading that some of them allow, else by their colours.

    Args:
        reader: with the colours of the class file.
        paths: some of the masks.
    """
    if not reader.colors:
        if not reader.binary:
            _check_palettes(paths)
        return INDICES
    sure: dict[str, Path] = {}
    for path in paths:
        if color_mode(path) not in COLOR_MODES:
            possible = reader.readings(path)
            if len(possible) == 1:
                sure.setdefault(possible[0], path)
    if len(sure) == 2:
        raise _two_readings(sure[INDICES], sure[COLORS])
    return next(iter(sure), COLORS)


def _check_palettes(paths: Sequence[Path]) -> None:
    """An error where a position in the palette has one colour in a mask and another one in another mask."""
    known: dict[int, tuple[int, Path]] = {}
    for path in paths:
        if color_mode(path) != "P":
            continue
        positions, colors = read_indices(path).ravel(), read_colors(path).ravel()
        used, first = np.unique(positions, return_index=True)
        for position, color in zip(used.tolist(), colors[first].tolist(), strict=True):
            other, where = known.setdefault(position, (color, path))
            if other != color:
                raise GauntletError(
                    f"position {position} of the palette is one colour in the mask '{where}' and another one in "
                    f"'{path}'; name the colours of the classes in a class file ('NAME R G B' a line in classes.txt), "
                    f"or say masks='{INDICES}' where the positions are the classes all the same."
                )


def no_colors(path: Path) -> GauntletError:
    """The error for a colour mask where nothing says what its colours mean."""
    return GauntletError(
        f"the mask '{path}' is a colour image; expected class indices, or a class file with a colour for every class "
        "('NAME R G B' a line in classes.txt), or binary=True for black and white masks."
    )


def _two_readings(path: Path, other: Path | None = None) -> GauntletError:
    others = f"'{other}' only as colours" if other is not None else "other masks of the folder the other way"
    own = "only as class numbers" if other is not None else "only one way"
    return GauntletError(
        f"the mask '{path}' can be read {own}, and {others}; say masks='{INDICES}' or masks='{COLORS}', "
        "or write all masks in one way."
    )


def class_of_color(listed: ClassList | None, void: int) -> dict[int, int]:
    """The class of every colour of a class file, or the label of void; colours as 65536 R + 256 G + B.

    Args:
        listed: the class file; None for a folder without one, which has no colours.
        void: label of the colours that count for nothing.
    """

    def number(color: Color) -> int:
        return (color[0] << 16) | (color[1] << 8) | color[2]

    if listed is None:
        return {}
    classes = {number(color): index for index, color in enumerate(listed.colors)}
    return classes | dict.fromkeys(map(number, listed.ignored), void)


def values_of(path: Path) -> set[int]:
    """The numbers that an index mask holds; of a colour mask none."""
    if color_mode(path) in COLOR_MODES:
        return set()
    stored = read_indices(path)
    if stored.dtype == np.uint8:
        return set(np.flatnonzero(np.bincount(stored.ravel())).tolist())
    return set(np.unique(stored).tolist())


def _black_and_white(path: Path) -> Labels:
    """1 where a mask of two classes is white (or 1), 0 where it is black (or 0)."""
    if color_mode(path) in (*COLOR_MODES, "P"):
        shown = read_colors(path)
        if np.isin(shown, (BLACK, WHITE)).all():
            return np.asarray(shown == WHITE, dtype=np.uint8)
    if color_mode(path) not in COLOR_MODES:
        stored = read_indices(path)
        if np.isin(stored, (0, 1)).all() or np.isin(stored, (0, 255)).all():
            return np.asarray(stored > 0, dtype=np.uint8)
        odd = f"the value {int(stored[~np.isin(stored, (0, 255))].flat[0])}"
    else:
        odd = "other colours"
    raise GauntletError(f"the mask '{path}' holds {odd}; expected black and white, or 0 and 1, as binary=True says.")

"""Class files of a folder: names of classes, in the order of the values in masks, with or without colours."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gauntlet.datasets.contract import Color
from gauntlet.datasets.tree import Tree
from gauntlet.errors import GauntletError

CLASS_FILES = ("classes.txt", "classes.json")
IGNORED_NAME = "ignore"
COMMENT = "#"


@dataclass(frozen=True)
class ClassList:
    """Classes of a folder.

    Attributes:
        names: one per class.
        colors: one per class where the file gives them, else empty.
        ignored: colours in masks that count for nothing (the lines called "ignore").
        ignored_values: numbers of the lines called "ignore", from 0: values of index masks that count for nothing.
    """

    names: tuple[str, ...]
    colors: tuple[Color, ...] = ()
    ignored: tuple[Color, ...] = ()
    ignored_values: tuple[int, ...] = ()


def read_class_list(tree: Tree) -> ClassList | None:
    """The class list of a folder; None where there is no class file."""
    for name in CLASS_FILES:
        if tree.has(name):
            rows = _text_rows(tree, name) if name.endswith(".txt") else _json_rows(tree, name)
            return _as_class_list(rows, str(tree.root / name))
    return None


def _text_rows(tree: Tree, name: str) -> list[tuple[str, Color | None]]:
    rows: list[tuple[str, Color | None]] = []
    for line in tree.lines(name):
        if line.startswith(COMMENT):
            continue
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
    return [_json_row(row, f"the class file '{path}' has the entry {row!r}; {expected}.") for row in content]


def _json_row(row: Any, message: str) -> tuple[str, Color | None]:
    if isinstance(row, str):
        return row, None
    if not isinstance(row, Mapping) or "name" not in row:
        raise GauntletError(message)
    color = row.get("color")
    if color is None:
        return str(row["name"]), None
    try:
        red, green, blue = (int(value) for value in color)
    except (TypeError, ValueError):
        raise GauntletError(message) from None
    return str(row["name"]), (red, green, blue)


def _as_class_list(rows: Sequence[tuple[str, Color | None]], path: str) -> ClassList:
    classes = [(name, color) for name, color in rows if not _is_ignored(name)]
    names = tuple(name for name, _ in classes)
    colors = tuple(color for _, color in classes if color is not None)
    ignored = tuple(color for name, color in rows if _is_ignored(name) and color is not None)
    if not names or len(set(names)) != len(names):
        raise GauntletError(f"the class file '{path}' must name at least one class, and each one once.")
    used = [*colors, *ignored]
    outside = any(not 0 <= value <= 255 for color in used for value in color)
    if (colors and len(colors) != len(names)) or len(set(used)) != len(used) or outside:
        raise GauntletError(
            f"the class file '{path}' must give every class a colour of its own, from 0 to 255, or none a colour."
        )
    values = tuple(number for number, (name, _) in enumerate(rows) if _is_ignored(name))
    return ClassList(names, colors, ignored, values)


def _is_ignored(name: str) -> bool:
    return name.lower() == IGNORED_NAME

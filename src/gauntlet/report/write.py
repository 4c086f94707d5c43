"""Writing a report in any of its formats."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from gauntlet.analysis.order import in_order
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.report.assembly import Options, build_report
from gauntlet.report.document import Document, Picture
from gauntlet.report.render import html, latex, markdown
from gauntlet.results import Store
from gauntlet.results.tidy import csv_text

FORMATS = ("html", "md", "csv", "json", "png", "pdf", "svg", "latex", "coco")
_NAMES = {"html": "report.html", "md": "report.md", "csv": "report.csv", "json": "report.json", "latex": "report.tex"}
_FIGURES = ("png", "pdf", "svg")
_FOLDERS = {**dict.fromkeys(_FIGURES, "report-figures"), "coco": "report-coco"}


def write_report(
    store: Store,
    path: str | Path | None = None,
    *,
    format: str = "html",
    options: Options | None = None,
    figures: str | None = None,
) -> Path:
    """Writes a report over everything in a store.

    Args:
        store: the evaluations.
        path: the file to write (report.html, report.md, ... by default), or for "png", "pdf", "svg" and "coco" the
            folder.
        format: "html", one page that needs nothing else; "md"; "csv", every figure as one tidy table; "json"; "png",
            "pdf" and "svg", one figure per file; "latex", tables with booktabs; "coco", detections under every threat
            as COCO JSON (`coco_export`).
        options: what goes into it.
        figures: for "png", "pdf" and "svg", a pattern that names of figures match ("curve-*"); the first figure of
            every panel by default.

    Returns:
        What was written.
    """
    if format not in FORMATS:
        raise unknown_name("format of a report", format, FORMATS)
    target = Path(path) if path is not None else Path({**_NAMES, **_FOLDERS}[format])
    _make_folder(target if format in _FOLDERS else target.parent)  # a place that cannot be written is said at once
    if format in _FIGURES:
        from gauntlet.report.render import vector

        return vector.write(build_report(store, options), target, format, figures)
    if format == "coco":
        from gauntlet.report.coco_export import write_coco

        return write_coco(store, target)
    if format == "csv":
        return write_text(target, csv_text(in_order(store.frame())))
    document = build_report(store, options)
    writers = {"html": html.write, "md": markdown.write, "latex": latex.write, "json": to_json}
    return write_text(target, writers[format](document))


def to_json(document: Document) -> str:
    """The document as JSON; pictures are left out, NaN is null."""
    return json.dumps(_plain(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Picture):
        return {"caption": value.caption, "width": value.width, "height": value.height}
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"type": type(value).__name__, **named}
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    return value


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GauntletError(f"the folder {folder} cannot be made: {error.strerror}.") from None


def write_text(path: Path, text: str) -> Path:
    """Writes a file, its folder with it."""
    _make_folder(path.parent)
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise GauntletError(f"{path} cannot be written: {error.strerror}.") from None
    return path

"""Markdown of pages: sections, tables, figures in per cent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2

from gauntlet import pictures
from gauntlet.models.sources import shipped
from gauntlet.pictures import Tile
from gauntlet.report.tables import format_cell
from gauntlet.studies.figures import FloatArray, interval
from gauntlet.studies.verdicts import OPEN, decide


def section(title: str, *parts: str) -> str:
    """A heading and what stands below it, an empty line between any two."""
    return "\n\n".join([f"## {title}", *parts]) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows))


def percent(value: float | None, digits: int = 1) -> str:
    """A fraction as per cent; nothing where there is none."""
    return "" if value is None else f"{100 * value:.{digits}f}"


def with_interval(values: FloatArray) -> str:
    """A figure over resamples (R,) as per cent, with its 95 % interval: "51.2 (48.0 to 54.1)"."""
    return format_cell(interval(values), "percent")


def in_points(values: FloatArray) -> str:
    """A difference over resamples (R,) in points, with its 95 % interval: "+3.2 (+1.0 to +5.4)"."""
    return format_cell(interval(values), "points")


def judged(margin: FloatArray, images: int, lacking: str = "") -> str:
    """The verdict on a claim in bold, with the margin (R,) by which it holds.

    A claim that holds or fails by its 95 % interval over at least 16 images is told, any other cannot be told.

    Args:
        margin: (R,).
        images: how many it was measured on.
        lacking: why there can be no verdict, whatever the margin; "" where there can.
    """
    verdict = f"{OPEN}: {lacking}" if lacking else decide(interval(margin), images)
    return f"**{verdict[0].upper()}{verdict[1:]}** (margin {in_points(margin)} points)."


def short(models: Sequence[str]) -> list[str]:
    """Names without the dataset."""
    return [name.removeprefix("streets/") for name in models]


def cards_section(title: str, models: Sequence[str], figures: Sequence[str]) -> str:
    """What the cards of shipped models say, with some of their clean figures in %."""
    rows = []
    for name in models:
        model = shipped.find(name)
        clean, parameters = model.card["figures"]["clean"], model.card["model"]["parameters"]
        images = model.card["data"]["validation"]["length"]
        size = model.weights.stat().st_size / 1e6
        rows.append(
            [f"`{name}`", model.card["kind"], f"{parameters / 1e6:.2f} M", f"{size:.1f} MB",
             *(percent(clean[figure]) for figure in figures), str(images)]
        )  # fmt: skip
    header = ["model", "training", "parameters", "file", *(f"clean {figure} %" for figure in figures), "images"]
    return section(title, "As in the cards; the last column is the number of validation images.", table(header, rows))


def save_sheet(path: Path, tiles: Sequence[Tile], columns: int) -> None:
    """A sheet of tiles as JPEG."""
    picture = pictures.sheet(tiles, columns)
    cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 85])

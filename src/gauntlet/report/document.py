"""What a report consists of, whatever the format: parts, sections, and blocks in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TypeVar

from gauntlet._version import __version__
from gauntlet.report.charts import Panel
from gauntlet.report.tables import Interval, Table


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Command:
    """A line to copy into a shell."""

    line: str


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Bar:
    """One bar of a verdict: what a model keeps under its worst threat of a kind."""

    label: str
    detail: str
    value: float
    kept: float
    adversarial: bool


@dataclass(frozen=True)
class Verdict:
    """One model in words and four bars.

    Attributes:
        model: its name.
        rank: 1 is best, or None.
        clean: its clean figure.
        bars: the worst case of every kind of threat.
        text: the verdict.
    """

    model: str
    rank: int | None
    clean: Interval
    bars: Sequence[Bar]
    text: str


@dataclass(frozen=True)
class Verdicts:
    """Cards of models side by side."""

    metric: str
    items: Sequence[Verdict]


@dataclass(frozen=True)
class Finding:
    """Something that speaks for or against believing a figure.

    Attributes:
        level: "warning" (a figure may be wrong), "note" (read it with care) or "good" (a check was passed).
        subject: the model or evaluation it is about.
        text: one sentence.
        evidence: the numbers behind it, or "".
    """

    level: str
    subject: str
    text: str
    evidence: str = ""


@dataclass(frozen=True)
class Findings:
    """A list of findings."""

    items: Sequence[Finding]


@dataclass(frozen=True)
class Picture:
    """An encoded picture of a gallery; `file` is where it also lies, seen from the page, or nothing."""

    caption: str
    media_type: str
    data: bytes
    width: int
    height: int
    file: str = ""


@dataclass(frozen=True)
class Exhibit:
    """One image of a gallery: what it looked like, what was done to it, what the model said."""

    title: str
    detail: str
    pictures: Sequence[Picture]


@dataclass(frozen=True)
class Gallery:
    """The worst images of an evaluation; `legend` names the colours (hexadecimal) of the classes."""

    title: str
    legend: Sequence[tuple[str, str]]
    exhibits: Sequence[Exhibit]


@dataclass(frozen=True)
class Recipe:
    """How a figure was obtained: what was evaluated, facts about the run, the command that repeats it."""

    title: str
    facts: Sequence[tuple[str, str]]
    command: str


@dataclass(frozen=True)
class Recipes:
    """How figures were obtained."""

    items: Sequence[Recipe]


@dataclass(frozen=True)
class Fold:
    """Blocks that are shown when asked for."""

    title: str
    blocks: Sequence[Block]


Block = Text | Command | Bullets | Verdicts | Findings | Gallery | Recipes | Table | Panel | Fold


@dataclass(frozen=True)
class Section:
    """A headed run of blocks; `id` is safe in an address and unique in the document."""

    id: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Part:
    """Everything about evaluations that can be compared with each other."""

    id: str
    title: str
    subtitle: str
    sections: Sequence[Section]


@dataclass(frozen=True)
class Document:
    """A report.

    Attributes:
        title: of the page.
        subtitle: what it was made of.
        parts: one per dataset, split and number of images.
        footer: versions and date.
    """

    title: str
    subtitle: str
    parts: Sequence[Part]
    footer: str


B = TypeVar("B")
"""A kind of block."""


def of_type(where: Document | Section | Fold, kind: type[B]) -> Iterator[B]:
    """The blocks of a kind in a document, a section or a fold, also those inside folds."""
    if isinstance(where, Document):
        for part in where.parts:
            for section in part.sections:
                yield from of_type(section, kind)
        return
    for block in where.blocks:
        if isinstance(block, kind):
            yield block
        elif isinstance(block, Fold):
            yield from of_type(block, kind)


def made_now(form: str = "%d %B %Y, %H:%M UTC") -> str:
    """The footer of a page: version and date."""
    return f"Made with Gauntlet {__version__} on {datetime.now(timezone.utc).strftime(form)}."

"""Writes the tables of study pages into docs/studies.md, from the pages in docs/studies and docs/studies/camvid.

python scripts/study_index.py
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "studies.md"
BEGIN, END = "<!-- table of {}: python scripts/study_index.py -->\n", "<!-- end of the table -->\n"
FOLDERS = ("studies", "studies/camvid")
"""Street scenes, and photographs: a table for each."""
VERDICTS = {"reproduces": "reproduce", "does not reproduce": "do not", "cannot be told": "cannot be told"}


def verdicts(text: str) -> Counter[str]:
    """How often each verdict is given in the table of claims of a page."""
    cells = (cell.strip() for line in text.splitlines() if line.startswith("|") for cell in line.split("|"))
    return Counter(verdict for cell in cells for verdict in VERDICTS if re.match(rf"{verdict}( with \d|:|$)", cell))


def in_words(found: Counter[str]) -> str:
    """How often each verdict was given, such as "5 reproduce, 1 do not"."""
    return ", ".join(f"{found[verdict]} {short}" for verdict, short in VERDICTS.items() if found[verdict])


def together(folder: str) -> str:
    """The verdicts of all pages of a folder, paper by paper."""
    of_papers: dict[str, Counter[str]] = {}
    for path in sorted(DOCS.joinpath(folder).glob("*.md"), key=place):
        of_papers.setdefault(path.stem.partition("-")[0], Counter()).update(verdicts(path.read_text(encoding="utf-8")))
    return "; ".join(f"{paper}: {in_words(found)}" for paper, found in of_papers.items() if found)


def rows(folder: str) -> Iterator[str]:
    """A row of the table per page of a folder that was measured; pictures are linked below it."""
    for path in sorted(DOCS.joinpath(folder).glob("*.md"), key=place):
        text = path.read_text(encoding="utf-8")
        name, title = re.match(r"# (\S+): (.+)", text).groups()  # type: ignore[union-attr]
        counted = re.search(r"(\d+) models?, (\d+) images", text)
        if counted is None:
            continue
        claims = in_words(verdicts(text))
        part = " (in part)" if "\nLeft out: " in text else ""
        link = f"[{name}]({folder}/{path.name}){part}"
        yield f"| {link} | {title} | {counted[1]} | {counted[2]} | {claims or 'a list'} |"


def place(path: Path) -> list[str | int]:
    """By paper, then tables, figures and texts, each by number."""
    paper, kind, *number = path.stem.split("-", 2)
    digits = re.match(r"\d+", "".join(number))
    return [paper, ("table", "figure", "text").index(kind) if kind in ("table", "figure", "text") else 3,
            int(digits[0]) if digits else 0, path.stem]  # fmt: skip


def with_tables(text: str) -> str:
    """The page with tables of the present pages."""
    for folder in FOLDERS:
        begin = BEGIN.format(folder)
        before, _, rest = text.partition(begin)
        after = rest.partition(END)[2]
        header = "| study | of what | models | images | claims |\n|---|---|---|---|---|\n"
        text = before + begin + "\n" + header + "".join(f"{row}\n" for row in rows(folder))
        text += f"\nVerdicts together: {together(folder)}.\n\n" + END + after
    return text


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

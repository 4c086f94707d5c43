"""The tables of docs/studies.md are those of the pages."""

from __future__ import annotations

import runpy

from paths import ROOT


def test_the_tables_of_studies_are_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "study_index.py"))
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    assert script["with_tables"](page) == page


def test_verdicts_are_counted_by_their_cells() -> None:
    count = runpy.run_path(str(ROOT / "scripts" / "study_index.py"))["verdicts"]
    text = "| reproduces twice? | a | +1.0 | reproduces |\n| b | cannot be told with 16 images |\nreproduces\n"
    assert count(text) == {"reproduces": 1, "cannot be told": 1}

"""The tutorials: whole notebooks with their pictures that lead somewhere, and that print today what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from paths import ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
NAMES = ("cluster", "is-my-defence-real", "own-dataset", "own-detector", "own-model", "paper-table")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
POINTS = 1.0
"""Figures in per cent may differ by so much between processors."""


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def printed(notebook: Any) -> list[str]:
    """What every cell printed or gave back, without pictures."""
    return [
        "".join(output["text"] if output["output_type"] == "stream" else output["data"].get("text/plain", ""))
        for output in outputs(notebook)
        if output.get("name") != "stderr" and "image/png" not in output.get("data", {})
    ]


def test_every_tutorial_is_there_and_in_the_site() -> None:
    assert tuple(path.stem for path in TUTORIALS) == NAMES
    navigation, index = (ROOT / "mkdocs.yml").read_text(), (ROOT / "docs" / "index.md").read_text()
    for name in NAMES:
        assert f"tutorials/{name}.md" in navigation
        assert f"(tutorials/{name}.ipynb)" in index


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_is_valid_ran_in_order_and_shows_what_it_gives(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert notebook.cells[0].source.startswith("# ")
    assert not any(output.output_type == "error" for output in outputs(notebook))
    assert printed(notebook)
    assert path.stat().st_size < 300_000
    for cell in code:
        for line in cell.source.splitlines():
            assert len(line) <= 120 or line.startswith("!"), line


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_links_of_a_tutorial_lead_somewhere(path: Path) -> None:
    text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    targets = re.findall(r"\]\((?!https?://)([^)#\s]+)(?:#[^)]*)?\)", text)
    assert targets
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_a_page_has_code_what_it_printed_and_its_pictures() -> None:
    from docs_tutorials import NOTEBOOK_LINK, page, pictures

    def code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
        return {"cell_type": "code", "source": [source], "outputs": list(outputs)}

    picture = {"output_type": "display_data", "data": {"image/png": "aGk="}}
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "\n", "Text."]},
        code("1 + 1", {"output_type": "execute_result", "data": {"text/plain": ["2"]}}, picture),
        code("%%bash\nls", {"output_type": "stream", "name": "stdout", "text": ["a\n", "b\n"]}),
    ]
    text = page("mine", {"cells": cells})
    assert text.startswith("# Title\n\n[This page as a notebook](mine.")
    assert "```python\n1 + 1\n```\n\n```text {.output}\n2\n```\n\n![What the cell above draws](mine-0.png)" in text
    assert "```bash\nls\n```\n\n```text {.output}\na\nb\n```" in text
    assert list(pictures("mine", {"cells": cells})) == [("mine-0.png", b"hi")]
    assert NOTEBOOK_LINK.sub(r"](\1.md\2)", "[a](b/c.ipynb#d)") == "[a](b/c.md#d)"


@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_prints_what_it_says(path: Path, tmp_path: Path) -> None:
    from tutorials import run

    stored, now = read(path), run(path, tmp_path)
    drawn = [sum("image/png" in each.get("data", {}) for each in outputs(notebook)) for notebook in (stored, now)]
    assert drawn[0] == drawn[1]
    before, after = ("\n".join(_lasting(text) for text in printed(notebook)) for notebook in (stored, now))
    assert NUMBER.sub("#", after) == NUMBER.sub("#", before)
    figures = zip(NUMBER.findall(before), NUMBER.findall(after), strict=True)
    assert [pair for pair in figures if abs(float(pair[0]) - float(pair[1])) > POINTS] == []


def _lasting(text: str) -> str:
    """Without logs, times and the padding of tables, which differ from run to run."""
    kept = [line for line in text.splitlines() if not re.search(r"log:|minutes| on \d+ cores", line)]
    return re.sub(r"[ \u2500-\u257f]+", " ", "\n".join(kept)).strip()

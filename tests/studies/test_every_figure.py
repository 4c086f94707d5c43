"""Every figure and table of the four papers has a name: the list of docs/specs/studies.md."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gauntlet.errors import GauntletError
from gauntlet.studies import Study, studies
from gauntlet.studies.relations import PUBLISHED, FigureStudy, draw_figures, figures_page
from program import Call


def numbered(kind: str, numbers: Iterable[int | str]) -> list[str]:
    return [f"{kind}-{number}" for number in numbers]


ITEMS = {
    "spatial": [
        *numbered("figure", (1, 2, "2a", "2b", 3, 4, "4a", "4b", 5, "5a", "5b", 7, "7a", "7b", 8, "8a", "8b", 9, 11)),
        *(f"figure-11{part}" for part in "abcdefgh"),
        "table-1",
    ],
    "halmosi": [*numbered("figure", range(1, 24)), *numbered("table", range(1, 8))],
    "semsegbench": [
        *numbered("figure", (1, 2, "2a", "2b", "2c", *range(4, 11), *range(14, 25))),
        *numbered("table", range(1, 4)),
        "text-i1",
    ],
    "detecbench": [
        *numbered("figure", (1, 3, "3a", "3b", "3c", *range(11, 14), *range(25, 32))),
        *numbered("table", (1, 4)),
    ],
    "arnab": [
        *numbered("figure", (*range(1, 26), "2a", "2b", "16a", "16b")),
        *numbered("table", range(1, 21)),
        *("text-5.3", "text-5.4"),
    ],
}


@pytest.mark.parametrize("paper", ITEMS)
def test_every_item_of_a_paper_is_listed(paper: str, call: Call) -> None:
    code, out, err = call("study", "list", paper)
    assert code == 0, err
    rows = [line.split("  ")[0] for line in out.splitlines()]
    listed = {name if "/" in name else f"{paper}/{name}" for row in rows for name in row.split(", ")}
    listed = {name.split(" ")[0] for name in listed}
    assert [item for item in ITEMS[paper] if f"{paper}/{item}" not in listed] == []
    assert all(f"{paper}/{item}" in studies for item in ITEMS[paper])


def test_those_that_need_what_nobody_ships_say_so() -> None:
    for name in studies.names():
        study = studies[name]
        if isinstance(study, Study) and study.background:
            assert "background" in study.needs
    for number in (12, 26, 27, 30, 31):
        study = studies[f"detecbench/figure-{number}"]
        assert isinstance(study, FigureStudy)
        assert "your own detectors" in study.needs


FIGURE_STUDIES = [name for name in studies.names() if isinstance(studies[name], FigureStudy)]


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURE_STUDIES)
def test_every_study_of_figures_is_drawn_from_the_published_ones(name: str) -> None:
    """All but those that say that nobody has published what they need."""
    study: FigureStudy = studies[name]
    if study.needs:
        with pytest.raises(GauntletError, match="these figures are not published"):
            draw_figures(study, study.published(), PUBLISHED)
        return
    drawn = draw_figures(study, study.published(), PUBLISHED)
    assert any(section.blocks for section in drawn.sections)
    claimed = [*(pair for pair in study.pairs if pair.claim), *(group for group in study.groups if group.first)]
    assert bool(drawn.judged) == bool(claimed or study.cases)
    assert study.title in figures_page(study, drawn, PUBLISHED, "gauntlet study run").title

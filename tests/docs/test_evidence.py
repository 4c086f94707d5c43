"""What we believe: twenty sentences, and every figure in them stands on the page that the sentence links."""

from __future__ import annotations

import re

import pytest

from paths import ROOT

DOCS = ROOT / "docs"
SENTENCES = re.findall(r"^\d+\. (.*(?:\n   .*)*)", (DOCS / "evidence.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_there_are_twenty() -> None:
    assert len(SENTENCES) == 20


@pytest.mark.parametrize("sentence", SENTENCES, ids=range(1, 1 + len(SENTENCES)))
def test_a_sentence_has_its_figures_from_the_page_that_it_links_and_a_command(sentence: str) -> None:
    (page,) = re.findall(r"\]\(([\w./-]+\.md)\)", sentence)
    text = " ".join((DOCS / page).read_text(encoding="utf-8").split())
    figures = re.findall(r"\*\*(.+?)\*\*", " ".join(sentence.split()))
    assert figures
    for figure in figures:
        assert re.search(rf"(?<![\d.+-]){re.escape(figure)}(?!\.?\d)", text), f"{figure} does not stand on {page}"
    assert re.search(r"`gauntlet [a-z]", sentence) or "command on the page" in sentence
    assert re.search(r"\d+ (scenes|images|models|photographs)", " ".join(sentence.split()))

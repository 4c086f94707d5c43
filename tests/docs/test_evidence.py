"""What we believe: twenty sentences, and every figure in them stands on a page that the sentence links."""

from __future__ import annotations

import re

import pytest

from gauntlet.studies import Study, studies
from paths import ROOT

DOCS = ROOT / "docs"
SENTENCES = re.findall(r"^\d+\. (.*(?:\n   .*)*)", (DOCS / "evidence.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_lead_has_its_figures_from_the_pages_of_the_first_sentences() -> None:
    lead = " ".join((DOCS / "evidence.md").read_text(encoding="utf-8").partition("\n## ")[0].split())
    text = "".join((DOCS / page).read_text(encoding="utf-8") for page in ("shipped-models.md", "camvid-trained.md"))
    figures = re.findall(r"\*\*(.+?)\*\*", lead)
    assert len(figures) == 4
    assert [figure for figure in figures if figure not in text] == []


def test_there_are_twenty() -> None:
    assert len(SENTENCES) == 20


@pytest.mark.parametrize("sentence", SENTENCES, ids=range(1, 1 + len(SENTENCES)))
def test_a_sentence_has_its_figures_from_the_pages_that_it_links_and_a_command(sentence: str) -> None:
    pages = re.findall(r"\]\(([\w./-]+\.md)\)", sentence)
    text = " ".join(" ".join((DOCS / page).read_text(encoding="utf-8").split()) for page in pages)
    sentence = " ".join(sentence.split())
    figures = re.findall(r"\*\*(.+?)\*\*", sentence)
    assert figures
    for figure in figures:
        assert re.search(rf"(?<![\d.+-]){re.escape(figure)}(?!\.?\d)", text), f"{figure} does not stand on {pages}"
    assert re.search(r"`gauntlet [a-z]|the command of \d+", sentence)
    for name, rest in re.findall(r"`gauntlet study run (\S+?)(`| [^`]*`)", sentence):
        assert ("--model" in rest) == isinstance(studies[name], Study), f"{name} is not a command that runs"
    assert re.search(r"\d+ (scenes|images|models|photographs)", sentence)

"""The page of recomputed claims is what the study writes, and says what the figures say."""

from __future__ import annotations

import pandas as pd
import pytest

from gauntlet.studies.findings.evidence import SELECTIONS, PaperClaim, counted
from gauntlet.studies.findings.page import anchor, claims, render, verdicts
from paths import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made() -> dict[str, list[PaperClaim]]:
    return claims()


def test_the_page_is_up_to_date(made: dict[str, list[PaperClaim]]) -> None:
    assert render(made) == (ROOT / "docs" / "paper-findings.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Clean mIoU and generalization (GAM), ADE20K", ["confirmed", "confirmed"]),
        ("Clean mIoU and reliability (l2-ReM), ADE20K", ["confirmed", "confirmed"]),
        ("Reliability and generalization, ADE20K", ["cannot be judged", "not confirmed"]),
        ("Real weather (ACDC) and the mean over synthetic corruptions, Cityscapes", ["not confirmed", "confirmed"]),
        ("ACDC and snow", ["confirmed", "confirmed"]),
        (
            "Transformer against convolution backbones: generalization",
            ["partly confirmed (6 of 9)", "partly confirmed (7 of 9)"],
        ),
        (
            "Large SegFormer and InternImage models resist l2 attacks",
            ["partly confirmed (3 of 4), 2 cannot be judged", "partly confirmed (2 of 3), 3 cannot be judged"],
        ),
        ("Robust models that are not", ["confirmed", "confirmed"]),
        ("Transformers outside a corrupted region at severity 5", ["confirmed", "confirmed"]),
        ("How often PSPNet is best, VOC", ["not confirmed", "not confirmed"]),
        ("PSPNet on Cityscapes", ["partly confirmed (2 of 4)", "partly confirmed (3 of 4)"]),
        ("Clean mIoU and real weather, Cityscapes", ["no claim", "no claim"]),
        ("Real weather and synthetic corruptions at equal clean mIoU, Cityscapes", ["confirmed", "confirmed"]),
        ("InternImage generalizes best", ["partly confirmed (5 of 6)", "partly confirmed (5 of 6)"]),
        ("Iterative attacks transfer worse", ["partly confirmed (1 of 2)", "cannot be judged"]),
        ("Max or average pooling over scales", ["partly confirmed (4 of 5)", "confirmed (3), 2 cannot be judged"]),
        ("PAdam-Cos is not dominated by SEA", ["confirmed", "partly confirmed (1 of 2)"]),
        ("Inside under noise", ["partly confirmed (2 of 3)", "partly confirmed (2 of 3)"]),
        ("Transformers outside: more so at high severity", ["confirmed", "confirmed"]),
        ("Detection: FGSM and size", ["cannot be judged", "cannot be judged"]),
    ],
)
def test_verdicts(made: dict[str, list[PaperClaim]], title: str, expected: list[str]) -> None:
    by_title = {each.title: each for of_paper in made.values() for each in of_paper}
    assert verdicts(by_title[title]) == expected


def test_figures_that_the_specification_recomputed(made: dict[str, list[PaperClaim]]) -> None:
    """docs/specs/studies.md: PSPNet best in 3 of 32; PAdam-Cos in 15 of 18; at 0.25 only DeepLab MS loses under 3 %."""
    by_title = {each.title: each.evidence for of_paper in made.values() for each in of_paper}
    assert list(by_title["How often PSPNet is best, VOC"]["found"]) == ["3 of 32", "1 of 20"] * 2
    strongest = by_title["Normal models fall to PAdam-Cos, SEA-AT to SEA"].set_index(["case", "cells"])["holds in"]
    assert strongest["Normal: PAdam-Cos", "all cells"] == "15 of 18"
    assert strongest["SEA-AT: a SEA attack", "all cells"] == "11 of 12"
    hurts = by_title["Epsilon 0.25 hurts"].set_index(["case", "cells"])["holds in"]
    assert hurts["iterative fgsm ll on VOC", "all cells"] == "8 of 9"
    assert set(hurts.xs("all cells", level="cells").drop("iterative fgsm ll on VOC")) == {"9 of 9", "6 of 6"}
    steps = by_title["Single steps are stronger on Cityscapes"].set_index("network")
    assert list(steps["Cityscapes"]) == ["2.6 %", "2.9 %", "6.3 %"] * 2


def test_every_claim_says_where_it_is_made(made: dict[str, list[PaperClaim]]) -> None:
    every = [each for of_paper in made.values() for each in of_paper]
    assert all(each.words and each.place and "verdict" in each.evidence for each in every)
    assert all(set(each.evidence["cells"]) == set(SELECTIONS) for each in every)
    assert len({anchor(each.title) for each in every}) == len(every)


def test_cases_are_counted() -> None:
    def cases(table: pd.DataFrame) -> dict[str, list[bool]]:
        return {"some": [True, True, False], "none": []}

    strict, lenient = (counted({"all cells": pd.DataFrame()}, cases, mostly=mostly) for mostly in (False, True))
    assert list(strict["verdict"]) == ["not confirmed", "cannot be judged"]
    assert list(lenient["verdict"]) == ["confirmed", "cannot be judged"]

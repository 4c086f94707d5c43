"""The page of recomputed claims is what the script writes, and says what the figures say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = ROOT / "scripts" / "paper_findings.py"
    if not path.exists():
        pytest.skip("the scripts are not part of this installation")
    spec = importlib.util.spec_from_file_location("paper_findings", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["paper_findings"] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date_and_its_verdicts_hold(script: ModuleType) -> None:
    claims = script.claims()
    assert script.render(claims) == (ROOT / "docs" / "paper-findings.md").read_text(encoding="utf-8")
    verdicts = {each.title: script.verdicts(each) for each in claims}
    assert verdicts["Clean mIoU and generalization (GAM), ADE20K"] == ["confirmed", "confirmed"]
    assert verdicts["Clean mIoU and reliability (l2-ReM), ADE20K"] == ["confirmed", "confirmed"]
    assert verdicts["Real weather (ACDC) and the mean over synthetic corruptions, Cityscapes"] == ["confirmed"] * 2
    generalization = verdicts["Transformer against convolution backbones: generalization"]
    assert generalization == ["partly confirmed (5 of 9)", "partly confirmed (6 of 9)"]


@pytest.mark.parametrize(
    ("value", "low", "high", "warning", "expected"),
    [
        (0.8, 0.6, 0.9, "", "confirmed"),
        (0.8, 0.4, 0.9, "", "not confirmed"),
        (0.6, 0.55, 0.65, "", "not confirmed"),
        (0.8, 0.6, 0.9, "floor", "cannot be judged"),
    ],
)
def test_the_rule_for_a_strong_correlation(
    script: ModuleType, value: float, low: float, high: float, warning: str, expected: str
) -> None:
    assert script.judge_strong({"value": value, "low": low, "high": high, "warning": warning}) == expected

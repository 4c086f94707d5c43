"""Robustness cards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt
from synthetic_store import HOSTILE

from gauntlet.analysis.order import in_order
from gauntlet.errors import GauntletError
from gauntlet.report.pages.model_card import write_card
from gauntlet.results import Store

pytest_plugins = ("report_fixtures",)


def front_matter(text: str) -> dict[str, Any]:
    opening, header, _ = text.split("---\n", 2)
    assert opening == ""
    content: dict[str, Any] = yaml.safe_load(header)
    return content


def test_the_model_index_holds_every_evaluation_in_per_cent(small_store: Store, tmp_path: Path) -> None:
    text, data = write_card(small_store, "zoo/plain", tmp_path / "README.md")
    header = front_matter(text.read_text("utf-8"))
    assert header["pipeline_tag"] == "image-segmentation"
    (model,) = header["model-index"]
    assert model["name"] == "zoo/plain"
    frame = in_order(small_store.frame())
    rows = frame[
        frame["model"].eq("zoo/plain")
        & frame["metric"].eq("mIoU")
        & frame["class_name"].eq("")
        & frame["view"].eq("all")
    ]
    assert len(model["results"]) == len(rows) == 16
    for result, value, threat in zip(model["results"], rows["value"], rows["threat"], strict=True):
        # What the Hub needs of a result: task.type, dataset.type and name, metrics with type and value.
        assert result["task"]["type"] == "image-segmentation"
        assert result["dataset"]["type"] == "streets"
        assert result["dataset"]["split"] == "val"
        assert threat in result["dataset"]["name"]
        metric = result["metrics"][0]
        assert (metric["type"], metric["value"]) == ("mean_iou", pytest.approx(100 * value, abs=0.006))
    stored = json.loads(data.read_text("utf-8"))
    assert stored["model"] == "zoo/plain"
    assert {result["key"] for result in stored["results"]} == set(rows["key"])
    assert stored["results"][0]["figures"]["mIoU"] == rows["value"].iloc[0]


def test_a_hostile_name_is_text_in_the_header_and_the_body(small_store: Store, tmp_path: Path) -> None:
    text, data = write_card(small_store, HOSTILE, tmp_path / "card.md")
    content = text.read_text("utf-8")
    assert front_matter(content)["model-index"][0]["name"] == HOSTILE
    body = content.split("---\n", 2)[2]
    rendered = MarkdownIt("commonmark").enable("table").render(body)
    assert "<script" not in rendered
    assert "<img" not in rendered
    assert json.loads(data.read_text("utf-8"))["model"] == HOSTILE


def test_the_body_has_a_verdict_and_tables(small_store: Store, tmp_path: Path) -> None:
    text, _ = write_card(small_store, "zoo/plain", tmp_path / "card.md")
    body = text.read_text("utf-8")
    assert "# zoo/plain: robustness" in body
    assert "under its worst attack" in body
    assert body.count("**Attacks**") == 1
    assert "| threat | mIoU | mAcc | aAcc | NmIoU |" in body


def test_unknown_models_and_json_as_markdown_are_errors(small_store: Store, tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match="unknown model in the store"):
        write_card(small_store, "nobody", tmp_path / "card.md")
    with pytest.raises(GauntletError, match=r"another ending than \.json"):
        write_card(small_store, "zoo/plain", tmp_path / "card.json")

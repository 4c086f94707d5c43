"""Reliability diagrams and bars of error types in the report."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic_store import fill_store

from detection_cases import random_case
from gauntlet.analysis import detection_errors
from gauntlet.metrics import WHOLE, DensePrediction, DetectionMetric, SegmentationMetric
from gauntlet.metrics.detection.error_types import error_types, object_fates
from gauntlet.report import build_report
from gauntlet.report.charts import BarChart, Panel, ReliabilityChart
from gauntlet.report.document import of_type
from gauntlet.report.render import plotly, vector
from gauntlet.report.tables import Table
from gauntlet.results import Store
from gauntlet.results.record import ImageRow, Job
from paths import DATA

CLASSES = ["a", "b"]


def keep(store: Store, task: str, threat: str, options: dict[str, Any], counts: list[Any]) -> None:
    description = {"clean": {}} if threat == "clean" else {"corruption": {"name": threat, "severity": 3}}
    identity = {"name": "d", "split": "val", "length": len(counts), "ids": "0", "protocol": {}}
    job = Job(task, "model", "0", identity, threat, next(iter(description)), description, 1, 0)
    started = store.begin(job, images=len(counts), batch_size=1, metric=options, provenance={"started": "2026-01-01"})
    rows = [ImageRow(index, str(index), each.to_bytes(), {}) for index, each in enumerate(counts)]
    store.add_images(started, rows, WHOLE, seconds=1.0)
    metric = store.metric(job.key)
    store.finish(started, metric.compute(counts, WHOLE))


def said(accuracy: float, confidence: float, images: int = 3, pixels: int = 200) -> list[Any]:
    """Counts of images whose every pixel has one confidence, and of which a share is right."""
    metric = SegmentationMetric(CLASSES)
    prediction = (np.arange(pixels) >= accuracy * pixels).astype(int)[None]
    sure = np.full((1, pixels), confidence)
    nothing = np.zeros((1, pixels))
    each = DensePrediction(prediction, sure, None, np.log(sure / (1 - sure)), lambda labels: (nothing, nothing))
    return [metric.update(each, np.zeros((1, pixels), int)) for _ in range(images)]


@pytest.fixture
def store() -> Store:
    store = Store()
    options = {"class_names": CLASSES, "ignore_index": 255, "background_index": None}
    keep(store, "segmentation", "clean", options, said(0.9, 0.85))
    keep(store, "segmentation", "fog", options, said(0.4, 0.85))
    return store


def chart_of(store: Store, name: str) -> ReliabilityChart:
    panel = next(each for each in of_type(build_report(store), Panel) if each.id.startswith("reliability"))
    chart = panel.charts[name]
    assert isinstance(chart, ReliabilityChart)
    return chart


def test_a_diagram_shows_accuracy_over_confidence(store: Store) -> None:
    chart = chart_of(store, "fog")
    (bar,) = chart.bins
    assert bar.confidence == pytest.approx(0.85, abs=1e-12)
    assert bar.accuracy == pytest.approx(0.4, abs=1e-12)
    assert (bar.pixels, bar.share) == (600, 1.0)
    assert [each.accuracy for each in chart.clean] == pytest.approx([0.9])
    assert chart.note == "ECE 45.0 %, overconfidence 45.0 %"
    assert chart_of(store, "clean").note == "ECE 5.0 %, overconfidence 0.0 %"
    assert not chart_of(store, "clean").clean


def test_diagrams_are_drawn_in_both_ways(store: Store, tmp_path: Path) -> None:
    chart = chart_of(store, "fog")
    figure = plotly.figure(chart)
    accuracy, gap, histogram, clean = figure["data"]
    assert accuracy["y"] == [40.0]
    assert (gap["base"], gap["y"]) == ([40.0], [45.0])
    assert histogram["base"] == [-24]
    assert clean["y"] == [90.0]
    pytest.importorskip("matplotlib")
    vector.draw(chart, tmp_path / "chart.svg")
    assert "ECE 45.0 %" in (tmp_path / "chart.svg").read_text()


def test_the_tables_beside_it(store: Store) -> None:
    tables = {each.id.rsplit("-d-val", 1)[0]: each for each in of_type(build_report(store), Table)}
    figures = tables["calibration-figures"]
    rows = {row[0]: dict(zip([column.name for column in figures.columns], row, strict=True)) for row in figures.rows}
    assert rows["fog"]["ECE"] == pytest.approx(0.45, abs=1e-12)
    assert rows["clean"]["ECE"] == pytest.approx(0.05, abs=1e-12)
    # All pixels stand in one bin, which says nothing about their order: the table says so beside the figures.
    assert (rows["fog"]["FPR95"], rows["fog"]["FPR95 bounds"]) == (1.0, "0.0 to 100.0")
    assert (rows["fog"]["AUROC"], rows["fog"]["AUROC bounds"]) == (0.5, "0.0 to 100.0")
    (row,) = tables["bravo"].rows
    assert row[1] == 0  # every pixel has the same confidence: at 95 % of the right ones all wrong ones pass
    assert "FPR95 under fog" in str(row[-1])


def test_a_store_without_histograms_has_no_diagrams() -> None:
    report = build_report(fill_store(Store(), ["one"], images=2))
    assert not any(panel.id.startswith("reliability") for panel in of_type(report, Panel))


def test_bars_of_error_types() -> None:
    store = Store()
    metric = DetectionMetric(list("abcd"))
    truths, detections = random_case(3)
    nothing = [each.select(np.zeros(len(each), bool)) for each in detections]
    for threat, found in (("clean", detections), ("fog", nothing)):
        counts = [metric.update(boxes, truth) for truth, boxes in zip(truths, found, strict=True)]
        keep(store, "detection", threat, {"class_names": list("abcd")}, counts)
    report = build_report(store)
    panels = {each.id.split("-d-val")[0]: each for each in of_type(report, Panel)}
    chart = panels["error-types"].charts["model"]
    assert isinstance(chart, BarChart)
    gains = error_types(truths, detections, 4).gains
    of_clean = {series.name: series.x[0] for series in chart.series}
    assert of_clean["badly placed"] == pytest.approx(gains["Loc"], abs=1e-12)
    assert {series.name: series.x[1] for series in chart.series}["object missed"] == 1
    fates = panels["fates"].charts["model"]
    assert isinstance(fates, BarChart)
    assert sum(float(series.x[0]) for series in fates.series) == pytest.approx(1, abs=1e-12)
    counts_table = next(each for each in of_type(report, Table) if each.id.startswith("error-counts"))
    assert counts_table.rows[1][7] == sum(int((~_crowd(truth)).sum()) for truth in truths)
    made_up = object_fates(truths, detections).figures()["hallucinated_per_image"]
    assert [row[8] for row in counts_table.rows] == [pytest.approx(made_up, abs=1e-12), 0]


@pytest.mark.slow
def test_error_types_of_version_0_1_0_are_counted_from_its_detections(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(gzip.decompress((DATA / "store-0.1.0.db.gz").read_bytes()))
    with Store(path) as store:
        assert "dAP_Cls" not in set(store.frame()["metric"])
        table = detection_errors(store)
        assert len(table)
        assert np.allclose(table["found"] + table["misnamed"] + table["disappeared"], 1)
        clean = table[table["kind"].eq("clean")]
        assert (clean["newly_disappeared"] == 0).all()
        panels = [panel for panel in of_type(build_report(store), Panel) if panel.id.startswith("error-types")]
    assert panels
    charts = {name: chart for panel in panels for name, chart in panel.charts.items()}
    of_row = table.iloc[0]
    chart = next(chart for name, chart in charts.items() if str(of_row["model"]) in name)
    assert isinstance(chart, BarChart)
    missed = next(series for series in chart.series if series.name == "object missed")
    assert of_row["dAP_Miss"] in [pytest.approx(value, abs=1e-12) for value in missed.x]


def _crowd(truth: Any) -> Any:
    return truth.crowd if truth.crowd is not None else np.zeros(len(truth), bool)

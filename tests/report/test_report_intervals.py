"""Intervals of a report: a ratio to the clean figure is paired over the images, few images have none and it says so."""

from __future__ import annotations

import math

import pytest
from synthetic_store import CLEAN, attack, fill_store

from gauntlet.metrics import SegmentationMetric
from gauntlet.metrics.intervals import ratio
from gauntlet.metrics.segmentation import estimates
from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.report.assembly import build_report
from gauntlet.report.document import Document
from gauntlet.report.tables import Interval, Table
from gauntlet.results import Store

PGD = attack("pgd", 4, 20)


def table(document: Document, title: str) -> Table:
    (found,) = [
        block
        for part in document.parts
        for section in part.sections
        for block in section.blocks
        if isinstance(block, Table) and block.title == title
    ]
    return found


def counts(store: Store, threat: str) -> CountTable:
    (key,) = store.frame().query("threat == @threat")["key"].unique()
    metric, started = store.metric(key), store.started(key)
    assert isinstance(metric, SegmentationMetric)
    assert started is not None
    confusions = [metric.decode(row.counts).confusion[0] for row in store.image_rows(started)]
    return CountTable.of(confusions, len(metric.class_names))


def test_the_interval_of_a_ratio_is_paired_over_the_images() -> None:
    store = fill_store(Store(), ("one",), (CLEAN, PGD), images=12)
    (row,) = table(build_report(store), "mIoU ratio by threat").rows
    cell = row[1]
    assert isinstance(cell, Interval)
    attacked, clean = counts(store, PGD.name), counts(store, CLEAN.name)
    expected = ratio(attacked, clean, estimates.miou)
    assert (cell.value, cell.low, cell.high) == pytest.approx((expected.value, expected.low, expected.high), abs=1e-12)
    alone, of_clean = estimates.miou(attacked).interval(), estimates.miou(clean).value
    assert cell.low != pytest.approx(alone.low / of_clean, abs=1e-3)  # as if the clean figure were certain


def test_seven_images_have_no_interval_and_the_words_say_how_many_it_takes() -> None:
    document = build_report(fill_store(Store(), ("one", "two"), (CLEAN, PGD), images=7))
    for title in ("mIoU by threat", "mIoU ratio by threat"):
        found = table(document, title)
        assert "An interval needs at least 8 images." in found.caption
        assert all(math.isnan(each.low) for row in found.rows for each in row if isinstance(each, Interval))
    eight = build_report(fill_store(Store(), ("one", "two"), (CLEAN, PGD), images=8))
    assert "needs at least" not in table(eight, "mIoU by threat").caption
    assert any(not math.isnan(each.low) for row in table(eight, "mIoU by threat").rows for each in row
               if isinstance(each, Interval))  # fmt: skip

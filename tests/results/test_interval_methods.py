"""Intervals of stores: made by one method, or left out and made anew from the counts."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import pytest

import gauntlet
from gauntlet.metrics.intervals import METHOD
from gauntlet.models import SegmentationModel
from gauntlet.results import Store, open_store, schema
from gauntlet.results.checksums import seal
from tiny import TinyDataset, tiny_network


def network() -> SegmentationModel:
    return gauntlet.wrap_model(tiny_network(), num_classes=3, mean=[0.5] * 3, std=[0.5] * 3)


def made_by_an_older_method(path: Path) -> Store:
    """A store of eight images whose intervals say that they are of the percentile bootstrap."""
    store = open_store(path)
    gauntlet.evaluate(network(), TinyDataset(8), store=store)
    table, figures = schema.evaluations, schema.figures
    with store._database.write() as connection:
        (number,) = connection.execute(table.select().with_only_columns(table.c.id)).scalars()
        connection.execute(table.update().values(intervals=""))
        connection.execute(figures.update().where(figures.c.low.is_not(None)).values(low=0.1, high=0.2))
        seal(connection, number)
    return store


def test_intervals_of_an_older_method_are_left_out_with_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with made_by_an_older_method(tmp_path / "old.db") as store:
        (key,) = store.keys()
        assert store.outdated() == store.outdated(key) == [key]
        stored = store.load(key)
        assert stored is not None
        assert not stored.intervals
        assert not math.isnan(stored.figures["mIoU"])
        with caplog.at_level(logging.WARNING, logger="gauntlet"):
            frame = store.frame()
        assert frame["low"].isna().all()
        assert "intervals of 1 evaluation of the store" in caplog.text


def test_renewed_intervals_are_those_of_the_counts(tmp_path: Path) -> None:
    fresh = gauntlet.evaluate(network(), TinyDataset(8))
    with made_by_an_older_method(tmp_path / "old.db") as store:
        assert store.renew_intervals() == 1
        assert store.renew_intervals() == 0
        (key,) = store.keys()
        stored = store.load(key)
        assert stored is not None
        assert stored.intervals == fresh.intervals
        assert fresh.intervals["mIoU"][0] < fresh.figures["mIoU"] < fresh.intervals["mIoU"][1]
        assert store.frame()["low"].notna().any()


@pytest.mark.parametrize("read_only", [False, True])
def test_the_same_evaluation_again_renews_them(tmp_path: Path, read_only: bool) -> None:
    made_by_an_older_method(tmp_path / "old.db").close()
    with open_store(tmp_path / "old.db", read_only=read_only) as store:
        again = gauntlet.evaluate(network(), TinyDataset(8), store=store)
        assert again.from_store
        assert again.intervals == gauntlet.evaluate(network(), TinyDataset(8)).intervals
        assert bool(store.outdated()) is read_only


def test_new_evaluations_say_their_method() -> None:
    store = Store()
    gauntlet.evaluate(network(), TinyDataset(8), store=store)
    with store._database.read() as connection:
        assert connection.execute(schema.evaluations.select()).mappings().one()["intervals"] == METHOD
    assert not store.outdated()

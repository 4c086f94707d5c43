"""A store on a bad day: a disk that is full, a place that cannot be written, a slow path, a clock that jumps."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from gauntlet.errors import GauntletError
from gauntlet.evaluation import evaluate
from gauntlet.models import SegmentationModel
from gauntlet.results import open_store
from tiny import TinyDataset

SAME = ["key", "view", "metric", "class_name", "value", "low", "high"]


@contextmanager
def full_disk(bytes_left: int, path: Path) -> Iterator[None]:
    """Inside, no file of this process grows beyond what this one has now and some bytes more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + bytes_left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_and_nothing_is_lost(tiny_model: SegmentationModel, tmp_path: Path) -> None:
    path, data = tmp_path / "results.db", TinyDataset(6)
    expected = evaluate(tiny_model, data, "clean", batch_size=2)
    with open_store(path) as store:
        evaluate(tiny_model, TinyDataset(2), "clean", store=store)
    with open_store(path) as store:
        before = store.frame()[SAME]
        with full_disk(-4096, path), pytest.raises(GauntletError, match=r"cannot be used: .*(full|I/O|disk)"):
            evaluate(tiny_model, data, "clean", store=store, batch_size=2)
        after = store.frame()[SAME]
        assert after.equals(before)
    with open_store(path) as store:  # there is room again
        result = evaluate(tiny_model, data, "clean", store=store, batch_size=2)
    assert result.figures == expected.figures


def test_a_place_that_cannot_be_written_is_said(tiny_model: SegmentationModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(GauntletError, match=r"the folder of the store .* cannot be made"):
        open_store(tmp_path / "file" / "inside" / "results.db")
    with open_store(tmp_path / "results.db") as store:
        stored = evaluate(tiny_model, TinyDataset(2), "clean", store=store)
    before = (tmp_path / "results.db").read_bytes()
    with open_store(tmp_path / "results.db", read_only=True) as store:
        with pytest.raises(GauntletError, match="cannot be used: attempt to write a readonly database"):
            evaluate(tiny_model, TinyDataset(3), "clean", store=store)
        assert evaluate(tiny_model, TinyDataset(2), "clean", store=store).figures == stored.figures
    assert (tmp_path / "results.db").read_bytes() == before


def test_a_slow_path_changes_nothing(tiny_model: SegmentationModel, tmp_path: Path) -> None:
    expected = evaluate(tiny_model, TinyDataset(4), "clean", batch_size=2)
    waits = []
    with open_store(tmp_path / "results.db") as store:

        @event.listens_for(store._database._engine, "before_cursor_execute")
        def wait(*_: Any) -> None:
            waits.append(1)
            time.sleep(0.002)

        assert evaluate(tiny_model, TinyDataset(4), "clean", store=store, batch_size=2).figures == expected.figures
    assert len(waits) > 5


class Jumping(datetime):
    """A clock that goes back a day at every look."""

    looks = 0

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        cls.looks += 1
        return datetime(2026, 3, 1, tzinfo=tz or timezone.utc) - timedelta(days=cls.looks)


def test_a_clock_that_jumps_changes_nothing(
    tiny_model: SegmentationModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = evaluate(tiny_model, TinyDataset(4), "clean", batch_size=2)
    for module in ("provenance", "execution.run_log"):
        monkeypatch.setattr(f"gauntlet.evaluation.{module}.datetime", Jumping)
    with open_store(tmp_path / "results.db") as store:
        first = evaluate(tiny_model, TinyDataset(4), "clean", store=store, batch_size=2)
        again = evaluate(tiny_model, TinyDataset(4), "clean", store=store, batch_size=2)
        assert store.count() == 1
    assert Jumping.looks > 0
    assert first.figures == again.figures == expected.figures

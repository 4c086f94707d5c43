"""The store, on SQLite and (when GAUNTLET_TEST_POSTGRES names a server) on PostgreSQL."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sqlite3
import uuid
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import create_engine, text

from gauntlet.errors import GauntletError
from gauntlet.evaluation import evaluate
from gauntlet.metrics import WHOLE, Figure
from gauntlet.metrics.segmentation.counts import SCALARS, ImageCounts
from gauntlet.models import wrap_model
from gauntlet.results import Job, Store, open_store
from gauntlet.results.record import ImageRow, Recorded
from tiny import TinyDataset, tiny_network

METRIC = {"class_names": ["a", "b"], "ignore_index": 255, "background_index": None}
PROVENANCE = {"started": "2026-01-01T00:00:00+00:00", "torch": "2"}
POSTGRES = os.environ.get("GAUNTLET_TEST_POSTGRES")


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param(
            "postgres", marks=pytest.mark.skipif(not POSTGRES, reason="GAUNTLET_TEST_POSTGRES names no server")
        ),
    ]
)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty store."""
    if request.param == "sqlite":
        yield str(tmp_path / "deep" / "results.db")
        return
    assert POSTGRES is not None
    name = f"gauntlet_{uuid.uuid4().hex[:12]}"
    admin = create_engine(POSTGRES, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield POSTGRES.rsplit("/", 1)[0] + f"/{name}"
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


def job(threat: str = "clean", seed: int = 0, model: str = "m") -> Job:
    dataset = {"name": "d", "split": "val", "length": 4, "ids": "x", "protocol": {}}
    return Job("segmentation", model, "digest", dataset, threat, threat, {threat: {}}, 1, seed)


def row(position: int, right: int = 3) -> ImageRow:
    counts = ImageCounts(np.array([[[right, 1], [0, 4]]]), np.full((1, len(SCALARS)), math.nan))
    return ImageRow(position, f"image{position}", counts.to_bytes(), {"queries": position})


def complete(store: Store, each: Job, figures: list[Figure] | None = None) -> None:
    started = store.begin(each, images=2, batch_size=2, metric=METRIC, provenance=PROVENANCE)
    store.add_images(started, [row(0), row(1)], WHOLE, 1.5)
    store.finish(
        started,
        figures
        or [Figure("mIoU", 0.5, low=0.4, high=0.6), Figure("mAcc", math.nan), Figure("IoU", 0.25, class_name="a")],
    )


def test_an_evaluation_survives_the_round_trip(address: str) -> None:
    with open_store(address) as store:
        assert store.load(job().key) is None
        complete(store, job())
    with open_store(address) as store:
        actual = store.load(job().key)
    assert actual is not None
    assert actual.from_store
    assert actual.figures["mIoU"] == 0.5
    assert actual.intervals == {"mIoU": (0.4, 0.6)}
    assert math.isnan(actual.figures["mAcc"])
    assert actual.per_class.loc["a", "IoU"] == 0.25
    assert (actual.images, actual.duration, actual.provenance) == (2, 1.5, PROVENANCE)
    assert actual.as_dict()["figures"] == {"mIoU": 0.5, "mAcc": None}
    assert actual.dataset_identity == actual.as_dict()["dataset_identity"] == job().dataset


def test_what_another_writer_finishes_meanwhile_is_no_damage(address: str) -> None:
    """A reader asks for figures, and then for records: both are of one moment."""
    with open_store(address) as store, open_store(address) as other:
        started = other.begin(job(), images=2, batch_size=2, metric=METRIC, provenance=PROVENANCE)
        other.add_images(started, [row(0), row(1)], WHOLE, 1.5)
        with store._database.read() as connection:
            assert connection.execute(text("SELECT count(*) FROM figures")).scalar_one() == 0
            other.finish(started, [Figure("mIoU", 0.5)])
            assert connection.execute(text("SELECT count(*) FROM figures")).scalar_one() == 0
            assert connection.execute(text("SELECT state FROM evaluations")).scalar_one() == "running"
        assert store.keys() == [job().key]


def test_an_old_result_takes_the_place_of_one_that_was_begun(address: str) -> None:
    new = replace(job(), code="new")
    with open_store(address) as store:
        complete(store, job())
        store.begin(new, images=2, batch_size=2, metric=METRIC, provenance=PROVENANCE)
        store.adopt(job().key, Recorded.of(new), ["a", "b"], {"images": 1})
        assert store.keys() == [new.key]
        assert store.damage() == {}


def test_per_image_figures_are_computed_from_the_counts(address: str) -> None:
    with open_store(address) as store:
        complete(store, job())
        frame = store.per_image(job().key)
        with pytest.raises(GauntletError, match="no complete evaluation"):
            store.per_image("nothing")
    assert frame["image_id"].tolist() == ["image0", "image1"]
    assert frame["accuracy"].tolist() == pytest.approx([7 / 8] * 2)
    assert frame["mIoU"].tolist() == pytest.approx([(3 / 4 + 4 / 5) / 2] * 2)
    assert frame["queries"].tolist() == [0, 1]


def test_an_unfinished_evaluation_is_not_a_result_but_its_images_are_kept(address: str) -> None:
    with open_store(address) as store:
        started = store.begin(job(), images=4, batch_size=2, metric=METRIC, provenance=PROVENANCE)
        store.add_images(started, [row(0), row(1)], WHOLE)
        assert store.load(job().key) is None
        assert store.frame().empty
        again = store.begin(job(), images=4, batch_size=8, metric=METRIC, provenance=PROVENANCE)
        assert (again.id, again.batch_size, again.views) == (started.id, 2, WHOLE)  # whoever began it decides
        assert store.positions(again) == {0, 1}
        assert store.states([job().key, "other"]) == {job().key: "running"}
        with pytest.raises(GauntletError, match="no complete evaluation"):
            store.recompute(job().key)
        store.add_images(again, [row(2), row(3)], WHOLE)
        store.finish(again, [Figure("mIoU", 0.5)])
        assert {each.metric: each.value for each in store.recompute(job().key)}["aAcc"] == pytest.approx(7 / 8)


def test_a_row_is_written_once(address: str) -> None:
    with open_store(address) as store:
        started = store.begin(job(), images=4, batch_size=2, metric=METRIC, provenance=PROVENANCE)
        store.add_images(started, [row(0, right=3)], WHOLE)
        store.add_images(started, [row(0, right=9), row(1)], WHOLE)
        stored = list(store.image_rows(started))
    assert [each.position for each in stored] == [0, 1]
    assert ImageCounts.from_bytes(stored[0].counts).confusion[0, 0, 0] == 3


def test_frame_is_tidy_and_exports(address: str, tmp_path: Path) -> None:
    with open_store(address) as store:
        complete(store, job())
        complete(store, job("fog"))
        frame = store.frame()
        assert store.count() == 2
        assert store.keys() == [job().key, job("fog").key]
        for ending, read in ((".csv", pd.read_csv), (".json", pd.read_json), (".parquet", pd.read_parquet)):
            written = read(store.export(tmp_path / f"out{ending}"))
            assert len(written) == len(frame) == 6
            assert written["value"].sum() == pytest.approx(frame["value"].sum())
        with pytest.raises(GauntletError, match=r"must be \.csv, \.json or \.parquet"):
            store.export(tmp_path / "out.xls")
    assert frame.loc[frame.metric == "mIoU", "threat"].tolist() == ["clean", "fog"]
    assert set(frame["description"]) == {'{"clean": {}}', '{"fog": {}}'}


def test_a_figure_says_which_images_it_belongs_to(address: str) -> None:
    other = replace(job(), dataset={**job().dataset, "protocol": {"name": "half"}})
    with open_store(address) as store:
        for each in (job(), job("fog"), other):
            complete(store, each)
        frame = store.frame()
        actual = {each.key: store.load(each.key) for each in (job(), job("fog"), other)}
    digests = frame.drop_duplicates("key").set_index("key")["dataset_digest"]
    assert digests[job().key] == digests[job("fog").key] != digests[other.key]
    for key, evaluation in actual.items():
        assert evaluation is not None
        assert evaluation.dataset_digest == digests[key]


def test_delete_removes_everything(address: str) -> None:
    with open_store(address) as store:
        complete(store, job())
        assert store.delete(job().key)
        assert not store.delete(job().key)
        assert store.started(job().key) is None
        assert store.frame().empty


def _write_many(address: str, worker: int, evaluations: int) -> None:
    with open_store(address) as store:
        for number in range(evaluations):
            started = store.begin(job(seed=number), images=6, batch_size=2, metric=METRIC, provenance=PROVENANCE)
            for start in range(0, 6, 2):
                store.add_images(started, [row(start), row(start + 1)], WHOLE)
            store.finish(started, [Figure("mIoU", 0.5)])


@pytest.mark.slow
def test_several_processes_write_at_once_without_loss_or_duplicates(address: str) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write_many, args=(address, worker, 8)) for worker in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    with open_store(address) as store:
        assert store.count() == 8
        assert len(store.frame()) == 8
        for number in range(8):
            started = store.started(job(seed=number).key)
            assert started is not None
            assert store.positions(started) == set(range(6))


def _write_until_killed(address: str, ready: Event) -> None:
    with open_store(address) as store:
        number = 0
        while True:
            started = store.begin(job(seed=number), images=2, batch_size=2, metric=METRIC, provenance=PROVENANCE)
            store.add_images(started, [row(0), row(1)], WHOLE)
            store.finish(started, [Figure("mIoU", 0.5), Figure("aAcc", 0.7)])
            number += 1
            if number == 5:
                ready.set()


@pytest.mark.slow
def test_a_killed_writer_leaves_no_half_written_evaluation(address: str) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    worker = context.Process(target=_write_until_killed, args=(address, ready))
    worker.start()
    assert ready.wait(60)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    with open_store(address) as store:
        assert store.count() >= 5
        assert (store.frame().groupby("key").size() == 2).all()  # both figures or none


def test_a_newer_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    open_store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    before = path.read_bytes()
    with pytest.raises(GauntletError, match=r"written by a newer Gauntlet \(schema 99"):
        open_store(path)
    assert path.read_bytes() == before


def test_bad_addresses_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match="is a folder"):
        open_store(tmp_path)
    with pytest.raises(GauntletError, match="there is no store at"):
        open_store(tmp_path / "missing.db", read_only=True)
    (tmp_path / "notes.txt").write_text("this is not a database, it is a text file of some length" * 20)
    with pytest.raises(GauntletError, match="cannot be used: file is not a database"):
        open_store(tmp_path / "notes.txt")
    with pytest.raises(GauntletError, match="no driver for nosuch"):
        open_store("nosuch://host/name")


def test_the_key_depends_on_everything_that_changes_figures_and_on_nothing_else() -> None:
    assert job().key == job().key
    changed = [job("fog"), job(seed=1), job(model="n")]
    assert len({job().key, *(each.key for each in changed)}) == 4
    renamed = Job(**{**job().__dict__, "threat": "another readable name"})
    assert renamed.key == job().key
    assert Job(**{**job().__dict__, "settings": {"precision": "bf16"}}).key != job().key
    assert Job(**{**job().__dict__, "threat_version": 2}).key != job().key


def test_a_writer_that_lost_its_evaluation_cannot_hit_another(address: str) -> None:
    """One run computes X, another deletes X and begins Y: X's counts must not become Y's."""
    with open_store(address) as store:
        lost = store.begin(job("x"), images=2, batch_size=2, metric=METRIC, provenance=PROVENANCE)
        store.delete(job("x").key)
        other = store.begin(job("y"), images=2, batch_size=2, metric=METRIC, provenance=PROVENANCE)
        with pytest.raises(GauntletError, match=r"was removed from .* while it ran"):
            store.add_images(lost, [row(0)], WHOLE)
        with pytest.raises(GauntletError, match=r"was removed from .* while it ran"):
            store.finish(lost, [Figure("mIoU", 0.5)])
        assert store.positions(other) == set()
        assert other.id != lost.id


def test_reading_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "foreign.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(GauntletError, match="is not a Gauntlet store"):
        open_store(path, read_only=True)
    assert path.read_bytes() == before


def test_texts_of_frames_are_pythons_own(tmp_path: Path) -> None:
    """Those of a store, and those that an evaluation of several models gives, have the same kinds of columns."""
    with Store(tmp_path / "r.db") as store:
        model = wrap_model(tiny_network(), num_classes=3, name="tiny-net")
        given = evaluate([model], TinyDataset(2), ["clean", "fgsm"], store=store)
        assert dict(given.dtypes) == dict(store.frame().dtypes)
    assert not any(isinstance(kind, pd.StringDtype) for kind in given.dtypes)

"""The same evaluation asked twice at once is computed once, by real processes, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from sqlalchemy import select
from test_store import address  # noqa: F401 - the fixture: an empty store of each kind

from gauntlet.evaluation import evaluate
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.models import wrap_model
from gauntlet.results import Store, open_store
from gauntlet.results import claims as claims_module
from gauntlet.results.schema import claims as table
from tiny import TinyDataset, tiny_network

IMAGES, TOGETHER = 6, 2
ELSEWHERE = "another-host 17 1 abcd"


class Talking(Silent):
    """Writes notes into a file."""

    def __init__(self, path: Path) -> None:
        self._path, self._notes = path, dict[str, None]()

    def note_once(self, text: str) -> None:
        self._notes[text] = None
        self._path.write_text("\n".join(self._notes))


HERE = threading.local()
"""What the passes of a driver look at: no part of the model, which is the same for all drivers."""


def count(_: object, given: tuple[torch.Tensor, ...]) -> None:
    if given[0].shape[-2:] != (16, 24):  # of the probe
        return
    while len(HERE.passes) >= HERE.free and not (HERE.folder / "go").exists():
        (HERE.folder / f"{HERE.name} computes").touch()
        time.sleep(0.01)
    HERE.passes.append(len(given[0]))
    (HERE.folder / f"{HERE.name} passes").write_text(json.dumps(HERE.passes))


def drive(store: str, folder: Path, name: str, free: int = 0) -> None:
    """Evaluates into a store; every pass is written down, and after `free` of them waits for the file "go"."""
    network = tiny_network()
    HERE.folder, HERE.name, HERE.free, HERE.passes = folder, name, free, list[int]()
    network.register_forward_pre_hook(count)
    model = wrap_model(network, num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name="tiny-net")
    progress = Talking(folder / f"{name} says")
    try:
        with open_store(store) as opened:
            data = TinyDataset(IMAGES)
            found = evaluate(model, data, "clean", store=opened, batch_size=TOGETHER, device="cpu", progress=progress)
        (folder / f"{name} found").write_text(json.dumps(found.figures))
    except KeyboardInterrupt:
        (folder / f"{name} was interrupted").touch()


Driver = Callable[..., ForkProcess]


@pytest.fixture
def driver() -> Iterator[Driver]:
    """Starts `drive` in a process; none outlives its test."""
    started: list[ForkProcess] = []

    def drive_alone(*args: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are deaf to Ctrl-C
        drive(*args)

    def start(store: str, folder: Path, name: str, free: int = 0) -> ForkProcess:
        process = multiprocessing.get_context("fork").Process(target=drive_alone, args=(store, folder, name, free))
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.join()


def wait_for(there: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not there():
        assert time.monotonic() < limit, "it never happened"
        time.sleep(0.01)


def read(folder: Path, what: str) -> str:
    return (folder / what).read_text() if (folder / what).exists() else ""


def owners(store: Store) -> list[str]:
    with store._database.read() as connection:
        return list(connection.execute(select(table.c.owner)).scalars())


def put_claim(store: Store, key: str, beat: int = 0) -> None:
    """The claim of a driver on another machine, with some beat."""
    with store._database.write() as connection:
        connection.execute(table.delete().where(table.c.key == key))
        connection.execute(table.insert().values(key=key, owner=ELSEWHERE, beat=beat))


def test_a_second_process_waits_and_reads(address: str, tmp_path: Path, driver: Driver) -> None:  # noqa: F811
    first = driver(address, tmp_path, "first")
    wait_for((tmp_path / "first computes").exists)
    second = driver(address, tmp_path, "second")
    wait_for(lambda: f"waiting for process {first.pid} on " in read(tmp_path, "second says"))
    impatient = driver(address, tmp_path, "impatient")
    wait_for(lambda: "waiting for process" in read(tmp_path, "impatient says"))
    assert impatient.pid is not None
    os.kill(impatient.pid, signal.SIGINT)
    wait_for((tmp_path / "impatient was interrupted").exists)
    (tmp_path / "go").touch()
    for process in (first, second, impatient):
        process.join(60)
        assert process.exitcode == 0
    assert json.loads(read(tmp_path, "first passes")) == [TOGETHER] * (IMAGES // TOGETHER)
    assert not (tmp_path / "second passes").exists()
    assert read(tmp_path, "second found") == read(tmp_path, "first found") != ""
    assert len(read(tmp_path, "second says").splitlines()) == 1
    with open_store(address) as store:
        assert (store.count(), owners(store)) == (1, [])


def test_a_killed_process_is_taken_over_where_it_was(address: str, tmp_path: Path, driver: Driver) -> None:  # noqa: F811
    first = driver(address, tmp_path, "first", free=1)
    wait_for((tmp_path / "first computes").exists)  # two images are committed, the others wait
    first.kill()
    first.join(60)
    with open_store(address) as store:
        assert len(owners(store)) == 1
    (tmp_path / "go").touch()
    drive(address, tmp_path, "second")
    assert json.loads(read(tmp_path, "second passes")) == [TOGETHER] * (IMAGES // TOGETHER - 1)
    assert read(tmp_path, "second says") == (
        f"process {first.pid} on {socket.gethostname()} has stopped; what it left of its evaluations is taken over."
    )
    with open_store(address) as store:
        assert (store.count(), owners(store)) == (1, [])


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(claims_module, "time", moved)
    return moved


def test_a_claim_elsewhere_is_taken_over_when_its_beat_stands_still(address: str, clock: Clock) -> None:  # noqa: F811
    said: list[str] = []
    with open_store(address) as store, store.claims(said.append) as claims:
        for beat in range(4):  # it lives for longer than anybody's patience
            put_claim(store, "key", beat)
            assert not claims.take("key")
            clock.now += 0.8 * claims_module.PATIENCE
        assert not claims.take("key")
        clock.now += 0.3 * claims_module.PATIENCE
        assert claims.take("key")
        assert claims.waited_for("key")
        assert owners(store) != [ELSEWHERE]
    assert set(said) == {
        "waiting for process 17 on another-host, which computes some of these evaluations; the others come first.",
        "process 17 on another-host has stopped; what it left of its evaluations is taken over.",
    }


def test_what_others_have_comes_last(address: str, clock: Clock) -> None:  # noqa: F811
    with open_store(address) as store, store.claims(lambda _: None) as claims:
        put_claim(store, "held")
        assert list(claims.in_turn(["held", "free", "free too"])) == [1, 2, 0]
        assert owners(store) == []


def test_the_owner_beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_module, "BEAT", 0.005)
    with open_store(tmp_path / "results.db") as store, store.claims(lambda _: None) as claims:
        assert claims.take("key")

        def beat() -> int:
            with store._database.read() as connection:
                return int(connection.execute(select(table.c.beat)).scalar_one())

        wait_for(lambda: beat() >= 3)


def test_threads_of_one_process_share_the_work(tmp_path: Path) -> None:
    store = str(tmp_path / "results.db")
    first = threading.Thread(target=drive, args=(store, tmp_path, "first"))
    first.start()
    wait_for((tmp_path / "first computes").exists)
    second = threading.Thread(target=drive, args=(store, tmp_path, "second"))
    second.start()
    wait_for(lambda: "waiting for process" in read(tmp_path, "second says"))
    (tmp_path / "go").touch()
    for thread in (first, second):
        thread.join(60)
    assert json.loads(read(tmp_path, "first passes")) == [TOGETHER] * (IMAGES // TOGETHER)
    assert not (tmp_path / "second passes").exists()
    assert read(tmp_path, "second found") == read(tmp_path, "first found") != ""


def test_a_driver_inside_a_driver_does_not_wait_for_itself(tmp_path: Path) -> None:
    with open_store(tmp_path / "results.db") as store, store.claims(lambda _: None) as outer:
        assert outer.take("key")
        with store.claims(lambda _: None) as inner:
            assert inner.take("key")


def test_a_damaged_claim_holds_up_nobody(tmp_path: Path) -> None:
    with open_store(tmp_path / "results.db") as store, store.claims(lambda _: None) as claims:
        with store._database.write() as connection:
            connection.execute(table.insert().values(key="key", owner="nonsense", beat=0))
        assert claims.take("key")


def test_a_store_in_memory_is_nobody_elses() -> None:
    store = Store()
    with store.claims(lambda _: None) as one, store.claims(lambda _: None) as other:
        assert one.take("key")
        assert other.take("key")
        assert owners(store) == []

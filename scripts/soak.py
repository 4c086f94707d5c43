"""Long trials of what is promised: killed runs, several writers, memory; docs/reliability.md has the figures.

    python scripts/soak.py kill --times 100 --folder soak       # kill -9 at random moments; figures stay the same
    python scripts/soak.py writers --minutes 30 --folder soak   # two drivers on one store
    python scripts/soak.py memory --images 10000 --folder soak  # flat memory, no open files left behind
    python scripts/soak.py hosts --folder soak                  # a Ray cluster with bad hosts; root only

Everything is tiny and computed with one thread. A driver is a fork of this process, which has imported everything, so
that a trial costs no start. --postgres URL tries a PostgreSQL store too; --restart COMMAND, last, is what restarts its
server under load, such as pg_ctl -D FOLDER -m immediate -w restart. A driver on Ray starts one of its own. A soak
that was stopped goes on where it was: the store it left is taken up.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import hashlib
import io
import json
import os
import random
import re
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "training")]
os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[:2], os.environ.get("PYTHONPATH", "")])

import numpy as np  # noqa: E402
import torch  # noqa: E402
import yaml  # noqa: E402
from PIL import Image  # noqa: E402
from sqlalchemy import create_engine, select  # noqa: E402
from training_squares import recipe  # noqa: E402

import namespaces  # noqa: E402
import nets  # noqa: E402
from gauntlet.cli import app as application  # noqa: E402
from gauntlet.cli import commands  # noqa: E402, F401 - registers the commands
from gauntlet.evaluation import evaluate  # noqa: E402
from gauntlet.models import wrap_model  # noqa: E402
from gauntlet.results import Store, open_store  # noqa: E402
from gauntlet.results.schema import claims  # noqa: E402
from tiny import TinyDataset, tiny_network  # noqa: E402
from tiny_detector import TinyBoxes, tiny_detector  # noqa: E402

SMALL = {"name": "streets", "options": {"size": [32, 64], "length": 8}}
NETWORK = {"address": "python:nets:street_network", "options": {"num_classes": 11}}
SEGMENTATION: dict[str, Any] = {
    "models": [NETWORK],
    "datasets": [SMALL],
    "threats": [
        "clean",
        "fog",
        {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 6}},
        {"battery": {"name": "semsegbench", "epsilon": "8/255", "steps": 3}},
        {"certify": {"sigma": 0.25, "n0": 5, "n": 40, "tau": 0.6}},
    ],
    "batch_size": 2,
    "prepare": "off",
}
DETECTION = {
    **SEGMENTATION,
    "models": ["streets/fcos"],
    "datasets": [{"name": "streets", "options": {"size": [64, 96], "length": 4}}],
    "threats": ["clean", {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 2}}],
}
KILLS_OF_A_RUN = 2
"""Workers that are killed during a run: a unit during which three died is set aside, as it should be."""
PLANS = {"segmentation": SEGMENTATION, "detection": DETECTION}
SAME = ["key", "view", "metric", "class_name", "value", "low", "high"]


# Drivers ----------------------------------------------------------------------------------------------------------


def start(arguments: list[str], folder: Path) -> int:
    """Runs the program in a fork of this process, in a session of its own; its process id."""
    process = os.fork()
    if process:
        return process
    os.setsid()
    torch.set_num_threads(1)
    log = os.open(folder / "drivers.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for number in (1, 2):
        os.dup2(log, number)
    sys.argv = ["gauntlet", *arguments]
    code = 1
    try:
        application.main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        os._exit(code)


def of_session(leader: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


def wait(process: int) -> int:
    """The exit code of a driver; negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def run_arguments(plan: Path, store: str, workers: int, *, ray: bool = False) -> list[str]:
    where = ["--executor", "ray"] if ray else ["--device", "cpu"]
    return ["run", str(plan), "--store", store, "--json", "--workers", str(workers), *where]


# Checks -----------------------------------------------------------------------------------------------------------


def check_store(address: str) -> list[str]:
    """What is wrong with a store: the file itself, and evaluations that say they are complete and are not."""
    wrong: list[str] = []
    if "://" not in address:
        if not Path(address).exists():
            return wrong
        with sqlite3.connect(address, timeout=60) as connection:
            if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                wrong.append("integrity check")
            if connection.execute("PRAGMA foreign_key_check").fetchall():
                wrong.append("rows of nobody")
    with open_store(address) as store:
        frame = store.frame()
        for key, images in frame.groupby("key")["images"].first().items():
            started = store.started(str(key))
            if started is None or len(store.positions(started)) != images:
                wrong.append(f"{key} is complete without all of its images")
    return wrong


def figures_of(address: str) -> list[tuple[Any, ...]]:
    """Every figure, and the counts of every image, in an order of its own."""
    with open_store(address) as store:
        rows = store.frame()[SAME].astype(object).fillna("").itertuples(index=False, name=None)
        counts = [
            (key, row.position, hashlib.sha256(row.counts).hexdigest())
            for key in sorted(store.frame()["key"].unique())
            if (started := store.started(key)) is not None
            for row in store.image_rows(started)
        ]
    return [*sorted(map(tuple, rows), key=repr), *counts]


def claims_left(address: str) -> list[str]:
    """Claims on evaluations in a store that no driver works on."""
    engine = create_engine(address if "://" in address else f"sqlite:///{address}")
    with engine.connect() as connection:
        left = [f"left the claim {row.owner} on {row.key}" for row in connection.execute(select(claims))]
    engine.dispose()
    return left


def leftovers(folder: Path) -> list[str]:
    """Temporary files that nobody will remove."""
    parts = [str(each) for each in folder.rglob("*.part")]
    return parts + [str(each) for each in (folder / "tmp").glob("gauntlet-workers-*")]


def wait_for_end(processes: list[int], seconds: float = 240) -> list[int]:
    """Those of some processes that are still there after a while."""
    limit = time.monotonic() + seconds
    while (left := [each for each in processes if each in parents()]) and time.monotonic() < limit:
        time.sleep(0.2)
    return left


def parents() -> dict[int, int]:
    """The parent of every living process."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                found[int(entry.parent.name)] = int(parent)
    return found


def descendants(ancestor: int) -> list[int]:
    """The living processes that a process started, or that those did."""
    of = parents()
    found = {ancestor}
    while more := {each for each, parent in of.items() if parent in found} - found:
        found |= more
    return sorted(found - {ancestor})


def title(process: int) -> str:
    """The command line of a process, or what it wrote in its place."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


# Kill -------------------------------------------------------------------------------------------------------------


def kill(given: argparse.Namespace) -> int:
    """Kills drivers, workers, trainings and the server; compares what they end with to undisturbed runs."""
    folder: Path = given.folder.resolve()
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    os.environ.update(TMPDIR=str(folder / "tmp"), GAUNTLET_CACHE=str(folder / "cache"))
    os.chdir(folder)
    dice = random.Random(given.seed)
    plans = {}
    for name, content in PLANS.items():
        plans[name] = folder / f"{name}.yaml"
        plans[name].write_text(yaml.safe_dump(content))
        if not Path(f"quiet-{name}.db").exists():
            assert wait(start(run_arguments(plans[name], f"quiet-{name}.db", 1), folder)) == 0, "see drivers.log"
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe(epochs=6)))
    if not Path("quiet-trained/model.safetensors").exists():
        assert wait(start(["train", "recipe.yaml", "--output", "quiet-trained"], folder)) == 0, "see drivers.log"
    expected = {name: figures_of(f"quiet-{name}.db") for name in PLANS}
    weights = Path("quiet-trained/model.safetensors").read_bytes()
    kinds = given.kinds.split(",")
    tally: Counter[str] = Counter()
    faults: list[str] = []
    rounds = 0
    while sum(tally.values()) < given.times:
        kind = dice.choice(kinds)
        name = dice.choice(list(PLANS))
        if kind == "train":
            tally[kind] += _kill_training(folder, weights, dice, given.patience, faults)
        else:
            address = given.postgres if kind == "server" else f"disturbed-{name}.db"
            killed, code = _kill_run(kind, plans[name], address, folder, dice, given)
            tally[kind] += killed
            if code and kind != "server":  # whose loss ends a run with a sentence
                faults.append(f"{kind} {name}: a run ended with {code}, see drivers.log")
            faults += [f"{kind} {name}: {each}" for each in check_store(address)]
            if code == 0:
                rounds += 1
                keys = {row[0] for row in expected[name]}
                if [row for row in figures_of(address) if row[0] in keys] != expected[name]:
                    faults.append(f"{kind} {name}: other figures")
                _remove(address, keys)
                faults += [f"{kind} {name}: {each}" for each in claims_left(address) if kind != "server"]
        faults += [f"{kind}: left {each}" for each in leftovers(folder)]
        print(json.dumps({"killed": dict(tally), "finished": rounds, "faults": faults}), flush=True)
    return 1 if faults else 0


def _remove(address: str, keys: set[str]) -> None:
    """Takes the evaluations of a plan out of a store, so that the next run computes them again."""
    with open_store(address) as store:
        for key in keys:
            store.delete(key)


def _kill_run(
    kind: str, plan: Path, address: str, folder: Path, dice: random.Random, given: argparse.Namespace
) -> tuple[int, int | None]:
    """One run that is disturbed: how often it was, and its exit code, or None where it was killed itself."""
    alone, ray = kind in ("driver", "server"), kind.startswith("ray")
    process = start(run_arguments(plan, address, 1 if alone else 2, ray=ray), folder)

    def workers() -> list[int]:
        return [each for each in descendants(process) if not ray or title(each).startswith("ray::Worker")]

    if not alone:  # processes that import torch take their time: what is disturbed is work, not a start
        while not workers() and not _ended(process):
            time.sleep(0.05)
    patience = time.monotonic() + dice.uniform(0.05, given.patience * (1 if alone else 8))
    killed = 0
    while True:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return killed, os.waitstatus_to_exitcode(status)
        if time.monotonic() < patience:
            time.sleep(0.01)
            continue
        if kind == "server":
            subprocess.run([*given.restart], check=True, stdout=subprocess.DEVNULL)
            return 1, wait(process)  # it ends with a sentence, or did not notice
        if kind in ("worker", "ray-worker"):
            if killed < KILLS_OF_A_RUN and (living := workers()):
                with suppress(ProcessLookupError):
                    os.kill(dice.choice(living), signal.SIGKILL)
                    killed += 1
            patience = time.monotonic() + dice.uniform(0.5, given.patience * 8)
            continue
        family = descendants(process)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        left = wait_for_end([*family, *of_session(process)])
        if left:
            raise SystemExit(f"processes {left} of a killed driver are still there")
        return 1, None


def _ended(process: int) -> bool:
    """Whether a driver has ended; it can still be waited for."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill_training(folder: Path, weights: bytes, dice: random.Random, patience: float, faults: list[str]) -> int:
    process = start(["train", "recipe.yaml", "--output", "disturbed-trained"], folder)
    until = time.monotonic() + dice.uniform(0.05, patience)
    while time.monotonic() < until:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            if os.waitstatus_to_exitcode(status) != 0:
                faults.append("training failed, see drivers.log")
            elif Path("disturbed-trained/model.safetensors").read_bytes() != weights:
                faults.append("training: other weights")
            for file in Path("disturbed-trained").iterdir():
                file.unlink()
            return 0
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return 1


# Writers ----------------------------------------------------------------------------------------------------------


def writers(given: argparse.Namespace) -> int:
    """Two drivers on one store, asked for the same, round after round with other seeds.

    Every figure is as one driver alone has it, and every evaluation was computed by one of the two.
    """
    folder: Path = given.folder.resolve()
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    os.environ.update(TMPDIR=str(folder / "tmp"), GAUNTLET_CACHE=str(folder / "cache"))
    os.chdir(folder)
    addresses = ["sqlite/both.db", *([given.postgres] if given.postgres else [])]
    begun, faults, rounds, evaluations = time.monotonic(), [], 0, 0
    while time.monotonic() - begun < 60 * given.minutes:
        plan = Path("writers.yaml")
        plan.write_text(yaml.safe_dump({**SEGMENTATION, "seeds": [rounds, rounds + 1]}))
        Path("alone/alone.db").unlink(missing_ok=True)
        if wait(start(run_arguments(plan, "alone/alone.db", 1), folder)):
            faults.append(f"round {rounds}: one driver alone failed")
        expected = figures_of("alone/alone.db")
        keys = {row[0] for row in expected}
        for address in addresses:
            pair = [start(run_arguments(plan, address, 1), folder) for _ in range(2)]
            if [code for code in map(wait, pair) if code]:
                faults.append(f"round {rounds}: a driver failed on {address}, see drivers.log")
            faults += [f"round {rounds}: {each}" for each in [*check_store(address), *claims_left(address)]]
            if [row for row in figures_of(address) if row[0] in keys] != expected:
                faults.append(f"round {rounds}: other figures in {address}")
            computed = computed_in(Path("gauntlet-logs" if "://" in address else "sqlite/gauntlet-logs"))
            faults += [
                f"round {rounds}: {key} was computed {computed[key]} times in {address}"
                for key in keys
                if computed[key] != 1
            ]
        rounds += 1
        evaluations += len(keys) * len(addresses)
        minutes = (time.monotonic() - begun) / 60
        done = {"minutes": round(minutes, 1), "rounds": rounds, "evaluations": evaluations}
        print(json.dumps({**done, "faults": faults}), flush=True)
    return 1 if faults else 0


def computed_in(folder: Path) -> Counter[str]:
    """How often every evaluation was computed by the runs that logged into a folder."""
    lines = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return Counter(line["key"] for line in lines if line["event"] == "job_finished")


# Memory -----------------------------------------------------------------------------------------------------------


def kinds_of_evaluation() -> Iterator[tuple[str, Any, Any]]:
    """A name, a model and a threat for every kind of evaluation."""
    network = wrap_model(tiny_network(), num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name="tiny-net")
    detector = tiny_detector()
    pgd = {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 2}}
    yield "clean", network, "clean"
    yield "corruption", network, "gaussian_noise"
    yield "attack", network, pgd
    yield (
        "localized",
        network,
        {"localized": {"corruption": {"name": "contrast", "severity": 3}, "ratio": 0.5, "patch": 8}},
    )
    yield "geometric", network, {"geometric": {"name": "rotation", "degrees": 10}}
    yield "certification", network, {"certify": {"sigma": 0.25, "n0": 2, "n": 30, "tau": 0.6}}
    yield "battery", network, {"battery": {"name": "semsegbench", "epsilon": "8/255", "steps": 1}}
    yield "detection", detector, "clean"
    yield "detection attack", detector, pgd


WARM_UP = 5000
"""Images of every kind before memory is measured: what is made once (caches, pages of the allocator) is there then."""


def resident() -> float:
    """Memory that this process holds in MB, without what its allocator keeps of what was given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_files(store: Path) -> int:
    """Open files of this process, without those of the pool of connections to a store."""
    names = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return sum(store.name not in name for name in names)


def memory(given: argparse.Namespace) -> int:
    """Evaluates images of every kind, 1000 at a time, and says how memory and open files grow."""
    given.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(given.folder)
    os.environ["GAUNTLET_CACHE"] = str(Path.cwd() / "cache")
    torch.set_num_threads(1)
    worst = 0
    for name, model, threat in kinds_of_evaluation():
        if given.kinds and name not in given.kinds.split(","):
            continue
        size = (32, 32) if name in ("corruption", "localized") else (16, 24)
        data = TinyBoxes(1000) if name.startswith("detection") else TinyDataset(1000, sizes=[size])
        path = Path(f"memory-{name}.db".replace(" ", "-"))
        path.unlink(missing_ok=True)
        used, files = [], []
        with open_store(path) as store:
            for seed in range((WARM_UP + given.images) // 1000):
                _evaluate(model, data, threat, seed, store)
                used.append(resident())
                files.append(open_files(path))
        later = used[WARM_UP // 1000 - 1 :]  # from the end of the warm-up
        slope = (later[-1] - later[0]) / max(1, len(later) - 1)
        worst += slope > 0.1 or files[-1] > files[WARM_UP // 1000 - 1]
        growth = {"kind": name, "images": given.images, "MB per 1000 images": round(slope, 3)}
        print(
            json.dumps({**growth, "MB": [round(each, 1) for each in used], "files": [files[0], files[-1]]}), flush=True
        )
        path.unlink()
    return 1 if worst else 0


def _evaluate(model: Any, data: Any, threat: Any, seed: int, store: Store) -> None:
    evaluate(model, data, threat, seed=seed, store=store, batch_size=50, device="cpu")


# Hosts ------------------------------------------------------------------------------------------------------------

GOOD = ("one", "two")
BAD = "images,classes,weights,line,older,broken"
PATIENCE = 600
"""Seconds after which a run on hosts is given up."""
CLASSES = 11
OLDER = "c08c631"
"""The commit of version 0.2.0."""


def _pictures(folder: Path, *, inverted: bool = False, exchanged: bool = False) -> None:
    """A folder of images and masks; the files of two of them have the same names, sizes and times."""
    numbers = np.random.default_rng(0)
    for each in ("images", "masks"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    for index in range(8):
        image = numbers.integers(0, 256, (32, 64, 3), dtype=np.uint8)
        Image.fromarray(255 - image if inverted else image).save(folder / f"images/{index}.bmp")
        Image.fromarray(numbers.integers(0, CLASSES, (32, 64), dtype=np.uint8)).save(folder / f"masks/{index}.png")
    names = [f"class {index:02}" for index in range(CLASSES)]
    (folder / "classes.txt").write_text("\n".join(reversed(names) if exchanged else names))
    for file in folder.rglob("*.*"):
        os.utime(file, (1_700_000_000, 1_700_000_000))


def _changed(folder: Path, module: str, *replaced: tuple[str, str]) -> dict[Path, Path]:
    """A module of the package with other lines."""
    original = TESTS.parent / "src" / "gauntlet" / module
    text = original.read_text()
    for old, new in replaced:
        assert old in text, f"{original} has changed"
        text = text.replace(old, new, 1)
    copy = folder / f"{len(list(folder.glob('*.py')))}.py"
    copy.write_text(text)
    return {original: copy}


def _bad_hosts(folder: Path) -> dict[str, tuple[str, dict[Path, Path]]]:
    """Hosts that have something else: by name, the words of their refusal, and what lies at other paths there."""
    data, weights = folder / "data", folder / "weights.pt"
    _pictures(data)
    _pictures(folder / "inverted", inverted=True)
    _pictures(folder / "exchanged", exchanged=True)
    network = nets.waiting()
    torch.save(network.state_dict(), weights)
    torch.save({name: -value for name, value in network.state_dict().items()}, folder / "negative.pt")
    line = _changed(folder, "threats/corruptions/fog_and_flash.py", ("(4, 8, 12, 16, 20)", "(4, 8, 13, 16, 20)"))
    archive = subprocess.run(
        ["git", "archive", OLDER, "src/gauntlet"], cwd=TESTS.parent, check=True, capture_output=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tree:
        tree.extractall(folder / "older", filter="data")
    older = {TESTS.parent / "src" / "gauntlet": folder / "older" / "src" / "gauntlet"}
    return {
        "images": ("or its ground truth is another one there", {data: folder / "inverted"}),
        "classes": ("the classes of 'folder:data' are others there", {data: folder / "exchanged"}),
        "weights": ("it has other weights of the model", {weights: folder / "negative.pt"}),
        "line": ("it has gauntlet ", line),
        "older": ("does not start there (ModuleNotFoundError: ", older),
        "broken": (
            "does not start there (ModuleNotFoundError: ",
            _changed(folder, "evaluation/execution/workers/worker.py", ("import cv2", "import cv3")),
        ),
    }


def hosts(given: argparse.Namespace) -> int:
    """A Ray cluster of several hosts, some of which have other images, weights or code than the run.

    Bad hosts are refused by name, once each. Then the workers of the good hosts are killed, and new ones finish the
    run. Its figures are those of one process of this machine, and name the good hosts only.
    """
    if reason := namespaces.why_not():
        print(f"{reason}; nothing was tried.")
        return 0
    folder: Path = given.folder.resolve()
    shutil.rmtree(folder / "hosts", ignore_errors=True)
    folder = folder / "hosts"
    (folder / "home").mkdir(parents=True)
    mark = folder / "mark"
    (folder / "token").write_text(secrets.token_hex(32))
    os.environ.update(
        HOME=str(folder / "home"),
        GAUNTLET_CACHE=str(folder / "cache"),
        GAUNTLET_TEST_MARK=str(mark),
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN_PATH=str(folder / "token"),
        OMP_NUM_THREADS="1",
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONPATH=os.pathsep.join([str(TESTS.parent / "src"), os.environ["PYTHONPATH"]]),
    )
    bad = _bad_hosts(folder)
    kinds = given.kinds.split(",")
    model = {
        "address": "python:nets:waiting",
        "options": {"num_classes": CLASSES, "weights": str(folder / "weights.pt")},
    }
    plan = {**SEGMENTATION, "models": [model], "datasets": [f"folder:{folder / 'data'}"], "batch_size": 1}
    (folder / "plan.yaml").write_text(yaml.safe_dump({**plan, "threats": SEGMENTATION["threats"][:3]}))
    mark.touch()
    code = wait(start(run_arguments(folder / "plan.yaml", str(folder / "alone.db"), 1), folder))
    assert code == 0, f"see {folder}/drivers.log"
    mark.unlink()
    began = time.monotonic()
    with ExitStack() as up:
        head = namespaces.Host("head", 1)
        up.callback(head.close)
        others = []
        for number, name in enumerate([*GOOD, *kinds], 2):
            host = namespaces.Host(name, number, bad[name][1] if name in bad else None)
            up.callback(host.close)
            host.connect(head)
            others.append(host)
        everybody = [process for host in (head, *others) for process in [host.first_process]]
        code, killed, refused = _run_on_hosts(folder, head, others, mark, {name: bad[name][0] for name in kinds})
        everybody += [each for process in everybody for each in descendants(process)]
    faults = [f"process {each} is left" for each in wait_for_end(everybody)]
    if code != 0:
        faults.append(f"the run ended with {code}, see {folder}/driver.log")
    if killed != len(GOOD):
        faults.append(f"{killed} workers of good hosts were killed")
    told = {name: [bad[name][0] in words for words in refused.get(name, [])] for name in kinds}
    faults += [f"{name}: {refused.get(name)}" for name in kinds if told[name] != [True]]
    faults += [f"{name} is refused: {refused[name]}" for name in refused if name not in kinds]
    if figures_of(str(folder / "alone.db")) != figures_of(str(folder / "cluster.db")):
        faults.append("other figures than one process")
    with open_store(str(folder / "cluster.db")) as store:
        found = [store.load(str(key)) for key in store.frame()["key"].unique()]
    named = {host for each in found if each is not None for host in each.provenance["hosts"]}
    if not named or not named <= set(GOOD):
        faults.append(f"provenance names {sorted(named)}")
    result = {
        "hosts": len(others),
        "refused": refused,
        "killed": killed,
        "named": sorted(named),
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps({**result, "faults": faults}, indent=1), flush=True)
    return 1 if faults else 0


def _run_on_hosts(
    folder: Path, head: namespaces.Host, others: list[namespaces.Host], mark: Path, expected: dict[str, str]
) -> tuple[int, int, dict[str, list[str]]]:
    """The exit code of a run on a cluster of hosts, how many good workers were killed, and who was refused why."""
    ray = [
        sys.executable,
        "-m",
        "ray.scripts.scripts",
        "start",
        "--disable-usage-stats",
        "--object-store-memory=80000000",
    ]
    address = f"{head.address}:6379"
    with open(folder / "ray.log", "ab") as log:
        leads = ["--head", "--port=6379", "--num-cpus=0", "--include-dashboard=false"]
        subprocess.run(
            head.command([*ray, *leads, f"--node-ip-address={head.address}"]), check=True, stdout=log, stderr=2
        )
        joining = [
            subprocess.Popen(
                host.command([*ray, f"--address={address}", "--num-cpus=1", f"--node-ip-address={host.address}"]),
                stdout=log,
                stderr=log,
            )
            for host in others
        ]
        assert {each.wait() for each in joining} == {0}, f"see {folder}/ray.log"
    words = folder / "driver.log"
    store = str(folder / "cluster.db")
    arguments = [*run_arguments(folder / "plan.yaml", store, len(others), ray=True), "--address", address]
    with words.open("wb") as log:
        driver = subprocess.Popen(head.command([sys.executable, "-m", "gauntlet", *arguments]), stdout=log, stderr=log)
    good = [host for host in others if host.name in GOOD]
    until, killed = time.monotonic() + PATIENCE, 0
    while driver.poll() is None and time.monotonic() < until:
        at_work = [each for host in good for each in descendants(host.first_process) if ".compute" in title(each)]
        if len(at_work) == len(good) and set(expected) <= set(_refused(words)):
            for process in at_work:
                os.kill(process, signal.SIGKILL)
            killed = len(at_work)
            break
        time.sleep(0.2)
    mark.touch()
    try:
        code = driver.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        code = -1
    return code, killed, _refused(words)


def _refused(log: Path) -> dict[str, list[str]]:
    """Why the hosts were refused that a driver's log says are."""
    found: dict[str, list[str]] = {}
    for name, why in re.findall(r"a worker on the host '(.*?)' is refused: (.*)", log.read_text()):
        found.setdefault(name, []).append(why)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["kill", "writers", "memory", "hosts"])
    parser.add_argument("--folder", type=Path, default=Path("soak"))
    parser.add_argument("--times", type=int, default=100, help="kill: how often")
    parser.add_argument("--patience", type=float, default=1.5, help="kill: seconds after which at most; more if busy")
    parser.add_argument("--minutes", type=float, default=30, help="writers: how long")
    parser.add_argument("--images", type=int, default=10000, help="memory: of every kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--kinds",
        default="",
        help="kill: of driver,train,worker,driver-of-workers,server,ray-worker,ray-driver; memory: kinds; "
        f"hosts: of {BAD}",
    )
    parser.add_argument("--postgres", default="", help="address of a PostgreSQL store")
    parser.add_argument(
        "--restart", nargs=argparse.REMAINDER, default=[], help="kill: the command that restarts its server"
    )
    given = parser.parse_args()
    if given.what == "kill" and not given.kinds:
        given.kinds = "driver,train,worker,driver-of-workers" + (",server" if given.postgres else "")
    if given.what == "hosts" and not given.kinds:
        given.kinds = BAD
    return {"kill": kill, "writers": writers, "memory": memory, "hosts": hosts}[given.what](given)


if __name__ == "__main__":
    sys.exit(main())

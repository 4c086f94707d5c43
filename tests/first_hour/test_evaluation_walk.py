"""Own models and own photographs: galleries, commands that repeat a figure, and names that collide."""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from sqlalchemy import select

from gauntlet.cli import app as application
from gauntlet.evaluation.plan import plan_jobs, read_plan
from gauntlet.evaluation.provenance import command_line
from gauntlet.results import open_store
from gauntlet.results.checksums import seal
from gauntlet.results.origin import Origin, read_origin
from gauntlet.results.record import Job
from gauntlet.results.schema import evaluations
from program import Call
from stranger import bring_everything, bring_weights
from stranger_home import working_in

pytestmark = pytest.mark.slow

STORE = "gauntlet-results.db"


@pytest.fixture(scope="module")
def evaluated_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which two U-Nets of one loader and a TorchScript archive were evaluated by a plan."""
    folder = tmp_path_factory.mktemp("evaluated")
    bring_everything(folder)
    with working_in(folder) as patch, redirect_stdout(StringIO()) as out:
        bring_weights()
        patch.setattr(sys, "argv", ["gauntlet", "run", "plan.yaml"])
        with pytest.raises(SystemExit) as stop:
            application.main()
    assert not stop.value.code
    assert "6 computed" in out.getvalue()
    return folder


@pytest.fixture
def evaluated(call: Call, evaluated_once: Path, tmp_path: Path) -> Iterator[Path]:
    """That folder as the working folder; what a test changes in it is undone, since its path stands in the store."""
    kept = tmp_path / "kept"
    shutil.copytree(evaluated_once, kept)
    with working_in(evaluated_once):
        yield evaluated_once
    shutil.rmtree(evaluated_once)
    shutil.copytree(kept, evaluated_once)


def labels(home: Path) -> list[str]:
    with open_store(home / STORE, read_only=True) as store:
        return [model.label for model in store.models()]


def test_own_models_have_galleries_and_commands_that_repeat_them(
    call: Call, evaluated: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    code, _, err = call("report", "--store", evaluated / STORE, "--gallery", "1")
    assert (code, err) == (0, "")
    page = Path("report.html").read_text()
    assert page.count("<figcaption>what the model sees") == 3
    commands = re.findall(r"gauntlet run --model [^<]*--store [^<]*", html.unescape(page).replace("&#34;", '"'))
    assert len(commands) == 6
    monkeypatch.chdir(evaluated)
    for command in commands:
        code, out, err = call(*shlex.split(command)[1:])
        assert (code, err) == (0, "")
        assert "0 computed, 1 found" in out


def test_code_that_a_store_of_somebody_else_names_runs_when_the_user_says_so(
    call: Call, evaluated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache of another user"))
    code, _, err = call("report", "--gallery", "1", "--format", "md", "-o", "r.md")
    assert code == 0
    assert err.count("is code that would run here; the store names it: pass --trust") == 2
    assert call("report", "--gallery", "1", "--format", "md", "-o", "r.md", "--trust")[::2] == (0, "")


def test_what_a_report_leaves_out_is_said_on_the_terminal(call: Call, evaluated: Path) -> None:
    (evaluated / "net.pt").unlink()
    code, _, err = call("report", "--gallery", "1", "--check", "1")
    assert code == 0
    check, gallery = err.splitlines()
    assert check.startswith("left out: scripted: No check for hidden gradients, since there is no file net.pt")
    assert gallery.startswith(
        "left out: scripted: worst attack, fgsm linf 8/255 x1: no pictures, since there is no file"
    )


def test_names_that_collide_are_told_apart_everywhere_the_same_way(call: Call, evaluated: Path) -> None:
    first, second, scripted = labels(evaluated)
    assert re.fullmatch(r"loader:wrapped \[[0-9a-f]{8}\]", first)
    assert first != second
    assert scripted == "scripted"
    call("site", "public", "--store", STORE)
    call("report")
    call("report", "--format", "md")
    for shown in (
        call("run", "plan.yaml")[1],
        call("leaderboard", "--json")[1],
        call("compare", first, second, "--json")[1],
        (evaluated / "public/assets/data.js").read_text(),
        (evaluated / "report.html").read_text(),
        (evaluated / "report.md").read_text().replace("\\", ""),
    ):
        assert first in shown
        assert second in shown

    code, _, err = call("card", "loader:wrapped")
    assert code == 2
    assert f"stands for several models in the store {STORE}; say which: {', '.join(sorted((first, second)))}." in err
    assert call("card", first)[0] == 0
    card = json.loads((evaluated / "robustness-card.json").read_text())
    assert card["model"] == first
    assert len(card["digests"]) == 1
    assert len(card["results"]) == 2
    assert call("card", "script:net.pt")[0] == 0  # by its address


def test_results_of_version_0_1_0_are_found_under_their_old_name(call: Call, evaluated: Path) -> None:
    planned = plan_jobs(read_plan("plan.yaml"))[0].job
    old = {name: getattr(planned, name) for name in Job.__dataclass_fields__ if name != "stored_name"}
    assert Job(**{**old, "model": "UNet"}).key == planned.key
    with sqlite3.connect(evaluated / STORE) as connection:
        connection.execute("UPDATE evaluations SET model = 'UNet', provenance = '{}' WHERE model = 'loader:wrapped'")
    with open_store(evaluated / STORE) as store, store._database.write() as opened:
        for (number,) in opened.execute(select(evaluations.c.id)).all():
            seal(opened, number)
    assert labels(evaluated)[0].startswith("UNet [")
    assert "0 computed, 6 found" in call("run", "plan.yaml")[1]
    assert labels(evaluated)[0].startswith("loader:wrapped [")
    code, _, err = call("report", "--gallery", "1")
    assert (code, err) == (0, "")


def test_the_command_of_version_0_1_0_tells_the_origin() -> None:
    command = "python -m gauntlet run -m script:net.pt --num-classes=3 --mean 0.5,0.5,0.5 -d folder:photos --split val"
    assert read_origin({"command": command}) == Origin(
        {"address": "script:net.pt", "options": {"num_classes": 3, "mean": [0.5, 0.5, 0.5]}},
        {"name": "folder:photos", "split": "val"},
    )
    assert read_origin({"command": "gauntlet run plan.yaml"}) == Origin()


def test_no_secret_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    origin = Origin({"address": "hf:me/net", "options": {"token": "hf_1", "weights": "https://me:word@host/a"}})
    assert origin.as_dict()["model"]["options"] == {"weights": "https://me:***@host/a"}
    monkeypatch.setattr("sys.argv", ["gauntlet", "run", "--store", "postgresql+psycopg://me:word@host/results"])
    assert command_line() == "gauntlet run --store postgresql+psycopg://me:***@host/results"


def test_a_folder_without_splits_has_a_gallery_too(call: Call, home: Path) -> None:
    bring_weights()
    for part in ("images", "masks"):
        source = home / "photos" / part / "val"
        target = home / "flat" / part
        target.mkdir(parents=True)
        for file in source.iterdir():
            (target / file.name).write_bytes(file.read_bytes())
    for classes in (home / "photos").glob("classes*"):
        (home / "flat" / classes.name).write_bytes(classes.read_bytes())
    code, _, err = call("run", "-m", "script:net.pt", "--num-classes", "3", "--mean", "0,0,0", "--std", "1,1,1",
                        "--stride", "32", "-d", "folder:flat", "-t", "fgsm", "-t", "clean")  # fmt: skip
    assert code == 0, err
    code, _, err = call("report", "--gallery", "1")
    assert (code, err) == (0, "")

"""The program: what it prints, what it exits with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from fresh_python import FreshPython
from gauntlet import __version__
from gauntlet.cli import app as application
from gauntlet.errors import GauntletError
from gauntlet.extras import install_command
from gauntlet.pictures.sheets import GAP
from gauntlet.threats.corruptions.settings import DepthRule
from program import Call
from subprocesses import environment

TESTS = Path(__file__).resolve().parents[1]
NETWORK = "python:nets:street_network"


@pytest.fixture
def small_plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(
        f"models: [{{address: '{NETWORK}', options: {{num_classes: 11, ignore_index: 11}}}}]\n"
        "datasets: [{name: streets, options: {size: [32, 64], length: 4}}]\n"
        "threats: [clean, {corruption: {name: fog, severity: [1, 3]}}]\n"
    )
    return path


def test_version_and_help(call: Call) -> None:
    assert call("--version")[:2] == (0, f"gauntlet {__version__}\n")
    code, out, _ = call("--help")
    assert code == 0
    for command in ("demo", "run", "list", "show", "doctor", "train"):
        assert command in out
        code, text, _ = call(command, "--help")
        assert code == 0
        assert "Example" in text


def test_a_plan_runs_and_is_found_again(call: Call, small_plan: Path) -> None:
    code, out, _ = call("run", str(small_plan), "--store", "r.db", "--json")
    assert code == 0
    first = json.loads(out)
    assert [each["threat"] for each in first] == ["clean", "fog 1", "fog 3"]
    assert not any(each["from_store"] for each in first)
    code, out, _ = call("run", str(small_plan), "--store", "r.db", "--json")
    second = json.loads(out)
    assert all(each["from_store"] for each in second)
    assert [each["figures"] for each in second] == [each["figures"] for each in first]
    code, out, _ = call("run", str(small_plan), "--store", "r.db")
    assert code == 0
    assert "0 computed, 3 found in r.db" in out


def test_a_dry_run_computes_nothing(call: Call, small_plan: Path) -> None:
    code, out, _ = call("run", str(small_plan), "--store", "r.db", "--dry-run", "--json")
    rows = json.loads(out)
    assert code == 0
    assert [row["state"] for row in rows] == ["new", "new", "new"]
    assert all(row["seconds"] >= 0 for row in rows)
    assert not Path("r.db").exists()
    call("run", str(small_plan), "--store", "r.db", "--json")
    rows = json.loads(call("run", str(small_plan), "--store", "r.db", "--dry-run", "--json")[1])
    assert [row["state"] for row in rows] == ["complete"] * 3


def test_runs_are_listed(call: Call, small_plan: Path) -> None:
    call("run", str(small_plan), "--store", "r.db", "--json")
    code, out, _ = call("runs", "--store", "r.db", "--json")
    (row,) = json.loads(out)
    assert code == 0
    assert (row["state"], row["jobs"], row["done"], row["failed"]) == ("complete", 3, 3, 0)
    assert row["command"].startswith("gauntlet run")
    assert Path(row["log"]).is_file()


def test_the_schema_is_exported(call: Call) -> None:
    code, out, _ = call("run", "--schema")
    assert code == 0
    assert set(json.loads(out)["properties"]) >= {"models", "datasets", "threats", "suites"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run"], "say which model to evaluate"),
        (["run", "-m", "streets/nothing", "-d", "streets"], "unknown model 'streets/nothing'"),
        (["run", "-m", NETWORK, "-d", "street"], "unknown dataset 'street'; did you mean 'streets'"),
        (["run", "-m", NETWORK, "-t", "fogg"], "unknown threat 'fogg'; did you mean 'fog'"),
        (["run", "-m", NETWORK, "-t", "{attack"], "is not a YAML or JSON mapping"),
        (["run", "-m", NETWORK, "-s", "quickly"], "unknown suite 'quickly'; did you mean 'quick'"),
        (["run", "plan.yaml", "-m", "x"], "give either a plan or --model"),
        (["run", "missing.yaml"], "cannot be read: No such file"),
        (["run", "plan.yaml", "--limit", "8"], "write --limit into the plan"),
        (["show", "missing.png", "--corruption", "fog"], "there is no image file missing.png"),
        (["show", "--index", "100000"], "index must lie in 0 to"),
        (["show", "--corruption", "fog", "--severity", "x"], "severity must be one"),
        (["show", "-c", "fog_3d", "--depth-rule", "estimate"], "unknown depth rule 'estimate'; did you mean"),
        (["show", "--threat", "pgd"], "needs a model; add --model"),
        (["runs", "--store", "missing.db"], "there is no store at missing.db"),
        (["data", "check", "camvid", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(call: Call, arguments: list[str], sentence: str) -> None:
    code, _, err = call(*arguments)
    assert code == 2
    assert sentence in err
    assert err.startswith("gauntlet: ")
    assert "Traceback" not in err


def test_a_mistyped_option_is_exit_2(call: Call) -> None:
    code, _, err = call("run", "--modle", "x")
    assert code == 2
    assert "No such option" in err


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["gauntlet", "run", "--debug"])
    with pytest.raises(GauntletError):
        application.main()


@pytest.mark.parametrize("what", ["models", "datasets", "attacks", "batteries", "corruptions", "suites"])
def test_lists_are_tables_and_json(call: Call, what: str) -> None:
    code, out, _ = call("list", what, "--json")
    assert code == 0
    rows = json.loads(out)
    assert rows
    code, table, _ = call("list", what)
    assert code == 0
    assert next(iter(rows[0].values())) in table


def test_the_zoo_is_listed(call: Call) -> None:
    rows = json.loads(call("list", "models", "--zoo", "--json")[1])
    assert len(rows) > 100
    assert any(row["address"].startswith("hf:") for row in rows)


def test_the_networks_of_the_papers_are_listed_with_their_cost(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from gauntlet.models.architectures.published import catalogue

    few = {name: catalogue.NETWORKS[name] for name in ("enet_caffe", "bisenetv1_x39_torchseg")}
    monkeypatch.setattr(catalogue, "NETWORKS", few)
    enet, bisenet = json.loads(call("list", "models", "--architectures", "--json")[1])
    assert (enet["parameters"], enet["MiB"], enet["MiB (Arnab)"]) == (372_551, "1.5", "1.5")
    assert (enet["GMACs 512x1024"], enet["paper"]) == ("4.0", "arXiv:1606.02147")
    assert (bisenet["alias"], bisenet["MiB (Arnab)"]) == ("bisenet_x39", "")


def test_doctor_says_how_to_install_what_is_missing(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from gauntlet.cli import doctor

    monkeypatch.setitem(doctor.OPTIONAL, "a wish", ("no_such_module", "no-such-module", "wishes"))
    code, out, _ = call("doctor", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["missing"] == []
    assert facts["optional"]["a wish"] == {
        "version": None,
        "broken": None,
        "install": install_command("wishes"),
    }
    assert "cpu" in facts["devices"]
    assert call("doctor")[0] == 0


def test_a_moved_camera_is_shown_listed_and_copied(call: Call) -> None:
    turn = "{geometric: {name: rotation, degrees: 10}}"
    assert call("show", "-o", "plain.png")[0] == 0
    assert call("show", "--threat", turn, "-o", "turned.png")[0] == 0
    plain, turned = cv2.imread("plain.png"), cv2.imread("turned.png")
    assert plain is not None
    assert turned is not None
    assert turned.size > plain.size  # the moved image, labels and objects beside those of the sample
    moves = {row["move"]: row for row in json.loads(call("list", "moves", "--json")[1])}
    assert moves["radial"]["parameters"] == "k1, k2"
    assert moves["zoom_out"]["severities from 1 on"] == "0.8, 0.6 times as large"
    assert call("data", "move", "streets", "tilted", "--threat", turn, "--limit", "1")[0] == 0
    assert Path("tilted/masks/streets/val/000000.png").is_file()
    assert call("data", "move", "streets", "fog", "--threat", "fog")[0] == 2


def test_show_draws_a_sample_and_a_sheet_of_corruptions(call: Call) -> None:
    assert call("show", "--index", "1", "-o", "plain.png")[:2] == (0, "written to plain.png\n")
    plain = cv2.imread("plain.png")
    assert plain.shape[1] > 2 * 256  # image and labels side by side
    assert call("show", "--threat", "fog", "-o", "fog.png")[0] == 0
    assert cv2.imread("fog.png").shape[1] > plain.shape[1]
    assert call("show", "-c", "fog", "-c", "snow", "--severity", "1,5", "-o", "sheet.png")[0] == 0
    assert cv2.imread("sheet.png") is not None
    cv2.imwrite("photo.png", np.full((48, 64, 3), 90, np.uint8))
    assert call("show", "photo.png", "-c", "brightness", "-o", "photo-sheet.png")[0] == 0


def test_show_draws_every_round_of_the_region_aware_attack(call: Call) -> None:
    threat = "{region_aware: {attack: {name: bim, steps: 2, epsilon: 32/255}, rounds: 2}}"
    assert call("show", "--model", "streets/enet", "--threat", threat, "-o", "rounds.png")[0] == 0
    assert call("show", "--model", "streets/enet", "--threat", "fog", "-o", "fog.png")[0] == 0
    # Four columns: 4 tiles of the sample, 4 for each of two rounds, 2 of the worst case: four rows against two.
    rounds, fog = (cv2.imread(name).shape[0] - GAP for name in ("rounds.png", "fog.png"))
    assert rounds == 2 * fog


def test_show_says_when_it_cannot_write(call: Call) -> None:
    code, _, err = call("show", "-o", "no/such/folder/x.png")
    assert code == 2
    assert "cannot be written" in err


def test_the_program_and_the_module_are_the_same() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "gauntlet", "--version"], capture_output=True, text=True, check=True, env=environment()
    )
    assert result.stdout == f"gauntlet {__version__}\n"


def test_importing_the_package_loads_neither_torch_nor_numba() -> None:
    code = "import sys, gauntlet; print([name for name in ('torch', 'numba', 'pandas', 'cv2') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_an_evaluation_does_without_what_takes_as_long_to_import_as_torch(
    fresh_python: FreshPython, tmp_path: Path
) -> None:
    code = "import sys, gauntlet; gauntlet.evaluate, gauntlet.certify; print('scipy.stats' in sys.modules)"
    assert fresh_python.run(code, folder=tmp_path).stdout.strip() == "False"


def test_a_corrupted_copy_is_written_in_detecbenchs_layout(call: Call) -> None:
    arguments = ("data", "corrupt", "streets", "copy", "-c", "brightness", "--severity", "2,3", "--limit", "2")
    code, out, _ = call(*arguments)
    assert code == 0
    assert "written to copy\n" in out
    for severity in (2, 3):
        assert len(list(Path(f"copy/cc/brightness/severity_{severity}").rglob("*.png"))) == 2
    assert call(*arguments)[0] == 0  # again: nothing is left to do


def test_corruptions_in_3d_read_depth_as_asked(call: Call) -> None:
    from gauntlet.datasets import load_dataset
    from gauntlet.threats.corruptions import contact_sheet, corrupt

    scene = load_dataset("streets")[0]
    rules: dict[DepthRule, tuple[str, ...]] = {"metric": (), "estimated": ("--depth-rule", "estimated")}
    for rule, options in rules.items():
        chosen = ("-c", "fog_3d", "--severity", "2", *options)
        assert call("data", "corrupt", "streets", rule, "--limit", "1", *chosen)[0] == 0
        (written,) = Path(rule).rglob("*.png")
        expected = corrupt(scene.image, "fog_3d", 2, depth=scene.depth, depth_rule=rule)
        assert (cv2.imread(str(written))[..., ::-1] == expected).all()
        assert call("show", *chosen, "-o", f"{rule}.png")[0] == 0
        expected = contact_sheet(scene.image, ["fog_3d"], [2], depth=scene.depth, depth_rule=rule)
        assert (cv2.imread(f"{rule}.png")[..., ::-1] == expected).all()
    assert "'estimated'" in call("data", "corrupt", "--help")[1]  # a word: the lines of the help break anywhere

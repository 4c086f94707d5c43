from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from training_squares import recipe

from fresh_python import FreshPython
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.sources.card_and_weights import load_weights
from gauntlet.results.tracking import TRACKERS
from gauntlet.training import train
from gauntlet.training.averaging import MovingAverage
from gauntlet.training.checkpoint import save_state
from gauntlet.training.log import CsvLog, read_log
from gauntlet.training.validation import figures_from_confusion
from subprocesses import environment

HERE = Path(__file__).resolve().parent
QUIET = Silent()

EVERYTHING: dict[str, Any] = {
    "ema": 0.9,
    "accumulation": 2,
    "optimiser": {"name": "sgd", "learning_rate": 0.1, "nesterov": True, "clip_norm": 1.0},
    "schedule": {"warmup": 0.2},
    "loss": {"class_weights": "log", "label_smoothing": 0.1},
    "augmentation": {"scale": [0.8, 1.2], "crop": [24, 24], "flip": 0.5, "cutmix": {}, "cutout": {}, "blur": 0.5},
    "checkpoint": {"minutes": 1e-6},
    "log_every": 3,
    "validate_every": 5,
}


def curve(folder: Path) -> list[dict[str, str]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in read_log(folder / "log.csv")]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """A process that finds the datasets of this folder and no GPU."""
    variables = environment(HERE, CUDA_VISIBLE_DEVICES="")
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_two_epochs_give_a_model_that_loads_with_its_log_and_card(tmp_path: Path) -> None:
    result = train(recipe(epochs=20, channels_last=True), tmp_path, progress=QUIET)
    assert result.miou > 0.8
    assert {path.name for path in tmp_path.iterdir()} == {
        "model.safetensors",
        "config.yaml",
        "log.csv",
        "card.json",
        "README.md",
    }
    card = json.loads((tmp_path / "card.json").read_text())
    assert card == result.card
    assert card["kind"] == "clean"
    assert card["training"]["steps"] == 60
    assert card["figures"]["clean"]["IoU"].keys() == {"ground", "red", "blue"}
    model = load_weights(card["model"], tmp_path / "model.safetensors", ModelIdentity("tiny", "0"))
    assert model.class_names == ("ground", "red", "blue")
    rows = curve(tmp_path)
    assert [int(row["step"]) for row in rows] == list(range(1, 61))
    assert float(rows[-1]["mIoU"]) == pytest.approx(result.miou, abs=1e-5)
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])
    assert train(tmp_path / "config.yaml", tmp_path, progress=QUIET).card == card
    assert f"{100 * result.miou:.1f} %" in (tmp_path / "README.md").read_text()


@pytest.mark.slow
def test_a_killed_training_continues_to_the_same_bits(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    marker = tmp_path / "kill"
    data = {"options": {"kill_at": str(marker)}, "validation_options": {"length": 4}}
    settings = recipe(**EVERYTHING, epochs=4, data=data)
    train(settings, whole, progress=QUIET)
    marker.touch()
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "gauntlet.training", str(config), "--output", str(killed)]
    done = run(command)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (killed / "checkpoint.pt").exists()
    marker.unlink()
    with (killed / "log.csv").open("a") as stream:
        stream.write("999,1.0,2.0,0.1,,,3\n1000,half a li")
    train(settings, killed, progress=QUIET)
    assert curve(killed) == curve(whole)
    first, second = load_file(whole / "model.safetensors"), load_file(killed / "model.safetensors")
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not (killed / "checkpoint.pt").exists()


def test_another_recipe_is_not_mixed_into_a_folder(tmp_path: Path) -> None:
    train(recipe(), tmp_path, progress=QUIET)
    with pytest.raises(GauntletError, match="holds a model of another recipe"):
        train(recipe(seed=1), tmp_path, progress=QUIET)
    assert train(recipe(seed=1), tmp_path, resume=False, progress=QUIET).card["seed"] == 1
    unfinished = tmp_path / "unfinished"
    save_state(unfinished, {"recipe": json.dumps({"name": "other"})})
    with pytest.raises(GauntletError, match="holds a checkpoint of another recipe"):
        train(recipe(), unfinished, progress=QUIET)
    (unfinished / "checkpoint.pt").write_bytes(b"nonsense")
    with pytest.raises(GauntletError, match="is not a readable checkpoint"):
        train(recipe(), unfinished, progress=QUIET)


def test_accumulated_parts_add_up_to_the_whole_batch(tmp_path: Path) -> None:
    plain = {"architecture": "test-net", "options": {"plain": True}}
    curves = []
    for parts in (1, 2):
        train(recipe(model=plain, accumulation=parts), tmp_path / str(parts), progress=QUIET)
        curves.append([float(row["loss"]) for row in curve(tmp_path / str(parts))])
    assert curves[0] == pytest.approx(curves[1], rel=0.02)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_learns_too(tmp_path: Path, precision: str) -> None:
    train(recipe(precision=precision, epochs=4), tmp_path, progress=QUIET)
    losses = [float(row["loss"]) for row in curve(tmp_path)]
    assert losses[-1] < 0.8 * losses[0]


def test_training_starts_from_given_weights(tmp_path: Path) -> None:
    train(recipe(epochs=20), tmp_path / "first", progress=QUIET)
    model = {"architecture": "test-net", "initial_weights": str(tmp_path / "first")}
    train(recipe(model=model, epochs=1), tmp_path / "second", progress=QUIET)
    assert float(curve(tmp_path / "second")[0]["loss"]) < 1.2 * float(curve(tmp_path / "first")[-1]["loss"])
    missing = {"architecture": "test-net", "initial_weights": str(tmp_path / "third")}
    with pytest.raises(GauntletError, match="is neither a file, nor the folder of a trained model"):
        train(recipe(model=missing), tmp_path / "fourth", progress=QUIET)
    other = {"architecture": "enet", "initial_weights": str(tmp_path / "first")}
    with pytest.raises(GauntletError, match="do not fit the recipe's model"):
        train(recipe(model=other), tmp_path / "fifth", progress=QUIET)


def test_training_leaves_the_callers_random_state_alone(tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(recipe(), tmp_path, progress=QUIET)
    assert torch.equal(torch.rand(3), expected)


def test_a_loss_that_explodes_is_reported(tmp_path: Path) -> None:
    wild = {"name": "sgd", "learning_rate": 1e30}
    plain = {"architecture": "test-net", "options": {"plain": True}}
    with pytest.raises(GauntletError, match=r"the loss is (nan|inf) at step \d; lower optimiser.learning_rate"):
        train(recipe(model=plain, optimiser=wild), tmp_path, progress=QUIET)


def test_an_unknown_dataset_module_is_reported(tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match="the module training_squares has no 'Nothing'"):
        train(recipe(data={"name": "python:training_squares:Nothing"}), tmp_path, progress=QUIET)


def test_the_command_says_what_is_wrong_and_exits_with_2(tmp_path: Path, fresh_python: FreshPython) -> None:
    command = "import runpy; runpy.run_module('gauntlet.training', run_name='__main__')"
    done = fresh_python.run(command, str(tmp_path / "none.yaml"), folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: the training recipe ")


def test_a_moving_average_by_hand() -> None:
    module = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(module.weight, 0.0)
    average = MovingAverage(module, 0.5)
    torch.nn.init.constant_(module.weight, 1.0)
    average.update(module, 0)  # the first decay is (1 + 0) / (10 + 0)
    assert average.state["weight"].item() == pytest.approx(0.9)
    average.update(module, 1000)
    assert average.state["weight"].item() == pytest.approx(0.95)


def test_figures_of_a_confusion_matrix_by_hand() -> None:
    import numpy as np

    figures = figures_from_confusion(np.array([[3, 1, 0], [1, 5, 0], [0, 0, 0]]))
    assert figures.class_iou[:2] == pytest.approx([3 / 5, 5 / 7])
    assert figures.miou == pytest.approx((3 / 5 + 5 / 7) / 2)
    assert figures.accuracy == pytest.approx(0.8)


def test_lines_of_progress_name_the_steps_the_loss_and_the_remaining_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    from gauntlet.evaluation.execution import progress

    monkeypatch.setattr(progress, "_LINE_EVERY_SECONDS", 0.0)
    stream = io.StringIO()
    with progress.Terminal(stream) as display:
        train(recipe(), tmp_path, progress=display)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "training tiny: 6 steps"
    assert len(lines) == 7
    assert re.fullmatch(r"training tiny: 6/6 steps, loss \d+\.\d{4}, \d+\.\d steps/s, 0 s left", lines[-1])


def test_the_log_drops_what_comes_after_the_checkpoint(tmp_path: Path) -> None:
    log = CsvLog(tmp_path / "log.csv", 0, ("mIoU", "aAcc"))
    for step in (1, 2, 3):
        log.log({"loss": step / 7}, step)
    log.close()
    CsvLog(tmp_path / "log.csv", 2, ("mIoU", "aAcc")).close()
    with (tmp_path / "log.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["step"] for row in rows] == ["1", "2"]
    assert float(rows[1]["loss"]) == pytest.approx(2 / 7, abs=1e-9)


def test_a_tracker_beside_the_log_receives_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[tuple[int, set[str]]] = []

    class Recorder:
        def __init__(self, name: str, config: Mapping[str, Any], folder: Path) -> None:
            assert name == config["name"] == "tiny"

        def log(self, figures: Mapping[str, float], step: int) -> None:
            received.append((step, set(figures)))

        def close(self) -> None:
            received.append((-1, set()))

    monkeypatch.setitem(TRACKERS, "wandb", Recorder)
    train(recipe(trackers=["wandb"], log_every=4), tmp_path, progress=QUIET)
    usual = {"epoch", "loss", "learning_rate", "seconds"}
    assert received == [(4, usual), (6, usual | {"mIoU", "aAcc"}), (-1, set())]


@pytest.mark.slow
def test_two_processes_train_like_one(tmp_path: Path) -> None:
    attack = {"attack": {"name": "pgd", "epsilon": "8/255", "alpha": "4/255", "steps": 1}, "share": 0.5}
    plain = {"architecture": "test-net", "options": {"plain": True}}
    settings = recipe(model=plain, epochs=2, batch_size=8, adversarial=attack, accumulation=2)
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "gauntlet.training", str(config), "--output", str(tmp_path / "two")]
    done = run(command)
    assert done.returncode == 0, done.stderr
    card = json.loads((tmp_path / "two/card.json").read_text())
    assert card["training"]["processes"] == 2
    # Two processes of two parts see the same parts of a batch as one process of four.
    one = train({**settings, "accumulation": 4}, tmp_path / "one", progress=QUIET)
    losses = [[float(row["loss"]) for row in curve(tmp_path / name)] for name in ("one", "two")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert card["figures"]["clean"]["mIoU"] == pytest.approx(one.miou, abs=1e-3)


def test_training_reads_and_changes_no_generator_of_others(tmp_path: Path) -> None:
    import random

    import numpy as np
    import rich.style  # noqa: F401 - draws a number of its own when it is imported

    def states() -> list[object]:
        legacy = np.random.get_state(legacy=False)  # noqa: NPY002 - the one nobody may use
        return [random.getstate(), repr(legacy), bytes(torch.get_rng_state().numpy())]

    before = states()
    train(recipe(), tmp_path, progress=QUIET)
    assert states() == before

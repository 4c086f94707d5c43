"""The options of a model are the same on every command that takes one, and reach the model."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
import torch

from gauntlet.cli.shared_options import read_model_options
from gauntlet.evaluation.provenance import command_line
from gauntlet.training import load_config
from program import Call

NETWORK = "python:nets:street_network"
CLASSES = ("--num-classes", "11")
SMALL = ("--limit", "1")
EVERY = [f"--{name.replace('_', '-')}" for name in inspect.signature(read_model_options).parameters]


@pytest.mark.parametrize("command", ["run", "show", "doctor", "report", "card", "compare", "certify", "study run"])
def test_every_command_with_a_model_takes_its_options(call: Call, command: str) -> None:
    code, out, _ = call(*command.split(), "--help")
    assert code == 0
    assert [option for option in EVERY if option not in out] == []


def test_texts_become_what_sources_take() -> None:
    read = read_model_options(
        class_names="car, traffic light", outputs="0,2", mean="0.5,1/2,0", input_size="64X128", decode="{name: yolov8}"
    )
    assert read == {
        "class_names": ["car", "traffic light"],
        "outputs": [0, 2],
        "mean": [0.5, 0.5, 0.0],
        "input_size": [64, 128],
        "decode": {"name": "yolov8"},
    }
    assert read_model_options() == {}


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--input-size", "512", "--input-size must look like 512x1024, not '512'"),
        ("--outputs", "a,b", "--outputs must look like 0,2,1, not 'a,b'"),
        ("--mean", "0.5", "--mean needs three numbers"),
        ("--decode", "{a: [", "--decode {a: [ is not a YAML or JSON mapping"),
    ],
)
def test_a_wrong_option_is_one_sentence(call: Call, option: str, value: str, sentence: str) -> None:
    code, _, err = call("run", "-m", NETWORK, option, value)
    assert (code, err.startswith("gauntlet: ")) == (2, True)
    assert sentence in err


def test_a_name_is_for_one_model(call: Call) -> None:
    code, _, err = call("run", "-m", NETWORK, "-m", "streets/enet", "--name", "mine")
    assert code == 2
    assert "--name is for one model" in err


def test_a_model_is_run_shown_and_found_again_by_its_options(call: Call) -> None:
    options = (*CLASSES, "--name", "mine", "--stride", "32", "--input-size", "32x64")
    code, out, err = call("run", "-m", NETWORK, *SMALL, *options, "--json")
    assert code == 0, err
    assert json.loads(out)["model"] == "mine"
    assert call("show", "-m", NETWORK, *options)[0] == 0
    code, _, err = call("card", NETWORK, *options)
    assert code == 0, err
    assert "# mine: robustness" in Path("robustness-card.md").read_text()
    code, _, err = call("card", NETWORK, *CLASSES)
    assert code == 2
    assert f"has no evaluation of {NETWORK} as it is now" in err


def test_report_finds_an_own_model_at_its_address(call: Call) -> None:
    # The full size of the images: a report looks for them by the name of the dataset.
    run = call("run", "-m", NETWORK, *CLASSES, "--limit", "1", "-t", "clean", "-t", "fog", "--json")
    assert run[0] == 0, run[2]
    code, _, err = call("report", "--gallery", "1", "-m", NETWORK, *CLASSES, "--format", "md", "-o", "r.md")
    assert code == 0, err
    assert "No gallery" not in Path("r.md").read_text()
    code, _, err = call("report", "--stride", "32")
    assert code == 2
    assert "say which model stride is meant for: --model ADDRESS" in err


def test_outputs_choose_and_order_the_classes_of_an_own_network() -> None:
    from gauntlet.models import load_model

    images = torch.rand(1, 3, 8, 8)
    every = load_model(NETWORK, num_classes=11)(images)
    chosen = load_model(NETWORK, outputs=[3, 0])
    assert torch.equal(chosen(images), every[:, [3, 0]])
    assert chosen.num_classes == 2


def test_a_recipe_takes_the_options_of_its_model(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("{name: a, model: {architecture: enet, mean: [0, 0, 0]}, data: {name: streets}, steps: 1}")
    given = load_config(recipe).overruled({"name": "b", "mean": [0.5, 0.5, 0.5], "weights": "streets/enet"})
    assert (given.name, given.model.mean, given.model.initial_weights) == ("b", (0.5, 0.5, 0.5), "streets/enet")
    assert (given.model.architecture, given.steps) == ("enet", 1)


def test_options_beside_a_mapping_are_added_to_it(call: Call) -> None:
    mapping = json.dumps({"address": NETWORK, "options": {"num_classes": 11}})
    code, _, err = call("run", "-m", mapping, "--mean", "0,0,0", "--std", "1,1,1", *SMALL, "--dry-run", "--json")
    assert code == 0, err
    assert "neither mean nor std" not in err


@pytest.mark.slow
def test_only_names_threats_of_detectors_too(call: Call) -> None:
    code, _, err = call("run", "-m", "streets/fcos", "-s", "quick", "--only", "tog*", *SMALL, "--dry-run", "--json")
    assert code == 0, err
    code, _, err = call("run", "-m", "streets/enet", "-s", "quick", "--only", "no-such*", *SMALL, "--dry-run")
    assert (code, "unknown threat of this plan 'no-such*'" in err) == (2, True)


def test_one_network_under_two_names_is_told_apart_by_its_options(call: Call) -> None:
    for name in ("a", "b"):
        code, _, err = call("run", "-m", NETWORK, *CLASSES, "--name", name, *SMALL)
        assert code == 0, err
    code, _, err = call("card", NETWORK, *CLASSES, "--name", "b", "--output", "card.md")
    assert code == 0, err
    assert "| b |" in Path("card.md").read_text() or "name: b" in Path("card.md").read_text()
    code, _, err = call("compare", "a", NETWORK, *CLASSES, "--name", "b")
    assert "unknown model" not in err


def test_secrets_in_a_mapping_are_not_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    mapping = json.dumps({"address": "hf:net", "options": {"token": "hf_123", "num_classes": 3}})
    monkeypatch.setattr("sys.argv", ["gauntlet", "run", "-m", mapping])
    said = command_line()
    assert "hf_123" not in said
    assert "num_classes" in said


def test_options_without_a_model_are_told(call: Call) -> None:
    code, _, err = call("doctor", "--stride", "32")
    assert (code, "say which model stride is meant for" in err) == (2, True)

"""A network of one's own, trained, and then everything that one does with a trained model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.training import train
from program import Call

pytestmark = pytest.mark.slow

IMAGES = ("--dataset", "folder:photos", "--split", "val")


def test_a_trained_network_is_evaluated_reported_carded_and_compared(call: Call, home: Path) -> None:
    code, out, _ = call("train", "recipe.yaml")
    assert code == 0
    following = "gauntlet run --model trained/berries --dataset folder:photos --split val --suite quick"
    assert out.splitlines()[1] == f"next: {following}"

    code, out, _ = call("run", "--model", "trained/berries", *IMAGES, "--threat", "fgsm", "--threat", "clean")
    assert code == 0
    assert "berries" in out
    assert "2 computed" in out
    # The recipe's name stands for the folder, also from elsewhere.
    assert "0 computed, 1 found" in call("run", "--model", "berries", *IMAGES)[1]

    code, _, err = call("report", "--gallery", "1", "--check", "1")
    assert (code, err) == (0, "")
    page = (home / "report.html").read_text()
    assert page.count("<figcaption>what the model sees") == 1
    assert "no pictures" not in page

    assert call("show", "--model", "trained/berries", *IMAGES)[0] == 0
    assert call("card", "trained/berries")[0] == 0
    assert (home / "robustness-card.md").read_text().count("# berries: robustness") == 1

    call("run", "--model", "python:unet:UNet", "--num-classes", "3", *IMAGES)  # fails: a side of 33 pixels
    assert (
        call("run", "--model", '{address: "python:unet:UNet", options: {stride: 2, num_classes: 3}}', *IMAGES)[0] == 0
    )
    code, out, _ = call("compare", "unet:UNet", "trained/berries")
    assert code == 0
    assert "berries" in out
    assert "berries" in call("list", "models")[1]


def test_a_finished_training_is_not_repeated_unless_it_is_restarted(call: Call, home: Path) -> None:
    assert "training berries" in call("train", "recipe.yaml")[2]
    card = json.loads((home / "trained/berries/card.json").read_text())
    assert call("train", "recipe.yaml")[2] == ""
    assert "training berries" in call("train", "recipe.yaml", "--restart")[2]
    assert json.loads((home / "trained/berries/card.json").read_text())["figures"] == card["figures"]


def test_what_training_returns_can_be_evaluated(home: Path) -> None:
    result = train("recipe.yaml")
    photos = gauntlet.load_dataset("folder:photos", split="val")
    assert gauntlet.evaluate(result, photos).figures["mIoU"] == pytest.approx(result.miou, abs=1e-5)
    assert result.model.num_classes == 3
    assert gauntlet.load_model("trained/berries").identity == result.model.identity == result.identity


def test_a_trained_folder_finds_its_network_from_another_folder(
    home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    train("recipe.yaml")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder != str(home)])
    del sys.modules["unet"]
    assert gauntlet.load_model(str(home / "trained/berries")).identity.name == "berries"


def test_faults_are_said_in_one_sentence(call: Call, home: Path) -> None:
    recipe = (home / "recipe.yaml").read_text()
    for wrong, sentence in (
        ("python:unet:VNet", "the module unet has no 'VNet'."),
        ("python:vnet:VNet", "python:vnet:VNet cannot be imported: No module named 'vnet'."),
        ("python:unet", "python:unet must name a callable"),
    ):
        (home / "wrong.yaml").write_text(recipe.replace("python:unet:UNet", wrong))
        code, _, err = call("train", "wrong.yaml")
        assert code == 2
        assert sentence in err
    (home / "wrong.yaml").write_text(recipe.replace("width: 4", "depth: 4"))
    assert "cannot be made with these options" in call("train", "wrong.yaml")[2]
    (home / "unfinished").mkdir()
    (home / "unfinished/checkpoint.pt").write_bytes(b"")
    with pytest.raises(GauntletError, match="is not finished; run 'gauntlet train' again"):
        gauntlet.load_model("unfinished")

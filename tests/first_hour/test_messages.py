"""The first hour of a stranger: what the program says when something is forgotten, mixed up or mistyped."""

from __future__ import annotations

import json
from pathlib import Path

import color_nets
import pytest
import torch

from program import Call

SIZES = ((32, 48), (32, 48))
READER = "python:color_nets:Reader"
THREE = ("--num-classes", "3")


@pytest.fixture
def photos(tmp_path: Path) -> str:
    """A folder with two photographs of three classes, as an address."""
    return f"folder:{color_nets.write_photos(tmp_path / 'photos', SIZES)}"


def test_classes_in_another_order_are_refused_with_what_mends_it(call: Call, photos: str) -> None:
    address = "python:color_nets:another_order"
    code, _, err = call("run", "-m", address, "-d", photos)
    assert code == 2
    assert "has the classes of the dataset 'folder:photos' in another order: berry, soil, leaf" in err
    assert "outputs=[1, 2, 0] (--outputs 1,2,0)" in err
    code, out, err = call("run", "-m", address, "-d", photos, "--outputs", "1,2,0", "--json")
    assert code == 0, err
    assert json.loads(out)["figures"]["mIoU"] == 1


def test_names_that_the_user_gives_in_another_order_are_refused_too(call: Call, photos: str) -> None:
    given = ("-m", READER, "-d", photos, *THREE, "--mean", "0,0,0", "--class-names")
    assert "in another order" in call("run", *given, "Berry,soil,leaf")[2]
    assert call("run", *given, "Soil,LEAF,berry")[0] == 0


def test_a_missing_class_is_named(call: Call, photos: str) -> None:
    code, _, err = call("run", "-m", "python:color_nets:one_class_less", "-d", photos)
    assert code == 2
    assert "has 2 classes, the dataset 'folder:photos' 3 classes; the model lacks leaf" in err


def test_a_forgotten_normalisation_is_said_once_and_a_better_one_suggested(call: Call, photos: str) -> None:
    run = ("run", "-m", "python:color_nets:normalised", "-d", photos, *THREE, "-t", "clean", "-t", "fog", "--json")
    code, out, err = call(*run)
    assert code == 0
    assert err.count("was given neither mean nor std: it gets images in [0, 1] as they are") == 1
    assert err.count("try --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225") == 1
    assert "on 100.0 % with ImageNet's normalisation" in err
    wrong = json.loads(out)[0]["figures"]["mIoU"]
    mended = ("--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225")
    code, out, err = call(*run, *mended)
    assert "neither mean nor std" not in err
    assert json.loads(out)[0]["figures"]["mIoU"] == 1 > wrong


def test_a_network_without_normalisation_gets_no_advice(call: Call, photos: str) -> None:
    code, _, err = call("run", "-m", READER, "-d", photos, *THREE)
    assert code == 0
    assert "neither mean nor std" in err
    assert "try --mean" not in err


def test_a_failure_is_said_once(call: Call, photos: str) -> None:
    code, out, err = call("run", "-m", "python:color_nets:one_class_less", "-d", photos, "-t", "clean")
    assert code == 2
    assert (out + err).count("failed:") == 1
    assert "0 computed, 0 found in gauntlet-results.db, 1 failed (see above)" in out


def test_a_size_that_does_not_fit_suggests_a_stride(call: Call, tmp_path: Path) -> None:
    root = color_nets.write_photos(tmp_path / "odd", [(33, 47)])
    run = ("run", "-m", "python:color_nets:Halving", "-d", f"folder:{root}", *THREE, "--mean", "0,0,0")
    code, _, err = call(*run)
    assert code == 2
    assert "the network does not take images of 33x47" in err
    assert "stride=32 (--stride 32)" in err
    assert call(*run, "--stride", "32")[0] == 0


def test_attack_checks_take_a_split_and_images_of_different_sizes(call: Call, tmp_path: Path) -> None:
    color_nets.write_photos(tmp_path / "photos" / "test", [(8, 16), (16, 8)])
    (tmp_path / "photos" / "test" / "classes.txt").rename(tmp_path / "photos" / "classes.txt")
    arguments = ("doctor", "--attack-check", READER, *THREE, "-d", "folder:photos", "--split", "test", "--images", "2")
    code, out, err = call(*arguments, "--json")
    assert code in (0, 1), err
    assert isinstance(json.loads(out), list)


def test_torchscript_is_a_model_too(call: Call, photos: str) -> None:
    torch.jit.script(color_nets.Reader()).save("net.pt")
    code, out, err = call("run", "-m", "script:net.pt", "-d", photos, *THREE, "--json")
    assert code == 0, err
    assert json.loads(out)["figures"]["mIoU"] == 1

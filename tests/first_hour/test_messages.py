"""The first hour of a stranger: what the program says when something is forgotten, mixed up or mistyped."""

from __future__ import annotations

import json
from pathlib import Path

import color_nets
import cv2
import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import architectures
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
    torch.jit.save(torch.jit.script(color_nets.Reader()), "net.pt")
    code, out, err = call("run", "-m", "script:net.pt", "-d", photos, *THREE, "--json")
    assert code == 0, err
    assert json.loads(out)["figures"]["mIoU"] == 1


def test_a_file_without_a_prefix_is_told_its_address(call: Call) -> None:
    torch.jit.save(torch.jit.script(color_nets.Reader()), "net.pt")
    torch.save(color_nets.Reader().state_dict(), "reader.pth")
    torch.save(architectures.build("enet", 7).state_dict(), "street.pth")
    Path("net.onnx").write_bytes(b"")
    Path("hub").mkdir()
    Path("hub/config.json").write_text("{}")
    Path("empty").mkdir()
    expected = {
        "net.pt": "write script:net.pt",
        "reader.pth": "write python:MODULE:CALLABLE for the code that builds the network, with --weights reader.pth",
        "street.pth": "of the architecture 'enet' with 7 outputs: write python:gauntlet.models.architectures.enet:ENet "
        "with --weights street.pth --num-classes 7",
        "net.onnx": "write onnx:net.onnx",
        "hub/": "write hf:hub",
        "empty": "a model is hf:FOLDER (with its config.json)",
        "missing.pth": "there is no file 'missing.pth'",
    }
    for given, sentence in expected.items():
        code, _, err = call("run", "-m", given)
        assert code == 2
        assert sentence in err, err


def test_weights_of_an_own_network_are_loaded(call: Call, photos: str) -> None:
    torch.save({"state_dict": color_nets.Reader().state_dict()}, "reader.pth")
    run = ("run", "-m", "python:color_nets:untrained", "-d", photos, *THREE, "--json", "--weights")
    code, out, err = call(*run, "reader.pth")
    assert code == 0, err
    assert json.loads(out)["figures"]["mIoU"] == 1
    code, _, err = call(*run, "missing.pth")
    assert code == 2
    assert "there is no file missing.pth; the weights of python:color_nets:untrained are expected there" in err


def test_code_of_the_user_that_fails_is_no_bug_of_ours(call: Call, photos: str) -> None:
    code, _, err = call("run", "-m", "python:color_nets:reads_a_file", "-d", photos, *THREE, "--weights", "gone.pth")
    assert code == 2
    assert "python:color_nets:reads_a_file could not build the model: FileNotFoundError" in err
    assert "a bug" not in err


@pytest.mark.parametrize("key", ["model", "dataset", "threat", "suite", "seed"])
def test_a_key_in_the_singular_is_suggested_in_the_plural(call: Call, key: str) -> None:
    Path("plan.yaml").write_text(f"{key}: [streets/enet]\n")
    code, _, err = call("run", "plan.yaml")
    assert code == 2
    assert f"unknown key '{key}'; did you mean '{key}s'" in err


def test_transparent_images_are_converted_with_one_note(
    call: Call, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = color_nets.write_photos(tmp_path / "photos", SIZES, mode="RGBA")
    code, out, err = call("run", "-m", READER, "-d", f"folder:{root}", *THREE, "--json")
    assert code == 0, err
    assert json.loads(out)["figures"]["mIoU"] == 1
    assert [message.count("transparent (RGBA)") for message in caplog.messages if "turned into RGB" in message] == [1]


def test_the_number_of_classes_is_that_of_the_dataset(call: Call, photos: str) -> None:
    given = call("run", "-m", READER, "-d", photos, *THREE, "--json")
    assumed = call("run", "-m", READER, "-d", photos, "--json")
    assert given[0] == assumed[0] == 0
    assert json.loads(assumed[1])["key"] == json.loads(given[1])["key"]
    assert json.loads(assumed[1])["from_store"]
    assert call("show", "-m", READER, "-d", photos)[0] == 0


def test_a_part_of_a_suite_runs(call: Call, photos: str) -> None:
    run = ("run", "-m", READER, "-d", photos, "-s", "quick", "--dry-run", "--json")
    every = [row["threat"] for row in json.loads(call(*run)[1])]
    names = [row["threat"] for row in json.loads(call(*run, "--skip", "fog", "--skip", "clean")[1])]
    assert names == [name for name in every if not name.startswith(("fog", "clean"))]
    names = [row["threat"] for row in json.loads(call(*run, "--only", "corruption", "--skip", "fog*")[1])]
    assert names == [name for name in every if name in names]
    assert 0 < len(names) < len(every) - 1
    code, _, err = call(*run, "--only", "pdg")
    assert code == 2
    assert "unknown threat of this plan 'pdg'; did you mean 'pgd'" in err
    assert "leave no threat" in call(*run, "--only", "fog", "--skip", "fog")[2]


def test_a_photograph_without_labels_is_shown_to_a_model(call: Call, photos: str) -> None:
    picture = str(Path(photos.partition(":")[2]) / "images" / "0.png")
    for threat in ("clean", "fog", "fgsm"):
        code, out, err = call("show", picture, "-m", READER, *THREE, "-t", threat, "-o", f"{threat}.png")
        assert (code, out) == (0, f"written to {threat}.png\n"), err
    widths = [cv2.imread(f"{threat}.png").shape[1] for threat in ("clean", "fog")]
    assert widths[1] > widths[0]  # two tiles, then those of the threat beside them
    code, _, err = call("show", picture)
    assert code == 2
    assert "say what to show of the image" in err


def test_perturbed_images_are_kept_exactly(call: Call, photos: str) -> None:
    attack = "{attack: {name: fgsm, epsilon: 3.7/255}}"
    run = ("run", "-m", READER, "-d", photos, *THREE, "-t", attack, "--save-images", "seen")
    plain = call("run", "-m", READER, "-d", photos, *THREE, "-t", attack, "--store", "other.db", "--json")
    code, out, err = call(*run, "--json")
    assert code == 0, err
    assert json.loads(out)["figures"] == json.loads(plain[1])["figures"]
    (index,) = Path("seen").glob("*/index.json")
    described = json.loads(index.read_text())
    assert (described["key"], [each["id"] for each in described["images"]]) == (json.loads(out)["key"], ["0", "1"])
    for each in described["images"]:
        numbers = np.load(index.parent / each["float"])
        drawn = cv2.imread(str(index.parent / each["png"]))[..., ::-1]
        assert (numbers.dtype, numbers.shape) == (np.float32, (*SIZES[0], 3))
        assert np.abs(numbers * 255 - drawn).max() <= 0.5 + 1e-4
        clean = cv2.imread(str(Path(photos.partition(":")[2]) / "images" / f"{each['id']}.png"))[..., ::-1]
        assert np.abs(numbers - clean / 255).max() == pytest.approx(3.7 / 255, abs=1e-6)
    code, _, err = call(*run)
    assert "1 stored already have none (--again makes them)" in err


@pytest.mark.slow
def test_workers_keep_images_too(call: Call) -> None:
    arguments = ("run", "-m", "streets/enet", "--limit", "2", "--batch-size", "1", "--workers", "2", "--json")
    code, _, err = call(*arguments, "--save-images", "seen")
    assert code == 0, err
    (index,) = Path("seen").glob("*/index.json")
    assert len(json.loads(index.read_text())["images"]) == 2 == len(list(Path("seen").glob("*/*.npy")))


def test_from_python_a_module_is_told_to_be_wrapped(photos: str) -> None:
    with pytest.raises(GauntletError, match=r"a Reader is no Gauntlet model yet: gauntlet.wrap_model\(module"):
        gauntlet.evaluate(color_nets.Reader(), photos)  # type: ignore[call-overload]


def test_from_python_several_threats_give_several_evaluations(photos: str) -> None:
    model = gauntlet.wrap_model(color_nets.Reader(), num_classes=3, mean=(0.0,) * 3, std=(1.0,) * 3)
    results = gauntlet.evaluate(model, photos, ["clean", {"corruption": {"name": "fog", "severity": 1}}])
    assert [each.threat for each in results] == ["clean", "fog 1"]
    np.testing.assert_equal(dict(gauntlet.evaluate(model, photos, "clean").figures), dict(results[0].figures))
    with pytest.raises(GauntletError, match="list of threats is empty"):
        gauntlet.evaluate(model, photos, [])


def test_from_python_a_suite_gives_all_its_evaluations(photos: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threats = [{"clean": {}}, {"corruption": {"name": "fog", "severity": 1}}]
    monkeypatch.setattr(gauntlet.suites, "build", lambda name, task: threats)
    model = gauntlet.wrap_model(color_nets.Reader(), num_classes=3, mean=(0.0,) * 3, std=(1.0,) * 3)
    assert [each.threat for each in gauntlet.evaluate(model, photos, ["quick"])] == ["clean", "fog 1"]
    assert isinstance(gauntlet.evaluate(model, photos, "quick"), list)


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (np.zeros((8, 8, 3), np.uint8), r"not a ndarray; gauntlet.samples.images_to_tensor"),
        (
            torch.zeros(1, 3, 8, 8, dtype=torch.uint8),
            r"not torch.uint8; 8-bit images become it by images.float\(\) / 255",
        ),
        (torch.zeros(3, 8, 8), r"not \(3, 8, 8\); give a single image and its labels as a batch of one: image\[None\]"),
        (torch.zeros(1, 8, 8, 3), r"not \(1, 8, 8, 3\); images.permute\(0, 3, 1, 2\)"),
    ],
)
def test_images_in_another_form_get_one_sentence(images: torch.Tensor, sentence: str) -> None:
    model = gauntlet.wrap_model(color_nets.Reader(), num_classes=3)
    with pytest.raises(GauntletError, match=sentence):
        gauntlet.attacks.build("fgsm", epsilon="8/255")(model, images, torch.zeros(1, 8, 8, dtype=torch.long))

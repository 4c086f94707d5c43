"""A benchmark's rows out of a folder of checkpoints: run, named where they are missing, and reported."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

import gauntlet
from dataset_trees import write_image, write_labels
from gauntlet.errors import GauntletError
from gauntlet.models import zoo
from mm_networks import as_images, build, picture, read_config, save
from program import Call

pytest.importorskip("mmseg", exc_type=ImportError)
pytest.importorskip("mmdet", exc_type=ImportError)
pytestmark = pytest.mark.mm

TRIPLE = {"model_name": "SegFormer", "backbone": "MiT-B0", "dataset": "ade20k"}


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """A folder with one file of OpenMMLab's name, of random weights."""
    entry = zoo.find(*TRIPLE.values())
    config = read_config("mmseg", entry.openmmlab_config)
    saved = save(tmp_path, config, build(config, "mmseg"))
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    saved.weights.rename(folder / entry.openmmlab_weights.rsplit("/", 1)[-1])
    return folder


def test_a_triple_and_a_folder_give_the_model(checkpoints: Path) -> None:
    model = gauntlet.load_model(**TRIPLE, checkpoints=checkpoints, trust=True)
    assert model(as_images(picture(64, 64))).shape == (1, 150, 64, 64)
    assert model.class_names[:2] == ("wall", "building")
    assert model.origin is not None
    assert gauntlet.load_model(model.origin["address"], **model.origin["options"]).identity == model.identity


def test_a_triple_without_a_folder_is_fetched(
    checkpoints: Path, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = checkpoints.iterdir()
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    name = f"segformer_20210101-{digest}.pth"
    file.rename(tmp_path / "site" / name)
    entry = replace(zoo.find(*TRIPLE.values()), source="", openmmlab_weights=f"{server}/{name}")
    monkeypatch.setattr(zoo, "find", lambda *triple, crop_size=None: entry)
    model = gauntlet.load_model(**TRIPLE, trust=True)
    assert model.identity.name == entry.openmmlab_config
    assert "100" in capsys.readouterr().err  # of the bar
    (tmp_path / "site" / name).unlink()
    assert gauntlet.load_model(**TRIPLE, trust=True).identity == model.identity
    with pytest.raises(GauntletError, match="is Python code and its checkpoint a pickle"):
        gauntlet.load_model(**TRIPLE)


def test_every_configuration_of_the_zoo_is_in_the_wheels() -> None:
    from gauntlet.models.sources.openmmlab import config_file

    for entry in zoo.entries():
        if entry.openmmlab_address and "InternImage" not in entry.loads:
            library, _, config = entry.openmmlab_address.partition(":")
            assert config_file(library, config).is_file()


def test_the_rows_that_are_there_run_and_stand_in_the_report(checkpoints: Path, call: Call, tmp_path: Path) -> None:
    root = tmp_path / "ADEChallengeData2016"
    write_image(root / "images/validation/ADE_val_00000001.jpg", size=(64, 64))
    write_labels(root / "annotations/validation/ADE_val_00000001.png", range(64), size=(64, 64))
    pspnet = zoo.find("pspnet", "resnet50", "ade20k").openmmlab_weights.rsplit("/", 1)[-1]
    (checkpoints / pspnet).write_bytes(b"no checkpoint")
    internimage = zoo.find("upernet", "internimage-t", "ade20k").openmmlab_weights.rsplit("/", 1)[-1]
    (checkpoints / internimage).write_bytes(b"")
    place = ("--dataset", "ade20k", "--root", root, "--store", tmp_path / "s.db")
    attack = "{attack: {name: pgd, steps: 2}}"
    code, output, errors = call(
        *("run", "--zoo", "semsegbench", "--checkpoints", checkpoints, "--trust", *place),
        *("--threat", "clean", "--threat", attack, "--workers", "1", "--json"),
    )
    assert code == 1, errors  # a file is broken, which is seen when it is read; the others run
    assert f"the checkpoint {checkpoints / pspnet} cannot be read" in errors
    figures = json.loads(output)  # nothing of the library's around it
    assert [each["model"] for each in figures] == ["segformer_mit-b0_8xb2-160k_ade20k-512x512"] * 2
    assert "left out: pspnet with resnet101 on ade20k (512x512): there is no pspnet_r101-d8_" in errors
    assert "left out: upernet with internimage-t on ade20k (512x512): there is no configuration file" in errors
    call("report", "--store", tmp_path / "s.db", "--output", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Beside the published figures" in page

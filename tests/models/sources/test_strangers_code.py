"""Addresses that the user did not write run no code: what a store or a card names is asked for first."""

from __future__ import annotations

import contextlib
import importlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from gauntlet.errors import GauntletError
from gauntlet.files import name_inside
from gauntlet.models import load_model
from gauntlet.models.sources import trained
from gauntlet.models.sources.option_values import check_values
from gauntlet.own_code import refusing_code
from tiny import tiny_network

WHY = "say that you trust it."


@pytest.fixture(autouse=True)
def nothing_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))


def test_code_that_the_user_named_themselves_is_theirs_in_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(str(importlib.import_module("tiny").__file__)).parent)
    load_model("python:tiny:tiny_network", num_classes=3)
    with refusing_code(WHY):
        assert load_model("python:tiny:tiny_network", num_classes=3).num_classes == 3
        with pytest.raises(GauntletError, match="is code that would run here"):
            load_model("python:tiny:TinyDataset", num_classes=3)
        monkeypatch.chdir(tmp_path)
        with pytest.raises(GauntletError, match="is code that would run here"):
            load_model("python:tiny:tiny_network", num_classes=3)


def test_trust_is_for_once_and_what_is_installed_is_nobodys_own() -> None:
    with refusing_code(""):
        load_model("python:tiny:tiny_network", num_classes=3)
    with contextlib.suppress(GauntletError):
        load_model("python:torch.nn:Identity", num_classes=3)
    for address in ("python:tiny:tiny_network", "python:torch.nn:Identity"):
        with refusing_code(WHY), pytest.raises(GauntletError, match="is code that would run here"):
            load_model(address, num_classes=3)


def test_code_that_a_stranger_names_is_not_imported(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    harmful = ("python:pathlib:Path.touch", "python:os:mkdir", "noise:python:os:mkdir", "ensemble:python:os:mkdir")
    for address in harmful:
        with refusing_code(WHY), pytest.raises(GauntletError, match="is code that would run here; say that"):
            load_model(address, path=str(mark), num_classes=3)
    assert not mark.exists()
    with refusing_code(WHY), refusing_code(""):
        assert load_model("python:tiny:tiny_network", num_classes=3).num_classes == 3


def test_a_stranger_cannot_trust_itself(tmp_path: Path) -> None:
    torch.save({"net": tiny_network()}, tmp_path / "net.pt2")
    with refusing_code(WHY), pytest.raises(GauntletError, match=r"pass trust=True \(--trust\)"):
        load_model(f"script:{tmp_path / 'net.pt2'}", num_classes=3, trust=True)


def test_a_card_of_somebody_else_imports_nothing(tmp_path: Path) -> None:
    described = {
        "architecture": "python:tiny:tiny_network",
        "options": {"classes": 3},
        "num_classes": 3,
        "class_names": ["a", "b", "c"],
        "mean": [0.0] * 3,
        "std": [1.0] * 3,
        "ignore_index": 255,
    }
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / trained.CARD_FILE).write_text(json.dumps({"name": "theirs", "model": described}))
    save_file(tiny_network().state_dict(), folder / trained.WEIGHTS_FILE)
    with pytest.raises(GauntletError, match="which was not trained here, names it: pass trust=True"):
        load_model(str(folder))
    assert load_model(str(folder), trust=True).num_classes == 3
    trained.register("theirs", folder)  # as training does
    assert load_model(str(folder)).num_classes == 3


LEAVING = ["../evil", "/etc/evil", "a/../../evil", "", ".", "a\0b", r"..\..\evil.png", r"C:\x.png", "C:evil"]


@pytest.mark.parametrize("image_id", LEAVING)
def test_an_image_id_stays_in_its_folder(image_id: str) -> None:
    with pytest.raises(GauntletError, match="cannot be a file name inside"):
        name_inside(image_id)


def test_numbers_of_numpy_are_whole_numbers_and_what_cannot_be_meant_is_refused() -> None:
    check_values("net", {"num_classes": np.int64(3), "outputs": np.array([2, 0]), "input_size": "image"})
    for options in ({"num_classes": True}, {"num_classes": "3"}, {"stride": 10**30}, {"input_size": {"height": 4}}):
        with pytest.raises(GauntletError, match="of the model net must be"):
            check_values("net", options)

"""What a defence cannot do with images of a size, or with members, is one sentence before anything is computed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from defence_cases import model
from gauntlet.defences import Crf, MultiscaleModel, TransformedModel
from gauntlet.errors import GauntletError
from gauntlet.evaluation import evaluate
from gauntlet.evaluation.plan import parse_plan, plan_jobs
from gauntlet.models.sources.shipped import ShippedModel
from gauntlet.results import Store
from tiny import TinyDataset


def plan_of(address: str, size: tuple[int, int], **options: Any) -> Any:
    data = {"name": "streets", "options": {"size": list(size), "length": 1}}
    models = ["streets/enet", {"address": address, "options": options}]
    return plan_jobs(parse_plan({"models": models, "datasets": [data], "threats": ["clean"]}))


@pytest.mark.parametrize(
    ("address", "size", "sentence"),
    [
        ("transform:kind=blur,sigma=0+9:streets/enet", (32, 64), "sigma 9 reaches 36 pixels, but an image is 32x64"),
        ("transform:kind=blur,fixed=9:streets/enet", (32, 64), "sigma 9 reaches 36 pixels"),
        ("multiscale:scales=0.5+1:transform:kind=blur,sigma=0+4:streets/enet", (32, 64), "an image is 16x32"),
        ("ensemble:[streets/enet]+[transform:kind=blur,sigma=0+9:streets/enet]", (32, 64), "an image is 32x64"),
        ("crf:method=exact:streets/enet", (128, 256), "for 128x256 pixels takes 4 GiB, and less than 4 are kept"),
        (
            "crf:method=exact:streets/enet",
            (160, 256),
            "for 160x256 pixels takes 6 GiB, and less than 4 are kept; use method=cells",
        ),
    ],
)
def test_images_of_a_wrong_size_are_told_when_a_plan_is_made(
    address: str, size: tuple[int, int], sentence: str
) -> None:
    with pytest.raises(GauntletError, match=sentence):
        plan_of(address, size)


@pytest.mark.parametrize(
    "address",
    [
        "transform:kind=blur,sigma=0+7:streets/enet",
        "crf:method=exact,iterations=0:streets/enet",
        "crf:streets/enet",
        "tiled:size=64x64:crf:method=exact:streets/enet",
    ],
)
def test_images_of_a_right_size_are_planned(address: str) -> None:
    assert len(plan_of(address, (160, 256) if "crf" in address else (32, 64))) == 2


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"class_names": ["road", "sky"], "num_classes": 2}, "they have 11 and 2 classes"),
        ({"class_names": [f"thing {index}" for index in range(11)]}, "a class is 'sky' in one and 'thing 0' in the"),
        ({"ignore_index": 255}, "their ignore indices are 11 and 255"),
    ],
)
def test_members_of_other_classes_are_told_without_loading_them(
    tmp_path: Path, changed: dict[str, Any], sentence: str
) -> None:
    card = ShippedModel("streets/enet").card
    (tmp_path / "card.json").write_text(json.dumps({**card, "model": {**card["model"], **changed}}))
    (tmp_path / "model.safetensors").write_bytes(b"never read")
    for member in (str(tmp_path), f"tiled:size=32:crf:iterations=1:{tmp_path}"):
        with pytest.raises(GauntletError, match=f"cannot be an ensemble: {sentence}"):
            plan_of(f"ensemble:[streets/enet]+[{member}]", (32, 64))


@pytest.fixture
def script(tmp_path: Path) -> str:
    """The address of a network that does not say how many classes it has."""
    torch.jit.script(torch.nn.Conv2d(3, 11, 1)).save(str(tmp_path / "net.pt"))  # type: ignore[no-untyped-call]
    return f"script:{tmp_path}/net.pt"


@pytest.mark.parametrize("around", ["", "transform:kind=blur,fixed=1:", "crf:tiled:size=32:"])
def test_a_network_gets_the_classes_of_the_data_inside_a_defence_too(script: str, around: str) -> None:
    assert len(plan_of(around + script, (32, 64))[-1].model.load().label_space.names) == 11


def test_a_member_with_classes_of_its_own_cannot_be_given_those_of_the_data(script: str) -> None:
    with pytest.raises(GauntletError, match="num_classes go to every member of ensemble:, but 'streets/enet'"):
        plan_of(f"ensemble:[streets/enet]+[{script}]", (32, 64))


def test_parameters_of_a_field_that_do_not_fit_are_told_before_anything_is_computed(tmp_path: Path) -> None:
    """`streets` has eleven classes; what a network without a card has is only known once it is loaded."""
    tensors = {"compatibility": torch.eye(3), "w_bilateral": torch.ones(3), "w_spatial": torch.ones(3)}
    save_file(tensors, tmp_path / "three.safetensors")
    with pytest.raises(GauntletError, match=r"'compatibility' .* has shape \(3, 3\); 11 classes need \(11, 11\)"):
        plan_of(f"crf:parameters={tmp_path}/three.safetensors:streets/enet", (32, 64))
    (tmp_path / "text.safetensors").write_text("no tensors")
    with pytest.raises(GauntletError, match="cannot be read as safetensors"):
        plan_of(f"crf:parameters={tmp_path}/text.safetensors:streets/enet", (32, 64))


def test_a_detector_is_not_certified_and_that_is_told_when_planned() -> None:
    data = {"name": "streets", "options": {"size": [32, 64], "length": 1}}
    threats = ["clean", {"certify": {"sigma": 0.25, "n": 100}}]
    with pytest.raises(GauntletError, match="certificates are of pixels, and detection has none"):
        plan_jobs(parse_plan({"models": ["streets/fcos"], "datasets": [data], "threats": threats}))


def test_a_source_of_transfers_is_checked_like_a_model() -> None:
    def plan(source: str) -> Any:
        transfer = {"transfer": {"source_model": source, "attack": {"name": "pgd", "epsilon": "8/255"}}}
        data = {"name": "streets", "options": {"size": [32, 64], "length": 1}}
        return plan_jobs(parse_plan({"models": ["streets/enet"], "datasets": [data], "threats": [transfer]}))

    assert len(plan("transform:kind=blur,sigma=0+7:streets/enet")) == 1
    with pytest.raises(GauntletError, match="sigma 9 reaches 36 pixels, but an image is 32x64"):
        plan("transform:kind=blur,sigma=0+9:streets/enet")
    with pytest.raises(GauntletError, match="'streets/fcos' is a detection model; its images are transferred"):
        plan("streets/fcos")


def test_a_model_at_hand_is_told_before_the_first_of_several_threats() -> None:
    asked = []
    wide = TransformedModel(model(), kind="blur", sigma=(0, 9))
    wide.register_forward_pre_hook(lambda *_: asked.append(1))
    data, store = TinyDataset(2), Store()
    models: Any
    for models in (wide, [model(), wide]):
        with pytest.raises(GauntletError, match="reaches 36 pixels, but an image is 16x24"):
            evaluate(models, data, ["clean", "pgd"], store=store)
    assert not asked
    assert not list(store.keys())
    with pytest.raises(GauntletError, match="for 256x256 pixels takes 16 GiB"):
        MultiscaleModel(Crf(model(), method="exact"), scales=(0.5, 2)).check_size(128, 128)

"""Models on the command line: folders of weights and of images to first figures, options of every model."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from program import Call
from tiny import tiny_network


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two images with masks of three classes."""
    folder = tmp_path / "photos"
    for part in ("images", "masks"):
        (folder / part).mkdir(parents=True)
    generator = np.random.default_rng(0)
    for index in range(2):
        cv2.imwrite(str(folder / "images" / f"{index}.png"), generator.integers(0, 256, (64, 64, 3), dtype=np.uint8))
        cv2.imwrite(str(folder / "masks" / f"{index}.png"), generator.integers(0, 3, (64, 64), dtype=np.uint8))
    (folder / "classes.txt").write_text("a\nb\nc")
    return folder


@pytest.mark.zoo
def test_a_folder_of_transformers_and_a_folder_of_images_give_figures(call: Call, photos: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.SegformerConfig(
        depths=[1, 1, 1, 1],
        hidden_sizes=[8, 8, 16, 16],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
        num_labels=3,
    )
    transformers.SegformerForSemanticSegmentation(config).save_pretrained(tmp_path / "net")
    code, out, err = call(
        "run", "--model", "hf:net", "--dataset", "folder:photos", "--suite", "quick", "--store", "r.db", "--json"
    )
    assert code == 0, err
    results = json.loads(out)
    assert len(results) == 10
    assert {each["model"] for each in results} == {"net"}
    by_threat = {each["threat"]: each["figures"]["aAcc"] for each in results}
    assert by_threat["pgd linf 8/255 x10"] < by_threat["clean"]


def test_options_reach_every_model(call: Call, photos: Path, tmp_path: Path) -> None:
    traced = torch.jit.trace(tiny_network(), torch.rand(1, 3, 64, 64))  # type: ignore[no-untyped-call]
    traced.save(str(tmp_path / "net.pt"))
    options = ("--dataset", "folder:photos", "--store", "r.db", "--json", "--num-classes", "3")
    digests = set()
    for more in ((), ("--mean", "0.5,0.5,0.5"), ("--std", "1/4,1/4,1/4"), ("--channel-order", "BGR")):
        code, out, err = call("run", "--model", "script:net.pt", *options, *more)
        assert code == 0, err
        digests.add(json.loads(out)["model_digest"])
    assert len(digests) == 4
    code, _, err = call("run", "--model", "script:net.pt", *options, "--class-names", "car, traffic light")
    assert code == 2
    assert "2 class names" in err
    code, out, _ = call("run", "--model", "script:net.pt", *options, "--trust")
    assert json.loads(out)["from_store"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--model", "script:net.pt", "--mean", "0.5,0.5"), "--mean needs three numbers"),
        (("--model", "script:net.pt", "--std", "a,b,c"), "--std must be a number"),
        (("--model", "camvid/enet", "--dataset", "streets"), "needs its weights: weights='PATH', on the command line"),
        (("--model", "streets/enet", "--weights", "x.pth"), "takes no options, but got weights"),
        (("plan.yaml", "--num-classes", "3"), "num_classes"),
    ],
)
def test_wrong_options_are_one_sentence(call: Call, arguments: tuple[str, ...], sentence: str) -> None:
    code, _, err = call("run", *arguments)
    assert code == 2
    assert sentence in " ".join(err.split())

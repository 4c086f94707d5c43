"""Masks of 0 and 255, as every paint tool writes them: two classes when asked for, never one class in silence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import gauntlet
from dataset_trees import write_image, write_lines
from gauntlet.datasets import load_dataset
from gauntlet.errors import GauntletError


class Brightness(nn.Module):
    """One output per pixel: how much brighter than a grey the red channel is."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return 20 * (images[:, :1] - 0.5)


DRAWN = np.resize(np.array([0, 0, 0, 1, 1], np.uint8), (6, 8))


def painted(root: Path, mask: Image.Image, count: int = 2) -> Path:
    for index in range(count):
        write_image(root / f"images/{index}.png", seed=index)
        (root / "masks").mkdir(exist_ok=True)
        mask.save(root / f"masks/{index}.png")
    return root


@pytest.mark.parametrize("lines", [[], ["background", "vessel"]])
def test_the_two_readings_are_asked_for(lines: list[str], tmp_path: Path) -> None:
    root = painted(tmp_path, Image.fromarray(255 * DRAWN))
    if lines:
        write_lines(root / "classes.txt", lines)
    with pytest.raises(GauntletError, match=r"hold only 0 and 255, .*binary=True\).*binary=False"):
        load_dataset("folder", root=root)


def test_binary_masks_are_two_classes(tmp_path: Path) -> None:
    dataset = load_dataset("folder", root=painted(tmp_path, Image.fromarray(255 * DRAWN)), binary=True)
    assert dataset.class_names == ("background", "foreground")
    labels = dataset[0].labels
    assert labels is not None
    assert labels.tolist() == DRAWN.tolist()


def test_one_class_and_void_on_request(tmp_path: Path) -> None:
    dataset = load_dataset("folder", root=painted(tmp_path, Image.fromarray(255 * DRAWN)), binary=False)
    assert dataset.num_classes == 1
    labels = dataset[0].labels
    assert labels is not None
    assert labels.tolist() == (255 * DRAWN).tolist()


@pytest.mark.parametrize("kind", ["L", "1", "RGB", "P", "zero-one", "white first"])
def test_black_and_white_in_every_encoding(kind: str, tmp_path: Path) -> None:
    grey = Image.fromarray(255 * DRAWN)
    if kind == "zero-one":
        mask = Image.fromarray(DRAWN)
    elif kind == "white first":  # position 0 of the palette is white
        mask = Image.fromarray(1 - DRAWN, "P")
        mask.putpalette([255, 255, 255, 0, 0, 0])
    else:
        mask = grey.convert(kind)
    labels = load_dataset("folder", root=painted(tmp_path, mask), binary=True)[0].labels
    assert labels is not None
    assert labels.tolist() == DRAWN.tolist()


@pytest.mark.parametrize("odd", [128, 254])
def test_other_values_are_refused(odd: int, tmp_path: Path) -> None:
    mask = Image.fromarray(np.where(DRAWN, odd, 0).astype(np.uint8))
    with pytest.raises(GauntletError, match=f"holds the value {odd}; expected black and white"):
        load_dataset("folder", root=painted(tmp_path, mask), binary=True)[0]


def test_three_classes_are_not_binary(tmp_path: Path) -> None:
    root = painted(tmp_path, Image.fromarray(255 * DRAWN))
    write_lines(root / "classes.txt", ["a", "b", "c"])
    with pytest.raises(GauntletError, match="binary=True is for two classes"):
        load_dataset("folder", root=root, binary=True)


def test_colours_of_two_exchanged_lines_exchange_the_classes(tmp_path: Path) -> None:
    colors = np.array([(128, 64, 128), (70, 130, 180)], np.uint8)
    root = painted(tmp_path, Image.fromarray(colors[DRAWN]))
    lines = ["road 128 64 128", "sky 70 130 180"]
    write_lines(root / "classes.txt", lines)
    before = load_dataset("folder", root=root)
    write_lines(root / "classes.txt", lines[::-1])
    after = load_dataset("folder", root=root)
    assert (before.class_names, after.class_names) == (("road", "sky"), ("sky", "road"))
    assert before[0].labels is not None
    assert after[0].labels is not None
    assert (before[0].labels + after[0].labels == 1).all()


def test_masks_of_0_and_255_give_the_true_figure(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    truth = []
    for index in range(3):
        pixels = generator.integers(0, 256, (16, 24, 3), dtype=np.uint8)
        mask = (pixels[..., 0] > 127) ^ (generator.random((16, 24)) < 0.1)  # a tenth is drawn wrong
        truth.append((pixels[..., 0] / 255 > 0.5, mask))
        for folder, picture in (("images", pixels), ("masks", 255 * mask.astype(np.uint8))):
            (tmp_path / folder).mkdir(exist_ok=True)
            Image.fromarray(picture).save(tmp_path / f"{folder}/{index}.png")
    said, drawn = (np.stack(each) for each in zip(*truth, strict=True))
    reference = np.mean([(said == k)[drawn == k].sum() / ((said == k) | (drawn == k)).sum() for k in (False, True)])
    dataset = load_dataset(f"folder:{tmp_path}", binary=True)
    model = gauntlet.wrap_model(Brightness(), binary=True)
    clean = gauntlet.evaluate(model, dataset, device="cpu")
    assert clean.figures["mIoU"] == pytest.approx(reference)
    assert 0.7 < reference < 0.9
    attacked = gauntlet.evaluate(
        model, dataset, {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 5}}, device="cpu"
    )
    assert attacked.figures["mIoU"] < clean.figures["mIoU"]

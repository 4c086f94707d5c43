"""Labels that a wrong reading of masks would give as well are told, by the check and before a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch import nn

import gauntlet
from dataset_trees import write_image, write_labels, write_lines
from gauntlet.datasets import load_dataset
from gauntlet.datasets.check import check_dataset
from gauntlet.evaluation.execution.progress import Silent
from program import Call


class Notes(Silent):
    """Keeps what a run tells."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note_once(self, text: str) -> None:
        self.said.append(text)


def own_folder(root: Path, values: Sequence[int], classes: Sequence[str], count: int = 3) -> Path:
    for index in range(count):
        write_image(root / f"images/{index}.png", seed=index)
        write_labels(root / f"masks/{index}.png", values)
    write_lines(root / "classes.txt", classes)
    return root


NAMES = ["sky", "road", "car", "person"]
CASES = [
    ([0], NAMES, "all pixels that count are of the class 'sky'"),
    ([0, 1, 2, 255], NAMES, "25% of the pixels count for nothing"),
    ([0, 1], [f"class {index}" for index in range(9)], "only 2 of 9 classes occur ('class 0', 'class 1')"),
    ([0], ["sky"], "'sky' is the only class"),
]


@pytest.mark.parametrize(("values", "classes", "words"), CASES)
def test_doubts_are_told_by_the_check_and_before_a_run(
    values: list[int], classes: list[str], words: str, tmp_path: Path
) -> None:
    root = own_folder(tmp_path, values, classes)
    if 255 in values:  # a quarter alone is not doubted yet
        write_labels(root / "masks/0.png", [255])
        words = "50% of the pixels count for nothing"
    report = check_dataset("folder", root)
    assert report.ok
    assert any(words in doubt for doubt in report.splits[0].doubts), report.splits[0].doubts
    assert "labels in doubt" in next(report.lines())

    model = gauntlet.wrap_model(nn.Conv2d(3, max(2, len(classes)), 1), num_classes=len(classes))
    notes = Notes()
    gauntlet.evaluate(
        model,
        load_dataset("folder", root=root),
        ["clean", {"attack": {"name": "fgsm", "epsilon": "8/255"}}],
        device="cpu",
        progress=notes,
    )
    assert [words in note for note in notes.said if note.startswith("doubtful labels")].count(True) == 1


def test_ordinary_labels_are_not_doubted(tmp_path: Path) -> None:
    root = own_folder(tmp_path, [0, 1, 2, 3, 2, 255], NAMES)
    report = check_dataset("folder", root)
    assert report.splits[0].doubts == []
    assert "no problems" in next(report.lines())
    notes = Notes()
    model = gauntlet.wrap_model(nn.Conv2d(3, 4, 1), num_classes=4)
    gauntlet.evaluate(model, load_dataset("folder", root=root), device="cpu", progress=notes)
    assert not [note for note in notes.said if "doubt" in note]


def test_the_trivial_answer_stands_in_the_check(tmp_path: Path) -> None:
    report = check_dataset("folder", own_folder(tmp_path, [0, 0, 0, 1], NAMES))
    assert report.splits[0].trivial == {"mIoU": pytest.approx(0.75 / 2), "aAcc": 0.75}
    assert "    trivial answer, 'sky' everywhere: mIoU 37.50 %, aAcc 75.00 %" in report.lines()


def test_the_check_draws_masks_as_they_are_read(tmp_path: Path, call: Call) -> None:
    root = own_folder(tmp_path / "data", [0, 1], ["sky 10 200 30", "road 250 0 90"])
    strip = tmp_path / "strip.png"
    code, output, _ = call("data", "check", "folder", root, "--strip", strip)
    assert code == 0
    assert str(strip) in output
    colors = {tuple(color) for color in cv2.imread(str(strip))[..., ::-1].reshape(-1, 3).tolist()}
    assert {(10, 200, 30), (250, 0, 90)} <= colors


def test_the_check_takes_options_of_the_dataset(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))
    root = own_folder(tmp_path / "painted", [0, 255], ["background", "vessel"])
    assert call("data", "check", "folder", root)[0] == 2
    code, output, _ = call("data", "check", "folder", root, "--option", "binary=true")
    assert code == 0
    assert "background 50.00 %" in output
    assert len(list((tmp_path / "cache/masks").glob("*.png"))) == 1


def test_photographs_that_their_tag_turns_are_noted(tmp_path: Path) -> None:
    from PIL import Image

    root = own_folder(tmp_path, [0, 1], ["sky", "road"])
    exif = Image.Exif()
    exif[0x0112] = 3
    Image.fromarray(np.zeros((6, 8, 3), np.uint8)).save(root / "images/0.png", exif=exif)
    notes = check_dataset("folder", root).splits[0].notes
    assert any("1 image with a camera tag" in note for note in notes)
    assert torch.is_tensor(load_dataset("folder", root=root)[0].tensor())


def test_masks_without_an_image_are_counted(tmp_path: Path) -> None:
    root = own_folder(tmp_path, [0, 1], ["sky", "road"])
    for name in ("other", "third"):
        write_labels(root / f"masks/{name}.png", [0, 1])
    assert (
        "2 masks without an image, the first one is 'masks/other.png'" in check_dataset("folder", root).splits[0].notes
    )

from __future__ import annotations

import json
import math
import os
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch.multiprocessing.spawn import spawn

from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.models.architectures import WrappedDetector, build, build_detector
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.sources.card_and_weights import load_weights as load_model_weights
from gauntlet.samples import Boxes, Sample
from gauntlet.seeding import numpy_generator
from gauntlet.training import train
from gauntlet.training.augmentation.box_augmentation import BoxAugmentation, BoxPair, crop, mirror, resize
from gauntlet.training.config import AdversarialConfig, AugmentationConfig
from gauntlet.training.distributed import Processes, joined_processes
from gauntlet.training.initial_weights import load_weights
from gauntlet.training.log import read_log
from gauntlet.training.objectives import AdversarialDetectionObjective, StepInfo
from gauntlet.training.sample_feed import BoxPreparation
from gauntlet.training.validation import validate_detector
from tiny_detector import TinyBoxes, TinyDetector

QUIET = Silent()
FCOS: dict[str, Any] = {
    "architecture": "fcos",
    "options": {"widths": [8, 16, 16, 16], "top_width": 16, "width": 16},
}
DETR: dict[str, Any] = {
    "architecture": "detr",
    "options": {"widths": [8, 8, 8, 8], "top_width": 8, "width": 16, "heads": 4, "queries": 8, "layers": 2},
}
FASTER_RCNN: dict[str, Any] = {
    "architecture": "faster-rcnn",
    "options": {"widths": [8, 8, 8, 8], "top_width": 8, "width": 16, "hidden": 16, "proposals": 8},
}


class Blocks(TinyBoxes):
    """Coloured squares; another split has other ones."""

    def __init__(self, split: str = "train", length: int = 16) -> None:
        super().__init__(length if split == "val" else length + 4)
        self.split = split

    def __getitem__(self, index: int) -> Sample:
        return super().__getitem__(index if self.split == "val" else index + 4)


class Stopping(Silent):
    """Presses Ctrl-C when so many steps are done."""

    def __init__(self, at: int) -> None:
        self.left = at

    def advance(self, count: int, figure: float = 0.0, name: str = "", text: str = "") -> None:
        self.left -= count
        if self.left == 0:
            raise KeyboardInterrupt


def recipe(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "name": "tiny",
        "model": FCOS,
        "data": {"name": "python:test_detection_training:Blocks", "validation_options": {"length": 4}, "workers": 0},
        "epochs": 2,
        "batch_size": 4,
        "augmentation": {"scale": [0.9, 1.1], "crop": [32, 48], "flip": 0.5},
        "optimiser": {"learning_rate": 0.01, "clip_norm": 5.0},
        "log_every": 1,
        "threads": 1,
    }
    return {**base, **changes}


def curve(folder: Path) -> list[dict[str, str]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in read_log(folder / "log.csv")]


# -- boxes through the augmentations


def block(left: int, top: int, width: int, height: int) -> BoxPair:
    """A white block on black, and its box."""
    image = np.zeros((40, 60, 3), dtype=np.uint8)
    image[top : top + height, left : left + width] = 255
    corners = np.array([[left, top, left + width, top + height]], np.float32)
    return image, Boxes(corners, np.array([1]))


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**31),
    place=st.tuples(st.integers(0, 45), st.integers(0, 25), st.integers(5, 15), st.integers(5, 15)),
)
def test_boxes_move_with_their_pixels(seed: int, place: tuple[int, int, int, int]) -> None:
    augment = BoxAugmentation(AugmentationConfig(scale=(0.7, 1.5), crop=(32, 48), flip=0.5))
    image, boxes = augment(block(*place), numpy_generator(seed), lambda rng: pytest.fail("nobody asked for a partner"))
    assert image.shape == (32, 48, 3)
    rows, columns = np.nonzero(image[..., 0] == 255)
    # Padding is grey; the block is the only white thing, and its blurred edges are at most a pixel wide.
    if len(boxes) == 0:
        assert len(rows) == 0
    elif len(rows):
        x0, y0, x1, y1 = boxes.xyxy[0]
        seen = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        assert np.abs(np.array(seen) - (x0, y0, x1, y1)).max() <= 1.5


def test_augmentations_of_boxes_by_hand() -> None:
    pair = block(10, 5, 20, 10)
    assert mirror(pair)[1].xyxy.tolist() == [[30, 5, 50, 15]]
    assert resize(pair, 0.5)[1].xyxy.tolist() == [[5, 2.5, 15, 7.5]]
    rng = np.random.default_rng(0)
    image, boxes = crop(pair, (50, 80), rng)  # ten pixels on every side, five above
    assert boxes.xyxy.tolist() == [[20, 10, 40, 20]]
    assert (image[10:20, 20:40] == 255).all()
    assert boxes.crowd is not None
    assert not boxes.crowd.any()


def test_what_is_hardly_in_the_crop_becomes_a_region_to_ignore() -> None:
    flags: dict[float, bool] = {}
    for seed in range(60):
        _, boxes = crop(block(20, 0, 20, 40), (40, 30), np.random.default_rng(seed))
        assert boxes.crowd is not None
        flags |= {
            float(width): bool(flag) for width, flag in zip(np.ptp(boxes.xyxy[:, ::2], 1), boxes.crowd, strict=True)
        }
    assert flags
    assert all(flag == (width <= 6) for width, flag in flags.items())  # 30 % of 20 pixels


def test_bad_input_is_named() -> None:
    with pytest.raises(GauntletError, match=r"augmentation\.rotation does not fit boxes"):
        BoxAugmentation(AugmentationConfig(rotation=5.0))

    class Boxless(Blocks):
        def __getitem__(self, index: int) -> Sample:
            return Sample("one", np.zeros((8, 8, 3), np.uint8))

    with pytest.raises(GauntletError, match="image 'one' has no boxes"):
        BoxPreparation(Boxless(), BoxAugmentation(AugmentationConfig()), 0, cache=False).load(0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": {"label_smoothing": 0.1}}, "the fields of 'loss' are for segmentation"),
        ({"adversarial": {"method": "ddc-at", "attack": {"name": "pgd"}, "share": 0.5}}, "use pgd-at for a detector"),
        ({"model": {"architecture": "fcoss"}}, "fcos"),
        ({"model": {"architecture": "fcos", "options": {"depth": 3}}}, "'fcos' does not take these options"),
        ({"model": {"architecture": "fcos", "initial_part": "encoder"}}, "give initial_weights too"),
        ({"data": {"name": "python:training_squares:Squares"}}, "'squares' has no boxes"),
    ],
)
def test_recipes_that_cannot_work_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GauntletError, match=message):
        train(recipe(**changes), tmp_path, progress=QUIET)


# -- training


@pytest.mark.slow
def test_a_trained_detector_finds_the_blocks_and_loads_from_its_card(tmp_path: Path) -> None:
    result = train(recipe(epochs=25, ema=0.9, channels_last=True), tmp_path, progress=QUIET)
    card = json.loads((tmp_path / "card.json").read_text())
    assert card == result.card
    assert card["model"]["task"] == "detection"
    clean = card["figures"]["clean"]
    assert result.headline == ("mAP", clean["mAP"])
    assert clean["mAP50"] > 0.5
    assert clean["AP"].keys() == {"red", "green", "blue"}
    assert f"| clean mAP50 | {100 * clean['mAP50']:.1f} % |" in (tmp_path / "README.md").read_text()
    assert float(curve(tmp_path)[-1]["mAP50"]) == pytest.approx(clean["mAP50"], abs=1e-5)
    model = load_model_weights(card["model"], tmp_path / "model.safetensors", ModelIdentity("tiny", "0"))
    assert isinstance(model, WrappedDetector)
    assert model.class_names == ("red", "green", "blue")
    assert not any(parameter.requires_grad for parameter in model.parameters())
    sample = Blocks("val")[0]
    images = torch.from_numpy(sample.image).permute(2, 0, 1)[None] / 255
    assert len(model.predict(images)[0]) >= 1


def validate_here(rank: int, count: int, port: int, folder: str) -> None:
    """What each of several processes does: its share of the images; the figures must be those of all."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    with joined_processes("cpu") as processes:
        for length in (1, 7):  # with one image the second process has nothing to do
            detected = validate_detector(TinyDetector(), TinyBoxes(length), processes)
            (Path(folder) / f"{length}-{rank}.json").write_text(json.dumps([detected.summary, detected.by_class]))


@pytest.mark.slow
def test_two_processes_validate_a_detector_like_one(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spawn(validate_here, (2, port, str(tmp_path)), nprocs=2)  # type: ignore[no-untyped-call]
    for length in (1, 7):
        alone = validate_detector(TinyDetector(), TinyBoxes(length), Processes(0, 1, torch.device("cpu")))
        texts = {path.read_text() for path in tmp_path.glob(f"{length}-*.json")}
        assert texts == {json.dumps([alone.summary, alone.by_class])}
    assert alone.mean_ap50 > 0.5


def test_nothing_to_validate_on_is_undefined() -> None:
    figures = validate_detector(TinyDetector(), TinyBoxes(0), Processes(0, 1, torch.device("cpu")))
    assert math.isnan(figures.mean_ap)


def test_detr_learns_in_three_epochs(tmp_path: Path) -> None:
    train(recipe(model=DETR, epochs=3), tmp_path, progress=QUIET)
    losses = [float(row["loss"]) for row in curve(tmp_path)]
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(FCOS, id="fcos"),
        pytest.param(DETR, id="detr", marks=pytest.mark.slow),
        pytest.param(FASTER_RCNN, id="faster-rcnn", marks=pytest.mark.slow),
    ],
)
def test_a_stopped_training_continues_to_the_same_bits(tmp_path: Path, model: dict[str, Any]) -> None:
    settings = recipe(model=model, ema=0.9, checkpoint={"minutes": 1e-9}, validate_every=4)
    train(settings, tmp_path / "whole", progress=QUIET)
    with pytest.raises(KeyboardInterrupt):
        train(settings, tmp_path / "stopped", progress=Stopping(6))
    assert (tmp_path / "stopped/checkpoint.pt").exists()
    train(settings, tmp_path / "stopped", progress=QUIET)
    assert curve(tmp_path / "stopped") == curve(tmp_path / "whole")
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "stopped"))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_detector_starts_from_the_encoder_of_a_segmentation_network(tmp_path: Path) -> None:
    widths = (8, 16, 16, 16)
    other = build("pspnet", 5, widths=widths)
    save_file(other.state_dict(), tmp_path / "model.safetensors")
    network = build_detector("fcos", 3, **FCOS["options"])
    before = {name: value.clone() for name, value in network.state_dict().items()}
    load_weights(network, str(tmp_path), "encoder")
    for name, value in network.state_dict().items():
        expected = other.state_dict()[name] if name.startswith("encoder.") else before[name]
        assert torch.equal(value, expected)
    for part in ("decoder", None):
        with pytest.raises(GauntletError, match="do not fit the recipe's model"):
            load_weights(network, str(tmp_path), part)
    narrow = build_detector("fcos", 3, widths=(8, 8, 8, 8), top_width=8, width=8)
    with pytest.raises(GauntletError, match="do not fit the recipe's model"):
        load_weights(narrow, str(tmp_path), "encoder")


def test_adversarial_training_raises_the_loss_inside_the_ball() -> None:
    torch.manual_seed(0)
    network = build_detector("fcos", 3, **FCOS["options"])
    model = WrappedDetector(network, num_classes=3)
    attack = {"name": "pgd", "epsilon": "8/255", "alpha": "4/255", "steps": 2}
    objective = AdversarialDetectionObjective(model, AdversarialConfig(attack=attack, share=0.5)).eval()
    samples = [Blocks("val")[index] for index in range(4)]
    images = torch.stack([torch.from_numpy(each.image).permute(2, 0, 1) / 255 for each in samples])
    boxes = [each.boxes for each in samples if each.boxes is not None]
    attacked, same = objective.prepare(images, boxes, StepInfo(done=0.5, seeds=[1, 2, 3, 4]))
    change = (attacked - images).abs().amax(dim=(1, 2, 3))
    assert change[:2].tolist() == [0.0, 0.0]
    assert 0 < change[2:].min() <= change[2:].max() <= 8 / 255 + 1e-6
    assert same is boxes
    with torch.no_grad():
        before, after = model.losses(images, boxes)[2:], model.losses(attacked, boxes)[2:]
    assert (after > before).all()
    assert all(parameter.requires_grad for parameter in network.parameters())

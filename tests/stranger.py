"""What a stranger brings along: a small U-Net in a file of its own, and a folder of photographs of different sizes."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

OWN_MODULES = ("unet", "loader")
CLASSES = ("soil", "leaf", "berry")
COLORS = np.array([(120, 90, 60), (60, 160, 70), (200, 40, 60)], np.uint8)  # (K, 3), RGB
SIZES = ((48, 64), (40, 56), (33, 50))
"""Heights and widths; the last is no multiple of what the U-Net halves."""

UNET = '''
"""A U-Net with two levels, as it stands in many a repository."""

import torch
from torch import nn


def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, num_classes, width=8):
        super().__init__()
        self.first, self.second = block(3, width), block(width, 2 * width)
        self.pool, self.up = nn.MaxPool2d(2), nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.last = nn.Sequential(block(2 * width, width), nn.Conv2d(width, num_classes, 1))

    def forward(self, images):
        fine = self.first(images)
        coarse = self.second(self.pool(fine))
        return self.last(torch.cat([fine, self.up(coarse)], dim=1))
'''

LOADER = """
import torch

import gauntlet
from unet import UNet


def wrapped(weights):
    network = UNet(3)
    network.load_state_dict(torch.load(weights, weights_only=True))
    return gauntlet.wrap_model(network, num_classes=3, stride=2, mean=(0.5,) * 3, std=(0.25,) * 3)
"""

PLAN = """
models:
  - {address: "python:loader:wrapped", options: {weights: first.pth}}
  - {address: "python:loader:wrapped", options: {weights: second.pth}}
  - {address: "script:net.pt", options: {num_classes: 3, stride: 2, name: scripted, mean: [0.5, 0.5, 0.5]}}
datasets: [{name: folder, root: photos, split: val}]
threats: [clean, fgsm]
prepare: "off"
"""

RECIPE = """
name: berries
model: {architecture: "python:unet:UNet", options: {width: 4}, stride: 2}
data: {name: "folder:photos", split: train, validation_split: val}
steps: 12
batch_size: 4
augmentation: {crop: [32, 48], flip: 0.5}
optimiser: {learning_rate: 0.03}
"""


def bring_everything(folder: Path) -> None:
    """Writes unet.py, loader.py, recipe.yaml, plan.yaml and photos/ into a folder."""
    files = {"unet.py": UNET, "loader.py": LOADER, "recipe.yaml": RECIPE, "plan.yaml": PLAN}
    for name, text in files.items():
        (folder / name).write_text(text.lstrip())
    write_photos(folder / "photos")


def bring_weights() -> None:
    """Writes two files of weights of the U-Net, and a TorchScript archive, into the working folder."""
    import torch

    from gauntlet.own_code import find_callable

    for seed, name in enumerate(("first", "second")):
        torch.manual_seed(seed)
        network = find_callable("unet:UNet")(len(CLASSES))
        torch.save(network.state_dict(), f"{name}.pth")
    torch.jit.script(network.eval()).save("net.pt")


def write_photos(root: Path) -> None:
    """Leaves and berries on soil: eight images to train on, four to look at."""
    for split, count in (("train", 8), ("val", 4)):
        for kind in ("images", "masks"):
            (root / kind / split).mkdir(parents=True)
        for index in range(count):
            labels = _labels(SIZES[index % len(SIZES)], np.random.default_rng([count, index]))
            noise = np.random.default_rng([count, index, 1]).integers(-25, 26, (*labels.shape, 3))
            image = np.clip(COLORS[labels] + noise, 0, 255).astype(np.uint8)
            cv2.imwrite(str(root / "images" / split / f"{index}.png"), image[..., ::-1])
            cv2.imwrite(str(root / "masks" / split / f"{index}.png"), labels)
    (root / "classes.txt").write_text("\n".join(CLASSES) + "\n")


def _labels(size: tuple[int, int], draws: np.random.Generator) -> np.ndarray:
    labels = np.zeros(size, np.uint8)  # (H, W)
    for kind, radius in ((1, 9), (1, 9), (2, 5), (2, 5)):
        centre = int(draws.integers(size[1])), int(draws.integers(size[0]))
        cv2.circle(labels, centre, radius, kind, -1)
    return labels

"""Folders of random layouts and encodings: what was meant is kept, and compared with what the loader reads."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gauntlet.datasets import load_dataset

Array = np.ndarray[Any, Any]
VOID = -1
"""Void in what was meant; the label that the loader gives it lies outside the classes."""


@dataclass(frozen=True)
class Encoding:
    """How masks are written.

    Attributes:
        kind: "grey", "wide" (16 bits), "palette" or "color".
        classes: K.
        reduced: True where 0 is void and 1 the first class.
        void: the stored value of void; colours have their own.
        options: what the loader is told.
    """

    kind: str
    classes: int
    reduced: bool
    void: int
    options: dict[str, Any]


def compare(seed: Sequence[int]) -> list[str]:
    """Differences of what the loader reads of a random folder from what was meant."""
    generator = np.random.default_rng(seed)
    encoding = _random_encoding(generator)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        meant = _write(generator, root, encoding)
        return _compare(root, meant, encoding)


def _random_encoding(generator: np.random.Generator) -> Encoding:
    kind = str(generator.choice(["grey", "wide", "palette", "color"]))
    most = {"grey": 250, "wide": 600, "palette": 200, "color": 40}[kind]
    classes = int(generator.integers(3, 20) if generator.random() < 0.6 else generator.integers(3, most))
    reduced = kind != "color" and bool(generator.random() < 0.3)
    usual = 255 if classes + reduced <= 255 else 65535
    options: dict[str, Any] = {}
    void = usual
    if kind != "color" and generator.random() < 0.4:
        outside = [value for value in (0, classes + 1, 251, 254, 60000) if not reduced <= value < classes + reduced]
        fits = [value for value in outside if kind == "wide" or value < 256]
        void = int(generator.choice(fits))
        options["ignore_index"] = void
    if reduced:
        options["reduce_zero_label"] = True
    return Encoding(kind, classes, reduced, void, options)


def _write(generator: np.random.Generator, root: Path, encoding: Encoding) -> dict[str, tuple[Array, Array]]:
    split = None if generator.random() < 0.5 else "val"
    masks = str(generator.choice(["masks", "labels", "annotations"]))
    folders = [root / "images", root / masks]
    if split is not None:
        inner = generator.random() < 0.5
        folders = [each / split if inner else root / split / each.name for each in folders]
        encoding.options["split"] = split
    names = [f"class {index}" for index in range(encoding.classes)]
    colors = [(int(7 * k % 251), int(1 + k % 250), int(3 + k // 5)) for k in range(encoding.classes)]
    if encoding.kind == "color":
        lines = [f"{name} {r} {g} {b}" for name, (r, g, b) in zip(names, colors, strict=True)]
        (root / "classes.txt").write_text("\n".join([*lines, "ignore 255 255 255"]) + "\n")
    elif generator.random() < 0.5:
        (root / "classes.txt").write_text("\n".join(names) + "\n")
    else:
        encoding.options["classes"] = encoding.classes
    meant = {}
    for number in range(int(generator.integers(1, 4))):
        name = f"{'deep/' if generator.random() < 0.3 else ''}{number}"
        shape = tuple(int(side) for side in generator.integers(4, 12, 2))
        image = generator.integers(0, 256, (*shape, 3)).astype(np.uint8)
        labels = generator.integers(0, encoding.classes, shape)
        labels[0, :3] = [0, encoding.classes - 1, 1]
        labels[generator.random(shape) < 0.2] = VOID
        for folder in folders:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folders[0] / f"{name}.png")
        _mask(generator, labels, encoding, colors).save(folders[1] / f"{name}.png")
        meant[name] = image, labels
    return meant


def _mask(
    generator: np.random.Generator, labels: Array, encoding: Encoding, colors: Sequence[tuple[int, int, int]]
) -> Image.Image:
    if encoding.kind == "color":
        table = np.array([*colors, (255, 255, 255)], np.uint8)  # the last one for void, which is -1
        return Image.fromarray(table[labels])
    stored = np.where(labels == VOID, encoding.void, labels + encoding.reduced)
    if encoding.reduced:
        stored = np.where((labels == VOID) & (generator.random(labels.shape) < 0.5), 0, stored)
    mask = Image.fromarray(stored.astype(np.uint16 if stored.max() > 255 or encoding.kind == "wide" else np.uint8))
    if encoding.kind == "palette":
        mask.putpalette((np.arange(768) * 37 % 256).astype(np.uint8).tobytes())
    return mask


def _compare(root: Path, meant: dict[str, tuple[Array, Array]], encoding: Encoding) -> list[str]:
    dataset = load_dataset("folder", root=root, **encoding.options)
    wrong = []
    if sorted(dataset.ids()) != sorted(meant):
        return [f"the images are {list(dataset.ids())}, expected {sorted(meant)}"]
    if len(dataset.class_names) != encoding.classes:
        wrong.append(f"{len(dataset.class_names)} classes, expected {encoding.classes}")
    void = dataset.ignore_index
    if void is None or 0 <= void < encoding.classes:
        return [*wrong, f"void has the label {void} beside {encoding.classes} classes"]
    for sample in dataset:
        image, labels = meant[sample.id]
        assert sample.labels is not None
        if not np.array_equal(sample.image, image):
            wrong.append(f"the image {sample.id} differs")
        if not np.array_equal(sample.labels, np.where(labels == VOID, void, labels)):
            wrong.append(f"the labels of {sample.id} differ")
    return wrong

"""A copy of a dataset that a camera moved: images, label maps and boxes, as `folder:` and `coco` read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from gauntlet.class_numbers import void_label
from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.truth_files import ImageObjects, coco_file, encode_labels
from gauntlet.errors import GauntletError
from gauntlet.files import name_inside, write_atomically
from gauntlet.seeding import ImageSeed
from gauntlet.threats.contract import Threat
from gauntlet.threats.kinds.geometric import GeometricThreat

MANIFEST = "moved.json"


def write_moved(
    dataset: Dataset,
    root: str | Path,
    threat: Threat,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Writes every image of a dataset as a move of the camera shows it, with the ground truth moved along.

    <root>/images/ID.png; with label maps <root>/masks/ID.png and classes.txt, which `folder:ROOT` reads; with boxes
    <root>/instances.json, which the dataset `coco` reads. What was written is in moved.json.

    Args:
        dataset: its images are read one by one.
        root: where the files go; a folder that holds no other copy.
        threat: one move of the camera; a search for the worst one needs a model.
        seed: the run seed.
        progress: called with the images done and the images in all.

    Returns:
        The number of images.
    """
    if not isinstance(threat, GeometricThreat) or threat.needs_model:
        raise GauntletError(
            f"a moved copy is made by a threat such as {{geometric: {{name: rotation, degrees: 10}}}}, not "
            f"'{threat.name}'; 'gauntlet data corrupt' writes corrupted copies."
        )
    root = Path(root)
    facts = {"dataset": dataset.identity.as_dict(), "threat": threat.describe(), "seed": seed}
    _claim(root, json.dumps(facts, indent=1, sort_keys=True).encode())
    entries: list[ImageObjects] = []
    for index, image_id in enumerate(dataset.ids()):
        sample = dataset[index]
        moved = threat.moved(sample, ImageSeed(seed, sample.id), dataset.ignore_index)
        name = str(name_inside(image_id).with_suffix("")) + ".png"
        _, image = cv2.imencode(".png", moved.image[..., ::-1])
        write_atomically(root / "images" / name, np.asarray(image).tobytes())
        if moved.labels is not None:
            labels = moved.labels.astype(np.int64)
            if dataset.ignore_index is not None:
                labels[labels == dataset.ignore_index] = void_label(len(dataset.class_names))
            write_atomically(root / "masks" / name, encode_labels(labels))
        entries.append(ImageObjects(name, moved.image.shape[0], moved.image.shape[1], moved.boxes))
        if progress is not None:
            progress(index + 1, len(dataset))
    write_atomically(root / "classes.txt", "".join(f"{name}\n" for name in dataset.class_names).encode())
    if dataset.box_class_names:
        write_atomically(root / "instances.json", coco_file(entries, dataset.box_class_names))
    return len(entries)


def _claim(root: Path, facts: bytes) -> None:
    """Records what a folder holds, or checks that it is the same."""
    manifest = root / MANIFEST
    if manifest.exists() and manifest.read_bytes() != facts:
        raise GauntletError(f"{root} holds another moved copy; choose another folder.")
    write_atomically(manifest, facts)

"""Ground truth as files: label maps as PNG with class indices, objects in COCO's form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError
from gauntlet.files import write_atomically
from gauntlet.samples import Boxes, Sample

_ENDINGS = {"labels": "png", "boxes": "json"}


def truth_files(image: Path) -> dict[str, Path]:
    """Where the labels and boxes of an image file lie: NAME-labels.png and NAME-boxes.json beside it."""
    return {word: image.with_name(f"{image.stem}-{word}.{ending}") for word, ending in _ENDINGS.items()}


def write_truth(sample: Sample, image: Path) -> None:
    """Writes what is known of a sample beside its image file."""
    files = truth_files(image)
    if sample.labels is not None:
        write_atomically(files["labels"], encode_labels(sample.labels))
    if sample.boxes is not None:
        write_atomically(files["boxes"], json.dumps(coco_objects(sample.boxes)).encode())


def encode_labels(labels: npt.NDArray[np.integer]) -> bytes:
    """A label map (H, W) as a PNG of its numbers: 8 bits where they fit, else 16."""
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high > np.iinfo(np.uint16).max:
        raise GauntletError(f"labels from {low} to {high} do not fit a PNG; expected 0 to 65535.")
    _, data = cv2.imencode(".png", labels.astype(np.uint8 if high < 256 else np.uint16))
    return np.asarray(data).tobytes()


def coco_objects(boxes: Boxes, image_id: int = 0, first: int = 1) -> list[dict[str, Any]]:
    """Objects as COCO's file has them; categories count from 1. VOC's difficult ones become crowds: ignored too.

    Args:
        boxes: the objects.
        image_id: of their image.
        first: the number of the first one.
    """
    corners = boxes.xyxy.astype(np.float64)
    crowd = np.zeros(len(boxes), bool)
    for flags in (boxes.crowd, boxes.difficult):
        crowd |= False if flags is None else flags
    return [
        {
            "id": first + index,
            "image_id": image_id,
            "category_id": int(boxes.classes[index]) + 1,
            "bbox": [x0, y0, x1 - x0, y1 - y0],
            "area": float(boxes.areas[index]),
            "iscrowd": int(crowd[index]),
        }
        for index, (x0, y0, x1, y1) in enumerate(corners.tolist())
    ]


@dataclass(frozen=True)
class ImageObjects:
    """What a COCO file says of one image: the name of its file, its size in pixels, its objects where there are any."""

    file_name: str
    height: int
    width: int
    boxes: Boxes | None


def coco_file(images: Sequence[ImageObjects], class_names: Sequence[str]) -> bytes:
    """A COCO file, for objects of the named classes."""
    entries: list[dict[str, Any]] = []
    objects: list[dict[str, Any]] = []
    for number, image in enumerate(images, 1):
        size = {"height": image.height, "width": image.width}
        entries.append({"id": number, "file_name": image.file_name, **size})
        if image.boxes is not None:
            objects += coco_objects(image.boxes, number, len(objects) + 1)
    categories = [{"id": index, "name": name} for index, name in enumerate(class_names, 1)]
    return json.dumps({"images": entries, "annotations": objects, "categories": categories}).encode()

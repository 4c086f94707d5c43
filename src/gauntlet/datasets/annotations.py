"""Annotation files in COCO's JSON form, as arrays per image; COCO and LVIS share it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gauntlet.errors import GauntletError
from gauntlet.samples import Boxes

_Row = tuple[float, float, float, float, int, bool, float]  # corners, class, crowd, area


@dataclass(frozen=True)
class Annotations:
    """What a COCO file says.

    Attributes:
        images: the entries of its "images", in order.
        class_names: names of the categories, by ascending category id.
        class_of: category id to class index (COCO's ids have gaps: 1 to 90 for 80 classes).
        boxes: objects by image id; images without objects are not in it.
    """

    images: Sequence[Mapping[str, Any]]
    class_names: tuple[str, ...]
    class_of: Mapping[int, int]
    boxes: Mapping[int, Boxes]


def read_annotations(path: Path) -> Annotations:
    """Reads and checks a COCO file; boxes (x, y, width, height) become corners.

    Objects of zero width or height stay, as they do in pycocotools: nobody can find them.
    """
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise GauntletError(f"the annotation file '{path}' cannot be read as JSON: {error}.") from error
    lists = [content.get(key) if isinstance(content, dict) else None for key in ("images", "categories", "annotations")]
    if not all(isinstance(each, list) for each in lists):
        raise GauntletError(
            f"the annotation file '{path}' is not in COCO's form; expected the lists 'images', 'categories' and "
            "'annotations'."
        )
    images, categories, annotations = lists
    assert images is not None
    assert categories is not None
    assert annotations is not None
    try:
        ordered = sorted(categories, key=lambda category: int(category["id"]))
        _check_different("categories", [int(category["id"]) for category in ordered], path)
        class_of = {int(category["id"]): index for index, category in enumerate(ordered)}
        names = tuple(str(category["name"]) for category in ordered)
        _check_different("images", [int(image["id"]) for image in images], path)
        known = {int(image["id"]) for image in images}
        boxes = _boxes_by_image(annotations, class_of, known, path)
    except KeyError as error:
        raise GauntletError(f"an entry of the annotation file '{path}' lacks the field {error}.") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, GauntletError):
            raise
        raise GauntletError(
            f"the annotation file '{path}' has an entry that is not in COCO's form: {error}."
        ) from error
    return Annotations(images, names, class_of, boxes)


def annotated_size(image: Mapping[str, Any]) -> tuple[int, int] | None:
    """Height and width that a COCO file says of an image; None where it says none."""
    height, width = image.get("height"), image.get("width")
    return (int(height), int(width)) if height and width else None


def _check_different(what: str, ids: Sequence[int], path: Path) -> None:
    """An error where two images or categories have one id: each would get the objects of both."""
    twice = next((each for each, count in Counter(ids).items() if count > 1), None)
    if twice is not None:
        raise GauntletError(f"two {what} of the annotation file '{path}' have the id {twice}; ids must be unique.")


def _boxes_by_image(
    annotations: Sequence[Mapping[str, Any]], class_of: Mapping[int, int], known: set[int], path: Path
) -> dict[int, Boxes]:
    rows: dict[int, list[_Row]] = {}
    for annotation in annotations:
        image, category = int(annotation["image_id"]), int(annotation["category_id"])
        if category not in class_of or image not in known:
            what = f"the category {category}" if category not in class_of else f"the image {image}"
            raise GauntletError(
                f"the annotation {annotation.get('id')} of '{path}' names {what}, which the file does not have."
            )
        x, y, width, height = _numbers(annotation, path)
        crowd = bool(annotation.get("iscrowd", 0))
        area = float(annotation.get("area", width * height))
        rows.setdefault(image, []).append((x, y, x + width, y + height, class_of[category], crowd, area))
    return {image: _boxes(objects) for image, objects in rows.items()}


def _numbers(annotation: Mapping[str, Any], path: Path) -> tuple[float, float, float, float]:
    box = annotation["bbox"]
    if len(box) != 4 or not all(math.isfinite(value) for value in box) or min(box[2:]) < 0:
        raise GauntletError(
            f"the annotation {annotation.get('id')} of '{path}' has the box {box}; expected finite numbers "
            "[x, y, width, height] with a width and height of at least 0."
        )
    return float(box[0]), float(box[1]), float(box[2]), float(box[3])


def _boxes(objects: Sequence[_Row]) -> Boxes:
    return Boxes(
        np.array([row[:4] for row in objects], dtype=np.float32).reshape(-1, 4),
        np.array([row[4] for row in objects], dtype=np.int64),
        crowd=np.array([row[5] for row in objects], dtype=np.bool_),
        area=np.array([row[6] for row in objects], dtype=np.float32),
    )


EMPTY = _boxes([])
"""The objects of an image that has none."""

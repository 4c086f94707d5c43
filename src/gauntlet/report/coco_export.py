"""Detections under every threat as COCO JSON, for the tools that read it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from gauntlet._version import __version__
from gauntlet.errors import GauntletError
from gauntlet.metrics.detection.coco_figures import coco_detections, coco_objects
from gauntlet.report.write import write_text
from gauntlet.results import Store
from gauntlet.results.detections import StoredDetections, stored_detections

INDEX = "index.json"


def write_coco(store: Store, folder: Path) -> Path:
    """Writes objects and detections of every evaluation of a detector; `COCO(objects).loadRes(detections)` reads them.

    Evaluations with the same objects share their file; threats that move the image have a file of their own.

    Args:
        store: the evaluations.
        folder: to write into: objects-*.json, a file of detections per evaluation, and index.json, which says which
            file belongs to which model and threat, with the stored mAP.
    """
    index = []
    for stored in stored_detections(store):
        each = stored.evaluation
        objects = _text(objects_file(stored))
        digest = hashlib.sha256(objects.encode()).hexdigest()[:8]
        names = {
            "objects": f"objects-{_slug(each.dataset, each.split)}-{digest}.json",
            "detections": f"{_slug(each.model, each.threat)}-{each.key[:8]}.json",
        }
        results = [
            {name: row[name] for name in ("image_id", "category_id", "bbox", "score")}
            for row in coco_detections(
                stored.detections, len(stored.class_names), [truth.pixel_area for truth in stored.truths]
            )
        ]
        for name, text in ((names["objects"], objects), (names["detections"], _text(results))):
            write_text(folder / name, text)
        facts = {name: getattr(each, name) for name in ("key", "model", "dataset", "split", "threat", "seed", "images")}
        index.append({**facts, "description": dict(each.description), "mAP": _number(each.figures["mAP"]), **names})
    if not index:
        raise GauntletError("the store has no detections; run a detector first: gauntlet run --model streets/fcos.")
    write_text(folder / INDEX, _text(index))
    return folder


def objects_file(stored: StoredDetections) -> dict[str, Any]:
    """Images, categories and objects; sizes of images are not kept, `file_name` is the image's id in its dataset.

    An object that is flagged as difficult has the area -1: outside every range, pycocotools ignores it.
    """
    each = stored.evaluation
    return {
        "info": {"description": f"{each.dataset}/{each.split}, Gauntlet {__version__}"},
        "images": [{"id": number, "file_name": name} for number, name in enumerate(stored.image_ids, start=1)],
        "categories": [{"id": number, "name": name} for number, name in enumerate(stored.class_names, start=1)],
        "annotations": coco_objects(stored.truths, len(stored.class_names)),
    }


def _slug(*names: str) -> str:
    """A file name that every system takes."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(names)).strip("-.")[:80]


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def _number(value: float) -> float | None:
    return None if value != value else value

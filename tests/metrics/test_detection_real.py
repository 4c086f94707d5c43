"""The real part of COCO: its JSON file, read by our loader or by pycocotools, gives the same figures."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest

import gauntlet
from gauntlet.metrics.detection.figures import figures
from gauntlet.samples import Boxes


def noisy(truth: Boxes, generator: np.random.Generator, classes: int) -> Boxes:
    """Two detections per object: one near it, one of any class and farther off."""
    twice = np.concatenate([truth.xyxy, truth.xyxy])
    sides = np.concatenate([twice[:, 2:] - twice[:, :2]] * 2, axis=1)
    boxes = (twice + generator.normal(0, 0.08, twice.shape) * sides).astype(np.float32)
    boxes[:, 2:] = np.maximum(boxes[:, :2], boxes[:, 2:])
    kinds = np.concatenate([truth.classes, generator.integers(0, classes, len(truth))])
    return Boxes(boxes, kinds, generator.random(len(boxes)).astype(np.float32))


@pytest.mark.slow
def test_the_part_of_coco_has_the_figures_of_pycocotools(shared: Path) -> None:
    coco_module = pytest.importorskip("pycocotools.coco")
    eval_module = pytest.importorskip("pycocotools.cocoeval")
    root = shared / "realdata/coco_val"
    data = gauntlet.load_dataset("coco", root=root)
    content = json.loads((root / "instances.json").read_text())
    categories = sorted(category["id"] for category in content["categories"])
    numbers = {Path(image["file_name"]).stem: image["id"] for image in content["images"]}
    generator = np.random.default_rng(0)
    truths, detections, results = [], [], []
    for sample in data:
        assert sample.boxes is not None
        detected = noisy(sample.boxes, generator, len(categories))
        truths.append(sample.boxes)
        detections.append(detected)
        assert detected.scores is not None
        for (x0, y0, x1, y1), kind, score in zip(
            detected.xyxy.tolist(), detected.classes, detected.scores.tolist(), strict=True
        ):
            row = {"image_id": numbers[sample.id], "category_id": categories[kind], "score": score}
            results.append({**row, "bbox": [x0, y0, x1 - x0, y1 - y0]})
    with contextlib.redirect_stdout(io.StringIO()):
        truth = coco_module.COCO(str(root / "instances.json"))
        evaluation = eval_module.COCOeval(truth, truth.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    ours = figures(truths, detections, len(categories))
    assert 0.05 < ours["mAP"] < 0.95
    np.testing.assert_allclose(list(ours.values()), evaluation.stats, atol=1e-6)


def test_a_published_protocol_leaves_the_sizes_of_coco(shared: Path) -> None:
    data = gauntlet.load_dataset("coco", root=shared / "realdata/coco_val")
    resized = gauntlet.load_dataset("coco", root=shared / "realdata/coco_val", protocol="mmdet-1333x800")
    generator = np.random.default_rng(0)
    truths, detections, seen, reported = [], [], [], []
    for before, after in zip(data, resized, strict=True):
        assert before.boxes is not None
        assert after.boxes is not None
        detected = noisy(before.boxes, generator, len(data.box_class_names))
        height, width = (new / old for new, old in zip(after.image.shape[:2], before.image.shape[:2], strict=True))
        corners = (detected.xyxy * np.array([width, height, width, height])).astype(np.float32)
        truths.append(before.boxes)
        detections.append(detected)
        seen.append(after.boxes)
        reported.append(Boxes(corners, detected.classes, detected.scores))
    classes = len(data.box_class_names)
    full, ours = figures(truths, detections, classes), figures(seen, reported, classes)
    for name, value in full.items():  # sides are rounded to pixels: an overlap at a threshold may change
        assert ours[name] == pytest.approx(value, abs=0.003), name

"""Detection figures beside pycocotools and VOC's rules in plain loops, on random cases, regions and resized images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from segmentation_reference import Name, differences, named

from detection_cases import random_case
from detection_references import pycocotools_evaluation, voc_rule
from gauntlet.datasets.protocols import Protocol
from gauntlet.metrics import REGION, WHOLE, DetectionMetric
from gauntlet.samples import Boxes, Sample

COCO_NAMES = (
    *("mAP", "mAP50", "mAP75", "mAP_small", "mAP_medium", "mAP_large"),
    *("AR_1", "AR_10", "AR_100", "AR_small", "AR_medium", "AR_large"),
)
CLASSES = ("car", "person", "sign", "nothing")
SIDE = 512
COCO, EXACT = 1e-6, 1e-9


def compare(seed: Sequence[int]) -> list[str]:
    """Differences of the figures of one random configuration: whole images, a region or not, resized or not."""
    generator = np.random.default_rng(seed)
    truths, detections = random_case(
        int(generator.integers(2**32)),
        images=int(generator.integers(1, 7)),
        crowd=float(generator.choice([0, 0.3])),
        difficult=float(generator.choice([0, 0.3])),
        areas=bool(generator.random() < 0.5),
        ties=bool(generator.random() < 0.6),
    )
    if generator.random() < 0.2:  # every score the same
        detections = [replace(each, scores=np.full(len(each), 0.5, np.float32)) for each in detections]
    eleven = bool(generator.random() < 0.5)
    metric = DetectionMetric(CLASSES, eleven_points=eleven)
    seen, reported = _resized(generator, truths, detections)
    is_local = generator.random() < 0.5
    regions = [generator.random((SIDE // 4, SIDE // 4)) < 0.5 for _ in truths]
    regions = [np.kron(each, np.ones((16, 16), bool)) for each in regions]
    counts = []
    for truth, detected, region in zip(seen, reported, regions, strict=True):
        views = [metric.update(detected, truth, region)] * 2 if is_local else [metric.update(detected, truth)]
        counts.append(metric.decode(metric.stack(views).to_bytes()))
    figures = named(metric.compute(counts, REGION if is_local else WHOLE))
    wrong = differences(figures, _coco_figures(truths, detections), COCO)
    # Ratios of areas, and VOC's overlaps, are the same in resized images: sides change by powers of two.
    wrong += differences(figures, _voc_figures(seen, reported, eleven), EXACT)
    if is_local:
        for suffix, side in (("M", True), ("Mbar", False)):
            chosen = [_lies(each, region) == side for each, region in zip(seen, regions, strict=True)]
            found = [_lies(each, region) == side for each, region in zip(reported, regions, strict=True)]
            part = _coco_figures(
                [each.select(mask) for each, mask in zip(truths, chosen, strict=True)],
                [each.select(mask) for each, mask in zip(detections, found, strict=True)],
            )
            expected = {(f"{name}_{suffix}", "all", ""): part[name, "all", ""] for name in ("mAP", "mAP50")}
            wrong += differences(figures, expected, COCO)
    return wrong


def _resized(
    generator: np.random.Generator, truths: list[Boxes], detections: list[Boxes]
) -> tuple[list[Boxes], list[Boxes]]:
    """The case as a model sees it: at its size, or with sides that a protocol changes by a power of two."""
    height, width = (int(SIDE * factor) for factor in generator.choice([0.5, 1, 2, 4], 2))
    protocol, image = Protocol(size=(height, width)), np.zeros((SIDE, SIDE, 3), np.uint8)
    seen = [_boxes(protocol.apply(Sample("x", image, boxes=each))) for each in truths]
    reported = [_boxes(protocol.apply(Sample("x", image, boxes=each))) for each in detections]
    return seen, [Boxes(each.xyxy, each.classes, each.scores) for each in reported]


def _boxes(sample: Sample) -> Boxes:
    assert sample.boxes is not None
    return sample.boxes


def _lies(boxes: Boxes, region: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """(n,) True where the centre of a box lies in the region; outside the image the nearest pixel decides."""
    inside = np.zeros(len(boxes), bool)
    height, width = region.shape
    for index, (x0, y0, x1, y1) in enumerate(boxes.xyxy):
        column, row = math.floor((x0 + x1) / 2), math.floor((y0 + y1) / 2)
        inside[index] = region[min(max(row, 0), height - 1), min(max(column, 0), width - 1)]
    return inside


def _coco_figures(truths: Sequence[Boxes], detections: Sequence[Boxes]) -> dict[Name, float]:
    if not any(len(each) for each in truths):
        return {(name, "all", ""): math.nan for name in COCO_NAMES}
    stats = pycocotools_evaluation(truths, detections, len(CLASSES)).stats
    return {
        (name, "all", ""): math.nan if value < 0 else float(value)
        for name, value in zip(COCO_NAMES, stats, strict=True)
    }


def _voc_figures(truths: Sequence[Boxes], detections: Sequence[Boxes], eleven: bool) -> dict[Name, float]:
    values: dict[Name, float] = {}
    neither = [replace(each, difficult=_ignored(each)) for each in truths]
    for threshold in (0.25, 0.5, 0.75):
        for kind, name in enumerate(CLASSES):
            value = voc_rule(neither, detections, kind, threshold, eleven, extra=0.0)
            values[f"VOC_AP{100 * threshold:.0f}", "all", name] = value
    return values


def _ignored(truth: Boxes) -> np.ndarray[Any, Any]:
    nobody = np.zeros(len(truth), bool)
    flags = [nobody if each is None else each for each in (truth.crowd, truth.difficult)]
    return np.asarray(flags[0] | flags[1])

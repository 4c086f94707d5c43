"""Random detection data: objects, and detections that are moved, doubled, mislabelled and made up."""

from __future__ import annotations

import numpy as np

from gauntlet.samples import Boxes


def random_case(
    seed: int,
    *,
    images: int = 6,
    classes: int = 4,
    crowd: float = 0.15,
    difficult: float = 0.0,
    areas: bool = True,
    ties: bool = True,
) -> tuple[list[Boxes], list[Boxes]]:
    """Objects and detections of some images; the last class has no objects, some images have none or no detections."""
    generator = np.random.default_rng(seed)
    truths, detections = [], []
    for _ in range(images):
        count = int(generator.integers(0, 7))
        corner = generator.uniform(0, 150, (count, 2))
        sides = np.exp(generator.uniform(np.log(4), np.log(200), (count, 2)))
        boxes = np.concatenate([corner, corner + sides], axis=1).astype(np.float32)
        kinds = generator.integers(0, max(classes - 1, 1), count)
        truth = Boxes(
            boxes,
            kinds,
            crowd=generator.random(count) < crowd if crowd else None,
            difficult=generator.random(count) < difficult if difficult else None,
            area=None,
        )
        if areas:
            share = generator.uniform(0.3, 1, count)
            area = np.where(generator.random(count) < 0.2, generator.choice([32.0**2, 96.0**2], count), truth.areas)
            truth = Boxes(boxes, kinds, None, truth.crowd, truth.difficult, (area * share).astype(np.float32))
        truths.append(truth)
        detections.append(_detections(generator, truth, classes, ties))
    return truths, detections


def _detections(generator: np.random.Generator, truth: Boxes, classes: int, ties: bool) -> Boxes:
    if generator.random() < 0.15:
        return Boxes(np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32))
    picks = generator.integers(0, len(truth), 2 * len(truth)) if len(truth) else np.zeros(0, np.int64)
    moved = truth.xyxy[picks] + generator.normal(0, 1, (len(picks), 4)) * generator.choice([0, 2, 10], (len(picks), 1))
    made_up = generator.uniform(0, 150, (int(generator.integers(0, 6)), 4))
    made_up[:, 2:] = made_up[:, :2] + generator.uniform(1, 120, (len(made_up), 2))
    kinds = np.where(
        generator.random(len(picks)) < 0.8, truth.classes[picks], generator.integers(0, classes, len(picks))
    )
    boxes = np.concatenate([moved, made_up]).astype(np.float32)
    boxes[:, 2:] = np.maximum(boxes[:, :2], boxes[:, 2:])
    scores = generator.random(len(boxes)).astype(np.float32)
    if ties:
        scores = np.round(scores, 1)
    return Boxes(boxes, np.concatenate([kinds, generator.integers(0, classes, len(made_up))]), scores)

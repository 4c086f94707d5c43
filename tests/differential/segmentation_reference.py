"""Segmentation figures in plain loops over pixels, from the definitions of docs/specs/metrics.md; and random cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gauntlet.evaluation.prediction import describe_logits
from gauntlet.metrics import REGION, WHOLE, DensePrediction, SegmentationMetric
from gauntlet.metrics.contract import Figure
from gauntlet.metrics.segmentation.counts import ImageCounts

Array = np.ndarray[Any, Any]
Name = tuple[str, str, str]
"""Metric, view and class of a figure."""
EXACT, FLOAT32 = 1e-12, 2e-5


@dataclass(frozen=True)
class Answer:
    """One image: truth, what a model said, and what counts.

    Attributes:
        labels, predicted: (H, W).
        counted: (H, W) False where void.
        logits: (K, H, W), or None where the model gives label maps.
        said: the prediction as the metric gets it.
    """

    labels: Array
    predicted: Array
    counted: Array
    logits: Array | None
    said: DensePrediction


def mean(values: Sequence[float]) -> float:
    """Mean of the values that are no NaN; NaN where there is none."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan


def share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


class Tally:
    """Right, true and predicted pixels of every class, pixel by pixel."""

    def __init__(self, classes: int) -> None:
        self.right, self.truth, self.said = ([0] * classes for _ in range(3))

    def add(self, label: int, predicted: int) -> None:
        self.truth[label] += 1
        self.said[predicted] += 1
        self.right[label] += label == predicted

    def union(self, index: int) -> int:
        return self.truth[index] + self.said[index] - self.right[index]

    def iou(self, index: int) -> float:
        return share(self.right[index], self.union(index))

    def miou(self, without: int | None = None) -> float:
        return mean([self.iou(index) for index in range(len(self.truth)) if index != without])

    def accuracy(self) -> float:
        return share(sum(self.right), sum(self.truth))

    def class_accuracy(self, index: int) -> float:
        return share(self.right[index], self.truth[index])

    def macc(self) -> float:
        return mean([self.class_accuracy(index) for index in range(len(self.truth))])


def tally(answers: Sequence[Answer], classes: int, where: Sequence[Array] | None = None) -> Tally:
    """The pixels of some images that count, and lie where a mask says."""
    found = Tally(classes)
    for number, answer in enumerate(answers):
        height, width = answer.labels.shape
        for row in range(height):
            for column in range(width):
                if answer.counted[row, column] and (where is None or where[number][row, column]):
                    found.add(int(answer.labels[row, column]), int(answer.predicted[row, column]))
    return found


def whole_figures(answers: Sequence[Answer], names: Sequence[str], background: int | None) -> dict[Name, float]:
    """Figures of whole images."""
    classes = len(names)
    pooled, single = tally(answers, classes), [tally([each], classes) for each in answers]
    values = {
        ("mIoU", "all", ""): pooled.miou(),
        ("mAcc", "all", ""): pooled.macc(),
        ("aAcc", "all", ""): pooled.accuracy(),
        ("NmIoU", "all", ""): mean([each.miou() for each in single]),
        ("aAcc_images", "all", ""): mean([each.accuracy() for each in single]),
    }
    for index, name in enumerate(names):
        values["IoU", "all", name] = pooled.iou(index)
        values["Acc", "all", name] = pooled.class_accuracy(index)
    if background is not None:
        masks = [each.labels != background for each in answers]
        pooled = tally(answers, classes, masks)
        single = [tally([each], classes, [mask]) for each, mask in zip(answers, masks, strict=True)]
        values["fg_aAcc", "all", ""] = pooled.accuracy()
        values["fg_mIoU", "all", ""] = pooled.miou(background)
        values["fg_NmIoU", "all", ""] = mean([each.miou(background) for each in single])
        values["fg_NmIoU_bg_counted", "all", ""] = mean([each.miou() for each in single])
    return values


def region_figures(
    attacked: Sequence[Answer],
    clean: Sequence[Answer],
    regions: Sequence[Array],
    weights: Sequence[Array],
    names: Sequence[str],
) -> dict[Name, float]:
    """Figures inside and outside the region of a threat, and of weighted pixels."""
    classes = len(names)
    values: dict[Name, float] = {}
    outside = [~region for region in regions]
    for suffix, view, masks in (("M", "inside", regions), ("Mbar", "outside", outside)):
        for ending, answers in (("", attacked), ("_clean", clean)):
            pooled = tally(answers, classes, masks)
            single = [tally([each], classes, [mask]).accuracy() for each, mask in zip(answers, masks, strict=True)]
            values[f"A_{suffix}{ending}", "all", ""] = mean(single)
            values[f"mIoU_{suffix}{ending}", "all", ""] = pooled.miou()
            values[f"mAcc_{suffix}{ending}", "all", ""] = pooled.macc()
            if not ending:
                values |= {("IoU", view, name): pooled.iou(index) for index, name in enumerate(names)}
        base = values[f"A_{suffix}_clean", "all", ""]
        values[f"RCE_{suffix}", "all", ""] = share(base - values[f"A_{suffix}", "all", ""], base)
    inside = sum(sum(tally([each], classes, [mask]).truth) for each, mask in zip(attacked, regions, strict=True))
    values["region_share", "all", ""] = share(inside, sum(tally(attacked, classes).truth))
    for ending, answers in (("", attacked), ("_clean", clean)):
        values[f"A_P{ending}", "all", ""] = mean(
            [_weighted_accuracy(each, weight) for each, weight in zip(answers, weights, strict=True)]
        )
    base = values["A_P_clean", "all", ""]
    values["RCE_P", "all", ""] = share(base - values["A_P", "all", ""], base)
    return values


def _weighted_accuracy(answer: Answer, weights: Array) -> float:
    right = total = 0.0
    height, width = answer.labels.shape
    for row in range(height):
        for column in range(width):
            if answer.counted[row, column]:
                total += float(weights[row, column])
                right += float(weights[row, column]) * bool(answer.labels[row, column] == answer.predicted[row, column])
    return share(right, total)


def confidence_figures(answers: Sequence[Answer]) -> dict[Name, float]:
    """Calibration of single pixels, from the confidence the metric was given and the logits."""
    rows: list[tuple[float, bool, float, float]] = []  # confidence, right, -ln p of the truth, Brier score
    for answer in answers:
        assert answer.logits is not None
        assert answer.said.confidence is not None
        shifted = answer.logits - answer.logits.max(axis=0)
        shares = np.exp(shifted) / np.exp(shifted).sum(axis=0)
        for row, column in np.argwhere(answer.counted):
            label = int(answer.labels[row, column])
            p = shares[:, row, column]
            wrong = sum((float(p[k]) - (k == label)) ** 2 for k in range(len(p)))
            right = bool(answer.predicted[row, column] == label)
            rows.append((float(answer.said.confidence[row, column]), right, -math.log(p[label]), wrong))
    if not rows:
        return {}
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right, _, _ in rows:
        bins.setdefault(min(int(confidence * 15), 14), []).append((confidence, right))
    gaps = [(math.fsum(c - r for c, r in each) / len(each), len(each) / len(rows)) for each in bins.values()]
    return {
        ("ECE", "all", ""): sum(part * abs(gap) for gap, part in gaps),
        ("overconfidence", "all", ""): sum(part * max(gap, 0.0) for gap, part in gaps),
        ("ECE_max", "all", ""): max(abs(gap) for gap, _ in gaps),
        ("confidence", "all", ""): mean([each[0] for each in rows]),
        ("NLL", "all", ""): mean([each[2] for each in rows]),
        ("Brier", "all", ""): mean([each[3] for each in rows]),
    }


def ranked_figures(answers: Sequence[Answer]) -> dict[str, float]:
    """AUROC and FPR95 of single pixels, by their definitions."""
    right: list[float] = []
    wrong: list[float] = []
    for answer in answers:
        assert answer.said.log_odds is not None
        for row, column in np.argwhere(answer.counted):
            is_right = answer.predicted[row, column] == answer.labels[row, column]
            (right if is_right else wrong).append(float(answer.said.log_odds[row, column]))
    if not right or not wrong:
        return {}
    pairs = math.fsum((a > b) + (a == b) / 2 for a in right for b in wrong) / (len(right) * len(wrong))
    kept = next(each for count, each in enumerate(sorted(right, reverse=True), 1) if count >= 0.95 * len(right))
    return {"AUROC": pairs, "FPR95": sum(each >= kept for each in wrong) / len(wrong)}


# Random cases ---------------------------------------------------------------------------------------------------------


def random_answer(generator: np.random.Generator, classes: int, void: int | None, like: Answer | None = None) -> Answer:
    """An image with labels, void and a prediction; of the truth of another one where that is given."""
    if like is None:
        shape = tuple(int(side) for side in generator.integers(1, 11, 2))
        present = generator.choice(classes, min(classes, int(generator.integers(1, 6))), replace=False)
        labels = generator.choice(present, shape).astype(np.int64)
        if void is not None:
            labels[generator.random(shape) < generator.choice([0, 0.1, 0.5, 1.0], p=[0.3, 0.4, 0.2, 0.1])] = void
        kinds = [kind for kind in (np.uint8, np.uint16, np.int32, np.int64) if _holds(kind, labels)]
        labels = labels.astype(kinds[int(generator.integers(len(kinds)))])
    else:
        labels, shape = like.labels, like.labels.shape
    counted = np.ones(shape, bool) if void is None else labels != void
    guessed = np.where(counted & (generator.random(shape) < 0.6), labels, generator.integers(0, classes, shape))
    guessed = np.where((guessed >= 0) & (guessed < classes), guessed, 0)
    if classes > 12:
        return Answer(labels, guessed, counted, None, DensePrediction(guessed.astype(np.int32)))
    logits = generator.normal(0, 1, (classes, *shape))
    np.put_along_axis(logits, guessed[None].astype(np.int64), logits.max(axis=0) + generator.uniform(0, 3), 0)
    logits = (logits * generator.choice([0.3, 1, 4, 12])).astype(np.float32)
    said = describe_logits(torch.from_numpy(logits))
    return Answer(labels, np.asarray(logits.argmax(axis=0)), counted, logits.astype(np.float64), said)


def _holds(kind: type[np.integer[Any]], labels: Array) -> bool:
    return bool(np.iinfo(kind).min <= labels.min() and labels.max() <= np.iinfo(kind).max)


def random_metric(generator: np.random.Generator) -> SegmentationMetric:
    """A metric with few or many classes, void of many numbers or none, and a background or none."""
    classes = int(generator.choice([1, 2, 3, 5, 9, 19, 256, 300]))
    void = [None, -1, -100, classes, 65535, *([255] if classes <= 255 else [])][int(generator.integers(5))]
    background = None if generator.random() < 0.5 else int(generator.integers(classes))
    return SegmentationMetric([f"class {index}" for index in range(classes)], void, background)


def compare_whole(seed: Sequence[int]) -> list[str]:
    """Differences of figures of whole images from the loops, of one random configuration."""
    generator = np.random.default_rng(seed)
    metric = random_metric(generator)
    answers = [
        random_answer(generator, len(metric.class_names), metric.ignore_index)
        for _ in range(int(generator.integers(1, 5)))
    ]
    counts = [metric.update(each.said, each.labels) for each in answers]
    figures = computed(metric, generator, counts, WHOLE)
    wrong = differences(figures, whole_figures(answers, metric.class_names, metric.background_index), EXACT)
    if answers[0].logits is not None:
        wrong += differences(figures, confidence_figures(answers), FLOAT32)
        for name, value in ranked_figures(answers).items():
            low, high = figures[f"{name}_low", "all", ""], figures[f"{name}_high", "all", ""]
            if not low - EXACT <= value <= high + EXACT:
                wrong.append(f"{name} of pixels is {value}, outside [{low}, {high}]")
    return wrong


def compare_regions(seed: Sequence[int]) -> list[str]:
    """Differences of figures under a threat to a region from the loops, of one random configuration."""
    generator = np.random.default_rng(seed)
    metric = random_metric(generator)
    classes, void = len(metric.class_names), metric.ignore_index
    clean = [random_answer(generator, classes, void) for _ in range(int(generator.integers(1, 5)))]
    attacked = [random_answer(generator, classes, void, like=each) for each in clean]
    odds = generator.choice([0.0, 0.3, 0.7, 1.0])
    regions = [generator.random(each.labels.shape) < odds for each in clean]
    weights = [generator.choice([0.0, 0.5, 2.0], each.labels.shape) for each in clean]
    counts = [
        metric.stack([metric.update(each.said, each.labels, region, weight) for each in pair])
        for *pair, region, weight in zip(attacked, clean, regions, weights, strict=True)
    ]
    figures = computed(metric, generator, counts, REGION)
    names = metric.class_names
    expected = region_figures(attacked, clean, regions, weights, names)
    return differences(figures, whole_figures(attacked, names, metric.background_index) | expected, EXACT)


def computed(
    metric: SegmentationMetric, generator: np.random.Generator, counts: Sequence[ImageCounts], views: Any
) -> dict[Name, float]:
    """Figures of counts that went through the store, in any order."""
    kept = [metric.decode(counts[index].to_bytes()) for index in generator.permutation(len(counts))]
    return named(metric.compute(kept, views))


def named(figures: Sequence[Figure]) -> dict[Name, float]:
    return {(each.metric, each.view, each.class_name): each.value for each in figures}


def differences(figures: dict[Name, float], expected: dict[Name, float], tolerance: float) -> list[str]:
    """Figures that differ from what was expected, in words; NaN equals NaN, and a figure may not be missing."""
    wrong = []
    for name, value in expected.items():
        found = figures.get(name)
        if found is None:
            wrong.append(f"{name} is missing, expected {value}")
        elif math.isnan(found) != math.isnan(value) or abs(found - value) > tolerance * max(1, abs(value)):
            wrong.append(f"{name} is {found}, expected {value}")
    return wrong

"""The compiled passes over boxes: matching, and average precision under weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gauntlet.compiling import compiled

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Verdicts = npt.NDArray[np.int8]


@compiled
def match_boxes(overlaps: Floats, ignored: Flags, crowd: Flags, thresholds: Floats) -> Integers:
    """(T, d) object that each detection takes at each threshold, or -1; pycocotools' evaluateImg.

    Rows of `overlaps` (d, n) are in score order; the objects that count stand before the ignored ones.
    """
    detections, objects = overlaps.shape
    matched = np.full((thresholds.size, detections), -1, np.int64)
    for t in range(thresholds.size):
        taken = np.zeros(objects, np.bool_)
        for d in range(detections):
            best, overlap = -1, min(thresholds[t], 1 - 1e-10)
            for g in range(objects):
                if taken[g] and not crowd[g]:
                    continue
                if best > -1 and not ignored[best] and ignored[g]:
                    break  # one that counts was found, only ignored ones follow
                if overlaps[d, g] < overlap:
                    continue
                best, overlap = g, overlaps[d, g]
            if best > -1:
                taken[best] = True
                matched[t, d] = best
    return matched


@compiled
def overlap_boxes(detected: Floats, objects: Floats, crowd: Flags, extra: float) -> Floats:
    """(d, n) IoU of corners; sides are longer by `extra`; of a detection and a crowd, the share of the detection."""
    overlaps = np.zeros((len(detected), len(objects)))
    for d in range(len(detected)):
        area = (detected[d, 2] - detected[d, 0] + extra) * (detected[d, 3] - detected[d, 1] + extra)
        for g in range(len(objects)):
            width = min(detected[d, 2], objects[g, 2]) - max(detected[d, 0], objects[g, 0]) + extra
            height = min(detected[d, 3], objects[g, 3]) - max(detected[d, 1], objects[g, 1]) + extra
            if width > 0 and height > 0:
                common = width * height
                other = (objects[g, 2] - objects[g, 0] + extra) * (objects[g, 3] - objects[g, 1] + extra)
                overlaps[d, g] = common / (area if crowd[g] else area + other - common)
    return overlaps


@compiled
def match_groups(
    starts: Integers,
    first: Integers,
    last: Integers,
    detected: Floats,
    objects: Floats,
    ignored: Flags,
    crowd: Flags,
    thresholds: Floats,
    most: int,
) -> Integers:
    """`match_boxes` for every group: detections starts[i] to starts[i + 1] with objects first[i] to last[i].

    Returns (T, D) rows of the objects; -1 for no match, -2 for a detection beyond the `most` best of its group.
    """
    taken = np.full((thresholds.size, len(detected)), -1, np.int64)
    for group in range(len(first)):
        begin, end = starts[group], starts[group + 1]
        if most >= 0 and end - begin > most:
            taken[:, begin + most : end] = -2
            end = begin + most
        low, high = first[group], last[group]
        if low == high:
            continue
        overlaps = overlap_boxes(detected[begin:end], objects[low:high], crowd[low:high], 0.0)
        matched = match_boxes(overlaps, ignored[low:high], crowd[low:high], thresholds)
        for t in range(thresholds.size):
            for d in range(end - begin):
                if matched[t, d] >= 0:
                    taken[t, begin + d] = low + matched[t, d]
    return taken


@compiled
def judge_groups(
    starts: Integers,
    first: Integers,
    last: Integers,
    detected: Floats,
    objects: Floats,
    ignored: Flags,
    thresholds: Floats,
    extra: float,
) -> Verdicts:
    """VOC's rule for the same groups: a detection is compared only with the object that it overlaps most.

    Returns (T, D): 1 found, 0 false (no object, or one found before), -1 neither (an ignored object).
    """
    verdict = np.zeros((thresholds.size, len(detected)), np.int8)
    for group in range(len(first)):
        begin, end, low, high = starts[group], starts[group + 1], first[group], last[group]
        if low == high:
            continue
        overlaps = overlap_boxes(detected[begin:end], objects[low:high], np.zeros(high - low, np.bool_), extra)
        for t in range(thresholds.size):
            taken = np.zeros(high - low, np.bool_)
            for d in range(end - begin):
                best = np.argmax(overlaps[d])
                if overlaps[d, best] < thresholds[t]:
                    continue
                if ignored[low + best]:
                    verdict[t, begin + d] = -1
                elif not taken[best]:
                    taken[best] = True
                    verdict[t, begin + d] = 1
    return verdict


@compiled
def weighted_precision(
    verdict: Verdicts,
    places: Integers,
    starts: Integers,
    images: Integers,
    bounds: Integers,
    objects: Floats,
    weights: Floats,
    recalls: Floats,
) -> Floats:
    """(R, T, K) COCO's average precision when every image counts as often as its weight says; NaN without objects.

    False detections only add to a running sum: what is visited per threshold are the few that found an object (or took
    an ignored one), for the recall and the precision's envelope change only there.

    Args:
        verdict: 1 found, -1 neither, of the detections at `places`, threshold by threshold and class by class.
        places: where in the score order of all detections.
        starts: (T, K + 1) where the places of a threshold and class begin.
        images: (D,) image of every detection, by class and in score order.
        bounds: (K + 1,) where the detections of every class begin.
        objects: (R, K) weighted number of objects that count.
        weights: (R, N).
        recalls: where the precision is read, ascending.
    """
    count, classes = objects.shape
    thresholds = starts.shape[0]
    average = np.full((count, thresholds, classes), np.nan)
    so_far = np.empty(images.size)
    reached, precision = np.empty(images.size), np.empty(images.size)
    for r in range(count):
        for k in range(classes):
            if objects[r, k] <= 0:
                continue
            total = 0.0
            for d in range(bounds[k], bounds[k + 1]):
                total += weights[r, images[d]]
                so_far[d] = total
            for t in range(thresholds):
                points, hits, neither = 0, 0.0, 0.0
                for index in range(starts[t, k], starts[t, k + 1]):
                    place = places[index]
                    weight = weights[r, images[place]]
                    if weight == 0:
                        continue
                    if verdict[index] < 0:
                        neither += weight
                        continue
                    hits += weight
                    reached[points] = hits / objects[r, k]
                    precision[points] = hits / (so_far[place] - neither)
                    points += 1
                area, best = 0.0, 0.0
                for index in range(recalls.size - 1, -1, -1):
                    while points > 0 and reached[points - 1] >= recalls[index]:
                        points -= 1
                        best = max(best, precision[points])
                    area += best
                average[r, t, k] = area / recalls.size
    return average

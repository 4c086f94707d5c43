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


@compiled
def type_groups(
    starts: Integers,
    first: Integers,
    last: Integers,
    detected: Floats,
    kind: Integers,
    objects: Floats,
    object_class: Integers,
    ignored: Flags,
    match_at: float,
    background_at: float,
    most: int,
) -> tuple[Verdicts, Integers]:
    """TIDE's type of every detection, and the object it belongs to (-1 for none); a group is an image.

    Detections are in score order. Types are the positions in `error_types.TYPES`, 0 for a right one, -1 for one that
    counts for nothing: in an ignored object of its class, or beyond the `most` best of its image.
    """
    types = np.full(len(detected), -1, np.int8)
    target = np.full(len(detected), -1, np.int64)
    used = np.zeros(len(objects), np.bool_)
    none = np.zeros(len(objects), np.bool_)
    for group in range(len(first)):
        low, high = first[group], last[group]
        begin, end = starts[group], min(starts[group + 1], starts[group] + most)
        overlaps = overlap_boxes(detected[begin:end], objects[low:high], none[low:high], 0.0)
        shares = overlap_boxes(detected[begin:end], objects[low:high], ignored[low:high], 0.0)
        for d in range(begin, end):
            best, overlap = -1, 0.0
            for g in range(low, high):
                free = not ignored[g] and not used[g] and object_class[g] == kind[d]
                if free and overlaps[d - begin, g - low] >= match_at and overlaps[d - begin, g - low] > overlap:
                    best, overlap = g, overlaps[d - begin, g - low]
            if best > -1:
                used[best], types[d], target[d] = True, 0, best
        for d in range(begin, end):
            if types[d] == 0:
                continue
            same, other, own, foreign, counted, inside = 0.0, 0.0, -1, -1, 0, False
            for g in range(low, high):
                overlap = overlaps[d - begin, g - low]
                if ignored[g]:
                    inside = inside or (object_class[g] == kind[d] and shares[d - begin, g - low] > match_at)
                    continue
                counted += 1
                if object_class[g] == kind[d]:
                    if overlap > same:
                        same, own = overlap, g
                elif overlap > other:
                    other, foreign = overlap, g
            if inside:
                continue
            if counted == 0:
                types[d] = 5
            elif background_at <= same <= match_at:
                types[d], target[d] = 2, own
            elif other >= match_at:
                types[d], target[d] = 1, foreign
            elif same >= match_at:
                types[d] = 4
            elif max(same, other) <= background_at:
                types[d] = 5
            else:
                types[d] = 3
    return types, target


@compiled
def fate_groups(
    starts: Integers,
    first: Integers,
    last: Integers,
    detected: Floats,
    kind: Integers,
    objects: Floats,
    object_class: Integers,
    ignored: Flags,
    match_at: float,
) -> tuple[Verdicts, Verdicts]:
    """What became of every object and of every detection, each counted once; a group is an image.

    Objects: 0 found, 1 misnamed, 2 disappeared. Detections, in score order: 0 used by an object, 1 hallucinated,
    2 repeated, -1 in an ignored object of its class.
    """
    states, fates = np.full(len(objects), 2, np.int8), np.full(len(detected), 1, np.int8)
    none = np.zeros(len(objects), np.bool_)
    for group in range(len(first)):
        low, high, begin, end = first[group], last[group], starts[group], starts[group + 1]
        overlaps = overlap_boxes(detected[begin:end], objects[low:high], none[low:high], 0.0)
        shares = overlap_boxes(detected[begin:end], objects[low:high], ignored[low:high], 0.0)
        for named in (True, False):  # objects that are named right are taken before those that are not
            for d in range(begin, end):
                if fates[d] == 0:
                    continue
                best, overlap = -1, 0.0
                for g in range(low, high):
                    fits = not ignored[g] and states[g] == 2 and (object_class[g] == kind[d]) == named
                    if fits and overlaps[d - begin, g - low] >= match_at and overlaps[d - begin, g - low] > overlap:
                        best, overlap = g, overlaps[d - begin, g - low]
                if best > -1:
                    fates[d], states[best] = 0, 0 if named else 1
        for d in range(begin, end):
            if fates[d] == 0:
                continue
            for g in range(low, high):
                if ignored[g]:
                    if object_class[g] == kind[d] and shares[d - begin, g - low] > match_at:
                        fates[d] = -1
                elif overlaps[d - begin, g - low] >= match_at and fates[d] > 0:
                    fates[d] = 2
    return states, fates

"""Cost of mAP: COCO's figures of 5,000 images with 100 detections each, against faster-coco-eval alone.

"Alone" is what its documentation does with results that lie in memory as COCO's dictionaries already: index the
objects, load the results, evaluate, accumulate, summarise. Ours begins with Gauntlet's arrays. Both give the same mAP.

python benchmarks/detection.py
python benchmarks/detection.py --compare 1000      a paired comparison of two detectors on so many images instead
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from faster_coco_eval import COCO, COCOeval_faster

from gauntlet.analysis import compare_objects
from gauntlet.metrics.arithmetic import FloatArray
from gauntlet.metrics.detection.coco_figures import MOST_DETECTIONS, THRESHOLDS
from gauntlet.metrics.detection.figures import figures
from gauntlet.metrics.detection.table import ObjectTable, WeightedPrecision
from gauntlet.metrics.intervals import left_out
from gauntlet.report.image_figures import BoxImages
from gauntlet.samples import Boxes

CLASSES = 80
OBJECTS = 7  # per image, as in COCO

Result = TypeVar("Result")


def measure(function: Callable[[], Result]) -> tuple[float, float, Result]:
    """Seconds on the clock, seconds of computing, and the result."""
    clock, computing = time.perf_counter(), time.process_time()
    result = function()
    return time.perf_counter() - clock, time.process_time() - computing, result


def make(images: int, detections: int) -> tuple[list[Boxes], list[Boxes]]:
    """Objects, and detections of which half lie near one, the other half anywhere."""
    generator = np.random.default_rng(0)
    truths, detected = [], []
    for _ in range(images):
        corner = generator.uniform(0, 500, (OBJECTS, 2))
        boxes = np.concatenate([corner, corner + generator.uniform(5, 200, (OBJECTS, 2))], axis=1)
        kinds = generator.integers(0, CLASSES, OBJECTS)
        truths.append(Boxes(boxes.astype(np.float32), kinds))
        near = generator.integers(0, OBJECTS, detections)
        moved = boxes[near] + generator.normal(0, 8, (detections, 4))
        moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2] + 1)
        guessed = np.where(np.arange(detections) % 2, kinds[near], generator.integers(0, CLASSES, detections))
        detected.append(Boxes(moved.astype(np.float32), guessed, generator.random(detections).astype(np.float32)))
    return truths, detected


def as_dictionaries(boxes: list[Boxes]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for image, each in enumerate(boxes, start=1):
        corners = each.xyxy.astype(np.float64)
        corners[:, 2:] -= corners[:, :2]
        for index, box in enumerate(corners.tolist()):
            row = {"image_id": image, "category_id": int(each.classes[index]) + 1, "bbox": box}
            if each.scores is None:
                row |= {"id": len(rows) + 1, "iscrowd": 0, "area": box[2] * box[3]}
            else:
                row["score"] = float(each.scores[index])
            rows.append(row)
    return rows


def alone(images: int, objects: list[dict[str, Any]], results: list[dict[str, Any]]) -> float:
    content = {
        "images": [{"id": index + 1} for index in range(images)],
        "categories": [{"id": index + 1, "name": str(index)} for index in range(CLASSES)],
        "annotations": objects,
    }
    truth = COCO(content)
    evaluation = COCOeval_faster(truth, truth.loadRes(results), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return float(evaluation.stats_as_dict["AP_all"])


def without_images(precision: WeightedPrecision, images: int, sets: int) -> FloatArray:
    """The average precision of the first sets of images that an interval needs."""
    return precision(left_out(images)[:sets])


def compare(images: int, detections: int) -> float:
    """Seconds of computing of one threat of `gauntlet compare`; the second detector finds nothing in every tenth."""
    truths, detected = make(images, detections)
    nothing = Boxes(np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32))
    others = [nothing if index % 10 == 0 else each for index, each in enumerate(detected)]
    first, second = list(zip(truths, detected, strict=True)), list(zip(truths, others, strict=True))
    compare_objects(first[:20], second[:20], CLASSES, permutations=1)  # compiles
    return measure(partial(compare_objects, first, second, CLASSES, permutations=BoxImages.permutations[0]))[1]


def matched(truths: list[Boxes], detected: list[Boxes]) -> WeightedPrecision:
    return WeightedPrecision(ObjectTable.of(truths, detected, CLASSES), THRESHOLDS, MOST_DETECTIONS[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--detections", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sets", type=int, default=20, help="sets of images of the 401 that an interval takes")
    parser.add_argument("--compare", type=int, metavar="IMAGES", help="a paired comparison on so many images instead")
    options = parser.parse_args()
    if options.compare:
        seconds = compare(options.compare, options.detections)
        how = f"for {options.compare} images ({BoxImages.permutations[0]} permutations)"
        print(f"{'gauntlet.analysis.compare_objects':36s} {seconds:7.2f} s of computing {how}")
        return
    truths, detected = make(options.images, options.detections)
    small = slice(0, 20)
    figures(truths[small], detected[small], CLASSES)  # imports
    without_images(matched(truths[small], detected[small]), 20, 1)  # compiles
    theirs, ours = [], []
    for _ in range(options.rounds):  # in turn, so that a busy machine meets both
        objects, results = as_dictionaries(truths), as_dictionaries(detected)  # anew: the library writes into them
        theirs.append(measure(partial(alone, options.images, objects, results)))
        del objects, results
        ours.append(measure(lambda: figures(truths, detected, CLASSES)["mAP"]))
    if abs(theirs[0][2] - ours[0][2]) > 1e-9:
        raise SystemExit(f"the figures differ: {theirs[0][2]} and {ours[0][2]}")
    base = min(each[1] for each in theirs)
    for name, times in (("faster-coco-eval alone", theirs), ("gauntlet.metrics.detection.figures.figures", ours)):
        clock, computing = (min(each[index] for each in times) for index in (0, 1))
        print(f"{name:36s} {computing:7.2f} s of computing   {computing / base:.2f}   ({clock:.2f} s on the clock)")
    _, matching, precision = measure(partial(matched, truths, detected))
    _, computing, _ = measure(partial(without_images, precision, options.images, options.sets))
    each = 1000 * computing / options.sets
    print(f"{'intervals':36s} {matching:7.2f} s of computing once, {each:.1f} ms per image left out, at most 400")


if __name__ == "__main__":
    main()

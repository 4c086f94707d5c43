"""Coverage of 95 % intervals: how often they hold the figure of all images. Writes docs/coverage.md.

Images are drawn with replacement from many, and the interval of the drawn ones is asked whether it holds the figure of
all of them: from simulated images, from the shipped models on 200 generated scenes, and from kept stores.

    python scripts/evidence.py unpack stores
    python benchmarks/coverage.py stores > docs/coverage.md

Without stores the rows of photographs are left out. Some two minutes on one core.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import gauntlet
from gauntlet.metrics import DetectionMetric, SegmentationMetric
from gauntlet.metrics.arithmetic import divide
from gauntlet.metrics.detection.estimates import average_precision
from gauntlet.metrics.detection.metric import Pair
from gauntlet.metrics.intervals import MINIMUM_IMAGES, Estimate, Interval
from gauntlet.metrics.segmentation import estimates
from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.results import Store, open_store
from gauntlet.studies.pages.markdown import table

IMAGES = (8, 16, 32)
SCENES = 200
REPETITIONS, OF_DETECTORS, OF_BOOTSTRAP = 1000, 200, 200
FIGURES: dict[str, Callable[[CountTable], Estimate]] = {
    "mIoU": estimates.miou,
    "mAcc": estimates.macc,
    "aAcc": estimates.accuracy,
    "NmIoU": estimates.miou_of_images,
}
PRESENCE = {
    "simulated, every class in 95 % of the images": [0.95] * 10,
    "simulated, classes in 30 to 100 %": [1, 1, 1, 0.9, 0.9, 0.8, 0.7, 0.6, 0.5, 0.5, 0.4, 0.3],
    "simulated, classes in 5 to 100 %": [1, 1, 0.9, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1, 0.05],
}
PHOTOGRAPHS = ("camvid/enet-clean", "camvid/segformer", "camvid/segformer-at")
HEAD = """# Do intervals cover?

A 95 % interval should hold the figure of all images in 95 of 100 cases. Here it is asked: images are drawn with
replacement from many (20,000 simulated ones; 200 generated street scenes; the 233 photographs of CamVid's test split,
from the kept store), and the interval of the drawn images holds the figure of all of them, or does not. Made by

    python scripts/evidence.py unpack stores
    python benchmarks/coverage.py stores > docs/coverage.md

{repetitions} draws per cell of segmentation (a standard error of 0.7 points), {of_detectors} per cell of
detection and of the bootstrap (1.5 points).

**The method** (`gauntlet.metrics.intervals`, one for all figures, differences and ratios over images). Each image is
left out in turn. From the changes of the figure comes its standard error, and from Student's t the width. Four rules
go with it:

- A class that occurs in one image cannot be left out. Every class is given the variance of one more image, at the size
  that is usual among the classes of the figure.
- The degrees of freedom are Satterthwaite's over classes: a class that few images hold has few. They are never more
  than one less than the images.
- The interval reaches further on the side where the bias lies that the jackknife finds.
- A class that does not occur in the images is not in the figure: the interval is of the mean over the classes that do.

**Where it holds.** From {minimum} images on, coverage is 93 to 97 % for means over classes that occur in most
images. With fewer images no interval is given, and the words say that {minimum} are needed. The interval of a single
class needs {minimum} images with the class, and covers less evenly: 82 to 98 % on photographs.

**Where it does not.** Where classes occur in a third of the images or fewer, and few images hold most of their pixels,
coverage of a mean over classes is 80 to 93 % up to 32 images: a sample without those images does not know of them.
The misses are then mostly low. More images are the only remedy; the number of images with each class says where to
expect it. Frames of one video are not independent: intervals over them say nothing of other videos.

"""


def simulated(presence: Sequence[float], images: int = 20_000) -> CountTable:
    """Counts of images whose classes occur so often, differ in size, and are harder on some images than on others."""
    generator = np.random.default_rng(1)
    classes = len(presence)
    ease = generator.normal(1, 0.8, classes) + generator.normal(0, 0.5, (images, 1))
    right = 1 / (1 + np.exp(-(ease + generator.normal(0, 0.8, (images, classes)))))
    size = 1000 * np.exp(generator.normal(0, 1, (images, classes)) + np.linspace(1, 0, classes))
    pixels = np.round(size * (generator.random((images, classes)) < presence)).astype(np.int64)
    hits = np.round(pixels * right).astype(np.int64)
    wrong = np.round(60 * generator.gamma(0.5, 1, (images, classes))).astype(np.int64)
    said = wrong * (generator.random((images, classes)) < np.maximum(presence, 0.3))
    return CountTable(hits, pixels, hits + said)


def stored(store: Store, key: str) -> CountTable:
    """Counts of every image of an evaluation."""
    metric, started = store.metric(key), store.started(key)
    assert isinstance(metric, SegmentationMetric)
    assert started is not None
    confusions = [metric.decode(row.counts).confusion[0] for row in store.image_rows(started)]
    return CountTable.of(confusions, len(metric.class_names))


def generated(model: str, threat: Any = "clean") -> tuple[Store, str]:
    """A store with an evaluation on 200 generated scenes, and its key."""
    store = Store()
    data = gauntlet.load_dataset("streets", split="val", limit=SCENES)
    return store, gauntlet.evaluate(gauntlet.load_model(model), data, threat, store=store).key


def detected(model: str) -> tuple[list[Pair], int]:
    """Objects and detections of 200 generated scenes, and the number of classes."""
    store, key = generated(model)
    metric, started = store.metric(key), store.started(key)
    assert isinstance(metric, DetectionMetric)
    assert started is not None
    assert started.views is not None
    counts = [metric.decode(row.counts) for row in store.image_rows(started)]
    return metric.headline_pairs(counts, started.views), len(metric.class_names)


def truth_of(of_all: CountTable, drawn: CountTable, name: str) -> float:
    """The mIoU or mAcc of all images, over the classes of the drawn ones."""
    below = "union" if name == "mIoU" else "ground_truth"
    whole, here = (getattr(each, below).sum(axis=0) for each in (of_all, drawn))
    return float(divide(of_all.true_positives.sum(axis=0), whole)[here > 0].mean())


def percentiles(drawn: CountTable, name: str, generator: np.random.Generator) -> Interval:
    """The percentile bootstrap, which intervals were made by up to version 0.2."""
    images = len(drawn)
    sums = drawn.weighted(generator.multinomial(images, np.full(images, 1 / images), size=200).astype(np.float64))
    below = sums.union if name == "mIoU" else sums.ground_truth
    ratios = divide(sums.true_positives, below)
    low, high = np.percentile(np.nanmean(ratios, axis=1), [2.5, 97.5])
    return Interval(np.nan, float(low), float(high), images)


def share(hits: Iterable[bool]) -> str:
    """Per cent with one decimal."""
    return f"{100 * np.mean(list(hits)):.1f}"


def holds(interval: Interval, truth: float) -> bool:
    return bool(interval.low <= truth <= interval.high)


def draws(count: int, of: int, images: int) -> Iterable[npt.NDArray[np.intp]]:
    """Draws of so many images, the same for every method and figure."""
    generator = np.random.default_rng(images)
    return (generator.integers(of, size=images, dtype=np.intp) for _ in range(count))


def covered(of_all: CountTable, images: int) -> dict[str, str]:
    """Coverage of every figure in per cent."""
    hits: dict[str, list[bool]] = {name: [] for name in FIGURES}
    truth = {name: FIGURES[name](of_all).value for name in ("aAcc", "NmIoU")}
    for chosen in draws(REPETITIONS, len(of_all), images):
        drawn = of_all.select(chosen)
        for name, statistic in FIGURES.items():
            wanted = truth[name] if name in truth else truth_of(of_all, drawn, name)
            hits[name].append(holds(statistic(drawn).interval(), wanted))
    return {name: share(each) for name, each in hits.items()}


def covered_by_percentiles(of_all: CountTable, name: str, images: int) -> str:
    """Coverage of the percentile bootstrap in per cent."""
    generator, hits = np.random.default_rng(0), []
    for chosen in draws(OF_BOOTSTRAP, len(of_all), images):
        drawn = of_all.select(chosen)
        hits.append(holds(percentiles(drawn, name, generator), truth_of(of_all, drawn, name)))
    return share(hits)


def covered_pairs(first: CountTable, second: CountTable, images: int) -> tuple[str, str]:
    """Coverage of the difference of two mIoU and of their ratio."""
    of_all = [estimates.miou(each).value for each in (first, second)]
    apart, over = [], []
    for chosen in draws(REPETITIONS, len(first), images):
        a, b = (estimates.miou(each.select(chosen)) for each in (first, second))
        apart.append(holds((a - b).interval(), of_all[0] - of_all[1]))
        over.append(holds((a / b).interval(), of_all[0] / of_all[1]))
    return share(apart), share(over)


def covered_detections(pairs: Sequence[Pair], classes: int, images: int) -> tuple[str, str]:
    """Coverage of mAP and mAP50."""

    def figures(chosen: Iterable[int]) -> dict[str, Estimate]:
        some = [pairs[index] for index in chosen]
        return average_precision([truth for truth, _ in some], [found for _, found in some], classes)

    names = ("mAP", "mAP50")
    truth = figures(range(len(pairs)))
    hits: dict[str, list[bool]] = {name: [] for name in names}
    for chosen in draws(OF_DETECTORS, len(pairs), images):
        found = figures(chosen.tolist())
        for name in names:
            hits[name].append(holds(found[name].interval(), truth[name].value))
    return share(hits["mAP"]), share(hits["mAP50"])


def class_rows(of_all: CountTable, images: int) -> list[list[str]]:
    """Coverage of the IoU of single classes, by how many images they occur in."""
    often = (of_all.ground_truth > 0).mean(axis=0)
    truth = divide(of_all.true_positives.sum(axis=0), of_all.union.sum(axis=0))
    hits: list[list[bool]] = [[] for _ in truth]
    for chosen in draws(REPETITIONS // 4, len(of_all), images):
        for index, estimate in enumerate(estimates.class_iou(of_all.select(chosen))):
            found = estimate.interval()
            if not np.isnan(found.low):
                hits[index].append(holds(found, float(truth[index])))
    rows = []
    for low, high in ((0.9, 1.01), (0.5, 0.9), (0.0, 0.5)):
        of_bin = [hits[index] for index in np.flatnonzero((often >= low) & (often < high))]
        kept = [np.mean(each) for each in of_bin if len(each) >= REPETITIONS // 40]
        bounds = f"{100 * min(kept):.0f} to {100 * max(kept):.0f}" if kept else "-"
        rows.append([f"{100 * low:.0f} to {min(100 * high, 100):.0f} %", str(images), str(len(kept)), bounds])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="?", type=Path, help="folder with camvid.db (scripts/evidence.py unpack)")
    options = parser.parse_args()
    tables = {name: simulated(presence) for name, presence in PRESENCE.items()}
    fog = {"corruption": {"name": "fog", "severity": 3}}
    for words, threat in (("clean", "clean"), ("fog 3", fog)):
        tables[f"streets/enet, {words}"] = stored(*generated("streets/enet", threat))
    if options.stores is not None:
        store = open_store(options.stores / "camvid.db", read_only=True)
        frame = store.frame()
        here = frame[frame["threat"].eq("clean") & frame["images"].eq(233)].drop_duplicates("model")
        keys = dict(zip(here["model"], here["key"], strict=True))
        tables |= {f"{name}, photographs": stored(store, keys[name]) for name in PHOTOGRAPHS}
    print(HEAD.format(minimum=MINIMUM_IMAGES, repetitions=f"{REPETITIONS:,}", of_detectors=OF_DETECTORS))
    coverage = {each: [covered(of_all, images) for images in IMAGES] for each, of_all in tables.items()}
    for name in FIGURES:
        rows = [[each, *(found[name] for found in of_images)] for each, of_images in coverage.items()]
        print(f"## {name}\n\nCoverage in per cent by the number of images.\n")
        print(table(["images from", *map(str, IMAGES)], rows) + "\n")
    print("## Before\n\nThe same for the percentile bootstrap that versions up to 0.2 had.\n")
    rows = [
        [f"{each}, {name}", *(covered_by_percentiles(of_all, name, images) for images in IMAGES)]
        for name in ("mIoU", "mAcc")
        for each, of_all in tables.items()
    ]
    print(table(["images from", *map(str, IMAGES)], rows) + "\n")
    print("## Pairs\n\nDifference of the mIoU of two models, or of one with and without fog, and their ratio.\n")
    names = list(tables)
    pairs = [(names[4], names[3]), *((second, first) for first, second in itertools.pairwise(names[5:]))]
    rows = [
        [f"{first} against {second}", str(images), *covered_pairs(tables[first], tables[second], images)]
        for first, second in pairs
        for images in IMAGES
    ]
    print(table(["pair", "images", "difference", "ratio"], rows) + "\n")
    print("## Detection\n")
    objects, classes = detected("streets/fcos")
    rows = [[str(images), *covered_detections(objects, classes, images)] for images in IMAGES]
    print(table(["images of streets/fcos", "mAP", "mAP50"], rows) + "\n")
    print("## Single classes\n\nIoU of classes by the share of all images that they occur in: lowest and highest")
    print("coverage among them. A class in fewer than 8 of the drawn images has no interval.\n")
    rows = []
    for each in (names[1], names[2], names[3], *names[5:6]):
        rows += [[each, *row] for images in (16, 32) for row in class_rows(tables[each], images)]
    print(table(["images from", "class occurs in", "images", "classes", "coverage"], rows))


if __name__ == "__main__":
    main()

"""Cost of counting: the confusion of a 1024x2048, 19-class prediction against one np.bincount over the same pixels.

python benchmarks/metrics.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from gauntlet.metrics.segmentation.confusion import confusion

CLASSES = 19


def best(function: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    generator = np.random.default_rng(0)
    coarse = generator.integers(0, CLASSES, (32, 64))
    labels = np.kron(coarse, np.ones((32, 32), int)).astype(np.uint8)
    prediction = np.where(generator.random(labels.shape) < 0.8, labels, generator.integers(0, CLASSES, labels.shape))
    prediction = prediction.astype(np.uint8)
    region = (generator.random(labels.shape) < 0.5).astype(np.uint8)
    keys = labels.astype(np.int64) * CLASSES + prediction
    expected = np.bincount(keys.ravel(), minlength=CLASSES**2).reshape(CLASSES, CLASSES)
    if not np.array_equal(confusion(prediction, labels, CLASSES)[0], expected):
        raise SystemExit("the counts differ")
    confusion(prediction, labels, CLASSES, 255, region, 2)  # compile
    bincount = best(lambda: np.bincount(keys.ravel(), minlength=CLASSES**2), rounds)
    ours = best(lambda: confusion(prediction, labels, CLASSES), rounds)
    parts = best(lambda: confusion(prediction, labels, CLASSES, 255, region, 2), rounds)
    print(f"np.bincount over ready keys   {1e3 * bincount:6.2f} ms   1.00")
    print(f"confusion                     {1e3 * ours:6.2f} ms   {ours / bincount:.2f}")
    print(f"confusion, inside and outside {1e3 * parts:6.2f} ms   {parts / bincount:.2f}")


if __name__ == "__main__":
    main()

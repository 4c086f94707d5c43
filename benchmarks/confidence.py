"""Cost of what is told about confidence: a 512x1024, 19-class prediction described and counted, one thread.

python benchmarks/confidence.py
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import torch

from gauntlet.evaluation.prediction import describe_logits
from gauntlet.metrics import SegmentationMetric
from metrics import best

CLASSES, HEIGHT, WIDTH = 19, 512, 1024


def without_histograms(logits: torch.Tensor) -> object:
    """Labels, confidence and entropy as they were computed before there were histograms."""
    largest, labels = logits.max(dim=1)
    normaliser = torch.logsumexp(logits, dim=1)
    products = (logits - normaliser.unsqueeze(1)).exp_()
    possible = products > 0
    products.mul_(logits).masked_fill_(~possible, 0)
    return labels, torch.exp(largest - normaliser), normaliser - products.sum(dim=1)


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    coarse = 5 * torch.randn(1, CLASSES, HEIGHT // 16, WIDTH // 16, generator=generator)
    logits = torch.nn.functional.interpolate(coarse, size=(HEIGHT, WIDTH), mode="bilinear")
    noisy = logits[0] + 2 * torch.randn(CLASSES, HEIGHT, WIDTH, generator=generator)
    labels = noisy.argmax(dim=0).numpy().astype(np.uint8)
    metric = SegmentationMetric([str(index) for index in range(CLASSES)])
    said = describe_logits(logits[0])
    bare = replace(said, log_odds=None)
    counts = metric.update(said, labels)
    metric.update(bare, labels)  # compiled
    before = best(lambda: without_histograms(logits), rounds) + best(lambda: metric.update(bare, labels), rounds)
    now = best(lambda: describe_logits(logits[0]), rounds) + best(lambda: metric.update(said, labels), rounds)
    histograms = best(lambda: metric.update(said, labels), rounds) - best(lambda: metric.update(bare, labels), rounds)
    print(f"described and counted, before histograms {1e3 * before:6.1f} ms")
    print(f"described and counted, with histograms   {1e3 * now:6.1f} ms   {now / before:.2f} times")
    print(f"of this the histograms and scores        {1e3 * histograms:6.1f} ms")
    print(f"bytes of an image: {len(metric.update(bare, labels).to_bytes())} without, {len(counts.to_bytes())} with")


if __name__ == "__main__":
    main()

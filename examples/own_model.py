"""Your own torch network through the gauntlet: wrap it, evaluate it, keep the results.

    python examples/own_model.py

The same from the command line, without a script of your own (weights, mean and std are those of your network):

    gauntlet run --model python:examples.own_model:build --num-classes 11 --mean 0.5,0.5,0.5 --std 0.25,0.25,0.25
"""

from __future__ import annotations

import torch
from torch import nn

import gauntlet


def build() -> nn.Module:
    """A network like any other: normalised images in, logits out, here at half the resolution of the input."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 11, 3, padding=1),
    )


def main() -> None:
    """Evaluates the network, untrained as it is, on a few generated street scenes."""
    # Your weights go in here: network.load_state_dict(torch.load("weights.pth", weights_only=True)).
    network = build()

    # Gauntlet gives images in [0, 1] and wants logits at their size. Normalisation happens inside the model, so that an
    # epsilon of 8/255 means grey levels; logits are resized; images are padded where the network needs a multiple.
    model = gauntlet.wrap_model(
        network, num_classes=11, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25), stride=2, name="my-network"
    )

    dataset = gauntlet.load_dataset("streets", split="val", limit=2)
    for threat in ("clean", {"attack": {"name": "pgd", "epsilon": "2/255", "steps": 3}}, "fog"):
        # With store="results.db" the figures are kept, and nothing is computed twice.
        result = gauntlet.evaluate(model, dataset, threat)
        print(f"{result.model} | {result.threat}: mIoU {100 * result.figures['mIoU']:.1f} %")


if __name__ == "__main__":
    main()

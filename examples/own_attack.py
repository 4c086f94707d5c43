"""An attack of your own: a loss per pixel is enough; masks, targets, void, restarts and batteries come with it.

python examples/own_attack.py
"""

from __future__ import annotations

import torch

import gauntlet
from gauntlet.threats.attacks import PixelLoss, losses, register
from gauntlet.threats.attacks.algorithms.gradient import GradientAttack
from gauntlet.threats.attacks.engine.pixels import Pixels


def focal_weight(pixels: Pixels, progress: float) -> torch.Tensor:
    """Pixels that the model is still sure of count more: p_y, early in the attack; all count alike at its end."""
    own = torch.exp(-pixels.cross_entropy.detach())
    return own * (1 - progress) + progress


# The base is differentiated, the weight is not. `progress` runs from 0 to 1 over the attack.
losses.add("focal", PixelLoss(base=lambda pixels: pixels.cross_entropy, weight=focal_weight))
# A name for the combination: steepest steps in a ball with this loss, from a random start.
register("focal-pgd", GradientAttack, loss="focal", random_start=True)


def main() -> None:
    """Compares the attack with PGD on a shipped model."""
    dataset = gauntlet.load_dataset("streets", split="val", limit=2)
    for threat in (
        "clean",
        {"attack": {"name": "pgd", "epsilon": "2/255", "steps": 4}},
        {"attack": {"name": "focal-pgd", "epsilon": "2/255", "steps": 4}},
    ):
        result = gauntlet.evaluate("streets/enet", dataset, threat)
        print(f"{result.threat}: mIoU {100 * result.figures['mIoU']:.1f} %")


if __name__ == "__main__":
    main()

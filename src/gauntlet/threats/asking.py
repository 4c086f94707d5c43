"""What a model says about images, for threats that look at it; a random one draws as in an evaluation."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gauntlet.models.contract import GauntletModel
from gauntlet.models.randomness import EvaluationDraws, drawing, random_parts
from gauntlet.seeding import ImageSeed
from gauntlet.threats.attacks.engine.labels import label_map


def label_maps(model: GauntletModel, images: torch.Tensor, seeds: Sequence[ImageSeed]) -> torch.Tensor:
    """Label maps (N, H, W) of a segmentation model."""
    with torch.inference_mode(), drawing(random_parts(model), EvaluationDraws(seeds)):
        return label_map(model(images))

"""A source of models: "brightness:THRESHOLD" calls a pixel day when it is brighter than that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from gauntlet.models import SegmentationModel, wrap_model


def brightness(rest: str, options: Mapping[str, Any]) -> SegmentationModel:
    """A model with two classes, night and day."""
    network = nn.Conv2d(3, 2, 1)
    assert network.bias is not None
    threshold = float(rest)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[-1.0] * 3, [1.0] * 3]).view(2, 3, 1, 1))
        network.bias.copy_(torch.tensor([3 * threshold, -3 * threshold]))
    return wrap_model(network, num_classes=2, name=f"brightness:{rest}", **options)

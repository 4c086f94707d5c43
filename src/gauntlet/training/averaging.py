"""An exponential moving average of a network's weights."""

from __future__ import annotations

import torch
from torch import nn


class MovingAverage:
    """Weights that follow those of a network slowly; buffers are copied.

    Args:
        module: the network.
        decay: share of the old average that a step keeps; smaller in the first steps: (1 + n) / (10 + n).
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.state = {name: value.detach().clone() for name, value in module.state_dict().items()}

    @torch.no_grad()
    def update(self, module: nn.Module, step: int) -> None:
        """Takes in the weights after a step, counted from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        parameters = dict(module.named_parameters())
        for name, value in module.state_dict().items():
            if name in parameters:
                self.state[name].lerp_(value, 1 - decay)
            else:
                self.state[name].copy_(value)

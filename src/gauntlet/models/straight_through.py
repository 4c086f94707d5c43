"""Parts of a model without a useful gradient (JPEG, rounding): the function forwards, the identity backwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gauntlet.errors import GauntletError

Transform = Callable[[torch.Tensor], torch.Tensor]


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, function: Transform) -> torch.Tensor:
        result = function(values.detach())
        if result.shape != values.shape:
            raise GauntletError(
                f"straight_through needs a function that keeps the shape; it made {tuple(result.shape)} of "
                f"{tuple(values.shape)}."
            )
        return result.to(values.dtype).clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


def straight_through(function: Transform) -> Transform:
    """The function forwards, the identity backwards: for JPEG, rounding and other parts without a gradient.

    Args:
        function: keeps the shape of its input; need not be differentiable.

    Returns:
        a function to put in its place inside a model.
    """

    def wrapped(values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = _StraightThrough.apply(values, function)  # type: ignore[no-untyped-call]
        return result

    return wrapped

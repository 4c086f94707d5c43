"""Logits in what a network returns; two of them where it gives one output per pixel."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from gauntlet.errors import GauntletError

LOGITS, PROBABILITIES = "logits", "probabilities"
BINARY_VALUES = (True, LOGITS, PROBABILITIES)


def check_binary_classes(num_classes: int | None) -> None:
    """An error for a number of classes that a network with one output cannot have: it has one output, two classes."""
    if num_classes not in (None, 1, 2):
        raise GauntletError(f"a binary model has one output and two classes, not {num_classes}.")


class TwoClasses(nn.Module):
    """A network with one output z per pixel, as logits (0, z): softmax gives class 1 the probability sigmoid(z).

    Class 1 wins where the sigmoid is above 0.5. Cross-entropy of these logits is binary cross-entropy of z.

    Args:
        network: returns (N, 1, h, w) or (N, h, w), or a mapping or object that holds it.
        output: True, "logits", or "probabilities" for a network that ends in a sigmoid. With True, outputs that all
            lie between 0 and 1 in the first batch are an error that asks which of the two it is.
    """

    def __init__(self, network: nn.Module, output: bool | str) -> None:
        super().__init__()
        if output not in BINARY_VALUES:
            raise GauntletError(f"binary must be True, '{LOGITS}' or '{PROBABILITIES}', not {output!r}.")
        self.network = network
        self.output = output
        self._asked = output is not True

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        values = single_output(self.network(images))
        if not self._asked:
            lowest, highest = (float(each) for each in values.detach().aminmax())
            if lowest >= 0 and highest <= 1:
                raise GauntletError(
                    f"the network's outputs lie between {lowest:.3g} and {highest:.3g}, as after a sigmoid, and "
                    f"binary=True expects them before it; say binary='{PROBABILITIES}' for probabilities, or "
                    f"binary='{LOGITS}' where they are logits after all (in a plan among the model's options)."
                )
            self._asked = True
        if self.output == PROBABILITIES:
            values = torch.logit(values, eps=torch.finfo(values.dtype).eps)
        return torch.cat([torch.zeros_like(values), values], dim=1)


def single_output(answer: object) -> torch.Tensor:
    """The one output of a network as (N, 1, h, w); an error where it gives several."""
    values = logits_of(answer)
    if values.ndim == 3:
        values = values.unsqueeze(1)
    if values.ndim != 4 or values.shape[1] != 1:
        raise GauntletError(
            f"the network returned a tensor of shape {tuple(values.shape)}; binary is for one output per pixel, "
            "(N, 1, h, w): leave it out, or choose one output (outputs=[1], --outputs 1)."
        )
    return values


def logits_of(output: object) -> torch.Tensor:
    """The logits in what a network returned: a tensor, or what holds one."""
    if isinstance(output, torch.Tensor):
        return output
    if isinstance(output, Mapping):
        for key in ("out", "logits"):
            if isinstance(output.get(key), torch.Tensor):
                return output[key]  # type: ignore[no-any-return]
    if hasattr(output, "logits") and isinstance(output.logits, torch.Tensor):
        return output.logits
    if isinstance(output, (tuple, list)) and output and isinstance(output[0], torch.Tensor):
        return output[0]
    raise GauntletError(
        f"the model returned a {type(output).__name__}; "
        "expected a tensor of logits, or a mapping with 'out' or 'logits'."
    )

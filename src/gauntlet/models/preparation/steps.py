"""What can be done to a model before its passes are counted in thousands, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.contract import GauntletModel
from gauntlet.models.preparation.copying import copy_sharing_weights
from gauntlet.models.preparation.folding import fold
from gauntlet.tasks import DETECTION, task_of

AUTO, OFF = "auto", "off"
"""Instead of steps: those that are fastest for a model, and none."""

Model = TypeVar("Model", bound=GauntletModel)


def _channels_last(model: nn.Module) -> None:
    """Kernels with the channels as the fastest axis: convolutions then give their features in this layout too."""
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # documented, but not in torch's types


def _compile(model: nn.Module) -> None:
    """torch.compile around the forward pass; minutes on a CPU and no gain there, worth a try on a GPU."""
    _check_forward(model, "compile")
    model.compile()


def _cuda_graphs(model: nn.Module) -> None:
    """torch.compile with CUDA graphs: one launch per pass in place of one per kernel.

    A pass writes its results where the pass before it did: what is kept of it, logits and gradients, are copies. A
    backward pass must follow its forward pass before the next one, as it does in our attacks.
    """
    _check_forward(model, "cuda-graphs")
    model.compile(mode="reduce-overhead")
    replay: Callable[..., torch.Tensor] = model._compiled_call_impl  # type: ignore[assignment] # `compile` has set it

    def call(images: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        return replay(_CopiedGradient.apply(images), *args, **options).clone()  # type: ignore[no-untyped-call]

    model._compiled_call_impl = call


class _CopiedGradient(torch.autograd.Function):
    """The same images; the gradient with respect to them is a copy."""

    @staticmethod
    def forward(context: Any, images: torch.Tensor) -> torch.Tensor:
        return images.view_as(images)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.clone()


STEPS: dict[str, Callable[[nn.Module], None]] = {
    "fold": fold,
    "channels-last": _channels_last,
    "compile": _compile,
    "cuda-graphs": _cuda_graphs,
}
"""Steps by name, in the order in which they are taken; each changes the copy that it is given."""


def parse_steps(text: str) -> tuple[str, ...] | None:
    """The steps that a user names: "fold,channels-last"; () for "off", None for "auto".

    >>> parse_steps("channels-last,fold"), parse_steps("off"), parse_steps("auto")
    (('fold', 'channels-last'), (), None)
    """
    if text == AUTO:
        return None
    if text == OFF:
        return ()
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in STEPS:
            raise unknown_name("preparation", name, [AUTO, OFF, *STEPS])
    return tuple(name for name in STEPS if name in names)


def prepare(model: Model, steps: Sequence[str]) -> Model:
    """A copy of a model with some steps taken; it has the same identity. Without any step, the model itself.

    Args:
        model: frozen, in eval mode; it is left as it is.
        steps: names of `STEPS`.
    """
    if not steps:
        return model
    identity = model.identity  # of the weights as they were given, not of the folded ones
    prepared = copy_sharing_weights(model)
    prepared._identity, prepared.preparation = identity, tuple(name for name in STEPS if name in steps)
    for part in prepared.modules():
        if isinstance(part, GauntletModel):  # a model inside a wrapper is prepared with it
            part.preparation = prepared.preparation
    for name in prepared.preparation:
        STEPS[name](prepared)
    prepared.freeze()
    return prepared


def _check_forward(model: nn.Module, step: str) -> None:
    if task_of(model) == DETECTION:
        raise GauntletError(f"the preparation '{step}' is for segmentation models; a detector has more than one pass.")

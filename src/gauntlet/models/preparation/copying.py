"""Copies of models that cost next to no memory."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from torch import nn

Module = TypeVar("Module", bound=nn.Module)


def copy_sharing_weights(module: Module) -> Module:
    """A copy with modules and parameters of its own whose weights are the same memory as the original's.

    A parameter of the copy can be replaced without a trace in the original; only writing into its memory would be seen.
    """
    shared: dict[int, Any] = {
        id(weight): nn.Parameter(weight.detach(), requires_grad=False) for weight in module.parameters()
    }
    return copy.deepcopy(module, shared)

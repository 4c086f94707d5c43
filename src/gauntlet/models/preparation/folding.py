"""Batch norm without its own pass: folded into the convolution before it, or one multiplication and one addition.

In eval mode batch norm is y = x * scale + shift per channel, with scale = weight / sqrt(variance + eps) and
shift = bias - mean * scale. A convolution takes both into its kernel and bias; where none stands directly before it
(after a concatenation or a sum), one fused multiply-add is left, whose gradient is a single product.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple

import torch
from torch import fx, nn
from torch.nn import functional
from torch.nn.utils.parametrize import is_parametrized

from gauntlet.models.architectures.layers import PReLU
from gauntlet.models.preparation.copying import copy_sharing_weights

Convolution = nn.Conv2d | nn.ConvTranspose2d
_CONVOLUTIONS = (nn.Conv2d, nn.ConvTranspose2d)


class ScaleAndShift(nn.Module):
    """x * scale + shift per channel: what batch norm is in eval mode."""

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, scale: torch.Tensor, shift: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("scale", scale.view(1, -1, 1, 1))
        self.register_buffer("shift", shift.view(1, -1, 1, 1))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return torch.addcmul(self.shift, features, self.scale)


class FixedLeakyReLU(nn.Module):
    """PReLU with one frozen slope: the same values from the kernel of leaky ReLU, which is several times faster."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return functional.leaky_relu(features, self.slope)


class Pair(NamedTuple):
    """Names of a convolution and of the batch norm that alone takes its output."""

    convolution: str
    normalisation: str


class _Tracer(fx.Tracer):
    """Follows a module's forward pass; only modules without children are looked at from outside."""

    def is_leaf_module(self, module: nn.Module, qualified_name: str) -> bool:
        return next(module.children(), None) is None or super().is_leaf_module(module, qualified_name)


def foldable_pairs(module: nn.Module, prefix: str = "", shared: Collection[int] | None = None) -> Iterator[Pair]:
    """Every convolution whose output goes to one batch norm and nowhere else.

    A module whose forward pass cannot be traced (it branches on values) is looked into child by child, so that its
    sequences and blocks are still found. Only torch's own classes count, without hooks: a subclass may compute
    something else.

    Args:
        module: in eval mode. Its forward pass is run with placeholders, so give a copy of what matters.
        prefix: of the names.
        shared: ids of modules that stand in several places; by default those of this module.
    """
    if shared is None:
        places = Counter(id(each) for _, each in module.named_modules(remove_duplicate=False))
        shared = {each for each, count in places.items() if count > 1}
    try:
        graph = _Tracer().trace(module)
    except Exception:  # tracing runs foreign code on placeholders: anything may be raised
        for name, child in module.named_children():
            yield from foldable_pairs(child, f"{prefix}{name}.", shared)
        return
    modules = dict(module.named_modules())
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    read = {str(node.target).rpartition(".")[0] for node in graph.nodes if node.op == "get_attr"}
    for node in graph.nodes:
        before = node.args[0] if node.op == "call_module" and node.args else None
        if not isinstance(before, fx.Node) or before.op != "call_module" or len(before.users) != 1:
            continue
        first, second = str(before.target), str(node.target)
        if (
            _is_plain_convolution(modules[first])
            and _is_plain_norm(modules[second])
            and calls[first] == calls[second] == 1
            and not {id(modules[first]), id(modules[second])} & set(shared)
            and not {first, second} & read  # its weights are used besides
        ):
            yield Pair(f"{prefix}{first}", f"{prefix}{second}")


def fold(module: nn.Module) -> None:
    """Folds a module in place; it must be in eval mode and nobody else's (`prepare` gives it a copy)."""
    for pair in list(foldable_pairs(copy_sharing_weights(module))):
        convolution, norm = module.get_submodule(pair.convolution), module.get_submodule(pair.normalisation)
        assert isinstance(convolution, _CONVOLUTIONS)
        assert isinstance(norm, nn.BatchNorm2d)
        _fold_into(convolution, *_scale_and_shift(norm))
        _replace(module, pair.normalisation, nn.Identity())
    for name, child in list(module.named_modules()):
        if _is_plain_norm(child):
            _replace(module, name, ScaleAndShift(*_scale_and_shift(child)))
        elif type(child) in (nn.PReLU, PReLU) and child.weight.numel() == 1 and not _has_hooks(child):
            _replace(module, name, FixedLeakyReLU(child.weight.item()))


def _replace(module: nn.Module, name: str, new: nn.Module) -> None:
    """Puts another module in the place of one, wherever it stands."""
    old = module.get_submodule(name)
    for place, each in list(module.named_modules(remove_duplicate=False)):
        if each is old:
            parent, _, last = place.rpartition(".")
            setattr(module.get_submodule(parent), last, new)


def _has_hooks(module: nn.Module) -> bool:
    """Whether somebody listens to a module, or changes what goes through it."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks)


def _is_plain_convolution(module: nn.Module) -> bool:
    """Whether a module is a convolution whose kernel is stored as it is used (no weight norm, no pruning)."""
    return type(module) in _CONVOLUTIONS and not is_parametrized(module) and not _has_hooks(module)


def _is_plain_norm(module: nn.Module) -> bool:
    """Whether a module is a batch norm that uses its stored statistics."""
    if type(module) is not nn.BatchNorm2d or _has_hooks(module):
        return False
    return module.running_mean is not None and not module.training


def _scale_and_shift(norm: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """(C,) scale and (C,) shift of a batch norm, computed in double precision and rounded once."""
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    dtype = norm.running_mean.dtype
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * norm.weight.detach().double()
    shift = -norm.running_mean.double() * scale
    if norm.bias is not None:
        shift = shift + norm.bias.detach().double()
    return scale.to(dtype), shift.to(dtype)


def _fold_into(convolution: Convolution, scale: torch.Tensor, shift: torch.Tensor) -> None:
    kernel = convolution.weight.detach()
    if isinstance(convolution, nn.ConvTranspose2d):  # (in, out / groups, h, w): a group's inputs share its outputs
        per_group = scale.view(convolution.groups, 1, -1)  # (groups, 1, out / groups)
        spread = per_group.expand(-1, kernel.shape[0] // convolution.groups, -1).reshape(*kernel.shape[:2], 1, 1)
    else:
        spread = scale.view(-1, 1, 1, 1)
    bias = shift if convolution.bias is None else convolution.bias.detach() * scale + shift
    convolution.weight = nn.Parameter((kernel * spread).to(kernel.dtype), requires_grad=False)
    convolution.bias = nn.Parameter(bias.to(kernel.dtype), requires_grad=False)

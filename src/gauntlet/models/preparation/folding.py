"""Batch norm without its own pass: folded into the convolution before it, or one multiplication and one addition.

In eval mode batch norm is y = x * scale + shift per channel, with scale = weight / sqrt(variance + eps) and
shift = bias - mean * scale. A convolution, or those whose outputs are put side by side, take both into kernel and bias;
where anything else stands before it (a sum, a pooling), one fused multiply-add is left, whose gradient is one product.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import fx, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.utils.parametrize import is_parametrized

from gauntlet.models.architectures.base import FoldsItself
from gauntlet.models.architectures.layers import PReLU, scale_and_shift
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

    @classmethod
    def of(cls, norm: nn.Module) -> ScaleAndShift:
        """In the place of a batch norm; its statistics stay, for code that calls torch's function with them."""
        made = cls(*scale_and_shift(norm))
        for name in ("weight", "bias", "running_mean", "running_var"):
            value = getattr(norm, name)
            made.register_buffer(name, None if value is None else value.detach(), persistent=False)
        made.eps, made.momentum = norm.eps, norm.momentum
        return made

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return torch.addcmul(self.shift, features, self.scale)


class FixedLeakyReLU(nn.Module):
    """PReLU with one frozen slope: the same values from the kernel of leaky ReLU, which is several times faster."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return functional.leaky_relu(features, self.slope)


class _FixedPReLUGradient(torch.autograd.Function):
    """PReLU whose backward pass is two kernels: what passes a ReLU, and the slope's share of the rest."""

    @staticmethod
    def forward(context: Any, features: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(features, slope)
        return functional.prelu(features, slope)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        features, slope = context.saved_tensors
        positive = torch.ops.aten.threshold_backward(gradient, features, 0)
        share = slope.to(gradient.dtype).view(-1, 1, 1)
        return torch.lerp(positive, gradient, share), None  # positive + slope * (gradient - positive)


class FixedPReLU(nn.Module):
    """PReLU with a frozen slope for each channel of a feature map."""

    slope: torch.Tensor

    def __init__(self, slope: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("slope", slope)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        if features.ndim != 4 or not torch.is_grad_enabled():
            return functional.prelu(features, self.slope)
        result: torch.Tensor = _FixedPReLUGradient.apply(features, self.slope)  # type: ignore[no-untyped-call]
        return result


class Foldable(NamedTuple):
    """Names of a batch norm and of the convolutions, side by side, whose outputs it alone takes."""

    convolutions: tuple[str, ...]
    normalisation: str


class _Tracer(fx.Tracer):
    """Follows a module's forward pass; only modules without children are looked at from outside."""

    def is_leaf_module(self, module: nn.Module, qualified_name: str) -> bool:
        return next(module.children(), None) is None or super().is_leaf_module(module, qualified_name)


def foldables(module: nn.Module, prefix: str = "", shared: Collection[int] | None = None) -> Iterator[Foldable]:
    """Every batch norm that takes the output of convolutions which goes nowhere else.

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
            yield from foldables(child, f"{prefix}{name}.", shared)
        return
    modules = dict(module.named_modules())
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    read = {str(node.target).rpartition(".")[0] for node in graph.nodes if node.op == "get_attr"}
    for node in graph.nodes:
        if node.op != "call_module" or not _is_plain_norm(modules[str(node.target)]):
            continue
        convolutions = [str(each.target) for each in _sources(node) if each.op == "call_module"]
        names = [*convolutions, str(node.target)]
        if (
            len(convolutions) == len(_sources(node)) > 0
            and all(_is_plain_convolution(modules[name]) for name in convolutions)
            and all(calls[name] == 1 and id(modules[name]) not in shared for name in names)
            and not set(names) & read  # its weights are used besides
        ):
            yield Foldable(tuple(prefix + name for name in convolutions), prefix + names[-1])


def _sources(norm: fx.Node) -> list[fx.Node]:
    """What a norm takes, the parts of a concatenation over channels one by one; none where others take it as well."""
    before = norm.args[0] if norm.args else None
    if not isinstance(before, fx.Node) or len(before.users) != 1:
        return []
    if before.target is not torch.cat:
        return [before]
    parts, axis = [*before.args, *before.kwargs.values(), 0][:2]
    if axis != 1 or not isinstance(parts, (tuple, list)):
        return []
    alone = all(isinstance(part, fx.Node) and len(part.users) == 1 for part in parts) and len(set(parts)) == len(parts)
    return list(parts) if alone else []


def fold(module: nn.Module) -> None:
    """Folds a module in place; it must be in eval mode and nobody else's (`prepare` gives it a copy)."""
    for name, child in list(module.named_modules()):
        if isinstance(child, FoldsItself) and not any(map(_has_hooks, child.modules())):
            _replace(module, name, child.folded().eval())
    for names, normalisation in list(foldables(copy_sharing_weights(module))):
        convolutions = [cast(Convolution, module.get_submodule(name)) for name in names]
        scale, shift = scale_and_shift(module.get_submodule(normalisation))
        widths = [each.out_channels for each in convolutions]
        for convolution, its_scale, its_shift in zip(
            convolutions, torch.split(scale, widths), torch.split(shift, widths), strict=True
        ):
            _fold_into(convolution, its_scale, its_shift)
        _replace(module, normalisation, nn.Identity())
    for name, child in list(module.named_modules()):
        if _is_plain_norm(child):
            _replace(module, name, ScaleAndShift.of(child))
        elif type(child) in (nn.PReLU, PReLU) and not _has_hooks(child):
            one = child.weight.numel() == 1
            _replace(module, name, FixedLeakyReLU(child.weight.item()) if one else FixedPReLU(child.weight.detach()))


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

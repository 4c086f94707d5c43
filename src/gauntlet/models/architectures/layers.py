"""Layers that several networks share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional


class _PReLUGradient(torch.autograd.Function):
    """PReLU with a backward pass of vectorised kernels.

    torch's own kernel (2.13, CPU) takes 7 ms where these take 0.5 (slope frozen) to 2 ms; E-Net has 75 of them.
    """

    @staticmethod
    def forward(context: Any, features: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(features, slope)
        return functional.prelu(features, slope)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        features, slope = context.saved_tensors
        if slope.numel() == 1 and not context.needs_input_grad[1]:
            return torch.ops.aten.leaky_relu_backward(gradient, features, slope.item(), False), None
        # What passes where features are positive, and what is left: the part that the slope scales.
        positive = torch.ops.aten.threshold_backward(gradient, features, 0)
        negative = gradient - positive
        shape = (1, -1, *([1] * (features.ndim - 2)))
        result = torch.addcmul(positive, negative, slope.view(shape))
        if not context.needs_input_grad[1]:
            return result, None
        products = negative.mul_(features)
        axes = [axis for axis in range(features.ndim) if axis != 1]
        return result, products.sum().view(1) if slope.numel() == 1 else products.sum(axes)


class PReLU(nn.PReLU):
    """PReLU (He et al. 2015), the same values and gradients as torch's, faster backward on CPU."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        if features.is_cuda or not torch.is_grad_enabled():
            return super().forward(features)
        result: torch.Tensor = _PReLUGradient.apply(features, self.weight)  # type: ignore[no-untyped-call]
        return result


class NormalisedActivation(nn.Module):
    """Batch norm, then PReLU with a slope per channel."""

    def __init__(self, channels: int, eps: float = 1e-3) -> None:
        super().__init__()
        self.normalisation = nn.BatchNorm2d(channels, eps=eps)
        self.activation = PReLU(channels)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.activation(self.normalisation(features))
        return result


class ConvolutionUnit(nn.Module):
    """A convolution without bias that keeps or halves the size, then batch norm and PReLU."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.convolution = convolution(in_channels, out_channels, kernel, stride=stride)
        self.output = NormalisedActivation(out_channels)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.output(self.convolution(features))
        return result


def convolution(
    in_channels: int, out_channels: int, kernel: int, *, stride: int = 1, dilation: int = 1, groups: int = 1
) -> nn.Conv2d:
    """A convolution without bias whose padding keeps the size at stride 1."""
    padding = dilation * (kernel - 1) // 2
    return nn.Conv2d(in_channels, out_channels, kernel, stride, padding, dilation=dilation, groups=groups, bias=False)


def halve(images: torch.Tensor) -> torch.Tensor:
    """Half the size by a 3x3 mean, for networks that are shown the image again deeper down."""
    return functional.avg_pool2d(images, 3, stride=2, padding=1)


def scale_and_shift(norm: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """(C,) scale and (C,) shift of a batch norm, computed in double precision (on the CPU: MPS has none)."""
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    place = norm.running_mean
    scale = (norm.running_var.cpu().double() + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * norm.weight.detach().cpu().double()
    shift = -norm.running_mean.cpu().double() * scale
    if norm.bias is not None:
        shift = shift + norm.bias.detach().cpu().double()
    return scale.to(place), shift.to(place)


def unit(
    in_channels: int,
    out_channels: int,
    kernel: int,
    stride: int = 1,
    dilation: int = 1,
    *,
    groups: int = 1,
    activation: type[nn.Module] | None = nn.ReLU,
) -> nn.Sequential:
    """A convolution without bias, batch norm, and an activation (ReLU) or none."""
    layers: list[nn.Module] = [
        convolution(in_channels, out_channels, kernel, stride=stride, dilation=dilation, groups=groups),
        nn.BatchNorm2d(out_channels),
    ]
    if activation is not None:
        layers.append(activation(inplace=True))
    return nn.Sequential(*layers)


def resize(features: torch.Tensor, size: torch.Size | tuple[int, int], *, corners: bool = False) -> torch.Tensor:
    """Bilinear resampling of maps (N, C, h, w) to a height and width.

    Args:
        features: the maps.
        size: (height, width) to reach.
        corners: corner pixels stay where they are (torch's align_corners), else the image's borders do.
    """
    if features.shape[-2:] == tuple(size):
        return features
    return functional.interpolate(features, size=tuple(size), mode="bilinear", align_corners=corners)


class PyramidPooling(nn.Module):
    """Means over a few regions per axis, each reduced, enlarged and put beside the features (PSPNet, section 3.2).

    Args:
        channels: of the features.
        width: channels of every level.
        bins: regions per axis of each level, in the order of their channels in the result.
        pool: (features, bins) to means; adaptive regions by default.
        corners: how levels are enlarged, see `resize`.
    """

    def __init__(
        self,
        channels: int,
        width: int,
        bins: Sequence[int] = (1, 2, 3, 6),
        *,
        pool: Callable[[torch.Tensor, int], torch.Tensor] = functional.adaptive_avg_pool2d,
        corners: bool = False,
    ) -> None:
        super().__init__()
        self.bins, self.pool, self.corners = tuple(bins), pool, corners
        self.levels = nn.ModuleList(unit(channels, width, 1) for _ in bins)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        size = features.shape[-2:]
        levels = [
            resize(level(self.pool(features, bins)), size, corners=self.corners)
            for bins, level in zip(self.bins, self.levels, strict=True)
        ]
        return torch.cat((features, *levels), dim=1)


def floored_means(features: torch.Tensor, bins: int) -> torch.Tensor:
    """Means over windows of floor(size / bins) pixels, side by side; more than `bins` where it does not divide."""
    height, width = features.shape[-2:]
    return functional.avg_pool2d(features, (max(1, height // bins), max(1, width // bins)))


def drop_path(branch: torch.Tensor, rate: float, training: bool) -> torch.Tensor:
    """Stochastic depth: in training, whole samples of a branch (N, ...) are dropped at a rate, the others scaled up."""
    if not training or rate == 0.0:
        return branch
    keep = 1.0 - rate
    kept = torch.rand(len(branch), *(1,) * (branch.ndim - 1), device=branch.device) < keep
    return branch * kept.to(branch.dtype).div(keep)

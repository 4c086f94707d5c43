"""Dilated networks (Yu, Koltun 2016, arXiv:1511.07122): VGG-16 without its last strides, and a context module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from gauntlet.models.architectures.base import Features, Rule
from gauntlet.models.architectures.published import vgg
from gauntlet.models.architectures.published.fcn import bilinear_kernel
from gauntlet.models.architectures.published.network import Parts, Published, he_normal

MARGIN = 186
"""Pixels by which the front end, which pads nowhere, shrinks an image on every side."""
# Widths in multiples of the number of classes, and dilations.
LARGE = ((2, 1), (2, 1), (4, 2), (8, 4), (16, 8), (32, 16), (32, 1))
BASIC = tuple((1, dilation) for dilation in (1, 1, 2, 4, 8, 16, 32, 64, 1))


def reflected(length: int, margin: int) -> torch.Tensor:
    """Positions of a line of `length` pixels mirrored at its first and last, `margin` on either side."""
    period = max(1, 2 * (length - 1))
    positions = torch.arange(-margin, length + margin) % period
    return torch.minimum(positions, period - positions)


class FrontEnd(nn.Module):
    """VGG-16 without padding, and with three poolings, on the image mirrored at its borders.

    Args:
        margin: pixels that are mirrored on every side; 0 for images that have them already.
        width: of the first stage.
    """

    def __init__(self, margin: int, width: int) -> None:
        super().__init__()
        self.margin = margin
        poolings = [*(nn.MaxPool2d(2, 2) for _ in range(3)), nn.Identity(), nn.Identity()]
        self.vgg = vgg.VGG16(poolings, padding=0, last_dilation=2, width=width)

    def forward(self, images: torch.Tensor) -> Features:
        padded = images
        if self.margin:
            rows, columns = (reflected(size, self.margin).to(images.device) for size in images.shape[-2:])
            padded = images[..., rows[:, None], columns]
        return self.vgg(padded)[-2], images


class Decoder(nn.Module):
    """The fully connected layers as convolutions, the front end's scores, and a context module on them."""

    def __init__(self, in_channels: int, width: int, num_classes: int, context: nn.Module) -> None:
        super().__init__()
        self.fully_connected = nn.Sequential(
            *(nn.Conv2d(in_channels, width, 7, dilation=4), nn.ReLU(inplace=True), nn.Dropout()),
            *(nn.Conv2d(width, width, 1), nn.ReLU(inplace=True), nn.Dropout()),
        )
        self.scores = nn.Conv2d(width, num_classes, 1)
        self.context = context

    def forward(self, encoded: Features) -> torch.Tensor:
        logits: torch.Tensor = self.context(self.scores(self.fully_connected(encoded[0])))
        return logits


def context_module(num_classes: int, layers: Sequence[tuple[int, int]], *, pad_first: bool) -> nn.Sequential:
    """3x3 convolutions of growing dilation with ReLU, then 1x1 (Table 1 of the paper).

    Args:
        num_classes: channels in and out.
        layers: width in multiples of the classes, and dilation, of each.
        pad_first: the first one pads for all, else each pads for itself.
    """
    made: list[nn.Module] = []
    in_channels = num_classes
    total = sum(dilation for _, dilation in layers)
    for index, (multiple, dilation) in enumerate(layers):
        padding = (total if index == 0 else 0) if pad_first else dilation
        width = multiple * num_classes
        made += [nn.Conv2d(in_channels, width, 3, 1, padding, dilation), nn.ReLU(inplace=True)]
        in_channels = width
    return nn.Sequential(*made, nn.Conv2d(in_channels, num_classes, 1))


def dilated(
    num_classes: int, context: nn.Module, *, margin: int = MARGIN, width: int = 64, head_width: int = 4096
) -> Parts:
    """A front end with a context module.

    Args:
        num_classes: number of logits.
        context: from scores to logits.
        margin, width: of the front end.
        head_width: of the fully connected layers.
    """
    encoder = FrontEnd(margin, width)
    return Parts(encoder, Decoder(encoder.vgg.widths[-1], head_width, num_classes, context))


def front_end(num_classes: int, **options: Any) -> Parts:
    """The front end alone; logits at 1/8. Options: those of `dilated`."""
    return dilated(num_classes, nn.Identity(), **options)


def dilation8(num_classes: int, **options: Any) -> Parts:
    """With the large context module, for VOC; logits at 1/8."""
    return dilated(num_classes, context_module(num_classes, LARGE, pad_first=True), **options)


def dilation10(num_classes: int, **options: Any) -> Parts:
    """With the basic context module of ten layers, for Cityscapes; logits at the image's size."""
    context = context_module(num_classes, BASIC, pad_first=False)
    context.append(nn.ConvTranspose2d(num_classes, num_classes, 16, 8, 4, groups=num_classes, bias=False))
    return dilated(num_classes, context, **options)


def initialise(module: nn.Module) -> None:
    """He normal; context layers near identity (equation 5 of the paper), enlargement bilinear."""
    he_normal(module)
    for decoder in module.modules():
        if not isinstance(decoder, Decoder):
            continue
        for layer in decoder.context.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.normal_(layer.weight, std=0.01)
                inputs, outputs = layer.in_channels, layer.out_channels
                middle = layer.kernel_size[0] // 2
                # Every group of outputs (or inputs) that belongs to a class passes that class on.
                shared = max(inputs, outputs) // min(inputs, outputs)
                with torch.no_grad():
                    for channel in range(max(inputs, outputs)):
                        one, other = channel, channel // shared
                        place = (one, other) if outputs >= inputs else (other, one)
                        layer.weight[(*place, middle, middle)] += 1.0 if outputs >= inputs else 1.0 / shared
            elif isinstance(layer, nn.ConvTranspose2d):
                with torch.no_grad():
                    layer.weight[:] = bilinear_kernel(layer.kernel_size[0]).to(layer.weight)


_FRONT: tuple[Rule, ...] = (
    *vgg.NAMES,
    (r"^encoder\.", "encoder.vgg."),
    (r"^fc6\.", "decoder.fully_connected.0."),
    (r"^fc7\.", "decoder.fully_connected.3."),
    (r"^(?:fc-)?final\.", "decoder.scores."),
)


def _context_names(prefix: str, *layers: str) -> tuple[Rule, ...]:
    return tuple((rf"^{prefix}_{layer}\.", f"decoder.context.{2 * index}.") for index, layer in enumerate(layers))


DILATION8: tuple[Rule, ...] = (
    *_FRONT,
    *_context_names("ct", "conv1_1", "conv1_2", "conv2_1", "conv3_1", "conv4_1", "conv5_1", "fc1", "final"),
)
DILATION10: tuple[Rule, ...] = (
    *_FRONT,
    *_context_names(
        "ctx", "conv1_1", "conv1_2", "conv2_1", "conv3_1", "conv4_1", "conv5_1", "conv6_1", "conv7_1", "fc1", "final"
    ),
    (r"^ctx_upsample\.", "decoder.context.19."),
)

_PAPER, _ORIGIN = "arXiv:1511.07122", "fyu/dilation"
NETWORKS = {
    "dilated_frontend_voc": Published(
        front_end,
        {},
        _FRONT,
        _PAPER,
        _ORIGIN,
        stride=8,
        classes=21,
        unused=(r"^ct_",),
        initialise=initialise,
        arnab_mib=512.4,
    ),
    "dilated8_context_voc": Published(
        dilation8, {}, DILATION8, _PAPER, _ORIGIN, stride=8, classes=21, initialise=initialise, arnab_mib=538.4
    ),
    "dilation10_cityscapes": Published(
        dilation10, {}, DILATION10, _PAPER, _ORIGIN, stride=8, initialise=initialise, arnab_mib=512.6
    ),
}

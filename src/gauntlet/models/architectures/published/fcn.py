"""FCN (Long, Shelhamer, Darrell 2015, arXiv:1411.4038): FCN8s on VGG-16 and ResNet-101, torchvision's on ResNet-50."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from gauntlet.models.architectures.base import Features, Rule
from gauntlet.models.architectures.published import vgg
from gauntlet.models.architectures.published.deeplab import DEEPEST, MIDDLE
from gauntlet.models.architectures.published.network import Head, Parts, Published, Readout, Supervision, he_normal
from gauntlet.models.architectures.published.pspnet import MMSEG_ENCODER, sequence_head
from gauntlet.models.architectures.published.residual import ResidualEncoder

OFFSETS = (5, 9, 31)
"""Where FCN8s cuts the maps of stride 16 and 8 and the enlarged logits, given its padding of 100."""


def bilinear_kernel(size: int) -> torch.Tensor:
    """(size, size): a transposed convolution with it interpolates bilinearly."""
    factor = (size + 1) // 2
    centre = factor - 1 if size % 2 else factor - 0.5
    slope = 1 - (torch.arange(size) - centre).abs() / factor
    return slope[:, None] * slope[None, :]


class Skips(nn.Module):
    """Scores of the maps at strides 32, 16 and 8, each enlarged and added to the next finer ones.

    More maps go on at strides 4 and 2.

    Args:
        channels: of the maps, coarsest first.
        num_classes: number of logits.
        offsets: where the finer scores and the result are cut; None for enlargements that fit without cuts.
    """

    def __init__(self, channels: Sequence[int], num_classes: int, offsets: tuple[int, int, int] | None) -> None:
        super().__init__()
        self.offsets = offsets
        self.scores = nn.ModuleList(nn.Conv2d(width, num_classes, 1) for width in channels)
        self.enlargements = nn.ModuleList(
            nn.ConvTranspose2d(
                num_classes, num_classes, 2 * stride, stride, stride // 2 if offsets is None else 0, bias=False
            )
            for stride in (*[2] * (len(channels) - 1), 2 ** (6 - len(channels)))
        )

    def forward(self, maps: Features, size: torch.Size) -> torch.Tensor:
        """Logits (N, K, height, width) of `size` from the maps, coarsest first."""
        enlarged = self.enlargements[0](self.scores[0](maps[0]))
        for step in range(1, len(self.scores)):
            finer = self._cut(self.scores[step](maps[step]), step - 1, enlarged.shape[-2:])
            enlarged = self.enlargements[step](enlarged + finer)
        return self._cut(enlarged, -1, size)

    def _cut(self, scores: torch.Tensor, step: int, size: torch.Size) -> torch.Tensor:
        offset = self.offsets[step] if self.offsets is not None else 0
        return scores[..., offset : offset + size[0], offset : offset + size[1]]


class FullyConnected(nn.Module):
    """VGG's two fully connected layers as convolutions, then the skips of FCN8s.

    Args:
        channels: of the maps to score, coarsest first.
        num_classes: number of logits.
        width, kernel, dropout: of the fully connected layers.
        offsets: see `Skips`; without them the first layer is padded to keep the size.
    """

    def __init__(
        self,
        channels: Sequence[int],
        num_classes: int,
        *,
        width: int,
        kernel: int,
        dropout: float,
        offsets: tuple[int, int, int] | None,
    ) -> None:
        super().__init__()
        self.finer = len(channels) - 1
        padding = kernel // 2 if offsets is None else 0
        self.fully_connected = nn.Sequential(
            *(nn.Conv2d(channels[0], width, kernel, padding=padding), nn.ReLU(inplace=True), nn.Dropout2d(dropout)),
            *(nn.Conv2d(width, width, 1), nn.ReLU(inplace=True), nn.Dropout2d(dropout)),
        )
        self.skips = Skips((width, *channels[1:]), num_classes, offsets)

    def forward(self, encoded: Features) -> torch.Tensor:
        *finer, coarsest, images = encoded
        maps = (self.fully_connected(coarsest), *reversed(finer[-self.finer :]))
        logits: torch.Tensor = self.skips(maps, images.shape[-2:])
        return logits


class ResidualSkips(nn.Module):
    """The skips of FCN8s on the last three maps of a ResNet."""

    def __init__(self, channels: Sequence[int], num_classes: int) -> None:
        super().__init__()
        self.skips = Skips(channels, num_classes, None)

    def forward(self, encoded: Features) -> torch.Tensor:
        *_, eighth, sixteenth, coarsest, images = encoded
        logits: torch.Tensor = self.skips((coarsest, sixteenth, eighth), images.shape[-2:])
        return logits


def fcn8s_vgg(
    num_classes: int,
    *,
    width: int = 64,
    normalised: bool = False,
    head_width: int = 4096,
    head_kernel: int = 7,
    dropout: float = 0.5,
    wide_padding: bool = True,
    maps: int = 3,
) -> Parts:
    """FCN8s on VGG-16; logits at the image's size.

    Args:
        num_classes: number of logits.
        width, normalised: of VGG-16.
        head_width, head_kernel, dropout: of the fully connected layers.
        wide_padding: the image is padded by 100 pixels and maps are cut to fit, as published; else by one, and maps of
            images whose sides are multiples of 32 fit.
        maps: how many maps are scored, coarsest first: 3 for FCN8s; 4 or 5, down to a stride of 4 or 2, without the
            wide padding.
    """
    poolings = [nn.MaxPool2d(2, 2, ceil_mode=True) for _ in range(5)]
    encoder = vgg.VGG16(poolings, first_padding=100 if wide_padding else 1, width=width, normalised=normalised)
    decoder = FullyConnected(
        encoder.widths[: -maps - 1 : -1],
        num_classes,
        width=head_width,
        kernel=head_kernel,
        dropout=dropout,
        offsets=OFFSETS if wide_padding else None,
    )
    return Parts(encoder, decoder)


def fcn8s_residual(num_classes: int) -> Parts:
    """FCN8s on ResNet-101; logits at the image's size.

    Arnab et al. trained it and published its size only; enlargements that fit take the place of their unknown cuts.
    """
    encoder = ResidualEncoder(101)
    return Parts(encoder, ResidualSkips(encoder.widths[:0:-1], num_classes))


def fcn_residual(num_classes: int) -> Parts:
    """One head on the last map of a dilated ResNet-50, as in torchvision; logits at the image's size."""
    encoder = ResidualEncoder(50, output_stride=8)
    return Parts(
        encoder,
        Readout(Head(encoder.widths[-1], 512, num_classes), DEEPEST),
        [Readout(Head(encoder.widths[-2], 256, num_classes), MIDDLE)],
    )


def initialise(module: nn.Module) -> None:
    """He normal; scores start at 0 and enlargements as bilinear interpolation, class by class."""
    he_normal(module)
    for skips in module.modules():
        if not isinstance(skips, Skips):
            continue
        for score in skips.scores:
            nn.init.zeros_(score.get_parameter("weight"))
        for enlargement in skips.enlargements:
            weight = enlargement.get_parameter("weight")
            nn.init.zeros_(weight)
            with torch.no_grad():
                weight.diagonal()[:] = bilinear_kernel(weight.shape[-1])[..., None].to(weight)


WKENTARO: tuple[Rule, ...] = (
    *vgg.NAMES,
    (r"^fc6\.", "decoder.fully_connected.0."),
    (r"^fc7\.", "decoder.fully_connected.3."),
    (r"^score_fr\.", "decoder.skips.scores.0."),
    (r"^score_pool4\.", "decoder.skips.scores.1."),
    (r"^score_pool3\.", "decoder.skips.scores.2."),
    (r"^upscore2\.", "decoder.skips.enlargements.0."),
    (r"^upscore_pool4\.", "decoder.skips.enlargements.1."),
    (r"^upscore8\.", "decoder.skips.enlargements.2."),
    # CRF-RNN's names of the same
    (r"^score2\.", "decoder.skips.enlargements.0."),
    (r"^score4\.", "decoder.skips.enlargements.1."),
    (r"^upsample\.", "decoder.skips.enlargements.2."),
)
TORCHVISION: tuple[Rule, ...] = (
    *MMSEG_ENCODER,
    *sequence_head("classifier", "decoder.head"),
    *sequence_head("aux_classifier", "auxiliary.0.head"),
)

_PAPER = "arXiv:1411.4038"
NETWORKS = {
    "fcn8s_vgg16_wkentaro": Published(
        fcn8s_vgg, {}, WKENTARO, _PAPER, "wkentaro/pytorch-fcn", classes=21, initialise=initialise, arnab_mib=513.0
    ),
    "crfrnn": Published(
        fcn8s_vgg, {}, WKENTARO, "arXiv:1502.03240", "torrvision/crfasrnn", classes=21, initialise=initialise,
        behind="crf:preset=crfrnn:net:fcn8s_vgg16_wkentaro",
    ),
    "fcn8s_resnet101": Published(
        fcn8s_residual, {}, (), _PAPER, "Arnab et al. 2018 (not public)", stride=32, classes=21, initialise=initialise,
        arnab_mib=162.9,
    ),
    "tv_fcn_resnet50": Published(
        fcn_residual, {}, TORCHVISION, _PAPER, "pytorch/vision", classes=21, supervision=Supervision(0.5)
    ),
}  # fmt: skip

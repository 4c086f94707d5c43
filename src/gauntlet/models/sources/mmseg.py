"""mmseg: a configuration and a checkpoint of mmsegmentation, in the user's own OpenMMLab environment.

Inference is the model's own, with the mode of its configuration (whole images, or OpenMMLab's sliding windows), on
images padded as its data preprocessor pads them for tests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gauntlet.errors import GauntletError, first_line
from gauntlet.models.contract import GauntletModel
from gauntlet.models.sources.adapting import OPTIONS, Adapter, check_options
from gauntlet.models.sources.contract import ModelSource
from gauntlet.models.sources.openmmlab import PLACES, OpenMMLabSource, channel_settings, check_places


class SegmentorSource(OpenMMLabSource):
    """A segmentor of mmsegmentation."""

    def load(self) -> GauntletModel:
        built = self.build()
        segmentor = built.network
        inference = OwnInference(segmentor)
        mean, std, order = channel_settings(segmentor.data_preprocessor)
        names = built.class_names
        adapter = Adapter(
            inference.num_classes,
            mean=mean,
            std=std,
            channel_order=order,
            class_names=names if names is not None and len(names) == inference.num_classes else None,
        )
        return adapter.overruled(self.options).wrap(inference, self.identity)


class OwnInference(nn.Module):
    """Logits (N, K, H, W) of normalised images (N, 3, H, W) by a segmentor's own inference.

    A head with one output says "class 1" where its sigmoid is above the head's threshold t, so that its two logits are
    log(t / (1 - t)) and the output itself.

    Attributes:
        num_classes: K.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network
        head: Any = network.decode_head
        head = head[-1] if isinstance(head, nn.ModuleList) else head
        self.threshold: float | None = head.threshold if network.out_channels == 1 else None
        self.num_classes = 2 if self.threshold is not None else int(network.num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        height, width = images.shape[-2:]
        facts: dict[str, Any] = {"ori_shape": (height, width), "img_shape": (height, width)}
        bottom, right = self._padding(height, width)
        if self._pads:
            images = functional.pad(images, (0, right, 0, bottom), value=self.network.data_preprocessor.pad_val)
            facts |= {"pad_shape": tuple(images.shape[-2:]), "img_padding_size": (0, right, 0, bottom)}
        try:
            logits: torch.Tensor = self.network.inference(images, [dict(facts) for _ in images])
        # UNet asserts that its sizes can be halved so often.
        except AssertionError as error:
            raise GauntletError(
                f"the network does not take images of {height}x{width}: {first_line(error)} Give the number that "
                "height and width must be multiples of (stride, --stride), or use images of other sizes."
            ) from error
        logits = logits[..., :height, :width]
        if self.threshold is None:
            return logits
        return torch.cat([torch.full_like(logits, math.log(self.threshold / (1 - self.threshold))), logits], dim=1)

    @property
    def _pads(self) -> bool:
        return bool(self.network.data_preprocessor.test_cfg)

    def _padding(self, height: int, width: int) -> tuple[int, int]:
        """Rows below and columns to the right that the data preprocessor adds for tests."""
        settings = self.network.data_preprocessor.test_cfg or {}
        size, divisor = settings.get("size"), settings.get("size_divisor")
        if size is not None:
            return max(size[-2] - height, 0), max(size[-1] - width, 0)
        return (-height % divisor, -width % divisor) if divisor else (0, 0)


def source(config: str, options: Mapping[str, Any]) -> ModelSource:
    """mmseg:CONFIG with weights (or checkpoint) and trust=True; also the options of `Adapter`."""
    address = f"mmseg:{config}"
    check_options(address, options, (*OPTIONS, *PLACES))
    checkpoint = check_places(address, options)
    return SegmentorSource("mmseg", config, checkpoint, {**options, "checkpoint": None})

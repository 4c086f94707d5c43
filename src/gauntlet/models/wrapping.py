"""Any torch module as a Gauntlet model: normalisation inside, logits at the input's own resolution."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gauntlet.errors import GauntletError
from gauntlet.models.asked import LabelMaps
from gauntlet.models.code_identity import code_of
from gauntlet.models.contract import ModelIdentity, SegmentationModel, weights_digest
from gauntlet.models.network_outputs import TwoClasses, check_binary_classes, logits_of
from gauntlet.tasks import DETECTION, SEGMENTATION, TASKS

USUAL_STRIDE = 32
"""What most networks want height and width to be a multiple of."""
# How torch says that maps of different sizes cannot be joined or added.
_MISMATCH = re.compile(r"[Ss]izes of tensors must match|must match the size of tensor")


LARGEST_MEAN = 2
"""A mean above it is one of grey levels: means of images in [0, 1] lie in [0, 1]."""


def _check_scale(mean: Sequence[float], std: Sequence[float]) -> None:
    """Raises for a normalisation of grey levels: images are in [0, 1] here."""
    if max(abs(value) for value in mean) > LARGEST_MEAN:
        raise GauntletError(
            f"mean {_listed(mean)} and std {_listed(std)} are of grey levels (0 to 255), but images lie in [0, 1]: "
            f"write mean={_listed(value / 255 for value in mean)}, std={_listed(value / 255 for value in std)} "
            "(both divided by 255)."
        )
    if not any(mean) and max(std) > LARGEST_MEAN:
        raise GauntletError(
            f"std {_listed(std)} with mean 0 turns grey levels from 0 to 255 into small numbers, but the model gets "
            f"images in [0, 1]: write std={_listed(value / 255 for value in std)}."
        )


def _listed(values: Iterable[float]) -> str:
    """Numbers as they are written in a call, such as "(0.485, 0.456, 0.406)"."""
    return f"({', '.join(f'{value:.4g}' for value in values)})"


class Normalisation(nn.Module):
    """(x - mean) / std per channel, optionally after RGB -> BGR; always a tensor of its own, never the images."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(
        self,
        mean: Sequence[float] = (0.0, 0.0, 0.0),
        std: Sequence[float] = (1.0, 1.0, 1.0),
        channel_order: str = "RGB",
    ) -> None:
        super().__init__()
        if channel_order not in ("RGB", "BGR"):
            raise GauntletError(f"channel_order must be 'RGB' or 'BGR', not '{channel_order}'.")
        if len(mean) != 3 or len(std) != 3:
            raise GauntletError(f"mean and std need three values each, not {len(mean)} and {len(std)}.")
        if any(value <= 0 for value in std):
            raise GauntletError(f"std must be positive, not {list(std)}.")
        _check_scale(mean, std)
        self.channel_order = channel_order
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(1, 3, 1, 1), persistent=False)
        self.is_identity = tuple(mean) == (0, 0, 0) and tuple(std) == (1, 1, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if self.is_identity:
            return images.clone() if self.channel_order == "RGB" else images.flip(1)
        ordered = images if self.channel_order == "RGB" else images.flip(1)
        return (ordered - self.mean) / self.std


class WrappedSegmentation(SegmentationModel, keeps_images=True):
    """A module that maps normalised images to logits, at any output stride.

    Args:
        module: takes (N, 3, H, W), returns (N, K, h, w), or a mapping with the logits under "out" or "logits".
        normalisation: of the images; None for images as they are.
        stride: input height and width are padded (edge replication) to multiples of it and the logits cropped back.

    Attributes:
        normalisation_assumed: whether nobody said how images are normalised.
    """

    normalisation_assumed = False

    def __init__(
        self,
        module: nn.Module,
        *,
        num_classes: int,
        normalisation: Normalisation | None = None,
        class_names: Sequence[str] | None = None,
        ignore_index: int | None = 255,
        stride: int = 1,
        identity: ModelIdentity | None = None,
    ) -> None:
        super().__init__(num_classes=num_classes, class_names=class_names, ignore_index=ignore_index, identity=identity)
        self.normalisation = normalisation or Normalisation()
        self.module = module
        self.stride = stride

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits = logits_of(self._asked(self.padded(images)))
        if logits.ndim == 4 and logits.shape[1] == 1:
            raise GauntletError(
                "the network gives one output per pixel, the same for every class; for two classes by a sigmoid say "
                "binary=True (--binary): above 0.5 is class 1."
            )
        if logits.ndim != 4 or logits.shape[0] != images.shape[0] or logits.shape[1] < self.num_classes:
            raise GauntletError(
                f"the model returned a tensor of shape {tuple(logits.shape)} for {len(images)} images; "
                f"expected ({len(images)}, {self.num_classes}, h, w)."
            )
        # More logits than classes: networks trained with an output for void never count it (CamVid's twelfth).
        return self.fitted(logits, images.shape[-2:])[:, : self.num_classes]

    def padded(self, images: torch.Tensor) -> torch.Tensor:
        """Images whose height and width are multiples of the stride, their edges replicated."""
        height, width = images.shape[-2:]
        bottom, right = -height % self.stride, -width % self.stride
        return functional.pad(images, (0, right, 0, bottom), mode="replicate") if bottom or right else images

    def fitted(self, logits: torch.Tensor, size: torch.Size) -> torch.Tensor:
        """Logits (N, C, h, w) of padded images, enlarged to their size and cropped to the (height, width) of `size`."""
        height, width = size
        full = (height + -height % self.stride, width + -width % self.stride)
        if logits.shape[-2:] != full:
            logits = functional.interpolate(logits, size=full, mode="bilinear", align_corners=False)
        return logits[..., :height, :width]

    def _asked(self, images: torch.Tensor) -> object:
        """What the module says about images (N, 3, H, W); sizes that do not meet again inside it are explained."""
        try:
            return self.module(self.normalisation(images))
        except RuntimeError as error:
            others = {each.dtype for each in self.module.parameters() if each.is_floating_point()} - {images.dtype}
            if others:
                raise GauntletError(
                    f"the network has weights of {', '.join(sorted(map(str, others)))} and does not take images of "
                    f"{images.dtype}; give it in float32, module.float()."
                ) from error
            height, width = images.shape[-2:]
            mismatch = next((line for line in str(error).splitlines() if _MISMATCH.search(line)), None)
            if mismatch is None or (height % USUAL_STRIDE == 0 and width % USUAL_STRIDE == 0):
                raise
            raise GauntletError(
                f"the network does not take images of {height}x{width}: maps that it joins differ in size "
                f"({mismatch.strip()[:120]}); give the number that height and width must be multiples of, "
                f"stride={USUAL_STRIDE} (--stride {USUAL_STRIDE}) for one that halves its images five times."
            ) from error


GIVEN = ("logits", "labels")
"""What a network can give: scores per class, or nothing but the predicted classes."""


def wrap_model(
    module: nn.Module | Callable[[torch.Tensor], Any],
    *,
    task: str = SEGMENTATION,
    num_classes: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    channel_order: str = "RGB",
    class_names: Sequence[str] | None = None,
    ignore_index: int | None = 255,
    stride: int = 1,
    name: str | None = None,
    gives: str = "logits",
    binary: bool | str = False,
) -> SegmentationModel:
    """A Gauntlet model from a torch module; the module is put in eval mode and frozen.

    Args:
        module: takes normalised images (N, 3, H, W), returns logits (N, K, h, w); with gives="labels" anything that
            can be called with such a tensor and returns whole numbers (N, H, W), as a tensor or an array.
        task: "segmentation"; detectors implement `gauntlet.models.DetectionModel` instead.
        num_classes: K; further logits (an output for void) are dropped. Not needed with `binary`.
        mean, std: per channel, on the [0, 1] scale, in `channel_order`; images as they are where neither is given.
        channel_order: "RGB" or "BGR", what the network was trained on.
        class_names: K names.
        ignore_index: the label that counts for nothing.
        stride: what height and width must be a multiple of; others are padded and cropped back.
        name: what results are stored under; the class name of the module by default. The weights of a module tell it
            from others; for any other callable this name has to.
        gives: "logits", or "labels" for a model that tells nothing but label maps: it has no confidence, and only
            attacks that need no gradient work on it.
        binary: for a network with one output: True makes it two classes, class 1 where its sigmoid is above 0.5. A
            network whose outputs all lie between 0 and 1 is asked about; "logits" or "probabilities" settles it.
    """
    if binary and gives == "labels":
        raise GauntletError("binary is for a network with one output per pixel, not for one that gives label maps.")
    if num_classes is None and not binary:
        raise GauntletError("wrap_model needs num_classes, the number of classes.")
    if binary:
        check_binary_classes(num_classes)
    classes = 2 if binary or num_classes is None else num_classes
    if gives not in GIVEN:
        raise GauntletError(f"gives must be one of {', '.join(GIVEN)}, not '{gives}'.")
    if gives == "logits" and not isinstance(module, nn.Module):
        raise GauntletError(
            f"wrap_model takes a torch module, not a {type(module).__name__}; "
            "for one that gives label maps say gives='labels'."
        )
    if task not in TASKS:
        raise GauntletError(f"task must be one of {', '.join(TASKS)}, not '{task}'.")
    if task == DETECTION:
        raise GauntletError("a detector has losses and boxes; implement gauntlet.models.DetectionModel instead.")
    assumed = mean is None and std is None
    mean, std = mean if mean is not None else (0.0,) * 3, std if std is not None else (1.0,) * 3
    asked = module if isinstance(module, nn.Module) and gives == "logits" else LabelMaps(module, classes)
    if binary:
        asked = TwoClasses(asked, binary)
    model = WrappedSegmentation(
        asked,
        num_classes=classes,
        normalisation=Normalisation(mean, std, channel_order),
        class_names=class_names,
        ignore_index=ignore_index,
        stride=stride,
    )
    model.normalisation_assumed = assumed
    settings = f"{tuple(mean)}|{tuple(std)}|{channel_order}|{classes}|{stride}"
    if binary:
        settings += f"|binary {binary}"
    if gives == "labels":
        settings += f"|labels|{_called(module)}"
    digest = weights_digest(asked) + _short_digest(settings)
    model._identity = ModelIdentity(name or _called(module), digest, code=code_of(module))
    model.freeze()
    return model


def _called(module: object) -> str:
    """What a module or a function is called."""
    return str(getattr(module, "__qualname__", type(module).__name__))


def _short_digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:8]

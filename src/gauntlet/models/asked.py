"""Models that can only be asked: parts that pass no gradient, and label maps in the place of logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from gauntlet.errors import GauntletError
from gauntlet.samples import own_array


class AskedPart(nn.Module):
    """A module that answers outside torch: no gradient passes it, and whatever stands around it has none either."""


def has_gradient(model: object) -> bool:
    """Whether white-box attacks can work on a model: False where it, or a part of it, can only be asked."""
    return not (isinstance(model, nn.Module) and any(isinstance(part, AskedPart) for part in model.modules()))


class LabelMaps(AskedPart):
    """Anything that gives label maps, as a network whose score is 1 for the class it names and 0 for the others.

    Args:
        ask: images (N, 3, H, W) in torch to whole numbers (N, H, W), as a tensor or as an array.
        classes: K.
    """

    def __init__(self, ask: Callable[[torch.Tensor], Any], classes: int) -> None:
        super().__init__()
        self.ask = ask
        self.classes = classes

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            answer = self.ask(images.detach())
        labels = answer
        if isinstance(answer, np.ndarray):
            array = own_array(answer, "the label maps of the model")
            labels = torch.from_numpy(array.astype(np.int64) if array.dtype.kind in "iu" else array)
        expected = (len(images), *images.shape[-2:])
        if not is_label_map(labels) or tuple(labels.shape) != expected:
            raise GauntletError(
                f"the model returned {_shape_text(labels)}; expected label maps, whole numbers of shape {expected}."
            )
        return label_scores(labels.to(images.device), self.classes)


def gives_labels(model: object) -> bool:
    """Whether a model tells nothing but label maps: it has no confidence then."""
    return isinstance(model, nn.Module) and any(isinstance(part, LabelMaps) for part in model.modules())


def is_label_map(answer: object) -> bool:
    """Whether an answer is whole numbers (N, H, W)."""
    whole = isinstance(answer, torch.Tensor) and not answer.is_floating_point() and not answer.is_complex()
    return whole and isinstance(answer, torch.Tensor) and answer.ndim == 3 and answer.dtype != torch.bool


def label_scores(labels: torch.Tensor, classes: int) -> torch.Tensor:
    """1 for the class that a label map (N, H, W) names and 0 for the others, float32 (N, K, H, W).

    >>> label_scores(torch.tensor([[[1, 0]]]), 2)[0, :, 0].tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    labels = labels.long()  # some operations know no unsigned numbers
    lowest, highest = (int(each) for each in labels.aminmax())
    if lowest < 0 or highest >= classes:
        raise GauntletError(
            f"the model returned the label {lowest if lowest < 0 else highest}; expected classes 0 to {classes - 1}."
        )
    scores = torch.zeros(len(labels), classes, *labels.shape[1:], device=labels.device)
    return scores.scatter_(1, labels.unsqueeze(1), 1.0)


def _shape_text(answer: object) -> str:
    if isinstance(answer, torch.Tensor):
        return f"{answer.dtype} of shape {tuple(answer.shape)}"
    return f"a {type(answer).__name__}"

"""Asking a model: label maps with confidence, or boxes; one clear sentence when the model misbehaves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from gauntlet.errors import GauntletError
from gauntlet.metrics import DensePrediction
from gauntlet.models import DetectionModel, SegmentationModel
from gauntlet.models.precision import model_precision
from gauntlet.models.randomness import EvaluationDraws, drawing, random_parts
from gauntlet.samples import Boxes
from gauntlet.seeding import ImageSeed


@torch.inference_mode()
def predict_dense(
    model: SegmentationModel,
    images: torch.Tensor,
    ids: Sequence[str],
    precision: str = "fp32",
    seeds: Sequence[ImageSeed] | None = None,
    trial: int = 0,
) -> list[DensePrediction]:
    """Label maps, confidence and entropy of every image.

    Args:
        model: the model.
        images: (N, 3, H, W) in [0, 1].
        ids: N image ids, for messages.
        precision: "fp32" or "bf16" (autocast).
        seeds: of the images, for a random model; those of run seed 0 by default.
        trial: which repetition of the inference, for a random model.
    """
    draws = EvaluationDraws(seeds or [ImageSeed(0, each) for each in ids], trial)
    with model_precision(precision, images.device), drawing(random_parts(model), draws):
        logits = model(images)  # (N, K, H, W)
    _check_logits(model, logits, images, ids)
    logits = logits.float()
    largest, labels = logits.max(dim=1)
    normaliser = torch.logsumexp(logits, dim=1)
    confidence = torch.exp(largest - normaliser)
    # -sum p ln p = log Z - sum p z; a class of probability 0 adds nothing, also when its logit is -inf.
    products = (logits - normaliser.unsqueeze(1)).exp_()  # p, in place: every array of this size costs as much to get
    possible = products > 0
    products.mul_(logits).masked_fill_(~possible, 0)
    entropy = normaliser - products.sum(dim=1)
    small = np.uint8 if model.num_classes <= 256 else np.int16
    return [
        DensePrediction(label.cpu().numpy().astype(small), sure.cpu().numpy(), spread.cpu().numpy())
        for label, sure, spread in zip(labels, confidence, entropy.clamp(min=0), strict=True)
    ]


@torch.inference_mode()
def predict_objects(
    model: DetectionModel, images: torch.Tensor, ids: Sequence[str], precision: str = "fp32"
) -> list[Boxes]:
    """Detections of every image; the arguments are those of `predict_dense`."""
    with model_precision(precision, images.device):
        detections = model.predict(images)
    name = model.identity.name
    if len(detections) != len(images) or not all(isinstance(each, Boxes) for each in detections):
        raise GauntletError(
            f"the model '{name}' returned something else than Boxes for each of the {len(images)} images from "
            f"'{ids[0]}' on."
        )
    return list(detections)


def _check_logits(model: SegmentationModel, logits: object, images: torch.Tensor, ids: Sequence[str]) -> None:
    count, _, height, width = images.shape
    expected = (count, model.num_classes, height, width)
    name = model.identity.name
    if not isinstance(logits, torch.Tensor):
        raise GauntletError(
            f"the model '{name}' returned a {type(logits).__name__} for image '{ids[0]}'; expected logits."
        )
    if tuple(logits.shape) != expected:
        raise GauntletError(
            f"the model '{name}' returned the shape {tuple(logits.shape)} for image '{ids[0]}'; expected {expected}."
        )
    # The maximum of an image is NaN as soon as one entry is: one pass, no mask. -inf alone (a class ruled out) is fine.
    nan = torch.isnan(logits.amax(dim=(1, 2, 3)))
    if bool(nan.any()):
        raise GauntletError(f"the model '{name}' returned NaN for image '{ids[int(nan.nonzero()[0])]}'.")

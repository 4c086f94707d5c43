"""Asking a model: label maps with confidence, or boxes; one clear sentence when the model misbehaves."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gauntlet.errors import GauntletError
from gauntlet.metrics import DensePrediction
from gauntlet.models import DetectionModel, SegmentationModel
from gauntlet.models.precision import model_precision
from gauntlet.models.randomness import EvaluationDraws, drawing, random_parts
from gauntlet.samples import Boxes
from gauntlet.seeding import ImageSeed

_RULED_OUT = -200.0
"""A difference of logits whose exponential is 0 in single precision."""


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
    # Image by image: what is computed of one image's logits stays in the processor's cache.
    return [_dense_prediction(model, each.float(), image_id) for each, image_id in zip(logits, ids, strict=True)]


def _dense_prediction(model: SegmentationModel, logits: torch.Tensor, image_id: str) -> DensePrediction:
    """The label map of one image with the probability of its class and the entropy (nats) of every pixel.

    With z the logits less their maximum and Z = sum exp z: confidence 1 / Z, entropy ln Z - sum z exp z / Z.
    """
    largest, labels = logits.max(dim=0)  # (H, W); NaN where a logit is
    if bool(torch.isnan(largest).any()):
        raise GauntletError(f"the model '{model.identity.name}' returned NaN for image '{image_id}'.")
    # A class that is ruled out (-inf) has the probability 0 as one far below the others has, and adds 0 to both sums.
    below = (logits - largest).clamp_(min=_RULED_OUT)  # (K, H, W)
    weights = below.exp()
    total = weights.sum(dim=0)
    confidence = total.reciprocal()
    entropy = total.log().sub_(weights.mul_(below).sum(dim=0).mul_(confidence)).clamp_(min=0)
    small = torch.uint8 if model.num_classes <= 256 else torch.int16
    return DensePrediction(labels.to(small).cpu().numpy(), confidence.cpu().numpy(), entropy.cpu().numpy())


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

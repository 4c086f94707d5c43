"""Asking a model: label maps with confidence, or boxes; one clear sentence when the model misbehaves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.errors import GauntletError, NotFiniteError
from gauntlet.metrics import DensePrediction
from gauntlet.metrics.segmentation.metric import ProperScores
from gauntlet.models import DetectionModel, SegmentationModel
from gauntlet.models.asked import gives_labels
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
    """Label maps of every image, with confidence, entropy and log-odds where the model tells more than label maps.

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
    if gives_labels(model):  # which has no confidence to tell
        return [DensePrediction(each.argmax(0).cpu().numpy()) for each in logits]
    # Image by image: what is computed of one image's logits stays in the processor's cache.
    return [describe_logits(each.float(), model.identity.name, name) for each, name in zip(logits, ids, strict=True)]


def describe_logits(logits: torch.Tensor, model: str = "model", image_id: str = "image") -> DensePrediction:
    """The label map of one image with confidence, entropy (nats) and log-odds of every pixel, from logits (K, H, W).

    With z the logits less their maximum and Z = sum exp z: confidence 1 / Z, entropy ln Z - sum z exp z / Z. A pass
    over logits costs as much as a layer of a small network: exponentials are taken once, and what can be added up class
    by class, in place, is.

    Args:
        logits: (K, H, W); a class that is ruled out has -inf.
        model, image_id: for the message where a logit is NaN or +inf, or all of a pixel are -inf.
    """
    classes = len(logits)
    largest = logits.amax(dim=0)  # (H, W); NaN where a logit is
    if not bool(torch.isfinite(largest).all()):
        what = "NaN" if bool(torch.isnan(largest).any()) else "infinite logits"
        raise GauntletError(f"the model '{model}' returned {what} for image '{image_id}'.")
    labels = torch.zeros(largest.shape, dtype=torch.uint8 if classes <= 256 else torch.int16, device=logits.device)
    for index in reversed(range(classes)):  # the first of equal classes wins, as in `max`, which takes much longer
        labels.masked_fill_(logits[index] == largest, index)
    # A class that is ruled out has the probability 0 as one far below the others has, and adds 0 to every sum.
    below = (logits - largest).clamp_(min=_RULED_OUT)  # (K, H, W)
    shares = below.exp()  # p over the largest p
    total = shares.sum(dim=0)
    confidence = total.reciprocal()
    log_total = total.log()
    expected, squares = torch.zeros_like(largest), torch.zeros_like(largest)
    for each, difference in zip(shares, below, strict=True):
        expected.addcmul_(each, difference)
        squares.addcmul_(each, each)
    entropy = (log_total - expected.mul_(confidence)).clamp_(min=0)
    squares.mul_(confidence).mul_(confidence)  # sum of p^2
    # The odds against the chosen class are the sum over the others: 1 - c would be 0 long before they are.
    log_odds = shares.scatter_(0, labels.long().unsqueeze(0), 0.0).sum(dim=0).log_().neg_()
    return DensePrediction(
        labels=labels.cpu().numpy(),
        confidence=confidence.cpu().numpy(),
        entropy=entropy.cpu().numpy(),
        log_odds=log_odds.cpu().numpy(),
        proper_scores=proper_scores(logits, log_total.add_(largest), squares),
    )


def proper_scores(logits: torch.Tensor, normaliser: torch.Tensor, squares: torch.Tensor) -> ProperScores:
    """The function from a label map (H, W) to -ln p_y and to the Brier score of every pixel.

    Args:
        logits: (K, H, W).
        normaliser: (H, W) logsumexp of the logits.
        squares: (H, W) sum of the squared probabilities.
    """

    @torch.inference_mode()
    def scores(labels: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
        # Ignored labels are no classes; whatever stands there is not counted. The labels are the caller's: copied.
        index = torch.from_numpy(np.array(labels, dtype=np.int64, order="C")).to(logits.device)
        nll = normaliser - logits.gather(0, index.clamp(0, len(logits) - 1).unsqueeze(0))[0]
        # sum_k (p_k - 1[y = k])^2 = sum p^2 - 2 p_y + 1
        brier = squares + 1 - 2 * torch.exp(-nll)
        return nll.cpu().numpy(), brier.cpu().numpy()

    return scores


@torch.inference_mode()
def predict_objects(
    model: DetectionModel, images: torch.Tensor, ids: Sequence[str], precision: str = "fp32"
) -> list[Boxes]:
    """Detections of every image; the arguments are those of `predict_dense`."""
    name = model.identity.name
    try:
        with model_precision(precision, images.device):
            detections = model.predict(images)
    except NotFiniteError as error:
        if len(images) == 1:
            raise GauntletError(f"the model '{name}' returned NaN or infinity for image '{ids[0]}'.") from error
        alone = [
            predict_objects(model, image[None], [each], precision) for image, each in zip(images, ids, strict=True)
        ]
        return [boxes for (boxes,) in alone]
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

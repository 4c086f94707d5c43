"""Asking a model: label maps with confidence, or boxes; one clear sentence when the model misbehaves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.errors import GauntletError
from gauntlet.metrics import DensePrediction
from gauntlet.metrics.segmentation.metric import ProperScores
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
    """Label maps, confidence, entropy and log-odds of every image.

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
    return describe_logits(logits.float())


def describe_logits(logits: torch.Tensor) -> list[DensePrediction]:
    """Label maps, confidence, entropy and log-odds from logits (N, K, H, W).

    A pass over logits costs as much as a layer of a small network: exponentials are taken once, and what can be added
    up class by class, in place, is.
    """
    classes = logits.shape[1]
    largest = logits.amax(dim=1)  # (N, H, W)
    labels = torch.zeros(largest.shape, dtype=torch.uint8 if classes <= 256 else torch.int16, device=logits.device)
    for index in reversed(
        range(classes)
    ):  # the first of equal classes wins, as in `max`, which takes ten times as long
        labels.masked_fill_(logits[:, index] == largest, index)
    shares = (logits - largest.unsqueeze(1)).exp_()  # (N, K, H, W), p over the largest p
    total = shares.sum(dim=1)
    normaliser = total.log().add_(largest)  # logsumexp
    squares = torch.zeros_like(largest)
    for index in range(classes):
        squares.addcmul_(shares[:, index], shares[:, index])
    squares.div_(total).div_(total)  # sum of p^2
    # -sum p ln p = log Z - sum p z; a class of probability 0 adds nothing, also when its logit is -inf.
    expected = _weighted_sum(shares, logits)
    if bool(expected.isnan().any()):
        expected = _weighted_sum(shares, logits.clamp(min=torch.finfo(logits.dtype).min))
    entropy = normaliser - expected.div_(total)
    # The odds against the chosen class are the sum over the others: 1 - c would be 0 long before they are.
    log_odds = shares.scatter_(1, labels.long().unsqueeze(1), 0.0).sum(dim=1).log_().neg_()
    confidence = torch.exp(largest - normaliser)
    entropy = entropy.clamp(min=0)
    return [
        DensePrediction(
            labels=labels[index].cpu().numpy(),
            confidence=confidence[index].cpu().numpy(),
            entropy=entropy[index].cpu().numpy(),
            log_odds=log_odds[index].cpu().numpy(),
            proper_scores=proper_scores(logits[index], normaliser[index], squares[index]),
        )
        for index in range(len(logits))
    ]


def _weighted_sum(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """(N, H, W) sum over classes of weights * values, both (N, K, H, W)."""
    result = torch.zeros_like(weights[:, 0])
    for index in range(weights.shape[1]):
        result.addcmul_(weights[:, index], values[:, index])
    return result


def proper_scores(logits: torch.Tensor, normaliser: torch.Tensor, squares: torch.Tensor) -> ProperScores:
    """The function from a label map (H, W) to -ln p_y and to the Brier score of every pixel.

    Args:
        logits: (K, H, W).
        normaliser: (H, W) logsumexp of the logits.
        squares: (H, W) sum of the squared probabilities.
    """

    @torch.inference_mode()
    def scores(labels: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
        # Ignored labels are no classes; whatever stands there is not counted.
        index = torch.from_numpy(np.ascontiguousarray(labels)).to(logits.device, torch.int64)
        nll = normaliser - logits.gather(0, index.clamp_(0, len(logits) - 1).unsqueeze(0))[0]
        # sum_k (p_k - 1[y = k])^2 = sum p^2 - 2 p_y + 1
        brier = squares + 1 - 2 * torch.exp(-nll)
        return nll.cpu().numpy(), brier.cpu().numpy()

    return scores


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

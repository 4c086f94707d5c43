"""What normalisation is assumed of a model that does not say its own, and whether ImageNet's would do better."""

from __future__ import annotations

import logging

import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.evaluation.execution.progress import Progress
from gauntlet.models import GauntletModel, SegmentationModel
from gauntlet.samples import Batch, collate

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, on the [0, 1] scale, RGB: what most published weights were trained with."""
CLEARLY = 0.1
"""How much more of the pixels must be right before another normalisation is suggested."""
MOST_IMAGES = 4

_LOGGER = logging.getLogger(__name__)
_advised: set[str] = set()
"""Digests of the models that were spoken of in this process."""


def advise_on_normalisation(model: GauntletModel, dataset: Dataset, batch_size: int, progress: Progress) -> None:
    """Notes what is assumed of a model that was given neither mean nor std, and tries ImageNet's on a few images.

    Costs two forward passes over one batch, once for a model, and changes nothing.

    Args:
        model: ready for the dataset.
        dataset: its first images are tried, a few at most.
        batch_size: how many the machine has room for.
        progress: told what is assumed, and what would be better.
    """
    if not getattr(model, "normalisation_assumed", False) or model.identity.digest in _advised:
        return
    _advised.add(model.identity.digest)
    name = model.identity.name
    progress.note_once(f"'{name}' was given neither mean nor std: it gets images in [0, 1] as they are.")
    if not isinstance(model, SegmentationModel):
        return
    try:
        _try_imagenet(model, dataset, min(batch_size, MOST_IMAGES), progress)
    except Exception as error:  # what is wrong with a model or an image, the evaluation says at the right place
        _LOGGER.info("the normalisation of '%s' could not be tried: %s", name, error)


def _try_imagenet(model: SegmentationModel, dataset: Dataset, images: int, progress: Progress) -> None:
    """Suggests ImageNet's normalisation where a model does clearly better with it."""
    samples = [dataset[index] for index in range(min(images, len(dataset)))]
    same = [sample for sample in samples if sample.image.shape == samples[0].image.shape]
    batch = collate(same, model.device, dataset.ignore_index)
    mean, std = (batch.images.new_tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
    # What the model assumes is the identity: normalising its input is what mean and std would do inside.
    as_given, normalised = (_right(model, batch, images) for images in (batch.images, (batch.images - mean) / std))
    if normalised - as_given > CLEARLY:
        first = f"the first {len(batch)} images" if len(batch) > 1 else "the first image"
        progress.note_once(
            f"'{model.identity.name}' is right on {100 * as_given:.1f} % of the pixels of {first}, and on "
            f"{100 * normalised:.1f} % with ImageNet's normalisation: try --mean {','.join(map(str, MEAN))} "
            f"--std {','.join(map(str, STD))}."
        )


@torch.inference_mode()
def _right(model: SegmentationModel, batch: Batch, images: torch.Tensor) -> float:
    """The share of the labelled pixels of a batch that a model gets right on images (N, 3, H, W)."""
    assert batch.labels is not None
    right = model(images).argmax(dim=1) == batch.labels  # (N, H, W)
    counted = torch.ones_like(right) if batch.ignore_index is None else batch.labels != batch.ignore_index
    return float(right[counted].float().mean())

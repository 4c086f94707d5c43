"""The images that something is fitted on: in batches of one size, on the model's device, in an order of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel
from gauntlet.samples import Batch, Sample, collate
from gauntlet.seeding import ImageSeed

Tell = Callable[[float], None]
"""Told once per step of a fit: what is maximised, as a number that only its changes say something about."""
AT_ONCE = 4
"""Images of one pass of the model."""


def quiet(value: float) -> None:
    """Tells nobody."""


def load_batches(dataset: Dataset, model: GauntletModel, at_once: int = AT_ONCE) -> list[Batch]:
    """All images of a dataset in memory, sorted by id, so that their order in the dataset changes nothing."""
    if len(dataset) == 0:
        raise GauntletError(f"the dataset '{dataset.name}' has no images to fit on.")
    samples = sorted((dataset[index] for index in range(len(dataset))), key=lambda sample: sample.id)
    batches: list[Batch] = []
    waiting: list[Sample] = []
    for sample in [*samples, None]:
        full = len(waiting) == at_once
        if waiting and (sample is None or full or sample.image.shape != waiting[0].image.shape):
            batches.append(collate(waiting, model.device, dataset.ignore_index))
            waiting = []
        if sample is not None:
            waiting.append(sample)
    return batches


def model_seeds(batch: Batch, seed: int, purpose: str) -> list[int]:
    """What a random model draws from, one number per image."""
    return [ImageSeed(seed, sample.id).stream(f"{purpose}|model") for sample in batch.samples]


def fit_facts(model: GauntletModel, dataset: Dataset, seed: int) -> dict[str, Any]:
    """What an artifact says about its images and its model."""
    return {
        "model": model.identity.name,
        "model_digest": model.identity.digest,
        "task": model.task,
        "dataset": dataset.name,
        "split": dataset.split,
        "fit_ids": sorted(dataset.ids()),
        "seed": seed,
    }


def check_held_out(samples: Iterable[Sample], fit_ids: Sequence[str]) -> None:
    """An error where an image was fitted on: its figures would flatter the attack."""
    fitted = set(fit_ids)
    for sample in samples:
        if sample.id in fitted:
            raise GauntletError(
                f"image '{sample.id}' is one of those that this was fitted on; evaluate on another split, or say "
                "fit_images: true to measure the gap."
            )

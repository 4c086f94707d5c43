"""Honesty checks of the models in a store, as findings for its report."""

from __future__ import annotations

import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.reloading import Loaders, evaluated_again
from gauntlet.models import SegmentationModel
from gauntlet.models.randomness import ask_equally
from gauntlet.report.document import Finding
from gauntlet.report.scope import scopes
from gauntlet.report.sections.honesty import from_checks
from gauntlet.results import Store
from gauntlet.samples import collate
from gauntlet.tasks import SEGMENTATION
from gauntlet.threats.attacks.checks import check_attack

NO_CHECK = "No check for hidden gradients, since"


def check_models(store: Store, images: int, loaders: Loaders | None = None) -> list[Finding]:
    """Attacks every segmentation model of a store in several ways and says what looks like a hidden gradient.

    Args:
        store: the evaluations whose models are checked, each on the dataset it was evaluated on.
        images: how many images to use.
        loaders: how models and datasets are found.
    """
    loaders = loaders or Loaders()
    findings: list[Finding] = []
    for scope in scopes(store.frame()):
        if scope.task != SEGMENTATION:
            text = "This report checks segmentation models only; `gauntlet.attacks.check_attack` takes detectors too."
            findings += [Finding("note", model, text) for model in scope.models]
            continue
        latest = dict(zip(scope.evaluations["model"], scope.evaluations["key"], strict=True))
        loaded: dict[str, SegmentationModel] = {}
        seen: tuple[torch.Tensor, torch.Tensor, int | None] | None = None
        for name, key in latest.items():
            evaluation = store.load(str(key))
            assert evaluation is not None  # the scope is made of finished evaluations
            try:
                with evaluated_again(evaluation, loaders) as (dataset, model):
                    seen = seen or _first(dataset, images)
            except GauntletError as error:
                findings.append(Finding("note", str(name), f"{NO_CHECK} {error}"))
                continue
            if isinstance(model, SegmentationModel):
                loaded[str(name)] = model
        for name, model in loaded.items():
            assert seen is not None
            images_seen, labels, ignored = seen
            others = (each for each_name, each in loaded.items() if each_name != name)
            other = next((each for each in others if _has_gradient(each, images_seen[:1])), None)
            try:
                results = check_attack(model, images_seen, labels, other_model=other, ignore_index=ignored)
            except GauntletError as error:
                findings.append(Finding("note", name, f"{NO_CHECK} {error}"))
            else:
                findings += from_checks(name, results, len(labels))
    return findings


def _has_gradient(model: SegmentationModel, image: torch.Tensor) -> bool:
    """Whether an attack can be made on a model along its gradient; `smoothed:` refuses it.

    Args:
        model: any.
        image: (1, 3, H, W).
    """
    try:
        return ask_equally(model, image.detach().clone().to(model.device).requires_grad_()).requires_grad
    except GauntletError:
        return False


def _first(dataset: Dataset, count: int) -> tuple[torch.Tensor, torch.Tensor, int | None]:
    """Images and labels of the first samples that share the size of the very first, and the label to ignore."""
    samples = [dataset[index] for index in range(min(count, len(dataset)))]
    same = [sample for sample in samples if sample.image.shape == samples[0].image.shape]
    batch = collate(same, ignore_index=dataset.ignore_index)
    if batch.labels is None:
        raise GauntletError(f"the dataset '{dataset.name}' has no label maps.")
    return batch.images, batch.labels, dataset.ignore_index

"""Evaluations as tables on the terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gauntlet.cli.output import print_table
from gauntlet.numbers import format_percent
from gauntlet.tasks import get_task

if TYPE_CHECKING:
    from gauntlet.results import Evaluation, Store

_MANY = 4

Names = Mapping[tuple[str, str], str]


def print_one(result: Evaluation, names: Names) -> None:
    """Every headline figure of one evaluation, with its interval; `names` tells models apart."""
    from gauntlet.metrics.contract import NOT_FRACTIONS

    def text(name: str, value: float) -> str:
        return f"{value:.2f} (not %)" if name in NOT_FRACTIONS and not math.isnan(value) else format_percent(value)

    rows = [
        (
            name,
            text(name, value),
            "" if (bounds := result.intervals.get(name)) is None else " to ".join(text(name, b) for b in bounds),
        )
        for name, value in result.figures.items()
    ]
    title = f"{_called(result, names)} on {result.dataset}/{result.split} ({result.images} images), {result.threat}"
    print_table(title, ["figure", "%", "95 % interval"], rows)


def print_many(results: Sequence[Evaluation], names: Names) -> None:
    """The main figure of several evaluations (mIoU, mAP), a table per task; `names` tells models apart."""
    for task in dict.fromkeys(result.task for result in results):
        _print_figure([result for result in results if result.task == task], get_task(task).main_figure, names)


def model_names(store: Store) -> Names:
    """What the models of a store are called, by name and digest."""
    return {(model.name, model.digest): model.label for model in store.models()}


def _called(result: Evaluation, names: Names) -> str:
    return names.get((result.model, result.model_digest), result.model)


def _print_figure(results: Sequence[Evaluation], metric: str, names: Names) -> None:
    """Models in columns when they are few, else one row each."""
    models = list(dict.fromkeys(_called(result, names) for result in results))
    images = _dataset_names(results)
    cells = {(images[_images_of(r)], r.threat, r.seed, _called(r, names)): r.figures[metric] for r in results}
    if len(models) > _MANY:
        rows = [[model, dataset, threat, format_percent(value)] for (dataset, threat, _, model), value in cells.items()]
        print_table(f"{metric} %", ["model", "dataset", "threat", metric], rows, numbers_from=3)
        return
    rows = []
    for dataset, threat, seed in dict.fromkeys(key[:3] for key in cells):
        values = [format_percent(cells.get((dataset, threat, seed, model), math.nan)) for model in models]
        rows.append([dataset, threat, *values])
    print_table(f"{metric} %", ["dataset", "threat", *models], rows, numbers_from=2)


def _dataset_names(results: Sequence[Evaluation]) -> dict[tuple[str, str, str], str]:
    """What images are called; their number and digest are added where one name and split stands for several sets."""
    numbers = {_images_of(result): result.images for result in results}
    several = Counter(key[:2] for key in numbers)
    return {
        (dataset, split, digest): f"{dataset}/{split}"
        + (f", {images} images [{digest[:8]}]" if several[dataset, split] > 1 else "")
        for (dataset, split, digest), images in numbers.items()
    }


def _images_of(result: Evaluation) -> tuple[str, str, str]:
    return result.dataset, result.split, result.dataset_digest

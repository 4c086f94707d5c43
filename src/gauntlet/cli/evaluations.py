"""Evaluations as tables on the terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from gauntlet.cli.output import print_table
from gauntlet.numbers import format_percent
from gauntlet.tasks import SEGMENTATION, get_task

if TYPE_CHECKING:
    from gauntlet.analysis.trivial import Trivial
    from gauntlet.results import Evaluation, Store

_MANY = 4
TRIVIAL = "trivial answer"
"""Head of the column for the most frequent class everywhere."""

Names = Mapping[tuple[str, str], str]


def print_one(result: Evaluation, names: Names, store: Store | None = None) -> None:
    """Every headline figure of one evaluation, with its interval and the trivial answer's figure.

    Args:
        result: the evaluation.
        names: tells models apart.
        store: keeps the counts from which the trivial answer is computed; without it there is none.
    """
    from gauntlet.metrics.contract import NOT_FRACTIONS
    from gauntlet.metrics.intervals import too_few

    def text(name: str, value: float) -> str:
        return f"{value:.2f} (not %)" if name in NOT_FRACTIONS and not math.isnan(value) else format_percent(value)

    trivial = _trivial(result, store)
    rows = [
        [
            name,
            text(name, value),
            "" if (bounds := result.intervals.get(name)) is None else " to ".join(text(name, b) for b in bounds),
            *([format_percent(trivial.figures.get(name, math.nan))] if trivial.answer else []),
        ]
        for name, value in result.figures.items()
    ]
    title = f"{_called(result, names)} on {result.dataset}/{result.split} ({result.images} images), {result.threat}"
    columns = ["figure", "%", "95 % interval", *([f"'{trivial.answer}' everywhere"] if trivial.answer else [])]
    print_table(title, columns, rows)
    if words := too_few(result.images):
        typer.echo(words)
    if trivial.only_predicted:
        listed = ", ".join(f"'{name}'" for name in trivial.only_predicted)
        typer.echo(f"Predicted but in no label map, so counted as IoU 0 in mIoU: {listed}.")


def print_many(results: Sequence[Evaluation], names: Names, store: Store | None = None) -> None:
    """The main figure of several evaluations (mIoU, mAP), a table per task; the arguments are those of `print_one`."""
    for task in dict.fromkeys(result.task for result in results):
        here = [result for result in results if result.task == task]
        metric = get_task(task).main_figure
        _print_figure(here, metric, names, _trivial_by_images(here, metric, store))


def model_names(store: Store) -> Names:
    """What the models of a store are called, by name and digest."""
    return {(model.name, model.digest): model.label for model in store.models()}


def _called(result: Evaluation, names: Names) -> str:
    return names.get((result.model, result.model_digest), result.model)


def _trivial(result: Evaluation, store: Store | None) -> Trivial:
    """The trivial answer on the images of an evaluation; none where the store does not have it under its key."""
    from gauntlet.analysis.trivial import Trivial, read_trivial

    if store is None or store.load(result.key) is None:
        return Trivial({})
    return read_trivial(store, result.key)


def _trivial_by_images(
    results: Sequence[Evaluation], metric: str, store: Store | None
) -> dict[tuple[str, str, str], str]:
    """The figure of the most frequent class everywhere as text, by images; empty where there is none."""
    if any(result.task != SEGMENTATION for result in results):
        return {}
    # Of clean images where there are any: a threat that moves the camera moves the labels.
    ordered = sorted(results, key=lambda result: result.threat == "clean")
    chosen = {_images_of(result): result for result in ordered}
    figures = {images: _trivial(result, store).figures for images, result in chosen.items()}
    return {images: format_percent(found[metric]) for images, found in figures.items() if metric in found}


def _print_figure(
    results: Sequence[Evaluation], metric: str, names: Names, trivial: Mapping[tuple[str, str, str], str]
) -> None:
    """Models in columns when they are few, else one row each; the trivial answer in the last column."""
    models = list(dict.fromkeys(_called(result, names) for result in results))
    images = _dataset_names(results)
    cells = {(images[_images_of(r)], r.threat, r.seed, _called(r, names)): r.figures[metric] for r in results}
    told = {images[each]: text for each, text in trivial.items()}
    last = [TRIVIAL] if told else []
    if len(models) > _MANY:
        rows = [
            [model, dataset, threat, format_percent(value), *([told.get(dataset, "-")] if told else [])]
            for (dataset, threat, _, model), value in cells.items()
        ]
        print_table(f"{metric} %", ["model", "dataset", "threat", metric, *last], rows, numbers_from=3)
        return
    rows = []
    for dataset, threat, seed in dict.fromkeys(key[:3] for key in cells):
        values = [format_percent(cells.get((dataset, threat, seed, model), math.nan)) for model in models]
        rows.append([dataset, threat, *values, *([told.get(dataset, "-")] if told else [])])
    print_table(f"{metric} %", ["dataset", "threat", *models, *last], rows, numbers_from=2)


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

"""What an ensemble trades: its errors over the weight of the second model (docs/specs/defences.md, 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from gauntlet.metrics.arithmetic import divide
from gauntlet.models.defended_names import address_of, read_name
from gauntlet.report.charts import Axis, Chart, LineChart, Panel, Series
from gauntlet.report.document import Section
from gauntlet.report.scope import Scope
from gauntlet.report.sections.distributions import ImagesOf
from gauntlet.report.tables import Cell, Column, Table

LEAST_WEIGHTS = 3
WHOLE, INSIDE, OUTSIDE = "aAcc", "A_M", "A_Mbar"
NATURAL: Mapping[str, str] = {"corruption": WHOLE, "weather": WHOLE, "localized": INSIDE}
ADVERSARIAL: Mapping[str, str] = {"attack": WHOLE, "battery": WHOLE, "region_aware": OUTSIDE}
"""Pixel accuracy by kind of threat: where a region is corrupted inside it, where one is attacked outside it."""
Accuracy = Callable[[str, str, str], float]
"""Of a model, a threat and the figure to take."""


@dataclass
class Mixture:
    """Ensembles of two models that differ in their weights alone.

    Attributes:
        title: the two models.
        models: by the weight of the second model, what the report calls the ensemble; the models themselves at 0 and 1.
    """

    title: str
    models: dict[float, str] = field(default_factory=dict)


def section(scope: Scope, images: ImagesOf | None = None) -> Section | None:
    """Errors over the weight for every pair with three weights at least; None where there is none.

    Args:
        scope: what is compared.
        images: what is known of every image, for the share of zero gradients.
    """
    rows = scope.frame[scope.frame["view"].eq("all") | scope.frame["metric"].isin([INSIDE, OUTSIDE])]
    rows = rows[rows["class_name"].eq("") & rows["metric"].isin([WHOLE, INSIDE, OUTSIDE])]
    values = dict(zip(zip(rows["model"], rows["threat"], rows["metric"], strict=True), rows["value"], strict=True))

    def accuracy(model: str, threat: str, metric: str) -> float:
        return float(values.get((model, threat, metric), np.nan))

    charts: dict[str, Chart] = {}
    cells: list[list[Cell]] = []
    for mixture in mixtures(scope):
        lines = errors(scope, mixture, accuracy)
        if not lines:
            continue
        weights = sorted(mixture.models)
        series = [Series(name, weights, line, style=index) for index, (name, line) in enumerate(lines.items())]
        charts[mixture.title] = LineChart(
            f"Ensembles of {mixture.title}",
            "Relative errors over the weight of the second model.",
            Axis("weight of the second model"),
            Axis("relative error (%)", percent=True),
            series=series,
        )
        zeros = zero_gradients(scope, mixture, images or {})
        cells += [
            [mixture.title, weight, *(lines[name][place] if name in lines else None for name in LINES), zeros[place]]
            for place, weight in enumerate(weights)
        ]
    if not charts:
        return None
    caption = (
        "Natural: loss of pixel accuracy relative to the second model, mean over corruptions, inside the region where "
        "they are localized. Adversarial: relative to the first model, each attacked on itself, outside the region "
        "where one is attacked. Clean: relative to the better of the two; below 0 where the ensemble beats both."
    )
    columns = [Column("ensemble"), Column("weight", "number"), *(Column(name, "percent") for name in (*LINES, ZEROS))]
    if all(row[-1] is None for row in cells):
        columns, cells, told = columns[:-1], [row[:-1] for row in cells], caption
    else:
        told = (
            f"{caption} Zero gradients: elements of the gradient that are exactly 0, mean over images and over attacks "
            "on the ensemble itself; where they are many, a saturated member may hide the gradient of the other."
        )
    table = Table(f"mixtures-table-{scope.id}", "Errors of ensembles", columns, cells, told)
    panel = Panel(f"mixtures-{scope.id}", "Errors of ensembles over the weight", caption, charts, "ensemble")
    return Section(f"mixtures-section-{scope.id}", "Ensembles", [panel, table])


LINES = ("clean error", "natural error", "adversarial error")
ZEROS = "zero gradients"


def mixtures(scope: Scope) -> list[Mixture]:
    """Pairs of models whose ensembles were evaluated at several weights."""
    pairs = scope.evaluations[["address", "model"]].itertuples(index=False)
    names = {str(stored): str(model) for stored, model in pairs}
    found: dict[tuple[str, ...], Mixture] = {}
    for stored, model in names.items():
        read = read_name(stored)
        if read is None or read.prefix != "ensemble" or len(read.inner) != 2:
            continue
        how = read.values["of"]
        words = " and ".join(map(address_of, read.inner)) + ("" if how == "probabilities" else f", of {how}")
        mixture = found.setdefault((*read.inner, how), Mixture(words))
        mixture.models[round(1 - float(read.values["gamma"]), 9)] = model
        for weight, member in zip((0.0, 1.0), read.inner, strict=True):
            if member in names:
                mixture.models.setdefault(weight, names[member])
    return [mixture for mixture in found.values() if len(mixture.models) >= LEAST_WEIGHTS]


def errors(scope: Scope, mixture: Mixture, accuracy: Accuracy) -> dict[str, list[float]]:
    """By name of the line, the error at every weight in ascending order; lines that cannot be computed are left out."""
    models = [mixture.models[weight] for weight in sorted(mixture.models)]
    first, second = mixture.models.get(0.0), mixture.models.get(1.0)
    lines: dict[str, list[float]] = {}
    clean = next(iter(scope.of_kind("clean")), "")
    if first is not None and second is not None:
        best = max(accuracy(each, clean, WHOLE) for each in (first, second))
        lines["clean error"] = [float(divide(best - accuracy(each, clean, WHOLE), best)) for each in models]
    for name, reference, kinds in (("natural error", second, NATURAL), ("adversarial error", first, ADVERSARIAL)):
        cells = [(threat, metric) for kind, metric in kinds.items() for threat in scope.of_kind(kind)]
        # Only threats that every one of them was run under: a mean over others would compare different things.
        cells = [cell for cell in cells if not any(np.isnan(accuracy(each, *cell)) for each in models)]
        if reference is not None and cells:
            lines[name] = [
                float(
                    np.mean(
                        [
                            divide(accuracy(reference, *cell) - accuracy(each, *cell), accuracy(reference, *cell))
                            for cell in cells
                        ]
                    )
                )
                for each in models
            ]
    return {name: line for name, line in lines.items() if not np.isnan(line).all()}


def zero_gradients(scope: Scope, mixture: Mixture, images: ImagesOf) -> list[float | None]:
    """The share of exactly zero gradient elements at every weight in ascending order; None where none is known.

    Means over images, then over the attacks that every one of them met; transferred ones tell of their source.
    """
    models = [mixture.models[weight] for weight in sorted(mixture.models)]
    shares = {
        pair: float(np.nanmean(told))
        for pair, of_pair in images.items()
        if not np.isnan(told := of_pair.detail("zero_gradient_share")).all()
    }
    attacks = [each for each in scope.of_kind("attack") if all((model, each) in shares for model in models)]
    return [float(np.mean([shares[model, each] for each in attacks])) if attacks else None for model in models]

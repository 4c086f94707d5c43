"""Two models side by side: differences with intervals, and which images and classes change sides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import numpy as np
import pandas as pd

from gauntlet._version import __version__
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.report.charts import Axis, Panel, PointChart, Series
from gauntlet.report.document import Block, Bullets, Document, Part, Section, Text
from gauntlet.report.image_figures import Images, read_images
from gauntlet.report.scope import Scope, scopes
from gauntlet.report.sections.classes import class_figures
from gauntlet.report.tables import Cell, Column, Interval, Table, format_number
from gauntlet.results import Store

CHANCE = 0.05
SIDES = 0.01
"""A class or an image is on a model's side when that model is better on it by more than this."""
MOST_IMAGES = 5
MOST_FLIPS = 40


@dataclass(frozen=True)
class Difference:
    """Two models under one threat.

    Attributes:
        threat, kind: which.
        first, second: their figures.
        change: second - first, with its paired 95 % interval over images.
        p_value: two-sided, of the paired permutation test; NaN without counts.
        adjusted: the same, adjusted for the number of threats (Holm).
        better, worse: images on which the second model is.
    """

    threat: str
    kind: str
    first: float
    second: float
    change: Interval
    p_value: float = math.nan
    adjusted: float = math.nan
    better: int = 0
    worse: int = 0


@dataclass(frozen=True)
class Comparison:
    """Two models on one dataset.

    Attributes:
        scope: the evaluations.
        first, second: names of the models in the scope.
        differences: one per threat that both were evaluated under.
        images: of every threat and model, where there are counts.
    """

    scope: Scope
    first: str
    second: str
    differences: Sequence[Difference]
    images: dict[tuple[str, str], Images]


def compare_models(store: Store, first: str, second: str, dataset: str | None = None) -> list[Comparison]:
    """Compares two models wherever both were evaluated.

    Args:
        store: the evaluations.
        first, second: names of models; what a report calls them where one name stands for several.
        dataset: only on this dataset.
    """
    frame = store.frame()
    found = scopes(frame[frame["dataset"].eq(dataset)] if dataset is not None else frame)
    if not found:
        raise GauntletError(f"the store {store.address} holds no evaluation{' on ' + dataset if dataset else ''}.")
    known = sorted({model for scope in found for model in (*scope.models, *scope.evaluations["address"])})
    for name in (first, second):
        if name not in known:
            raise unknown_name(f"model in the store {store.address}", name, known)
    comparisons = []
    for scope in found:
        pair = [_named(scope, name) for name in (first, second)]
        if pair[0] is not None and pair[1] is not None:
            comparisons.append(_compare(store, scope, pair[0], pair[1]))
    if not any(each.differences for each in comparisons):
        raise GauntletError(f"'{first}' and '{second}' were never evaluated on the same images under the same threat.")
    return [each for each in comparisons if each.differences]


def _named(scope: Scope, name: str) -> str | None:
    """What a model is called in a scope; an error when the name stands for several."""
    if name in scope.models:
        return name
    rows = scope.evaluations
    labels = sorted(set(rows.loc[rows["address"].eq(name), "model"]))
    if len(labels) > 1:
        raise GauntletError(f"'{name}' stands for several models on {scope.title}; say which: {', '.join(labels)}.")
    return str(labels[0]) if labels else None


def _compare(store: Store, scope: Scope, first: str, second: str) -> Comparison:
    keys = scope.latest_keys()
    shared = [threat for threat in scope.threats if (first, threat) in keys and (second, threat) in keys]
    images: dict[tuple[str, str], Images] = {}
    for pair in [(model, threat) for threat in shared for model in (first, second)]:
        found = read_images(store, keys[pair])
        if found is not None:
            images[pair] = found
    differences = [_difference(scope, threat, first, second, images) for threat in shared]
    adjusted = holm([each.p_value for each in differences])
    differences = [replace(each, adjusted=value) for each, value in zip(differences, adjusted, strict=True)]
    return Comparison(scope, first, second, differences, images)


def _difference(
    scope: Scope, threat: str, first: str, second: str, images: dict[tuple[str, str], Images]
) -> Difference:
    kind = scope.threats[threat]
    values = [scope.figure(model, threat).value for model in (first, second)]
    plain = Difference(threat, kind, values[0], values[1], Interval(values[1] - values[0]))
    one, other = (images.get((model, threat)) for model in (first, second))
    if one is None or other is None or not one.same_images(other):
        return plain
    row = one.compare(other)
    change = other.values - one.values
    return Difference(
        threat,
        kind,
        values[0],
        values[1],
        Interval(row["difference"], row["low"], row["high"]),
        row["p_value"],
        better=int(np.sum(change > 0)),
        worse=int(np.sum(change < 0)),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number, step by step from the smallest (Holm, 1979); NaN stays NaN.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    known = [index for index, value in enumerate(p_values) if not math.isnan(value)]
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for place, index in enumerate(sorted(known, key=lambda each: p_values[each])):
        largest = max(largest, min(1.0, (len(known) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


# As a document ----------------------------------------------------------------------------------------------------


def to_document(comparisons: Sequence[Comparison]) -> Document:
    """The comparison as a page."""
    first, second = comparisons[0].first, comparisons[0].second
    parts = [_part(each) for each in comparisons]
    made = datetime.now(timezone.utc).strftime("%d %B %Y, %H:%M UTC")
    return Document(
        f"{first} and {second}",
        "differences are second minus first; intervals and p-values are paired over images",
        parts,
        f"Made with Gauntlet {__version__} on {made}.",
    )


def _part(comparison: Comparison) -> Part:
    scope = comparison.scope
    sections = [
        Section(f"summary-{scope.id}", "Summary", [Text(verdict(comparison)), Bullets(observations(comparison))]),
        Section(f"differences-{scope.id}", "By threat", [_panel(comparison), difference_table(comparison)]),
    ]
    classes, images = class_tables(comparison), image_tables(comparison)
    if classes:
        sections.append(Section(f"classes-{scope.id}", "Classes", classes))
    if images:
        sections.append(Section(f"images-{scope.id}", "Images", images))
    return Part(scope.id, scope.title, f"{scope.images} images, {len(comparison.differences)} threats", sections)


def verdict(comparison: Comparison) -> str:
    """Who is better where, in one sentence."""
    first, second, metric = comparison.first, comparison.second, comparison.scope.metric
    sure = [each for each in comparison.differences if each.adjusted < CHANCE]
    wins, losses = ([each for each in sure if sign * each.change.value > 0] for sign in (1, -1))
    total = len(comparison.differences)
    if not sure:
        return f"No difference in {metric} between {first} and {second} under {total} threats is beyond chance."
    parts = [f"{word} under {len(each)}" for word, each in (("better", wins), ("worse", losses)) if each]
    rest = total - len(sure)
    others = "difference" if rest == 1 else f"{rest} differences"
    tail = f"; the other {others} may be chance" if rest else ""
    return f"{second} is {' and '.join(parts)} of {total} threats than {first}, beyond chance{tail}."


def observations(comparison: Comparison) -> list[str]:
    """The largest gain and loss, in words."""
    found = []
    ordered = sorted(comparison.differences, key=lambda each: each.change.value)
    for each, word in ((ordered[-1], "gains most"), (ordered[0], "loses most")):
        if (each.change.value > 0) == (word == "gains most") and each.change.value:
            change = each.change
            bounds = "" if math.isnan(change.low) else f" ({_points(change.low)} to {_points(change.high)})"
            found.append(f"{comparison.second} {word} under {each.threat}: {_points(change.value)} points{bounds}.")
    return found


def difference_table(comparison: Comparison) -> Table:
    """One row per threat."""
    by_figure = f"by their {_figure(comparison)}" if comparison.images else ""
    columns = [
        Column("threat"),
        Column(comparison.first, "percent", heat=True),
        Column(comparison.second, "percent", heat=True),
        Column("difference", "points"),
        Column("p", "chance", note="paired permutation test"),
        Column("p adjusted", "chance", note="for the number of threats (Holm)"),
        Column("images better", "count", note=by_figure),
        Column("images worse", "count", note=by_figure),
    ]
    rows: list[list[Cell]] = [
        [each.threat, each.first, each.second, each.change, each.p_value, each.adjusted, each.better, each.worse]
        for each in comparison.differences
    ]
    caption = f"{comparison.scope.metric} in per cent; the difference in points with its 95 % interval."
    return Table(f"differences-{comparison.scope.id}", "Differences", columns, rows, caption, best="row")


def _panel(comparison: Comparison) -> Panel:
    names = [each.threat for each in comparison.differences]
    metric = comparison.scope.metric
    series = [
        Series(comparison.first, [each.first for each in comparison.differences], names, labels=names, style=0),
        Series(comparison.second, [each.second for each in comparison.differences], names, labels=names, style=1),
    ]
    chart = PointChart(
        f"{metric} of both models",
        f"One row per threat with the {metric} of both models.",
        Axis(f"{metric} (%)", percent=True, whole=True),
        Axis("", categories=names),
        series=series,
    )
    return Panel(
        f"pair-{comparison.scope.id}",
        f"{metric} of both",
        "The longer the line, the larger the difference.",
        {"all": chart},
    )


def class_tables(comparison: Comparison) -> list[Block]:
    """Classes that change sides between clean images and a threat, and the differences of all classes."""
    scope = comparison.scope
    figures = class_figures(scope)
    if figures.empty:
        return []
    threats = [each.threat for each in comparison.differences]
    both = {
        model: figures.loc[figures.index.get_level_values("model") == model].droplevel("model").reindex(threats)
        for model in (comparison.first, comparison.second)
    }
    change = both[comparison.second] - both[comparison.first]
    columns = [Column("class"), *(Column(threat, "points") for threat in threats)]
    rows: list[list[Cell]] = [[str(name), *map(float, change[name].to_numpy(float))] for name in change.columns]
    identity = f"class-differences-{scope.id}"
    caption = f"Points of {figures.attrs['metric']} that {comparison.second} is better by."
    blocks: list[Block] = [Table(identity, "Differences by class", columns, rows, caption)]
    flips = _class_flips(comparison, both, change)
    if flips:
        heads = ["class", "threat", f"clean, {comparison.first}", f"clean, {comparison.second}"]
        heads += [f"under it, {comparison.first}", f"under it, {comparison.second}"]
        columns = [Column(heads[0]), Column(heads[1]), *(Column(head, "percent", heat=True) for head in heads[2:])]
        caption = "One model is better on clean images, the other under the threat, each by more than a point."
        blocks.insert(0, Table(f"class-flips-{scope.id}", "Classes that change sides", columns, flips, caption))
    return blocks


def _class_flips(comparison: Comparison, both: dict[str, pd.DataFrame], change: pd.DataFrame) -> list[list[Cell]]:
    clean = next(iter(comparison.scope.of_kind("clean")), None)
    if clean is None or clean not in change.index:
        return []
    found: list[tuple[float, list[Cell]]] = []
    before = change.loc[[clean]].to_numpy(float)[0]
    for threat, row in zip(change.index, change.to_numpy(float), strict=True):
        for number, name in enumerate(change.columns):
            if _changes_sides(before[number], row[number]):
                values = [
                    float(both[model].loc[[where], name].to_numpy(float)[0])
                    for where in (clean, str(threat))
                    for model in (comparison.first, comparison.second)
                ]
                found.append((abs(row[number] - before[number]), [str(name), str(threat), *values]))
    return [row for _, row in sorted(found, key=lambda pair: -pair[0])[:MOST_FLIPS]]


def image_tables(comparison: Comparison) -> list[Block]:
    """Images that change sides, and those with the largest differences under every threat."""
    scope = comparison.scope
    if not comparison.images:
        return []
    clean = next(iter(scope.of_kind("clean")), None)
    before = _image_change(comparison, clean) if clean is not None else {}
    flips: list[tuple[float, list[Cell]]] = []
    extremes: list[list[Cell]] = []
    for each in comparison.differences:
        change = _image_change(comparison, each.threat)
        ordered = sorted(change, key=lambda name: change[name])
        ends = dict.fromkeys([*ordered[:MOST_IMAGES], *ordered[::-1][:MOST_IMAGES]])
        extremes += [[name, each.threat, change[name]] for name in ends]
        for name, value in change.items():
            if name in before and _changes_sides(before[name], value):
                flips.append((abs(value - before[name]), [name, each.threat, before[name], value]))
    blocks: list[Block] = []
    if flips:
        rows = [row for _, row in sorted(flips, key=lambda pair: -pair[0])[:MOST_FLIPS]]
        columns = [
            Column("image"),
            Column("threat"),
            Column("difference clean", "points"),
            Column("under the threat", "points"),
        ]
        caption = f"{len(flips)} times the better model on an image changes between clean and a threat; the largest."
        blocks.append(Table(f"image-flips-{scope.id}", "Images that change sides", columns, rows, caption))
    columns = [Column("image"), Column("threat"), Column(f"difference of {_figure(comparison)}", "points")]
    caption = f"Per threat the images on which {comparison.second} is worst and best, compared with {comparison.first}."
    blocks.append(Table(f"image-differences-{scope.id}", "Largest differences", columns, extremes, caption))
    return blocks


def _figure(comparison: Comparison) -> str:
    """What is told of single images: mIoU or F1."""
    return next(iter(comparison.images.values())).figure


def _image_change(comparison: Comparison, threat: str) -> dict[str, float]:
    """The figure of the second model minus that of the first on every image that both have."""
    pair = [comparison.images.get((model, threat)) for model in (comparison.first, comparison.second)]
    if pair[0] is None or pair[1] is None:
        return {}
    first = dict(zip(pair[0].ids, pair[0].values.tolist(), strict=True))
    second = dict(zip(pair[1].ids, pair[1].values.tolist(), strict=True))
    change = {name: second[name] - first[name] for name in second if name in first}
    return {name: value for name, value in change.items() if not math.isnan(value)}


def _changes_sides(before: float, after: float) -> bool:
    return min(abs(before), abs(after)) > SIDES and (before > 0) != (after > 0)


def _points(value: float) -> str:
    return format_number(value, "points")

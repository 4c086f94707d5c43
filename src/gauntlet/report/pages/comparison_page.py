"""The page of a comparison: who is better where, and which classes and images change sides."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from gauntlet.analysis.significance import EXACT_UP_TO, smallest_p_value
from gauntlet.numbers import counted
from gauntlet.report.charts import Axis, Panel, PointChart, Series
from gauntlet.report.document import Block, Bullets, Document, Part, Section, Text, made_now
from gauntlet.report.image_figures import THOROUGH
from gauntlet.report.pages.comparison import Comparison
from gauntlet.report.sections.classes import class_figures
from gauntlet.report.tables import Cell, Column, Table, format_value

CHANCE = 0.05
SIDES = 0.01
"""A class or an image is on a model's side when that model is better on it by more than this."""
MOST_IMAGES = 5
MOST_FLIPS = 40


def to_document(comparisons: Sequence[Comparison]) -> Document:
    """The comparison as a page."""
    first, second = comparisons[0].first, comparisons[0].second
    parts = [_part(each) for each in comparisons]
    return Document(
        f"{first} and {second}",
        "differences are second minus first; intervals and p-values are paired over images",
        parts,
        made_now(),
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
    if not sure and (reason := _out_of_reach(comparison)):
        return reason
    if not sure:
        return f"No difference in {metric} between {first} and {second} under {total} threats is beyond chance."
    parts = [f"{word} under {len(each)}" for word, each in (("better", wins), ("worse", losses)) if each]
    rest = total - len(sure)
    others = "difference" if rest == 1 else f"{rest} differences"
    tail = f"; the other {others} may be chance" if rest else ""
    return f"{second} is {' and '.join(parts)} of {total} threats than {first}, beyond chance{tail}."


def _out_of_reach(comparison: Comparison) -> str:
    """Why no difference can be beyond chance, and what the intervals say; nothing where the test could find one."""
    tested = sum(not math.isnan(each.p_value) for each in comparison.differences)
    images = max((len(each.ids) for each in comparison.images.values()), default=0)
    if not tested or tested * _smallest(images) < CHANCE:
        return ""
    first, second, metric = comparison.first, comparison.second, comparison.scope.metric
    needed = next((count for count in range(images, EXACT_UP_TO + 2) if tested * _smallest(count) < CHANCE), None)
    remedy = f"it needs {needed} images" if needed is not None else "compare under fewer threats"
    better = sum(each.change.low > 0 for each in comparison.differences)
    worse = sum(each.change.high < 0 for each in comparison.differences)
    rest = len(comparison.differences) - better - worse
    return (
        f"With {counted(images, 'image')} and {counted(tested, 'threat')} the permutation test, corrected for the "
        f"number of threats, cannot call any difference in {metric} beyond chance (its adjusted p is "
        f"{min(1.0, tested * _smallest(images)):.2f} at best): {remedy}. By the 95 % intervals alone, which are not "
        f"corrected, {second} is better than {first} under {better}, worse under {worse}, and undecided under {rest}."
    )


def _smallest(images: int) -> float:
    return smallest_p_value(images, THOROUGH.permutations)


def observations(comparison: Comparison) -> list[str]:
    """The largest gain and loss, in words."""
    sentences = []
    ordered = sorted(comparison.differences, key=lambda each: each.change.value)
    for each, word in ((ordered[-1], "gains most"), (ordered[0], "loses most")):
        if (each.change.value > 0) == (word == "gains most") and each.change.value:
            change = each.change
            bounds = "" if math.isnan(change.low) else f" ({_points(change.low)} to {_points(change.high)})"
            sentences.append(f"{comparison.second} {word} under {each.threat}: {_points(change.value)} points{bounds}.")
    return sentences


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
    title = f"Differences, {comparison.second} minus {comparison.first}"
    return Table(f"differences-{comparison.scope.id}", title, columns, rows, caption, best="row")


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


_Flip = tuple[float, list[Cell]]
"""How far a difference moved, and the row of a table that says so."""


def _largest(flips: Sequence[_Flip]) -> list[list[Cell]]:
    return [row for _, row in sorted(flips, key=lambda flip: -flip[0])[:MOST_FLIPS]]


def _class_flips(comparison: Comparison, both: dict[str, pd.DataFrame], change: pd.DataFrame) -> list[list[Cell]]:
    clean = next(iter(comparison.scope.of_kind("clean")), None)
    if clean is None or clean not in change.index:
        return []
    flips: list[_Flip] = []
    before = change.loc[[clean]].to_numpy(float)[0]
    for threat, row in zip(change.index, change.to_numpy(float), strict=True):
        for number, name in enumerate(change.columns):
            if _changes_sides(before[number], row[number]):
                values = [
                    float(both[model].loc[[where], name].to_numpy(float)[0])
                    for where in (clean, str(threat))
                    for model in (comparison.first, comparison.second)
                ]
                flips.append((abs(row[number] - before[number]), [str(name), str(threat), *values]))
    return _largest(flips)


def image_tables(comparison: Comparison) -> list[Block]:
    """Images that change sides, and those with the largest differences under every threat."""
    if not comparison.images:
        return []
    changes = {each.threat: _image_change(comparison, each.threat) for each in comparison.differences}
    flips = _image_flips(comparison, changes)
    return [*([flips] if flips is not None else []), _image_extremes(comparison, changes)]


def _image_flips(comparison: Comparison, changes: dict[str, dict[str, float]]) -> Table | None:
    """Images on which another model is better under a threat than clean; None where there are none."""
    clean = next(iter(comparison.scope.of_kind("clean")), None)
    before = _image_change(comparison, clean) if clean is not None else {}
    flips: list[_Flip] = [
        (abs(value - before[name]), [name, threat, before[name], value])
        for threat, change in changes.items()
        for name, value in change.items()
        if name in before and _changes_sides(before[name], value)
    ]
    if not flips:
        return None
    differences = [Column("difference clean", "points"), Column("under the threat", "points")]
    columns = [Column("image"), Column("threat"), *differences]
    caption = f"{len(flips)} times the better model on an image changes between clean and a threat; the largest."
    identity = f"image-flips-{comparison.scope.id}"
    return Table(identity, "Images that change sides", columns, _largest(flips), caption)


def _image_extremes(comparison: Comparison, changes: dict[str, dict[str, float]]) -> Table:
    """Per threat the images with the largest differences in either direction."""
    extremes: list[list[Cell]] = []
    for threat, change in changes.items():
        ordered = sorted(change, key=lambda name: change[name])
        ends = dict.fromkeys([*ordered[:MOST_IMAGES], *ordered[::-1][:MOST_IMAGES]])
        extremes += [[name, threat, change[name]] for name in ends]
    columns = [Column("image"), Column("threat"), Column(f"difference of {_figure(comparison)}", "points")]
    caption = f"Per threat the images on which {comparison.second} is worst and best, compared with {comparison.first}."
    return Table(f"image-differences-{comparison.scope.id}", "Largest differences", columns, extremes, caption)


def _figure(comparison: Comparison) -> str:
    """The figure of a single image: mIoU or F1."""
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
    return format_value(value, "points")

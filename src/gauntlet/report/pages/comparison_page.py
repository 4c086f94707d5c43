"""The page of a comparison: which model is better under which threat, by class and by image."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gauntlet.analysis.better import BETTER, OPEN, WORSE
from gauntlet.metrics.intervals import MINIMUM_IMAGES
from gauntlet.numbers import counted
from gauntlet.report.charts import Axis, Panel, PointChart, Series
from gauntlet.report.document import Block, Bullets, Document, Part, Section, Text, made_now
from gauntlet.report.order import out_of_reach
from gauntlet.report.pages.comparison import Comparison
from gauntlet.report.sections.classes import class_figures
from gauntlet.report.tables import Cell, Column, Table, format_value

SIDES = 0.01
"""An image is on a model's side when that model is better on it by more than this."""
MOST_IMAGES = 5
MOST_FLIPS = 40


def to_document(comparisons: Sequence[Comparison]) -> Document:
    """The comparison as a page."""
    first, second = comparisons[0].first, comparisons[0].second
    parts = [_part(each) for each in comparisons]
    return Document(
        f"{first} and {second}",
        "differences are second minus first; verdict, interval and p-value come from one test over the images",
        parts,
        made_now(),
    )


def _part(comparison: Comparison) -> Part:
    scope = comparison.scope
    sentences = [
        each for each in (comparison.order.sentence(), *observations(comparison), *versions(comparison)) if each
    ]
    sections = [
        Section(f"summary-{scope.id}", "Summary", [Text(verdict(comparison)), Bullets(sentences)]),
        Section(f"differences-{scope.id}", "By threat", [_panel(comparison), difference_table(comparison)]),
    ]
    classes, images = class_tables(comparison), image_tables(comparison)
    if classes:
        sections.append(Section(f"classes-{scope.id}", "Classes", classes))
    if images:
        sections.append(Section(f"images-{scope.id}", "Images", images))
    return Part(scope.id, scope.title, f"{scope.images} images, {len(comparison.differences)} threats", sections)


def verdict(comparison: Comparison) -> str:
    """Under which threats one model is better, in one sentence."""
    first, second, metric = comparison.first, comparison.second, comparison.scope.metric
    images, total = comparison.scope.images, len(comparison.differences)
    tested = sum(each.told is not None for each in comparison.differences)
    if not tested:
        return f"{first} and {second} were not tested: the store keeps no counts of the same images."
    if images < MINIMUM_IMAGES:
        return f"{first} and {second} {OPEN} with {counted(images, 'image')}: a test takes {MINIMUM_IMAGES}."
    verdicts = [each.verdict for each in comparison.differences]
    parts = [f"{word} under {verdicts.count(word)}" for word in (BETTER, WORSE) if word in verdicts]
    of_all = f"of {counted(total, 'threat')}, corrected for their number"
    if not parts:
        return f"{first} and {second} {OPEN} by {metric} under any {of_all}. {out_of_reach(images, tested)}".rstrip()
    rest = verdicts.count(OPEN)
    tail = f"; under the other {rest} they {OPEN}" if rest else ""
    return f"{second} is {' and '.join(parts)} {of_all}, than {first}{tail}."


def versions(comparison: Comparison) -> list[str]:
    """Versions and devices that the evaluations do not share, one sentence each."""
    return [f"The evaluations differ in {name}: {', '.join(found)}." for name, found in comparison.versions.items()]


def observations(comparison: Comparison) -> list[str]:
    """The largest gain and loss, where they are beyond chance."""
    sentences = []
    ordered = sorted(comparison.differences, key=lambda each: each.change.value)
    for each, word in ((ordered[-1], "gains most"), (ordered[0], "loses most")):
        change = each.change
        if each.verdict == (BETTER if word == "gains most" else WORSE):
            bounds = "" if math.isnan(change.low) else f" ({_points(change.low)} to {_points(change.high)})"
            sentences.append(f"{comparison.second} {word} under {each.threat}: {_points(change.value)} points{bounds}.")
    return [*sentences, *comparison.scope.left_out]


def difference_table(comparison: Comparison) -> Table:
    """One row per threat."""
    by_figure = f"by their {_figure(comparison)}" if comparison.images else ""
    columns = [
        Column("threat"),
        Column(comparison.first, "percent", heat=True),
        Column(comparison.second, "percent", heat=True),
        Column("difference", "points"),
        Column("p", "chance", note="models swapped on images"),
        Column("p adjusted", "chance", note="for the number of threats (Holm)"),
        Column("verdict", note=f"of {comparison.second}"),
        Column("images better", "count", note=by_figure),
        Column("images worse", "count", note=by_figure),
    ]
    rows: list[list[Cell]] = [
        [
            *(each.threat, each.first, each.second, each.change),
            *((each.told.p_value, each.told.adjusted) if each.told else (None, None)),
            *(each.verdict, each.better, each.worse),
        ]
        for each in comparison.differences
    ]
    caption = (
        f"{comparison.scope.metric} in per cent. The difference in points has the interval of differences that the "
        "test does not reject, 95 % for all threats together: it excludes 0 where the verdict is better or worse."
    )
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
    """The differences of all classes, which are not tested."""
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
    caption = (
        f"{figures.attrs['metric']} of {comparison.second} minus that of {comparison.first} in points; not tested."
    )
    return [Table(identity, "Differences by class", columns, rows, caption)]


_Flip = tuple[float, list[Cell]]
"""How far a difference moved, and the row of a table that says so."""


def _largest(flips: Sequence[_Flip]) -> list[list[Cell]]:
    return [row for _, row in sorted(flips, key=lambda flip: -flip[0])[:MOST_FLIPS]]


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
    caption = (
        f"{len(flips)} times the better model on an image changes between clean and a threat; the largest. "
        "Single images, not tested: models that cannot be told apart change sides too."
    )
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

"""Figures under every threat: tables per kind, batteries."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gauntlet.metrics.intervals import too_few
from gauntlet.report.charts import Axis, BarChart, Panel, PointChart, Series
from gauntlet.report.document import Block, Section
from gauntlet.report.image_figures import Images
from gauntlet.report.naming import slug
from gauntlet.report.scope import Scope, kind_title
from gauntlet.report.scope_ranking import Ranking, worst_name
from gauntlet.report.sections import regions
from gauntlet.report.tables import Cell, Column, Table

_CHOSEN_BY = (("chosen_by_accuracy", "by accuracy"), ("chosen_by_mIoU", "by mIoU"), ("chosen_by_F1", "by F1"))

TRIVIAL = "trivial answer"
"""Head of the column with the figure of the most frequent class everywhere."""


def sections(
    scope: Scope, ranking: Ranking, images: Mapping[tuple[str, str], Images], reference: str | None = None
) -> list[Section]:
    """One section per kind of threat that is there; corruption errors are also given against a reference model."""
    made = []
    for kind in scope.kinds:
        blocks: list[Block] = [matrix_table(scope, ranking, kind)]
        if kind == "attack":
            blocks.append(matrix_table(scope, ranking, kind, images))
        blocks += regions.blocks(scope, ranking, kind, reference)
        if kind == "battery":
            blocks += battery_blocks(scope, ranking)
        made.append(Section(f"{slug(kind)}-{scope.id}", kind_title(kind), blocks))
    return made


def overview(scope: Scope, ranking: Ranking) -> Panel | None:
    """Clean and worst cases of every model in one picture."""
    kinds = [kind for kind in scope.kinds if scope.shared(kind)]
    if not kinds:
        return None
    series = []
    for index, kind in enumerate(["clean", *kinds]):
        points = [(model, scope.clean(model)) for model in ranking.models]
        labels = ["clean"] * len(points)
        if kind != "clean":
            worst = [(model, scope.worst_shared(model, kind)) for model in ranking.models]
            points = [(model, each[1]) for model, each in worst if each]
            labels = [each[0] for _, each in worst if each]
        name = "clean" if kind == "clean" else worst_name(kind)
        values, names = [figure.value for _, figure in points], [model for model, _ in points]
        series.append(Series(name, values, names, labels=labels, style=index))
    chart = PointChart(
        f"{scope.metric} of every model: clean and worst cases",
        f"One row per model, best first; points for the clean {scope.metric} and the worst of every kind of threat.",
        Axis(f"{scope.metric} (%)", percent=True, whole=True),
        Axis("", categories=ranking.models),
        series=series,
    )
    caption = (
        "The further left the leftmost point, the less is left of the model in its worst case. Worst cases are over "
        "the threats that every model was run under."
    )
    return Panel(f"overview-{scope.id}", "Worst cases at a glance", caption, {"all": chart})


def matrix_table(
    scope: Scope, ranking: Ranking, kind: str, images: Mapping[tuple[str, str], Images] | None = None
) -> Table:
    """Models and threats of a kind; whichever are fewer stand in the columns, clean beside them.

    Args:
        scope, ranking: what is compared.
        kind: of threat.
        images: of every evaluation, for the kept share of the clean figure instead (Arnab et al.'s IoU ratio).
    """
    relative = images is not None
    names = [*([] if relative else scope.of_kind("clean")), *scope.of_kind(kind)]
    figure = scope.figure if images is None else partial(scope.ratio, images=images)
    title = f"{scope.metric} ratio by threat" if relative else f"{scope.metric} by threat"
    identity = f"{slug(kind)}-{'ratios' if relative else 'figures'}-{scope.id}"
    caption = f"{scope.metric} in per cent; a dash where a model was not evaluated."
    if relative:
        caption = f"{scope.metric} under the threat over the clean one, in per cent: what is left of the model."
    trivial = [] if relative or not scope.trivial_class else [Column(TRIVIAL, "percent")]
    floor: list[Cell] = [scope.floor] if trivial else []
    if trivial:
        caption += f" The trivial answer is '{scope.trivial_class}' in every pixel of the clean images."
    caption = f"{caption} {too_few(scope.images)}".strip()
    rows: list[list[Cell]]
    if len(names) > len(ranking.models):
        columns = [Column("threat"), *(Column(model, "percent", heat=True) for model in ranking.models), *trivial]
        rows = [[name, *(figure(model, name) for model in ranking.models), *floor] for name in names]
        best = "row"
    else:
        columns = [Column("model"), *(Column(name, "percent", heat=True) for name in names), *trivial]
        rows = [[model, *(figure(model, name) for name in names), *floor] for model in ranking.models]
        best = "column"
    return Table(identity, title, columns, rows, caption, best if len(ranking.models) > 1 else "")


def battery_blocks(scope: Scope, ranking: Ranking) -> list[Block]:
    """Which attack of a battery was the strongest, and what every attack does on its own."""
    rows = scope.frame[scope.frame["kind"].eq("battery") & scope.frame["view"].ne("all")]
    shares: dict[str, BarChart] = {}
    tables: list[Block] = []
    for battery in scope.of_kind("battery"):
        here = rows[rows["threat"].eq(battery)]
        attacks = list(dict.fromkeys(map(str, here["view"])))
        models = [model for model in ranking.models if model in set(here["model"])]
        for metric, words in _CHOSEN_BY:
            chosen = here[here["metric"].eq(metric)].set_index(["model", "view"])["value"]
            if chosen.empty:
                continue
            series = [
                Series(attack, [float(chosen.get((model, attack), 0.0)) for model in models], models, style=index)
                for index, attack in enumerate(attacks)
            ]
            title = f"{battery}, chosen {words}"
            shares[title] = BarChart(
                f"Strongest attack of {battery} per image, {words}",
                "Per model, the share of images on which each attack of the battery was the strongest.",
                Axis("share of images (%)", percent=True, whole=True),
                Axis("", categories=models),
                series=series,
            )
        alone = here[here["metric"].eq(scope.metric)].drop_duplicates(["model", "view"], keep="last")
        values = alone.set_index(["model", "view"])["value"]
        columns = [Column("attack"), *(Column(model, "percent", heat=True) for model in models)]
        cells: list[list[Cell]] = [
            [attack, *(float(values.get((model, attack), float("nan"))) for model in models)] for attack in attacks
        ]
        cells.append(["worst case", *(scope.figure(model, battery) for model in models)])
        caption = "An attack that was skipped on some image, because nothing could lower its figure, has none itself."
        identity = f"battery-{slug(battery)}-{scope.id}"
        tables.append(Table(identity, f"Attacks of {battery}, each alone", columns, cells, caption))
    if not shares:
        return tables
    caption = "No single attack is the strongest everywhere: what a single one leaves standing, another may break."
    panel = Panel(f"best-attack-{scope.id}", "Strongest attack per image", caption, dict(shares), "battery")
    return [panel, *tables]

"""Studies of figures: those of many models against each other, published ones or those of a store."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from gauntlet.analysis import compare_groups, correlate
from gauntlet.analysis.correlation import COEFFICIENTS
from gauntlet.analysis.scoring.scores import WEATHER_DATASET
from gauntlet.errors import GauntletError
from gauntlet.report.charts import Axis, Chart, LineChart, Panel, PointChart, Series
from gauntlet.report.document import Block, Command, Document, Part, Section, Text, made_now
from gauntlet.report.tables import Cell, Column, Interval, Table
from gauntlet.studies.contract import AnyStudy, Kind
from gauntlet.studies.correlation_rules import LEAST_JUDGED, NO, OPEN, RULES, WORDS, YES, Judge, judge_difference
from gauntlet.studies.drawings import slug
from gauntlet.studies.figure_tables import PAPER_TYPE, label, score_table
from gauntlet.studies.page import finding_blocks, write_page

LEAST_MODELS = 3
EVERYTHING = ("*",)
"""As `listed`: the model, its view and every figure."""
PUBLISHED = "published"
UNNAMED = "dataset not named"


@dataclass(frozen=True)
class Pair:
    """Two figures of a model, and what the paper says of them.

    Attributes:
        x, y: columns of the study's table.
        claim: which correlation it claims, or None where it claims none.
        place: where it says so.
    """

    x: str
    y: str
    claim: Judge | None = None
    place: str = ""


@dataclass(frozen=True)
class Groups:
    """Figures by a property of the model.

    Attributes:
        by: the property ("backbone_type").
        scores: which figures.
        first, second: two of its values, the second of which the paper calls better; "" for no claim.
        better: False where the paper says that the second is not better.
    """

    by: str
    scores: Sequence[str]
    first: str = ""
    second: str = ""
    better: bool = True


@dataclass(frozen=True)
class Case:
    """What a paper says of every model: confirmed where it holds for all that have the figures.

    Attributes:
        claim: in words, with the place.
        columns: of the study's table that it needs.
        holds: from rows with these columns to a truth value each.
    """

    claim: str
    columns: Sequence[str]
    holds: Callable[[pd.DataFrame], pd.Series]


@dataclass(frozen=True)
class Lines:
    """A figure over a number, one line per model.

    Attributes:
        title: of table and chart.
        axis: what the number is.
        points: columns of the study's table by the number.
        enough: a number from which on the paper sees no change, or None for no claim.
    """

    title: str
    axis: str
    points: Mapping[float, str]
    enough: float | None = None


@dataclass(frozen=True)
class Judged:
    """A claim, the figures for it, and what follows."""

    claim: str
    evidence: str
    verdict: str


@dataclass(frozen=True, kw_only=True)
class FigureStudy(AnyStudy):
    """A table or figure of a paper that is drawn from figures of many models.

    Attributes:
        published: the published figures that belong to it.
        table: from tidy figures to a row per model.
        pairs: what is set against each other.
        groups: what is compared by a property of the models.
        lines: figures over a number.
        cases: what is said of every model.
        listed: columns of a plain list of models; empty for none.
        color: the property that points are coloured by.
    """

    published: Callable[[], pd.DataFrame]
    table: Callable[[pd.DataFrame], pd.DataFrame] = score_table
    pairs: Sequence[Pair] = ()
    groups: Sequence[Groups] = ()
    lines: Sequence[Lines] = ()
    cases: Sequence[Case] = ()
    listed: Sequence[str] = ()
    color: str = "architecture"
    kind: Kind = "relate"
    least_models: int = LEAST_MODELS


@dataclass(frozen=True)
class Drawn:
    """What a study of figures gives: sections of a page, and verdicts."""

    sections: Sequence[Section]
    judged: Sequence[Judged]


def draw_figures(study: FigureStudy, frame: pd.DataFrame, origin: str, dataset: str | None = None) -> Drawn:
    """Draws a study from tidy figures.

    Args:
        study: which.
        frame: figures of a store, or the published ones.
        origin: "published", or the address of the store.
        dataset: only this one, beside the real weather that belongs to it; all of them by default.
    """
    if dataset is not None:
        frame = frame[frame["dataset"].isin([dataset, WEATHER_DATASET])]
    table = study.table(frame)
    sections: list[Section] = []
    judged: list[Judged] = []
    lacking: dict[str, set[str]] = {}
    for each_dataset, rows in table.groupby("dataset", sort=False):
        name = str(each_dataset)
        shown = name or UNNAMED
        if len(rows) < study.least_models or dataset not in (None, name):
            continue
        missing = lacking.setdefault(name, set())
        pairs = [pair for pair in study.pairs if _present(rows, pair.x, pair.y)]
        missing |= {each for pair in study.pairs for each in (pair.x, pair.y) if not _present(rows, each)}
        blocks: list[Block] = []
        if pairs:
            made, verdicts = _relate(study, shown, rows, pairs, origin)
            blocks, judged = [*blocks, *made], [*judged, *verdicts]
        for group in study.groups:
            scores = [score for score in group.scores if _present(rows, score)]
            missing |= set(group.scores) - set(scores)
            if group.by in rows and scores:
                made, verdicts = _compare(shown, rows, group, scores)
                blocks, judged = [*blocks, *made], [*judged, *verdicts]
        for lines in study.lines:
            missing |= {each for each in lines.points.values() if each not in rows}
            if sum(each in rows for each in lines.points.values()) > 1:
                made, verdicts = _over_a_number(shown, rows, lines)
                blocks, judged = [*blocks, *made], [*judged, *verdicts]
        for case in study.cases:
            if _present(rows, *case.columns):
                judged.append(_judge_case(shown, rows.dropna(subset=list(case.columns)), case))
        if study.listed:
            blocks.append(_listing(study, shown, rows))
        if blocks:
            sections.append(Section(f"on-{slug(name)}", shown, blocks))
    if not sections:
        every = {each for names in lacking.values() for each in names}
        wanted = ", ".join(sorted(map(label, every))) or "figures on one dataset"
        wanted = f"{study.least_models} models with {wanted}"
        where = f"the figures of {origin}"
        if origin == PUBLISHED:
            where, wanted = "the published figures", study.needs or wanted
        raise GauntletError(f"{where} do not have what the study '{study.name}' needs: {wanted}.")
    judged += _not_judged(study, table)
    texts = [
        Text(f"Without figures on {name or UNNAMED}: {', '.join(label(each) for each in sorted(missing))}.")
        for name, missing in lacking.items()
        if missing
    ]
    if texts:
        sections.append(Section("missing", "What is not there", texts))
    return Drawn(sections, judged)


def figures_page(study: FigureStudy, drawn: Drawn, origin: str, command: str) -> Document:
    """The page of a study of figures."""
    verdicts = Table(
        "verdicts",
        "Claims",
        [Column("claim"), Column("figures"), Column("verdict")],
        [[each.claim, each.evidence, each.verdict] for each in drawn.judged],
        RULES.replace("*", ""),
    )
    sections = [
        Section("finding", "What the paper found", finding_blocks(study)),
        *([Section("verdicts", "Does it hold?", [verdicts])] if drawn.judged else []),
        *drawn.sections,
        Section("made", "How this page was made", [Command(command)]),
    ]
    origin = "the published figures" if origin == PUBLISHED else f"the store {origin}"
    subtitle = f"{study.question} From {origin}; intervals by resampling models."
    part = Part("study", study.title, subtitle, sections)
    return Document(f"{study.name}: {study.title}", subtitle, [part], made_now())


def _present(rows: pd.DataFrame, *columns: str) -> bool:
    """Whether enough models have all the figures."""
    if any(column not in rows for column in columns):
        return False
    return int(rows[list(columns)].notna().all(axis=1).sum()) >= LEAST_MODELS


def _claim_words(pair: Pair) -> str:
    """What is claimed of a pair, with its place."""
    words = "" if pair.claim is None else WORDS[pair.claim]
    return f"{label(pair.x)} and {label(pair.y)}: {words}" + (f" ({pair.place})" * bool(pair.place))


def _group_words(group: Groups, score: str) -> str:
    """What is claimed of a score of two groups."""
    words = "is better" if group.better else "is not better"
    return f"{label(score)} {words} for {group.second} than for {group.first}"


def _not_judged(study: FigureStudy, table: pd.DataFrame) -> list[Judged]:
    """Claims for which no dataset has enough figures: they are named, not left out."""
    by_dataset = [rows for _, rows in table.groupby("dataset")]
    claims: list[tuple[str, tuple[str, ...]]] = [
        (_claim_words(pair), (pair.x, pair.y)) for pair in study.pairs if pair.claim is not None
    ]
    claims += [
        (_group_words(group, score), (score,)) for group in study.groups if group.first for score in group.scores
    ]
    claims += [(case.claim, tuple(case.columns)) for case in study.cases]
    found = []
    for words, columns in claims:
        if any(_present(rows, *columns) for rows in by_dataset):
            continue
        lacking = [each for each in columns if not any(_present(rows, each) for rows in by_dataset)]
        found.append(Judged(words, f"no figures of {' and '.join(map(label, lacking or columns))}", OPEN))
    return found


def _relate(
    study: FigureStudy, dataset: str, rows: pd.DataFrame, pairs: Sequence[Pair], origin: str
) -> tuple[list[Block], list[Judged]]:
    """Scatters of pairs of figures and their correlations."""
    charts: dict[str, Chart] = {}
    cells: list[list[Cell]] = []
    judged = []
    for pair in pairs:
        both = rows.dropna(subset=[pair.x, pair.y])
        found = correlate(both[pair.x].astype(float), both[pair.y].astype(float)).to_dict("records")
        by_name = {str(each["coefficient"]): each for each in found}
        values = [Interval(*(float(by_name[name][each]) for each in ("value", "low", "high"))) for name in COEFFICIENTS]
        words, verdict = "", ""
        if pair.claim is not None:
            words, verdict = WORDS[pair.claim], pair.claim(by_name["spearman"])
            judged.append(Judged(f"{dataset}: {_claim_words(pair)}", _rho(values[1], len(both)), verdict))
        cells.append([label(pair.x), label(pair.y), len(both), *values, words, verdict])
        charts[f"{label(pair.x)} and {label(pair.y)}"] = _scatter(study, pair, both, values[1], origin)
    name = slug(f"{study.name}-{dataset}")
    columns = [Column("figure"), Column("with"), Column("models", "count")]
    columns += [*(Column(name.title(), "number") for name in COEFFICIENTS), Column("claimed"), Column("verdict")]
    table = Table(
        f"table-{name}",
        f"Correlations, {dataset}",
        columns,
        cells,
        f"95 % intervals over models, from {LEAST_JUDGED} models on.",
    )
    return [Panel(f"panel-{name}", dataset, "A point is a model.", charts, "pair"), table], judged


def _scatter(study: FigureStudy, pair: Pair, rows: pd.DataFrame, rho: Interval, origin: str) -> PointChart:
    groups = rows[study.color].fillna("").astype(str) if study.color in rows else pd.Series(origin, rows.index)
    series = [
        Series(
            str(name) or "?",
            of_group[pair.x].astype(float).tolist(),
            of_group[pair.y].astype(float).tolist(),
            labels=of_group["model"].astype(str).tolist(),
            style=index,
        )
        for index, (name, of_group) in enumerate(rows.groupby(groups, sort=True))
    ]
    x, y = (Axis(label(each), percent=each not in ("parameters", "year")) for each in (pair.x, pair.y))
    alt = f"One point per model ({origin}): {label(pair.x)} across, {label(pair.y)} up."
    note = f"Spearman {_rho(rho, len(rows))}"
    return PointChart(f"{label(pair.y)} against {label(pair.x)}", alt, x, y, series=series, note=note)


def _compare(
    dataset: str, rows: pd.DataFrame, group: Groups, scores: Sequence[str]
) -> tuple[list[Block], list[Judged]]:
    """Means of the groups, and a difference with its interval where one group is claimed to be better."""
    cells: list[list[Cell]] = []
    judged = []
    for score in scores:
        for value, of_group in rows.groupby(group.by, sort=True):
            figures = of_group[score].dropna()
            cells.append([label(score), str(value), len(figures), float(figures.mean()), float(figures.median())])
        kinds = set(rows.loc[rows[score].notna(), group.by])
        if {group.first, group.second} <= kinds and group.first:
            found = compare_groups(rows, score, group.by, group.first, group.second).iloc[0]
            evidence = (
                f"{100 * found['difference']:+.1f} points [{100 * found['low']:+.1f}, {100 * found['high']:+.1f}], "
                f"p {found['p_value']:.3f}"
            )
            if math.isnan(found["low"]):
                evidence = f"{found['n_second']} and {found['n_first']} models, too few for a test"
            verdict = judge_difference(float(found["low"]), float(found["high"]), better=group.better)
            judged.append(Judged(f"{dataset}: {_group_words(group, score)}", evidence, verdict))
    columns = [Column("figure"), Column(group.by.replace("_", " ")), Column("models", "count")]
    columns += [Column("mean", "percent", heat=True), Column("median", "percent", heat=True)]
    title = f"By {group.by.replace('_', ' ')}, {dataset}"
    name = slug(" ".join([title, group.first, group.second, *scores]))
    return [Table(f"table-{name}", title, columns, cells)], judged


def _judge_case(dataset: str, rows: pd.DataFrame, case: Case) -> Judged:
    holds = case.holds(rows)
    evidence = f"{int(holds.sum())} of {len(holds)} models"
    return Judged(f"{dataset}: {case.claim}", evidence, YES if holds.all() else NO)


REACHED = 0.9
"""A figure has settled where so much of the whole fall is behind it."""


def _over_a_number(dataset: str, rows: pd.DataFrame, lines: Lines) -> tuple[list[Block], list[Judged]]:
    """Lines of every model, and whether they have settled at the number that the paper names."""
    points = {x: column for x, column in sorted(lines.points.items()) if column in rows}
    chart = LineChart(
        lines.title,
        f"One line per model: mAP over {lines.axis}.",
        Axis(lines.axis),
        Axis("mAP (%)", percent=True),
        series=[
            Series(str(row["model"]), list(points), [float(row[each]) for each in points.values()], style=index)
            for index, row in enumerate(rows.to_dict("records"))
        ],
    )
    name = slug(f"{lines.title}-{dataset}")
    columns = [Column("model"), *(Column(f"{x:g}", "percent", heat=True) for x in points)]
    cells: list[list[Cell]] = [
        [str(row["model"]), *(None if pd.isna(row[each]) else float(row[each]) for each in points.values())]
        for row in rows.to_dict("records")
    ]
    blocks: list[Block] = [
        Panel(f"panel-{name}", f"{lines.title}, {dataset}", "", {lines.title: chart}),
        Table(f"table-{name}", f"{lines.title}, {dataset}", columns, cells, f"By {lines.axis}."),
    ]
    if lines.enough is None or not {min(lines.points), lines.enough, max(lines.points)} <= set(points):
        return blocks, []
    first, middle, last = (rows[points[x]].astype(float) for x in (min(points), lines.enough, max(points)))
    reached = ((first - middle) / (first - last)).dropna()
    settled = f"{REACHED:.0%} (bound ours) of the fall is behind at {lines.enough:g} of {lines.axis}"
    evidence = f"{int((reached >= REACHED).sum())} of {len(reached)} models, smallest {reached.min():.0%}"
    verdict = OPEN if reached.empty else YES if (reached >= REACHED).all() else NO
    return blocks, [Judged(f"{dataset}: {lines.title}: {settled}", evidence, verdict)]


def _listing(study: FigureStudy, dataset: str, rows: pd.DataFrame) -> Table:
    names = [name for name in study.listed if name in rows]
    if study.listed == EVERYTHING:
        hidden = {PAPER_TYPE, "source", "table", "task", "dataset", "split", "seed", "model_digest", "dataset_digest"}
        names = [name for name in map(str, rows.columns) if name not in hidden and rows[name].notna().any()]
    columns = [
        Column(label(name), _kind(name) if pd.api.types.is_numeric_dtype(rows[name]) else "text") for name in names
    ]
    cells = [[None if pd.isna(value) else value for value in row] for row in rows[names].itertuples(index=False)]
    return Table(f"list-{slug(dataset)}", f"{len(rows)} models, {dataset}", columns, cells)


def _kind(name: str) -> str:
    if name.endswith("_per_image"):
        return "number"
    return {"parameters": "count", "year": "number"}.get(name, "percent")


def _rho(value: Interval, models: int) -> str:
    bounds = "" if math.isnan(value.low) else f" ({value.low:.2f} to {value.high:.2f})"
    return f"{value.value:.2f}{bounds}, {models} models"


def write_figures(
    study: FigureStudy, frame: pd.DataFrame, folder: Path, origin: str, command: str, dataset: str | None = None
) -> tuple[list[Path], Sequence[Judged]]:
    """Draws a study of figures and writes its page; the paths and the verdicts."""
    drawn = draw_figures(study, frame, origin, dataset)
    return write_page(study, figures_page(study, drawn, origin, command), folder), drawn.judged

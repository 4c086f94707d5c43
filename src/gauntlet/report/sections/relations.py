"""What goes with what: correlations between scores, transfer of attacks between models."""

from __future__ import annotations

import itertools

import pandas as pd

from gauntlet.analysis import correlate, transfer, transfer_means
from gauntlet.models.defended_names import address_of, source_name
from gauntlet.report.charts import Axis, Chart, HeatChart, Panel, PointChart, Series
from gauntlet.report.document import Block, Section
from gauntlet.report.scope import Scope
from gauntlet.report.scope_ranking import Ranking, worst_name
from gauntlet.report.tables import Cell, Column, Interval, Table

LEAST_MODELS = 3
MOST_SCORES = 8


def section(scope: Scope, ranking: Ranking) -> Section | None:
    """Correlations from three models on, transfer matrices where attacks were made on another model."""
    blocks: list[Block] = [*_correlations(scope, ranking), *transfers(scope)]
    return Section(f"relations-{scope.id}", "Relations", blocks) if blocks else None


def _correlations(scope: Scope, ranking: Ranking) -> list[Block]:
    table = _scores(scope, ranking)
    if len(table) < LEAST_MODELS or table.shape[1] < 2:
        return []
    charts: dict[str, Chart] = {}
    rows: list[list[Cell]] = []
    for first, second in itertools.combinations(table.columns, 2):
        both = table[[first, second]].dropna()
        if len(both) < LEAST_MODELS:
            continue
        coefficients = correlate(both[first], both[second])
        values = {
            name: Interval(value, low, high)
            for name, value, low, high in coefficients[["coefficient", "value", "low", "high"]].itertuples(index=False)
        }
        warning = str(coefficients["warning"].iloc[0])
        rows.append([first, second, *(values[name] for name in ("pearson", "spearman", "kendall")), len(both), warning])
        points = [
            Series(str(model), [float(x)], [float(y)], labels=[str(model)], style=ranking.models.index(str(model)))
            for model, x, y in both.itertuples()
        ]
        rho = values["spearman"]
        charts[f"{first} and {second}"] = PointChart(
            f"{second} against {first}",
            f"One point per model: {first} across, {second} up.",
            Axis(f"{first} (%)", percent=True),
            Axis(f"{second} (%)", percent=True),
            series=points,
            diagonal=True,
            note=f"Spearman {rho.value:.2f} ({rho.low:.2f} to {rho.high:.2f}), n = {len(both)}",
        )
    if not charts:
        return []
    columns = [
        Column("score"),
        Column("with"),
        *(Column(name, "number") for name in ("Pearson", "Spearman", "Kendall")),
        Column("models", "count"),
        Column("warning"),
    ]
    caption = "Does a good clean figure promise robustness? Only where the points rise together."
    return [
        Panel(f"scatter-{scope.id}", "Scores against each other", caption, charts, "pair"),
        Table(
            f"correlations-{scope.id}",
            "Correlations between scores",
            columns,
            rows,
            "Ranges are 95 % intervals over models, from six models on.",
        ),
    ]


def _scores(scope: Scope, ranking: Ranking) -> pd.DataFrame:
    """One row per model: clean, the worst case of every kind, then summaries, as far as models have them."""
    worst = [worst_name(kind) for kind in scope.kinds if scope.shared(kind)]
    summaries = [name for name in ranking.summary_names if not name.startswith("mean of")]
    names = list(dict.fromkeys(["clean", *worst, *summaries]))
    table = pd.DataFrame({name: {model: ranking.scores[model].get(name) for model in ranking.models} for name in names})
    table = table.astype(float).reindex(ranking.models)
    varying = [name for name in table if table[name].notna().sum() >= LEAST_MODELS and table[name].nunique() > 1]
    return table[varying[:MOST_SCORES]]


def transfers(scope: Scope) -> list[Block]:
    """Matrices of attacks that were made on one model and shown to another; nothing where there are none."""
    rows = scope.analysis_frame
    rows = rows[rows["view"].eq("all")]
    if not rows["description"].str.contains('"source_model"').any():
        return []
    # The name as stored: an attack made on another model is the same attack.
    pairs = transfer(rows.assign(threat=rows["stored_threat"]), scope.metric)
    stored: dict[str, str] = dict(scope.evaluations[["model", "address"]].itertuples(index=False))
    labels = {name: model for model, name in stored.items()}
    makers = [source_name(name, stored[target]) for name, target in zip(pairs["made_on"], pairs["target"], strict=True)]
    pairs = pairs.assign(made_on=[labels.get(name, address_of(name)) for name in makers])
    charts: dict[str, Chart] = {}
    cells: list[list[Cell]] = []
    for threat, part in pairs.groupby("threat", sort=False):
        if part["made_on"].ne(part["target"]).any():
            matrix = part.drop_duplicates(["target", "made_on"], keep="last").pivot(
                index="target", columns="made_on", values="ratio"
            )
            # Both in the order of the models: white boxes stand on the diagonal.
            others = [name for name in matrix.columns if name not in scope.models]
            rows_order = [model for model in scope.models if model in matrix.index]
            matrix = matrix.loc[rows_order, [*(each for each in scope.models if each in matrix.columns), *others]]
            charts[str(threat)] = HeatChart(
                f"Transfer of {threat}",
                "Kept share of the clean figure: the model in the row sees images made with the model in the column.",
                Axis("made on", categories=list(map(str, matrix.columns))),
                Axis("shown to", categories=list(map(str, matrix.index))),
                values=matrix.to_numpy(float).tolist(),
            )
            cells += [[str(threat), *row] for row in transfer_means(matrix).itertuples()]
    if not charts:
        return []
    caption = "Share of the clean figure that the model in the row keeps on images made with the model in the column."
    columns = [
        Column("attack"),
        Column("model"),
        Column("made on itself", "percent"),
        Column(
            "others on its images", "percent", note="mean over the other models: low where its images transfer well"
        ),
        Column("it on images of others", "percent", note="mean over the other models: low where it is exposed"),
        Column("strongest source"),
        Column("on its images", "percent"),
    ]
    table = Table(
        f"transfer-means-{scope.id}",
        "Who transfers well, who is exposed",
        columns,
        cells,
        "Shares of the clean figure. A model that keeps less on images of another model than on its own hides its "
        "gradient.",
    )
    return [Panel(f"transfer-{scope.id}", "Transfer of attacks", caption, charts, "attack"), table]

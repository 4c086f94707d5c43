"""How sure models are, and what they keep under attack: a confident output may hide the gradient (Arnab et al., 8)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from gauntlet.analysis import correlate
from gauntlet.metrics.arithmetic import divide
from gauntlet.report.charts import Axis, Chart, Panel, PointChart, Series
from gauntlet.report.document import Section
from gauntlet.report.scope import Scope
from gauntlet.report.tables import Cell, Column, Interval, Table
from gauntlet.tasks import SEGMENTATION

LEAST_MODELS = 3
ACROSS = {
    "confidence": Axis("confidence on clean images (%)", percent=True),
    "entropy": Axis("entropy on clean images (nats)"),
}


def section(scope: Scope) -> Section | None:
    """Confidence and entropy on clean images against the IoU ratio under every attack; None for fewer than 3 models."""
    sure = clean_certainty(scope)
    charts: dict[str, Chart] = {}
    rows: list[list[Cell]] = []
    for threat in scope.of_kind("attack") if len(sure) >= LEAST_MODELS else ():
        kept = pd.Series({str(model): _ratio(scope, str(model), threat) for model in sure.index}).dropna()
        if len(kept) < LEAST_MODELS:
            continue
        values = {}
        for name, axis in ACROSS.items():
            rho = _spearman(sure.loc[kept.index, name], kept)
            values[name] = rho
            charts[f"{name}, {threat}"] = PointChart(
                f"{scope.metric} ratio under {threat} against {name}",
                f"One point per model: {axis.title} across, the kept share of the clean {scope.metric} up.",
                axis,
                Axis(f"{scope.metric} ratio (%)", percent=True),
                series=[
                    Series(model, [x], [y], labels=[model], style=style)
                    for style, (model, x, y) in enumerate(
                        zip(kept.index, sure.loc[kept.index, name].tolist(), kept.tolist(), strict=True)
                    )
                ],
                note=f"Spearman {rho.value:.2f}, n = {len(kept)}",
            )
        rows.append([threat, *values.values(), len(kept)])
    if not charts:
        return None
    caption = "Models that keep more the surer they are may only hide their gradient; look at what transfers to them."
    columns = [
        Column("attack"),
        *(Column(f"Spearman with {name}", "number") for name in ACROSS),
        Column("models", "count"),
    ]
    table = Table(
        f"certainty-table-{scope.id}",
        f"{scope.metric} ratio against confidence and entropy",
        columns,
        rows,
        "Ranges are 95 % intervals over models, from six models on.",
    )
    panel = Panel(f"certainty-{scope.id}", "How sure, how robust", caption, charts, "figure")
    return Section(f"certainty-section-{scope.id}", "Confidence and robustness", [panel, table])


def clean_certainty(scope: Scope) -> pd.DataFrame:
    """Confidence and entropy on clean images, a row per model that has both."""
    if scope.task != SEGMENTATION:
        return pd.DataFrame()
    rows = scope.frame
    rows = rows[rows["kind"].eq("clean") & rows["view"].eq("all") & rows["class_name"].eq("")]
    rows = rows[rows["metric"].isin(list(ACROSS))]
    wide = rows.drop_duplicates(["model", "metric"], keep="last").pivot(index="model", columns="metric", values="value")
    return wide.reindex(index=scope.models, columns=list(ACROSS)).dropna()


def _ratio(scope: Scope, model: str, threat: str) -> float:
    return float(np.asarray(divide(scope.figure(model, threat).value, scope.clean(model).value)))


def _spearman(first: pd.Series, second: pd.Series) -> Interval:
    found = correlate(first, second)
    value, low, high = found.loc[found["coefficient"].eq("spearman"), ["value", "low", "high"]].to_numpy(float)[0]
    return Interval(float(value), float(low), float(high))

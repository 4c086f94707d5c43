"""The chart of one evaluation: its figure of every class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauntlet.errors import GauntletError
from gauntlet.report.charts import Axis, BarChart, Series
from gauntlet.report.render import vector
from gauntlet.results.record import Evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_evaluation(evaluation: Evaluation, axes: Axes | None = None) -> Axes:
    """Draws the chart of an evaluation with Matplotlib; on new axes of pyplot where none are given."""
    return vector.plot(evaluation_chart(evaluation), axes)


def evaluation_chart(evaluation: Evaluation) -> BarChart:
    """Bars of the first figure per class (IoU, AP); of the headline figures where there is none per class."""
    per_class = evaluation.per_class
    if per_class.empty and not evaluation.headline:
        raise GauntletError("this evaluation has no figure of classes and none of its task to draw.")
    if per_class.empty:
        title, values = "", evaluation.headline
    else:
        title = next(figure.metric for figure in evaluation.all_figures if figure.class_name and figure.view == "all")
        values = {str(name): float(value) for name, value in per_class[title].items()}
    names = list(values)
    return BarChart(
        title=f"{evaluation.model}, {evaluation.dataset}, {evaluation.threat}\n{evaluation.headline_text}",
        alt=f"Bars of {title or 'the figures'} of {evaluation.model}.",
        x=Axis(f"{title} in %".strip(), percent=True, whole=True),
        y=Axis("", categories=names),
        series=[Series("", list(values.values()), names)],
    )

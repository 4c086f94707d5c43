"""Batteries: how strong they are after each attack, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.analysis import strength_over_cost
from gauntlet.report.charts import Axis, Chart, LineChart, Panel, Series
from gauntlet.report.document import Section
from gauntlet.report.image_figures import Images
from gauntlet.report.scope import Scope
from gauntlet.report.scope_ranking import Ranking
from gauntlet.results import Evaluation
from gauntlet.tasks import get_task

CAPTION = (
    "The mean over images of their worst case so far, after every attack of the battery; the first point is the clean "
    "image. A curve that is flat at its end has reached what this battery can; one that still falls has not."
)


def section(
    scope: Scope, ranking: Ranking, images: Mapping[tuple[str, str], Images], evaluations: Mapping[str, Evaluation]
) -> Section | None:
    """Strength over cost of every battery.

    Args:
        scope: the evaluations of one dataset.
        ranking: their order.
        images: by model and threat.
        evaluations: by key.
    """
    metric = get_task(scope.task).image_figure
    keys = scope.latest_keys()
    charts: dict[str, Chart] = {}
    for threat in scope.threats:
        lines = []
        for index, model in enumerate(ranking.models):
            evaluation = evaluations.get(keys.get((model, threat), ""))
            if evaluation is None or not _has_passes_by_attack(images.get((model, threat))):
                continue
            points = strength_over_cost(evaluation.per_image, metric)
            x, y = points["passes"].tolist(), points["value"].tolist()
            lines.append(Series(model, x, y, labels=points["attack"].tolist(), style=index))
        if lines:
            charts[threat] = LineChart(
                f"Worst case against passes: {threat}",
                f"Worst-case {metric} of every model after each attack of {threat}, over the passes it took.",
                Axis("forward passes per image"),
                Axis(f"worst-case {metric} (%)", percent=True, whole=True),
                series=lines,
            )
    if not charts:
        return None
    panel = Panel(f"cost-{scope.id}", "Strength over cost", CAPTION, charts, "battery")
    return Section(f"batteries-{scope.id}", "Batteries", [panel])


def _has_passes_by_attack(images: Images | None) -> bool:
    """Whether a battery's passes were stored by attack; version 0.1.0 stored their sum."""
    return images is not None and any(key.startswith("forwards ") for key in images.details[0])

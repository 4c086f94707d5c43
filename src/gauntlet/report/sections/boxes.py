"""What a detector's mAP is made of: overlap, size, recall, and how boxes go wrong."""

from __future__ import annotations

import math

from gauntlet.report.document import Section
from gauntlet.report.scope import Scope
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.tables import Cell, Column, Table
from gauntlet.tasks import DETECTION

COLUMNS = (
    Column("mAP", "percent", heat=True, note="COCO: mean over IoU thresholds 0.50 to 0.95"),
    Column("mAP50", "percent", heat=True, note="at IoU 0.50"),
    Column("mAP75", "percent", heat=True, note="at IoU 0.75"),
    Column("mAP_small", "percent", heat=True, note="objects of at most 32² pixels"),
    Column("mAP_medium", "percent", heat=True, note="objects of 32² to 96² pixels"),
    Column("mAP_large", "percent", heat=True, note="objects of at least 96² pixels"),
    Column("AR_100", "percent", heat=True, note="recall with at most 100 boxes per image and class"),
    Column("VOC_mAP50", "percent", heat=True, note="PASCAL VOC's mAP at IoU 0.50"),
    Column("F1_images", "percent", heat=True, note="mean F1 of an image at score 0.5 and IoU 0.5"),
    Column(
        "boxes_per_image", "number", note="of a score of at least 0.5: fewer where objects vanish, more where made up"
    ),
    Column("mislabel_rate", "percent", note="of the boxes on an object, those with another class"),
)


def section(scope: Scope, ranking: Ranking) -> Section | None:
    """Every figure of boxes, a row per threat and model; nothing where there are none."""
    names = [column.name for column in COLUMNS]
    rows = scope.frame[scope.frame["class_name"].eq("") & scope.frame["view"].eq("all")]
    rows = rows[rows["metric"].isin(names)]
    if scope.task != DETECTION or rows["metric"].nunique() < 2:
        return None
    values = {
        (str(model), str(threat), str(metric)): float(value)
        for model, threat, metric, value in rows[["model", "threat", "metric", "value"]].itertuples(index=False)
    }
    several = len(ranking.models) > 1
    pairs = dict.fromkeys((model, threat) for model, threat, _ in values)
    cells: list[list[Cell]] = [
        [threat, *([model] if several else []), *(values.get((model, threat, name), math.nan) for name in names)]
        for threat in scope.threats
        for model in ranking.models
        if (model, threat) in pairs
    ]
    caption = (
        "Where boxes per image fall, objects vanish; where they rise, objects are made up; where the mislabel rate "
        "rises, objects are found and called something else. A dash: no object of that size."
    )
    columns = [Column("threat"), *([Column("model")] if several else []), *COLUMNS]
    table = Table(f"boxes-figures-{scope.id}", "Figures of boxes", columns, cells, caption)
    return Section(f"boxes-{scope.id}", "Boxes", [table])

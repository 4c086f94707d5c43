"""Whether confidence can be relied on: reliability diagrams, calibration, failure detection under every threat."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

import numpy as np

from gauntlet.analysis.bravo import bravo_index
from gauntlet.metrics.segmentation.calibration import PooledConfidence
from gauntlet.numbers import format_percent
from gauntlet.report.charts import Axis, Chart, ConfidenceBin, Panel, ReliabilityChart
from gauntlet.report.document import Block, Section
from gauntlet.report.image_figures import Images, LabelImages
from gauntlet.report.scope import Scope
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.tables import Cell, Column, Table

COLUMNS = (
    Column("ECE", "percent", note="expected calibration error: mean distance of confidence and accuracy, 15 bins"),
    Column("overconfidence", "percent", note="the part of it that is too confident"),
    Column("AUROC", "percent", heat=True, note="how often a right pixel is surer than a wrong one"),
    Column("FPR95", "percent", note="wrong pixels that pass when 95 % of the right ones do"),
    Column(
        "AUPR_error", "percent", heat=True, note="area of precision over recall when unsure pixels are called wrong"
    ),
    Column("Brier", "number", note="mean squared distance of the probabilities from the truth, 0 to 2"),
    Column("NLL", "number", note="mean of -ln p of the true class, nats"),
    Column("AUROC_region", "percent", heat=True, note="how often a pixel in the region of the threat is less sure"),
)
RANKED = ("AUROC", "FPR95")
"""Figures of the order of pixels, which bins know up to bounds."""
LEAST_OPEN = 0.005
"""A distance of bounds that is worth printing; less is for small figures, a hundredth of them."""
_Bounds = dict[tuple[str, str], dict[str, str]]


def section(scope: Scope, ranking: Ranking, images: Mapping[tuple[str, str], Images]) -> Section | None:
    """Diagrams and figures; nothing where no evaluation has histograms of confidence (version 0.1.0, detectors)."""
    pooled = {
        pair: of_pair.reliability
        for pair, of_pair in images.items()
        if isinstance(of_pair, LabelImages) and of_pair.reliability is not None
    }
    if not pooled:
        return None
    blocks: list[Block] = [diagrams(scope, ranking, pooled), figure_table(scope, ranking), index_table(scope, ranking)]
    return Section(f"calibration-{scope.id}", "Confidence", blocks)


def diagrams(scope: Scope, ranking: Ranking, pooled: Mapping[tuple[str, str], PooledConfidence]) -> Panel:
    """A reliability diagram of every model under every threat."""
    charts: dict[str, Chart] = {}
    clean_name = next(iter(scope.of_kind("clean")), "")
    for model in ranking.models:
        for threat in scope.threats:
            of_pair = pooled.get((model, threat))
            if of_pair is None:
                continue
            name = threat if len(ranking.models) == 1 else f"{model}: {threat}"
            clean = pooled.get((model, clean_name)) if threat != clean_name else None
            charts[name] = reliability_chart(f"Reliability, {model}, {threat}", of_pair, clean)
    caption = (
        "Pixels by confidence: on the diagonal a model is right as often as it says. Orange gaps: it is too confident. "
        "Pale bars hold few pixels, hatched ones fewer than 20; the grey histogram shows how many."
    )
    return Panel(f"reliability-{scope.id}", "Reliability diagrams", caption, charts, "threat")


def reliability_chart(title: str, pooled: PooledConfidence, clean: PooledConfidence | None) -> ReliabilityChart:
    """One diagram; `clean` is drawn as a line."""
    values = {name: float(value[0]) for name, value in pooled.figures().items()}
    note = f"ECE {100 * values['ECE']:.1f} %, overconfidence {100 * values['overconfidence']:.1f} %"
    return ReliabilityChart(
        title,
        f"Accuracy of pixels over their confidence. {note}.",
        Axis("confidence (%)", percent=True, whole=True),
        Axis("accuracy (%)", percent=True, whole=True),
        bins=_bins(pooled),
        clean=() if clean is None else _bins(clean),
        note=note,
    )


def _bins(pooled: PooledConfidence) -> list[ConfidenceBin]:
    pixels = pooled.right[0] + pooled.wrong[0]
    total = pixels.sum()
    return [
        ConfidenceBin(
            float(pooled.confidence[0, index] / pixels[index]),
            float(pooled.right[0, index] / pixels[index]),
            int(pixels[index]),
            float(pixels[index] / total),
        )
        for index in np.flatnonzero(pixels)
    ]


def figure_table(scope: Scope, ranking: Ranking) -> Table:
    """The figures of calibration and failure detection, a row per threat and model."""
    names = [column.name for column in COLUMNS]
    rows = scope.frame[scope.frame["class_name"].eq("") & scope.frame["view"].eq("all")]
    sides = [f"{name}_{side}" for name in RANKED for side in ("low", "high")]
    rows = rows[rows["metric"].isin([*names, *sides])]
    values = {
        (str(model), str(threat), str(metric)): float(value)
        for model, threat, metric, value in rows[["model", "threat", "metric", "value"]].itertuples(index=False)
    }
    shown = [column for column in COLUMNS if any(name == column.name for _, _, name in values)]
    pairs = {(model, threat) for model, threat, _ in values}
    bounds = _bounds(values, pairs)
    wide = [name for name in RANKED if any(name in of_pair for of_pair in bounds.values())]
    cells: list[list[Cell]] = [
        [
            threat,
            model,
            *(values.get((model, threat, column.name), math.nan) for column in shown),
            *(bounds[model, threat].get(name, "") for name in wide),
        ]
        for threat in scope.threats
        for model in ranking.models
        if (model, threat) in pairs
    ]
    caption = (
        "Pooled over the pixels of all images. A dash: undefined, or computed by a version that kept no histograms."
    )
    note = "% in which the figure of single pixels lies, where bins leave more than half a point open"
    columns = [Column("threat"), Column("model"), *shown, *(Column(f"{name} bounds", note=note) for name in wide)]
    return Table(f"calibration-figures-{scope.id}", "Calibration and failure detection", columns, cells, caption)


def _bounds(values: Mapping[tuple[str, str, str], float], pairs: Set[tuple[str, str]]) -> _Bounds:
    """Bounds of ranked figures by model and threat, where bins leave more open than half a point or a hundredth."""
    bounds: _Bounds = {pair: {} for pair in pairs}
    for model, threat in pairs:
        for name in RANKED:
            value, low, high = (values.get((model, threat, name + side), math.nan) for side in ("", "_low", "_high"))
            if high - low > min(LEAST_OPEN, 0.01 * value):
                bounds[model, threat][name] = f"{format_percent(low)} to {format_percent(high)}"
    return bounds


def index_table(scope: Scope, ranking: Ranking) -> Table:
    """The BRAVO index of every model over its evaluations."""
    table = bravo_index(scope.frame).set_index("model")
    rows: list[list[Cell]] = []
    for model in ranking.models:
        if model in table.index:
            row = table.loc[[model]].iloc[-1]
            scores = [float(row[name]) for name in ("bravo_index", "semantic_hmean", "ood_hmean")]
            rows.append([model, *scores, len(row["threats"].split(", ")), row["zero"]])
    columns = [
        Column("model"),
        Column("BRAVO index", "percent", heat=True, note="harmonic mean of the next two"),
        Column(
            "semantic", "percent", note="harmonic mean of mIoU, 1-ECE, AUROC, 1-FPR95 and both AUPR, all evaluations"
        ),
        Column("region", "percent", note="harmonic mean of AUROC, AUPR and 1-FPR95 of noticing a threat's region"),
        Column("evaluations", "count"),
        Column("zero because of"),
    ]
    caption = "Indices can be compared only over the same threats. One figure of 0 makes a harmonic mean 0."
    return Table(f"bravo-{scope.id}", "BRAVO index", columns, rows, caption)

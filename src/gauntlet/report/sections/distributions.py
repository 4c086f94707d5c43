"""Single images: how they are spread, which are worst, how small a perturbation fools them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gauntlet.analysis import median_perturbation, minimum_norms, perturbation_cdf
from gauntlet.analysis.distribution import AGGREGATED, QUANTILES
from gauntlet.report.charts import Axis, Box, BoxChart, Chart, LineChart, Panel, Series
from gauntlet.report.document import Block, Section
from gauntlet.report.image_figures import BoxImages, Images, LabelImages
from gauntlet.report.scope import MINIMUM, Scope
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.tables import Cell, Column, Table

DEFAULT_THRESHOLD = 0.99
MODEL, THREAT = "model: ", "threat: "

ImagesOf = Mapping[tuple[str, str], Images]
"""The images of evaluations by model and threat."""


@dataclass(frozen=True)
class Words:
    """How the images of a task are spoken of.

    Attributes:
        images: has the names of the figures.
        marks: what the dot and the diamond of a chart are.
        dataset, mean: what the two figures are.
        ratio: what a small quotient of them means; "" where it means nothing.
    """

    images: type[Images]
    marks: str
    dataset: str
    mean: str
    ratio: str = ""


WORDS: dict[type[Images], Words] = {
    LabelImages: Words(
        LabelImages,
        "The dot is NmIoU (mean over images), the diamond CmIoU (the usual mIoU over the dataset): where NmIoU falls "
        "faster, small objects and rare classes go first.",
        "mean of class IoUs over the dataset",
        "mean over images of their mIoU",
        "smaller under a threat: small objects go first",
    ),
    BoxImages: Words(
        BoxImages,
        "The F1 of an image counts detections of a score of at least 0.5 that lie on an object of their class (IoU of "
        "at least 0.5). The dot is its mean over images, the diamond the mAP of the dataset.",
        "COCO's mAP over the dataset",
        "mean over images of their F1 at score 0.5 and IoU 0.5",
    ),
}
LEVELS = [f"q{100 * level:02.0f}" for level in QUANTILES]


def section(scope: Scope, ranking: Ranking, images: ImagesOf) -> Section | None:
    """Distributions over images.

    Args:
        scope: the evaluations.
        ranking: their order.
        images: the images of the evaluations.
    """
    if not images:
        return None
    words = WORDS[type(next(iter(images.values())))]
    summaries = image_table(scope, ranking, images)
    blocks: list[Block] = [box_panel(scope, ranking, summaries, words), worst_table(scope, summaries, words)]
    blocks += perturbation_blocks(scope, ranking, images)
    return Section(f"images-{scope.id}", "Single images", blocks)


def image_table(scope: Scope, ranking: Ranking, images: ImagesOf) -> pd.DataFrame:
    """One row per model and threat: the mean over images, the dataset figure, quantiles and the worst image.

    As `gauntlet.analysis.image_summary` gives it, from arrays: a report makes thousands of these rows.
    """
    rows = []
    for threat in scope.threats:
        for model in ranking.models:
            of_pair = images.get((model, threat))
            if of_pair is None or np.isnan(of_pair.values).all():
                continue
            worst = int(np.nanargmin(of_pair.values))
            rows.append(
                {
                    "model": model,
                    "threat": threat,
                    "mean": float(np.nanmean(of_pair.values)),
                    "dataset": scope.figure(model, threat).value,
                    **dict(zip(LEVELS, np.nanquantile(of_pair.values, QUANTILES).tolist(), strict=True)),
                    "worst_image": of_pair.ids[worst],
                    "worst": float(of_pair.values[worst]),
                }
            )
    return pd.DataFrame(rows)


def box_panel(scope: Scope, ranking: Ranking, summaries: pd.DataFrame, words: Words) -> Panel:
    """Boxes of the figure of single images: the threats of one model, or the models under one threat."""
    charts: dict[str, Chart] = {}
    for prefix, fixed, varying, order in (
        (MODEL, "model", "threat", ranking.models),
        (THREAT, "threat", "model", list(scope.threats)),
    ):
        for name in order:
            rows = summaries[summaries[fixed].eq(name)]
            if len(rows):
                charts[prefix + name] = _boxes(name, rows, varying, words)
    caption = f"Boxes hold the middle half of the images, whiskers 5 to 95 %. {words.marks}"
    return Panel(f"spread-{scope.id}", f"Image-wise {words.images.figure}", caption, charts, "view")


def _boxes(name: str, rows: pd.DataFrame, varying: str, words: Words) -> BoxChart:
    boxes = []
    for label, mean, dataset, *quantiles in rows[[varying, "mean", "dataset", *LEVELS]].itertuples(index=False):
        low, lower, middle, upper, high = map(float, quantiles)
        boxes.append(Box(str(label), (low, lower, middle, upper, high), float(mean), float(dataset)))
    figure = words.images.figure
    return BoxChart(
        f"Image-wise {figure}, {name}",
        f"Spread of the {figure} of single images for {name}, one box per {varying}.",
        Axis(f"{figure} of an image (%)", percent=True, whole=True),
        Axis("", categories=[box.name for box in boxes]),
        boxes=boxes,
        marks=(words.images.mean, words.images.dataset),
    )


def worst_table(scope: Scope, summaries: pd.DataFrame, words: Words) -> Table:
    """The worst image of every evaluation beside both means; of label maps also the size indicator NmIoU / CmIoU."""
    mean, dataset = words.images.mean, words.images.dataset
    ratio = [Column(f"{mean} / {dataset}", "number", note=words.ratio)] if words.ratio else []
    columns = [
        Column("threat"),
        Column("model"),
        Column(dataset, "percent", heat=True, note=words.dataset),
        Column(mean, "percent", heat=True, note=words.mean),
        *ratio,
        Column("5 % quantile", "percent", heat=True, note="one image in twenty is worse"),
        Column("worst image", "percent", heat=True),
        Column("which", "code"),
    ]
    rows: list[list[Cell]] = []
    for row in summaries.to_dict("records"):
        whole, single = float(row["dataset"]), float(row["mean"])
        head: list[Cell] = [str(row["threat"]), str(row["model"]), whole, single]
        if ratio:
            head.append(single / whole if whole > 0 else float("nan"))
        rows.append([*head, float(row["q05"]), float(row["worst"]), str(row["worst_image"])])
    return Table(
        f"worst-{scope.id}", "Worst images", columns, rows, "Sort by any column to see where single images fail."
    )


def perturbation_blocks(scope: Scope, ranking: Ranking, images: ImagesOf) -> list[Block]:
    """For attacks that look for the smallest perturbation: how many images fall to which size."""
    norms = _norms(scope)
    largest = _largest(images, norms)
    charts: dict[str, Chart] = {}
    rows: list[list[Cell]] = []
    for norm in dict.fromkeys(norm for norm, _ in norms.values()):
        aggregated = []
        for index, model in enumerate(ranking.models):
            parts = [
                _smallest(of_pair, threat, threshold)
                for threat, (its_norm, threshold) in norms.items()
                if its_norm == norm and (of_pair := images.get((model, threat))) is not None
            ]
            if not parts:
                continue
            minimum = pd.concat(parts, ignore_index=True)
            shares = perturbation_cdf(minimum)
            lines = [
                _cdf_series(str(attack), part, largest, number)
                for number, (attack, part) in enumerate(shares.groupby("attack", sort=False))
            ]
            charts[f"{model} ({norm})"] = _cdf_chart(f"Smallest perturbations ({norm}), {model}", norm, lines)
            aggregated.append(_cdf_series(model, shares[shares["attack"].eq(AGGREGATED)], largest, index))
            for attack, median, fooled, count in median_perturbation(minimum).itertuples(index=False):
                rows.append([model, str(attack), norm, float(median), float(fooled), int(count)])
        if len(aggregated) > 1:
            title = f"all models ({norm})"
            charts = {
                title: _cdf_chart(f"Smallest perturbations ({norm}), best attack per image", norm, aggregated),
                **charts,
            }
    if not charts:
        return []
    caption = (
        "F(epsilon): the share of images that some perturbation of at most this size fools. Left and high is weak."
    )
    columns = [
        Column("model"),
        Column("attack"),
        Column("norm"),
        Column("median size (of 255)", "number", note="half of the images fall to this size"),
        Column("fooled", "percent", heat=True, note="images with any success"),
        Column("images", "count"),
    ]
    return [
        Panel(f"smallest-{scope.id}", "Smallest perturbations", caption, charts, "model"),
        Table(f"medians-{scope.id}", "Median smallest perturbation", columns, rows),
    ]


def _largest(images: ImagesOf, threats: Mapping[str, object]) -> float:
    """The largest perturbation of all, in grey levels: where the axis ends."""
    sizes = [of_pair.detail("norm") for (_, threat), of_pair in images.items() if threat in threats]
    finite = [each[np.isfinite(each)].max(initial=0.0) for each in sizes]
    return 255 * float(max(finite, default=0.0))


def _cdf_series(name: str, part: pd.DataFrame, largest: float, style: int) -> Series:
    """A distribution function from the smallest perturbation above 0, from which a logarithmic axis can begin, to the
    end of the axis; images that are wrong at first are in its first share."""
    part = part[part["grey_level"] > 0]
    levels, shares = part["grey_level"].astype(float).tolist(), part["share"].astype(float).tolist()
    return Series(name, [*levels, largest], [*shares, shares[-1] if shares else 0.0], style=style)


def _smallest(images: Images, threat: str, threshold: float) -> pd.DataFrame:
    """The smallest successful perturbation of every image by one attack; what is not right counts as fooled."""
    frame = images.frame()
    fooled = frame.assign(view=threat, share=1 - frame["right"], norm=images.detail("norm"))
    return minimum_norms(fooled, threshold)


def _norms(scope: Scope) -> dict[str, tuple[str, float]]:
    """Norm and success share of the attacks that have no epsilon, by threat."""
    norms = {}
    for threat, kind, description in scope.evaluations[["threat", "kind", "description"]].itertuples(index=False):
        if kind == MINIMUM:
            options = json.loads(description)["attack"]
            norms[str(threat)] = (str(options.get("norm", "linf")), float(options.get("threshold", DEFAULT_THRESHOLD)))
    return norms


def _cdf_chart(title: str, norm: str, series: list[Series]) -> LineChart:
    return LineChart(
        title,
        "Share of images fooled by a perturbation of at most the given size.",
        Axis(f"size of the perturbation ({norm}, grey levels of 255)", log=True),
        Axis("images fooled (%)", percent=True, whole=True),
        series=series,
        steps=True,
    )

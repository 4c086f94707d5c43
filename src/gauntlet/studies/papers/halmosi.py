"""Halmosi et al.: Evaluating the Adversarial Robustness of Semantic Segmentation. docs/specs/studies.md, 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from gauntlet.analysis import (
    by_size,
    mean_optimality,
    median_perturbation,
    minimum_norms,
    optimality_table,
    perturbation_cdf,
    stored_objects,
)
from gauntlet.analysis.distribution import AGGREGATED
from gauntlet.analysis.size_bias import FRACTION_NAMES, LARGE_OBJECTS, SMALL_OBJECTS, kept_recall
from gauntlet.metrics.arithmetic import divide
from gauntlet.metrics.intervals import mean_of_images
from gauntlet.metrics.segmentation.figures import image_accuracy
from gauntlet.report.charts import Axis, Chart, LineChart, Panel, PointChart, Series
from gauntlet.report.document import Block
from gauntlet.report.tables import Cell, Column, Table
from gauntlet.studies.contract import Claim, Study, studies
from gauntlet.studies.drawings import slug
from gauntlet.studies.figures import FloatArray, interval
from gauntlet.studies.papers.halmosi_training import HALF, NORMAL, SEA, WHOLE, trained
from gauntlet.studies.results import FOREGROUND, Results, measured

PLAIN, CLEAN, ATTACKED = "plain", "clean", "aggregated"
BINS = 20
FIGURES = {
    3: "PSPNet, Normal and SegPGD-AT-100, datasets not named",
    7: "PSPNet and DeepLabv3 on Cityscapes",
    8: "PSPNet and DeepLabv3 on PASCAL VOC",
    10: "UPerNet, Normal and SEA-AT, on PASCAL VOC",
    11: "UPerNet, Normal and SEA-AT, on PASCAL VOC, background ignored",
}
"""What the figures of distributions are of, by number."""
BACKGROUND = 0
"""PASCAL VOC's background."""
MINIMUM: dict[str, dict[str, Any]] = {
    "alma-prox": {"name": "alma-prox"},
    "dag-0.001": {"name": "dag", "alpha": 0.001, "steps": 200},
    "dag-0.003": {"name": "dag", "alpha": 0.003, "steps": 200},
    "pdpgd": {"name": "pdpgd"},
}
SETTING = (
    "PSPNet and DeepLabv3 (ResNet-50) trained normally and adversarially in six ways, UPerNet-ConvNeXt with SEA-AT; "
    "PASCAL VOC and Cityscapes."
)


def battery(**options: Any) -> dict[str, Mapping[str, Any] | str]:
    """Clean images, and the worst of the ten attacks per image.

    Every attack runs on every image, as tables of single attacks need it, and objects are kept wherever there is no
    background to ignore: so one evaluation serves all tables and figures.
    """
    return {CLEAN: "clean", ATTACKED: {"battery": {"name": "halmosi", "epsilon": "8/255", "skip": False, **options}}}


# Histograms --------------------------------------------------------------------------------------------------------


def gap(results: Results, threat: str, view: str) -> FloatArray:
    """(R,) CmIoU minus NmIoU: above 0 where large objects carry the dataset's figure."""
    return np.asarray(results.miou(PLAIN, threat, view=view) - results.nmiou(PLAIN, threat, view=view))


def histograms(view: str) -> Callable[[Results], list[Block]]:
    """Draws the share of images over their mIoU, clean and attacked, with CmIoU and NmIoU as lines."""

    def drawing(results: Results) -> list[Block]:
        title = "Image-wise mIoU" + (", background ignored" if view == FOREGROUND else "")
        charts: dict[str, Chart] = {}
        rows: list[list[Cell]] = []
        for threat in (CLEAN, ATTACKED):
            means = {
                "CmIoU": results.miou(PLAIN, threat, view=view),
                "NmIoU": results.nmiou(PLAIN, threat, view=view),
            }
            rows.append([threat, *(interval(each) for each in means.values()), interval(gap(results, threat, view))])
            values = results.image_miou(PLAIN, threat, view=view)
            charts[threat] = _histogram(
                f"{title}, {threat}", values, {name: float(each[0]) for name, each in means.items()}
            )
        columns = [
            Column("images"),
            Column("CmIoU", "percent", heat=True, note="mean of class IoUs over the dataset"),
            Column("NmIoU", "percent", heat=True, note="mean over images of their mIoU"),
            Column("CmIoU - NmIoU", "points", note="above 0: large objects carry the figure"),
        ]
        name = slug(f"{results.chosen}-{title}")
        caption = f"Share of the images in {BINS} bins of their own mIoU; the lines are the two means."
        table = Table(f"table-{name}", title, columns, rows, "95 % intervals over images.")
        return [table, Panel(f"panel-{name}", title, caption, charts, "images")]

    return drawing


def _histogram(title: str, values: FloatArray, lines: Mapping[str, float]) -> LineChart:
    finite = values[np.isfinite(values)]
    counts, edges = np.histogram(finite, BINS, (0.0, 1.0))
    shares = counts / max(len(finite), 1)
    top = float(shares.max(initial=0.0))
    series = [Series("images", [0.0, *edges.tolist()], [0.0, *shares.tolist(), 0.0])]
    series += [
        Series(f"{name} {100 * value:.1f} %", [value, value], [0.0, top], style=style)
        for style, (name, value) in enumerate(lines.items(), start=1)
        if np.isfinite(value)
    ]
    return LineChart(
        title,
        "Share of the images over their mIoU, with the mean over classes and the mean over images as lines.",
        Axis("mIoU of an image (%)", percent=True, whole=True),
        Axis("share of the images (%)", percent=True),
        series=series,
        steps=True,
    )


def histogram_study(number: int, view: str, also: Sequence[int], unknown: str, **options: Any) -> Study:
    """One of the figures of distributions."""
    ignoring = view == FOREGROUND
    return Study(
        name=f"halmosi/figure-{number}",
        title="How the mIoU of single images is spread" + (", background ignored" if ignoring else ""),
        question="Does the mean over classes hide images that an attack destroys?",
        setting=f"{SETTING} Ten attacks at 8/255, the worst per image."
        + (" Pixels of the background are ignored by attacks and figures." if ignoring else ""),
        finding="SEA-AT-Small under attack: CmIoU 32.66, NmIoU 12.89 %; the gap is its size bias. Models trained with "
        "half adversarial batches look like normal ones, those with wholly adversarial ones keep something.",
        unknown=unknown,
        members={PLAIN: "{model}"},
        threats=battery(**options),
        drawing=measured(histograms(view)),
        claims=[
            Claim(
                "Under the aggregated attack CmIoU is above NmIoU: large objects carry the figure.",
                measured(lambda results: gap(results, ATTACKED, view)),
            ),
            Claim(
                "The attack widens the gap between CmIoU and NmIoU.",
                measured(lambda results: np.asarray(gap(results, ATTACKED, view) - gap(results, CLEAN, view))),
            ),
        ],
        needs="a dataset with a background class, such as voc" if ignoring else "",
        background=ignoring,
        objects=not ignoring,
        also=tuple(f"halmosi/figure-{each}" for each in also),
        about={f"halmosi/figure-{each}": f"Figure {each}: {FIGURES[each]}." for each in also},
    )


# Size bias ---------------------------------------------------------------------------------------------------------


def objects_of(results: Results) -> pd.DataFrame:
    """The objects of all images, clean and attacked."""
    clean, attacked = (results.evaluation(PLAIN, threat).key for threat in (CLEAN, ATTACKED))
    return stored_objects(results.store, clean, attacked)


def small_objects_lose(results: Results) -> FloatArray:
    """(R,) share of the clean mean recall that large objects keep minus that of small ones."""
    found, images = objects_of(results), results.image_ids(PLAIN, CLEAN)
    small, large = (kept_recall(found, images, results.weights, *bounds) for bounds in (SMALL_OBJECTS, LARGE_OBJECTS))
    return np.asarray(large - small)


def size_drawing(results: Results) -> list[Block]:
    """Recall of objects by size, clean and attacked."""
    table = by_size(objects_of(results))
    table = table[table["objects"] > 0]
    names = [FRACTION_NAMES[index] for index in table["bin"]]
    columns = [
        Column("size (share of the image)"),
        Column("objects", "count"),
        Column("clean recall", "percent", heat=True),
        Column("attacked recall", "percent", heat=True),
        Column("kept", "percent", heat=True, note="attacked over clean recall"),
    ]
    table = table.assign(kept=divide(table["recall"], table["clean_recall"]))
    figures = table[["objects", "clean_recall", "recall", "kept"]].itertuples(index=False)
    rows: list[list[Cell]] = [
        [name, int(count), *(float(each) for each in values)]
        for name, (count, *values) in zip(names, figures, strict=True)
    ]
    title = "Recall by size"
    name = slug(f"{results.chosen}-{title}")
    chart = PointChart(
        title,
        "Recall of objects on clean and attacked images, a row per size.",
        Axis("recall (%)", percent=True, whole=True),
        Axis("share of the image", categories=names),
        series=[
            Series(word, table[column].astype(float).tolist(), names, labels=[word] * len(names), style=style)
            for style, (word, column) in enumerate((("clean", "clean_recall"), ("attacked", "recall")))
        ],
    )
    caption = "An object is a connected component of one class, background left out."
    return [
        Table(f"table-{name}", title, columns, rows, caption),
        Panel(f"panel-{name}", title, caption, {title: chart}),
    ]


SIZE = Study(
    name="halmosi/figure-2",
    title="Small objects fall first",
    question="Does an attack take small objects before large ones?",
    setting="Two images of birds, a small and a large one, under the aggregated attack; two models, one SEA-AT-Tiny.",
    finding="The small birds vanish, the large one survives.",
    unknown="The second model. The paper shows two pictures; here every connected object of the dataset is counted, "
    "specks too, which are mostly missed before any attack and have little to lose.",
    members={PLAIN: "{model}"},
    threats=battery(),
    drawing=measured(size_drawing),
    claims=[
        Claim(
            f"Of objects of at least {100 * LARGE_OBJECTS[0]:g} % of the image a larger share of the clean mean recall "
            f"is kept than of those below {100 * SMALL_OBJECTS[1]:g} % (bounds ours).",
            measured(small_objects_lose),
        ),
    ],
    objects=True,
)


# Smallest perturbations --------------------------------------------------------------------------------------------


GOALS = {"99 % wrong": 0.99, "90 % wrong": 0.9}
"""The shares of wrong pixels from which on an image counts as fooled: the paper has both."""
OPTIMALITY_NOTE = "by 99 % wrong; 100: as good as the best of them on every image"


def smallest_norms(results: Results, view: str, goal: float = 0.99) -> pd.DataFrame:
    """The smallest successful perturbation of every image by every attack."""
    parts = []
    for attack in MINIMUM:
        (table,) = results.tables(PLAIN, attack, view=view)
        rows = results.evaluation(PLAIN, attack).per_image
        told = rows.reindex(columns=["image_id", "norm", "forwards", "backwards"])
        parts.append(told.assign(view=attack, share=1 - image_accuracy(table)))
    return minimum_norms(pd.concat(parts, ignore_index=True), goal)


def rising(shares: pd.DataFrame) -> pd.DataFrame:
    """The part of a distribution function in which it rises: from its last 0 to its first 1."""
    values = shares["share"].to_numpy(float)
    first = max(int((values == 0).sum()) - 1, 0)
    return shares.iloc[first : len(values) - max(int((values == 1).sum()) - 1, 0)]


def norms_by_attack(results: Results, view: str) -> FloatArray:
    """(N, attacks) the norm of the smallest perturbation of every image that fools it, infinite where none does."""
    wide = smallest_norms(results, view).pivot(index="image_id", columns="view", values="minimum")
    norms = wide.loc[results.image_ids(PLAIN, CLEAN), list(MINIMUM)].to_numpy(float)
    return np.where(np.isnan(norms), np.inf, norms)


def alma_leads(results: Results, view: str) -> FloatArray:
    """(R,) share of the images that ALMAProx fools at a small norm, minus the largest such share of another attack.

    Small is the norm up to which a quarter of the images falls to the best of the attacks.
    """
    norms = norms_by_attack(results, view)
    small = np.sort(norms.min(axis=1))[(len(norms) - 1) // 4]
    if np.isinf(small):
        return np.full(len(results.weights), np.nan)
    shares = results.weights @ (norms <= small) / results.weights.sum(axis=1, keepdims=True)
    return np.asarray(shares[:, 0] - shares[:, 1:].max(axis=1))


def fooled_up_to(results: Results, view: str, level: float) -> FloatArray:
    """(R,) share of the images that some attack fools with a norm up to a number of grey levels of 255."""
    fooled = norms_by_attack(results, view).min(axis=1) <= level / 255
    return mean_of_images(fooled).rows()


def hardly_fooled(view: str, level: float, results: Results) -> FloatArray:
    """(R,) 5 % minus the share of the images that fall up to a number of grey levels."""
    return np.asarray(0.05 - fooled_up_to(results, view, level))


def smallest_drawing(view: str) -> Callable[[Results], list[Block]]:
    """Draws which share of the images falls to which size, on a logarithmic axis."""

    def drawing(results: Results) -> list[Block]:
        title = "Smallest perturbations"
        name = slug(f"{results.chosen}-{title}")
        found = {words: smallest_norms(results, view, goal) for words, goal in GOALS.items()}
        charts: dict[str, Chart] = {words: _distribution(f"{title}, {words}", table) for words, table in found.items()}
        columns = [Column("attack")]
        rows: list[list[Any]] = [[attack] for attack in (*MINIMUM, AGGREGATED)]
        for words, minimum in found.items():
            medians = median_perturbation(minimum).set_index("attack")
            columns += [Column(f"median size (of 255), {words}", "number")]
            columns += [Column(f"fooled, {words}", "percent", heat=True)]
            for row in rows:
                row += [float(medians["median"][row[0]]), float(medians["fooled"][row[0]])]
        strength = optimality_table(next(iter(found.values()))).set_index("attack")
        columns.append(Column("passes per image", "number", note="forward and backward"))
        columns.append(Column("optimality", "percent", heat=True, note=OPTIMALITY_NOTE))
        for row in rows:
            known = row[0] in strength.index
            row += [float(strength[each][row[0]]) if known else None for each in ("queries", "optimality")]
        caption = (
            "Half of the images fall to the median size; infinite where fewer do. Fooled: images with so many wrong "
            f"pixels. Optimality: the area below the curve of images not fooled, {results.images} images; 0 for doing "
            f"nothing. The best is the smallest of {strength['best_of'].iloc[0]}; another attack would change all of "
            "them."
        )
        table = Table(f"table-{name}", title, columns, rows, caption)
        return [table, Panel(f"panel-{name}", title, caption, charts, "goal")]

    return drawing


def optimality_of_all(view: str) -> Callable[[Results], list[Block]]:
    """Tables how good every attack is on every model, and in the mean over models."""

    def drawing(results: Results) -> list[Block]:
        tables = {model: optimality_table(smallest_norms(results.of(model), view)) for model in results.models}
        found = mean_optimality(tables)
        columns = [Column("attack"), Column("mean over models", "percent", heat=True, note=OPTIMALITY_NOTE)]
        columns += [Column(model, "percent", heat=True) for model in results.models]
        rows: list[list[Cell]] = [
            [str(row["attack"]), *(float(row[each]) for each in ("optimality", *results.models))]
            for row in found.to_dict("records")
        ]
        best = next(iter(tables.values()))["best_of"].iloc[0]
        caption = (
            f"{results.images} images; the best is the smallest perturbation of {best}, for every model by itself. "
            "There is no mean where a model has no figure."
        )
        return [Table("table-optimality", "Optimality of the attacks", columns, rows, caption)]

    return drawing


def _distribution(title: str, minimum: pd.DataFrame) -> LineChart:
    shares = perturbation_cdf(minimum)
    positive = shares[shares["grey_level"] > 0]
    lines = [(str(attack), rising(part)) for attack, part in positive.groupby("attack", sort=False)]
    return LineChart(
        title,
        "Share of the images that a perturbation of at most the given size fools, one line per attack.",
        Axis("linf norm (grey levels of 255)", log=True),
        Axis("images fooled (%)", percent=True, whole=True),
        series=[
            Series(attack, part["grey_level"].tolist(), part["share"].tolist(), style=style)
            for style, (attack, part) in enumerate(lines)
        ],
        steps=True,
    )


def smallest_study(number: int, view: str, dataset: str, options: Mapping[str, Any]) -> Study:
    """One of the two figures of minimum perturbations."""
    return Study(
        name=f"halmosi/figure-{number}",
        title=f"How small a perturbation suffices ({dataset})",
        question="How small are the perturbations that fool almost every pixel?",
        setting="ALMAProx, DAG with two steps and PDPGD, not clipped, until 99 or 90 % of the pixels are wrong"
        + ("; background masked." if view == FOREGROUND else "."),
        finding="Robust below 0.25/255 (normal training), 0.5/255 (DDC-AT, SegPGD-AT), others up to about 16/255; "
        "ALMAProx is best at small norms.",
        unknown="Which share a curve has; both are drawn, the claim is judged by 99 %. No data are published.",
        members={PLAIN: "{model}"},
        threats={CLEAN: "clean", **{name: {"attack": {**own, **options}} for name, own in MINIMUM.items()}},
        drawing=measured(smallest_drawing(view)),
        together=measured(optimality_of_all(view)),
        claims=[
            Claim(
                "21: ALMAProx fools more images than any other attack at small norms, up to which a quarter falls.",
                measured(lambda results: alma_leads(results, view)),
            ),
            Claim(
                "21: trained normally, hardly an image falls up to 0.25/255 (less than 5 %, bound ours).",
                measured(partial(hardly_fooled, view, 0.25)),
                of=trained(NORMAL),
            ),
            Claim(
                "21: with half of the batches attacked, hardly one up to 0.5/255 (less than 5 %, bound ours).",
                measured(partial(hardly_fooled, view, 0.5)),
                of=trained(HALF),
            ),
            Claim(
                "21: but both fall soon after: more than half of the images up to 2/255 (bounds ours).",
                measured(lambda results: fooled_up_to(results, view, 2) - 0.5),
                of=trained(NORMAL, HALF),
            ),
            Claim(
                "21: the others withstand more: less than half of the images fall up to 2/255 (bounds ours).",
                measured(lambda results: np.asarray(0.5 - fooled_up_to(results, view, 2))),
                of=trained(WHOLE, SEA),
            ),
            Claim(
                "21: and up to 16/255 almost every image of theirs has fallen (more than 95 %, bound ours).",
                measured(lambda results: fooled_up_to(results, view, 16) - 0.95),
                of=trained(WHOLE, SEA),
            ),
        ],
        needs="a dataset with a background class" if view == FOREGROUND else "",
        background=view == FOREGROUND,
    )


HISTOGRAM = histogram_study(1, "all", (3, 7, 8, 10), "Bins (ours are 20 from 0 to 1); datasets of figure 3.")
WITHOUT_BACKGROUND = histogram_study(
    9, FOREGROUND, (11,), "Bins (ours are 20 from 0 to 1). Class 0 is the background.", ignore=[BACKGROUND]
)
SMALLEST = (
    smallest_study(15, "all", "Cityscapes", {}),
    smallest_study(16, FOREGROUND, "PASCAL VOC", {"ignore": [BACKGROUND]}),
)

for _study in (HISTOGRAM, SIZE, WITHOUT_BACKGROUND, *SMALLEST):
    studies.add(_study.name, _study, aliases=tuple(_study.also))

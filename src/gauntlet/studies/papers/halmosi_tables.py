"""Halmosi et al., Tables 1 to 7 and Figures 4, 12 to 14: ten attacks one by one, together, and which of them wins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from gauntlet.analysis import best_attack
from gauntlet.report.charts import Axis, BarChart, Chart, Panel, Series
from gauntlet.report.document import Block
from gauntlet.report.tables import Cell, Column, Table
from gauntlet.results import published
from gauntlet.studies.contract import Claim, Study, studies
from gauntlet.studies.drawings import side_by_side, slug
from gauntlet.studies.figures import UNKNOWN, Figures, FloatArray, smallest
from gauntlet.studies.papers.halmosi import ATTACKED, BACKGROUND, CLEAN, PLAIN, SETTING, battery
from gauntlet.studies.printed import Place, Printed
from gauntlet.studies.results import ACCURACY, FOREGROUND, MEAN_IOU, Results, measured
from gauntlet.threats.attacks.combined.members import battery_members

ATTACKS = tuple(battery_members["halmosi"])
"""In the order of the paper's index, 0 to 9."""
METRICS: Mapping[str, str] = {"Accuracy": "aAcc", "CmIoU": "mIoU", "NmIoU": "NmIoU"}
"""What the paper calls its figures, and what they are called here."""
DATASETS = {"voc": "VOC", "cityscapes": "Cityscapes"}
SKIPPED = "An attack has no figure where it was skipped on an image that another one had already taken wholly."


def figure(results: Figures, metric: str, threat: str, view: str, model: str) -> FloatArray:
    """(R,) one of METRICS of a model; unknown for an attack that was skipped on some image."""
    if isinstance(results, Results) and threat == ATTACKED and _name(view) in ATTACKS and skipped(results, view, model):
        return UNKNOWN
    ask = {"aAcc": results.accuracy, "mIoU": results.miou, "NmIoU": results.nmiou}[metric]
    return ask(PLAIN, threat, model, view)


def skipped(results: Results, view: str, model: str) -> bool:
    """Whether an attack of the battery was not run on an image that has something to count."""
    (own,) = results.tables(PLAIN, ATTACKED, model, view)
    (clean,) = results.tables(PLAIN, ATTACKED, model, view.replace(_name(view), CLEAN))
    return bool(((own.valid == 0) & (clean.valid > 0)).any())


def _name(view: str) -> str:
    return view.removeprefix(FOREGROUND).strip()


def of_attack(name: str, view: str) -> str:
    """The view of one attack of the battery: of the whole image, or without the background."""
    return name if view == "all" else f"{FOREGROUND} {name}"


def drawing(metrics: Sequence[str], view: str, attacks: Sequence[str], results: Figures) -> list[Block]:
    """A table per metric: models in rows; clean, every attack, and the worst of them per image."""
    blocks: list[Block] = []
    words = ", background ignored" if view == FOREGROUND else ""
    for name in metrics:
        ask = partial(figure, results, METRICS[name])
        columns: dict[str, Callable[[str], FloatArray]] = {CLEAN: partial(ask, CLEAN, view)}
        columns |= {attack: partial(ask, ATTACKED, of_attack(attack, view)) for attack in attacks}
        columns[ATTACKED] = partial(ask, ATTACKED, view)
        rule = "smallest accuracy" if METRICS[name] == "aAcc" else "smallest mIoU"
        caption = f"Aggregated: the attack that leaves the {rule} of each image. {SKIPPED if attacks else ''}".strip()
        blocks += side_by_side(results, f"{name}{words}", columns, results.models, caption)
    return blocks


def printed(number: int, view: str) -> Printed:
    """One of the tables, models with the dataset in their names."""
    rows = published.frame(source="halmosi")
    rows = rows[rows["table"].eq(str(number)) & rows["view"].eq(view)]
    figures: dict[tuple[Place, str, str], float] = {}
    for row in rows.to_dict("records"):
        name = row["threat"].partition(" ")[0].replace("almaprox", "alma-prox")
        own = view if name in (CLEAN, "halmosi") else of_attack(name, view)
        place = (f"{row['model']}, {DATASETS[row['dataset']]}", PLAIN, CLEAN if name == CLEAN else ATTACKED)
        figures[place, own, row["metric"]] = row["value"]
    return Printed(f"Table {number}", {}, of_views=figures)


def kept(results: Figures, metric: str, view: str) -> FloatArray:
    """(R,) what the worst case leaves of the clean figure."""
    ask = partial(figure, results, metric)
    model = results.chosen or results.models[0]
    return np.asarray(ask(ATTACKED, view, model) / ask(CLEAN, view, model))


def hides(view: str, results: Figures) -> FloatArray:
    """(R,) the share of the accuracy that is kept minus that of NmIoU."""
    return np.asarray(kept(results, "aAcc", view) - kept(results, "NmIoU", view))


def together_stronger(view: str, results: Figures) -> FloatArray:
    """(R,) NmIoU under the strongest single attack minus under the worst of them per image."""
    model = results.chosen or results.models[0]
    ask = partial(figure, results, "NmIoU", ATTACKED)
    alone = [ask(of_attack(name, view), model) for name in ATTACKS]
    known = [values for values in alone if not np.isnan(values[0])]
    return np.asarray(smallest(known) - ask(view, model)) if known else UNKNOWN


HIDES = "Accuracy hides what is lost: of NmIoU a smaller share is kept than of accuracy."
STRONGER = "The worst case per image lies below the strongest single attack (NmIoU)."


def table_study(
    item: str, title: str, finding: str, *, view: str = "all", single: bool = True, metrics: Sequence[str] = ()
) -> Study:
    """One of the tables.

    Args:
        item: "table-4", with a "b" at its end for the part without background.
        title, finding: of the study.
        view: "all", or "foreground" where background is ignored by attacks and figures.
        single: whether every attack has a column.
        metrics: of METRICS; all by default.
    """
    number = int(item.removeprefix("table-").rstrip("b"))
    ignoring = {"ignore": [BACKGROUND]} if view == FOREGROUND else {}
    claim = Claim(STRONGER, partial(together_stronger, view)) if single else Claim(HIDES, partial(hides, view))
    return Study(
        name=f"halmosi/{item}",
        title=title,
        question="What is left in the worst case of ten attacks?",
        setting=f"{SETTING} Ten attacks at 8/255, the worst per image.",
        finding=finding,
        unknown="The row labels of Tables 4 to 7 are shifted; the names here are resolved." if number > 3 else "",
        needs="a dataset with a background class, such as voc" if view == FOREGROUND else "",
        members={PLAIN: "{model}"},
        threats=battery(skip=False, **ignoring),
        together=partial(drawing, tuple(metrics or METRICS), view, ATTACKS if single else ()),
        claims=[claim],
        printed=partial(printed, number, view),
        background=view == FOREGROUND,
    )


_TABLE_4 = "Normal models fall to PAdam-Cos, robust ones to SEA or PAdam-CE; the worst case is below each attack."
TABLES = (
    table_study("table-1", "PSPNet and DeepLabv3, clean and in the worst case",
        "Models trained on 50 % attacked images keep at most 0.51 % accuracy; those trained on 100 % keep 39 to 70 %, "
        "NmIoU 11 to 23 (background ignored: table-1b).", single=False),
    table_study("table-1b", "PSPNet and DeepLabv3, clean and in the worst case, background ignored",
        "The foreground is more vulnerable, most of all for models trained on 100 % attacked images.",
        view=FOREGROUND, single=False),
    table_study("table-2", "UPerNet with ConvNeXt, clean and in the worst case",
        "SEA-AT-Tiny and -Small keep 71.84 and 70.57 % accuracy, CmIoU 32.79 and 32.66, NmIoU 13.20 and 12.89 "
        "(background ignored: table-2b).", single=False),
    table_study("table-2b", "UPerNet with ConvNeXt, clean and in the worst case, background ignored",
        "The foreground is more vulnerable.", view=FOREGROUND, single=False),
    table_study("table-3", "Ten attacks one by one on DeepLabv3, Cityscapes, NmIoU",
        "Aggregated 0.00, 0.02, 0.01, 0.00, 15.86 and 21.82; the best single attack leaves 17.15 (PGD-AT-100, SEA-JSD) "
        "and 23.11 (SegPGD-AT-100, PAdam-CE).", metrics=("NmIoU",)),
    table_study("table-4", "Ten attacks one by one, Cityscapes", _TABLE_4),
    table_study("table-5", "Ten attacks one by one, VOC", _TABLE_4),
    table_study("table-6", "Ten attacks one by one, VOC, background ignored", _TABLE_4, view=FOREGROUND),
    table_study("table-7", "Ten attacks one by one on UPerNet with ConvNeXt, VOC",
        "SEA-BCE is the strongest single attack on SEA-AT (background ignored: table-7b)."),
    table_study("table-7b", "Ten attacks one by one on UPerNet with ConvNeXt, VOC, background ignored",
        "SEA-BCE is the strongest single attack on SEA-AT.", view=FOREGROUND),
)  # fmt: skip


# Figures 4, 12, 13 and 14: which attack wins.


def winners_drawing(results: Results) -> list[Block]:
    """The share of the images on which each attack is the strongest, by accuracy and by mIoU."""
    per_image = results.evaluation(PLAIN, ATTACKED).per_image
    found = {by: best_attack(per_image, by, attacks=ATTACKS) for by in (MEAN_IOU, ACCURACY)}
    columns = [Column("index", "count"), Column("attack")]
    for by in found:
        columns += [Column(f"by {by}", "percent", heat=True), Column(f"by {by}, ties shared", "percent", heat=True)]
    rows: list[list[Cell]] = [
        [index, name, *(float(table[column].iloc[index]) for table in found.values() for column in ("share", "credit"))]
        for index, name in enumerate(ATTACKS)
    ]
    title = "Which attack wins"
    caption = (
        "Share of the images that an attack leaves with the smallest figure. Ties go to the first attack of the list; "
        f"in the other column they are shared. {SKIPPED}"
    )
    charts: dict[str, Chart] = {
        f"by {by}": BarChart(
            f"{title}, by {by}",
            f"Share of the images on which each of ten attacks leaves the smallest {by}.",
            Axis("share of the images (%)", percent=True),
            Axis("", categories=list(ATTACKS)),
            series=[Series("images", table["share"].tolist(), list(ATTACKS))],
        )
        for by, table in found.items()
    }
    name = slug(f"{results.chosen}-{title}")
    return [Table(f"table-{name}", title, columns, rows, caption), Panel(f"panel-{name}", title, caption, charts, "by")]


def none_dominates(results: Results) -> FloatArray:
    """(R,) 99 % minus the largest share of the images on which one attack leaves the smallest mIoU."""
    per_image = results.evaluation(PLAIN, ATTACKED).per_image
    wide = per_image[per_image["view"].isin(ATTACKS)].pivot(index="image_id", columns="view", values="mIoU")
    values = wide.loc[results.image_ids(PLAIN, CLEAN), list(ATTACKS)].to_numpy(float)  # (N, attacks)
    best = np.nan_to_num(values, nan=np.inf).argmin(axis=1)
    shares = results.weights @ (best[:, None] == np.arange(len(ATTACKS))) / results.images
    return np.asarray(0.99 - shares.max(axis=1))


WINNERS = Study(
    name="halmosi/figure-4",
    title="Which attack wins on an image",
    question="Is one of the ten attacks enough?",
    setting=f"{SETTING} Ten attacks at 8/255; chosen by mIoU (Figure 4), by accuracy and by mIoU (Figures 12 to 14).",
    finding="It differs by scenario: PAdam leads on normal models and some robust ones, SEA on SEA-AT; every attack "
    "contributes.",
    unknown="Which models Figure 4 draws, and who gets a tie; both rules are given.",
    members={PLAIN: "{model}"},
    threats=battery(skip=False),
    drawing=measured(winners_drawing),
    claims=[Claim("No attack wins on 99 % (bound ours) of the images or more (by mIoU).", measured(none_dominates))],
    also=tuple(f"halmosi/figure-{number}" for number in (12, 13, 14)),
)

for _study in (*TABLES, WINNERS):
    studies.add(_study.name, _study, aliases=tuple(_study.also))

"""Halmosi et al., Tables 1 to 7 and Figures 4, 12 to 14: ten attacks one by one, together, and which of them wins."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from gauntlet.analysis import best_attack
from gauntlet.metrics.arithmetic import divide
from gauntlet.metrics.selection import credit_per_image
from gauntlet.report.charts import Axis, BarChart, Chart, Panel, Series
from gauntlet.report.document import Block
from gauntlet.report.tables import Cell, Column, Table
from gauntlet.results import published
from gauntlet.studies.contract import Claim, Condition, Study, studies
from gauntlet.studies.drawings import side_by_side, slug
from gauntlet.studies.figures import UNKNOWN, Figures, FloatArray, largest, smallest
from gauntlet.studies.papers.halmosi import ATTACKED, BACKGROUND, CLEAN, PLAIN, SETTING, battery
from gauntlet.studies.papers.halmosi_training import HALF, NORMAL, SEA, WHOLE, normal_of, trained
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
        if view == FOREGROUND and not attacks:
            columns[WITH_BACKGROUND] = partial(ask, WITH_BACKGROUND, "all")
        rule = "smallest accuracy" if METRICS[name] == "aAcc" else "smallest mIoU"
        caption = f"Aggregated: the attack that leaves the {rule} of each image. {SKIPPED if attacks else ''}".strip()
        blocks += side_by_side(results, f"{name}{words}", columns, results.models, caption)
    return blocks


def _printed_name(row: Mapping[Hashable, Any]) -> str:
    return f"{row['model']}, {DATASETS[row['dataset']]}"


def printed(number: int, view: str) -> Printed:
    """One of the tables, models with the dataset in their names."""
    rows = published.frame(source="halmosi")
    rows = rows[rows["table"].eq(str(number))]
    figures: dict[tuple[Place, str, str], float] = {}
    for row in rows[rows["view"].eq(view)].to_dict("records"):
        name = row["threat"].partition(" ")[0].replace("almaprox", "alma-prox")
        seen = view if name in (CLEAN, "halmosi") else of_attack(name, view)
        place = (_printed_name(row), PLAIN, CLEAN if name == CLEAN else ATTACKED)
        figures[place, seen, row["metric"]] = row["value"]
    for row in rows[rows["view"].eq("all") & rows["kind"].eq("battery")].to_dict("records"):
        # Beside what ignores the background: only where both are printed.
        if view == FOREGROUND and ((_printed_name(row), PLAIN, ATTACKED), view, row["metric"]) in figures:
            figures[(_printed_name(row), PLAIN, WITH_BACKGROUND), "all", row["metric"]] = row["value"]
    return Printed(f"Table {number}", {}, of_views=figures)


# Tables 1 and 2: clean and in the worst case.


def own(results: Figures, metric: str, threat: str, view: str) -> FloatArray:
    """(R,) a figure of the chosen model."""
    return figure(results, metric, threat, view, results.chosen or results.models[0])


def kept(results: Figures, metric: str, view: str) -> FloatArray:
    """(R,) what the worst case leaves of the clean figure."""
    return np.asarray(divide(own(results, metric, ATTACKED, view), own(results, metric, CLEAN, view)))


def hides(view: str, results: Figures) -> FloatArray:
    """(R,) the share of the accuracy that is kept minus that of NmIoU."""
    return np.asarray(kept(results, "aAcc", view) - kept(results, "NmIoU", view))


FLOOR = 0.01


def above_floor(view: str) -> Condition:
    """That the worst case leaves something to compare."""

    def lacking(results: Figures) -> str:
        return "at the floor" if own(results, "aAcc", ATTACKED, view)[0] < FLOOR else ""

    return Condition(f"a verdict on what is left takes an accuracy of {FLOOR:.0%} at least in the worst case", lacking)


def nothing_left(results: Figures) -> FloatArray:
    """(R,) 5 % minus the largest of the three figures in the worst case."""
    return np.asarray(0.05 - largest([own(results, metric, ATTACKED, "all") for metric in METRICS.values()]))


def below_normal(metric: str, results: Figures) -> FloatArray:
    """(R,) by how much the clean figure is below that of the same network trained normally."""
    model = results.chosen or results.models[0]
    normal = normal_of(model)
    if normal not in results.models or normal == model:
        return UNKNOWN
    return figure(results, metric, CLEAN, "all", normal) - figure(results, metric, CLEAN, "all", model)


def near_normal(results: Figures) -> FloatArray:
    """(R,) a tenth minus the share of the clean accuracy of normal training that is lost."""
    normal = own(results, "aAcc", CLEAN, "all") + below_normal("aAcc", results)
    return np.asarray(0.1 - divide(below_normal("aAcc", results), normal))


def foreground_loses(results: Figures) -> FloatArray:
    """(R,) accuracy in the worst case with background minus without it, each attacked for itself."""
    return own(results, "aAcc", WITH_BACKGROUND, "all") - own(results, "aAcc", ATTACKED, FOREGROUND)


WITH_BACKGROUND = "aggregated, with background"
HIDES = Claim(
    "Accuracy hides what is lost: of NmIoU a smaller share is kept than of accuracy.",
    partial(hides, "all"),
    conditions=[above_floor("all")],
)
HALF_CLAIMS = [
    Claim(
        "12: half of the batches attacked gives no robustness by any metric: less than 5 % (bound ours) is left of "
        "accuracy, CmIoU and NmIoU.",
        nothing_left,
        of=trained(HALF),
    )
]
WHOLE_CLAIMS = [
    Claim(
        "13: all batches attacked: some accuracy, 35 % at least (bound ours; 39 printed).",
        lambda results: np.asarray(own(results, "aAcc", ATTACKED, "all") - 0.35),
        of=trained(WHOLE),
    ),
    Claim(
        "13: but very low mIoU: less than 25 % of NmIoU (bound ours; 23 printed).",
        lambda results: np.asarray(0.25 - own(results, "NmIoU", ATTACKED, "all")),
        of=trained(WHOLE),
    ),
    Claim(
        "13: and clean images much worse: 10 points (bound ours) of NmIoU below normal training at least.",
        lambda results: np.asarray(below_normal("NmIoU", results) - 0.1),
        of=trained(WHOLE),
    ),
]
SEA_CLAIMS = [
    Claim(
        "14: SEA-AT: clean accuracy near that of normal training, within a tenth of it (bound ours).",
        near_normal,
        of=trained(SEA),
    ),
    Claim(
        "14: SEA-AT: NmIoU falls to a fraction, less than a quarter (bound ours; 17 % printed).",
        lambda results: np.asarray(0.25 - kept(results, "NmIoU", "all")),
        of=trained(SEA),
    ),
]
FOREGROUND_CLAIMS = [
    Claim(
        "17: the foreground is more vulnerable: accuracy in the worst case is lower without background than with it.",
        foreground_loses,
        of=trained(HALF, WHOLE, SEA),
        conditions=[
            Condition(
                f"a verdict on the foreground takes an accuracy of {FLOOR:.0%} at least with background",
                lambda results: "at the floor" if own(results, "aAcc", WITH_BACKGROUND, "all")[0] < FLOOR else "",
            )
        ],
    )
]


# Tables 3 to 7: attacks one by one.

STRONGER, ROOM = 0.005, 0.02
"""Of NmIoU: the gap that is claimed, and what attacks must leave for it to be judged."""


def alone(results: Figures, view: str, names: Sequence[str]) -> list[FloatArray]:
    """NmIoU under single attacks, those that were run."""
    figures = [own(results, "NmIoU", ATTACKED, of_attack(name, view)) for name in names]
    return [values for values in figures if not np.isnan(values[0])]


def together_stronger(view: str, results: Figures) -> FloatArray:
    """(R,) NmIoU under the strongest single attack minus under the worst of them per image; never negative."""
    known = alone(results, view, ATTACKS)
    return np.asarray(smallest(known) - own(results, "NmIoU", ATTACKED, view)) if known else UNKNOWN


def led_by(names: Sequence[str], view: str, results: Figures) -> FloatArray:
    """(R,) NmIoU under the strongest of the other attacks minus under the strongest of some."""
    some, others = (alone(results, view, each) for each in (names, [name for name in ATTACKS if name not in names]))
    return np.asarray(smallest(others) - smallest(some)) if some and others else UNKNOWN


def attack_claims(view: str, robust: Sequence[str]) -> list[Claim]:
    """What is said of ten attacks one by one.

    Args:
        view: "all" or "foreground".
        robust: the attacks to which robust models are said to fall.
    """

    def no_room(results: Figures) -> str:
        left = alone(results, view, ATTACKS)
        return "at the floor" if left and smallest(left)[0] < ROOM else ""

    def tied(results: Figures) -> str:
        left = [values[0] for values in alone(results, view, ATTACKS)]
        return "several attacks leave nothing" if left.count(0) > 1 else ""

    room = Condition(f"a verdict on the gap takes attacks that leave {100 * ROOM:g} points", no_room)
    tie = Condition("a verdict on which attack is the strongest takes not two of them at 0", tied)
    return [
        Claim(
            f"18: together the attacks are stronger: the worst case per image lies {100 * STRONGER:g} points (bound "
            "ours; 0.9 to 1.8 printed) of NmIoU below the strongest single attack; that it is not above is so by "
            "construction.",
            lambda results: np.asarray(together_stronger(view, results) - STRONGER),
            conditions=[room],
        ),
        Claim(
            "19: models trained normally fall to PAdam-Cos (NmIoU).",
            partial(led_by, ("padam-cos",), view),
            of=trained(NORMAL),
            conditions=[tie],
        ),
        Claim(
            f"19: robust models fall to {' or '.join(robust)} (NmIoU).",
            partial(led_by, robust, view),
            of=trained(WHOLE, SEA),
            conditions=[tie],
        ),
    ]


SEA_ATTACKS = tuple(name for name in ATTACKS if name.startswith("sea-"))


def table_study(
    item: str,
    title: str,
    finding: str,
    *,
    view: str = "all",
    claims: Sequence[Claim] = (),
    metrics: Sequence[str] = (),
    robust: Sequence[str] = (*SEA_ATTACKS, "padam-ce"),
) -> Study:
    """One of the tables.

    Args:
        item: "table-4", with a "b" at its end for the part without background.
        title, finding: of the study.
        view: "all", or "foreground" where background is ignored by attacks and figures.
        claims: of a table of the worst case; without any, every attack has a column and the claims are those of
            `attack_claims`.
        metrics: of METRICS; all by default.
        robust: the attacks to which robust models are said to fall.
    """
    number = int(item.removeprefix("table-").rstrip("b"))
    ignoring = {"ignore": [BACKGROUND]} if view == FOREGROUND else {}
    threats = battery(**ignoring)
    if claims and ignoring:  # what the foreground is compared with
        threats |= {WITH_BACKGROUND: battery()[ATTACKED]}
    return Study(
        name=f"halmosi/{item}",
        title=title,
        question="What is left in the worst case of ten attacks?",
        setting=f"{SETTING} Ten attacks at 8/255, the worst per image.",
        finding=finding,
        unknown=f"{_SHIFTED if number > 3 else ''} {_TRAINING}{_BLIND if item == 'table-1' else ''}".strip(),
        needs="a dataset with a background class, such as voc" if view == FOREGROUND else "",
        members={PLAIN: "{model}"},
        threats=threats,
        together=partial(drawing, tuple(metrics or METRICS), view, () if claims else ATTACKS),
        claims=claims or attack_claims(view, robust),
        printed=partial(printed, number, view),
        background=view == FOREGROUND,
        objects=view != FOREGROUND,
    )


_SHIFTED = "The row labels of Tables 4 to 7 are shifted; the names here are resolved."
_TRAINING = (
    "Here a shipped model counts as trained as its card says, another one by its name: -at all batches attacked, -at50 "
    "half of them, or the paper's names."
)
_BLIND = (
    " A bound of 35 % is the paper's range, no sign that a network sees: where large classes fill the images, the most "
    "frequent class at every pixel of the training labels is right on more than that (docs/evidence.md)."
)
_TABLE_4 = "Normal models fall to PAdam-Cos, robust ones to SEA or PAdam-CE; the worst case is below each attack."
TABLES = (
    table_study("table-1", "PSPNet and DeepLabv3, clean and in the worst case",
        "Models trained on 50 % attacked images keep at most 0.51 % accuracy; those trained on 100 % keep 39 to 70 %, "
        "NmIoU 11 to 23, and are much worse on clean images (background ignored: table-1b).",
        claims=[*HALF_CLAIMS, *WHOLE_CLAIMS, HIDES]),
    table_study("table-1b", "PSPNet and DeepLabv3, clean and in the worst case, background ignored",
        "The foreground is more vulnerable, most of all for models trained on 100 % attacked images (set beside SEA-AT "
        "of Table 2 in docs/paper-findings.md).", view=FOREGROUND, claims=FOREGROUND_CLAIMS),
    table_study("table-2", "UPerNet with ConvNeXt, clean and in the worst case",
        "SEA-AT-Tiny and -Small keep 71.84 and 70.57 % accuracy, CmIoU 32.79 and 32.66, NmIoU 13.20 and 12.89; clean "
        "they are near the normal models (background ignored: table-2b).", claims=[*SEA_CLAIMS, HIDES]),
    table_study("table-2b", "UPerNet with ConvNeXt, clean and in the worst case, background ignored",
        "The foreground is more vulnerable.", view=FOREGROUND, claims=FOREGROUND_CLAIMS),
    table_study("table-3", "Ten attacks one by one on DeepLabv3, Cityscapes, NmIoU",
        "Aggregated 0.00, 0.02, 0.01, 0.00, 15.86 and 21.82; the best single attack leaves 17.15 (PGD-AT-100, SEA-JSD) "
        "and 23.11 (SegPGD-AT-100, PAdam-CE).", metrics=("NmIoU",)),
    table_study("table-4", "Ten attacks one by one, Cityscapes", _TABLE_4),
    table_study("table-5", "Ten attacks one by one, VOC", _TABLE_4),
    table_study("table-6", "Ten attacks one by one, VOC, background ignored", _TABLE_4, view=FOREGROUND),
    table_study("table-7", "Ten attacks one by one on UPerNet with ConvNeXt, VOC",
        "SEA-BCE is the strongest single attack on SEA-AT (background ignored: table-7b).", robust=("sea-bce",)),
    table_study("table-7b", "Ten attacks one by one on UPerNet with ConvNeXt, VOC, background ignored",
        "SEA-BCE is the strongest single attack on SEA-AT.", view=FOREGROUND, robust=("sea-bce",)),
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


def shares_won(results: Results) -> FloatArray:
    """(R, 10) share of the images on which each attack leaves the smallest mIoU; ties are shared equally."""
    per_image = results.evaluation(PLAIN, ATTACKED).per_image
    wide = per_image[per_image["view"].isin(ATTACKS)].pivot(index="image_id", columns="view", values="mIoU")
    values = wide.loc[results.image_ids(PLAIN, CLEAN), list(ATTACKS)].to_numpy(float)  # (N, attacks)
    return np.asarray(results.weights @ credit_per_image(values.T).T / results.weights.sum(axis=1, keepdims=True))


def none_dominates(results: Results) -> FloatArray:
    """(R,) 99 % minus the largest share of the images that one attack wins."""
    return np.asarray(0.99 - shares_won(results).max(axis=1))


def all_contribute(results: Results) -> FloatArray:
    """(R,) the smallest share of the images that an attack wins, minus 1 %."""
    return np.asarray(shares_won(results).min(axis=1) - 0.01)


def may_yet_win(results: Results) -> str:
    """Why attacks that won no image may yet win one in a hundred."""
    without = int((shares_won(results)[0] == 0).sum())
    if without == 0 or results.images >= ENOUGH_TO_WIN:
        return ""
    return f"{without} of {len(ATTACKS)} win none of {results.images} images"


ENOUGH_TO_WIN = 300
"""Images: what happens on 1 % of them is missed on so many with a probability of 5 %."""
MAY_YET_WIN = Condition(
    f"a verdict that an attack hardly ever wins takes {ENOUGH_TO_WIN} images: fewer miss what happens on 1 % of them",
    measured(may_yet_win),
)

WINNERS = Study(
    name="halmosi/figure-4",
    title="Which attack wins on an image",
    question="Is one of the ten attacks enough?",
    setting=f"{SETTING} Ten attacks at 8/255; chosen by mIoU (Figure 4), by accuracy and by mIoU (Figures 12 to 14).",
    finding="It differs by scenario: PAdam leads on normal models and some robust ones, SEA on SEA-AT; every attack "
    "contributes.",
    unknown="Which models Figure 4 draws, and who gets a tie; both rules are given.",
    members={PLAIN: "{model}"},
    threats=battery(),
    drawing=measured(winners_drawing),
    claims=[
        Claim("No attack wins on 99 % (bound ours) of the images or more (by mIoU).", measured(none_dominates)),
        Claim(
            "And each wins on 1 % (bound ours) of them at least: every attack contributes.",
            measured(all_contribute),
            conditions=[MAY_YET_WIN],
        ),
    ],
    objects=True,
    also=tuple(f"halmosi/figure-{number}" for number in (12, 13, 14)),
)

for _study in (*TABLES, WINNERS):
    studies.add(_study.name, _study, aliases=tuple(_study.also))

"""Halmosi, Mohos and Jelasity: Trying Harder Pays Off; its tables as lists of figures. docs/specs/studies.md, 2."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pandas as pd

from gauntlet.results import published
from gauntlet.studies.contract import studies
from gauntlet.studies.figure_tables import metric_table
from gauntlet.studies.relations import EVERYTHING, FigureStudy

METRICS = ("aAcc", "mIoU", "NmIoU")
SETTING = "Ten attacks at 8/255 on VOC 2012 and Cityscapes; with and without background; worst case per image."
TABLES = {
    1: ("PSPNet and DeepLabv3, clean and in the worst case", "Models trained on 50 % attacked images keep at most "
        "0.51 % accuracy; those trained on 100 % keep 39 to 70 %, NmIoU 11 to 23."),
    2: ("UPerNet with ConvNeXt, clean and in the worst case", "SEA-AT keeps 71 % accuracy, CmIoU 33, NmIoU 13."),
    3: ("Ten attacks on DeepLabv3, Cityscapes, NmIoU", "The worst case lies below the best single attack."),
    4: ("Ten attacks, Cityscapes", "Normal falls to PAdam-Cos, robust models to SEA or PAdam-CE."),
    5: ("Ten attacks, VOC", "As table 4."),
    6: ("Ten attacks, VOC without background", "As table 4."),
    7: ("Ten attacks on UPerNet with ConvNeXt, VOC", "SEA-BCE is the strongest single attack on SEA-AT."),
}  # fmt: skip


def of_table(number: int) -> Callable[[], pd.DataFrame]:
    """The figures of one of the paper's tables."""

    def rows() -> pd.DataFrame:
        figures = published.frame(source="halmosi")
        return figures[figures["table"].eq(str(number))]

    return rows


for number, (title, finding) in TABLES.items():
    studies.add(
        f"halmosi/table-{number}",
        FigureStudy(
            name=f"halmosi/table-{number}",
            title=title,
            question="What is left in the worst case of ten attacks?",
            setting=SETTING,
            finding=finding,
            unknown="The row labels of tables 4 to 7 are shifted; the names here are resolved." if number > 3 else "",
            kind="list",
            least_models=1,
            published=of_table(number),
            table=partial(metric_table, metrics=METRICS),
            listed=EVERYTHING,
        ),
    )

"""The tables of models of SemSegBench and DetecBench, row by row against copies of the printed ones."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from gauntlet.models.zoo.spelling import canonical_backbone
from gauntlet.report.tables import Table
from gauntlet.studies import studies
from gauntlet.studies.relations import PUBLISHED, FigureStudy, draw_figures

COPIES = Path(__file__).parents[1] / "data" / "published"


def listed(name: str) -> pd.DataFrame:
    """The rows of a page of models, from its tables."""
    study = studies[name]
    assert isinstance(study, FigureStudy)
    parts = []
    for section in draw_figures(study, study.published(), PUBLISHED).sections:
        tables = [block for block in section.blocks if isinstance(block, Table)]
        parts += [
            pd.DataFrame(each.rows, columns=[column.name for column in each.columns]).assign(dataset=section.title)
            for each in tables
        ]
    return pd.concat(parts)


@pytest.mark.parametrize(
    ("name", "copy", "rows", "lines", "without_figure"),
    [("semsegbench/table-2", "semsegbench", 71, 78, 2), ("detecbench/table-4", "detecbench", 62, 62, 21)],
)
def test_every_printed_model_is_listed(name: str, copy: str, rows: int, lines: int, without_figure: int) -> None:
    printed = pd.read_csv(COPIES / f"{copy}_models.csv.gz", dtype=str)
    table = listed(name)
    triples = [
        {(a, canonical_backbone(b), d, date) for a, b, d, date in each.itertuples(index=False)}
        for each in (frame[["architecture", "backbone", "dataset", "date"]] for frame in (printed, table))
    ]
    assert triples[0] == triples[1]
    assert (len(printed), len(triples[1]), len(table)) == (rows, rows, lines)
    assert int(table["clean"].isna().sum()) == without_figure


def test_a_row_has_its_date_and_its_configuration() -> None:
    table = listed("semsegbench/table-2")
    row = table[table["model"].eq("deeplabv3/resnet101 512x512") & table["dataset"].eq("ade20k")].iloc[0]
    assert (row["date"], row["configuration"]) == ("2017-12-05", "deeplabv3_r101-d8_4xb4-160k_ade20k-512x512")
    assert (row["clean"], row["backbone_type"]) == (0.45, "convolution")
    assert row["parameters"] > 80e6
    swapped = table["backbone"].isin(["internimage-b", "internimage-l"]) & table["dataset"].eq("ade20k")
    assert table.loc[swapped, "parameters"].isna().tolist() == [True, True]

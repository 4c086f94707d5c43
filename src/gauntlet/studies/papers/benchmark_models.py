"""The models that SemSegBench (Table 2) and DetecBench (Table 4) list, also those without published figures."""

from __future__ import annotations

import pandas as pd

from gauntlet.analysis.frames import MAIN_METRIC, unit_columns
from gauntlet.models import zoo
from gauntlet.models.zoo import ZooEntry
from gauntlet.models.zoo.spelling import canonical_architecture, canonical_backbone
from gauntlet.results import published
from gauntlet.results.model_facts import ModelFacts, completed
from gauntlet.studies.figure_tables import score_table

CONFIGURATION = "configuration"


def listed_models(benchmark: str) -> pd.DataFrame:
    """One row per checkpoint: date, configuration at OpenMMLab, and the clean figure, NaN where none is published.

    Args:
        benchmark: "semsegbench" or "detecbench".
    """
    known = published.unflagged(published.frame(source="semsegbench", kind="clean"))  # two counts look swapped
    columns = ["architecture", "backbone", "dataset", "crop_size", "parameters"]
    sizes = {
        (canonical_architecture(str(architecture)), canonical_backbone(str(backbone)), dataset, crop): size
        for architecture, backbone, dataset, crop, size in known[columns].itertuples(index=False)
    }
    rows = []
    for entry in zoo.entries():
        if entry.benchmark == benchmark:
            names = canonical_architecture(entry.model_name), canonical_backbone(entry.backbone)
            rows.append(_tidy(entry, sizes.get((*names, entry.dataset, entry.crop_size), float("nan"))))
    table = pd.DataFrame(rows)
    return table.assign(date=pd.to_datetime(table["date"], format="%Y-%m-%d"))


def _tidy(entry: ZooEntry, parameters: float) -> dict[str, object]:
    facts = completed(ModelFacts(entry.architecture, entry.backbone, date=entry.date))
    return {
        "task": entry.task,
        "model": " ".join(filter(None, [f"{entry.model_name}/{entry.backbone}", entry.crop_size])),
        "architecture": entry.architecture,
        "backbone": entry.backbone,
        "backbone_type": facts.backbone_type,
        "proposal_type": facts.proposal_type,
        "crop_size": entry.crop_size,
        "parameters": parameters,
        "date": entry.date,
        CONFIGURATION: entry.openmmlab_config,
        "dataset": entry.dataset,
        "threat": "clean",
        "kind": "clean",
        "description": '{"clean": {}}',
        "view": "all",
        "metric": MAIN_METRIC[entry.task],
        "value": float(entry.benchmark_figure or "nan") / 100,
    }


def models_table(frame: pd.DataFrame) -> pd.DataFrame:
    """As `score_table`, with dates as texts and the configurations that a frame has."""
    table = score_table(frame)
    if "date" in table:
        table["date"] = table["date"].dt.strftime("%Y-%m-%d").fillna("").astype(object)
    if CONFIGURATION in frame:
        keys = unit_columns(table)
        table = table.merge(frame[[*keys, CONFIGURATION]].drop_duplicates(), on=keys, validate="1:1")
    return table

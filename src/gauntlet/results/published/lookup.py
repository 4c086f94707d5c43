"""Finds published figures: of one model, by the triple that names it, and of one threat, by its description."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models import zoo
from gauntlet.models.zoo.spelling import (
    canonical_architecture,
    canonical_backbone,
    canonical_crop_size,
    canonical_dataset,
)
from gauntlet.results.descriptions import is_plain, read_description, threat_settings
from gauntlet.results.published.reading import frame

TRIPLE_SOURCES = (
    *("semsegbench", "detecbench_interim", "detecbench_notebook", "detecbench_voc_ap50", "detecbench_corruptions"),
)


def find(model_name: str, backbone: str, dataset: str, crop_size: str | None = None) -> pd.DataFrame:
    """All published figures of one model.

    Args:
        model_name: the architecture ("DeepLabV3", "segformer", "ATSS"); case and separators do not matter.
        backbone: "ResNet50", "mit-b0", "R-101-FPN".
        dataset: what the model was trained on ("ade20k", "cityscapes", "voc2012", "coco", "voc2007").
        crop_size: "512x1024"; needed where a model was published at two crop sizes.

    Raises:
        GauntletError: for a name without figures, with the nearest ones, and for a triple that means several models.
    """
    rows = frame(source=TRIPLE_SOURCES)
    label = _label(model_name, backbone, dataset)
    if label:
        rows = rows[rows["model"].eq(label)]
    else:
        trained_on = _trained_on(rows, model_name, dataset)
        rows = _keep(rows, "dataset", trained_on, canonical_dataset, "dataset of the published models")
        where = f"on {rows['dataset'].iloc[0]}"
        rows = _keep(rows, "architecture", model_name, canonical_architecture, f"published model {where}")
        where = f"of the published {rows['architecture'].iloc[0]} {where}"
        rows = _keep(rows, "backbone", backbone, canonical_backbone, f"backbone {where}")
    return _of_crop_size(rows, crop_size, f"{model_name} with {backbone} on {dataset}").reset_index(drop=True)


def _trained_on(rows: pd.DataFrame, model_name: str, dataset: str) -> str:
    """The dataset as the tables call it: "VOC" is VOC 2012, but VOC 2007 + 2012 for what only detectors are called."""
    if canonical_dataset(dataset) != "voc":
        return dataset
    same_name = rows["architecture"].map(canonical_architecture).eq(canonical_architecture(model_name))
    return "voc0712" if set(rows[same_name]["dataset"]) & {"voc", "voc0712"} == {"voc0712"} else dataset


def _label(model_name: str, backbone: str, dataset: str) -> str:
    """What the tables call a model of the benchmarks, where that is more than its triple says; else ""."""
    try:
        return zoo.find(model_name, backbone, dataset).benchmark_label
    except GauntletError:
        return ""


def _of_crop_size(rows: pd.DataFrame, crop_size: str | None, triple: str) -> pd.DataFrame:
    """The rows of one crop size; an error where none was asked for and the triple was published at several."""
    crops = list(rows["crop_size"].unique())
    if crop_size is not None:
        wanted = canonical_crop_size(crop_size)
        if wanted not in crops:
            raise unknown_name(f"crop size of the published {rows['model'].iloc[0]}", crop_size, crops)
        return rows[rows["crop_size"].eq(wanted)]
    if len(crops) > 1:
        raise GauntletError(
            f"{triple} was published at {len(crops)} crop sizes ({' and '.join(crops)}); "
            f"say which with crop_size='{crops[0]}'."
        )
    return rows


def of_threat(rows: pd.DataFrame, description: Mapping[str, Any]) -> pd.DataFrame:
    """Those of some published figures that were obtained under a threat; none when it was not published.

    Args:
        rows: published figures, such as `find` gives.
        description: of a threat, {"attack": {"name": "pgd", "epsilon": "8/255", "norm": "linf", "steps": 20}}. Every
            budget in it (norm, epsilon, alpha, steps, severity, condition, ratio, rounds) must be the published one;
            settings that the sources do not name (losses, restarts) are not compared. A targeted attack, or one on a
            part of the image, was not published.
    """
    if not is_plain(description):
        return rows.iloc[:0].reset_index(drop=True)
    wanted = read_description(json.dumps(description))
    settings = threat_settings(rows)
    same = rows["kind"].eq(next(iter(description)))
    for name, value in wanted.items():
        if isinstance(value, float):
            same &= (settings[name] - value).abs() < 1e-6
        else:
            same &= settings[name].eq(value)
    return rows[same].reset_index(drop=True)


def _keep(rows: pd.DataFrame, column: str, wanted: str, canonical: Callable[[str], str], kind: str) -> pd.DataFrame:
    """The rows whose column is spelled as wanted, or an error that names the nearest."""
    spellings = {name: canonical(name) for name in rows[column].unique()}
    kept = rows[rows[column].map(spellings).eq(canonical(wanted))]
    if kept.empty:
        raise unknown_name(kind, wanted, spellings)
    return kept

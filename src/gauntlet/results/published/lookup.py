"""Published figures of one model, found by the (model_name, backbone, dataset) triple that the benchmarks use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.results.published.summaries import is_plain
from gauntlet.results.published.table import frame
from gauntlet.results.published.threats import read_description, threat_settings

TRIPLE_SOURCES = (
    *("semsegbench", "detecbench_interim", "detecbench_notebook", "detecbench_voc_ap50", "detecbench_corruptions"),
)
_SIZES = {"tiny": "t", "small": "s", "base": "b", "large": "l", "xlarge": "xl", "huge": "h"}
_DATASETS = {
    "voc2012": "voc",
    "voc12aug": "voc",
    "pascalvoc": "voc",
    "pascalvoc2012": "voc",
    "voc2007": "voc0712",
    "ade": "ade20k",
}


def canonical_architecture(name: str) -> str:
    """A spelling that ignores case and separators: "DeepLabV3+" and "deeplabv3plus" are one.

    >>> canonical_architecture("Libra R-CNN") == canonical_architecture("libra_rcnn")
    True
    """
    return re.sub(r"[\s_/-]+", "", name.lower().replace("+", "plus"))


def canonical_backbone(name: str) -> str:
    """A spelling that ignores case, separators, the neck and long sizes: "ResNet101" is "R-101-FPN".

    >>> canonical_backbone("InternImage-Tiny"), canonical_backbone("ResNet50"), canonical_backbone("R-50-FPN")
    ('internimaget', 'r50', 'r50')
    """
    text = name.lower().strip()
    for long, short in _SIZES.items():
        text = re.sub(rf"[-_ ]{long}$", f"-{short}", text)
    text = re.sub(r"[\s_/-]+", "", text)
    text = re.sub(r"^resnet(?=\d)", "r", text)
    if text == "unetconvolutions":
        return "custom"
    return re.sub(r"fpn$", "", text)


def canonical_dataset(name: str) -> str:
    """The name of a dataset in the published table: "VOC2012" is "voc"."""
    text = re.sub(r"[\s_-]+", "", name.lower())
    return _DATASETS.get(text, text)


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
    rows = _keep(rows, "dataset", canonical_dataset(dataset), dataset, "dataset of the published models", str)
    where = f"published model on {rows['dataset'].iloc[0]}"
    rows = _keep(rows, "architecture", canonical_architecture(model_name), model_name, where, canonical_architecture)
    where = f"backbone of the published {rows['architecture'].iloc[0]} on {rows['dataset'].iloc[0]}"
    rows = _keep(rows, "backbone", canonical_backbone(backbone), backbone, where, canonical_backbone)
    crops = list(rows["crop_size"].unique())
    if crop_size is not None:
        wanted = re.sub(r"[\s()]+", "", crop_size.lower()).replace(",", "x")
        if wanted not in crops:
            raise unknown_name(f"crop size of the published {rows['model'].iloc[0]}", crop_size, crops)
        rows = rows[rows["crop_size"].eq(wanted)]
    elif len(crops) > 1:
        raise GauntletError(
            f"{model_name} with {backbone} on {dataset} was published at {len(crops)} crop sizes "
            f"({' and '.join(crops)}); say which with crop_size='{crops[0]}'."
        )
    return rows.reset_index(drop=True)


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


def _keep(
    rows: pd.DataFrame, column: str, wanted: str, written: str, kind: str, canonical: Callable[[str], str]
) -> pd.DataFrame:
    spellings = {name: canonical(name) for name in rows[column].unique()}
    kept = rows[rows[column].map(spellings).eq(wanted)]
    if kept.empty:
        raise unknown_name(kind, written, spellings)
    return kept

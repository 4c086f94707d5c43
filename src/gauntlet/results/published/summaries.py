"""ReM and GAM from their parts (specs/metrics.md, 6), for published figures and for the store's own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from gauntlet.metrics.summary import DETECTION_ATTACKS, SEGMENTATION_ATTACKS
from gauntlet.results.published.threats import grey_levels, threat_settings

CORRUPTION_FAMILIES: dict[str, tuple[str, ...]] = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    "weather": ("snow", "frost", "fog", "brightness"),
    "digital": ("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
}
COMMON_CORRUPTIONS = tuple(name for family in CORRUPTION_FAMILIES.values() for name in family)
"""The fifteen two-dimensional corruptions over which GAM is the minimum in segmentation."""

SPATIAL_CORRUPTIONS = (
    *("color_quant", "far_focus", "fog_3d", "iso_noise", "low_light", "near_focus", "xy_motion_blur", "z_motion_blur"),
)
"""The eight three-dimensional corruptions that detection adds; the h265 ones are left out of GAM."""

ATTACKS = {"segmentation": SEGMENTATION_ATTACKS, "detection": DETECTION_ATTACKS}
CORRUPTIONS = {"segmentation": COMMON_CORRUPTIONS, "detection": (*COMMON_CORRUPTIONS, *SPATIAL_CORRUPTIONS)}
UNIT_COLUMNS = ("source", "task", "model", "model_digest", "dataset", "split", "seed", "view")
"""What makes figures comparable: one model on one dataset in one view; only those a frame has are used."""


def unit_columns(frame: pd.DataFrame) -> list[str]:
    """Those of UNIT_COLUMNS that a frame has."""
    return [column for column in UNIT_COLUMNS if column in frame]


def dataset_figures(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Figures of whole datasets (not of single classes) under one kind of threat, joined with its settings."""
    rows = frame[frame["kind"].eq(kind)]
    if "class_name" in rows:
        rows = rows[rows["class_name"].eq("")]
    settings = threat_settings(rows)
    return rows.drop(columns=[column for column in settings if column in rows]).join(settings)


def rem(frame: pd.DataFrame, *, members: Sequence[str] | None = None) -> pd.DataFrame:
    """The reliability measure: per model and budget, the smallest dataset figure over the attacks.

    Args:
        frame: tidy figures of the store or the published ones.
        members: the attacks; by default PGD, SegPGD, CosPGD for segmentation and BIM, PGD for detection.

    Returns:
        Per unit and metric: summary ("linf-ReM^8_20", epsilon on the 0 to 255 scale), value, mean over the same
        attacks, worst (the attack that gave the value), members, missing; NaN unless every member has a figure.
    """
    rows = dataset_figures(frame, "attack")
    rows = rows[rows["source_model"].eq("")]
    names = [
        f"{norm}-ReM^{grey_levels(epsilon):g}_{steps:g}"
        for norm, epsilon, steps in zip(rows["norm"], rows["epsilon"], rows["steps"], strict=True)
    ]
    return _summarise(rows.assign(summary=names), "attack", ATTACKS, members)


def gam(frame: pd.DataFrame, *, members: Sequence[str] | None = None) -> pd.DataFrame:
    """The generalization ability measure: per model and severity, the smallest dataset figure over the corruptions.

    Args:
        frame: tidy figures of the store or the published ones.
        members: the corruptions; by default the 15 common ones for segmentation, with 8 three-dimensional ones for
            detection.

    Returns:
        As `rem`, with summary "GAM_3".
    """
    rows = dataset_figures(frame, "corruption")
    names = [f"GAM_{severity:g}" for severity in rows["severity"]]
    return _summarise(rows.assign(summary=names), "corruption", CORRUPTIONS, members)


def _summarise(
    rows: pd.DataFrame, member_column: str, defaults: dict[str, tuple[str, ...]], members: Sequence[str] | None
) -> pd.DataFrame:
    keys = [*unit_columns(rows), "metric", "summary"]
    parts = []
    for task, of_task in rows.groupby("task", sort=False):
        wanted = tuple(members) if members is not None else defaults[str(task)]
        of_task = of_task[of_task[member_column].isin(wanted)]
        if len(of_task):
            parts.append(_summarise_members(of_task, keys, member_column, wanted))
    columns = [*keys, "value", "mean", "worst", "members", "missing", "flag"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _summarise_members(rows: pd.DataFrame, keys: list[str], column: str, wanted: tuple[str, ...]) -> pd.DataFrame:
    # An attack that was run twice with one budget (two step sizes) counts with its stronger run.
    table = rows.groupby([*keys, column], dropna=False, sort=False)["value"].min().unstack(column)
    values = table.reindex(columns=list(wanted)).to_numpy(float)
    present = ~np.isnan(values)
    smallest = np.where(present, values, np.inf).argmin(axis=1)
    complete = present.all(axis=1)
    result = table.index.to_frame(index=False).assign(
        value=values.min(axis=1),
        mean=values.mean(axis=1),
        worst=np.where(complete, np.array(wanted, dtype=object)[smallest], ""),
        members=[", ".join(np.array(wanted)[row]) for row in present],
        missing=[", ".join(np.array(wanted)[~row]) for row in present],
    )
    if "flag" not in rows:
        return result.assign(flag="")
    codes = rows.groupby(keys, dropna=False, sort=False)["flag"].agg(_union).rename("flag").reset_index()
    return result.merge(codes, on=keys, how="left")


def _union(flags: pd.Series) -> str:
    return " ".join(sorted({code for text in flags.unique() for code in text.split()}))

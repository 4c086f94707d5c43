"""The BRAVO index: one number for accuracy, calibration and failure detection under threats (docs/specs/beyond.md, 1).

A subset of BRAVO is here one evaluation: clean, or one threat. Where a threat acted in a region, the semantic figures
are those outside it, and the region is what the model should notice.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from gauntlet.analysis.frames import comparable, one_each, unit_columns

SEMANTIC = {"mIoU": False, "ECE": True, "AUROC": False, "FPR95": True, "AUPR_success": False, "AUPR_error": False}
"""The figures of the semantic score, and whether 1 minus the figure enters."""
REGION = {"AUROC_region": False, "AUPR_region": False, "FPR95_region": True}
"""The figures that say whether the region of a threat is noticed."""
OUTSIDE = "_Mbar"


def harmonic_mean(values: Iterable[float]) -> float:
    """The quotient n / sum(1 / v): 0 as soon as one value is, NaN as soon as one is or where there is none."""
    array = np.array(list(values), np.float64)
    if not len(array) or np.isnan(array).any():
        return float("nan")
    return 0.0 if (array <= 0).any() else float(len(array) / (1 / array).sum())


def bravo_index(frame: pd.DataFrame) -> pd.DataFrame:
    """The index of every model over all evaluations of the same images.

    Two indices can only be compared when their `threats` are the same.

    Args:
        frame: tidy figures of a store, with calibration figures (segmentation only).

    Returns:
        Per unit: semantic_hmean (harmonic mean over all evaluations and the six figures at once), ood_hmean (over the
        figures of regions, NaN without one), bravo_index (harmonic mean of both; of the first alone where no threat has
        a region), threats (the evaluations that entered), without (those that have no calibration figures and were left
        out), zero (the figures that made a mean 0).
    """
    rows = frame[frame["view"].eq("all") & frame["class_name"].eq("") & frame["task"].eq("segmentation")]
    wanted = [*SEMANTIC, *(name + OUTSIDE for name in SEMANTIC), *REGION]
    rows = comparable(rows[rows["metric"].isin(wanted)])
    units = [column for column in unit_columns(rows) if column != "view"]
    table = []
    for unit, of_unit in rows.groupby(units, sort=False, dropna=False):
        latest = one_each(of_unit, ["threat", "metric"])
        by_threat = {
            str(threat): dict(zip(part["metric"], part["value"].astype(float), strict=True))
            for threat, part in latest.groupby("threat", sort=False)
        }
        table.append({**dict(zip(units, unit, strict=True)), **_scores(by_threat)})
    columns = [*units, "semantic_hmean", "ood_hmean", "bravo_index", "threats", "without", "zero"]
    return pd.DataFrame(table, columns=columns)


def _scores(by_threat: dict[str, dict[str, float]]) -> dict[str, float | str]:
    counted = {threat: values for threat, values in by_threat.items() if "ECE" in values}
    semantic: dict[str, float] = {}
    region: dict[str, float] = {}
    for threat, values in counted.items():
        localized = next(iter(REGION)) in values
        for name, inverted in SEMANTIC.items():
            full = name + OUTSIDE * localized
            semantic[f"{full} under {threat}"] = _towards_one(values.get(full, np.nan), inverted)
        if localized:
            for name, inverted in REGION.items():
                region[f"{name} under {threat}"] = _towards_one(values.get(name, np.nan), inverted)
    means = [harmonic_mean(part.values()) for part in (semantic, region) if part]
    return {
        "semantic_hmean": harmonic_mean(semantic.values()),
        "ood_hmean": harmonic_mean(region.values()),
        "bravo_index": harmonic_mean(means),
        "threats": ", ".join(counted),
        "without": ", ".join(threat for threat in by_threat if threat not in counted),
        "zero": ", ".join(name for name, value in {**semantic, **region}.items() if value <= 0),
    }


def _towards_one(value: float, inverted: bool) -> float:
    return 1 - value if inverted else value

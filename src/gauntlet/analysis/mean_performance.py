"""mPC and rPC: mean performance under corruption, absolute and relative (docs/specs/beyond.md, 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from gauntlet.analysis.benchmark_sets import COMMON_CORRUPTIONS
from gauntlet.analysis.frames import group_codes, of_metric, one_each, unit_columns, with_clean
from gauntlet.analysis.rem_gam import plain_members
from gauntlet.metrics.arithmetic import divide
from gauntlet.results.descriptions import threat_settings

SEVERITIES = (1, 2, 3, 4, 5)


def mpc(
    frame: pd.DataFrame,
    metric: str | None = None,
    *,
    corruptions: Sequence[str] = COMMON_CORRUPTIONS,
    severities: Sequence[int] = SEVERITIES,
) -> pd.DataFrame:
    """Mean performance under corruption of every model (Michaelis et al. 2019).

    Args:
        frame: tidy figures of a store or the published ones.
        metric: by default mIoU for segmentation and mAP for detection; Michaelis et al. take VOC_mAP50 for VOC.
        corruptions, severities: what the mean is taken over; `benchmark_sets.C_BAR` for the mean of C-bar.

    Returns:
        Per unit: metric, clean, mPC (mean over all corruptions and severities), rPC (mPC / clean), cells ("75 of 75"),
        missing ("fog 3, fog 4"); mPC and rPC are NaN unless every cell has a figure.
    """
    rows = of_metric(frame, metric)
    keys = [*unit_columns(rows), "metric"]
    plain, names = plain_members(rows, "corruption")
    plain = plain.assign(corruption=names, severity=threat_settings(plain)["severity"])
    plain = plain[plain["corruption"].isin(corruptions) & plain["severity"].isin(severities)]
    plain = one_each(plain, [*keys, "corruption", "severity"])
    table, units = group_codes(plain, keys)
    wanted = [(name, severity) for name in corruptions for severity in severities]
    cells = list(zip(plain["corruption"], plain["severity"].astype(int), strict=True))
    figures: list[dict[tuple[str, int], float]] = [{} for _ in range(len(table))]
    for unit, cell, value in zip(units, cells, plain["value"].astype(float), strict=True):
        figures[unit][cell] = value
    result = []
    for values in figures:
        missing = [cell for cell in wanted if math.isnan(values.get(cell, math.nan))]
        result.append(
            {
                "mPC": math.nan if missing else sum(values.values()) / len(wanted),
                "cells": f"{len(wanted) - len(missing)} of {len(wanted)}",
                "missing": ", ".join(f"{name} {severity}" for name, severity in missing),
            }
        )
    table = table.join(pd.DataFrame(result, columns=["mPC", "cells", "missing"]))
    table = with_clean(table, rows, keys)
    table["rPC"] = divide(table["mPC"].to_numpy(float), table["clean"].to_numpy(float))
    return table[[*keys, "clean", "mPC", "rPC", "cells", "missing"]]

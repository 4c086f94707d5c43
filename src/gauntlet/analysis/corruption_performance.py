"""Performance under corruptions of all severities: mPC, rPC, and Hendrycks' errors against a reference model.

docs/specs/beyond.md, 2. mPC and rPC are those of Michaelis et al. 2019; CE and relative CE those of Hendrycks and
Dietterich 2019 (for segmentation also Kamann and Rother's CD and rCD). `metrics.arithmetic.corruption_error` is another
CE, that of the spatial benchmark. Relative figures reward a bad clean score: read them beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from gauntlet.analysis.frames import group_codes, of_metric, one_each, unit_columns, with_clean
from gauntlet.analysis.scoring.benchmark_sets import COMMON_CORRUPTIONS
from gauntlet.analysis.scoring.rem_gam import plain_members
from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import divide
from gauntlet.results.descriptions import threat_settings

SEVERITIES = (1, 2, 3, 4, 5)
Cells = Mapping[str, npt.ArrayLike]
"""Figures by corruption, one per severity."""


def mean_performance_under_corruption(figures: Cells) -> float:
    """mPC: the mean over all corruptions and severities; NaN where a cell is.

    Args:
        figures: by corruption, one figure per severity.
    """
    return float(np.mean([np.mean(np.asarray(each, np.float64)) for each in figures.values()])) if figures else np.nan


def relative_performance_under_corruption(figures: Cells, clean: float) -> float:
    """The quotient of means rPC = mPC / P; NaN where the clean figure P is 0."""
    return float(divide(mean_performance_under_corruption(figures), clean))


def mpc(
    frame: pd.DataFrame,
    metric: str | None = None,
    *,
    corruptions: Sequence[str] = COMMON_CORRUPTIONS,
    severities: Sequence[int] = SEVERITIES,
) -> pd.DataFrame:
    """The mPC and rPC of every model (Michaelis et al. 2019).

    Args:
        frame: tidy figures of a store or the published ones.
        metric: by default mIoU for segmentation and mAP for detection; Michaelis et al. take VOC_mAP50 for VOC.
        corruptions, severities: what the mean is taken over; `benchmark_sets.C_BAR` for the mean of C-bar.

    Returns:
        Per unit: metric, clean, mPC, rPC, cells ("75 of 75"), missing ("fog 3, fog 4"); mPC and rPC are NaN unless
        every cell has a figure.
    """
    units, keys = _cells(frame, metric, corruptions, severities)
    every = len(corruptions) * len(severities)
    rows = []
    for unit, figures, clean in units:
        missing = [
            f"{name} {severity}"
            for name, values in figures.items()
            for severity, value in zip(severities, values, strict=True)
            if np.isnan(value)
        ]
        summary = [mean_performance_under_corruption(figures), relative_performance_under_corruption(figures, clean)]
        rows.append([*unit, clean, *summary, f"{every - len(missing)} of {every}", ", ".join(missing)])
    return pd.DataFrame(rows, columns=[*keys, "clean", "mPC", "rPC", "cells", "missing"])


def corruption_errors(figures: Cells, reference: Cells) -> dict[str, float]:
    """CE_c = sum_s E_{c,s}(f) / sum_s E_{c,s}(reference) with the error E = 1 - figure; their mean is mCE.

    NaN for a corruption on which the reference makes no error.

    Args:
        figures: of the model, by corruption, one per severity.
        reference: of the reference model, on the same images and severities.
    """
    return {
        name: _quotient(_errors(each).sum(), _errors(_same(reference, name)).sum()) for name, each in figures.items()
    }


def relative_corruption_errors(
    figures: Cells, clean: float, reference: Cells, reference_clean: float
) -> dict[str, float]:
    """CE of what a corruption adds: sum_s (E_{c,s}(f) - E(f)) / sum_s (E_{c,s}(r) - E(r)); the mean is relative mCE.

    NaN for a corruption that the reference does not suffer from.

    Args:
        figures, reference: as for `corruption_errors`.
        clean, reference_clean: the figures on clean images.
    """
    return {
        name: _quotient(
            (_errors(each) - (1 - clean)).sum(), (_errors(_same(reference, name)) - (1 - reference_clean)).sum()
        )
        for name, each in figures.items()
    }


def mean_corruption_error(
    frame: pd.DataFrame,
    reference: str,
    metric: str | None = None,
    *,
    corruptions: Sequence[str] = COMMON_CORRUPTIONS,
) -> pd.DataFrame:
    """The mCE and relative mCE of every model against one of the frame on the same images.

    Args:
        frame: tidy figures of the store or published ones, with clean rows and corruptions of severities 1 to 5.
        reference: name of the model that stands for 1.
        metric: by default mIoU for segmentation and mAP for detection.
        corruptions: the members; the fifteen of the benchmark by default.

    Returns:
        Per unit: metric, mCE, relative_mCE (NaN while a cell is missing or a quotient is undefined), undefined (the
        corruptions that made it so), reference.
    """
    table, keys = _cells(frame, metric, corruptions, SEVERITIES)
    place = [index for index, name in enumerate(keys) if name not in ("model", "model_digest")]
    references = {
        tuple(unit[index] for index in place): (figures, clean)
        for unit, figures, clean in table
        if unit[keys.index("model")] == reference
    }
    if not references:
        raise GauntletError(f"this frame has no figures under corruptions of the reference model '{reference}'.")
    rows = []
    for unit, figures, clean in table:
        found = references.get(tuple(unit[index] for index in place))
        if found is None:  # the reference was not run on these images
            continue
        errors = corruption_errors(figures, found[0])
        relative = relative_corruption_errors(figures, clean, *found)
        undefined = [name for name in errors if np.isnan(errors[name]) or np.isnan(relative[name])]
        means = [float(np.mean(list(each.values()))) for each in (errors, relative)]
        rows.append([*unit, *means, ", ".join(undefined), reference])
    return pd.DataFrame(rows, columns=[*keys, "mCE", "relative_mCE", "undefined", "reference"])


def _cells(
    frame: pd.DataFrame, metric: str | None, corruptions: Sequence[str], severities: Sequence[int]
) -> tuple[list[tuple[tuple[object, ...], dict[str, npt.NDArray[np.float64]], float]], list[str]]:
    """For every unit its figures by corruption, one per severity, NaN where missing, and its clean figure."""
    rows = of_metric(frame, metric)
    keys = [*unit_columns(rows), "metric"]
    chosen, names = plain_members(rows, "corruption")
    chosen = chosen.assign(corruption=names, severity=threat_settings(chosen)["severity"])
    chosen = chosen[chosen["corruption"].isin(corruptions) & chosen["severity"].isin(severities)]
    chosen = one_each(chosen, [*keys, "corruption", "severity"])
    units, of_unit = group_codes(chosen, keys)
    values = np.full((len(units), len(corruptions), len(severities)), np.nan)
    name, severity = (
        pd.Index(wanted).get_indexer(pd.Index(chosen[column]))
        for wanted, column in ((list(corruptions), "corruption"), (list(severities), "severity"))
    )
    values[of_unit, name, severity] = chosen["value"].to_numpy(float)
    table = [
        (tuple(unit), dict(zip(corruptions, figures, strict=True)), float(clean))
        for (*unit, clean), figures in zip(
            with_clean(units, rows, keys)[[*keys, "clean"]].itertuples(index=False), values, strict=True
        )
    ]
    return table, keys


def _errors(figures: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return 1 - np.asarray(figures, np.float64)


def _same(reference: Cells, name: str) -> npt.ArrayLike:
    if name not in reference:
        raise GauntletError(f"the reference model has no figures under '{name}'.")
    return reference[name]


def _quotient(error: float, of_reference: float) -> float:
    """NaN where the reference makes no error at all, or fewer than on clean images."""
    return float(error / of_reference) if of_reference > 0 else float("nan")

"""Distributions over images: which attack was best, how small perturbations can be, how single images fare."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from gauntlet.analysis.frames import require_columns
from gauntlet.errors import GauntletError
from gauntlet.metrics.selection import select

AGGREGATED = "aggregated"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def best_attack(
    per_image: pd.DataFrame, metric: str = "accuracy", *, attacks: Sequence[str] | None = None
) -> pd.DataFrame:
    """How often each attack of a battery was the strongest on an image (docs/specs/metrics.md, 7).

    Args:
        per_image: image_id, view (the attack's name) and a column of the metric; an image's NaN counts for nothing.
        metric: "accuracy" or "mIoU", smaller is stronger.
        attacks: the views that are attacks, in order; by default all but "all", "inside" and "outside".

    Returns:
        One row per attack: attack, images (on which it was chosen), share (ties go to the first attack), credit (ties
        shared equally); shares and credits sum to 1.
    """
    table = _by_attack(per_image, metric, attacks)
    selection = select(table.to_numpy(float).T)
    counted = int(table.notna().any(axis=1).sum())
    return pd.DataFrame(
        {
            "attack": list(table.columns),
            "images": np.rint(selection.share * counted).astype(int),
            "share": selection.share,
            "credit": selection.credit,
        }
    )


def _by_attack(per_image: pd.DataFrame, column: str, attacks: Sequence[str] | None) -> pd.DataFrame:
    """Images in rows, attacks in columns."""
    require_columns(per_image, ["image_id", "view", column], "a comparison of attacks")
    names = list(dict.fromkeys(per_image["view"]))
    wanted = list(attacks) if attacks is not None else [name for name in names if name not in _NOT_ATTACKS]
    missing = [name for name in wanted if name not in names]
    if missing or not wanted:
        raise GauntletError(f"no figures of {', '.join(missing) or 'any attack'}; the views are {', '.join(names)}.")
    rows = per_image[per_image["view"].isin(wanted)]
    if rows.duplicated(["image_id", "view"]).any():
        raise GauntletError("an image occurs twice under one attack; give the images of one evaluation.")
    return rows.set_index(["image_id", "view"])[column].unstack("view")[wanted]


_NOT_ATTACKS = ("all", "inside", "outside")


def minimum_norms(per_image: pd.DataFrame, quantile: float = 0.99) -> pd.DataFrame:
    """The size of the smallest successful perturbation: the norm where enough pixels were fooled, else infinity.

    Args:
        per_image: image_id, view (the attack), norm (on [0, 1]) and share (of fooled pixels, on re-evaluation).
        quantile: the share that counts as success; 0.99 and 0.90 are published.

    Returns:
        The frame with a column `minimum`; 0 norms (already adversarial images) stay 0. It is NaN where the share is:
        on an image without a valid pixel nothing can be fooled, and no attack fails.
    """
    require_columns(per_image, ["image_id", "view", "norm", "share"], "minimum perturbations")
    success = per_image["share"] >= quantile - 1e-9
    return per_image.assign(
        minimum=per_image["norm"].where(success, np.inf).fillna(np.inf).where(per_image["share"].notna())
    )


def perturbation_cdf(
    minimum: pd.DataFrame, *, levels: npt.ArrayLike | None = None, attacks: Sequence[str] | None = None
) -> pd.DataFrame:
    """F(epsilon): the share of images that a perturbation of at most epsilon fools (docs/specs/metrics.md, 8).

    Args:
        minimum: image_id, view (the attack) and minimum (norm on [0, 1], infinity for failure), as `minimum_norms`
            gives them. Images on which it is NaN for every attack are left out; on others NaN is a failure.
        levels: grey levels at which to evaluate; by default every level at which some curve rises.
        attacks: the views that are attacks; by default all but "all", "inside" and "outside".

    Returns:
        Tidy: attack (with "aggregated": the smallest over attacks), grey_level (norm x 255), share, images.
    """
    table = _with_aggregated(minimum, attacks)
    values = table.to_numpy(float) * 255
    finite = np.unique(values[np.isfinite(values)])
    grid = finite if levels is None else np.unique(np.asarray(levels, np.float64))
    counts = np.stack([np.searchsorted(np.sort(column), grid + 1e-9, side="right") for column in values.T])
    return pd.DataFrame(
        {
            "attack": np.repeat(np.array(table.columns, dtype=object), len(grid)),
            "grey_level": np.tile(grid, len(table.columns)),
            "share": (counts / max(len(table), 1)).ravel(),
            "images": len(table),
        }
    )


def median_perturbation(minimum: pd.DataFrame, *, attacks: Sequence[str] | None = None) -> pd.DataFrame:
    """The smallest epsilon that fools at least half of the images, in grey levels; infinity when none does.

    Args:
        minimum: as for `perturbation_cdf`.
        attacks: as for `perturbation_cdf`.

    Returns:
        One row per attack and "aggregated": attack, median, fooled (share of images with any success), images.
    """
    table = _with_aggregated(minimum, attacks)
    if table.empty:  # no image has a valid pixel
        return pd.DataFrame({"attack": list(table.columns), "median": np.nan, "fooled": np.nan, "images": 0})
    values = table.to_numpy(float) * 255
    half = -(-len(table) // 2) - 1  # F reaches one half with the image of this rank, counted from 0
    return pd.DataFrame(
        {
            "attack": list(table.columns),
            "median": np.sort(values, axis=0)[half],
            "fooled": np.isfinite(values).mean(axis=0),
            "images": len(table),
        }
    )


def _with_aggregated(minimum: pd.DataFrame, attacks: Sequence[str] | None) -> pd.DataFrame:
    """Smallest norms, images in rows, attacks in columns: infinite where an attack failed or returned nothing."""
    table = _by_attack(minimum, "minimum", attacks).dropna(how="all").fillna(np.inf)
    return table.assign(**{AGGREGATED: table.min(axis=1)})


def image_distribution(per_image: pd.DataFrame, metric: str = "mIoU", *, bins: int = 20) -> pd.DataFrame:
    """Histogram of a per-image figure in every view, over [0, 1].

    Args:
        per_image: image_id, view and a column of the metric; NaN images (nothing valid) are left out.
        metric: "mIoU" or "accuracy".
        bins: number of equal bins; the last one holds 1 as well.

    Returns:
        Tidy: view, low, high, images, share, cumulative (share of images at most as good).
    """
    if bins < 1:
        raise GauntletError(f"bins must be at least 1, not {bins}.")
    require_columns(per_image, ["view", metric], "a distribution over images")
    edges = np.linspace(0, 1, bins + 1)
    columns = ["view", "low", "high", "images", "share", "cumulative"]
    parts = []
    for view, rows in per_image.dropna(subset=metric).groupby("view", sort=False):
        counts, _ = np.histogram(rows[metric], edges)
        share = counts / counts.sum()
        bars = {"low": edges[:-1], "high": edges[1:], "images": counts, "share": share, "cumulative": share.cumsum()}
        parts.append(pd.DataFrame(bars).assign(view=str(view))[columns])
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def image_summary(per_image: pd.DataFrame, figures: pd.DataFrame | None = None) -> pd.DataFrame:
    """Image-wise mIoU in every view: NmIoU (its mean), quantiles, the worst image, beside the dataset's CmIoU.

    Args:
        per_image: image_id, view and mIoU; NaN images (nothing valid) are left out.
        figures: tidy figures of the same evaluation; its mIoU is the CmIoU.

    Returns:
        One row per view: view, images, NmIoU, CmIoU (NaN without figures), q05 to q95, worst_image, worst.
    """
    require_columns(per_image, ["image_id", "view", "mIoU"], "a summary over images")
    dataset: dict[str, float] = {}
    if figures is not None:
        rows = figures[figures["metric"].eq("mIoU")]
        rows = rows[rows["class_name"].eq("")] if "class_name" in rows else rows
        dataset = dict(zip(rows["view"], rows["value"], strict=True))
    result = []
    for view, rows in per_image.dropna(subset="mIoU").groupby("view", sort=False):
        worst = rows.iloc[int(rows["mIoU"].argmin())]
        quantiles = rows["mIoU"].quantile(list(QUANTILES)).to_numpy()
        result.append(
            {
                "view": view,
                "images": len(rows),
                "NmIoU": float(rows["mIoU"].mean()),
                "CmIoU": dataset.get(str(view), np.nan),
                **{f"q{100 * level:02.0f}": value for level, value in zip(QUANTILES, quantiles, strict=True)},
                "worst_image": worst["image_id"],
                "worst": float(worst["mIoU"]),
            }
        )
    return pd.DataFrame(result)

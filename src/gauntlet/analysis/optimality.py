"""Is an attack strong? Its distances beside the smallest known ones (docs/specs/beyond.md, 4; after AttackBench).

A distance is the norm at which an attack succeeds on an image: 0 where the model is wrong already, infinite where the
attack fails, NaN for an image that counts for nothing (no valid pixel).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from gauntlet.analysis.frames import require_columns
from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import FloatArray, divide


def optimality(distances: npt.ArrayLike, best: npt.ArrayLike) -> float:
    """The optimality 1 - (A - A*) / (rho eps0 - A*): 1 is as good as the best on every image, 0 as doing nothing.

    A is the exact area below the robust accuracy over [0, eps0], mean of min(d, eps0), where eps0 is the largest finite
    best distance; A* is that of the best, rho the share of images that are right at first. AttackBench joins the
    steps by slopes instead, which forgives half of the area of an attack that always fails.

    Args:
        distances: (N,) of the attack.
        best: (N,) the smallest known ones.
    """
    own, known = np.asarray(distances, np.float64), np.asarray(best, np.float64)
    if own.shape != known.shape or own.ndim != 1:
        raise GauntletError(f"distances need one number per image: there are {own.shape} and {known.shape}.")
    counted = ~np.isnan(known) & ~np.isnan(own)
    own, known = own[counted], known[counted]
    finite = known[np.isfinite(known)]
    if not len(finite):
        return float("nan")
    largest = finite.max()
    area, least = np.minimum(own, largest).mean(), np.minimum(known, largest).mean()
    return float(1 - divide(area - least, np.mean(known > 0) * largest - least))


def optimality_table(minimum: pd.DataFrame) -> pd.DataFrame:
    """The optimality of every attack on one model, against the best of them all on every image.

    An attack more can change everybody's figure: `best_of` says which attacks form the best.

    Args:
        minimum: as `minimum_norms` gives it: image_id, view (the attack), minimum (infinite where it failed); with
            forwards and backwards, as `Evaluation.per_image` has them, the passes are counted too.

    Returns:
        attack, optimality, images (on which the attack was run), queries (forward and backward passes per image, NaN
        where nobody counted), best_of (names of the attacks).
    """
    require_columns(minimum, ["image_id", "view", "minimum"], "the optimality of attacks")
    wide = minimum.pivot(index="image_id", columns="view", values="minimum")[list(dict.fromkeys(minimum["view"]))]
    distances: Mapping[str, FloatArray] = {str(name): wide[name].to_numpy(np.float64) for name in wide}
    best = wide.min(axis=1).to_numpy(np.float64)
    names = ", ".join(distances)
    passes = minimum.reindex(columns=["forwards", "backwards"]).astype(float).sum(axis=1, min_count=2)
    queries = passes.groupby(minimum["view"].astype(str)).mean()
    rows = [
        {
            "attack": name,
            "optimality": optimality(values, best),
            "images": _counted(values),
            "queries": float(queries[name]),
            "best_of": names,
        }
        for name, values in distances.items()
    ]
    return pd.DataFrame(rows, columns=["attack", "optimality", "images", "queries", "best_of"])


def mean_optimality(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The optimality of every attack in the mean over models, NaN unless each of them has a figure of it.

    Args:
        tables: by model, what `optimality_table` gives.

    Returns:
        attack, optimality (the mean), models (how many have a figure), and a column per model.
    """
    wide = pd.DataFrame({model: table.set_index("attack")["optimality"] for model, table in tables.items()})
    means = wide.mean(axis=1, skipna=False).rename("optimality")
    order = dict.fromkeys(attack for table in tables.values() for attack in table["attack"])
    found = pd.concat([means, wide.notna().sum(axis=1).rename("models"), wide], axis=1)
    return found.loc[list(order)].rename_axis("attack").reset_index()


def _counted(distances: FloatArray) -> int:
    return int((~np.isnan(distances)).sum())


def complementarity(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Of the images that not both attacks fool, the share that one of them does: 1 when they make up for each other.

    Args:
        first, second: (N,) whether an attack succeeded.
    """
    one, other = np.asarray(first, bool), np.asarray(second, bool)
    differ = int((one != other).sum())
    return float(divide(differ, differ + int((~one & ~other).sum())))


def ensemble_gain(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """The share of images on which the second attack fails and the first succeeds."""
    one, other = np.asarray(first, bool), np.asarray(second, bool)
    return float(np.mean(one & ~other)) if len(one) else float("nan")

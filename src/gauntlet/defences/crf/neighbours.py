"""Which cells are near each other: lists of neighbours by a search among bins."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import numpy.typing as npt

from gauntlet.compiling import compiled
from gauntlet.defences.crf.blocks import balanced, run
from gauntlet.errors import GauntletError

Floats = npt.NDArray[np.floating]
Whole = npt.NDArray[np.int64]

LARGEST_LIST = 400_000_000
"""Neighbours that are kept at most: 1.6 GB."""


def keys_of(places: Whole, margin: int = 0) -> tuple[Whole, Whole]:
    """One number for each of the places (N, D) in a grid, and what a step along each of its sides adds to it.

    A margin keeps up to that many steps from leaving one row and arriving in the next.
    """
    extent = [int(side) + 1 + 2 * margin for side in places.max(axis=0)]
    if math.prod(extent) >= 2**63:
        raise GauntletError("crf: has more cells than can be numbered; take a larger side or larger bandwidths.")
    strides = np.array([math.prod(extent[axis + 1 :]) for axis in range(len(extent))], dtype=np.int64)
    return places @ strides, strides


def near_cells(
    centroids: Floats, keys: Whole, strides: Whole, bin_side: float, radius: float
) -> tuple[Whole, npt.NDArray[np.uint32]]:
    """For every cell those whose centroids are less than a radius away, itself included.

    Args:
        centroids: (D, C), sorted by bin.
        keys: (C,), of the bins.
        strides: (D,), what a step to the next bin adds to a key.
        bin_side: of a bin, in units of the features.
        radius: in units of the features.

    Returns:
        where the list of each cell begins (C + 1,), and the lists one behind the other.
    """
    reach = bins_in_reach(radius, bin_side)
    offsets, runs = [], []
    for steps in itertools.product(range(-reach, reach + 1), repeat=len(strides) - 1):
        left = radius**2 - sum(max(0, abs(step) - 1) ** 2 for step in steps) * bin_side**2
        if left > 0:  # what the other features leave of the radius for the last one, whose bins lie side by side
            offsets.append(np.dot(steps, strides[:-1]))
            runs.append(bins_in_reach(math.sqrt(left), bin_side))
    bins, first = np.unique(keys, return_index=True)
    begins = np.append(first, len(keys)).astype(np.int64)
    squared = centroids.dtype.type(radius**2)
    counts = np.zeros(len(keys), dtype=np.int64)
    search = partial(_search, centroids, bins, begins, np.array(offsets), np.array(runs), squared)
    blocks = balanced(np.diff(begins), 16)
    nothing = np.empty(0, dtype=np.uint32)
    run(lambda block: search(*block, counts, nothing), blocks)
    starts = np.append(0, np.cumsum(counts))
    if starts[-1] > LARGEST_LIST:
        raise GauntletError(
            f"crf: the image has {len(keys):,} feature cells with {starts[-1]:,} neighbours, more than the "
            f"{LARGEST_LIST:,} that are kept; take a larger side."
        )
    near = np.empty(starts[-1], dtype=np.uint32)
    places = starts[:-1].copy()
    run(lambda block: search(*block, places, near), blocks)
    return starts, near


def bins_in_reach(radius: float, bin_side: float) -> int:
    """How many bins away a neighbour within a radius can lie: so many that those between are narrower than it."""
    return math.ceil(radius / bin_side)


@compiled
def _search(
    centroids: Floats,
    bins: Whole,
    begins: Whole,
    offsets: Whole,
    runs: Whole,
    squared: np.floating,
    first: int,
    last: int,
    places: Whole,
    near: npt.NDArray[np.uint32],
) -> None:
    """Writes the neighbours of the cells in bins `first` to `last` to where `places` say, and moves the places on.

    With an empty `near` only the places move, which counts neighbours.
    """
    ys, xs, reds, greens, blues = centroids[0], centroids[1], centroids[2], centroids[3], centroids[4]
    for offset, reach in zip(offsets, runs):  # noqa: B905 # compiled loops know no `strict`
        low = np.searchsorted(bins, bins[first] + offset - reach)
        high = low
        for index in range(first, last):
            # Keys ascend, so both ends of the run of bins only ever move on.
            while low < len(bins) and bins[low] < bins[index] + offset - reach:
                low += 1
            high = max(high, low)
            while high < len(bins) and bins[high] <= bins[index] + offset + reach:
                high += 1
            begin, end = begins[low], begins[high]
            for cell in range(begins[index], begins[index + 1]):
                y, x, red, green, blue = ys[cell], xs[cell], reds[cell], greens[cell], blues[cell]
                place = places[cell]
                if len(near) == 0:
                    for other in range(begin, end):
                        dy, dx = ys[other] - y, xs[other] - x
                        dr, dg, db = reds[other] - red, greens[other] - green, blues[other] - blue
                        place += dy * dy + dx * dx + dr * dr + dg * dg + db * db < squared
                else:
                    for other in range(begin, end):
                        dy, dx = ys[other] - y, xs[other] - x
                        dr, dg, db = reds[other] - red, greens[other] - green, blues[other] - blue
                        if dy * dy + dx * dx + dr * dr + dg * dg + db * db < squared:
                            near[place] = other
                            place += 1
                places[cell] = place

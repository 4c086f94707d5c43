"""The loops of the cells method: what pixels hear from the cells near them, and the derivative of it.

Both go through cells. Features and values of the neighbours of a cell are fetched once into rows that the pixels of
the cell then share; a row lies contiguously in memory, one number per neighbour.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.compiling import compiled, summed
from gauntlet.defences.crf.falloff import falloff

Floats = npt.NDArray[np.floating]
Whole = npt.NDArray[np.int64]
Indices = npt.NDArray[np.uint32]

TOGETHER = 8
"""Pixels of a cell whose derivatives are added up together."""


@compiled
def _fetch(rows: Floats, near: Indices, fetched: Floats) -> None:
    """fetched[r, t] = rows[r, near[t]]."""
    for row in range(len(rows)):
        source, target = rows[row], fetched[row]
        for t in range(len(near)):
            target[t] = source[near[t]]


@compiled
def _weigh(centroids: Floats, feature: Floats, weights: Floats, half: np.floating) -> None:
    """weights[t] = exp(-|feature - centroids[:, t]|² / 2)."""
    ys, xs, reds, greens, blues = centroids[0], centroids[1], centroids[2], centroids[3], centroids[4]
    y, x, red, green, blue = feature[0], feature[1], feature[2], feature[3], feature[4]
    for t in range(len(weights)):
        dy, dx, dr, dg, db = ys[t] - y, xs[t] - x, reds[t] - red, greens[t] - green, blues[t] - blue
        weights[t] = falloff(half * (dy * dy + dx * dx + dr * dr + dg * dg + db * db))


@summed
def _dot(left: Floats, right: Floats) -> Any:
    total = left[0] * right[0]
    for t in range(1, len(left)):
        total += left[t] * right[t]
    return total


@compiled
def hear(
    features: Floats,
    centroids: Floats,
    values: Floats,
    pixels: Whole,
    begins: Whole,
    starts: Whole,
    near: Indices,
    half: np.floating,
    first: int,
    last: int,
    heard: Floats,
) -> None:
    """heard[i, k] = sum over cells c near the cell of pixel i of exp(-|f_i - centroid_c|² / 2) values[k, c].

    Args:
        features: (P, 5).
        centroids: (5, C).
        values: (K, C), summed over the pixels of each cell.
        pixels: (P,), sorted by cell.
        begins: (C + 1,), where the pixels of each cell begin.
        starts: (C + 1,), where the neighbours of each cell begin in `near`.
        near: the neighbours of all cells.
        half: 0.5 in the type of the features.
        first, last: which cells to do.
        heard: (P, K), written.
    """
    longest = (starts[first + 1 : last + 1] - starts[first:last]).max()
    own_centroids = np.empty((len(centroids), longest), centroids.dtype)
    own_values = np.empty((len(values), longest), values.dtype)
    own_weights = np.empty(longest, values.dtype)
    for cell in range(first, last):
        neighbours = near[starts[cell] : starts[cell + 1]]
        weights = own_weights[: len(neighbours)]
        _fetch(centroids, neighbours, own_centroids)
        _fetch(values, neighbours, own_values)
        for place in range(begins[cell], begins[cell + 1]):
            pixel = pixels[place]
            _weigh(own_centroids, features[pixel], weights, half)
            for k in range(len(values)):
                heard[pixel, k] = _dot(weights, own_values[k])


@compiled
def answer(
    features: Floats,
    centroids: Floats,
    values: Floats,
    pixels: Whole,
    begins: Whole,
    starts: Whole,
    near: Indices,
    half: np.floating,
    first: int,
    last: int,
    gradient: Floats,
    with_features: bool,
    to_values: Floats,
    to_features: Floats,
    to_centroids: Floats,
) -> None:
    """Adds the derivatives of `hear` for the pixels of some cells, given that of what was heard.

    Args:
        features: as the other arguments up to `last`, those of `hear`.
        gradient: (P, K), of the loss to what was heard.
        with_features: whether those to features and centroids are wanted too.
        to_values: (K, C), added to.
        to_features: (P, 5), added to.
        to_centroids: (5, C), added to.
    """
    longest = (starts[first + 1 : last + 1] - starts[first:last]).max()
    own_centroids = np.empty((len(centroids), longest), centroids.dtype)
    own_values = np.empty((len(values), longest), values.dtype)
    weights = np.empty((TOGETHER, longest), values.dtype)
    scales = np.empty((len(values), TOGETHER), values.dtype)
    own_pull = np.empty(longest, values.dtype)
    back_values = np.empty((len(values), longest), values.dtype)
    back_centroids = np.empty((len(centroids), longest), values.dtype)
    for cell in range(first, last):
        neighbours = near[starts[cell] : starts[cell + 1]]
        length = len(neighbours)
        pull = own_pull[:length]
        _fetch(centroids, neighbours, own_centroids)
        if with_features:
            _fetch(values, neighbours, own_values)
        back_values[:, :length] = 0
        back_centroids[:, :length] = 0
        for begin in range(begins[cell], begins[cell + 1], TOGETHER):
            group = pixels[begin : min(begin + TOGETHER, begins[cell + 1])]
            for place in range(len(group)):
                _weigh(own_centroids, features[group[place]], weights[place, :length], half)
                scales[:, place] = gradient[group[place]]
            for k in range(len(values)):
                _add_scaled(scales[k, : len(group)], weights, back_values[k, :length])
            if not with_features:
                continue
            for place in range(len(group)):
                pixel = group[place]
                pull[:] = 0
                _add_scaled(gradient[pixel], own_values, pull)
                own = weights[place]
                for t in range(length):
                    pull[t] *= own[t]
                for d in range(len(centroids)):
                    to_features[pixel, d] += _pulled(pull, own_centroids[d], features[pixel, d], back_centroids[d])
        _scatter(back_values, neighbours, to_values)
        if with_features:
            _scatter(back_centroids, neighbours, to_centroids)


@compiled
def _add_scaled(scales: Floats, rows: Floats, target: Floats) -> None:
    """Adds the rows, each times its scale, to target; four at a time, since fetching the target costs most."""
    fours = len(scales) // 4 * 4
    for row in range(0, fours, 4):
        one, two, three, four = rows[row], rows[row + 1], rows[row + 2], rows[row + 3]
        a, b, c, d = scales[row], scales[row + 1], scales[row + 2], scales[row + 3]
        for t in range(len(target)):
            target[t] += (a * one[t] + b * two[t]) + (c * three[t] + d * four[t])
    for row in range(fours, len(scales)):
        one, a = rows[row], scales[row]
        for t in range(len(target)):
            target[t] += a * one[t]


@summed
def _pulled(pull: Floats, centroids: Floats, feature: Any, back: Floats) -> Any:
    """The sum of pull (centroid - feature), whose terms are also taken from `back`: k' = k (centroid - feature)."""
    total = pull[0] * (centroids[0] - feature)
    back[0] -= total
    for t in range(1, len(pull)):
        term = pull[t] * (centroids[t] - feature)
        back[t] -= term
        total += term
    return total


@compiled
def _scatter(rows: Floats, near: Indices, target: Floats) -> None:
    """target[r, near[t]] += rows[r, t]; no neighbour occurs twice."""
    for row in range(len(rows)):
        for t in range(len(near)):
            target[row, near[t]] += rows[row, t]

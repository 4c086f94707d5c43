"""Which pixels are certified: a binomial test per pixel, all of an image corrected together.

Fischer, Baader and Vechev 2021 (SegCertify); docs/specs/defences.md, 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import betainc  # scipy.stats.binom is the same, and takes as long to import as torch

from gauntlet.errors import GauntletError

Correction = Literal["holm", "bonferroni", "none"]
CORRECTIONS: tuple[str, ...] = get_args(Correction)


def p_values(hits: npt.NDArray[np.integer], samples: int, tau: float) -> npt.NDArray[np.float64]:
    """P[Bin(n, tau) >= hits] of every pixel: how likely so many votes are if the class has a probability of tau only.

    Args:
        hits: votes for the chosen class, any shape; at most `samples`.
        samples: n, the votes of the second stage.
        tau: the probability that is to be exceeded.
    """
    votes = np.arange(1, samples + 1)
    table = np.ones(samples + 1)  # n + 1 different values, not one call per pixel
    table[1:] = betainc(votes, samples - votes + 1, tau)  # P[Bin(n, tau) >= k] = I_tau(k, n - k + 1)
    return np.asarray(table[hits], dtype=np.float64)


def rejected(
    p: npt.NDArray[np.float64], alpha: float, correction: str = "holm", tolerated: int = 0
) -> npt.NDArray[np.bool_]:
    """Which hypotheses of a family are rejected, with more than `tolerated` wrong ones at most with probability alpha.

    Args:
        p: p-values of the family, any shape.
        alpha: level of the family.
        correction: "holm", "bonferroni", or "none": alpha then holds for every single pixel, not for the image.
        tolerated: wrong pixels that are put up with, k - 1 of the k-FWER of Lehmann and Romano 2005; holm only.
    """
    check_testing(alpha, correction, tolerated)
    flat = p.reshape(-1)
    count, k = len(flat), tolerated + 1
    if k > max(count, 1):
        raise GauntletError(f"{tolerated} wrong pixels are tolerated, but there are only {count}.")
    if correction == "none":
        return np.asarray(p <= alpha)
    if correction == "bonferroni":
        return np.asarray(p <= k * alpha / count)
    ranks = np.arange(1, count + 1)
    # Lehmann and Romano, Eq. 7: k alpha / N for the first k, k alpha / (N + k - i) after. Holm for k = 1.
    bounds = k * alpha / np.where(ranks <= k, count, count + k - ranks)
    order = np.argsort(flat, kind="stable")
    failures = np.flatnonzero(flat[order] > bounds)
    passed = order[: failures[0]] if len(failures) else order
    result = np.zeros(count, bool)
    result[passed] = True
    return result.reshape(p.shape)


def certified_radius(sigma: float, tau: float) -> float:
    """R = sigma Phi^-1(tau): size of the l2 perturbation, on the [0, 1] scale, inside which a certificate holds."""
    return sigma * NormalDist().inv_cdf(tau)


def needed_samples(tau: float, alpha: float, pixels: float) -> int:
    """The smallest n for which a pixel can be certified at all: tau^n <= alpha / N.

    >>> needed_samples(0.75, 0.001, 768), needed_samples(0.9, 0.001, 512 * 1024)
    (48, 191)
    """
    return math.ceil(math.log(alpha / pixels) / math.log(tau) - 1e-12)


def check_testing(alpha: float, correction: str, tolerated: int) -> None:
    """An error where a test makes no sense."""
    if not 0 < alpha < 1:
        raise GauntletError(f"alpha must be between 0 and 1, not {alpha}.")
    if correction not in CORRECTIONS:
        raise GauntletError(f"correction must be one of {', '.join(CORRECTIONS)}, not '{correction}'.")
    if tolerated < 0:
        raise GauntletError(f"tolerated must not be negative, but is {tolerated}.")
    if correction == "none" and tolerated:
        raise GauntletError("without a correction every pixel is tested alone; leave tolerated out, or use holm.")


def check_taus(taus: Sequence[float]) -> None:
    """An error unless there are some, all different, above a half and below one."""
    if not taus:
        raise GauntletError("give at least one tau, such as 0.75.")
    for tau in taus:
        if not 0.5 < tau < 1:
            raise GauntletError(f"tau must be above 0.5 and below 1, not {tau}.")
    if len(set(taus)) < len(taus):
        raise GauntletError(f"a tau is given twice in {', '.join(f'{tau:g}' for tau in taus)}; give each once.")

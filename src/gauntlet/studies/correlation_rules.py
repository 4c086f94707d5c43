"""What counts as a strong, moderate or weak correlation: the papers describe scatter plots and print no coefficient.

Every rule of correlation looks at Spearman's rho over models and its 95 % interval; a score at the floor cannot be
judged, nor can fewer than LEAST_JUDGED models: resamples of three models in one order are all in that order. What
counts as a difference of groups stands here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from gauntlet.analysis.correlation import LEAST_PAIRS
from gauntlet.studies.contract import Condition

VERY_STRONG, STRONG, SUPPORT, MODERATE = 0.9, 0.7, 0.5, 0.4
LEAST_JUDGED = LEAST_PAIRS
"""Of fewer models no correlation is judged; six that are in one order are so by chance once in 720 times."""
YES, NO, OPEN = "confirmed", "not confirmed", "cannot be judged"

ENOUGH_MODELS = Condition(
    f"a verdict on a rank correlation over models takes {LEAST_JUDGED}, its interval resamples images and models",
    lambda figures: (
        "" if len(figures.models) >= LEAST_JUDGED else f"{len(figures.models)} models, {LEAST_JUDGED} at least"
    ),
)
"""Of claims about Spearman's rho over models."""

Judge = Callable[[Mapping[Hashable, Any]], str]
"""A verdict on a row of `analysis.correlate`: n, value, low, high, warning."""


def _rule(holds: Callable[[float, float, float], bool]) -> Judge:
    def judge(row: Mapping[Hashable, Any]) -> str:
        value, low, high = (float(row[name]) for name in ("value", "low", "high"))
        if row["warning"] or value != value or row["n"] < LEAST_JUDGED:
            return OPEN
        return YES if holds(value, low, high) else NO

    return judge


def _band(least: float, below: float) -> Judge:
    """A word for a range of rho: the whole interval must lie in it, or outside; where it straddles a bound, the word
    would change with the models drawn and nothing can be said."""

    def judge(row: Mapping[Hashable, Any]) -> str:
        inside = _rule(lambda value, low, high: least < low and high < below)(row)
        outside = _rule(lambda value, low, high: high <= least or low >= below)(row)
        return YES if inside == YES else NO if outside == YES else OPEN

    return judge


judge_very_strong = _rule(lambda value, low, high: value >= VERY_STRONG and low >= STRONG)
"""Very strong: at least 0.9, and at least 0.7 is certain."""
judge_strong = _rule(lambda value, low, high: value >= STRONG and low >= SUPPORT)
"""Strong: at least 0.7, and at least 0.5 is certain."""
judge_not_strong = _band(0, STRONG)
"""Positive, but not strong: certainly above 0 and below 0.7."""
judge_moderate = _band(MODERATE, STRONG)
"""Moderate: certainly between 0.4 and 0.7."""
judge_weak = _band(0, MODERATE)
"""Weak: certainly above 0 and below 0.4."""
judge_not_correlated = _band(-STRONG, STRONG)
"""No strong correlation: certainly between -0.7 and 0.7."""
judge_positive = _rule(lambda value, low, high: low > 0)
"""Any positive correlation: 0 lies below the interval."""


def judge_difference(low: float, high: float, *, better: bool = True) -> str:
    """A verdict on the claim that one group of models is better than another, or is not.

    Args:
        low, high: the differences that the test of `analysis.compare_groups` does not reject, so that 0 lies outside
            where p is below 0.05; NaN where the groups are too small for any p-value below it (three and three).
        better: whether it is claimed to be better: certainly above 0. Not to be better is to lie certainly below; where
            0 lies inside nothing can be said.
    """
    if math.isnan(low) or math.isnan(high):
        return OPEN
    if better:
        return YES if low > 0 else NO
    return NO if low > 0 else YES if high < 0 else OPEN


WORDS: Mapping[Judge, str] = {
    judge_very_strong: "very strong",
    judge_strong: "strong",
    judge_not_strong: "positive, not strong",
    judge_moderate: "moderate",
    judge_weak: "weak",
    judge_not_correlated: "none, or not strong",
    judge_positive: "positive",
}
RULES = (
    f"A correlation is *very strong* when Spearman's rho is at least {VERY_STRONG} and the lower end of its 95 % "
    f"interval at least {STRONG}; *strong* at {STRONG} with {SUPPORT}; *positive* when the interval lies above 0. "
    f"*Weak* (0 to {MODERATE}), *moderate* ({MODERATE} to {STRONG}), *positive, not strong* (0 to {STRONG}) and "
    f"*none, or not strong* (-{STRONG} to {STRONG}) are confirmed when the whole interval lies in that range, not "
    "confirmed when it lies outside, and cannot be judged when it straddles a bound, as the word would change with the "
    "models. "
    f"Fewer than {LEAST_JUDGED} models are not judged."
)

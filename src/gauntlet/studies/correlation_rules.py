"""What counts as a strong, moderate or weak correlation: the papers describe scatter plots and print no coefficient.

Every rule looks at Spearman's rho over models and its 95 % interval; a score at the floor cannot be judged, nor can
fewer than LEAST_JUDGED models: resamples of three models in one order are all in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from gauntlet.studies.contract import Condition

VERY_STRONG, STRONG, SUPPORT, MODERATE = 0.9, 0.7, 0.5, 0.4
LEAST_JUDGED = 6
"""Of fewer models no correlation is judged; six that are in one order are so by chance once in 720 times."""
YES, NO, OPEN = "confirmed", "not confirmed", "cannot be judged"

ENOUGH_MODELS = Condition(
    f"a rank correlation over models {LEAST_JUDGED} models at least, as its interval knows of images only",
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


judge_very_strong = _rule(lambda value, low, high: value >= VERY_STRONG and low >= STRONG)
"""Very strong: at least 0.9, and at least 0.7 is certain."""
judge_strong = _rule(lambda value, low, high: value >= STRONG and low >= SUPPORT)
"""Strong: at least 0.7, and at least 0.5 is certain."""
judge_not_strong = _rule(lambda value, low, high: low > 0 and value < STRONG)
"""Positive, but not strong: certainly above 0, and below 0.7."""
judge_moderate = _rule(lambda value, low, high: low > 0 and MODERATE <= value < STRONG)
"""Moderate: certainly above 0, between 0.4 and 0.7."""
judge_weak = _rule(lambda value, low, high: 0 < value < MODERATE)
"""Weak: above 0, below 0.4."""
judge_not_correlated = _rule(lambda value, low, high: value < STRONG and (high < STRONG or low <= 0))
"""No strong correlation: below 0.7, and 0.7 is outside the interval or 0 is inside."""
judge_positive = _rule(lambda value, low, high: low > 0)
"""Any positive correlation: 0 lies below the interval."""

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
    f"interval at least {STRONG}; *strong* at {STRONG} with {SUPPORT}; *positive, not strong* when the interval lies "
    f"above 0 and rho below {STRONG}; *moderate* the same with rho of at least {MODERATE}; *weak* when rho lies "
    f"between 0 and {MODERATE}; *none, or not strong* when rho is below {STRONG} and the interval ends below {STRONG} "
    f"or contains 0; *positive* when the interval lies above 0. Fewer than {LEAST_JUDGED} models are not judged."
)

"""What every check shares: how a model is tried, and what casts doubt on its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gauntlet.numbers import Number
from gauntlet.threats.attacks.engine.request import MODEL_IGNORE_INDEX

BEST_SLACK, LAST_SLACK = 0.01, 0.02
"""How much weaker a stronger setting may look: best iterates, last iterates (docs/specs/attacks.md, 16)."""


@dataclass(frozen=True)
class Suspicion:
    """Something that casts doubt on a robustness figure.

    Attributes:
        code: short, stable name of the check.
        severity: "warning", or "error" where figures of this model cannot be trusted.
        sentence: what was seen.
        figures: the numbers behind it, JSON-able.
    """

    code: str
    severity: str
    sentence: str
    figures: Mapping[str, Any] = field(default_factory=dict)


class Trial(NamedTuple):
    """How a model is tried, see `check_attack`."""

    epsilon: Number = "8/255"
    steps: int = 20
    norm: str = "linf"
    other_model: Any = None
    noises: int = 20
    whole_box_steps: int = 100
    ignore_index: int | str | None = MODEL_IGNORE_INDEX
    seed: int = 0
    queries: int = 100

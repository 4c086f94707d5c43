"""What the studies of this paper share: its attacks, its levels of epsilon, its printed tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from gauntlet.results import published

LEVELS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""The paper's epsilons, in grey levels of 255."""
SHORT_LEVELS = (2.0, 8.0, 32.0)
"""Ours where the paper does not say which it drew."""
EPSILON = 8.0
PRINTED_NAMES: Mapping[str, str] = {
    "fgsm": "fgsm",
    "fgsm-ll": "fgsm ll",
    "ifgsm": "iterative fgsm",
    "ifgsm-ll": "iterative fgsm ll",
}
"""The four attacks, and what they are called in the published figures."""
ATTACKS = tuple(PRINTED_NAMES)
SINGLE_STEP = ("fgsm", "fgsm-ll")
VOC = "VOC 2012 reduced validation set, 346 images"
VOC_8 = f"{VOC}, epsilon 8 of 255"
CITYSCAPES = "Cityscapes validation set, 500 images at 512x1024"
# The transfer tables only fit the shorter iteration rule (docs/specs/defences.md, 1, "known contradictions").
TRANSFER_RULE = "kurakin"
EPSILON_AXIS = "epsilon (grey levels of 255)"
RATIO_AXIS = "IoU ratio"


def level_name(level: float) -> str:
    """An epsilon in grey levels, as threats have it."""
    return f"{level:g}/255"


def label(name: str, level: float = EPSILON) -> str:
    """The label of an attack at an epsilon."""
    return f"{name} {level_name(level)}"


def attack(name: str, level: float = EPSILON, **options: Any) -> dict[str, Any]:
    """An attack of the paper on the model itself.

    What the untargeted ones leave is the network's own prediction, as in the paper's code (docs/specs/attacks.md, 2)
    and in the suite `arnab`; of iterative FGSM it is the default.
    """
    own = {"labels": "prediction"} if name == "fgsm" else {}
    return {"attack": {"name": name, "epsilon": level_name(level), **own, **options}}


def transferred(name: str, source: str, level: float = EPSILON, **options: Any) -> dict[str, Any]:
    """The attack made on a member; iterative ones take the shorter rule of the transfer tables."""
    rule = {} if name in SINGLE_STEP else {"iteration_rule": TRANSFER_RULE}
    return {"transfer": {"source_model": f"@{source}", **attack(name, level, **rule, **options)}}


def table(number: int) -> pd.DataFrame:
    """The figures of one of the paper's tables."""
    rows = published.frame(source="arnab")
    return rows[rows["table"].eq(str(number))]


def printed_threat(name: str, level: float = EPSILON) -> str:
    """An attack at an epsilon as the published figures name it."""
    return f"{PRINTED_NAMES[name]} linf {level_name(level)}"

"""Several attacks, by function: the region-aware rounds, and batteries, whose outcome has the worst case per image.

For batteries: `epsilon` None is 8/255, `budget` is a factor on every number of steps; `skip`, `table`, `keep` and
`together` are those of `Battery`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from gauntlet.numbers import Number
from gauntlet.threats.attacks.combined.battery_outcome import BatteryOutcome
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.outcome import Outcome
from gauntlet.threats.attacks.functions.calling import CombinedCall, Labels, run_attack, run_battery

if TYPE_CHECKING:
    from typing_extensions import Unpack


def region_aware(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    attack: Attack | Mapping[str, Any] | str = "bim",
    rounds: int = 3,
    literal: bool = False,
    **more: Unpack[CombinedCall],
) -> Outcome:
    """Rounds that aim at what is still right (Marchiori Pietrosanti et al., Algorithm 1; docs/specs/attacks.md, 13).

    `attack` is the attack of every round: a name, a description such as {"name": "pgd", "steps": 20}, or an attack.
    """
    return run_attack("region-aware", locals())


def sea(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    budget: Number = 1.0,
    skip: bool = True,
    table: bool = False,
    keep: bool = True,
    together: bool = False,
    **more: Unpack[CombinedCall],
) -> BatteryOutcome:
    """SEA: JSD, MCE, MSL and BCE (Croce et al. 2024; docs/specs/attacks.md, 6)."""
    return run_battery("sea", locals())


def semsegbench(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    budget: Number = 1.0,
    skip: bool = True,
    table: bool = False,
    keep: bool = True,
    together: bool = False,
    **more: Unpack[CombinedCall],
) -> BatteryOutcome:
    """PGD, SegPGD and CosPGD, the attacks of SemSegBench (Agnihotri et al.)."""
    return run_battery("semsegbench", locals())


def detecbench(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    budget: Number = 1.0,
    skip: bool = True,
    table: bool = False,
    keep: bool = True,
    together: bool = False,
    **more: Unpack[CombinedCall],
) -> BatteryOutcome:
    """BIM and PGD with 20 steps of 0.01 on a detector, the attacks of DetecBench (Agnihotri et al.)."""
    return run_battery("detecbench", locals())


def detectors(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    budget: Number = 1.0,
    skip: bool = True,
    table: bool = False,
    keep: bool = True,
    together: bool = False,
    **more: Unpack[CombinedCall],
) -> BatteryOutcome:
    """PGD, APGD, PAdam-CE and TOG, vanishing and untargeted, on a detector (ours)."""
    return run_battery("detectors", locals())


def halmosi(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    budget: Number = 1.0,
    skip: bool = True,
    table: bool = False,
    keep: bool = True,
    together: bool = False,
    **more: Unpack[CombinedCall],
) -> BatteryOutcome:
    """The ten attacks of Halmosi et al. 2024 (docs/specs/attacks.md, 12)."""
    return run_battery("halmosi", locals())

"""Attacks on segmentation models and detectors: one engine, a loss x a step rule x a constraint x a schedule.

`build` makes an attack or a battery by its name; every one of them is a typed function too (`functions`), such as
`pgd(model, images, labels, epsilon="8/255", steps=20)`.
"""

from __future__ import annotations

from gauntlet.models.straight_through import straight_through
from gauntlet.threats.attacks.checks import Suspicion, check_attack
from gauntlet.threats.attacks.combined.battery import Battery
from gauntlet.threats.attacks.combined.battery_outcome import BatteryOutcome
from gauntlet.threats.attacks.combined.members import build_battery
from gauntlet.threats.attacks.combined.region_aware import RegionAware
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.losses import PixelLoss, losses
from gauntlet.threats.attacks.engine.outcome import Outcome, Queries
from gauntlet.threats.attacks.engine.step_rules import StepRule, step_rules
from gauntlet.threats.attacks.functions import (
    alma_prox,
    apgd,
    apgd_jsd,
    bim,
    cospgd,
    dag,
    detecbench,
    detectors,
    fgsm,
    fgsm_ll,
    fgsm_nth,
    fmn,
    gauntlet,
    halmosi,
    ifgsm,
    ifgsm_ll,
    label_only,
    mifgsm,
    minimal_pgd,
    padam_ce,
    padam_cos,
    pdgd,
    pdpgd,
    pgd,
    region_aware,
    sea,
    sea_bce,
    sea_jsd,
    sea_mce,
    sea_mce_bal,
    sea_msl,
    segpgd,
    semsegbench,
    square,
    tog_fabrication,
    tog_mislabeling,
    tog_untargeted,
    tog_vanishing,
)
from gauntlet.threats.attacks.presets import batteries, build, names
from gauntlet.threats.attacks.registration import attacks, register

__all__ = [
    "Attack",
    "Battery",
    "BatteryOutcome",
    "Outcome",
    "PixelLoss",
    "Queries",
    "RegionAware",
    "StepRule",
    "Suspicion",
    "alma_prox",
    "apgd",
    "apgd_jsd",
    "attacks",
    "batteries",
    "bim",
    "build",
    "build_battery",
    "check_attack",
    "cospgd",
    "dag",
    "detecbench",
    "detectors",
    "fgsm",
    "fgsm_ll",
    "fgsm_nth",
    "fmn",
    "gauntlet",
    "halmosi",
    "ifgsm",
    "ifgsm_ll",
    "label_only",
    "losses",
    "mifgsm",
    "minimal_pgd",
    "names",
    "padam_ce",
    "padam_cos",
    "pdgd",
    "pdpgd",
    "pgd",
    "region_aware",
    "register",
    "sea",
    "sea_bce",
    "sea_jsd",
    "sea_mce",
    "sea_mce_bal",
    "sea_msl",
    "segpgd",
    "semsegbench",
    "square",
    "step_rules",
    "straight_through",
    "tog_fabrication",
    "tog_mislabeling",
    "tog_untargeted",
    "tog_vanishing",
]

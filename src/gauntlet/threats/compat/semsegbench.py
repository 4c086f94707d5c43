"""Threat files in SemSegBench's own form, understood as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.numbers import parse_number
from gauntlet.threats.corruptions import COMMON

ATTACKS = {"fgsm": "fgsm", "bim": "bim", "pgd": "pgd", "apgd": "apgd", "segpgd": "segpgd", "cospgd": "cospgd"}
NORMS = {"linf": "linf", "l_inf": "linf", "inf": "linf", "l2": "l2", "l_2": "l2", "2": "l2"}
CONDITIONS = ("fog", "night", "rain", "snow")
KEYS = ("threat_model", "iterations", "epsilon", "alpha", "lp_norm", "severity", "condition", "target", "targeted")
CORRUPTIONS = "2dcommoncorruption"
DEFAULT_TARGET = 1  # every pixel to class 1, as in the CosPGD code
ACDC = "acdc"


def is_semsegbench(content: Mapping[str, Any]) -> bool:
    """Whether a mapping has SemSegBench's form: it names a `threat_model` (its README writes a blank)."""
    return "threat_model" in content or "threat model" in content


def convert(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The threats that a SemSegBench file stands for, as descriptions.

    Epsilon is on the 0 to 255 scale and alpha on the 0 to 1 scale, as published (docs/specs/attacks.md, 0): epsilon 8
    means 8/255. '2DCommonCorruption' stands for its fifteen corruptions.
    """
    options = {str(key).strip().replace(" ", "_").lower(): value for key, value in content.items()}
    for key in options:
        if key not in KEYS:
            raise unknown_name("key of a SemSegBench threat file", key, KEYS)
    model = str(options["threat_model"]).strip().lower()
    if model == CORRUPTIONS:
        return [{"corruption": {"name": name, "severity": options.get("severity", 3)}} for name in COMMON]
    if model == ACDC:
        raise GauntletError(
            "real adverse weather is a dataset here: use --dataset acdc with condition "
            f"{', '.join(CONDITIONS)} and the threat 'clean'."
        )
    if model not in ATTACKS:
        raise unknown_name(
            "threat_model", str(options["threat_model"]), ["PGD", "SegPGD", "CosPGD", "2DCommonCorruption", "ACDC"]
        )
    norm = str(options.get("lp_norm", "Linf")).strip().lower()
    if norm not in NORMS:
        raise unknown_name("lp_norm", str(options["lp_norm"]), ["Linf", "L2"])
    attack: dict[str, Any] = {"name": ATTACKS[model], "norm": NORMS[norm]}
    if "epsilon" in options:
        attack["epsilon"] = parse_number(options["epsilon"], "epsilon") / 255
    if "alpha" in options:
        attack["alpha"] = parse_number(options["alpha"], "alpha")
    if "iterations" in options and model != "fgsm":
        attack["steps"] = options["iterations"]
    target = options.get("target")
    if options.get("targeted") or (target is not None and target is not False):
        given = isinstance(target, int) and not isinstance(target, bool)
        attack["target"] = target if given else DEFAULT_TARGET
    return [{"attack": attack}]

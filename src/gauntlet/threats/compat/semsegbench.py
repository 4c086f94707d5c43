"""Threat files in the form of SemSegBench and DetecBench, understood as they are: YAML, or lines of key="value"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.numbers import parse_number
from gauntlet.threats.compat.scales import LEVELS, grey_levels, unit_length
from gauntlet.threats.corruptions import COMMON, COMMON_3D, registry
from gauntlet.threats.corruptions.api import check_severity
from gauntlet.yaml_files import parse_yaml

ATTACKS = {"fgsm": "fgsm", "bim": "bim", "pgd": "pgd", "apgd": "apgd", "segpgd": "segpgd", "cospgd": "cospgd"}
NORMS = {"linf": "linf", "l_inf": "linf", "inf": "linf", "l2": "l2", "l_2": "l2", "2": "l2"}
CONDITIONS = ("fog", "night", "rain", "snow")
KEYS = ("threat_model", "iterations", "epsilon", "alpha", "lp_norm", "severity", "condition", "target", "targeted")
CLEAN = "none"
FAMILIES = {
    "commoncorruption": COMMON,
    "2dcommoncorruption": COMMON,
    "3dcommoncorruption": COMMON_3D,
}
"""Corruptions by the name of their family in lower case and in the singular; the papers print both numbers."""
DEFAULT_TARGET = 1  # every pixel to class 1, as in the CosPGD code
ACDC = "acdc"
WHERE = "a SemSegBench threat file"
PRINTED = ("None", "FGSM", "BIM", "PGD", "SegPGD", "CosPGD", "2DCommonCorruptions", "3DCommonCorruptions", "ACDC")
"""Values of `threat_model` as the papers write them."""

_ASSIGNMENT = re.compile(r"""([A-Za-z][A-Za-z_ ]*?)\s*=\s*("[^"]*"|'[^']*'|[^\s,;]+)[\s,;]*""")
_COMMENT = re.compile("#.*")


def is_semsegbench(content: Mapping[str, Any]) -> bool:
    """Whether a mapping has SemSegBench's form: it names a `threat_model` (its README writes a blank)."""
    return "threat_model" in content or "threat model" in content


def read_assignments(text: str) -> dict[str, Any] | None:
    """The settings of a text such as `threat_model="PGD", epsilon="8"`, as the paper prints them; None for another one.

    >>> read_assignments('threat_model="PGD"\\niterations="20"')
    {'threat_model': 'PGD', 'iterations': 20}
    """
    settings: dict[str, Any] = {}
    place, text = 0, _COMMENT.sub("", text).strip()
    while place < len(text):
        found = _ASSIGNMENT.match(text, place)
        if found is None:
            return None
        settings[found[1]] = parse_yaml(found[2].strip("\"'"))
        place = found.end()
    return settings if is_semsegbench(settings) else None


def family_name(value: Any) -> str | None:
    """The family of threats that a `threat_model` stands for, by its printed name; None for one threat."""
    model = _lower(value)
    if model == ACDC:
        return "ACDC"
    if _singular(model) in FAMILIES:
        return "3DCommonCorruptions" if model.startswith("3d") else "2DCommonCorruptions"
    return None


def convert(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The threats that a file of the benchmarks stands for, as descriptions.

    Epsilon is on the 0 to 255 scale and alpha on the 0 to 1 scale, as published (docs/specs/attacks.md, 0): epsilon 8
    means 8/255. '2DCommonCorruptions' stands for its fifteen corruptions, '3DCommonCorruptions' for DetecBench's eight.
    """
    options = read_options(content)
    model = _lower(options["threat_model"])
    if model == CLEAN:
        return [{"clean": {}}]
    if _singular(model) in FAMILIES:
        severity = _severity(options.get("severity", 3))
        return [describe_corruption(name, severity) for name in FAMILIES[_singular(model)]]
    if model == ACDC:
        raise GauntletError(
            "real adverse weather is a dataset here: use --dataset acdc with condition "
            f"{', '.join(CONDITIONS)} and the threat 'clean', or gauntlet.evaluate(model, 'cityscapes', FILE)."
        )
    if model not in ATTACKS:
        raise unknown_name("threat_model", str(options["threat_model"]), PRINTED)
    return [{"attack": _attack(ATTACKS[model], options)}]


def read_options(content: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a file in one spelling; an error for one that the benchmarks do not have."""
    options = {str(key).strip().replace(" ", "_").lower(): value for key, value in content.items()}
    for key in options:
        if key not in KEYS:
            raise unknown_name("key of a SemSegBench threat file", key, KEYS)
    return options


def chosen_conditions(content: Mapping[str, Any]) -> tuple[str, ...]:
    """The conditions that an ACDC file stands for: all four, or the one that it names ("all" is the pooled images)."""
    condition = read_options(content).get("condition")
    if condition is None:
        return CONDITIONS
    name = _lower(condition)
    if name not in (*CONDITIONS, "all"):
        raise unknown_name("condition of ACDC", str(condition), (*CONDITIONS, "all"))
    return (name,)


def describe_corruption(name: str, severity: int) -> dict[str, Any]:
    """A corruption as the benchmarks have it: those in 3D read estimated depth."""
    depth = {"depth_rule": "estimated"} if registry[name].needs_depth else {}
    return {"corruption": {"name": name, "severity": severity, **depth}}


def _attack(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    norm = _lower(options.get("lp_norm", "Linf"))
    if norm not in NORMS:
        raise unknown_name("lp_norm", str(options["lp_norm"]), ["Linf", "L2"])
    attack: dict[str, Any] = {"name": name, "norm": NORMS[norm]}
    if "epsilon" in options:
        attack["epsilon"] = grey_levels(options["epsilon"], "epsilon", NORMS[norm], WHERE) / LEVELS
    if "alpha" in options:
        attack["alpha"] = unit_length(options["alpha"], "alpha", WHERE)
    if "iterations" in options and name != "fgsm":
        attack["steps"] = _whole(options["iterations"], "iterations")
    target = options.get("target")
    if options.get("targeted") or (target is not None and target is not False):
        given = isinstance(target, int) and not isinstance(target, bool)
        attack["target"] = target if given else DEFAULT_TARGET
    return attack


def _severity(value: Any) -> int:
    """A severity, also written as a text."""
    number = parse_number(value, "severity")
    if number != int(number):
        check_severity(number)
    return int(number)


def _whole(value: Any, key: str) -> int:
    """A whole number, also written as a text; an error for any other value."""
    number = parse_number(value, key)
    if number != int(number):
        raise GauntletError(f"{key} must be a whole number, not {value!r}.")
    return int(number)


def _lower(value: Any) -> str:
    return str(value).strip().lower()


def _singular(name: str) -> str:
    return name.removesuffix("s")

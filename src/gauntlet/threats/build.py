"""A threat from what a user writes: a name, a description, the path of a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.threats.compat import semsegbench
from gauntlet.threats.contract import Threat, threats
from gauntlet.threats.sweeps import expand
from gauntlet.yaml_files import read_mapping

FILES = (".yml", ".yaml", ".txt", ".cfg")
"""Endings of threat files."""

ThreatLike = str | Path | Mapping[str, Any] | Threat


def build_threat(value: ThreatLike) -> Threat:
    """The one Threat that a value stands for.

    Args:
        value: as for `build_threats`.
    """
    built = build_threats(value)
    if len(built) != 1:
        raise GauntletError(
            f"{value} stands for {len(built)} threats, one for every value of a list, and one is wanted here; "
            "'gauntlet run' takes several, and a rectangle is written {height: 32, width: 64}."
        )
    return built[0]


def rebuild_threat(description: Mapping[str, Any]) -> Threat:
    """The Threat of a canonical description, such as `Threat.describe` gives and a store holds.

    Such a description never stands for several threats: [32, 64] is a rectangle in it, and not two sizes.
    """
    return _from_description(description)


def build_threats(value: ThreatLike) -> list[Threat]:
    """Every Threat that a value stands for.

    Args:
        value: a Threat; a description such as {"attack": {"name": "pgd", "epsilon": "8/255"}}, with lists and ranges
            for sweeps (see `sweeps`); the name of a threat that needs no more ("clean", an attack, a battery, a
            corruption at severity 3); the path of a YAML file that holds a description, also in the benchmarks' form;
            or settings in that form as a text, 'threat_model="PGD", epsilon="8"'.
    """
    if isinstance(value, Threat):
        return [value]
    content = read_content(value)
    described = semsegbench.convert(content) if semsegbench.is_semsegbench(content) else expand(content)
    return [_from_description(each) for each in described]


def read_content(value: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    """The description that a value stands for, as `build_threats` takes it, before anything is built from it."""
    if isinstance(value, Mapping):
        return value
    if Path(value).suffix in FILES:
        return _read_file(Path(value))
    text = str(value)
    return semsegbench.read_assignments(text) or describe_name(text)


def _read_file(path: Path) -> Mapping[str, Any]:
    """The mapping of a YAML file, or of one with key="value" in the form of the benchmarks' papers."""
    try:
        assigned = semsegbench.read_assignments(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):  # said by whoever reads it as YAML
        assigned = None
    return assigned or read_mapping(path, "the threat file", "a mapping such as 'corruption: {name: fog, severity: 3}'")


def describe_name(name: str) -> dict[str, Any]:
    """The description behind a bare name."""
    from gauntlet.threats import attacks, corruptions

    if name in threats and name == "clean":
        return {"clean": {}}
    if name in attacks.names():
        return {"attack": {"name": name}}
    if name in attacks.batteries():
        return {"battery": {"name": name}}
    if name in corruptions.registry:
        return {"corruption": {"name": name}}
    raise unknown_name("threat", name, ["clean", *attacks.names(), *attacks.batteries(), *corruptions.names()])


def _from_description(description: Mapping[str, Any]) -> Threat:
    if len(description) != 1:
        keys = ", ".join(map(str, description)) or "nothing"
        raise GauntletError(
            f"a threat is described by one of {', '.join(threats.names())} and its options, not by {keys}."
        )
    kind, options = next(iter(description.items()))
    if kind not in threats:
        raise unknown_name("kind of threat", str(kind), threats.names())
    if options is not None and not isinstance(options, Mapping):
        raise GauntletError(f"the options of '{kind}' must be a mapping, not {options!r}.")
    if wrong := [name for name in options or {} if not isinstance(name, str)]:
        raise GauntletError(f"the options of '{kind}' have names, and {wrong[0]!r} is none.")
    threat: Threat = threats[kind](dict(options or {}))
    return threat

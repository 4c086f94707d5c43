"""A threat from what a user writes: a name, a description, the path of a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.threats.contract import Threat, threats

ThreatLike = str | Path | Mapping[str, Any] | Threat


def build_threat(value: ThreatLike) -> Threat:
    """The Threat that a value stands for.

    Args:
        value: a Threat; a description such as {"attack": {"name": "pgd", "epsilon": "8/255"}}; the name of a threat
            that needs no more ("clean", an attack, a battery, a corruption at severity 3); or the path of a YAML file
            that holds a description.
    """
    if isinstance(value, Threat):
        return value
    if isinstance(value, Mapping):
        return _from_description(value)
    path = Path(value)
    if path.suffix in (".yml", ".yaml"):
        return _from_file(path)
    return _from_description(describe_name(str(value)))


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
    threat: Threat = threats[kind](dict(options or {}))
    return threat


def _from_file(path: Path) -> Threat:
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise GauntletError(f"the threat file {path} cannot be read: {error.strerror}.") from None
    except yaml.YAMLError as error:
        line = str(error).replace("\n", " ")
        raise GauntletError(f"the threat file {path} is not valid YAML: {line}") from None
    if not isinstance(content, Mapping):
        raise GauntletError(
            f"the threat file {path} must hold a mapping such as 'corruption: {{name: fog, severity: 3}}'."
        )
    return _from_description(content)

"""Where the model and the images of an evaluation came from, so that both can be found again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any

from gauntlet.errors import GauntletError
from gauntlet.numbers import parse_number
from gauntlet.secrecy import without_secrets

FIELD = "origin"
"""Its name in the provenance of an evaluation; no part of the key."""
SETTINGS = "settings"
"""Name in the provenance of what else belongs to the key."""


@dataclass(frozen=True)
class Origin:
    """Addresses as the user wrote them.

    Attributes:
        model: `address` and `options`, as in a plan; None for an object that only lived in a program.
        dataset: `name`, `split`, `root`, `limit`, `protocol` and `options`, as in a plan; None likewise.
        folder: the working folder, from which relative paths and modules are meant; "" where it is not known.
    """

    model: Mapping[str, Any] | None = None
    dataset: Mapping[str, Any] | None = None
    folder: str = ""

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, without secrets; what only Python knows is named by its type."""
        plain: dict[str, Any] = without_secrets(json.loads(json.dumps(asdict(self), default=_plain)))
        return plain


ONLY_IN_PYTHON = "object of Python"
"""Key of a mapping in the place of a value that no file can hold; its value is the type."""


def _plain(value: Any) -> Any:
    """A value as JSON has it: a path as text, an array or a tensor as lists."""
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    return {ONLY_IN_PYTHON: type(value).__qualname__}


NOWHERE = Origin()
"""The origin of objects that only live in a program."""


def origin_here(model: Mapping[str, Any] | None, dataset: Mapping[str, Any] | None) -> Origin:
    """The origin of what is evaluated in this working folder."""
    return Origin(model, dataset, str(Path.cwd()))


def read_origin(provenance: Mapping[str, Any]) -> Origin:
    """The origin that an evaluation was stored with; what its command tells where version 0.1.0 stored it."""
    stored = provenance.get(FIELD)
    if isinstance(stored, Mapping):
        return Origin(stored.get("model"), stored.get("dataset"), stored.get("folder", ""))
    return _from_command(str(provenance.get("command", "")))


def weather_of(dataset: str, provenance: Mapping[str, Any]) -> str:
    """The condition of ACDC that an evaluation is of ("fog", or "all"); "" for other datasets and where nobody knows.

    The identity of the images does not name it, only digests of their ids do.
    """
    place = read_origin(provenance).dataset if dataset == "acdc" else None
    return "" if place is None else str((place.get("options") or {}).get("condition", "all"))


# What version 0.1.0 of `gauntlet run` took, and how each value is read.
_MODEL_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "--weights": str,
    "--num-classes": int,
    "--class-names": lambda text: [name.strip() for name in text.split(",")],
    "--mean": lambda text: [parse_number(part, "--mean") for part in text.split(",")],
    "--std": lambda text: [parse_number(part, "--std") for part in text.split(",")],
    "--channel-order": str,
}
_DATASET_OPTIONS = ("--split", "--root", "--protocol")
_SHORT = {"-m": "--model", "-d": "--dataset"}


def read_settings(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    """What changes figures beside model, images and threat, by name ("objects", "importance", "precision").

    Versions before 0.3.0 stored no settings: they are read from the command there.
    """
    stored = provenance.get(SETTINGS)
    if isinstance(stored, Mapping):
        return stored
    objects = {"objects": True} if "--objects" in _options(str(provenance.get("command", ""))) else {}
    precision = str(provenance.get("precision", "fp32"))
    return {**objects, **({"precision": precision} if precision != "fp32" else {})}


def _from_command(command: str) -> Origin:
    """The origin of a `gauntlet run` command with one model and one dataset; empty for any other command."""
    given = _options(command)
    models, datasets = given.get("--model", []), given.get("--dataset", [])
    model = dataset = None
    try:
        if len(models) == 1:
            options = {_name(flag): read(given[flag][0]) for flag, read in _MODEL_OPTIONS.items() if flag in given}
            trust = {"trust": True} if "--trust" in given else {}
            model = {"address": models[0], "options": {**options, **trust}}
    except (GauntletError, ValueError):  # the command failed then, too
        return Origin()
    if len(datasets) == 1:
        dataset = {"name": datasets[0], **{_name(flag): given[flag][0] for flag in _DATASET_OPTIONS if flag in given}}
    return Origin(model, dataset)


def _options(command: str) -> dict[str, list[str]]:
    """The options of a `gauntlet run` command and their values."""
    try:
        words = shlex.split(command)
    except ValueError:
        return {}
    if "run" not in words[:4]:
        return {}
    words = words[words.index("run") + 1 :]
    options: dict[str, list[str]] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name.startswith("-"):
            options.setdefault(_SHORT.get(name, name), []).append(value if equals else following)
    return options


def _name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")

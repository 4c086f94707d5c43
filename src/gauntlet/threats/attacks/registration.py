"""Attacks by name: the registry, and what a name adds to a class of attacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.registry import Registry, callable_as
from gauntlet.tasks import SEGMENTATION

if TYPE_CHECKING:
    from gauntlet.threats.attacks.engine.contract import Attack

AttackFactory = Callable[..., Any]

SYNONYMS: Mapping[str, str] = {"eot": "samples"}
"""Other names of options that every attack has."""


def names_for(task: str) -> list[str]:
    """The attacks for a task, in the order of registration; those of other packages are for pixels unless they say."""
    return [name for name, make in attacks.items() if task in _tasks(make)]


def names_without_gradient() -> list[str]:
    """The attacks that only ask the model, in the order of registration."""
    kinds = {name: getattr(make, "kind", None) for name, make in attacks.items()}
    return [name for name, kind in kinds.items() if not getattr(kind, "needs_gradient", True)]


def _tasks(make: AttackFactory) -> tuple[str, ...]:
    try:
        tasks: tuple[str, ...] = getattr(make(), "tasks", (SEGMENTATION,))
    except Exception:  # another package's attack that needs options; how it says so is its own affair
        return (SEGMENTATION,)
    return tasks


@dataclass(frozen=True)
class Preset:
    """An attack with a name: a class and what this name changes about its defaults."""

    name: str
    kind: type[Attack]
    defaults: Mapping[str, Any]

    @property
    def options(self) -> list[str]:
        """Names that can be set."""
        known = [each.name for each in fields(self.kind) if each.name != "name"]
        return [*known, *self.synonyms, *self.kind.settled]

    @property
    def synonyms(self) -> Mapping[str, str]:
        """Other names of its options."""
        return {**SYNONYMS, **self.kind.synonyms}

    def __call__(self, **given: Any) -> Attack:
        chosen: dict[str, Any] = {}
        for key, value in given.items():
            if key not in self.options:
                raise unknown_name(f"option of the attack '{self.name}'", key, self.options)
            if value is None and key != "ignore_index":
                continue
            if key in self.kind.settled:
                only = self.kind.settled[key]
                if value != only:
                    raise GauntletError(f"the attack '{self.name}' always has {key}={only!r}; leave it out.")
                continue
            chosen[self.synonyms.get(key, key)] = value
        return self.kind(name=self.name, **{**self.defaults, **chosen})


def _named(name: str, entry: Any) -> Any:
    """A class derived from `Attack` becomes a preset of its name; anything else stays as it is."""
    from gauntlet.threats.attacks.engine.contract import Attack

    return Preset(name, entry, {}) if isinstance(entry, type) and issubclass(entry, Attack) else entry


attacks: Registry[AttackFactory] = Registry(
    "attack",
    "gauntlet.attacks",
    check=callable_as("a class derived from Attack, or a function that takes options by keyword and returns an attack"),
    wrap=_named,
)
"""Attacks by name; an entry takes options by keyword and returns something to call like an `Attack`."""


def register(name: str, kind: type[Attack], **defaults: Any) -> None:
    """Gives an attack a name: `register("segpgd", GradientAttack, loss="segpgd")`."""
    attacks.add(name, Preset(name, kind, defaults))

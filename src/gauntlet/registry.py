"""One registry for everything that has a name: attacks, corruptions, models, datasets, metrics, suites."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from gauntlet.errors import GauntletError, unknown_name

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to things, filled by a decorator here and by entry points from other packages.

    Args:
        kind: what is registered, in the singular; used in messages ("attack").
        group: the entry-point group that other packages fill ("gauntlet.attacks"), or None.
    """

    def __init__(self, kind: str, group: str | None = None) -> None:
        self.kind = kind
        self.group = group
        self._entries: dict[str, T] = {}
        self._aliases: dict[str, str] = {}
        self._plugins_loaded = group is None

    def register(self, name: str, *, aliases: tuple[str, ...] = ()) -> Callable[[T], T]:
        """A decorator that stores what it decorates under a name."""

        def store(entry: T) -> T:
            self.add(name, entry, aliases=aliases)
            return entry

        return store

    def add(self, name: str, entry: T, *, aliases: tuple[str, ...] = ()) -> None:
        """Stores an entry; a name can be taken once."""
        for each in (name, *aliases):
            if each in self._entries or each in self._aliases:
                raise GauntletError(f"the {self.kind} name '{each}' is taken; choose another one.")
        self._entries[name] = entry
        self._aliases.update(dict.fromkeys(aliases, name))

    def canonical(self, name: str) -> str:
        """The registered name behind a name or an alias."""
        self._load_plugins()
        if name in self._entries:
            return name
        if name in self._aliases:
            return self._aliases[name]
        raise unknown_name(self.kind, str(name), [*self._entries, *self._aliases])

    def __getitem__(self, name: str) -> T:
        return self._entries[self.canonical(name)]

    def __contains__(self, name: object) -> bool:
        self._load_plugins()
        return name in self._entries or name in self._aliases

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def names(self) -> list[str]:
        """Every registered name, in the order of registration."""
        self._load_plugins()
        return list(self._entries)

    def _load_plugins(self) -> None:
        if self._plugins_loaded or self.group is None:
            return
        self._plugins_loaded = True
        for point in entry_points(group=self.group):
            if point.name not in self._entries:
                self.add(point.name, point.load())

"""One registry for everything that has a name: attacks, corruptions, models, datasets, metrics, suites.

A registry is filled in three ways: by its decorator, by "module:attribute" texts that are imported at the first lookup,
and by entry points of other packages (plug-ins), which are imported when their name is looked up. A plug-in that cannot
be loaded takes no other name down: looking it up says what is wrong in one sentence, and `gauntlet doctor` lists it.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from gauntlet.errors import GauntletError, unknown_name

T = TypeVar("T")
Entry = TypeVar("Entry")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Check:
    """What an entry must be.

    Attributes:
        accepts: whether an entry is of this kind.
        words: what was expected, for the sentence about another one ("a class derived from Metric").
    """

    accepts: Callable[[Any], bool]
    words: str


def instance_of(kind: type, words: str | None = None) -> Check:
    """Entries are objects of a class."""
    return Check(lambda entry: isinstance(entry, kind), words or f"an object of the class {kind.__name__}")


def subclass_of(base: type) -> Check:
    """Entries are classes derived from a base class."""
    return Check(
        lambda entry: isinstance(entry, type) and issubclass(entry, base), f"a class derived from {base.__name__}"
    )


def callable_as(words: str) -> Check:
    """Entries are functions, or classes to be called; `words` says what they take and return."""
    return Check(callable, words)


@dataclass(frozen=True)
class BrokenPlugin:
    """An entry point that cannot be used; as a text it is one sentence.

    Attributes:
        kind: of the registry ("attack").
        name: of the entry point.
        package: the distribution that declares it.
        reason: what is wrong, without a full stop.
    """

    kind: str
    name: str
    package: str
    reason: str

    def __str__(self) -> str:
        return (
            f"the {self.kind} '{self.name}' of the package '{self.package}' cannot be used: {self.reason}; update or "
            "uninstall that package."
        )


@dataclass(frozen=True)
class _Target:
    """An entry that is not imported yet: "module:attribute", and the package whose entry point it is, "" for none."""

    address: str
    package: str = ""


class Registry(Generic[T]):
    """Names to things.

    Args:
        kind: what is registered, in the singular; used in messages ("attack").
        group: the entry-point group that other packages fill ("gauntlet.attacks"), or None.
        check: what an entry must be, or None for anything.
        wrap: (name, what was given) -> what is stored; for registries that take plain functions too.
    """

    def __init__(
        self,
        kind: str,
        group: str | None = None,
        *,
        check: Check | None = None,
        wrap: Callable[[str, Any], Any] | None = None,
    ) -> None:
        self.kind = kind
        self.group = group
        self._check = check
        self._wrap = wrap
        self._entries: dict[str, T | _Target] = {}
        self._aliases: dict[str, str] = {}
        self._broken: dict[str, BrokenPlugin] = {}
        self._shadowed: list[BrokenPlugin] = []
        self._discovered = group is None
        # Never held during an import: a module that another thread is importing may be waiting to register itself.
        self._lock = threading.RLock()
        _registries.add(self)

    def register(self, name: str, *, aliases: tuple[str, ...] = ()) -> Callable[[Entry], Entry]:
        """A decorator that stores what it decorates under a name."""

        def store(entry: Entry) -> Entry:
            self.add(name, entry, aliases=aliases)
            return entry

        return store

    def add(self, name: str, entry: Any, *, aliases: tuple[str, ...] = ()) -> None:
        """Stores an entry; a name can be taken once.

        Args:
            name: what it is called.
            entry: the thing, or "module:attribute" for one that is imported at the first lookup. It replaces an entry
                point of this name that is not loaded, so that a plug-in may register itself as well.
            aliases: other names of it.
        """
        stored = _Target(entry) if isinstance(entry, str) else self._checked(name, entry)
        with self._lock:
            for each in (name, *aliases):
                if self._is_taken(each):
                    raise GauntletError(f"the {self.kind} name '{each}' is taken; choose another one.")
            for alias in aliases:
                self._entries.pop(alias, None)
                self._aliases[alias] = name
            self._entries[name] = stored

    def canonical(self, name: str) -> str:
        """The registered name behind a name or an alias."""
        self._discover()
        if isinstance(name, str) and name in self._entries:  # a plan may hold anything in the place of a name
            return name
        if isinstance(name, str) and name in self._aliases:
            return self._aliases[name]
        raise unknown_name(self.kind, str(name), [*self._entries, *self._aliases])

    def __getitem__(self, name: str) -> T:
        name = self.canonical(name)
        if name in self._broken:
            raise GauntletError(str(self._broken[name]))
        entry = self._entries[name]
        if not isinstance(entry, _Target):
            return entry
        self._load(name, entry)
        return self[name]

    def __contains__(self, name: object) -> bool:
        self._discover()
        return isinstance(name, str) and (name in self._entries or name in self._aliases)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def names(self) -> list[str]:
        """Every registered name, in the order of registration; nothing is imported."""
        self._discover()
        return list(self._entries)

    def items(self) -> Iterator[tuple[str, T]]:
        """Every name and its entry, imported now; broken plug-ins are left out, with a warning in the log."""
        for name in self.names():
            try:
                entry = self[name]
            except GauntletError:
                if name not in self._broken:
                    raise
                log.warning("%s", self._broken[name])
                continue
            yield name, entry

    def broken_plugins(self) -> list[BrokenPlugin]:
        """The entry points of this registry that cannot be used; all of them are imported to find out."""
        for name in self.names():
            entry = self._entries.get(name)
            if isinstance(entry, _Target) and entry.package and name not in self._broken:
                try:
                    self._load(name, entry)
                except GauntletError:
                    continue
        return [*self._broken.values(), *self._shadowed]

    def _is_taken(self, name: str) -> bool:
        entry = self._entries.get(name)
        is_unloaded_plugin = isinstance(entry, _Target) and bool(entry.package)
        return name in self._aliases or (name in self._entries and not is_unloaded_plugin)

    def _checked(self, name: str, entry: Any) -> T:
        """What is stored for an entry; an error when it is of the wrong kind."""
        stored: T = entry if self._wrap is None else self._wrap(name, entry)
        if self._check is not None and not self._check.accepts(stored):
            given = f"the class {entry.__name__}" if isinstance(entry, type) else f"of the type {type(entry).__name__}"
            raise GauntletError(f"the {self.kind} '{name}' must be {self._check.words}, but it is {given}.")
        return stored

    def _load(self, name: str, target: _Target) -> None:
        """Imports a target and stores what it names, unless its module has registered the name itself."""
        try:
            loaded = import_target(target.address)
            with self._lock:
                if self._entries.get(name) is target:
                    self._entries[name] = self._checked(name, loaded)
        except (Exception, SystemExit) as error:  # whatever another package's module does when it is imported
            if not target.package:
                raise
            broken = BrokenPlugin(self.kind, name, target.package, _reason(error))
            with self._lock:
                self._broken[name] = broken
            raise GauntletError(str(broken)) from error

    def _discover(self) -> None:
        """Reads the names of the entry points, once; imports none of them."""
        if self._discovered:
            return
        with self._lock:
            if self._discovered:
                return
            for point in entry_points(group=str(self.group)):
                package = _package(point)
                if point.name not in self._entries and point.name not in self._aliases:
                    self._entries[point.name] = _Target(f"{point.module}:{point.attr or ''}", package)
                elif point.module not in sys.modules:  # else the plug-in was imported and registered itself
                    self._shadowed.append(BrokenPlugin(self.kind, point.name, package, "its name is taken already"))
            self._discovered = True


_registries: WeakSet[Registry[Any]] = WeakSet()


def broken_plugins() -> list[BrokenPlugin]:
    """The broken plug-ins of every registry whose module is imported."""
    by_group = sorted(_registries, key=lambda registry: registry.group or "")
    return [broken for registry in by_group for broken in registry.broken_plugins()]


def import_target(address: str) -> Any:
    """What "module:attribute" names, imported now; the module itself where no attribute is named."""
    module, _, attribute = address.partition(":")
    names = attribute.split(".") if attribute else []
    return functools.reduce(getattr, names, importlib.import_module(module))


def _package(point: EntryPoint) -> str:
    """The distribution that an entry point comes from."""
    return point.dist.name if point.dist is not None else point.module.partition(".")[0]


def _reason(error: BaseException) -> str:
    """The first line of an error, without its full stop."""
    lines = str(error).strip().splitlines()
    text = lines[0].rstrip(".") if lines else "no message"
    return text if isinstance(error, GauntletError) else f"{type(error).__name__}: {text}"

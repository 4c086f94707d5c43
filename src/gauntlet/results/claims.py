"""Who computes an evaluation: a claim in the store, so that drivers that are asked for the same do it once.

A claim is a row with its owner and a counter, its beat, that the owner raises while it lives. Another driver that meets
it goes on with other evaluations and comes back. It takes a claim over whose beat stood still for a while of its own
monotonic clock; clocks of two machines are never compared. A claim keeps nobody from writing: two drivers that both
believe to own an evaluation compute it twice and store the same figures.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

from sqlalchemy import select

from gauntlet.errors import GauntletError
from gauntlet.results.database import Database
from gauntlet.results.schema import claims as table

BEAT = 2.0
"""Seconds between two beats of an owner."""
PATIENCE = 20.0
"""Seconds without a beat after which an owner is taken for dead."""
LOOK = 0.5
"""Seconds between two looks at what another driver has."""


class Owner(NamedTuple):
    """A driver: one call that runs evaluations. Two drivers of one thread have another token only."""

    host: str
    process: int
    thread: int
    token: str

    @classmethod
    def here(cls) -> Owner:
        """A driver of this thread."""
        return cls(socket.gethostname(), os.getpid(), threading.get_ident(), uuid.uuid4().hex[:8])

    @classmethod
    def read(cls, text: str) -> Owner:
        """An owner as the store has it."""
        host, process, thread, token = text.rsplit(" ", 3)
        return cls(host, int(process), int(thread), token)

    def __str__(self) -> str:
        return " ".join(map(str, self))

    @property
    def name(self) -> str:
        """How a user finds it."""
        return f"process {self.process} on {self.host}"


class _Seen(NamedTuple):
    """The claim of another driver: what it was, and when this driver saw that beat first."""

    owner: str
    beat: int
    since: float


class Claims:
    """The evaluations that a driver computes. Its thread keeps the claims alive until they are given back.

    Args:
        database: of the store.
        shared: whether others can open the store at all; else there is nothing to claim.
        say: tells the user something once.
    """

    def __init__(self, database: Database, shared: bool, say: Callable[[str], None]) -> None:
        self._database, self._shared, self._say = database, shared, say
        self._owner = Owner.here()
        self._mine: set[str] = set()
        self._seen: dict[str, _Seen] = {}
        self._looked: dict[str, float] = {}
        self._closed = threading.Event()
        self._heart: threading.Thread | None = None

    def __enter__(self) -> Claims:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        if self._heart is not None:
            self._heart.join()
        for key in list(self._mine):
            self.give_back(key)

    def in_turn(self, keys: Sequence[str]) -> Iterator[int]:
        """Positions of keys, each when it is this driver's; those of other drivers come last, as they get free."""
        left = list(range(len(keys)))
        while left:
            held = []
            for index in left:
                if self.take(keys[index]):
                    yield index
                    self.give_back(keys[index])
                else:
                    held.append(index)
            left = held
            if left:
                time.sleep(LOOK)

    def take(self, key: str) -> bool:
        """Whether an evaluation is this driver's now; may be asked often, the store is asked only now and then."""
        if not self._shared:
            return True
        now = time.monotonic()
        if key in self._looked and now - self._looked[key] < LOOK:
            return False
        try:
            with self._database.write() as connection:
                row = connection.execute(select(table).where(table.c.key == key)).one_or_none()
                if row is not None and not self._may_take(key, row.owner, row.beat, now):
                    self._looked[key] = now
                    return False
                connection.execute(table.delete().where(table.c.key == key))
                connection.execute(table.insert().values(key=key, owner=str(self._owner), beat=0))
        except GauntletError:
            return True  # whoever computes writes next, meets the same fault, and says whose it is
        self._mine.add(key)
        if self._heart is None:
            self._heart = threading.Thread(target=self._keep_alive, name="gauntlet-claims", daemon=True)
            self._heart.start()
        return True

    def waited_for(self, key: str) -> bool:
        """Whether another driver had an evaluation when it was asked for first."""
        return key in self._looked

    def give_back(self, key: str) -> None:
        """Ends the claim on an evaluation; nothing happens to one that somebody took over."""
        if key not in self._mine:
            return
        self._mine.discard(key)
        with suppress(GauntletError), self._database.write() as connection:  # else it ends as that of a killed driver
            connection.execute(table.delete().where(table.c.key == key, table.c.owner == str(self._owner)))

    def _may_take(self, key: str, text: str, beat: int, now: float) -> bool:
        """Whether the claim of another driver counts no more."""
        try:
            owner = Owner.read(text)
        except ValueError:
            return True  # a damaged store
        if owner[:3] == self._owner[:3]:
            return True  # a driver inside a driver of this thread: waiting for it would be for ever
        seen = self._seen.get(key)
        if seen is None or (seen.owner, seen.beat) != (text, beat):
            seen = self._seen[key] = _Seen(text, beat, now)
        if not is_alive(owner.host, owner.process) or now - seen.since > PATIENCE:
            self._say(f"{owner.name} has stopped; what it left of its evaluations is taken over.")
            return True
        self._say(f"waiting for {owner.name}, which computes some of these evaluations; the others come first.")
        return False

    def _keep_alive(self) -> None:
        beat = table.update().where(table.c.owner == str(self._owner)).values(beat=table.c.beat + 1)
        while not self._closed.wait(BEAT):
            with suppress(GauntletError), self._database.write() as connection:  # the driver meets a fault itself
                connection.execute(beat)


def is_alive(host: str, process: int) -> bool:
    """Whether the process of a driver still exists; one on another host, or on Windows, is believed."""
    if host != socket.gethostname() or os.name != "posix":
        return True  # on Windows os.kill does not ask: it ends the process, or sends it Ctrl-C
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

"""One computation at a time, in a thread of its own; a new one ends the one before it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from gauntlet.errors import GauntletError, first_line

_LOGGER = logging.getLogger(__name__)

Event = tuple[str, dict[str, Any]]


class Stopped(Exception):
    """Nobody wants the rest of a computation."""


class Performance:
    """A computation whose events a page reads as they come."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Ends it at its next event."""
        self._stopped.set()

    @property
    def keeps_up(self) -> bool:
        """Whether the page has read what was said before."""
        return self._events.qsize() < 2

    def report(self, name: str, content: dict[str, Any]) -> None:
        """Says something to the page; raises where the performance was stopped."""
        if self._stopped.is_set():
            raise Stopped
        self._say((name, content))

    def run(self, work: Callable[[Performance], None]) -> None:
        """The work, and how it ended."""
        try:
            if not self._stopped.is_set():
                work(self)
            else:
                self._say(("replaced", {}))
        except Stopped:
            self._say(("replaced", {}))
        except GauntletError as error:
            self._say(("failed", {"message": str(error)}))
        except Exception as error:  # of a model or a plug-in: the server goes on
            _LOGGER.exception("the playground could not compute a state")
            self._say(("failed", {"message": f"the computation failed: {first_line(error)}"}))
        finally:
            self._say(None)

    async def events(self) -> AsyncIterator[Event]:
        """What is said, until the end."""
        while (event := await self._events.get()) is not None:
            yield event

    def _say(self, event: Event | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)


class Stage:
    """Where performances take place, one after the other."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._latest: Performance | None = None

    def perform(self, work: Callable[[Performance], None]) -> Performance:
        """Starts a performance, in the place of the one before. Called from the event loop."""
        if self._latest is not None:
            self._latest.stop()
        self._latest = performance = Performance()

        def play() -> None:
            with self._turn:
                performance.run(work)

        threading.Thread(target=play, name="playground", daemon=True).start()
        return performance

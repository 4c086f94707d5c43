"""Names of defended models: "streets/enet crf iterations=5" in the store, "crf:iterations=5:streets/enet" shown.

The stored form stands in keys and stays; people read and type the address.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gauntlet.models.loading import DEFENCES

_OUTERMOST = re.compile(rf"(?P<inner>.+) (?P<prefix>{'|'.join(DEFENCES)}) (?P<settings>\S*=\S*)")


@dataclass(frozen=True)
class DefendedName:
    """The outermost defence of a model's stored name.

    Attributes:
        prefix: of its address, "crf".
        settings: in words, "iterations=5,...".
        inner: stored names of the models inside.
    """

    prefix: str
    settings: str
    inner: tuple[str, ...]

    @property
    def values(self) -> dict[str, str]:
        """Settings by name."""
        return dict(part.split("=", 1) for part in self.settings.split(","))


def read_name(name: str) -> DefendedName | None:
    """The outermost defence in a stored name, None for a model without one.

    >>> read_name("[streets/enet]+[my net] ensemble gamma=0.4,of=probabilities").inner
    ('streets/enet', 'my net')
    """
    found = _OUTERMOST.fullmatch(name)
    if found is None:
        return None
    members = _members(found["inner"]) if found["prefix"] == "ensemble" else (found["inner"],)
    return DefendedName(found["prefix"], found["settings"], members)


def _members(text: str) -> tuple[str, ...]:
    """The parts of "[A]+[B]", whose names may have brackets of their own."""
    members, depth, begin = [], 0, 0
    for position, letter in enumerate(text):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "[" and depth == 1:
            begin = position + 1
        elif letter == "]" and depth == 0:
            members.append(text[begin:position])
    return tuple(members) or (text,)


def address_of(name: str) -> str:
    """A stored name as an address; the name itself where it has no defence.

    >>> address_of("streets/enet transform kind=jpeg,quality=50+100 multiscale scales=0.5+1")
    'multiscale:scales=0.5+1:transform:kind=jpeg,quality=50+100:streets/enet'
    """
    read = read_name(name)
    if read is None:
        return name
    inner = [address_of(each) for each in read.inner]
    rest = inner[0] if len(inner) == 1 else "+".join(f"[{each}]" for each in inner)
    return f"{read.prefix}:{read.settings}:{rest}"


def defences_in(name: str) -> list[str]:
    """The defences in a stored name, also those inside others, the innermost first.

    >>> defences_in("streets/enet transform kind=jpeg,quality=50+100 multiscale scales=0.5+1")
    ['transform', 'multiscale']
    """
    read = read_name(name)
    if read is None:
        return []
    return [*(prefix for each in read.inner for prefix in defences_in(each)), read.prefix]

"""Names of defended models: "streets/enet crf iterations=5" in the store, "crf:iterations=5:streets/enet" shown.

The stored form stands in keys and stays; people read and type the address.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gauntlet.models.loading import DEFENCES

_OUTERMOST = re.compile(rf"(?P<inner>.+) (?P<prefix>{'|'.join(DEFENCES)}) (?P<settings>\S*=\S*)")

_TILED = re.compile(r"(?P<inner>.+) tiled \S+ every \S+.*")

_NOISE = re.compile(r" (?:noise|smoothed) sigma=([^,\s\]]+)[^\s\]]*")


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


def source_name(source: str, target: str) -> str:
    """The stored name of the model that images were made on.

    Args:
        source: as a transfer stores it; "inner" is the model inside the target.
        target: stored name of the model that the images were shown to.

    >>> source_name("inner", "streets/enet crf iterations=5")
    'streets/enet'
    """
    read = read_name(target) if source == "inner" else None
    return source if read is None else read.inner[0]


def defences_in(name: str) -> list[str]:
    """The defences in a stored name, also those inside others, the innermost first.

    >>> defences_in("streets/enet transform kind=jpeg,quality=50+100 multiscale scales=0.5+1")
    ['transform', 'multiscale']
    >>> defences_in("streets/enet crf iterations=5 tiled 64x64 every 32x32")
    ['crf']
    """
    return [each.prefix for each in _all_in(name)]


def draws_in(name: str) -> bool:
    """Whether a defence in a stored name draws at random; only one that draws has trials.

    >>> draws_in("streets/enet transform kind=jpeg,quality=50+100,trials=9")
    True
    >>> draws_in("streets/enet transform kind=jpeg,fixed=75")
    False
    """
    return any("trials" in each.values for each in _all_in(name))


def noise_alone(name: str) -> str:
    """A stored name with nothing but the noise of `noise:` and `smoothed:`, however often it is drawn.

    >>> noise_alone("a smoothed sigma=0.25,n0=10,n=100") == noise_alone("a noise sigma=0.25,trials=9")
    True
    """
    return _NOISE.sub(r" noise sigma=\1", name)


def with_whole_gradient(name: str) -> str:
    """A stored name whose CRFs have a gradient through the colours of the image as well; they give the same logits.

    >>> with_whole_gradient("a crf iterations=5,image_gradient=false")
    'a crf iterations=5,image_gradient=true'
    """
    return name.replace("image_gradient=false", "image_gradient=true")


def bounded_in(name: str) -> str | None:
    """The prefix of a defence in a stored name that refuses images outside [0, 1]; None where there is none.

    >>> bounded_in("streets/enet crf iterations=5 multiscale scales=0.5+1")
    'crf'
    """
    found = (each for each in _all_in(name) if each.prefix in ("crf", "transform"))
    return next((each.prefix for each in found if each.values.get("kind") != "none"), None)


def _all_in(name: str) -> list[DefendedName]:
    """Every defence in a stored name, also of a model in tiles, the innermost first."""
    tiled = _TILED.fullmatch(name)
    read = read_name(name)
    if tiled is not None and read is None:
        return _all_in(tiled["inner"])
    return [] if read is None else [*(found for each in read.inner for found in _all_in(each)), read]

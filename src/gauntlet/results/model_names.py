"""Which model a name stands for: names that several share are told apart by the digest, `UNet [0210b5e0]`.

Defended models are called by their address, `crf:iterations=5,...:streets/enet`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.defended_names import address_of

_SHORTEST = 8

Identified = tuple[str, str]
"""Name and digest of a model."""


@dataclass(frozen=True)
class KnownModel:
    """A model of a store.

    Attributes:
        name, digest: its identity.
        label: what it is called everywhere; unique in the store.
        addresses: under which it was evaluated, as absolute paths where they are paths.
    """

    name: str
    digest: str
    label: str
    addresses: frozenset[str] = frozenset()


def distinct_names(models: Iterable[Identified]) -> dict[Identified, str]:
    """A name of its own for every model: the plain one, with the first digits of the digest where several share it.

    >>> distinct_names([("UNet", "0210b5e0ffff"), ("UNet", "77aa00bbffff"), ("ENet", "c0ffee00ffff")])[
    ...     "UNet", "0210b5e0ffff"
    ... ]
    'UNet [0210b5e0]'
    """
    known = list(dict.fromkeys(models))
    digests: dict[str, list[str]] = {}
    for name, digest in known:
        digests.setdefault(name, []).append(digest)
    return {(name, digest): _label(name, digest, digests[name]) for name, digest in known}


def _label(name: str, digest: str, same: Sequence[str]) -> str:
    shown = address_of(name)
    if len(same) == 1:
        return shown
    length = _SHORTEST
    while length < len(digest) and sum(each.startswith(digest[:length]) for each in same) > 1:
        length += _SHORTEST  # the same weights in other wrapping share the beginning
    return f"{shown} [{digest[:length]}]"


def find_known(text: str, models: Sequence[KnownModel], where: str) -> KnownModel:
    """The model that a user means.

    Args:
        text: its label, its name where no other has it, or an address under which it was evaluated.
        models: of a store.
        where: the store, for the message.
    """
    for matching in (
        [each for each in models if each.label == text],
        [each for each in models if each.name == text],
        [each for each in models if {text, *_absolute(text, str(Path.cwd()))} & each.addresses],
    ):
        if len(matching) > 1:
            labels = ", ".join(sorted(each.label for each in matching))
            raise GauntletError(f"'{text}' stands for several models in {where}; say which: {labels}.")
        if matching:
            return matching[0]
    raise unknown_name(f"model in {where}", text, {each.label for each in models})


def known_models(evaluated: Mapping[Identified, Iterable[tuple[str, str]]]) -> list[KnownModel]:
    """Models with their labels.

    Args:
        evaluated: by name and digest, the addresses under which a model was evaluated, each with its working folder.
    """
    labels = distinct_names(evaluated)
    return [
        KnownModel(name, digest, labels[name, digest], frozenset(_written(places)))
        for (name, digest), places in evaluated.items()
    ]


def _written(places: Iterable[tuple[str, str]]) -> Iterable[str]:
    for address, folder in places:
        yield address
        yield from _absolute(address, folder)


def _absolute(address: str, folder: str) -> Iterable[str]:
    """An address whose path is written from a folder, with the whole path; nothing for other addresses."""
    prefix, colon, rest = address.partition(":")
    if not colon:
        yield os.path.normpath(Path(folder, address))
    elif prefix in ("script", "onnx", "hf"):
        yield f"{prefix}:{os.path.normpath(Path(folder, rest))}"

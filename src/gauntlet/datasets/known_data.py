"""Digests of published data: whether images are those that others evaluated on."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path

from gauntlet.datasets.contents import Contents
from gauntlet.errors import GauntletError
from gauntlet.files import write_atomically

_SHIPPED = Path(__file__).with_name("known_data.json")
_SHORT = 8  # hex digits that are kept of the digest of an image


def known_file() -> Path:
    """The user's own table: $XDG_CONFIG_HOME/gauntlet/known-data.json, by default below ~/.config."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "gauntlet" / "known-data.json"


def strangers(name: str, split: str, contents: Contents) -> int | None:
    """Number of images that are not in the published split; None where nobody knows its digests."""
    known = _table(known_file()).get(f"{name}/{split}") or _table(_SHIPPED).get(f"{name}/{split}")
    if known is None or contents.trusted:
        return None
    return sum(digest[:_SHORT] not in known for digest in contents.images)


def published_sentence(name: str, split: str, contents: Contents) -> str | None:
    """Tell that images are not the published ones; None where they are, or where nobody knows."""
    different = strangers(name, split, contents)
    if not different:
        return None
    return (
        f"{different} of {len(contents.images)} images of {name}/{split} are not, byte for byte with their ground "
        "truth, those of the published set; figures are not comparable with published ones."
    )


def remember(name: str, split: str, contents: Contents) -> Path:
    """Writes the digests of a split into the user's table, as those of the published set; returns its file."""
    path = known_file()
    table = {place: sorted(digests) for place, digests in _table(path).items()}
    table[f"{name}/{split}"] = sorted(digest[:_SHORT] for digest in contents.images)
    write_atomically(path, json.dumps(table, indent=0).encode())
    _table.cache_clear()
    return path


@cache
def _table(path: Path) -> dict[str, frozenset[str]]:
    if not path.is_file():
        return {}
    try:
        return {place: frozenset(digests) for place, digests in json.loads(path.read_bytes()).items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise GauntletError(f"the table of known data '{path}' cannot be read: {error}; mend or remove it.") from error

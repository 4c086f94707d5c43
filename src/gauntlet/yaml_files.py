"""Settings that users write in YAML: one sentence about what is wrong with a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gauntlet.errors import GauntletError

LARGEST = 200_000
"""Values that a document may stand for once its aliases are written out; small files can stand for billions."""


def read_mapping(path: Path, what: str, content: str) -> Mapping[str, Any]:
    """The mapping that a YAML file holds.

    Args:
        path: of the file.
        what: the file is, for messages ("the plan").
        content: what it must hold, for messages ("a mapping with 'models'").
    """
    read = read_yaml(path, what)
    if not isinstance(read, Mapping):
        raise GauntletError(f"{what} {path} must hold {content}.")
    return read


def read_yaml(path: Path, what: str) -> Any:
    """What a YAML file holds.

    Args:
        path: of the file.
        what: the file is, for messages ("the plan").
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise GauntletError(f"{what} {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise GauntletError(f"{what} {path} is no text in UTF-8; write it as YAML.") from None
    try:
        return parse_yaml(text)
    except GauntletError as error:
        raise GauntletError(f"{what} {path} is not valid YAML: {error}") from None


def parse_yaml(text: str) -> Any:
    """What a YAML text stands for; plain values only."""
    import yaml

    try:
        # As yaml.safe_load, with a look at its size in between.
        loader = _loader()(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _size(node, {})
        return loader.construct_document(node)
    except RecursionError:
        raise GauntletError("it is nested too deeply.") from None
    # Numbers and dates that are none, keys that cannot be keys: PyYAML lets Python's own errors through.
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise GauntletError(" ".join(str(error).split()) or type(error).__name__) from None


@cache
def _loader() -> Any:
    """PyYAML's safe loader, which also takes 1e-05 (no point) for a number, as JSON and YAML 1.2 do."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
    )
    return Loader


def _size(node: Any, known: dict[int, int]) -> int:
    """The values below a node of a document, with aliases written out; an error for more than anybody writes."""
    import yaml

    if id(node) not in known:
        known[id(node)] = LARGEST  # what holds itself is too large
        inner = node.value if isinstance(node, yaml.CollectionNode) else []
        parts = [part for each in inner for part in (each if isinstance(each, tuple) else (each,))]
        known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    if known[id(node)] >= LARGEST:
        raise GauntletError(f"it stands for more than {LARGEST} values.")
    return known[id(node)]

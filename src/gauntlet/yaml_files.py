"""Settings that users write in YAML: one sentence about what is wrong with a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gauntlet.errors import GauntletError


def read_mapping(path: Path, what: str, content: str) -> Mapping[str, Any]:
    """The mapping that a YAML file holds.

    Args:
        path: of the file.
        what: the file is, for messages ("the plan").
        content: what it must hold, for messages ("a mapping with 'models'").
    """
    import yaml

    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GauntletError(f"{what} {path} cannot be read: {error.strerror}.") from None
    except yaml.YAMLError as error:
        line = str(error).replace("\n", " ")
        raise GauntletError(f"{what} {path} is not valid YAML: {line}") from None
    if not isinstance(read, Mapping):
        raise GauntletError(f"{what} {path} must hold {content}.")
    return read

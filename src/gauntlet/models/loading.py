"""One function for every model: a shipped name, a prefixed address, or a benchmark triple."""

from __future__ import annotations

from typing import Any

import torch

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.contract import GauntletModel
from gauntlet.models.sources import local as _local  # noqa: F401 - registers script: and python:
from gauntlet.models.sources import shipped
from gauntlet.models.sources.contract import ModelSource, sources


def resolve_model(address: str, **options: Any) -> ModelSource:
    """The source behind an address, not loaded yet.

    Args:
        address: a shipped name ("streets/enet") or "prefix:rest" ("script:net.pt", "python:my.nets:build").
        options: what the source takes; most take those of `wrap_model`.
    """
    prefix, colon, rest = address.partition(":")
    if colon:
        if prefix not in sources:
            raise unknown_name("model source", prefix, sources.names())
        return sources[prefix](rest, options)
    source = shipped.find(address)
    if options:
        raise GauntletError(f"the shipped model '{address}' takes no options, but got {', '.join(options)}.")
    return source


def load_model(
    address: str | None = None, *, device: torch.device | str | None = None, **options: Any
) -> GauntletModel:
    """Loads a model: frozen, in eval mode, taking RGB in [0, 1].

    Args:
        address: as for `resolve_model`.
        device: where to put it; the CPU by default.
        options: what the source takes.

    >>> load_model("streets/enet").num_classes
    11
    """
    if address is None:
        raise GauntletError("say which model to load, for example load_model('streets/enet').")
    model = resolve_model(address, **options).load()
    return model.to(device) if device is not None else model

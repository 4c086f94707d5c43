"""Which model of a store is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauntlet.cli.shared_options import ModelOptions
from gauntlet.errors import GauntletError

if TYPE_CHECKING:
    from gauntlet.results import Store


def stored_name(store: Store, model: str, options: ModelOptions) -> str:
    """What a model is called in a store.

    Args:
        store: the evaluations.
        model: its name there, or the address it was evaluated at.
        options: of the model at the address, where it takes some.
    """
    if not options:
        return store.find_model(model).label
    from gauntlet.models import resolve_model

    identity = resolve_model(model, **options).identity
    for known in store.models():
        if known.digest == identity.digest:
            return known.label
    raise GauntletError(
        f"the store {store.address} has no evaluation of {model} as it is now, '{identity.name}' "
        f"[{identity.digest[:8]}]; give the options it was evaluated with, or its name in the store."
    )

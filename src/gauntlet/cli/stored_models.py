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
        model: its name there, which stays as it is, or the address it was evaluated at.
        options: of the model at the address.
    """
    from gauntlet.models import resolve_model

    frame = store.frame()
    if model in set(frame["model"]) or ":" not in model:
        return model
    identity = resolve_model(model, **options).identity
    digests = set(frame.loc[frame["model"].eq(identity.name), "model_digest"])
    if identity.digest not in digests:
        raise GauntletError(
            f"the store {store.address} has no evaluation of {model} as it is now, '{identity.name}' "
            f"[{identity.digest[:8]}]; give the options it was evaluated with, or its name in the store."
        )
    return identity.name if len(digests) == 1 else f"{identity.name} [{identity.digest[:8]}]"

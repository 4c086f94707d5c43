"""Which model of a store is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauntlet.cli.shared_options import ModelOptions
from gauntlet.errors import GauntletError

if TYPE_CHECKING:
    from gauntlet.models.sources.contract import ModelSource
    from gauntlet.results import Store
    from gauntlet.results.model_names import KnownModel


def stored_name(store: Store, model: str, options: ModelOptions) -> str:
    """What a model is called in a store.

    Args:
        store: the evaluations.
        model: its name there, or the address it was evaluated at.
        options: of the model at the address, where it takes some.
    """
    if not options or any(model in (known.label, known.name) for known in store.models()):
        return store.find_model(model).label
    return resolve_stored(store, model, options)[1].label


def resolve_stored(store: Store, address: str, options: ModelOptions) -> tuple[ModelSource, KnownModel]:
    """The model at an address, and what a store knows of it; an error where it was never evaluated as it is now.

    A number of classes that nobody gives is that of an evaluation in the store.
    """
    from gauntlet.models import resolve_model

    known = store.models()
    source = resolve_model(address, **options)
    counts = _class_counts(store) if source.needs_num_classes else [None]
    for count in counts:
        if count is not None:
            source = resolve_model(address, **{**options, "num_classes": count})
        same = [each for each in known if each.digest == source.identity.digest]
        if same:
            return source, min(same, key=lambda each: each.name != source.identity.name)
    now = "" if source.needs_num_classes else f", '{source.identity.name}' [{source.identity.digest[:8]}]"
    raise GauntletError(
        f"the store {store.address} has no evaluation of {address} as it is now{now}; give the options it was "
        "evaluated with, or its name in the store."
    )


def _class_counts(store: Store) -> list[int | None]:
    """The numbers of classes with which models of a store were loaded."""
    from gauntlet.results.origin import read_origin

    counts: dict[int, None] = {}
    for key in store.frame()["key"].unique():
        stored = store.load(key)
        origin = None if stored is None else read_origin(stored.provenance).model
        count = (origin or {}).get("options", {}).get("num_classes")
        if isinstance(count, int):
            counts[count] = None
    return list(counts)

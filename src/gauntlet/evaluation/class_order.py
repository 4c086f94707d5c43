"""Whether the classes of a model are those of a dataset, in its order; else what would make them so."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gauntlet.errors import GauntletError
from gauntlet.models import GauntletModel
from gauntlet.models.contract import default_names
from gauntlet.models.sources.adapting import ChosenOutputs
from gauntlet.tasks import get_task

_MOST_NAMED = 8


def check_classes(model: GauntletModel, dataset: str, classes: Sequence[str]) -> None:
    """An error where a model has other classes than a dataset, or has them in another order.

    A model without names of its own is taken at its word. Where both have the same names, they must stand at the same
    places. Names that differ are taken at their word too, unless most of those that both know stand elsewhere.

    Args:
        model: its number and names of classes.
        dataset: what the dataset is called.
        classes: those of the dataset, in order.
    """
    named = tuple(model.class_names) != default_names(model.num_classes)
    own = [_plain(name) for name in model.class_names] if named else []
    wanted = [_plain(name) for name in classes]
    if len(set(own)) < len(own) or len(set(wanted)) < len(wanted):
        own = []  # a name that stands for two classes tells nothing
    name = model.identity.name
    if model.num_classes != len(classes):
        word = get_task(model.task).classes_word
        raise GauntletError(
            f"the model '{name}' has {model.num_classes} classes, the dataset '{dataset}' {len(classes)} {word}; "
            f"{_difference(model, own, wanted, classes)}."
        )
    shared = [each for each in wanted if each in own]
    moved = [each for each in shared if own.index(each) != wanted.index(each)]
    if not moved or (len(shared) < len(wanted) and 2 * len(moved) < len(shared)):
        return
    if len(shared) == len(wanted):
        raise GauntletError(
            f"the model '{name}' has the classes of the dataset '{dataset}' in another order: "
            f"{_listed(model.class_names)}, and there {_listed(classes)}; {_remedy(model, own, wanted)}."
        )
    first = moved[0]
    unknown = [name for name, plain in zip(classes, wanted, strict=True) if plain not in own]
    raise GauntletError(
        f"the model '{name}' has other classes than the dataset '{dataset}', or has them in another order: "
        f"'{first}' is number {own.index(first)} and there {wanted.index(first)}, and the dataset's "
        f"{_listed(unknown)} are unknown to it; "
        "give outputs (--outputs) in the order of the dataset, or class_names (--class-names) if only the names differ."
    )


def _difference(model: GauntletModel, own: Sequence[str], wanted: Sequence[str], classes: Sequence[str]) -> str:
    """What a model lacks, or how to choose among what it has."""
    if not own:
        return "they must agree, or outputs (--outputs) must say which outputs of the model are the dataset's classes"
    missing = [name for name, plain in zip(classes, wanted, strict=True) if plain not in own]
    if not missing:
        return _remedy(model, own, wanted)
    beyond = [name for name, plain in zip(model.class_names, own, strict=True) if plain not in wanted]
    return f"the model lacks {_listed(missing)}" + (f", and has {_listed(beyond)} beside" if beyond else "")


def _remedy(model: GauntletModel, own: Sequence[str], wanted: Sequence[str]) -> str:
    """The `outputs` with which a model that knows every wanted class gives them in order."""
    numbers = _numbers(model)
    outputs = [numbers[own.index(each)] for each in wanted]
    text = ",".join(map(str, outputs))
    return f"outputs={outputs} (--outputs {text}) takes them in the dataset's order, without class_names of the old one"


def _numbers(model: GauntletModel) -> list[int]:
    """What the network itself calls the classes of a model, where some of its outputs were chosen already."""
    chosen = getattr(model, "outputs", None)  # the labels of a library's detector
    if chosen is None and isinstance(module := getattr(model, "module", None), ChosenOutputs):
        chosen = module.outputs
    return list(range(model.num_classes)) if chosen is None else [int(each) for each in chosen]


def _plain(name: str) -> str:
    """A name as people compare it: traffic_light, Traffic-Light and "traffic light" are one."""
    return re.sub(r"[\s_-]+", " ", name).strip().casefold()


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more

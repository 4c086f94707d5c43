"""The model and the images of an evaluation, found again where they were evaluated from."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gauntlet.datasets import load_dataset
from gauntlet.datasets.contents import TRUSTED
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.plan import DatasetEntry, open_dataset
from gauntlet.models import GauntletModel, load_model
from gauntlet.models.sources.contract import coded_identity
from gauntlet.own_code import refusing_code
from gauntlet.results.origin import Origin, read_origin
from gauntlet.results.record import Evaluation

ModelLoader = Callable[[str], object]
DatasetLoader = Callable[[str, str], Dataset]
UNTRUSTED = (
    "the store names it: pass --trust if you trust where the store comes from (from Python, Loaders(trust=True))."
)


@dataclass(frozen=True)
class Loaders:
    """How models and datasets are found; by default where the evaluation says that they came from.

    Attributes:
        model: a model by its name in the store.
        dataset: a dataset by name and split.
        by_digest: models that are at hand, by the digest of what was evaluated.
        trust: let the addresses in the store run code: Python of one's own, and what a model was trusted with.
    """

    model: ModelLoader | None = None
    dataset: DatasetLoader | None = None
    by_digest: Mapping[str, GauntletModel] = field(default_factory=dict)
    trust: bool = False


@contextmanager
def evaluated_again(evaluation: Evaluation, loaders: Loaders) -> Iterator[tuple[Dataset, GauntletModel]]:
    """The dataset and the model of an evaluation, to be used inside; an error where they are not those evaluated."""
    with _in_folder(read_origin(evaluation.provenance).folder):
        given = _given(evaluation, loaders)
        # Also what the threat is made of comes from the store: a transfer attack names a model of its own.
        with refusing_code("" if loaders.trust else UNTRUSTED):
            model = _model(evaluation, given)
            yield images_again(evaluation, loaders), model


@contextmanager
def _in_folder(folder: str) -> Iterator[None]:
    """Relative paths, and modules of the user's own, are meant from the folder that the evaluation was run in."""
    before, paths = Path.cwd(), list(sys.path)
    # "" in the path means wherever we are: nothing is imported from a folder because a store names it.
    sys.path[:] = [str(before) if path in ("", ".") else path for path in paths]
    if folder and not folder.startswith(("\\\\", "//")) and Path(folder).is_dir():  # no network folders
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:] = paths


def _given(evaluation: Evaluation, loaders: Loaders) -> object | None:
    """The model that the caller has at hand or loads in a way of their own."""
    if evaluation.model_digest in loaders.by_digest:
        return loaders.by_digest[evaluation.model_digest]
    return loaders.model(evaluation.model) if loaders.model is not None else None


def _model(evaluation: Evaluation, given: object | None) -> GauntletModel:
    origin = read_origin(evaluation.provenance)
    model: object
    if given is not None:
        model = given
    elif origin.model is not None:
        model = load_model(origin.model["address"], **origin.model.get("options", {}))
    else:
        model = _by_name(evaluation)
    if not isinstance(model, GauntletModel):
        raise GauntletError(f"'{evaluation.model}' is no model of Gauntlet's; galleries show label maps and boxes.")
    if model.identity.digest != evaluation.model_digest:
        raise GauntletError(f"the weights of '{evaluation.model}' are not those that were evaluated.")
    if evaluation.code and coded_identity(model).code != evaluation.code:
        raise GauntletError(f"the code of '{evaluation.model}' is not that which was evaluated.")
    return model


def _by_name(evaluation: Evaluation) -> GauntletModel:
    """A shipped or trained model; others are not found by a name."""
    try:
        return load_model(evaluation.model)
    except GauntletError:
        raise GauntletError(
            f"the store does not know where '{evaluation.model}' came from; run the evaluation again by its address, "
            "or from Python give Loaders."
        ) from None


def images_again(evaluation: Evaluation, loaders: Loaders) -> Dataset:
    """The dataset of an evaluation; call it inside its folder."""
    origin = read_origin(evaluation.provenance)
    if loaders.dataset is not None:
        dataset = loaders.dataset(evaluation.dataset, evaluation.split)
    elif origin.dataset is not None:
        dataset = open_dataset(_entry(origin, evaluation))
    else:
        dataset = load_dataset(evaluation.dataset, split=evaluation.split or None)
    here, then = dataset.identity, evaluation.dataset_identity
    if _written(here.protocol) != _written(then.get("protocol", {})):
        raise GauntletError(
            f"the images of '{evaluation.dataset}' have another protocol (size, crop, content) than those that were "
            "evaluated; from Python, give Loaders that load them as they were."
        )
    recorded = {TRUSTED, ""}.isdisjoint((here.contents, evaluation.contents))
    if recorded and here.ids_digest == then.get("ids") and here.contents != evaluation.contents:
        raise GauntletError(
            f"the images of '{evaluation.dataset}' or their ground truth are not those that were evaluated; evaluate "
            "them anew, or put the old files back."
        )
    return dataset


def _entry(origin: Origin, evaluation: Evaluation) -> DatasetEntry:
    fields = {name: value for name, value in (origin.dataset or {}).items() if value is not None}
    return DatasetEntry.model_validate({"split": evaluation.split or None, **fields})


def _written(protocol: Mapping[str, Any]) -> str:
    """A protocol as the store writes it, where tuples are lists."""
    return json.dumps(protocol, sort_keys=True)

"""One function for every model: a shipped name, a prefixed address, or a benchmark triple."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.contract import GauntletModel
from gauntlet.models.sources import camvid, shipped, trained
from gauntlet.models.sources.contract import DescribedModel, ModelSource, coded_identity, make_source, sources
from gauntlet.models.sources.model_folder import find_model_folder
from gauntlet.models.sources.suggesting import suggest_address
from gauntlet.own_code import is_code_refused

if TYPE_CHECKING:
    from gauntlet.models.zoo import ZooEntry

sources.add("script", "gauntlet.models.sources.own_models:script")
sources.add("python", "gauntlet.models.sources.own_models:python")
for _name in ("hf", "smp", "torchvision", "onnx", "mmseg", "mmdet", "tiled", "net"):
    sources.add(_name, f"gauntlet.models.sources.{_name}:source")

DEFENCES = ("multiscale", "transform", "noise", "ensemble", "crf", "smoothed")
"""Prefixes of the models around other models in `gauntlet.defences`, which is found by name: it imports this room."""
for _name in DEFENCES:
    sources.add(_name, f"gauntlet.defences.{_name}:source")


def resolve_model(
    address: str | None = None,
    *,
    model_name: str | None = None,
    backbone: str | None = None,
    dataset: str | None = None,
    crop_size: str | None = None,
    model_folder: str | Path | None = None,
    facts: Mapping[str, Any] | None = None,
    **options: Any,
) -> ModelSource:
    """The source behind an address or a benchmark triple, not loaded yet.

    Args:
        address: a shipped name ("streets/enet"), a published one ("camvid/enet", with weights=PATH), the folder or the
            name of a model that `gauntlet train` made, or "prefix:rest" ("hf:FOLDER", "script:net.pt",
            "python:my.nets:build"); `docs/models.md` lists the prefixes.
        model_name, backbone, dataset: a model of the published benchmarks instead of an address.
        crop_size: HEIGHTxWIDTH, where a benchmark has one triple with several.
        model_folder: a folder with the configuration (.py) and the weights (.pth) of a detector instead of an address.
        facts: what is known about the model, for the analyses ({"architecture": "upernet", "backbone": "swin-t"}, see
            `gauntlet.results.model_facts`); changes neither its identity nor its figures.
        options: what the source takes; most take those of `wrap_model`.
    """
    if is_code_refused():
        options.pop("trust", None)  # a store or a card cannot trust itself
    if facts is not None:
        named: dict[str, Any] = {"model_name": model_name, "backbone": backbone, "dataset": dataset}
        plain = resolve_model(address, **named, crop_size=crop_size, model_folder=model_folder, **options)
        return DescribedModel(plain, facts)
    triple = (model_name, backbone, dataset)
    if model_folder is not None:
        if any(part is not None for part in (address, *triple, crop_size)):
            raise GauntletError(f"give either the model folder '{model_folder}' or another model, not both.")
        found = find_model_folder(model_folder)
        return _addressed(found.address, {**found.options, **options})
    if address is None:
        return _of_the_zoo(triple, crop_size, options)
    if any(part is not None for part in (*triple, crop_size)):
        raise GauntletError(
            f"give either the address '{address}' or model_name, backbone and dataset (and crop_size), not both."
        )
    prefix, colon, rest = address.partition(":")
    if colon:
        return make_source(prefix, rest, options)
    if address in camvid.names():
        return camvid.find(address, options)
    if address not in shipped.names():
        own = trained.find(address, options)
        if own is None:
            known = [*shipped.names(), *camvid.names(), *trained.names()]
            raise suggest_address(address) or unknown_name("model", address, known)
        return own
    # Nothing of a shipped model is unpickled, so trusting it changes nothing.
    taken = [name for name in options if name != "trust"]
    if taken:
        raise GauntletError(f"the shipped model '{address}' takes no options, but got {', '.join(taken)}.")
    return shipped.find(address)


def _of_the_zoo(triple: tuple[str | None, ...], crop_size: str | None, options: Mapping[str, Any]) -> ModelSource:
    from gauntlet.models import zoo

    model_name, backbone, dataset = triple
    if model_name is None and backbone is None and dataset is None:
        raise GauntletError("say which model to load, for example load_model('streets/enet').")
    if model_name is None or backbone is None or dataset is None:
        raise GauntletError(
            "a model of the benchmarks is named by three things, model_name, backbone and dataset; "
            "'gauntlet list models --zoo' shows them."
        )
    entry = zoo.find(model_name, backbone, dataset, crop_size=crop_size)
    return _addressed(*choose_checkpoint(entry, options))


def _addressed(address: str, options: Mapping[str, Any]) -> ModelSource:
    """The source of an address, which it tells as its origin."""
    return DescribedModel(resolve_model(address, **options), {}, {"address": address, "options": options})


def choose_checkpoint(entry: ZooEntry, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Address and options of a model of the zoo: of OpenMMLab's file where a folder of such files is given.

    Args:
        entry: of the zoo.
        options: the user's; `checkpoints` is the folder.
    """
    if options.get("checkpoints") is None or entry.openmmlab_address is None:
        given = {name: value for name, value in options.items() if name != "checkpoints"}
        return entry.require_address(), {**entry.options, **given}
    # Of a configuration without public weights, the user's own under its name.
    return entry.openmmlab_address, {
        "checkpoint": f"{entry.openmmlab_config}.pth",
        **entry.openmmlab_options,
        **options,
    }


def load_model(
    address: str | None = None, *, device: torch.device | str | None = None, **options: Any
) -> GauntletModel:
    """Loads a model: frozen, in eval mode, taking RGB in [0, 1].

    Args:
        address: as for `resolve_model`; or model_name=, backbone= and dataset= instead, or model_folder=.
        device: where to put it; the CPU by default.
        options: what the source takes (weights=PATH, num_classes=19, mean=..., trust=True, ...); with a triple also
            checkpoints, a folder with OpenMMLab's files.

    >>> load_model("streets/enet").num_classes
    11
    """
    source = resolve_model(address, **options)
    model = source.load()
    if model._identity is None or not model._identity.code:  # a source of somebody else's that does not say it
        model._identity = replace(model.identity, code=coded_identity(source).code)
    model.origin = {"address": address, "options": options} if address is not None else source.origin
    return model.to(device) if device is not None else model

"""What is known about a model beside its figures: size, architecture, backbone and its type, proposals, date.

The columns are those of the published figures, so that every analysis of those runs on a store as well. Facts come from
whoever loaded the model (`load_model(..., facts={...})`), else from the zoo's table by the model's address, else from
the network itself; types and dates of known architectures from the published tables. They are no part of a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any

import pandas as pd
from torch import nn

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models import zoo
from gauntlet.models.architectures.base import Architecture
from gauntlet.models.architectures.detector import Detector
from gauntlet.models.architectures.published.network import PublishedNetwork
from gauntlet.models.contract import GauntletModel
from gauntlet.models.defended_names import read_name
from gauntlet.models.zoo.spelling import canonical_architecture, canonical_backbone
from gauntlet.results.origin import read_origin
from gauntlet.results.published.reading import models as published_models

FIELD = "model_facts"
"""Their name in the provenance of an evaluation."""

OWN_NETWORKS = "gauntlet.models.architectures."

BACKBONE_TYPES = {
    "transformer": ("swin", "mit", "vit", "beit", "data2vec", "dinov", "pvt", "deit", "hiera", "segformer", "dpt"),
    "convolution": (
        *("r18", "r34", "r50", "r101", "r152", "resnet", "x101", "resnext", "convnext", "internimage", "mobilenet"),
        *(
            "vgg",
            "xception",
            "darknet",
            "csp",
            "hrnet",
            "hgnet",
            "regnet",
            "efficientnet",
            "resnest",
            "res2net",
            "custom",
        ),
    ),
}
"""The beginnings of names of backbones, by the two types of the papers."""


@dataclass(frozen=True)
class ModelFacts:
    """Facts of one model; "" and None where nothing is known.

    Attributes:
        architecture, backbone: as people call them ("upernet", "convnext-t").
        backbone_type: "convolution" or "transformer".
        proposal_type: of segmentation models "per pixel" or "mask classification", of detectors "dense", "two-stage" or
            "sparse" (object queries): the classes of the published tables.
        parameters: how many numbers are learned.
        date: when the architecture was published, ISO 8601.
        weight_first, weight_second: of the two models of an ensemble (docs/specs/defences.md, 4).
    """

    architecture: str = ""
    backbone: str = ""
    backbone_type: str = ""
    proposal_type: str = ""
    parameters: int | None = None
    date: str = ""
    weight_first: float | None = None
    weight_second: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, what is known only."""
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}

    def over(self, other: ModelFacts) -> ModelFacts:
        """These facts, with the other's where nothing is known here."""
        return ModelFacts(**{**other.as_dict(), **self.as_dict()})


NAMES = tuple(field.name for field in fields(ModelFacts))
NUMBERS = ("parameters", "weight_first", "weight_second")


def read_facts(given: Mapping[str, Any]) -> ModelFacts:
    """Facts as a user or a store wrote them; an error for what is none."""
    for name in given:
        if name not in NAMES:
            raise unknown_name("fact of a model", str(name), NAMES)
    date = given.get("date")
    if date:
        try:
            given = {**given, "date": pd.Timestamp(str(date)).date().isoformat()}
        except ValueError:
            raise GauntletError(f"the date of a model is written 2021-10-28, not {date!r}.") from None
    return ModelFacts(**{name: value for name, value in given.items() if value is not None})


def facts_of(model: GauntletModel | None = None, address: str | None = None) -> ModelFacts:
    """What is known about a model, with what the published tables say about its architecture and backbone.

    Args:
        model: the model itself, where it is loaded.
        address: where it came from.
    """
    return completed(said_facts(model, address))


def said_facts(model: GauntletModel | None = None, address: str | None = None) -> ModelFacts:
    """As `facts_of`, without what follows from the names: what a store keeps, so that names can be put right later."""
    said = read_facts((model.facts if model is not None else None) or {})
    said = said.over(_of_zoo(address or ""))
    if model is None:
        return said
    said = said.over(_of_name(model.identity.name))
    network = _of_network(model)
    if said.architecture or said.backbone:  # whose types follow from these names, not from what the network is
        network = replace(network, backbone_type="", proposal_type="")
    return said.over(network)


def completed(said: ModelFacts) -> ModelFacts:
    """Facts with types and date from the published tables, where nothing else is said."""
    return said.over(_of_tables(said))


def facts_frame(rows: Iterable[tuple[str, str, str, Mapping[str, Any]]]) -> pd.DataFrame:
    """One row per model: `model`, `model_digest`, `task` and the facts, in the types of the published figures.

    Args:
        rows: model, digest, task and provenance of evaluations, oldest first; what a later one knows counts.
    """
    found: dict[tuple[str, str, str], ModelFacts] = {}
    for model, digest, task, provenance in rows:
        key = (model, digest, task)
        stored = provenance.get(FIELD)
        if stored is None:  # stored before there were facts: the table still knows the address
            facts = said_facts(address=(read_origin(provenance).model or {}).get("address"))
        else:
            facts = read_facts(stored)
        found[key] = facts.over(found.get(key, _of_name(model)))
    columns = ["model", "model_digest", "task", *NAMES]
    completed_rows = [(*key, *asdict(completed(facts)).values()) for key, facts in found.items()]
    frame = pd.DataFrame(completed_rows, columns=columns)
    return frame.assign(
        **{name: pd.to_numeric(frame[name]).astype(float) for name in NUMBERS},
        date=pd.to_datetime(frame["date"].replace({"": None}), format="%Y-%m-%d"),
    )


def join_facts(frame: pd.DataFrame, facts: pd.DataFrame) -> pd.DataFrame:
    """A tidy frame of figures with the facts of its models as further columns."""
    keys = ["model", "model_digest", "task"]
    return frame.merge(facts, on=keys, how="left", validate="m:1")


def backbone_type(backbone: str) -> str:
    """ "convolution" or "transformer" by the name of a backbone, "" for a name that says neither.

    >>> backbone_type("Swin-T"), backbone_type("ResNet-50"), backbone_type("mine")
    ('transformer', 'convolution', '')
    """
    name = canonical_backbone(backbone)
    kinds = [kind for kind, beginnings in BACKBONE_TYPES.items() if name.startswith(beginnings)]
    return kinds[0] if kinds else ""


def _of_zoo(address: str) -> ModelFacts:
    """What the zoo's table says about an address, or the configuration that one names."""
    rest = address.partition(":")[2].rpartition("/")[2].removesuffix(".py")
    for entry in zoo.entries() if address else ():
        if address == entry.source or (rest and rest == entry.openmmlab_config):
            return ModelFacts(entry.architecture or entry.model_name, entry.backbone, date=entry.date)
    return ModelFacts()


def _of_name(name: str) -> ModelFacts:
    """The weights in the stored name of an ensemble of two models; nothing of others.

    >>> _of_name("[streets/enet]+[streets/segformer] ensemble gamma=0.4,of=probabilities").weight_second
    0.6
    """
    read = read_name(name)
    if read is None or read.prefix != "ensemble" or len(read.inner) != 2:
        return ModelFacts()
    first = float(read.values["gamma"])
    return ModelFacts(weight_first=first, weight_second=round(1 - first, 12))


def _of_network(model: GauntletModel) -> ModelFacts:
    """What the network itself says: its size, and the configuration that transformers' networks carry."""
    parameters = sum(each.numel() for each in model.parameters())
    for module in model.modules():
        config = getattr(module, "config", None)
        architecture = getattr(config, "model_type", None)
        if isinstance(module, nn.Module) and isinstance(architecture, str):
            inner = getattr(getattr(config, "backbone_config", None), "model_type", None) or getattr(
                config, "backbone", None
            )
            backbone = inner if isinstance(inner, str) else architecture if backbone_type(architecture) else ""
            return ModelFacts(architecture, backbone, parameters=parameters or None)
    return replace(_of_own_network(model), parameters=parameters or None)


def _of_own_network(model: GauntletModel) -> ModelFacts:
    """What is known of one of Gauntlet's own networks inside a model; nothing of others.

    All of them but SegFormer encode by convolutions, and all segmentation networks among them classify pixels.
    """
    for module in model.modules():
        if isinstance(module, (Architecture, Detector)) and type(module).__module__.startswith(OWN_NETWORKS):
            name = module.name if isinstance(module, PublishedNetwork) else type(module).__name__.lower()
            proposals = "per pixel" if isinstance(module, Architecture) else ""
            return ModelFacts(name, backbone_type=backbone_type(name) or "convolution", proposal_type=proposals)
    return ModelFacts()


def _of_tables(known: ModelFacts) -> ModelFacts:
    """Types and date that the published tables have for an architecture and a backbone."""
    kind = backbone_type(known.backbone) or backbone_type(known.architecture)
    if not known.architecture:
        return ModelFacts(backbone_type=kind)
    proposals, dates = _architectures()
    name = canonical_architecture(known.architecture)
    return ModelFacts(backbone_type=kind, proposal_type=proposals.get(name, ""), date=dates.get(name, ""))


@lru_cache(maxsize=1)
def _architectures() -> tuple[dict[str, str], dict[str, str]]:
    """Proposal type and date by architecture, from the published tables; the first row of an architecture counts."""
    table = published_models()
    proposals: dict[str, str] = {}
    dates: dict[str, str] = {}
    written = table["date"].dt.strftime("%Y-%m-%d").fillna("")
    for architecture, proposal, date in zip(table["architecture"], table["proposal_type"], written, strict=True):
        name = canonical_architecture(str(architecture))
        if proposal:
            proposals.setdefault(name, str(proposal))
        if date:
            dates.setdefault(name, str(date))
    return proposals, dates

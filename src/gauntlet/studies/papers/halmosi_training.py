"""Halmosi et al.: who was trained how, by the card of a shipped model, else by its name."""

from __future__ import annotations

import re
from collections.abc import Callable

from gauntlet.models.sources import shipped

NORMAL, HALF, WHOLE, SEA = "normal", "half of the batches attacked", "all batches attacked", "SEA-AT"
OTHER = "another way"


def training(model: str) -> str:
    """How a model was trained: a shipped one by its card, others by their names, as the paper spells them.

    >>> training("PSPNet PGD-AT, VOC"), training("DeepLabv3 SegPGD-AT-100, VOC"), training("camvid/enet-segpgd50")
    ('half of the batches attacked', 'all batches attacked', 'half of the batches attacked')
    >>> training("camvid/enet-at75"), training("camvid/enet-sea"), training("streets/enet-noise")
    ('another way', 'SEA-AT', 'another way')
    """
    if model in shipped.names():
        kind = str(shipped.find(model).card["kind"])
        if kind.startswith("sea-at"):
            return SEA
        by_card = {"clean": NORMAL, "50 %": HALF, "100 %": WHOLE}
        return next((way for words, way in by_card.items() if f" {words}," in f" {kind},"), OTHER)
    name = model.partition(", ")[0]
    if "SEA-AT" in name:
        return SEA
    if name.endswith(("-AT-100", "-at")):
        return WHOLE
    return HALF if name.endswith(("-AT", "-at50")) else NORMAL


def trained(*kinds: str) -> Callable[[str], bool]:
    """Whether a model was trained in one of these ways."""
    return lambda model: training(model) in kinds


def normal_of(model: str) -> str:
    """The name of the same network trained normally, on the same data.

    >>> normal_of("PSPNet PGD-AT-100, VOC"), normal_of("UPerNet SEA-AT-Tiny, VOC"), normal_of("camvid/enet-ddc")
    ('PSPNet Normal, VOC', 'UPerNet Normal-Tiny, VOC', 'camvid/enet-clean')
    """
    if model in shipped.names():
        network, beside = shipped.find(model).network, shipped.names(model.partition("/")[0])
        same = (name for name in beside if shipped.find(name).network == network)
        return next((name for name in same if training(name) == NORMAL), model)
    return re.sub(r"-at(50)?$", "", re.sub(r"(DDC|SegPGD|PGD|SEA)-AT(-100)?", "Normal", model))

"""Every published network by name, from the tables of the families."""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.errors import unknown_name
from gauntlet.models.architectures.published import (
    bisenet,
    bisenetv2,
    ddrnet,
    deeplab,
    dilated,
    enet,
    fcn,
    icnet,
    pidnet,
    pspnet,
    segnet,
    unet,
    upernet,
)
from gauntlet.models.architectures.published.network import Published

_FAMILIES = (bisenet, bisenetv2, ddrnet, pidnet, icnet, pspnet, deeplab, fcn, segnet, dilated, upernet, unet, enet)
NETWORKS: Mapping[str, Published] = {name: row for family in _FAMILIES for name, row in family.NETWORKS.items()}


def find(name: str) -> Published:
    """The row of a network."""
    if name not in NETWORKS:
        raise unknown_name("network", name, NETWORKS)
    return NETWORKS[name]

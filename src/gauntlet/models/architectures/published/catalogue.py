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
    segformer,
    segnet,
    unet,
    upernet,
)
from gauntlet.models.architectures.published.network import Published

_FAMILIES = (
    bisenet,
    bisenetv2,
    ddrnet,
    pidnet,
    icnet,
    pspnet,
    deeplab,
    fcn,
    segnet,
    dilated,
    upernet,
    unet,
    enet,
    segformer,
)
NETWORKS: dict[str, Published] = {name: row for family in _FAMILIES for name, row in family.NETWORKS.items()}
"""Rows by name; a name says whose form of a network it is, since they differ."""

ALIASES: Mapping[str, str] = {
    "bisenet_r18": "bisenetv1_r18_torchseg",
    "bisenet_x39": "bisenetv1_x39_torchseg",
    "bisenet_r101": "bisenetv1_r101_torchseg",
    "icnet": "icnet_ptsemseg",
    "pspnet50": "pspnet50_semseg",
    "pspnet101": "pspnet101_semseg",
    "deeplabv2_vgg": "deeplabv2_vgg16",
    "deeplabv2_r101": "deeplabv2_resnet101",
    "deeplabv2_msc": "deeplabv2_resnet101_msc",
    "deeplabv3_r50": "tv_deeplabv3_resnet50",
    "deeplabv3_r101": "tv_deeplabv3_resnet101",
    "deeplabv3plus_mobilenet": "vainf_deeplabv3plus_mobilenet",
    "deeplabv3plus_r101": "vainf_deeplabv3plus_resnet101",
    "fcn8s": "fcn8s_vgg16_wkentaro",
    "fcn_r50": "tv_fcn_resnet50",
    "segnet": "segnet_caffe",
    "dilated_frontend": "dilated_frontend_voc",
    "dilation8": "dilated8_context_voc",
    "dilation10": "dilation10_cityscapes",
    "unet": "mm_unet_fcn",
}
"""Short names, each for the form that the papers' authors used or the best known one."""


def full_name(name: str) -> str:
    """The name of a network from its name or an alias."""
    name = ALIASES.get(name, name)
    if name not in NETWORKS:
        raise unknown_name("network", name, [*NETWORKS, *ALIASES])
    return name


def find(name: str) -> Published:
    """The row of a network, by name or alias."""
    return NETWORKS[full_name(name)]

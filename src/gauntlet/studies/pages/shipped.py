"""What pages about the shipped models share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gauntlet.evaluation.plan import ModelEntry

SEGMENTATION = (
    *("streets/enet", "streets/enet-at", "streets/enet-at50", "streets/pspnet", "streets/segformer"),
    "streets/segformer-at",
)
"""Trained on clean or on attacked images; `streets/enet-noise` is there for certificates."""
DETECTION = ("streets/detr", "streets/fcos", "streets/fcos-at")


def entries(addresses: Sequence[str]) -> Callable[[Mapping[str, Any]], Sequence[ModelEntry]]:
    """Models that take no options."""
    return lambda options: [ModelEntry(address=address) for address in addresses]


def region_aware(rounds: int) -> dict[str, Any]:
    """BIM at 32/255 on a central square of a quarter of the image's sides."""
    return {
        "region_aware": {
            "attack": {"name": "bim", "epsilon": "32/255", "steps": 20},
            "rounds": rounds,
            "region": {"square": {"size": "quarter", "position": "centre"}},
        }
    }


def localized_noise(severity: int) -> dict[str, Any]:
    """Gaussian noise in half of the patches of 32 pixels."""
    return {"localized": {"corruption": {"name": "gaussian_noise", "severity": severity}, "ratio": 0.5, "patch": 32}}

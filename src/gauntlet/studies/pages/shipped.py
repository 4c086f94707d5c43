"""What pages about the shipped models share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gauntlet.evaluation.plan import ModelEntry
from gauntlet.models.sources import shipped

FOR_CERTIFICATES = "streets/enet-noise"
"""Trained on noise, for the certificates of smoothed models; not on the pages."""


def addresses(task: str) -> list[str]:
    """The shipped models of the street scenes for a task that were trained on clean or on attacked images."""
    return [name for name in shipped.names("streets") if shipped.find(name).task == task and name != FOR_CERTIFICATES]


def entries(task: str) -> Callable[[Mapping[str, Any]], Sequence[ModelEntry]]:
    """The shipped models of a task."""
    return lambda options: [ModelEntry(address=address) for address in addresses(task)]


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

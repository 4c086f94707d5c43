"""Steps that adapt to the loss of each image, by function: APGD and the attacks of SEA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch

from gauntlet.numbers import Number
from gauntlet.threats.attacks.engine.outcome import Outcome
from gauntlet.threats.attacks.functions.calling import BallCall, Labels, Norm, run_attack

if TYPE_CHECKING:
    from typing_extensions import Unpack


def apgd(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    steps: int = 100,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Literal["best", "best-loss", "last"] = "best",
    loss: str = "ce",
    **more: Unpack[BallCall],
) -> Outcome:
    """APGD: momentum and steps that are halved (Croce and Hein 2020, Algorithm 1; docs/specs/attacks.md, 5)."""
    return run_attack("apgd", locals())


def sea_jsd(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    steps: int = 300,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Literal["best", "best-loss", "last"] = "best",
    loss: str = "jsd",
    radius: Literal["reduction", "fixed"] = "reduction",
    **more: Unpack[BallCall],
) -> Outcome:
    """SEA with the Jensen-Shannon divergence (Croce et al. 2024; docs/specs/attacks.md, 6)."""
    return run_attack("sea-jsd", locals())


def sea_mce(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    steps: int = 300,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Literal["best", "best-loss", "last"] = "best",
    loss: str = "mce",
    radius: Literal["reduction", "fixed"] = "reduction",
    **more: Unpack[BallCall],
) -> Outcome:
    """SEA with the cross-entropy of pixels still to be won (Croce et al. 2024; docs/specs/attacks.md, 6)."""
    return run_attack("sea-mce", locals())


def sea_msl(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    steps: int = 300,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Literal["best", "best-loss", "last"] = "best",
    loss: str = "msl",
    radius: Literal["reduction", "fixed"] = "reduction",
    **more: Unpack[BallCall],
) -> Outcome:
    """SEA with the spherical loss of pixels still to be won (Croce et al. 2024; docs/specs/attacks.md, 6)."""
    return run_attack("sea-msl", locals())


def sea_bce(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    steps: int = 300,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Literal["best", "best-loss", "last"] = "best",
    loss: str = "segpgd",
    radius: Literal["reduction", "fixed"] = "reduction",
    **more: Unpack[BallCall],
) -> Outcome:
    """SEA with the balanced cross-entropy, which is SegPGD's loss (Croce et al. 2024; docs/specs/attacks.md, 6)."""
    return run_attack("sea-bce", locals())


def sea_mce_bal(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    steps: int = 300,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Literal["best", "best-loss", "last"] = "best",
    loss: str = "mce-bal",
    radius: Literal["reduction", "fixed"] = "reduction",
    **more: Unpack[BallCall],
) -> Outcome:
    """SEA with the loss of `sea_mce` weighted by class (Croce et al. 2024; docs/specs/attacks.md, 6)."""
    return run_attack("sea-mce-bal", locals())

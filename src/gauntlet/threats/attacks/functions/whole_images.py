"""TOG, by function: attacks on what a detector says about the whole image (Chow et al. 2020)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch

from gauntlet.numbers import Number
from gauntlet.threats.attacks.engine.outcome import Outcome
from gauntlet.threats.attacks.functions.calling import Labels, Norm, Returns, StepsCall, run_attack

if TYPE_CHECKING:
    from typing_extensions import Unpack


def tog_untargeted(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 10,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "ce",
    rule: str = "steepest",
    confidence: Number = 0.5,
    **more: Unpack[StepsCall],
) -> Outcome:
    """The training loss of the detector's own detections rises (Chow et al. 2020; docs/specs/attacks.md, 15)."""
    return run_attack("tog-untargeted", locals())


def tog_vanishing(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 10,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "ce",
    rule: str = "steepest",
    confidence: Number = 0.5,
    **more: Unpack[StepsCall],
) -> Outcome:
    """All objects vanish (Chow et al. 2020; docs/specs/attacks.md, 15)."""
    return run_attack("tog-vanishing", locals())


def tog_fabrication(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 10,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "ce",
    rule: str = "steepest",
    confidence: Number = 0.5,
    **more: Unpack[StepsCall],
) -> Outcome:
    """Objects appear everywhere (Chow et al. 2020; docs/specs/attacks.md, 15)."""
    return run_attack("tog-fabrication", locals())


def tog_mislabeling(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 10,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "ce",
    rule: str = "steepest",
    confidence: Number = 0.5,
    towards: Literal["ll", "ml"] = "ll",
    **more: Unpack[StepsCall],
) -> Outcome:
    """Detections get another class, the least or the most likely one (Chow et al. 2020; docs/specs/attacks.md, 15)."""
    return run_attack("tog-mislabeling", locals())

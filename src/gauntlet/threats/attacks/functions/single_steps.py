"""One step in a ball, by function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gauntlet.numbers import Number
from gauntlet.threats.attacks.engine.outcome import Outcome
from gauntlet.threats.attacks.functions.calling import Labels, Norm, Returns, StepsCall, run_attack

if TYPE_CHECKING:
    from typing_extensions import Unpack


def fgsm(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 1,
    norm: Norm = "linf",
    random_start: bool = False,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "ce",
    rule: str = "steepest",
    **more: Unpack[StepsCall],
) -> Outcome:
    """FGSM: one step along the sign of the gradient (Goodfellow et al. 2015; docs/specs/attacks.md, 1).

    `alpha` None: epsilon.
    """
    return run_attack("fgsm", locals())


def fgsm_ll(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 1,
    norm: Norm = "linf",
    random_start: bool = False,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "ce",
    rule: str = "steepest",
    **more: Unpack[StepsCall],
) -> Outcome:
    """FGSM towards the least likely class of the clean image (Arnab et al. 2018; docs/specs/attacks.md, 2).

    `alpha` None: epsilon.
    """
    return run_attack("fgsm-ll", locals())


def fgsm_nth(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 1,
    norm: Norm = "linf",
    random_start: bool = False,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "ce",
    rule: str = "steepest",
    rank: int = 2,
    **more: Unpack[StepsCall],
) -> Outcome:
    """FGSM towards the class of rank `rank` of the clean image (Arnab et al. 2018; docs/specs/attacks.md, 2).

    `alpha` None: epsilon.
    """
    return run_attack("fgsm-nth", locals())

"""Many equal steps in a ball, by function; `alpha` None is the paper's step, which can depend on epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch

from gauntlet.numbers import Number
from gauntlet.threats.attacks.engine.outcome import Outcome
from gauntlet.threats.attacks.functions.calling import Labels, Norm, Returns, StepsCall, run_attack

if TYPE_CHECKING:
    from typing_extensions import Unpack


def bim(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 20,
    norm: Norm = "linf",
    random_start: bool = False,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "ce",
    rule: str = "steepest",
    **more: Unpack[StepsCall],
) -> Outcome:
    """BIM: FGSM repeated with small steps (Kurakin et al. 2017, section 2.2; docs/specs/attacks.md, 1)."""
    return run_attack("bim", locals())


def ifgsm(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 0,
    norm: Norm = "linf",
    random_start: bool = False,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "ce",
    rule: str = "steepest",
    iteration_rule: Literal["paper", "kurakin"] = "paper",
    **more: Unpack[StepsCall],
) -> Outcome:
    """Iterative FGSM away from the model's own prediction (Arnab et al. 2018; docs/specs/attacks.md, 2).

    `steps` 0: as many as `iteration_rule` makes of epsilon.
    """
    return run_attack("ifgsm", locals())


def ifgsm_ll(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 0,
    norm: Norm = "linf",
    random_start: bool = False,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "ce",
    rule: str = "steepest",
    iteration_rule: Literal["paper", "kurakin"] = "paper",
    **more: Unpack[StepsCall],
) -> Outcome:
    """Iterative FGSM to the least likely class of every iterate (Arnab et al. 2018; docs/specs/attacks.md, 2).

    `steps` 0: as many as `iteration_rule` makes of epsilon.
    """
    return run_attack("ifgsm-ll", locals())


def pgd(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 20,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "ce",
    rule: str = "steepest",
    **more: Unpack[StepsCall],
) -> Outcome:
    """PGD: BIM from a random start (Madry et al. 2018, section 2.1; docs/specs/attacks.md, 1)."""
    return run_attack("pgd", locals())


def mifgsm(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 20,
    norm: Norm = "linf",
    random_start: bool = False,
    restarts: int = 1,
    returns: Returns = "best",
    loss: str = "ce",
    rule: str = "momentum",
    **more: Unpack[StepsCall],
) -> Outcome:
    """MI-FGSM: the sign of an accumulated gradient (Dong et al. 2018, Eq. 6 and 7; docs/specs/attacks.md, 1)."""
    return run_attack("mifgsm", locals())


def segpgd(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 20,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "segpgd",
    rule: str = "steepest",
    **more: Unpack[StepsCall],
) -> Outcome:
    """SegPGD: PGD that moves weight from right to wrong pixels (Gu et al. 2022, Eq. 5; docs/specs/attacks.md, 3)."""
    return run_attack("segpgd", locals())


def cospgd(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 20,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "cospgd",
    rule: str = "steepest",
    **more: Unpack[StepsCall],
) -> Outcome:
    """CosPGD: pixels weighted by the cosine to their label (Agnihotri et al. 2024, Eq. 4; docs/specs/attacks.md, 4)."""
    return run_attack("cospgd", locals())


def padam_ce(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 200,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "ce",
    rule: str = "amsgrad",
    **more: Unpack[StepsCall],
) -> Outcome:
    """PAdam-CE: projected AMSGrad on the cross-entropy (Halmosi et al. 2024, section 4; docs/specs/attacks.md, 7)."""
    return run_attack("padam-ce", locals())


def padam_cos(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int = 200,
    norm: Norm = "linf",
    random_start: bool = True,
    restarts: int = 1,
    returns: Returns = "last",
    loss: str = "cosine",
    rule: str = "amsgrad",
    **more: Unpack[StepsCall],
) -> Outcome:
    """PAdam-Cos: projected AMSGrad on the cosine of logits (Halmosi et al. 2024, Eq. 5; docs/specs/attacks.md, 7)."""
    return run_attack("padam-cos", locals())

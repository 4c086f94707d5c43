"""Smallest perturbations, by function; with an `epsilon` the images are clipped to it, see `MinimumNorm`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch

from gauntlet.numbers import Number
from gauntlet.threats.attacks.engine.outcome import Outcome
from gauntlet.threats.attacks.functions.calling import Call, Labels, Norm, run_attack

if TYPE_CHECKING:
    from typing_extensions import Unpack


def alma_prox(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number = 0.001,
    steps: int = 500,
    norm: Norm = "linf",
    threshold: float = 0.99,
    clip: Literal["elementwise", "rescale"] = "elementwise",
    penalty_grad: Literal["exact", "reference"] = "exact",
    **more: Unpack[Call],
) -> Outcome:
    """ALMAProx: an augmented Lagrangian with a proximal step (Rony et al. 2023; docs/specs/attacks.md, 9)."""
    return run_attack("alma-prox", locals())


def dag(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number | None = None,
    steps: int | None = None,
    norm: Norm = "linf",
    threshold: float = 0.99,
    clip: Literal["elementwise", "rescale"] = "elementwise",
    on_fail: Literal["last", "clean"] = "last",
    strong: bool = False,
    **more: Unpack[Call],
) -> Outcome:
    """DAG: steps on the margins of what is still right (Xie et al. 2017, Algorithm 1; docs/specs/attacks.md, 8 and 15).

    `alpha` and `steps` None: 0.001 and 200 on pixels, 0.5/255 and 150 on a detector.
    """
    return run_attack("dag", locals())


def pdpgd(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number = 0.01,
    steps: int = 500,
    norm: Norm = "linf",
    threshold: float = 0.99,
    clip: Literal["elementwise", "rescale"] = "elementwise",
    **more: Unpack[Call],
) -> Outcome:
    """PDPGD: primal-dual descent with a proximal step in linf (Matyasko and Chau 2021; docs/specs/attacks.md, 10)."""
    return run_attack("pdpgd", locals())


def pdgd(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number = 0.01,
    steps: int = 500,
    norm: Norm = "l2",
    threshold: float = 0.99,
    clip: Literal["elementwise", "rescale"] = "elementwise",
    **more: Unpack[Call],
) -> Outcome:
    """PDGD: primal-dual descent in l2 (Matyasko and Chau 2021; docs/specs/attacks.md, 10)."""
    return run_attack("pdgd", locals())


def fmn(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number = 0.02,
    steps: int = 500,
    norm: Norm = "linf",
    threshold: float = 0.99,
    clip: Literal["elementwise", "rescale"] = "elementwise",
    gamma: Number = 0.05,
    last_gamma: Number = 0.001,
    pixels: Literal["open", "all"] = "open",
    **more: Unpack[Call],
) -> Outcome:
    """FMN: a ball whose radius follows the boundary (Pintor et al. 2021, Algorithm 1; docs/specs/attacks.md, 11)."""
    return run_attack("fmn", locals())


def minimal_pgd(
    model: Any,
    images: torch.Tensor,
    labels: Labels,
    *,
    epsilon: Number | None = None,
    alpha: Number = 0.1 / 3,
    steps: int = 40,
    norm: Norm = "linf",
    threshold: float = 0.99,
    loss: str = "ce",
    clip: Literal["elementwise", "rescale"] = "elementwise",
    rounds: int = 13,
    largest: Number | None = None,
    **more: Unpack[Call],
) -> Outcome:
    """Bisection on the radius of PGD (Rony et al. 2023; docs/specs/attacks.md, 1).

    `largest` None: a radius of 1 in linf, 80 in l2.
    """
    return run_attack("minimal-pgd", locals())

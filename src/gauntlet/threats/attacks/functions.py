"""Attacks and batteries as typed functions: `gauntlet.attacks.pgd(model, images, labels, epsilon="8/255", steps=20)`.

Each builds the attack of its name (with "_" for "-") and calls it once; `build` gives an attack to keep. Options and
defaults are those of `build`: the budget stands in the signature, everything else is explained once, in
`call_arguments`. `epsilon` None: 8/255 (linf) or 64/255 (l2) in a ball, 8/255 for batteries, no clipping of
smallest perturbations. A battery runs several attacks; its outcome has the worst case per image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from gauntlet.numbers import Number
from gauntlet.threats.attacks.call_arguments import (
    AlmaCall,
    ApgdCall,
    ArnabCall,
    BatteryCall,
    Bound,
    DagCall,
    FmnCall,
    Inner,
    LabelOnlyCall,
    LeanCall,
    MinimalPgdCall,
    MinimumCall,
    MislabelCall,
    NthCall,
    RegionAwareCall,
    SeaCall,
    SquareCall,
    Steps,
    StepsCall,
    TogCall,
    Truth,
    run,
    run_battery,
)
from gauntlet.threats.attacks.combined.battery_outcome import BatteryOutcome
from gauntlet.threats.attacks.engine.outcome import Outcome

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Largest damage in a ball.


def fgsm(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 1, **more: Unpack[StepsCall]
) -> Outcome:
    """FGSM: one step along the sign of the gradient (Goodfellow et al. 2015; docs/specs/attacks.md, 1)."""
    return run("fgsm", model, images, labels, more, epsilon=epsilon, steps=steps)


def fgsm_ll(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 1, **more: Unpack[StepsCall]
) -> Outcome:
    """FGSM towards the least likely class of the clean image (Arnab et al. 2018; docs/specs/attacks.md, 2)."""
    return run("fgsm-ll", model, images, labels, more, epsilon=epsilon, steps=steps)


def fgsm_nth(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 1, **more: Unpack[NthCall]
) -> Outcome:
    """FGSM towards the class of rank `rank` of the clean image (Arnab et al. 2018; docs/specs/attacks.md, 2)."""
    return run("fgsm-nth", model, images, labels, more, epsilon=epsilon, steps=steps)


def bim(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 20, **more: Unpack[StepsCall]
) -> Outcome:
    """BIM: FGSM repeated with small steps (Kurakin et al. 2017, section 2.2; docs/specs/attacks.md, 1)."""
    return run("bim", model, images, labels, more, epsilon=epsilon, steps=steps)


def ifgsm(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 0, **more: Unpack[ArnabCall]
) -> Outcome:
    """Iterative FGSM away from the model's own prediction (Arnab et al. 2018; docs/specs/attacks.md, 2)."""
    return run("ifgsm", model, images, labels, more, epsilon=epsilon, steps=steps)


def ifgsm_ll(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 0, **more: Unpack[ArnabCall]
) -> Outcome:
    """Iterative FGSM to the least likely class of every iterate (Arnab et al. 2018; docs/specs/attacks.md, 2)."""
    return run("ifgsm-ll", model, images, labels, more, epsilon=epsilon, steps=steps)


def pgd(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 20, **more: Unpack[StepsCall]
) -> Outcome:
    """PGD: BIM from a random start (Madry et al. 2018, section 2.1; docs/specs/attacks.md, 1)."""
    return run("pgd", model, images, labels, more, epsilon=epsilon, steps=steps)


def mifgsm(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 20, **more: Unpack[StepsCall]
) -> Outcome:
    """MI-FGSM: the sign of an accumulated gradient (Dong et al. 2018, Eq. 6 and 7; docs/specs/attacks.md, 1)."""
    return run("mifgsm", model, images, labels, more, epsilon=epsilon, steps=steps)


def segpgd(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 20, **more: Unpack[StepsCall]
) -> Outcome:
    """SegPGD: PGD that moves weight from right to wrong pixels (Gu et al. 2022, Eq. 5; docs/specs/attacks.md, 3)."""
    return run("segpgd", model, images, labels, more, epsilon=epsilon, steps=steps)


def cospgd(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 20, **more: Unpack[StepsCall]
) -> Outcome:
    """CosPGD: pixels weighted by the cosine to their label (Agnihotri et al. 2024, Eq. 4; docs/specs/attacks.md, 4)."""
    return run("cospgd", model, images, labels, more, epsilon=epsilon, steps=steps)


def semsegbench(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, budget: Number = 1, **more: Unpack[BatteryCall]
) -> BatteryOutcome:
    """PGD, SegPGD and CosPGD, the attacks of SemSegBench (Agnihotri et al.)."""
    return run_battery("semsegbench", model, images, labels, more, epsilon=epsilon, budget=budget)


def padam_ce(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 200, **more: Unpack[StepsCall]
) -> Outcome:
    """PAdam-CE: projected AMSGrad on the cross-entropy (Halmosi et al. 2024, section 4; docs/specs/attacks.md, 7)."""
    return run("padam-ce", model, images, labels, more, epsilon=epsilon, steps=steps)


def padam_cos(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 200, **more: Unpack[StepsCall]
) -> Outcome:
    """PAdam-Cos: projected AMSGrad on the cosine of logits (Halmosi et al. 2024, Eq. 5; docs/specs/attacks.md, 7)."""
    return run("padam-cos", model, images, labels, more, epsilon=epsilon, steps=steps)


# Steps that adapt to the loss of each image.


def apgd(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 100, **more: Unpack[ApgdCall]
) -> Outcome:
    """APGD: momentum and steps that are halved (Croce and Hein 2020, Algorithm 1; docs/specs/attacks.md, 5)."""
    return run("apgd", model, images, labels, more, epsilon=epsilon, steps=steps)


def sea_jsd(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 300, **more: Unpack[SeaCall]
) -> Outcome:
    """SEA with the Jensen-Shannon divergence (Croce et al. 2024; docs/specs/attacks.md, 6)."""
    return run("sea-jsd", model, images, labels, more, epsilon=epsilon, steps=steps)


def sea_mce(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 300, **more: Unpack[SeaCall]
) -> Outcome:
    """SEA with the cross-entropy of pixels still to be won (Croce et al. 2024; docs/specs/attacks.md, 6)."""
    return run("sea-mce", model, images, labels, more, epsilon=epsilon, steps=steps)


def sea_msl(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 300, **more: Unpack[SeaCall]
) -> Outcome:
    """SEA with the spherical loss of pixels still to be won (Croce et al. 2024; docs/specs/attacks.md, 6)."""
    return run("sea-msl", model, images, labels, more, epsilon=epsilon, steps=steps)


def sea_bce(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 300, **more: Unpack[SeaCall]
) -> Outcome:
    """SEA with the balanced cross-entropy, which is SegPGD's loss (Croce et al. 2024; docs/specs/attacks.md, 6)."""
    return run("sea-bce", model, images, labels, more, epsilon=epsilon, steps=steps)


def sea_mce_bal(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 300, **more: Unpack[SeaCall]
) -> Outcome:
    """SEA with the loss of `sea_mce` weighted by class (Croce et al. 2024; docs/specs/attacks.md, 6)."""
    return run("sea-mce-bal", model, images, labels, more, epsilon=epsilon, steps=steps)


def sea(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, budget: Number = 1, **more: Unpack[BatteryCall]
) -> BatteryOutcome:
    """SEA: JSD, MCE, MSL and BCE (Croce et al. 2024; docs/specs/attacks.md, 6)."""
    return run_battery("sea", model, images, labels, more, epsilon=epsilon, budget=budget)


def apgd_jsd(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 50, **more: Unpack[LeanCall]
) -> Outcome:
    """APGD on the Jensen-Shannon divergence, compared by it too (ours; docs/specs/attacks.md, 19)."""
    return run("apgd-jsd", model, images, labels, more, epsilon=epsilon, steps=steps)


def gauntlet(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, budget: Number = 1, **more: Unpack[BatteryCall]
) -> BatteryOutcome:
    """The lean battery, made to reach what `halmosi` does with a twelfth of its passes (docs/specs/attacks.md, 19)."""
    return run_battery("gauntlet", model, images, labels, more, epsilon=epsilon, budget=budget)


# Smallest perturbations; with an `epsilon` the images are clipped to it.


def alma_prox(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 500, **more: Unpack[AlmaCall]
) -> Outcome:
    """ALMAProx: an augmented Lagrangian with a proximal step (Rony et al. 2023; docs/specs/attacks.md, 9)."""
    return run("alma-prox", model, images, labels, more, epsilon=epsilon, steps=steps)


def dag(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: Steps = None, **more: Unpack[DagCall]
) -> Outcome:
    """DAG: steps on the margins of what is still right (Xie et al. 2017, Algorithm 1; docs/specs/attacks.md, 8, 15)."""
    return run("dag", model, images, labels, more, epsilon=epsilon, steps=steps)


def pdpgd(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 500, **more: Unpack[MinimumCall]
) -> Outcome:
    """PDPGD: primal-dual descent with a proximal step in linf (Matyasko and Chau 2021; docs/specs/attacks.md, 10)."""
    return run("pdpgd", model, images, labels, more, epsilon=epsilon, steps=steps)


def pdgd(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 500, **more: Unpack[MinimumCall]
) -> Outcome:
    """PDGD: primal-dual descent in l2 (Matyasko and Chau 2021; docs/specs/attacks.md, 10)."""
    return run("pdgd", model, images, labels, more, epsilon=epsilon, steps=steps)


def fmn(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 500, **more: Unpack[FmnCall]
) -> Outcome:
    """FMN: a ball whose radius follows the boundary (Pintor et al. 2021, Algorithm 1; docs/specs/attacks.md, 11)."""
    return run("fmn", model, images, labels, more, epsilon=epsilon, steps=steps)


def minimal_pgd(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 40, **more: Unpack[MinimalPgdCall]
) -> Outcome:
    """Bisection on the radius of PGD (Rony et al. 2023; docs/specs/attacks.md, 1)."""
    return run("minimal-pgd", model, images, labels, more, epsilon=epsilon, steps=steps)


def halmosi(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, budget: Number = 1, **more: Unpack[BatteryCall]
) -> BatteryOutcome:
    """The ten attacks of Halmosi et al. 2024 (docs/specs/attacks.md, 12)."""
    return run_battery("halmosi", model, images, labels, more, epsilon=epsilon, budget=budget)


# Without a gradient: the model is only asked.


def square(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, queries: int = 1000, **more: Unpack[SquareCall]
) -> Outcome:
    """Square Attack: random squares that lower the margins (Andriushchenko et al. 2020; docs/specs/beyond.md, 5.1)."""
    return run("square", model, images, labels, more, epsilon=epsilon, queries=queries)


def label_only(
    model: Any,
    images: Tensor,
    labels: Truth,
    *,
    epsilon: Bound = None,
    queries: int = 200,
    **more: Unpack[LabelOnlyCall],
) -> Outcome:
    """Lines of noise chosen by label maps alone (after Chen et al. 2024; docs/specs/beyond.md, 5.2)."""
    return run("label-only", model, images, labels, more, epsilon=epsilon, queries=queries)


# On detectors only.


def tog_untargeted(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 10, **more: Unpack[TogCall]
) -> Outcome:
    """The training loss of the detector's own detections rises (Chow et al. 2020; docs/specs/attacks.md, 15)."""
    return run("tog-untargeted", model, images, labels, more, epsilon=epsilon, steps=steps)


def detecbench(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, budget: Number = 1, **more: Unpack[BatteryCall]
) -> BatteryOutcome:
    """BIM and PGD with 20 steps of 0.01 on a detector, the attacks of DetecBench (Agnihotri et al.)."""
    return run_battery("detecbench", model, images, labels, more, epsilon=epsilon, budget=budget)


def tog_vanishing(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 10, **more: Unpack[TogCall]
) -> Outcome:
    """All objects vanish (Chow et al. 2020; docs/specs/attacks.md, 15)."""
    return run("tog-vanishing", model, images, labels, more, epsilon=epsilon, steps=steps)


def tog_fabrication(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 10, **more: Unpack[TogCall]
) -> Outcome:
    """Objects appear everywhere (Chow et al. 2020; docs/specs/attacks.md, 15)."""
    return run("tog-fabrication", model, images, labels, more, epsilon=epsilon, steps=steps)


def tog_mislabeling(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, steps: int = 10, **more: Unpack[MislabelCall]
) -> Outcome:
    """Detections get another class, the least or the most likely one (Chow et al. 2020; docs/specs/attacks.md, 15)."""
    return run("tog-mislabeling", model, images, labels, more, epsilon=epsilon, steps=steps)


def detectors(
    model: Any, images: Tensor, labels: Truth, *, epsilon: Bound = None, budget: Number = 1, **more: Unpack[BatteryCall]
) -> BatteryOutcome:
    """PGD, APGD, PAdam-CE and TOG, vanishing and untargeted, on a detector (ours)."""
    return run_battery("detectors", model, images, labels, more, epsilon=epsilon, budget=budget)


# Rounds of another attack.


def region_aware(
    model: Any, images: Tensor, labels: Truth, *, attack: Inner = "bim", **more: Unpack[RegionAwareCall]
) -> Outcome:
    """Rounds that aim at what is still right (Marchiori Pietrosanti et al., Alg. 1; docs/specs/attacks.md, 13)."""
    return run("region-aware", model, images, labels, more, attack=attack)

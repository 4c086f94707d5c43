"""What gives an attack its name: every attack and battery of this package, with what its name changes and its paper.

Sections are those of docs/specs/attacks.md, where each definition is written out.
"""

from __future__ import annotations

from typing import Any

from gauntlet.errors import unknown_name
from gauntlet.threats.attacks.algorithms.alma import AlmaProx
from gauntlet.threats.attacks.algorithms.apgd import AutoPgd, Lean, Sea
from gauntlet.threats.attacks.algorithms.dag import DenseAdversary
from gauntlet.threats.attacks.algorithms.fmn import FastMinimumNorm
from gauntlet.threats.attacks.algorithms.gradient import (
    ArnabIterative,
    GradientAttack,
    MomentumAttack,
    NthMostLikely,
    ProjectedAdam,
    SingleStep,
)
from gauntlet.threats.attacks.algorithms.minimal_pgd import MinimalPgd
from gauntlet.threats.attacks.algorithms.primal_dual import PrimalDual
from gauntlet.threats.attacks.algorithms.tog import Mislabeling, TargetedObjectness
from gauntlet.threats.attacks.asking.label_only import LabelOnly
from gauntlet.threats.attacks.asking.square import Square
from gauntlet.threats.attacks.combined.members import battery_members, build_battery
from gauntlet.threats.attacks.combined.region_aware import RegionAware
from gauntlet.threats.attacks.detection.goals import FABRICATION, UNTARGETED, VANISHING
from gauntlet.threats.attacks.engine.targets import LEAST_LIKELY
from gauntlet.threats.attacks.registration import attacks, names_for, register

# Largest damage in a ball.
register("fgsm", SingleStep)  # Goodfellow et al. 2015; section 1
register("fgsm-ll", SingleStep, target=LEAST_LIKELY)  # Arnab et al. 2018; section 2
register("fgsm-nth", NthMostLikely)  # Arnab et al. 2018; section 2
register("bim", GradientAttack)  # Kurakin et al. 2017; section 1
register("ifgsm", ArnabIterative, labels="prediction")  # Arnab et al. 2018; section 2
register("ifgsm-ll", ArnabIterative, target=LEAST_LIKELY, moving_target=True)  # Arnab et al. 2018; section 2
register("pgd", GradientAttack, random_start=True)  # Madry et al. 2018; section 1
register("mifgsm", MomentumAttack, rule="momentum", returns="best")  # Dong et al. 2018; section 1
register("segpgd", GradientAttack, loss="segpgd", random_start=True)  # Gu et al. 2022, Eq. 5; section 3
register("cospgd", GradientAttack, loss="cospgd", random_start=True)  # Agnihotri et al. 2024, Eq. 4; section 4
register("padam-ce", ProjectedAdam, rule="amsgrad", steps=200, random_start=True)  # Halmosi et al. 2024, 4; section 7
register("padam-cos", ProjectedAdam, rule="amsgrad", steps=200, random_start=True, loss="cosine")  # the same, Eq. 5
register("apgd", AutoPgd, random_start=True)  # Croce and Hein 2020, Algorithm 1; section 5
register("sea-jsd", Sea, loss="jsd")  # Croce et al. 2024; section 6, as the four below
register("sea-mce", Sea, loss="mce")
register("sea-msl", Sea, loss="msl")
register("sea-bce", Sea, loss="segpgd")
register("sea-mce-bal", Sea, loss="mce-bal")
register("apgd-jsd", Lean, loss="jsd-self")  # ours; section 19

# Smallest perturbation.
register("alma-prox", AlmaProx)  # Rony et al. 2023; section 9
register("dag", DenseAdversary)  # Xie et al. 2017, Algorithm 1; sections 8 (pixels) and 15 (objects)
register("pdpgd", PrimalDual)  # Matyasko and Chau 2021; section 10
register("pdgd", PrimalDual, norm="l2")  # Matyasko and Chau 2021; section 10
register("fmn", FastMinimumNorm)  # Pintor et al. 2021, Algorithm 1; section 11
register("minimal-pgd", MinimalPgd)  # Rony et al. 2023; section 1

# Without a gradient: the model is only asked. Definitions in docs/specs/beyond.md, 5.
register("square", Square)  # Andriushchenko et al. 2020, on summed pixel margins
register("label-only", LabelOnly)  # after Chen et al. 2024

# On detectors only: Chow et al. 2020; section 15.
register("tog-untargeted", TargetedObjectness, goal=UNTARGETED)
register("tog-vanishing", TargetedObjectness, goal=VANISHING)
register("tog-fabrication", TargetedObjectness, goal=FABRICATION)
register("tog-mislabeling", Mislabeling)

# Rounds of another attack: Marchiori Pietrosanti et al., Algorithm 1; section 13.
attacks.add(RegionAware.name, RegionAware)

# Batteries: the name that results go under, the attack, and its options; the order decides ties.
battery_members.add("sea", {name: (name, {}) for name in ("sea-jsd", "sea-mce", "sea-msl", "sea-bce")})
battery_members.add(
    "gauntlet",  # ours, section 19: two climbs from two starts, on from the better of both, and down in mIoU from there
    {
        "jsd": ("apgd-jsd", {"steps": 88, "radius": "wave"}),
        "jsd-again": ("apgd-jsd", {"steps": 88, "radius": "wave", "worth_from": 0.01}),
        "jsd-further": (
            "apgd-jsd",
            {"steps": 36, "first_step": 0.5, "warm_start": "accuracy", "worth_from": 0.01},
        ),
        "jsd-balanced": (
            "apgd-jsd",
            {"loss": "jsd-bal", "steps": 25, "first_step": 0.5, "warm_start": "miou", "returns": "best-miou"},
        ),
    },
    aliases=("lean",),
)
battery_members.add("semsegbench", {name: (name, {}) for name in ("pgd", "segpgd", "cospgd")})
battery_members.add("detecbench", {name: (name, {"steps": 20, "alpha": 0.01}) for name in ("bim", "pgd")})
battery_members.add(
    "detectors",  # ours: what DetecBench lacks, on the training loss and on the candidates
    {
        "pgd": ("pgd", {}),
        "apgd": ("apgd", {}),
        "padam-ce": ("padam-ce", {}),
        "tog-vanishing": ("tog-vanishing", {"steps": 20}),
        "tog-untargeted": ("tog-untargeted", {"steps": 20}),
    },
)
battery_members.add(
    "halmosi",  # section 12: the order is the attack index 0 to 9 of Halmosi et al.
    {
        "alma-prox": ("alma-prox", {}),
        "padam-ce": ("padam-ce", {}),
        "padam-cos": ("padam-cos", {}),
        "dag-0.001": ("dag", {"alpha": 0.001, "steps": 200}),
        "dag-0.003": ("dag", {"alpha": 0.003, "steps": 200}),
        "pdpgd": ("pdpgd", {}),
        # Their code keeps the radius of the SEA members fixed; Croce et al., and so `sea`, shrink it.
        "sea-jsd": ("sea-jsd", {"radius": "fixed"}),
        "sea-mce": ("sea-mce", {"radius": "fixed"}),
        "sea-msl": ("sea-msl", {"radius": "fixed"}),
        "sea-bce": ("sea-bce", {"radius": "fixed"}),
    },
)


def names(task: str | None = None) -> list[str]:
    """Every attack, or those for "segmentation" or "detection", in the order of registration."""
    return attacks.names() if task is None else names_for(task)


def batteries() -> list[str]:
    """Every battery."""
    return battery_members.names()


def build(name: str, **options: Any) -> Any:
    """An attack or a battery by its name.

    Args:
        name: see `names` and `batteries`.
        options: epsilon=, alpha=, steps=, norm="linf"|"l2", random_start=, restarts=, returns="last"|"best" and the
            attack's own; numbers may be texts such as "8/255"; None means the default. For a battery see
            `build_battery`.
    """
    if name in battery_members or "members" in options:
        return build_battery(name, **options)
    if name not in attacks:
        raise unknown_name("attack", str(name), [*attacks.names(), *battery_members.names()])
    return attacks[name](**options)

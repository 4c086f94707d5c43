"""Suites: named lists of threats, as data."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from gauntlet.errors import GauntletError
from gauntlet.registry import Registry, callable_as
from gauntlet.tasks import DETECTION, SEGMENTATION, TASKS
from gauntlet.threats.corruptions import C_BAR, COMMON, SEVERITIES

_LOGGER = logging.getLogger(__name__)

Description = dict[str, Any]
Suite = Callable[[], list[Description]]

_DESCRIPTIONS = callable_as("a function that returns the descriptions of its threats")

suites: Registry[Suite] = Registry("suite", "gauntlet.suites", check=_DESCRIPTIONS)
"""Suites by name; an entry returns the descriptions of its threats."""

detector_suites: Registry[Suite] = Registry("suite for detectors", "gauntlet.detector_suites", check=_DESCRIPTIONS)
"""What a suite is on a detector, where that is more than its threats without those that aim at pixels."""

LINF = {"norm": "linf", "epsilon": "8/255", "alpha": 0.01, "steps": 20}
L2 = {"norm": "l2", "epsilon": "64/255", "alpha": 0.1, "steps": 20}


SPATIAL_CORRUPTIONS = ("brightness", "snow", "gaussian_noise")
"""The corruptions of Table 1 of Marchiori Pietrosanti et al."""
SMALL, LARGE = "100/1024", "200/1024"
"""The squares of Marchiori Pietrosanti et al.: 100 and 200 pixels of images 1024 high, as much of smaller ones."""
ARNAB_LEVELS = (0.25, 0.5, 1, 2, 4, 8, 16, 32)
"""The epsilons of Arnab et al., in grey levels of 255."""


def names() -> list[str]:
    """Every suite there is."""
    return suites.names()


def build(name: str, task: str = SEGMENTATION) -> list[Description]:
    """The descriptions of the threats of a suite, in order.

    Args:
        name: of the suite.
        task: what the model does. On a detector ("detection") attacks that aim at pixels are replaced by what the suite
            has for detectors, or left out.
    """
    if task != DETECTION:
        return suites[name]()
    name = suites.canonical(name)
    if name in detector_suites:
        return detector_suites[name]()
    every = suites[name]()
    threats = [description for description in every if aims_at_boxes(description)]
    left_out = [description for description in every if description not in threats]
    if left_out:
        _LOGGER.info("left out of the suite '%s', since detectors have no pixels to aim at: %s", name, left_out)
    if threats == [{"clean": {}}]:
        *others, last = (f"'{other}'" for other in TASKS[task].suites)
        raise GauntletError(f"the suite '{name}' has no threat for detectors; use {', '.join(others)} or {last}.")
    return threats


def aims_at_boxes(description: Description) -> bool:
    """Whether a threat can be used on a detector: corruptions always, attacks where they work on boxes."""
    from gauntlet.threats import attacks

    kind, options = next(iter(description.items()))
    if kind == "attack":
        return DETECTION in attacks.build(**options).tasks
    if kind == "battery":
        return all(DETECTION in member.tasks for member in attacks.build_battery(**options).members.values())
    if kind == "region_aware":
        return DETECTION in attacks.RegionAware(options.get("attack") or "bim").tasks
    return True


def _attack(name: str, **options: Any) -> Description:
    return {"attack": {"name": name, **options}}


def _corruption(name: str, severity: int = 3) -> Description:
    return {"corruption": {"name": name, "severity": severity}}


@suites.register("quick")
def quick() -> list[Description]:
    """A first impression in a minute: clean, four attacks of few steps, four corruptions, one localized corruption."""
    return [
        {"clean": {}},
        _attack("fgsm", epsilon="8/255"),
        _attack("pgd", epsilon="2/255", alpha="0.5/255", steps=10),
        _attack("pgd", **{**LINF, "steps": 10}),
        _attack("cospgd", **{**LINF, "steps": 10}),
        _corruption("gaussian_noise"),
        _corruption("motion_blur"),
        _corruption("fog"),
        _corruption("jpeg_compression"),
        {"localized": {"corruption": {"name": "gaussian_noise", "severity": 3}, "ratio": 0.5, "patch": 32}},
    ]


@detector_suites.register("quick")
def quick_on_detectors() -> list[Description]:
    """As `quick`, with TOG's vanishing attack in the place of CosPGD."""
    vanishing = _attack("tog-vanishing", epsilon="8/255")
    return [vanishing if threat.get("attack", {}).get("name") == "cospgd" else threat for threat in quick()]


@suites.register("semsegbench")
def semsegbench() -> list[Description]:
    """SemSegBench: clean, PGD, SegPGD and CosPGD in both norms at 20 steps, its fifteen corruptions at severity 3."""
    attacks = [_attack(name, **budget) for budget in (LINF, L2) for name in ("pgd", "segpgd", "cospgd")]
    return [{"clean": {}}, *attacks, *(_corruption(name) for name in COMMON)]


@suites.register("detecbench")
def detecbench() -> list[Description]:
    """DetecBench: clean, BIM and PGD in linf at 20 steps, its corruptions in 2D (15) and 3D (8) at severity 3.

    Five of those in 3D need depth; a plan leaves them out on a dataset that has none. They read it as the benchmark's
    own images have it, which were made with estimated depth: in metres the fog would hide every street.
    """
    from gauntlet.threats.compat.detecbench.corruptions import AllCommonCorruptions3d

    attacks = [_attack(name, **LINF) for name in ("bim", "pgd")]
    in_3d = [threat.describe() for threat in AllCommonCorruptions3d()]
    return [{"clean": {}}, *attacks, *(_corruption(name) for name in COMMON), *in_3d]


@suites.register("c-bar")
def c_bar() -> list[Description]:
    """ImageNet-C-bar's ten corruptions at all severities: what nobody trains against; `mpc` has their mean."""
    return [{"clean": {}}, *(_corruption(name, severity) for name in C_BAR for severity in SEVERITIES)]


def localized(name: str, severity: int = 3, ratio: float = 0.5) -> Description:
    """A corruption in patches of 256 pixels at full size (1024x2048), a quarter of the shorter side elsewhere."""
    return {"localized": {"corruption": {"name": name, "severity": severity}, "ratio": ratio, "patch": "quarter"}}


def rounds_in_square(
    size: int | str, level: int = 16, *, rounds: int = 3, steps: int = 50, position: str = "centre"
) -> Description:
    """The region-aware attack in a square.

    Args:
        size: of the square, as masks take it.
        level: epsilon in grey levels.
        rounds: how many attacks.
        steps: of each.
        position: where the square is.
    """
    return {
        "region_aware": {
            "attack": {"name": "bim", "epsilon": f"{level}/255", "steps": steps},
            "rounds": rounds,
            "region": {"square": {"size": size, "position": position}},
        }
    }


@suites.register("spatial")
def spatial() -> list[Description]:
    """Spatial robustness as printed: three localized corruptions by severity and ratio, fifteen attacks in squares.

    Severities 1, 3, 5 at half of the patches and shares from 0 to 1 at severity 3 (Table 1, Figure 4); squares of 100
    and 200 pixels at 16 and 32 grey levels, one to five rounds, 10 to 250 steps, centre and bottom left (Figures 5, 8
    and 9). Twelve times as dear as `spatial-quick`.
    """
    severities = [localized(name, severity) for name in SPATIAL_CORRUPTIONS for severity in (1, 3, 5)]
    ratios = [localized(name, ratio=step / 10) for name in SPATIAL_CORRUPTIONS for step in range(11) if step != 5]
    squares = [rounds_in_square(size, level) for size in (SMALL, LARGE) for level in (16, 32)]
    rounds = [rounds_in_square(LARGE, rounds=number) for number in (1, 2, 4, 5)]
    steps = [rounds_in_square(LARGE, steps=number) for number in (10, 25, 100, 150, 200, 250)]
    corner = [rounds_in_square(LARGE, position="bottom-left")]
    return [{"clean": {}}, *severities, *ratios, *squares, *rounds, *steps, *corner]


@suites.register("spatial-quick")
def spatial_quick() -> list[Description]:
    """The localized corruptions of `spatial` at severities 1, 3 and 5, and two attacks in a quarter of the height."""
    severities = [localized(name, severity) for name in SPATIAL_CORRUPTIONS for severity in (1, 3, 5)]
    return [{"clean": {}}, *severities, *(rounds_in_square("quarter", level) for level in (16, 32))]


@suites.register("battery")
def battery() -> list[Description]:
    """The strong battery of Halmosi et al.: ten attacks at 8/255, worst case per image and per metric."""
    return [{"clean": {}}, {"battery": {"name": "halmosi", "epsilon": "8/255"}}]


@detector_suites.register("battery")
def battery_on_detectors() -> list[Description]:
    """The strong battery for detectors at 8/255, worst case per image."""
    return [{"clean": {}}, {"battery": {"name": "detectors", "epsilon": "8/255"}}]


@suites.register("arnab")
def arnab() -> list[Description]:
    """Arnab et al.: FGSM, its least-likely form and both iterated, epsilon 0.25 to 32 grey levels.

    What the untargeted ones leave is the network's own prediction, as in the paper's code.
    """
    single = [_attack("fgsm", epsilon=f"{level}/255", labels="prediction") for level in ARNAB_LEVELS]
    others = [
        _attack(name, epsilon=f"{level}/255") for name in ("fgsm-ll", "ifgsm", "ifgsm-ll") for level in ARNAB_LEVELS
    ]
    return [{"clean": {}}, *single, *others]


@detector_suites.register("arnab")
def arnab_on_detectors() -> list[Description]:
    """FGSM with the true boxes: a detector has no prediction per pixel to leave."""
    return [{"clean": {}}, *(_attack("fgsm", epsilon=f"{level}/255") for level in ARNAB_LEVELS)]


suites.add("full", "gauntlet.threats.safety_case:full")
detector_suites.add("full", "gauntlet.threats.safety_case:full_on_detectors")

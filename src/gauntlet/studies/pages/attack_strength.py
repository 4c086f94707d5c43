"""Are attacks as strong as they should be on the shipped models? (docs/attack-strength.md)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gauntlet.studies.contract import studies
from gauntlet.studies.figures import FloatArray, interval
from gauntlet.studies.pages.contract import NETWORK, PageRuns, PageStudy, Part, Runs
from gauntlet.studies.pages.markdown import in_points, percent, section, table, with_interval
from gauntlet.studies.pages.shipped import entries
from gauntlet.tasks import SEGMENTATION

EPSILONS = ("2/255", "4/255", "8/255")
NAMES = ("pgd", "segpgd", "cospgd")
SLACK = 0.001  # of mIoU: what rounding and a different random start move
BATTERY = "the three"


def attack(name: str, epsilon: str, steps: int) -> dict[str, Any]:
    """Steps of one grey level."""
    return {"attack": {"name": name, "epsilon": epsilon, "alpha": "1/255", "steps": steps}}


def label(name: str, epsilon: str, steps: int = 20) -> str:
    """What an attack is called here."""
    return f"{name} {epsilon} x{steps}"


def parts() -> dict[str, Part]:
    """Three attacks at three budgets, the first with twice the steps as well, and the three as a battery."""
    wanted = [(name, epsilon, 20) for name in NAMES for epsilon in EPSILONS]
    wanted += [("pgd", epsilon, 40) for epsilon in EPSILONS]
    members = {name: attack(name, "2/255", 20)["attack"] for name in NAMES}
    # Every member on every image: drawn at random, its starts are others than those of the attack alone.
    battery = {"battery": {"name": BATTERY, "members": members, "skip": False}}
    return {"all": Part({"clean": "clean", **{label(*each): attack(*each) for each in wanted}, BATTERY: battery}, 16)}


def write(runs: PageRuns, command: str) -> str:
    """The page."""
    of = runs["all"]
    head = f"""# Are attacks as strong as they should be?

mIoU in per cent of the shipped models on the first {len(of.dataset)} images of streets/val, with 95 % intervals over
images; alpha 1/255, seed 0. Lower is stronger. Made by

    {command}

"Yes" allows {100 * SLACK:g} points; where an attack leaves more than it should stands by how many points, with the
95 % interval of the difference over the same images: NOT where all of it is above 0, "not certain" where it is not.
"The three, worst case" is `mIoU_greedy` of a battery of PGD, SegPGD and CosPGD at 2/255, compared with its own members.

SegPGD and CosPGD spend their gradient on pixels that are not lost yet. Where few can be won at all (a small budget on a
model that was trained on attacked images) that can be a little weaker than PGD: the rows that say "NOT".
"""
    return head + "".join(model_section(model, of) for model in of.models)


def model_section(model: str, runs: Runs) -> str:
    """The figures of one model, and what must hold between them."""

    def miou(name: str, epsilon: str, steps: int = 20) -> FloatArray:
        return runs.results.miou(NETWORK, label(name, epsilon, steps), model)

    clean, battery = runs.results.miou(NETWORK, "clean", model), runs(model, BATTERY)
    worst = battery.figures["mIoU_greedy"]
    best = min(each.value for each in battery.all_figures if each.metric == "mIoU" and each.view in NAMES)
    rows = [[f"{name} x20", *(with_interval(miou(name, epsilon)) for epsilon in EPSILONS)] for name in NAMES]
    rows.append(["pgd x40", *(with_interval(miou("pgd", epsilon, 40)) for epsilon in EPSILONS)])
    rows.append(["the three, worst case", percent(worst), "", ""])
    checks = {
        "SegPGD at or below PGD": {each: miou("segpgd", each) - miou("pgd", each) for each in EPSILONS},
        "CosPGD at or below PGD": {each: miou("cospgd", each) - miou("pgd", each) for each in EPSILONS},
        "40 steps at or below 20": {each: miou("pgd", each, 40) - miou("pgd", each) for each in EPSILONS},
        "8/255 at or below 4/255": {name: miou(name, "8/255") - miou(name, "4/255") for name in NAMES},
        "the battery at or below its best member": {"2/255": np.asarray([worst - best])},
    }
    held = [[what, holds(excess)] for what, excess in checks.items()]
    return "\n" + section(
        f"{model}: {with_interval(clean)} clean",
        table(["attack", *EPSILONS], rows),
        table(["what must hold", ""], held),
    )


def holds(excess: Mapping[str, FloatArray]) -> str:
    """Where a figure exceeds the one that it should not exceed, and by how many points; (R,) each."""
    found: dict[str, list[str]] = {"NOT at": [], "not certain at": []}
    for where, each in excess.items():
        if each[0] > SLACK:
            certain = len(each) == 1 or interval(each).low > 0  # printed figures have no images
            found["NOT at" if certain else "not certain at"].append(f"{where} ({in_points(each)})")
    return "; ".join(f"{word} {', '.join(places)}" for word, places in found.items() if places) or "yes"


ATTACK_STRENGTH = PageStudy(
    name="shipped/attack-strength",
    title="Attacks on the shipped models against what must hold between them",
    question="Are attacks as strong as they should be?",
    file="attack-strength.md",
    models=entries(SEGMENTATION),
    parts=parts,
    write=write,
)
studies.add(ATTACK_STRENGTH.name, ATTACK_STRENGTH)

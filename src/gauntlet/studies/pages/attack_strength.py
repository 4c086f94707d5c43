"""Are attacks as strong as they should be on the shipped models? (docs/attack-strength.md)"""

from __future__ import annotations

from typing import Any

from gauntlet.results import Evaluation
from gauntlet.studies.contract import studies
from gauntlet.studies.pages.contract import PageRuns, PageStudy, Part
from gauntlet.studies.pages.markdown import percent
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
    return {"all": Part({"clean": "clean", **{label(*each): attack(*each) for each in wanted}, BATTERY: battery}, 8)}


def write(runs: PageRuns, command: str) -> str:
    """The page."""
    of = runs["all"]
    images = len(of.dataset)
    head = f"""# Are attacks as strong as they should be?

mIoU in per cent of the shipped models on the first {images} images of streets/val, alpha 1/255, seed 0. Lower is
stronger. Made by `{command}`; "yes" allows {100 * SLACK:g} points.
"The three, worst case" is `mIoU_greedy` of a battery of PGD, SegPGD and CosPGD at 2/255, compared with its own members.

SegPGD and CosPGD spend their gradient on pixels that are not lost yet. Where few can be won at all (a small budget on a
model that was trained on attacked images) that can be a little weaker than PGD: the rows that say "NOT".
"""
    return head + "".join(_section(model, {threat: of(model, threat) for threat in of.threats}) for model in of.models)


def _section(model: str, results: dict[str, Evaluation]) -> str:
    def miou(threat: str) -> float:
        return results[threat].figures["mIoU"]

    twenty = {(name, epsilon): miou(label(name, epsilon)) for name in NAMES for epsilon in EPSILONS}
    forty = {epsilon: miou(label("pgd", epsilon, 40)) for epsilon in EPSILONS}
    worst = results[BATTERY].figures["mIoU_greedy"]
    best = min(each.value for each in results[BATTERY].all_figures if each.metric == "mIoU" and each.view in NAMES)
    rows = [
        f"| {name} x20 | " + " | ".join(percent(twenty[name, epsilon], 2) for epsilon in EPSILONS) + " |"
        for name in NAMES
    ]
    rows.append("| pgd x40 | " + " | ".join(percent(forty[epsilon], 2) for epsilon in EPSILONS) + " |")
    rows.append(f"| the three, worst case | {percent(worst, 2)} | | |")
    pgd = {epsilon: twenty["pgd", epsilon] for epsilon in EPSILONS}
    checks = {
        "SegPGD at or below PGD": [e for e in EPSILONS if twenty["segpgd", e] > pgd[e] + SLACK],
        "CosPGD at or below PGD": [e for e in EPSILONS if twenty["cospgd", e] > pgd[e] + SLACK],
        "40 steps at or below 20": [e for e in EPSILONS if forty[e] > pgd[e] + SLACK],
        "8/255 at or below 4/255": [n for n in NAMES if twenty[n, "8/255"] > twenty[n, "4/255"] + SLACK],
        "the battery at or below its best member": ["2/255"] if worst > best + SLACK else [],
    }
    lines = [f"| {what} | {'NOT at ' + ', '.join(missed) if missed else 'yes'} |" for what, missed in checks.items()]
    return f"""
## {model}: {percent(miou("clean"), 2)} clean

| attack | {" | ".join(EPSILONS)} |
|---|---|---|---|
{chr(10).join(rows)}

| what must hold | |
|---|---|
{chr(10).join(lines)}
"""


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

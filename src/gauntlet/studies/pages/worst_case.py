"""What pages about the worst case share: the lean battery on models that were trained with and without attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gauntlet.analysis import best_attack
from gauntlet.models.sources import shipped
from gauntlet.studies.figures import FloatArray, largest, smallest
from gauntlet.studies.pages.blind import Blind
from gauntlet.studies.pages.contract import NETWORK, Runs
from gauntlet.studies.pages.markdown import in_points, judged, percent, section, table, with_interval
from gauntlet.threats.build import ThreatLike

CLEAN, BATTERY = "clean", "battery"
"""Labels of the threats that these sections need."""
HALF, FULL = "50 %", "100 %"
"""Of every batch attacked in training."""
PAPER_EPSILON = "8/255"
"""Of Halmosi et al."""


def pgd(epsilon: str) -> ThreatLike:
    """A weak attack: ten steps of PGD at a budget."""
    return {"attack": {"name": "pgd", "epsilon": epsilon, "alpha": 0.01, "steps": 10}}


def is_normal(address: str) -> bool:
    """Whether a shipped model never saw an attacked image in training, as its card says.

    >>> is_normal("streets/enet"), is_normal("streets/enet-at50")
    (True, False)
    """
    return bool(shipped.find(address).card["kind"] == "clean")


def fully_attacked(models: Sequence[str]) -> list[str]:
    """Those that were trained on nothing but attacked images, as their cards say."""
    return [model for model in models if " 100 %" in shipped.find(model).card["kind"]]


def battery_section(runs: Runs, epsilon: str, no_image: Blind) -> str:
    """What is left in the worst case, beside the clean figures and beside what is right without any image."""
    results = runs.results
    rows = [
        [f"`{model}`", *(percent(runs(model, CLEAN).figures[name]) for name in ("aAcc", "mIoU", "NmIoU")),
         with_interval(accuracy(runs, BATTERY, model)), with_interval(results.miou(NETWORK, BATTERY, model)),
         with_interval(results.nmiou(NETWORK, BATTERY, model))]
        for model in runs.models
    ]  # fmt: skip
    without = (no_image.accuracy, no_image.miou, no_image.nmiou)
    rows.append([no_image.name, *(percent(float(each[0])) for each in without), *map(with_interval, without)])
    normal = largest([accuracy(runs, BATTERY, model) for model in runs.models if is_normal(model)])
    attacked = fully_attacked(runs.models)
    least = smallest([accuracy(runs, BATTERY, model) for model in attacked])
    least_miou = smallest([results.miou(NETWORK, BATTERY, model) for model in attacked])
    words = (
        f"In the worst case the best of the normally trained models keeps {with_interval(normal)} % of its pixels; of "
        f"those trained on nothing but attacked images, the least robust keeps {with_interval(least)} %, which is "
        f"{in_points(least - no_image.accuracy)} points compared with what is right without any image; the least CmIoU "
        f"of theirs is {with_interval(least_miou)} %, {in_points(least_miou - no_image.miou)} points compared with it. "
        f"{no_image.words}"
    )
    header = ["model", "clean aAcc", "clean CmIoU", "clean NmIoU", "worst aAcc", "worst CmIoU", "worst NmIoU"]
    return section(f"The battery at {epsilon}: worst case per image", words, table(header, rows))


def share_section(worst: Runs, weak: Runs, label: str, shares: Mapping[str, str], epsilon: str, no_image: Blind) -> str:
    """How much of every batch has to be attacked.

    Args:
        worst: with the battery.
        weak: with `pgd`, by its label.
        label: of `pgd`.
        shares: the E-Net trained with each share, HALF and FULL among them.
        epsilon: of the battery.
        no_image: what is right without any image.
    """
    weakly, right = (
        {share: accuracy(runs, threat, model) for share, model in shares.items()}
        for runs, threat in ((weak, label), (worst, BATTERY))
    )
    left = {share: worst.results.miou(NETWORK, BATTERY, model) for share, model in shares.items()}
    rows = {
        "PGD, 10 steps: aAcc": [*weakly.values(), no_image.accuracy],
        "battery: aAcc": [*right.values(), no_image.accuracy],
        "battery: CmIoU": [*left.values(), no_image.miou],
    }
    other = "" if epsilon == PAPER_EPSILON else f" The paper's epsilon is {PAPER_EPSILON}, this battery's {epsilon}."
    return section(
        "Half of the batch attacked, or all of it",
        judged(no_image.miou - left[HALF], len(worst.dataset))
        + " Models trained with 50 % attacked images show no robustness by any metric (Halmosi et al.). Called "
        "reproduced where their CmIoU in the worst case is below that of a map that never sees an image: here "
        f"{with_interval(left[HALF])} % against {with_interval(no_image.miou)} %; the model trained with 100 % keeps "
        f"{with_interval(left[FULL])} %, {in_points(left[FULL] - no_image.miou)} points compared with the map. "
        f"In pixel accuracy the model trained with 50 % has {in_points(right[HALF] - no_image.accuracy)} points "
        f"compared with the map.{other} All of the batch keeps {in_points(left[FULL] - left[HALF])} points of CmIoU "
        f"and {in_points(right[FULL] - right[HALF])} of accuracy more than half of it.",
        table(
            ["E-Net, %", *shares, no_image.name], [[name, *map(with_interval, cells)] for name, cells in rows.items()]
        ),
    )


def winners_section(runs: Runs) -> str:
    """Which member of the battery leaves an image the fewest right pixels."""
    shares: dict[str, dict[str, float]] = {}
    for model in runs.models:
        found = best_attack(runs(model, BATTERY).per_image, attacks=members(runs, model))
        shares[model] = dict(zip(found["attack"], found["share"].astype(float), strict=True))
    names = list(dict.fromkeys(name for each in shares.values() for name in each))
    rows = [[f"`{model}`", *(percent(each.get(name), 0) for name in names)] for model, each in shares.items()]
    return section(
        "Which attack wins",
        "Share of the images, in %, on which a member of the battery leaves the lowest accuracy; a tie, as where every "
        "pixel is wrong, goes to the first. Nothing: the member was not needed.",
        table(["model", *names], rows),
    )


def members(runs: Runs, model: str) -> list[str]:
    """The attacks of the battery that ran on a model, in order; the clean image, another candidate, is none."""
    return [view for view in dict.fromkeys(runs(model, BATTERY).per_image["view"]) if view not in ("all", CLEAN)]


def accuracy(runs: Runs, threat: str, model: str) -> FloatArray:
    """(R,) aAcc over the resampled images: right pixels of all of them over all pixels."""
    return runs.results.accuracy(NETWORK, threat, model)

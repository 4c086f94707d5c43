"""What pages about the worst case share: the lean battery on models that were trained with and without attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from gauntlet.analysis import best_attack, by_size, stored_objects
from gauntlet.analysis.size_bias import FRACTION_NAMES
from gauntlet.metrics.arithmetic import divide
from gauntlet.models.sources import shipped
from gauntlet.studies.figures import FloatArray, largest, mean_of, smallest
from gauntlet.studies.pages.contract import NETWORK, Runs
from gauntlet.studies.pages.markdown import judged, percent, section, table, with_interval
from gauntlet.threats.build import ThreatLike

CLEAN, BATTERY = "clean", "battery"
"""Labels of the threats that these sections need."""
HALF, FULL = "50 %", "100 %"
"""Of every batch attacked in training."""
KEPT = 0.6
"""A model keeps less than another one if it keeps less than so much of it."""
SMALL = ("pole", "sign_symbol", "pedestrian", "bicyclist")
LARGE = ("sky", "building", "road")


def lean_battery(epsilon: str) -> ThreatLike:
    """The lean battery at a budget."""
    return {"battery": {"name": "gauntlet", "epsilon": epsilon}}


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


def battery_section(runs: Runs, epsilon: str) -> str:
    """What is left in the worst case, beside the clean figures."""
    results = runs.results
    rows = [
        [f"`{model}`", *(percent(runs(model, CLEAN).figures[name]) for name in ("aAcc", "mIoU", "NmIoU")),
         with_interval(accuracy(runs, BATTERY, model)), with_interval(results.miou(NETWORK, BATTERY, model)),
         with_interval(results.nmiou(NETWORK, BATTERY, model))]
        for model in runs.models
    ]  # fmt: skip
    normal = largest([accuracy(runs, BATTERY, model) for model in runs.models if is_normal(model)])
    least = smallest([accuracy(runs, BATTERY, model) for model in fully_attacked(runs.models)])
    words = (
        f"In the worst case the best of the normally trained models keeps {with_interval(normal)} % of its pixels; of "
        f"those trained on nothing but attacked images, the least robust keeps {with_interval(least)} %."
    )
    header = ["model", "clean aAcc", "clean CmIoU", "clean NmIoU", "worst aAcc", "worst CmIoU", "worst NmIoU"]
    return section(f"The battery at {epsilon}: worst case per image", words, table(header, rows))


def share_section(worst: Runs, weak: Runs, label: str, shares: Mapping[str, str]) -> str:
    """How much of every batch has to be attacked.

    Args:
        worst: with the battery.
        weak: with `pgd`, by its label.
        label: of `pgd`.
        shares: the E-Net trained with each share, HALF and FULL among them.
    """
    rows = [
        ["PGD, 10 steps", *(with_interval(accuracy(weak, label, model)) for model in shares.values())],
        ["battery", *(with_interval(accuracy(worst, BATTERY, model)) for model in shares.values())],
    ]
    half, full = (accuracy(worst, BATTERY, shares[share]) for share in (HALF, FULL))
    return section(
        "Half of the batch attacked, or all of it",
        judged(KEPT * full - half, len(worst.dataset))
        + " Models trained with 50 % attacked images owe their apparent robustness to weak attacks; those trained with "
        f"100 % keep theirs (Halmosi et al.). Here, under the battery: {with_interval(half)} % of the pixels against "
        f"{with_interval(full)} % (called reproduced below {KEPT:g} of it).",
        table(["E-Net, pixel accuracy %", *shares], rows),
    )


def pooling_section(runs: Runs) -> str:
    """CmIoU pools the pixels of all images, NmIoU averages images; and what becomes of small objects."""
    rows = []
    for model in runs.models:
        figures = runs(model, BATTERY).figures
        means = [
            f"{percent(float(class_iou(runs, CLEAN, model, names)[0]))} > "
            f"{with_interval(class_iou(runs, BATTERY, model, names))}"
            for names in (SMALL, LARGE)
        ]
        rows.append([f"`{model}`", percent(figures["mIoU"]), percent(figures["NmIoU"]), *means])
    margins = [kept_iou(runs, model, LARGE) - kept_iou(runs, model, SMALL) for model in fully_attacked(runs.models)]
    return section(
        "CmIoU against NmIoU, small objects against large",
        judged(smallest(margins), len(runs.dataset))
        + " Robust models are robust on large objects first (Halmosi et al.): under the battery "
        f"{', '.join(SMALL)} keep a smaller share of their clean mean IoU than {', '.join(LARGE)} do, for every model "
        "trained on attacked images only. CmIoU pools the pixels of all images, NmIoU averages over images and the "
        "classes that each of them has.",
        table(
            ["worst case, %", "CmIoU", "NmIoU", "small classes, clean > worst", "large classes, clean > worst"], rows
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


def size_section(runs: Runs) -> str:
    """Recall of connected objects by their size; the part was run with objects."""
    tables = {model: by_size(objects_of(runs, model)) for model in runs.models}
    counts = next(iter(tables.values()))["objects"]
    rows = [
        [f"`{model}`", *(f"{percent(clean)} > {percent(worst)}"
                         for clean, worst in found[["clean_recall", "recall"]].to_numpy(float))]
        for model, found in tables.items()
    ]  # fmt: skip
    return section(
        "Recall by the size of objects",
        "Mean recall in %, clean > worst case, of connected objects of one class, by the share of the image that they "
        "cover; the number of objects stands in the header.",
        table(["model", *(f"{size} ({count})" for size, count in zip(FRACTION_NAMES, counts, strict=True))], rows),
    )


def objects_of(runs: Runs, model: str) -> pd.DataFrame:
    """The objects of all images, clean and in the worst case."""
    return stored_objects(runs.store, runs(model, CLEAN).key, runs(model, BATTERY).key)


def accuracy(runs: Runs, threat: str, model: str) -> FloatArray:
    """(R,) aAcc over the resampled images: right pixels of all of them over all pixels."""
    return runs.results.accuracy(NETWORK, threat, model)


def kept_iou(runs: Runs, model: str, names: Sequence[str]) -> FloatArray:
    """(R,) share of the clean mean IoU of some classes that is left under the battery."""
    return divide(class_iou(runs, BATTERY, model, names), class_iou(runs, CLEAN, model, names))


def class_iou(runs: Runs, threat: str, model: str, names: Sequence[str]) -> FloatArray:
    """(R,) mean IoU of some classes over the resampled images, each image under its worst attack."""
    results, classes = runs.results, list(runs.dataset.class_names)
    pooled = results.tables(NETWORK, threat, model)[0].weighted(results.weights)
    return mean_of([divide(pooled.true_positives[:, index], pooled.union[:, index])
                    for index in map(classes.index, names)])  # fmt: skip

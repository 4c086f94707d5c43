"""What the shipped segmentation models show (docs/shipped-models.md).

Every verdict is chosen by the figures beside it and their intervals.
"""

from __future__ import annotations

from collections.abc import Sequence

from gauntlet.metrics.arithmetic import divide
from gauntlet.studies.contract import studies
from gauntlet.studies.figures import FloatArray, largest, mean_of, smallest
from gauntlet.studies.pages.contract import NETWORK, PageRuns, PageStudy, Part, Runs, suite_threats
from gauntlet.studies.pages.markdown import cards_section, judged, percent, section, short, table, with_interval
from gauntlet.studies.pages.shipped import entries, is_normal, localized_noise, region_aware
from gauntlet.tasks import SEGMENTATION

TRANSFORMER = "streets/segformer"
FULL, HALF = "streets/enet-at", "streets/enet-at50"
SHARES = ("streets/enet", HALF, FULL)
FIRST, LAST = "1 round", "3 rounds"
EPSILON = "8/255"
SMALL = ("pole", "sign_symbol", "pedestrian", "bicyclist")
LARGE = ("sky", "building", "road")
CLEAN, BATTERY, NOISE, PGD = "clean", "battery", "noise", "pgd"
KEPT = 0.6
"""A model keeps less than another one if it keeps less than so much of it."""


def parts() -> dict[str, Part]:
    """At least 16 images for everything, so that a verdict can be given; more for what is cheap."""
    battery = {"battery": {"name": "gauntlet", "epsilon": EPSILON}}
    pgd = {"attack": {"name": "pgd", "epsilon": EPSILON, "alpha": 0.01, "steps": 10}}
    return {
        "quick": Part(suite_threats("quick"), 16),
        "noise": Part({NOISE: localized_noise(5)}, 64),
        "worst": Part({CLEAN: "clean", BATTERY: battery, FIRST: region_aware(1), LAST: region_aware(3)}, 16),
        "shares": Part({PGD: pgd}, 16, SHARES),
    }


def write(runs: PageRuns, command: str) -> str:
    """The page."""
    worst = runs["worst"]
    sections = [
        introduction({label: len(each.dataset) for label, each in runs.items()}, command),
        cards_section("The models", worst.models, ("mIoU",)),
        quick_section(runs["quick"]),
        battery_section(worst),
        share_section(worst, runs["shares"]),
        pooling_section(worst),
        localized_section(runs["noise"], worst),
        rounds_section(worst),
    ]
    return "\n".join(sections)


def introduction(images: dict[str, int], command: str) -> str:
    """How the page is made."""
    return f"""# What the shipped models show

Written by a study from real runs on streets/val (generated street scenes, 128x256, eleven classes), seed 0:

    {command}

{images["noise"]} images for localized noise, {images["quick"]} for the suite `quick`, {images["worst"]} for the
battery and the region-aware attack. The battery is `gauntlet` at {EPSILON}; [lean-battery.md](lean-battery.md) sets it
beside the full `halmosi`. Intervals are of 95 %, over resampled images; a verdict is given where its whole interval is
on one side of zero. Small networks on generated images show tendencies; they prove nothing about models of other sizes.
Which single attack wins on which image takes the full battery: `gauntlet study run halmosi/figure-4`.
"""


def quick_section(runs: Runs) -> str:
    """Every threat of the suite."""
    rows = [[name, *(percent(result.figures["mIoU"]) for result in runs.row(name))] for name in runs.threats]
    return section("The suite `quick`", "mIoU in %.", table(["threat", *short(runs.models)], rows))


def battery_section(runs: Runs) -> str:
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
    return section(f"The battery at {EPSILON}: worst case per image", words, table(header, rows))


def share_section(worst: Runs, shares: Runs) -> str:
    """Half of every batch attacked, or all of it."""
    rows = [
        ["PGD, 10 steps", *(with_interval(accuracy(shares, PGD, model)) for model in SHARES)],
        ["battery", *(with_interval(accuracy(worst, BATTERY, model)) for model in SHARES)],
    ]
    half, full = (accuracy(worst, BATTERY, model) for model in (HALF, FULL))
    return section(
        "Half of the batch attacked, or all of it",
        judged(KEPT * full - half, len(worst.dataset))
        + " Models trained with 50 % attacked images owe their apparent robustness to weak attacks; those trained with "
        f"100 % keep theirs (Halmosi et al.). Here, under the battery: {with_interval(half)} % of the pixels against "
        f"{with_interval(full)} % (called reproduced below {KEPT:g} of it).",
        table(["E-Net, pixel accuracy %", "0 % attacked", "50 %", "100 %"], rows),
    )


def pooling_section(runs: Runs) -> str:
    """CmIoU pools the pixels of all images, NmIoU averages images; and what becomes of small objects."""
    rows = []
    for model in runs.models:
        figures = runs(model, BATTERY).figures
        means = [class_iou(runs, BATTERY, model, names) for names in (SMALL, LARGE)]
        rows.append([f"`{model}`", percent(figures["mIoU"]), percent(figures["NmIoU"]), *map(with_interval, means)])
    margins = [
        class_iou(runs, BATTERY, model, LARGE) - class_iou(runs, BATTERY, model, SMALL)
        for model in fully_attacked(runs.models)
    ]
    return section(
        "CmIoU against NmIoU, small objects against large",
        judged(smallest(margins), len(runs.dataset))
        + " Robust models are robust on large objects first (Halmosi et al.): under the battery the mean IoU of "
        f"{', '.join(SMALL)} lies below that of {', '.join(LARGE)} for every model trained on attacked images only. "
        "CmIoU pools the pixels of all images, NmIoU averages over images and the classes that each of them has.",
        table(["worst case, %", "CmIoU", "NmIoU", "small classes", "large classes"], rows),
    )


def localized_section(noise: Runs, attack: Runs) -> str:
    """What a changed region does to the rest of the image."""
    cells = ((noise, NOISE), (attack, FIRST))
    rows = [
        [f"`{model}`", *(with_interval(part_accuracy(runs, threat, model, view))
                         for runs, threat in cells for view in ("inside", "outside", "clean outside"))]
        for model in noise.models
    ]  # fmt: skip
    lost, compared = [], []
    for runs, threat in cells:
        by_model = {model: lost_outside(runs, threat, model) for model in runs.models}
        others = [by_model[model] for model in runs.models if is_normal(model) and model != TRANSFORMER]
        lost.append((by_model[TRANSFORMER], mean_of(others), len(others)))
        compared.append(mean_of(others) - by_model[TRANSFORMER])
    header = ["pixel accuracy %", "noise: inside", "outside", "outside, clean", "attack: inside", "outside",
              "outside, clean"]  # fmt: skip
    return section(
        "Transformer against CNN, one region changed",
        f"{judged(compared[0], len(noise.dataset))} Transformers bear localized natural corruptions better (Marchiori "
        f"Pietrosanti et al.): outside the noisy patches the SegFormer loses {with_interval(lost[0][0])} % of its "
        f"accuracy there, the {lost[0][2]} normally trained CNNs {with_interval(lost[0][1])} % in the mean.\n\n"
        f"{judged(-compared[1], len(attack.dataset))} They suffer more from localized attacks: outside the attacked "
        f"square the SegFormer loses {with_interval(lost[1][0])} %, the CNNs {with_interval(lost[1][1])} %.",
        table(header, rows),
    )


def rounds_section(runs: Runs) -> str:
    """What further rounds take."""
    first, last = ({model: accuracy(runs, threat, model) for model in runs.models} for threat in (FIRST, LAST))
    rows = [[f"`{model}`", with_interval(first[model]), with_interval(last[model])] for model in runs.models]
    return section(
        "More rounds of the region-aware attack",
        judged(smallest([first[model] - last[model] for model in runs.models]), len(runs.dataset))
        + f" Accuracy keeps falling with the rounds, from {FIRST} to {LAST}, for every model (Marchiori Pietrosanti et "
        "al.; a central square of a quarter of the image's sides, BIM at 32/255 with 20 steps a round).",
        table(["pixel accuracy %", FIRST, LAST], rows),
    )


def fully_attacked(models: Sequence[str]) -> list[str]:
    """Those that were trained on nothing but attacked images, by their names."""
    return [model for model in models if model.endswith("-at")]


def accuracy(runs: Runs, threat: str, model: str) -> FloatArray:
    """(R,) aAcc over the resampled images: right pixels of all of them over all pixels."""
    return runs.results.accuracy(NETWORK, threat, model)


def part_accuracy(runs: Runs, threat: str, model: str, view: str) -> FloatArray:
    """(R,) A_M, A_Mbar or their clean forms over the resampled images: means over images."""
    return runs.results.image_accuracy(NETWORK, threat, model, view)


def lost_outside(runs: Runs, threat: str, model: str) -> FloatArray:
    """(R,) share of the accuracy outside the region that is lost."""
    return 1 - part_accuracy(runs, threat, model, "outside") / part_accuracy(runs, threat, model, "clean outside")


def class_iou(runs: Runs, threat: str, model: str, names: Sequence[str]) -> FloatArray:
    """(R,) mean IoU of some classes over the resampled images, each image under its worst attack."""
    results, classes = runs.results, list(runs.dataset.class_names)
    pooled = results.tables(NETWORK, threat, model)[0].weighted(results.weights)
    return mean_of([divide(pooled.true_positives[:, index], pooled.union[:, index])
                    for index in map(classes.index, names)])  # fmt: skip


SHIPPED_MODELS = PageStudy(
    name="shipped/models",
    title="What the shipped segmentation models show",
    question="Do findings of the papers hold on small networks?",
    file="shipped-models.md",
    models=entries(SEGMENTATION),
    parts=parts,
    write=write,
)
studies.add(SHIPPED_MODELS.name, SHIPPED_MODELS)

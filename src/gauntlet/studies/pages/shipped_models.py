"""What the shipped segmentation models show (docs/shipped-models.md).

Every verdict is chosen by the figures beside it and their intervals.
"""

from __future__ import annotations

from gauntlet.studies.contract import studies
from gauntlet.studies.figures import FloatArray, mean_of, smallest
from gauntlet.studies.pages.blind import blind
from gauntlet.studies.pages.contract import NETWORK, PageRuns, PageStudy, Part, Runs, suite_threats
from gauntlet.studies.pages.markdown import cards_section, judged, percent, section, short, table, with_interval
from gauntlet.studies.pages.shipped import entries, localized_noise, region_aware
from gauntlet.studies.pages.small_objects import pooling_section
from gauntlet.studies.pages.worst_case import (
    BATTERY,
    CLEAN,
    FULL,
    HALF,
    accuracy,
    battery_section,
    is_normal,
    lean_battery,
    pgd,
    share_section,
)
from gauntlet.tasks import SEGMENTATION

TRANSFORMER = "streets/segformer"
SHARES = {"0 % attacked": "streets/enet", HALF: "streets/enet-at50", FULL: "streets/enet-at"}
FIRST, LAST = "1 round", "3 rounds"
EPSILON = "8/255"
NOISE, PGD = "noise", "pgd"


def parts() -> dict[str, Part]:
    """At least 16 images for everything, so that a verdict can be given; more for what is cheap."""
    rounds = {FIRST: region_aware(1), LAST: region_aware(3)}
    return {
        "quick": Part(suite_threats("quick"), 16),
        "noise": Part({NOISE: localized_noise(5)}, 64),
        "worst": Part({CLEAN: "clean", BATTERY: lean_battery(EPSILON), **rounds}, 16),
        "shares": Part({PGD: pgd(EPSILON)}, 16, list(SHARES.values())),
    }


def write(runs: PageRuns, command: str) -> str:
    """The page."""
    worst = runs["worst"]
    no_image = blind(worst)
    sections = [
        introduction({label: len(each.dataset) for label, each in runs.items()}, command),
        cards_section("The models", worst.models, ("mIoU",)),
        quick_section(runs["quick"]),
        battery_section(worst, EPSILON, no_image),
        share_section(worst, runs["shares"], PGD, SHARES, EPSILON, no_image),
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


def part_accuracy(runs: Runs, threat: str, model: str, view: str) -> FloatArray:
    """(R,) A_M, A_Mbar or their clean forms over the resampled images: means over images."""
    return runs.results.image_accuracy(NETWORK, threat, model, view)


def lost_outside(runs: Runs, threat: str, model: str) -> FloatArray:
    """(R,) share of the accuracy outside the region that is lost."""
    return 1 - part_accuracy(runs, threat, model, "outside") / part_accuracy(runs, threat, model, "clean outside")


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

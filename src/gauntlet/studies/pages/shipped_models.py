"""What the shipped segmentation models show (docs/shipped-models.md).

Every sentence that says "reproduces" or "does not reproduce" is chosen by the figures beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.results import Evaluation
from gauntlet.studies.contract import studies
from gauntlet.studies.pages.contract import PageRuns, PageStudy, Part, Runs, suite_threats
from gauntlet.studies.pages.markdown import cards_section, percent, section, short, table
from gauntlet.studies.pages.shipped import entries, is_normal, localized_noise, region_aware
from gauntlet.tasks import SEGMENTATION

TRANSFORMER = "streets/segformer"
FULL, HALF = "streets/enet-at", "streets/enet-at50"
SHARES = ("streets/enet", HALF, FULL)
ROUNDS = (1, 2, 4)
EPSILON, BUDGET = "8/255", 0.1
SMALL = ("pole", "sign_symbol", "pedestrian", "bicyclist")
LARGE = ("sky", "building", "road")
BATTERY, NOISE, PGD = "battery", "noise", "pgd"


def parts() -> dict[str, Part]:
    """Many images for what is cheap, few for the battery and the region-aware attack."""
    rounds = {f"{count} rounds": region_aware(count) for count in ROUNDS}
    battery = {"battery": {"name": "halmosi", "epsilon": EPSILON, "budget": BUDGET}}
    pgd = {"attack": {"name": "pgd", "epsilon": EPSILON, "alpha": 0.01, "steps": 10}}
    quick = suite_threats("quick")
    return {
        "quick": Part(quick, 16),
        "noise": Part({NOISE: localized_noise(5)}, 16),
        "few": Part({"clean": "clean", BATTERY: battery, **rounds}, 3),
        "shares": Part({PGD: pgd}, 3, SHARES),
    }


def write(runs: PageRuns, command: str) -> str:
    """The page."""
    some, few = runs["quick"], runs["few"]
    worst = few.by_model(BATTERY)
    sections = [
        introduction(len(some.dataset), len(few.dataset), command),
        cards_section("The models", some.models, ("mIoU",)),
        quick_section(some),
        battery_section(worst, few),
        share_section(worst, runs["shares"]),
        pooling_section(worst),
        localized_section(runs["noise"], few),
        rounds_section(few),
        winners_section(worst),
    ]
    return "\n".join(sections)


def introduction(some: int, few: int, command: str) -> str:
    """How the page is made."""
    return f"""# What the shipped models show

Written by a study from real runs on streets/val (generated street scenes, 128x256, eleven classes), seed 0:

    {command}

{some} images for the suite `quick` and localized corruptions, {few} for the battery and the
region-aware attack. The battery is `halmosi` at {EPSILON} with {BUDGET:g} of the published number of steps of
its ten attacks. So few images and such small networks show tendencies; they prove nothing about models of other sizes.
"""


def quick_section(runs: Runs) -> str:
    """Every threat of the suite."""
    rows = [[name, *(percent(result.figures["mIoU"]) for result in runs.row(name))] for name in runs.threats]
    return section("The suite `quick`", "mIoU in %.", table(["threat", *short(runs.models)], rows))


def battery_section(worst: Mapping[str, Evaluation], runs: Runs) -> str:
    """What is left in the worst case, beside the clean figures."""
    rows = []
    for model, result in worst.items():
        names, clean = ("aAcc", "mIoU", "NmIoU"), runs(model, "clean").figures
        rows.append(
            [
                f"`{model}`",
                *(percent(clean[name]) for name in names),
                *(percent(result.figures[name]) for name in names),
            ]
        )
    normal = max(result.figures["aAcc"] for model, result in worst.items() if is_normal(model))
    robust = [model for model in worst if model.endswith("-at")]
    least = min((worst[model].figures["aAcc"] for model in robust), default=float("nan"))
    words = (
        f"In the worst case the best of the normally trained models keeps {percent(normal)} % of its pixels; of those "
        f"trained on nothing but attacked images, the least robust keeps {percent(least)} %."
    )
    header = ["model", "clean aAcc", "clean CmIoU", "clean NmIoU", "worst aAcc", "worst CmIoU", "worst NmIoU"]
    return section(f"The battery at {EPSILON}: worst case per image", words, table(header, rows))


def share_section(worst: Mapping[str, Evaluation], runs: Runs) -> str:
    """Half of every batch attacked, or all of it."""
    rows = [
        ["PGD, 10 steps", *(percent(result.figures["aAcc"]) for result in runs.row(PGD))],
        ["battery", *(percent(worst[model].figures["aAcc"]) for model in SHARES)],
    ]
    half, full = (worst[model].figures["aAcc"] for model in (HALF, FULL))
    return section(
        "Half of the batch attacked, or all of it",
        verdict(half < 0.6 * full)
        + " Models trained with 50 % attacked images owe much of their apparent robustness to weak attacks; those "
        f"trained with 100 % keep theirs (Halmosi et al.). Here, under the battery: {percent(half)} % of the pixels "
        f"against {percent(full)} % (called reproduced below six tenths).",
        table(["E-Net, pixel accuracy %", "0 % attacked", "50 %", "100 %"], rows),
    )


def pooling_section(worst: Mapping[str, Evaluation]) -> str:
    """CmIoU pools the pixels of all images, NmIoU averages images; and what becomes of small objects."""
    rows, lower = [], []
    for model, result in worst.items():
        iou = result.per_class["IoU"]
        small, large = (sum(iou[name] for name in names) / len(names) for names in (SMALL, LARGE))
        cmiou, nmiou = result.figures["mIoU"], result.figures["NmIoU"]
        if model.endswith("-at"):
            lower.append(small < large)
        rows.append([f"`{model}`", percent(cmiou), percent(nmiou), percent(small), percent(large)])
    return section(
        "CmIoU against NmIoU, small objects against large",
        verdict(bool(lower) and all(lower))
        + " Robust models are robust on large objects first (Halmosi et al.): under the battery the mean IoU of "
        f"{', '.join(SMALL)} lies below that of {', '.join(LARGE)} for every model trained on attacked images only. "
        "CmIoU pools the pixels of all images, NmIoU averages over images and the classes that each of them has.",
        table(["worst case, %", "CmIoU", "NmIoU", "small classes", "large classes"], rows),
    )


def localized_section(some: Runs, few: Runs) -> str:
    """What a changed region does to the rest of the image."""
    rows = []
    lost = {}
    for model in some.models:
        noise, attack = some(model, NOISE).figures, few(model, "1 rounds").figures
        lost[model] = [1 - figures["A_Mbar"] / figures["A_Mbar_clean"] for figures in (noise, attack)]
        rows.append(
            [f"`{model}`", *(percent(noise[name]) for name in ("A_M", "A_Mbar", "A_Mbar_clean")),
             *(percent(attack[name]) for name in ("A_M", "A_Mbar", "A_Mbar_clean"))]
        )  # fmt: skip
    convolutional = [losses for model, losses in lost.items() if is_normal(model) and model != TRANSFORMER]
    noise_lost, attack_lost = lost[TRANSFORMER]
    noise_mean, attack_mean = (sum(losses) / len(losses) for losses in zip(*convolutional, strict=True))
    header = ["pixel accuracy %", "noise: inside", "outside", "outside, clean", "attack: inside", "outside",
              "outside, clean"]  # fmt: skip
    return section(
        "Transformer against CNN, one region changed",
        f"{verdict(noise_lost < noise_mean)} Transformers bear localized natural corruptions better (Marchiori "
        f"Pietrosanti et al.): outside the noisy patches the SegFormer loses {percent(noise_lost)} % of its accuracy "
        f"there, the {len(convolutional)} normally trained CNNs {percent(noise_mean)} % in the mean.\n\n"
        f"{verdict(attack_lost > attack_mean)} They suffer more from localized attacks: outside the attacked square "
        f"the SegFormer loses {percent(attack_lost)} %, the CNNs {percent(attack_mean)} %.",
        table(header, rows),
    )


def rounds_section(runs: Runs) -> str:
    """What every further round takes."""
    rows, falls = [], []
    for model in runs.models:
        figures = [runs(model, f"{count} rounds").figures["aAcc"] for count in ROUNDS]
        falls.append(figures[-1] < figures[0])
        rows.append([f"`{model}`", *(percent(value) for value in figures)])
    return section(
        "More rounds of the region-aware attack",
        verdict(all(falls)) + f" Accuracy keeps falling with the rounds, from {ROUNDS[0]} to {ROUNDS[-1]}, for every "
        "model (Marchiori Pietrosanti et al.; a central square of a quarter of the image's sides, BIM at 32/255 with "
        "20 steps a round).",
        table(["pixel accuracy %", *(f"{rounds} round{'s' * (rounds > 1)}" for rounds in ROUNDS)], rows),
    )


def winners_section(worst: Mapping[str, Evaluation]) -> str:
    """The attack that leaves the lowest accuracy on an image, as a share of images."""
    shares = [chosen_shares(result) for result in worst.values()]
    rows = [[member, *(percent(each[member]) for each in shares)] for member in shares[0]]
    winners = {member for each in shares for member, share in each.items() if share > 0}
    return section(
        "Which attack wins where",
        verdict(len(winners) > 1) + " No single attack is the strongest on every image (Halmosi et al.). "
        "Share of the images, in %, on which an attack leaves the lowest accuracy; a tie goes to the first.",
        table(["attack", *short(list(worst))], rows),
    )


def chosen_shares(result: Evaluation) -> dict[str, float]:
    """By attack of a battery: the share of the images on which it leaves the lowest accuracy."""
    return {figure.view: figure.value for figure in result.all_figures if figure.metric == "chosen_by_accuracy"}


def verdict(holds: bool) -> str:
    """In bold, what the figures beside it say."""
    return "**Reproduces.**" if holds else "**Does not reproduce.**"


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

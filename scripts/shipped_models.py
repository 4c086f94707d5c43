"""What the shipped segmentation models show: runs them and writes docs/shipped-models.md.

    python scripts/shipped_models.py [--images 16] [--hard-images 4] [--budget 0.2] [--store shipped.db]

Evaluations are kept in the store and not computed twice, so that a killed run goes on where it was. Every sentence that
says "reproduces" or "does not reproduce" is chosen by the figures beside it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import torch

import gauntlet
from gauntlet.evaluation.progress import Terminal
from gauntlet.results import Evaluation
from gauntlet.threats import suites
from pages import DOCS, Runs, cards_section, percent, section, shipped_models, short, table

PAGE = DOCS / "shipped-models.md"
NORMAL = tuple(f"streets/{name}" for name in ("enet", "pspnet", "segformer", "bisenetv2", "ddrnet", "fcn8s", "pidnet"))
CNN, TRANSFORMER = "streets/enet", "streets/segformer"
FULL, HALF = "streets/enet-at", "streets/enet-at50"
ROUNDS = (1, 2, 4)
EPSILON = "8/255"
SMALL = ("pole", "sign_symbol", "pedestrian", "bicyclist")
LARGE = ("sky", "building", "road")


def main() -> None:
    """Runs what is missing and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=16, help="for the suite quick and localized corruptions")
    parser.add_argument("--hard-images", type=int, default=4, help="for the battery and the region-aware attack")
    parser.add_argument("--budget", type=float, default=0.2, help="factor on the steps of the battery's attacks")
    parser.add_argument("--store", default="gauntlet-shipped.db")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    models = shipped_models("segmentation")
    battery = {"battery": {"name": "halmosi", "epsilon": EPSILON, "budget": chosen.budget}}
    with gauntlet.open_store(chosen.store) as store, Terminal() as progress:
        some, few = (
            Runs(gauntlet.load_dataset("streets", split="val", limit=count), store, progress)
            for count in (chosen.images, chosen.hard_images)
        )
        worst = {model: few(model, battery) for model in models}
        sections = [
            introduction(chosen),
            cards_section("The models", models, ("mIoU",)),
            quick_section(models, some),
            battery_section(worst, few),
            share_section(worst, few),
            pooling_section(worst),
            localized_section(models, some, few),
            rounds_section(models, few),
            winners_section(worst),
        ]
    PAGE.write_text("\n".join(sections))
    print(f"written to {PAGE}")


def introduction(chosen: argparse.Namespace) -> str:
    """How the page is made."""
    options = f"--images {chosen.images} --hard-images {chosen.hard_images} --budget {chosen.budget:g}"
    return f"""# What the shipped models show

Written by a script from real runs on streets/val (generated street scenes, 128x256, eleven classes), seed 0:

    python scripts/shipped_models.py {options}

{chosen.images} images for the suite `quick` and localized corruptions, {chosen.hard_images} for the battery and the
region-aware attack. The battery is `halmosi` at {EPSILON} with {chosen.budget:g} of the published number of steps of
its ten attacks. So few images and such small networks show tendencies; they prove nothing about models of other sizes.
"""


def quick_section(models: Sequence[str], runs: Runs) -> str:
    rows = []
    for threat in suites.build("quick"):
        results = runs.row(models, threat)
        rows.append([results[0].threat, *(percent(result.figures["mIoU"]) for result in results)])
    return section("The suite `quick`", "mIoU in %.", table(["threat", *short(models)], rows))


def battery_section(worst: Mapping[str, Evaluation], runs: Runs) -> str:
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
    normal = max(worst[model].figures["aAcc"] for model in NORMAL)
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
    shares = (CNN, HALF, FULL)
    pgd = runs.row(shares, {"attack": {"name": "pgd", "epsilon": EPSILON, "alpha": 0.01, "steps": 10}})
    rows = [
        ["PGD, 10 steps", *(percent(result.figures["aAcc"]) for result in pgd)],
        ["battery", *(percent(worst[model].figures["aAcc"]) for model in shares)],
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


def localized_section(models: Sequence[str], some: Runs, few: Runs) -> str:
    """What a changed region does to the rest of the image."""
    natural = {"localized": {"corruption": {"name": "gaussian_noise", "severity": 5}, "ratio": 0.5, "patch": 32}}
    rows = []
    kept = {}
    for model in models:
        noise, attack = some(model, natural).figures, few(model, region_aware(1)).figures
        kept[model] = [1 - figures["A_Mbar"] / figures["A_Mbar_clean"] for figures in (noise, attack)]
        rows.append(
            [f"`{model}`", *(percent(noise[name]) for name in ("A_M", "A_Mbar", "A_Mbar_clean")),
             *(percent(attack[name]) for name in ("A_M", "A_Mbar", "A_Mbar_clean"))]
        )  # fmt: skip
    natural_holds = kept[TRANSFORMER][0] < kept[CNN][0]
    attack_holds = kept[TRANSFORMER][1] > kept[CNN][1]
    header = ["pixel accuracy %", "noise: inside", "outside", "outside, clean", "attack: inside", "outside",
              "outside, clean"]  # fmt: skip
    return section(
        "Transformer against CNN, one region changed",
        f"{verdict(natural_holds)} Transformers bear localized natural corruptions better (Marchiori Pietrosanti et "
        f"al.): outside the noisy patches the SegFormer loses {percent(kept[TRANSFORMER][0])} % of its accuracy there, "
        f"E-Net {percent(kept[CNN][0])} %.\n\n{verdict(attack_holds)} They suffer more from localized attacks: outside "
        f"the attacked square the SegFormer loses {percent(kept[TRANSFORMER][1])} %, E-Net {percent(kept[CNN][1])} %.",
        table(header, rows),
    )


def rounds_section(models: Sequence[str], runs: Runs) -> str:
    rows, falls = [], []
    for model in models:
        figures = [runs(model, region_aware(rounds)).figures["aAcc"] for rounds in ROUNDS]
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


def region_aware(rounds: int) -> dict[str, Any]:
    return {
        "region_aware": {
            "attack": {"name": "bim", "epsilon": "32/255", "steps": 20},
            "rounds": rounds,
            "region": {"square": {"size": "quarter", "position": "centre"}},
        }
    }


def verdict(holds: bool) -> str:
    return "**Reproduces.**" if holds else "**Does not reproduce.**"


if __name__ == "__main__":
    main()

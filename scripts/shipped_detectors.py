"""What the shipped detectors show: runs them and writes docs/shipped-detectors.md with a picture.

    python scripts/shipped_detectors.py [--images 16] [--hard-images 8] [--store gauntlet-shipped.db]

Evaluations are kept in the store and not computed twice, so that a killed run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

import cv2
import pandas as pd
import torch

import gauntlet
from gauntlet import pictures
from gauntlet.analysis import gam, rem
from gauntlet.cli.show import sample_tiles
from gauntlet.evaluation.progress import Terminal
from gauntlet.results import Evaluation
from gauntlet.threats import build_threat, suites
from gauntlet.threats.build import ThreatLike
from pages import DOCS, Runs, cards_section, percent, section, shipped_models, short, table

EPSILONS = ("0.5/255", "1/255", "2/255", "4/255", "8/255")
GOALS = ("tog-vanishing", "tog-fabrication", "tog-mislabeling")
PICTURED = "streets/fcos"


def main() -> None:
    """Runs what is missing and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=16, help="for the suite detecbench")
    parser.add_argument("--hard-images", type=int, default=8, help="for everything else")
    parser.add_argument("--store", default="gauntlet-shipped.db")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    models = shipped_models("detection")
    with gauntlet.open_store(chosen.store) as store, Terminal() as progress:
        some, few = (
            Runs(gauntlet.load_dataset("streets", split="val", limit=count), store, progress)
            for count in (chosen.images, chosen.hard_images)
        )
        sections = [
            introduction(chosen),
            cards_section("The detectors", models, ("mAP", "mAP50")),
            suite_section(models, some),
            budget_section(models, few),
            goals_section(models, few),
            battery_section(models, few),
            region_section(models, few),
        ]
    draw()
    (DOCS / "shipped-detectors.md").write_text("\n".join(sections))
    print(f"written to {DOCS / 'shipped-detectors.md'}")


def introduction(chosen: argparse.Namespace) -> str:
    """How the page is made."""
    return f"""# What the shipped detectors show

Written by a script from real runs on streets/val (generated street scenes, 128x256, four classes of objects), seed 0:

    python scripts/shipped_detectors.py --images {chosen.images} --hard-images {chosen.hard_images}

{chosen.images} images for the suite `detecbench`, {chosen.hard_images} for everything else. So few images and such
small networks show tendencies; they prove nothing about detectors of other sizes.

![Objects, clean detections, detections under PGD, the perturbation](images/detectors.jpg)

Above: an image with its objects, what `{PICTURED}` finds, what it finds under PGD (20 steps, 8/255), the perturbation.
"""


def suite_section(models: Sequence[str], runs: Runs) -> str:
    """Every row of the suite, then ReM and GAM over them."""
    threats = suites.build("detecbench", "detection")
    results = [runs.row(models, threat) for threat in threats]
    rows = [[row[0].threat, *(percent(each.figures["mAP"]) for each in row)] for row in results]
    figures = pd.DataFrame(
        [
            {"task": each.task, "model": each.model, "kind": each.kind, "description": json.dumps(each.description)}
            | {"metric": "mAP", "value": each.figures["mAP"]}
            for row in results
            for each in row
        ]
    )
    for title, summary in (("ReM", rem(figures)), ("GAM", gam(figures))):
        members = len(str(summary["members"].iloc[0]).split(", "))
        by_model = summary.set_index("model")
        rows.append([f"{title}, smallest of {members}", *(percent(by_model["value"][model]) for model in models)])
        rows.append(["their mean", *(percent(by_model["mean"][model]) for model in models)])
    return section(
        "The suite `detecbench`",
        "mAP in %. Attacks have alpha 0.01; corruptions have severity 3, the last eight of them in 3D.",
        table(["threat", *short(models)], rows),
    )


def budget_section(models: Sequence[str], runs: Runs) -> str:
    """PGD by epsilon."""
    rows = [
        [epsilon, *(percent(each.figures["mAP"]) for each in runs.row(models, pgd(epsilon)))] for epsilon in EPSILONS
    ]
    clean = ["clean", *(percent(each.figures["mAP"]) for each in runs.row(models, "clean"))]
    return section(
        "PGD by budget",
        "20 steps of a quarter of epsilon, mAP in %.",
        table(["epsilon", *short(models)], [clean, *rows]),
    )


def goals_section(models: Sequence[str], runs: Runs) -> str:
    """What the three goals of TOG do beside lowering the mAP."""
    header = ["threat"]
    for name in short(models):
        header += [f"{name} mAP %", "boxes", "mislabelled %"]
    rows = []
    threats: list[ThreatLike] = ["clean", *({"attack": {"name": goal, "epsilon": "8/255"}} for goal in GOALS)]
    for threat in threats:
        results = runs.row(models, threat)
        cells = [cell for each in results for cell in goal_cells(each)]
        rows.append([results[0].threat, *cells])
    return section(
        "Vanishing, fabrication, mislabelling",
        "TOG's three goals at 8/255 with 10 steps. Boxes: detections per image with a score of at least 0.5. "
        "Mislabelled: share of the detections on an object that have another class.",
        table(header, rows),
    )


def goal_cells(result: Evaluation) -> list[str]:
    figures = result.figures
    return [percent(figures["mAP"]), f"{figures['boxes_per_image']:.1f}", percent(figures["mislabel_rate"])]


def battery_section(models: Sequence[str], runs: Runs) -> str:
    """The strong battery for detectors, and which of its attacks wins."""
    results = runs.row(models, {"battery": {"name": "detectors", "epsilon": "8/255"}})
    clean = runs.row(models, "clean")
    figures = [
        [figure, *(f"{percent(each.figures[figure])} of {percent(whole.figures[figure])}"
                   for each, whole in zip(results, clean, strict=True))]
        for figure in ("mAP", "mAP50", "F1_images")
    ]  # fmt: skip
    shares = [
        {each.view: each.value for each in result.all_figures if each.metric == "chosen_by_F1"} for result in results
    ]
    winners = [[member, *(percent(each[member]) for each in shares)] for member in shares[0]]
    return section(
        "The battery `detectors` at 8/255: worst case per image",
        "For every image the attack that leaves the smallest F1; in %, of the clean figure.",
        table(["figure", *short(models)], figures),
        "Share of the images, in %, on which an attack leaves the smallest F1; a tie goes to the first:",
        table(["attack", *short(models)], winners),
    )


def region_section(models: Sequence[str], runs: Runs) -> str:
    """Objects inside and outside the region that was changed."""
    threats: list[dict[str, Any]] = [
        {"localized": {"corruption": {"name": "gaussian_noise", "severity": 3}, "ratio": 0.5, "patch": 32}},
        {"region_aware": {"attack": {"name": "bim", "epsilon": "32/255", "steps": 20}, "rounds": 2,
                          "region": {"square": {"size": "quarter", "position": "centre"}}}},
    ]  # fmt: skip
    names = ("mAP50_M", "mAP50_M_clean", "mAP50_Mbar", "mAP50_Mbar_clean")
    rows = []
    for threat in threats:
        for model, result in zip(models, runs.row(models, threat), strict=True):
            rows.append([result.threat, f"`{model}`", *(percent(result.figures[name]) for name in names)])
    return section(
        "One region changed",
        "mAP50 in % of the objects with their centre inside the region, and of the others.",
        table(["threat", "model", "inside", "inside, clean", "outside", "outside, clean"], rows),
    )


def pgd(epsilon: str) -> dict[str, Any]:
    levels = float(epsilon.removesuffix("/255"))
    return {"attack": {"name": "pgd", "epsilon": epsilon, "alpha": f"{levels / 4:g}/255", "steps": 20}}


def draw() -> None:
    """The picture of the page."""
    dataset = gauntlet.load_dataset("streets", split="val", limit=1)
    model, attack = gauntlet.load_model(PICTURED), build_threat(pgd("8/255"))
    tiles = sample_tiles(dataset[0], dataset, model, attack, seed=0)
    path = DOCS / "images" / "detectors.jpg"
    picture = pictures.sheet(tiles, columns=2)
    cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 85])


if __name__ == "__main__":
    main()

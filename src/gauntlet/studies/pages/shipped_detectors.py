"""What the shipped detectors show (docs/shipped-detectors.md, with a picture)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from gauntlet import tasks
from gauntlet.analysis import gam, rem
from gauntlet.models import DetectionModel
from gauntlet.pictures import Tile, amplified_difference, enlarge, from_tensor
from gauntlet.pictures.showing import objects_tile, scale_of
from gauntlet.report.painters import BoxPainter
from gauntlet.results import Evaluation
from gauntlet.samples import collate
from gauntlet.seeding import ImageSeed
from gauntlet.studies.contract import studies
from gauntlet.studies.pages.contract import PageRuns, PageStudy, Part, Runs, suite_threats
from gauntlet.studies.pages.markdown import cards_section, figure_of, percent, save_sheet, section, short, table
from gauntlet.studies.pages.shipped import entries, localized_noise, region_aware
from gauntlet.threats import build_threat
from gauntlet.threats.build import ThreatLike

EPSILONS = ("0.5/255", "1/255", "2/255", "4/255", "8/255")
GOALS = ("tog-vanishing", "tog-fabrication", "tog-mislabeling")
PICTURED = "streets/fcos"
BATTERY, NOISE, ROUNDS = "battery", "noise", "two rounds"


def parts() -> dict[str, Part]:
    """The suite, and what it lacks: budgets, goals, a battery, regions."""
    more: dict[str, ThreatLike] = {
        "clean": "clean",
        **{epsilon: pgd(epsilon) for epsilon in EPSILONS},
        **{goal: {"attack": {"name": goal, "epsilon": "8/255"}} for goal in GOALS},
        BATTERY: {"battery": {"name": "detectors", "epsilon": "8/255"}},
        NOISE: localized_noise(3),
        ROUNDS: region_aware(2),
    }
    suite = suite_threats("detecbench", tasks.DETECTION)
    return {"suite": Part(suite, 16), "more": Part(more, 16)}


def write(runs: PageRuns, command: str) -> str:
    """The page."""
    more = runs["more"]
    sections = [
        introduction(len(runs["suite"].dataset), command),
        cards_section("The detectors", more.models, ("mAP", "mAP50")),
        suite_section(runs["suite"]),
        budget_section(more),
        goals_section(more),
        battery_section(more),
        region_section(more),
    ]
    return "\n".join(sections)


def introduction(images: int, command: str) -> str:
    """How the page is made."""
    return f"""# What the shipped detectors show

Written by a study from real runs on streets/val (generated street scenes, 128x256, four classes of objects), seed 0:

    {command}

{images} images; brackets are 95 % intervals over them. So few images and such small networks show tendencies; they
prove nothing about detectors of other sizes.

![Objects, clean detections, detections under PGD, the perturbation](images/detectors.jpg)

Above: an image with its objects, what `{PICTURED}` finds, what it finds under PGD (20 steps, 8/255), the perturbation.
"""


def suite_section(runs: Runs) -> str:
    """Every row of the suite, then ReM and GAM over them."""
    models = runs.models
    results = [runs.row(threat) for threat in runs.threats]
    rows = [[row[0].threat, *(figure_of(each, "mAP") for each in row)] for row in results]
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


def budget_section(runs: Runs) -> str:
    """PGD by epsilon."""
    rows = [[label, *(figure_of(each, "mAP") for each in runs.row(label))] for label in ("clean", *EPSILONS)]
    return section(
        "PGD by budget",
        "20 steps of a quarter of epsilon, mAP in %.",
        table(["epsilon", *short(runs.models)], rows),
    )


def goals_section(runs: Runs) -> str:
    """What the three goals of TOG do beside lowering the mAP."""
    header = ["threat"]
    for name in short(runs.models):
        header += [f"{name} mAP %", "boxes", "mislabelled %"]
    rows = []
    for threat in ("clean", *GOALS):
        results = runs.row(threat)
        cells = [cell for each in results for cell in goal_cells(each)]
        rows.append([results[0].threat, *cells])
    return section(
        "Vanishing, fabrication, mislabelling",
        "TOG's three goals at 8/255 with 10 steps. Boxes: detections per image with a score of at least 0.5. "
        "Mislabelled: share of the detections on an object that have another class.",
        table(header, rows),
    )


def goal_cells(result: Evaluation) -> list[str]:
    """mAP, detections per image and the share of them with another class."""
    figures = result.figures
    return [percent(figures["mAP"]), f"{figures['boxes_per_image']:.1f}", percent(figures["mislabel_rate"])]


def battery_section(runs: Runs) -> str:
    """The strong battery for detectors, and which of its attacks wins."""
    models, results, clean = runs.models, runs.row(BATTERY), runs.row("clean")
    figures = [
        [figure, *(f"{figure_of(each, figure)} of {figure_of(whole, figure)}"
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


def region_section(runs: Runs) -> str:
    """Objects inside and outside the region that was changed."""
    names = ("mAP50_M", "mAP50_M_clean", "mAP50_Mbar", "mAP50_Mbar_clean")
    rows = []
    for threat in (NOISE, ROUNDS):
        for model, result in runs.by_model(threat).items():
            rows.append([result.threat, f"`{model}`", *(percent(result.figures[name]) for name in names)])
    return section(
        "One region changed",
        "mAP50 in % of the objects with their centre inside the region, and of the others.",
        table(["threat", "model", "inside", "inside, clean", "outside", "outside, clean"], rows),
    )


def pgd(epsilon: str) -> dict[str, Any]:
    """Twenty steps of a quarter of epsilon."""
    levels = float(epsilon.removesuffix("/255"))
    return {"attack": {"name": "pgd", "epsilon": epsilon, "alpha": f"{levels / 4:g}/255", "steps": 20}}


def draw(runs: PageRuns, folder: Path) -> None:
    """One image: its objects, what a detector finds, what it finds under PGD, the perturbation."""
    dataset, model = runs["suite"].dataset, runs["suite"].sources[PICTURED].load()
    assert isinstance(model, DetectionModel)
    sample, threat, painter = dataset[0], build_threat(pgd("8/255")), BoxPainter(dataset, model, 0.5)
    scale = scale_of(sample.image.shape[1])
    batch = collate([sample], ignore_index=dataset.ignore_index)
    attacked = threat.perturb(model, batch, [ImageSeed(0, sample.id)]).images
    tiles = [objects_tile(sample, dataset, scale)]
    for name, images in (("clean", batch.images), ("attacked", attacked)):
        found = painter.predict(images, sample.id)
        caption = f"{name}: {len(found)} boxes, F1 {painter.right(sample, found):.2f}"
        tiles.append(Tile(caption, painter.draw(from_tensor(images[0]), found, scale=scale)))
    difference, factor = amplified_difference(sample.image, from_tensor(attacked[0]))
    tiles.append(Tile(f"difference x {factor:.1f}, {threat.name}", enlarge(difference, scale)))
    save_sheet(folder / "detectors.jpg", tiles, columns=2)


SHIPPED_DETECTORS = PageStudy(
    name="shipped/detectors",
    title="What the shipped detectors show",
    question="How do three small detectors fare under the suite, attacks with a goal, a battery and in regions?",
    file="shipped-detectors.md",
    models=entries(tasks.DETECTION),
    parts=parts,
    write=write,
    draw=draw,
)
studies.add(SHIPPED_DETECTORS.name, SHIPPED_DETECTORS)

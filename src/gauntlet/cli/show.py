"""`gauntlet show`: look at a sample, a prediction, a threat."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.shared_options import DepthRuleOption, ModelOptions, SeedOption, takes_model_options
from gauntlet.errors import GauntletError

if TYPE_CHECKING:
    import torch

    from gauntlet.datasets.contract import Dataset
    from gauntlet.models import GauntletModel
    from gauntlet.pictures import Image, Tile
    from gauntlet.report.painters import BoxPainter, LabelPainter, Labels
    from gauntlet.samples import Batch, Sample
    from gauntlet.seeding import ImageSeed
    from gauntlet.threats.contract import Perturbed, Threat
    from gauntlet.threats.kinds.attack import RegionAwareThreat


@app.command(
    epilog="Examples: gauntlet show --model streets/enet --threat pgd   |   "
    "gauntlet show street.png --corruption fog --severity 1..5"
)
@takes_model_options()
def show(
    image: Annotated[Path | None, typer.Argument(help="An image file; without it, a sample of --dataset.")] = None,
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="A dataset.")] = "streets",
    split: Annotated[str | None, typer.Option("--split", help="Split of the dataset.")] = None,
    root: Annotated[str | None, typer.Option("--root", help="Where the dataset lies on disk.")] = None,
    index: Annotated[int, typer.Option("--index", "-i", help="Which sample.")] = 0,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Also draw what this model predicts.")] = None,
    threat: Annotated[str, typer.Option("--threat", "-t", help="A name, a description or a file.")] = "clean",
    corruption: Annotated[
        list[str] | None, typer.Option("--corruption", "-c", help="Contact sheet of corruptions; 'all' for all.")
    ] = None,
    severity: Annotated[str, typer.Option("--severity", help="One (3), several (1,3,5) or a range (1..5).")] = "1..5",
    depth_rule: DepthRuleOption = "metric",
    score: Annotated[
        float, typer.Option("--score", min=0, max=1, help="Least score of a detection that is drawn.")
    ] = 0.5,
    seed: SeedOption = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG file to write.")] = Path("gauntlet-show.png"),
    *,
    model_options: ModelOptions,
) -> None:
    """Draw a sample: labels or boxes, prediction, errors, and what a threat does to it; or a sheet of corruptions."""
    import cv2
    import torch

    from gauntlet.cli.plan_arguments import parse_threat
    from gauntlet.datasets import load_dataset
    from gauntlet.evaluation.jobs import ready_model, resolve_for
    from gauntlet.models import load_model
    from gauntlet.pictures import sheet
    from gauntlet.report.unlabelled import OneSample, read_sample
    from gauntlet.threats import build_threat

    if image is None:
        data = load_dataset(dataset, split=split, root=root)
        sample = _sample(data, index)
        loaded = None
        if model is not None:
            loaded = ready_model(resolve_for(model, model_options, data), data, torch.device("cpu"))
    else:
        sample = read_sample(image)
        loaded = None if model is None else load_model(model, **model_options)
        data = OneSample(sample, loaded)
    if corruption:
        picture = _corruption_sheet(sample, corruption, parse_severities(severity), seed, depth_rule)
    else:
        built = build_threat(parse_threat(threat))
        if image is not None and loaded is None and built.name == "clean":
            raise GauntletError("say what to show of the image, for example --model streets/enet or --corruption fog.")
        tiles = sample_tiles(sample, data, loaded, built, seed, score)
        picture = sheet(tiles, columns=min(4, len(tiles)))
    if not cv2.imwrite(str(output), picture[..., ::-1]):
        raise GauntletError(f"{output} cannot be written; give a file that ends in .png in a folder that exists.")
    typer.echo(f"written to {output}")


def sample_tiles(
    sample: Sample, dataset: Dataset, model: GauntletModel | None, threat: Threat, seed: int, score: float = 0.5
) -> list[Tile]:
    """Tiles of one sample: its ground truth; with a model what it predicts; the same under a threat.

    Args:
        sample, dataset: what is drawn.
        model: what predicts, or None.
        threat: what happens to it.
        seed: of the threat.
        score: least score of a detection that is drawn.
    """
    from gauntlet.pictures import Tile, amplified_difference, enlarge, from_tensor
    from gauntlet.pictures.showing import scale_of
    from gauntlet.report.painters import BoxPainter, LabelPainter
    from gauntlet.report.unlabelled import with_truth
    from gauntlet.samples import collate
    from gauntlet.seeding import ImageSeed
    from gauntlet.tasks import DETECTION, task_of
    from gauntlet.threats.kinds.attack import RegionAwareThreat

    if model is None and threat.needs_model:
        raise GauntletError(f"the threat '{threat.name}' needs a model; add --model.")
    scale = scale_of(sample.image.shape[1])
    detector = task_of(model) == DETECTION
    if detector:
        tiles_of: _SampleTiles = _BoxTiles(sample, scale, BoxPainter(dataset, model, score))  # type: ignore[arg-type]
    else:
        tiles_of = _LabelTiles(sample, scale, LabelPainter(dataset, model))  # type: ignore[arg-type]
    # An attack has to move away from something: without ground truth, from what the model says.
    attacked = sample if model is None or not threat.needs_model else with_truth(sample, model)
    batch = collate([attacked], ignore_index=dataset.ignore_index)
    tiles = [*tiles_of.truth(), *tiles_of.predicted(batch.images, "clean")]
    if threat.name == "clean":
        return tiles
    if isinstance(threat, RegionAwareThreat) and isinstance(tiles_of, _LabelTiles):
        return [*tiles, *tiles_of.rounds(threat, batch, ImageSeed(seed, sample.id))]
    perturbed = threat.perturb(model, batch, [ImageSeed(seed, sample.id)])  # type: ignore[arg-type]
    changed = from_tensor(perturbed.images[0])
    if perturbed.samples is not None:
        return [*tiles, *_moved_tiles(replace(tiles_of, sample=perturbed.samples[0]), perturbed, threat)]
    difference, factor = amplified_difference(sample.image, changed)
    shown = tiles_of.predicted(perturbed.images, "attacked" if threat.needs_model else "corrupted")
    caption = f"difference x {factor:.1f}"
    if detector:  # its boxes are drawn on the perturbed image: all in one row
        return [*tiles, *shown, Tile(f"{caption}, {threat.name}", enlarge(difference, scale))]
    return [*tiles, Tile(threat.name, enlarge(changed, scale)), Tile(caption, enlarge(difference, scale)), *shown]


def _moved_tiles(tiles_of: _SampleTiles, perturbed: Perturbed, threat: Threat) -> list[Tile]:
    """The moved image with its moved ground truth, and what the model says about it."""
    first, *others = tiles_of.truth()
    first = replace(first, caption=threat.name)
    return [
        first,
        *(replace(tile, caption=f"moved {tile.caption}") for tile in others),
        *tiles_of.predicted(perturbed.images, "moved"),
    ]


@dataclass(frozen=True)
class _SampleTiles(ABC):
    """Tiles of one sample, enlarged `scale` times; one class per task."""

    sample: Sample
    scale: int

    @abstractmethod
    def truth(self) -> list[Tile]:
        """The image and its ground truth."""

    @abstractmethod
    def predicted(self, images: torch.Tensor, name: str) -> list[Tile]:
        """What the model says about the image (1, 3, H, W), as it is or perturbed."""


@dataclass(frozen=True)
class _LabelTiles(_SampleTiles):
    """Label maps and wrong pixels; the objects too where there are any and no model."""

    painter: LabelPainter

    def truth(self) -> list[Tile]:
        from gauntlet.pictures.showing import truth_tiles

        objects = self.painter.model is None
        return truth_tiles(self.sample, self.painter.dataset, self.scale, objects=objects)

    def predicted(self, images: torch.Tensor, name: str) -> list[Tile]:
        if self.painter.model is None:
            return []
        said = self.painter.said(images, self.sample.id)
        if self.sample.labels is None:
            return self._drawn(said.labels, name)
        assert said.confidence is not None  # a model that predicts has one
        sure = 100 * float(said.confidence[self.painter.counted(self.sample)].mean())
        return self._drawn(said.labels, name, f", {sure:.1f} % sure")

    def rounds(self, threat: RegionAwareThreat, batch: Batch, seed: ImageSeed) -> list[Tile]:
        """Every round of the region-aware attack by itself, then the worst case per pixel over them."""
        from gauntlet.report.rounds import draw_mask, rounds_on

        made = rounds_on(threat, self.painter, batch, seed)
        tiles = []
        for number, each in enumerate(made.rounds, 1):
            tiles += [
                self._tile(f"round {number}: image", each.image),
                self._tile(f"round {number}: aims at", draw_mask(each.aimed_at)),
                self._tile(f"round {number}: prediction", self.painter.draw(each.prediction)),
                self._tile(f"round {number}: newly wrong", draw_mask(each.newly_wrong)),
            ]
        return [*tiles, *self._drawn(made.cumulative, "cumulative")]

    def _drawn(self, prediction: Labels, name: str, sure: str = "") -> list[Tile]:
        if self.sample.labels is None:
            return [self._tile(f"{name} prediction", self.painter.draw(prediction))]
        accuracy = 100 * self.painter.right(self.sample, prediction)
        return [
            self._tile(f"{name} prediction", self.painter.draw(prediction)),
            self._tile(
                f"{name} errors ({accuracy:.1f} % right{sure})",
                self.painter.draw_errors(self.sample, prediction),
            ),
        ]

    def _tile(self, caption: str, image: Image) -> Tile:
        from gauntlet.pictures import Tile, enlarge

        return Tile(caption, enlarge(image, self.scale))


@dataclass(frozen=True)
class _BoxTiles(_SampleTiles):
    """Objects and detections, drawn on the image that the detector saw."""

    painter: BoxPainter

    def truth(self) -> list[Tile]:
        from gauntlet.pictures import Tile, enlarge
        from gauntlet.pictures.showing import objects_tile

        if self.sample.boxes is None:
            return [Tile(self.sample.id, enlarge(self.sample.image, self.scale))]
        return [objects_tile(self.sample, self.painter.dataset, self.scale)]

    def predicted(self, images: torch.Tensor, name: str) -> list[Tile]:
        from gauntlet.numbers import counted
        from gauntlet.pictures import Tile, from_tensor

        detections = self.painter.predict(images, self.sample.id)
        caption = f"{name}: {counted(len(detections), 'box', 'boxes')}"
        if self.sample.boxes is not None:
            caption += f", F1 {self.painter.right(self.sample, detections):.2f}"
        return [Tile(caption, self.painter.draw(from_tensor(images[0]), detections, scale=self.scale))]


def parse_severities(text: str) -> list[int]:
    """Severities from "3", "1,3,5" or "1..5"."""
    try:
        if ".." in text:
            low, high = text.split("..")
            return list(range(int(low), int(high) + 1))
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise GauntletError(f"severity must be one (3), several (1,3,5) or a range (1..5), not '{text}'.") from None


def _corruption_sheet(sample: Sample, names: list[str], severities: list[int], seed: int, depth_rule: str) -> Image:
    from gauntlet.threats import corruptions

    unable = () if find_spec("av") else corruptions.VIDEO  # they need PyAV
    every = [
        name
        for name, corruption in corruptions.registry.items()
        if (sample.depth is not None or not corruption.needs_depth) and name not in unable
    ]
    return corruptions.contact_sheet(
        sample.image,
        every if names == ["all"] else names,
        severities,
        seed=seed,
        depth=sample.depth,
        depth_rule=depth_rule,  # type: ignore[arg-type]
    )


def _sample(dataset: Dataset | None, index: int) -> Sample:
    assert dataset is not None
    if not 0 <= index < len(dataset):
        raise GauntletError(f"index must lie in 0 to {len(dataset) - 1}, not {index}.")
    return dataset[index]

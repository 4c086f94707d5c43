"""`gauntlet show`: look at a sample, a prediction, a threat."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.options import DepthRuleOption, SeedOption
from gauntlet.errors import GauntletError

if TYPE_CHECKING:
    import torch

    from gauntlet.datasets.contract import Dataset
    from gauntlet.models import DetectionModel, GauntletModel
    from gauntlet.report.pictures import Image, Panel
    from gauntlet.samples import Boxes, Sample

_SMALL = 300


@app.command(
    epilog="Examples: gauntlet show --model streets/enet --threat pgd   |   "
    "gauntlet show street.png --corruption fog --severity 1..5"
)
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
) -> None:
    """Draw a sample: labels or boxes, prediction, errors, and what a threat does to it; or a sheet of corruptions."""
    import cv2

    from gauntlet.cli.plan_arguments import parse_threat
    from gauntlet.datasets import load_dataset
    from gauntlet.report import pictures

    if image is not None and model is not None:
        raise GauntletError(
            "an image file has no labels; use --dataset folder:PATH to show a model's prediction on it."
        )
    data = None if image is not None else load_dataset(dataset, split=split, root=root)
    sample = _read_sample(image) if image is not None else _sample(data, index)
    if corruption:
        picture = _corruption_sheet(sample, corruption, parse_severities(severity), seed, depth_rule)
    else:
        if data is None:
            raise GauntletError("say what to show of the image, for example --corruption fog.")
        panels = sample_panels(sample, data, model, parse_threat(threat), seed, score)
        picture = pictures.sheet(panels, columns=min(4, len(panels)))
    if not cv2.imwrite(str(output), picture[..., ::-1]):
        raise GauntletError(f"{output} cannot be written; give a file that ends in .png in a folder that exists.")
    typer.echo(f"written to {output}")


def sample_panels(
    sample: Sample, dataset: Dataset, model: str | None, threat: object, seed: int, score: float = 0.5
) -> list[Panel]:
    """Panels of one sample: its ground truth; with a model what it predicts; the same under a threat.

    Args:
        sample, dataset: what is drawn.
        model: address of a model, or None.
        threat: as for `build_threat`.
        seed: of the threat.
        score: least score of a detection that is drawn.
    """
    from gauntlet.models import DetectionModel, load_model
    from gauntlet.report.pictures import Panel, amplified_difference, enlarge
    from gauntlet.samples import collate
    from gauntlet.seeding import ImageSeed
    from gauntlet.threats import build_threat

    built = build_threat(threat)  # type: ignore[arg-type]
    if model is None and built.needs_model:
        raise GauntletError(f"the threat '{built.name}' needs a model; add --model.")
    loaded = load_model(model) if model is not None else None
    scale = 2 if sample.image.shape[1] < _SMALL else 1
    if isinstance(loaded, DetectionModel):
        painter: _Painter = _BoxPainter(sample, dataset, loaded, score, scale)
    else:
        painter = _LabelPainter(sample, dataset, loaded, scale)
    batch = collate([sample], ignore_index=dataset.ignore_index)
    panels = [*painter.truth(), *painter.predicted(batch.images, "clean")]
    if built.name != "clean":
        perturbed = built.perturb(loaded, batch, [ImageSeed(seed, sample.id)])  # type: ignore[arg-type]
        changed = (perturbed.images[0].permute(1, 2, 0) * 255).round().byte().cpu().numpy()
        difference, factor = amplified_difference(sample.image, changed)
        shown = painter.predicted(perturbed.images, "attacked" if built.needs_model else "corrupted")
        difference_panel = Panel(f"difference x {factor:.1f}", enlarge(difference, scale))
        if isinstance(loaded, DetectionModel):  # its boxes are drawn on the perturbed image: all in one row
            return [*panels, *shown, replace(difference_panel, caption=f"{difference_panel.caption}, {built.name}")]
        panels += [Panel(built.name, enlarge(changed, scale)), difference_panel, *shown]
    return panels


class _Painter(ABC):
    """Panels of one sample; one class per task."""

    @abstractmethod
    def truth(self) -> list[Panel]:
        """The image and what is known of it."""

    @abstractmethod
    def predicted(self, images: torch.Tensor, name: str) -> list[Panel]:
        """What the model says about the image (1, 3, H, W), as it is or perturbed."""


class _LabelPainter(_Painter):
    """Label maps and wrong pixels; the objects too where there are any and no model."""

    def __init__(self, sample: Sample, dataset: Dataset, model: GauntletModel | None, scale: int) -> None:
        from gauntlet.report.pictures import palette

        self._sample, self._dataset, self._model, self._scale = sample, dataset, model, scale
        self._colors = palette(dataset.colors, dataset.num_classes)

    def truth(self) -> list[Panel]:
        from gauntlet.report.pictures import color_labels

        sample = self._sample
        panels = [self._panel(sample.id, sample.image)]
        if sample.labels is not None:
            panels.append(self._panel("labels", color_labels(sample.labels, self._colors)))
        if sample.boxes is not None and self._model is None:
            panels.append(_objects_panel(sample, self._dataset, self._scale))
        return panels

    def predicted(self, images: torch.Tensor, name: str) -> list[Panel]:
        import numpy as np

        from gauntlet.evaluation.prediction import predict_dense
        from gauntlet.report.pictures import color_labels, wrong_pixels

        labels, ignored = self._sample.labels, self._dataset.ignore_index
        if self._model is None or labels is None:
            return []
        prediction = predict_dense(self._model, images, [self._sample.id])[0].labels  # type: ignore[arg-type]
        accuracy = 100 * np.mean((prediction == labels)[labels != ignored])
        return [
            self._panel(f"{name} prediction", color_labels(prediction, self._colors)),
            self._panel(f"{name} errors ({accuracy:.1f} % right)", wrong_pixels(prediction, labels, ignored)),
        ]

    def _panel(self, caption: str, image: Image) -> Panel:
        from gauntlet.report.pictures import Panel, enlarge

        return Panel(caption, enlarge(image, self._scale))


class _BoxPainter(_Painter):
    """Objects and detections, drawn on the image that the detector saw."""

    def __init__(self, sample: Sample, dataset: Dataset, model: DetectionModel, score: float, scale: int) -> None:
        from gauntlet.report.box_pictures import box_colors
        from gauntlet.report.pictures import palette

        self._sample, self._dataset, self._model, self._score, self._scale = sample, dataset, model, score, scale
        same = model.num_classes == len(dataset.box_class_names)
        self._names = dataset.box_class_names if same else model.class_names
        self._colors = box_colors(dataset) if same else palette((), model.num_classes)

    def truth(self) -> list[Panel]:
        from gauntlet.report.pictures import Panel, enlarge

        if self._sample.boxes is None:
            return [Panel(self._sample.id, enlarge(self._sample.image, self._scale))]
        return [_objects_panel(self._sample, self._dataset, self._scale)]

    def predicted(self, images: torch.Tensor, name: str) -> list[Panel]:
        from gauntlet.evaluation.prediction import predict_objects
        from gauntlet.metrics.detection.figures import image_f1
        from gauntlet.report.box_pictures import draw_boxes
        from gauntlet.report.pictures import Panel

        found = predict_objects(self._model, images, [self._sample.id])[0]
        assert found.scores is not None
        said = found.select(found.scores >= self._score)
        caption = f"{name}: {_counted(said, 'box', 'boxes')}"
        if self._sample.boxes is not None:
            caption += f", F1 {image_f1(self._sample.boxes, said, score=self._score):.2f}"
        picture = (images[0].permute(1, 2, 0) * 255).round().byte().cpu().numpy()
        return [Panel(caption, draw_boxes(picture, said, self._names, self._colors, scale=self._scale))]


def _objects_panel(sample: Sample, dataset: Dataset, scale: int) -> Panel:
    from gauntlet.report.box_pictures import box_colors, draw_boxes
    from gauntlet.report.pictures import Panel

    assert sample.boxes is not None
    drawn = draw_boxes(sample.image, sample.boxes, dataset.box_class_names, box_colors(dataset), scale=scale)
    return Panel(f"ground truth: {_counted(sample.boxes, 'object', 'objects')}", drawn)


def _counted(boxes: Boxes, one: str, many: str) -> str:
    return f"{len(boxes)} {one if len(boxes) == 1 else many}"


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

    every = [
        name
        for name, corruption in corruptions.registry.items()
        if sample.depth is not None or not corruption.needs_depth
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


def _read_sample(path: Path) -> Sample:
    import cv2
    import numpy as np

    from gauntlet.samples import Sample

    if not path.is_file():
        raise GauntletError(f"there is no image file {path}.")
    picture = cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), cv2.IMREAD_COLOR)
    if picture is None:
        raise GauntletError(f"{path} is not an image that OpenCV reads.")
    return Sample(path.name, np.ascontiguousarray(picture[..., ::-1]))

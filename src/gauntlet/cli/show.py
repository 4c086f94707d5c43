"""`gauntlet show`: look at a sample, a prediction, a threat."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.options import SeedOption
from gauntlet.errors import GauntletError

if TYPE_CHECKING:
    from gauntlet.datasets.contract import Dataset
    from gauntlet.report.pictures import Panel
    from gauntlet.samples import Sample

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
    seed: SeedOption = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG file to write.")] = Path("gauntlet-show.png"),
) -> None:
    """Draw a sample: labels, prediction, what is wrong, and what a threat does to it; or a sheet of corruptions."""
    import cv2

    from gauntlet.cli.run import parse_threat
    from gauntlet.datasets import load_dataset
    from gauntlet.report import pictures

    if image is not None and model is not None:
        raise GauntletError(
            "an image file has no labels; use --dataset folder:PATH to show a model's prediction on it."
        )
    data = None if image is not None else load_dataset(dataset, split=split, root=root)
    sample = _read_sample(image) if image is not None else _sample(data, index)
    if corruption:
        picture = _corruption_sheet(sample, corruption, severity, seed)
    else:
        if data is None:
            raise GauntletError("say what to show of the image, for example --corruption fog.")
        panels = sample_panels(sample, data, model, parse_threat(threat), seed)
        if sample.image.shape[1] < _SMALL:
            panels = [pictures.Panel(each.caption, pictures.enlarge(each.image, 2)) for each in panels]
        picture = pictures.sheet(panels, columns=min(4, len(panels)))
    if not cv2.imwrite(str(output), picture[..., ::-1]):
        raise GauntletError(f"{output} cannot be written; give a file that ends in .png in a folder that exists.")
    typer.echo(f"written to {output}")


def sample_panels(sample: Sample, dataset: Dataset, model: str | None, threat: object, seed: int) -> list[Panel]:
    """Panels of one sample: image and labels; with a model its prediction and errors; the same under a threat."""
    import numpy as np

    from gauntlet.evaluation.prediction import predict_dense
    from gauntlet.models import SegmentationModel, load_model
    from gauntlet.report.pictures import Panel, amplified_difference, color_labels, palette, wrong_pixels
    from gauntlet.samples import collate
    from gauntlet.seeding import ImageSeed
    from gauntlet.threats import build_threat

    colors = palette(dataset.colors, dataset.num_classes)
    panels = [Panel(sample.id, sample.image)]
    if sample.labels is not None:
        panels.append(Panel("labels", color_labels(sample.labels, colors)))
    built = build_threat(threat)  # type: ignore[arg-type]
    if model is None and built.needs_model:
        raise GauntletError(f"the threat '{built.name}' needs a model; add --model.")
    loaded = load_model(model) if model is not None else None
    batch = collate([sample], ignore_index=dataset.ignore_index)

    def predicted(images: object, name: str) -> None:
        if not isinstance(loaded, SegmentationModel) or sample.labels is None:
            return
        prediction = predict_dense(loaded, images, [sample.id])[0].labels  # type: ignore[arg-type]
        valid = sample.labels != dataset.ignore_index
        accuracy = 100 * np.mean((prediction == sample.labels)[valid])
        panels.append(Panel(f"{name} prediction", color_labels(prediction, colors)))
        panels.append(
            Panel(
                f"{name} errors ({accuracy:.1f} % right)", wrong_pixels(prediction, sample.labels, dataset.ignore_index)
            )
        )

    predicted(batch.images, "clean")
    if built.name != "clean":
        perturbed = built.perturb(loaded, batch, [ImageSeed(seed, sample.id)])  # type: ignore[arg-type]
        changed = (perturbed.images[0].permute(1, 2, 0) * 255).round().byte().cpu().numpy()
        difference, factor = amplified_difference(sample.image, changed)
        panels += [Panel(built.name, changed), Panel(f"difference x {factor:.1f}", difference)]
        predicted(perturbed.images, "attacked" if built.needs_model else "corrupted")
    return panels


def parse_severities(text: str) -> list[int]:
    """Severities from "3", "1,3,5" or "1..5"."""
    try:
        if ".." in text:
            low, high = text.split("..")
            return list(range(int(low), int(high) + 1))
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise GauntletError(f"severity must be one (3), several (1,3,5) or a range (1..5), not '{text}'.") from None


def _corruption_sheet(sample: Sample, names: list[str], severity: str, seed: int):  # type: ignore[no-untyped-def]
    from gauntlet.threats import corruptions

    wanted = corruptions.names() if names == ["all"] else names
    return corruptions.contact_sheet(sample.image, wanted, parse_severities(severity), seed=seed)


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

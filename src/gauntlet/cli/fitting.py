"""What the commands `universal` and `patch` share: the progress of a fit, and the table of an application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauntlet.cli.output import print_json, print_table
from gauntlet.errors import GauntletError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from gauntlet.datasets.contract import Dataset
    from gauntlet.evaluation.fitted import Row
    from gauntlet.models import GauntletModel
    from gauntlet.threats.artifacts import Artifact
    from gauntlet.threats.fitted.fit_images import Tell

ModelOption = Annotated[str, typer.Option("--model", "-m", help="The model, by its address.")]
DatasetOption = Annotated[str, typer.Option("--dataset", "-d", help="A dataset, or folder:PATH.")]
RootOption = Annotated[str | None, typer.Option("--root", help="Where the dataset lies on disk.")]
FitSplitOption = Annotated[str, typer.Option("--split", help="Split to fit on; evaluate on another one.")]
FitLimitOption = Annotated[int, typer.Option("--limit", min=1, help="Fit on the first so many images.")]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many images.")]
OutputOption = Annotated[Path, typer.Option("--output", "-o", help="File to write; a PNG goes beside it.")]
ArtifactArgument = Annotated[str, typer.Argument(help="The file that 'fit' wrote.")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes with one thread each; one per core by default.")
]


def model_to_fit(address: str, options: Mapping[str, Any], data: Dataset, device: str) -> GauntletModel:
    """A model, frozen and on its device."""
    from gauntlet.evaluation.jobs import ready_model, resolve_for
    from gauntlet.evaluation.provenance import choose_device

    return ready_model(resolve_for(address, options, data), data, choose_device(None if device == "auto" else device))


@contextmanager
def told(label: str, total: int, unit: str) -> Iterator[Tell]:
    """Shows the steps of a fit."""
    from gauntlet.evaluation.execution.progress import Terminal

    with Terminal() as progress:
        progress.start(label, total, unit=unit)
        yield lambda value: progress.advance(1, text=f"objective {value:.4g}")


def written(artifact: Artifact, output: Path, picture: npt.NDArray[np.uint8], as_json: bool) -> None:
    """Writes an artifact and its picture, and says so."""
    path = artifact.save(output)
    image = path.with_suffix(".png")
    write_picture(image, picture)
    if as_json:
        print_json({"file": str(path), "picture": str(image), "digest": artifact.digest, "facts": dict(artifact.facts)})
        return
    typer.echo(f"written to {path} (digest {artifact.digest}), as a picture to {image}")


def write_picture(path: Path, picture: npt.NDArray[np.uint8]) -> None:
    """An RGB image as a file."""
    import cv2

    if not cv2.imwrite(str(path), picture[..., ::-1]):
        raise GauntletError(f"{path} cannot be written; give a file that ends in .png in a folder that exists.")


def fit_images(artifact: Artifact, root: str | None) -> Dataset:
    """The images that an artifact was fitted on; an error where they are others now."""
    from gauntlet.datasets import load_dataset

    facts = artifact.facts
    data = load_dataset(facts["dataset"], split=facts["split"] or None, root=root, limit=len(facts["fit_ids"]))
    if sorted(data.ids()) != list(facts["fit_ids"]):
        raise GauntletError(
            f"the images of {facts['dataset']}/{facts['split']} are not those that {artifact.digest} was fitted on."
        )
    return data


def show_rows(rows: Sequence[Row], figure: str, title: str, store: str, as_json: bool) -> None:
    """The comparison as a table or as JSON."""
    if as_json:
        described = [
            {
                "images": row.images,
                "threat": row.threat,
                figure: row.value,
                **row.effects,
                "keys": [each.key for each in row.evaluations],
            }
            for row in rows
        ]
        print_json({"rows": described, "store": store})
        return
    effects = list(dict.fromkeys(name for row in rows for name in row.effects))
    columns = ["images", "threat", figure, *effects]
    cells = [
        [row.images, row.threat, _percent(row.value), *(_effect(name, row.effects.get(name)) for name in effects)]
        for row in rows
    ]
    print_table(title, columns, cells, numbers_from=2)
    typer.echo(f"{store} keeps the evaluations")


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _effect(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if name in ("unpatched", "ignored_by_patch") else _percent(value)

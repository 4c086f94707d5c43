"""What the commands `universal` and `patch` share: options, the progress of a fit, an application and its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauntlet.cli.output import print_json, print_table
from gauntlet.cli.shared_options import (
    DEFAULT_STORE,
    DeviceOption,
    JsonOption,
    ModelOptions,
    SeedOption,
    StoreOption,
    takes_options,
)
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
OutputOption = Annotated[Path, typer.Option("--output", "-o", help="File to write; a PNG goes beside it.")]
ArtifactArgument = Annotated[str, typer.Argument(help="The file that 'fit' wrote.")]


@dataclass(frozen=True)
class FitPlace:
    """The model and the images that something is fitted on."""

    model: str
    dataset: str
    split: str
    root: str | None
    limit: int
    device: str | None

    def load(self, options: ModelOptions) -> tuple[GauntletModel, Dataset]:
        """The model, frozen and on its device, and the images."""
        from gauntlet.datasets import load_dataset
        from gauntlet.evaluation.jobs import ready_model, resolve_for
        from gauntlet.evaluation.provenance import choose_device

        data = load_dataset(self.dataset, split=self.split, root=self.root, limit=self.limit)
        return ready_model(resolve_for(self.model, options, data), data, choose_device(self.device)), data


def _read_fit_place(
    model: ModelOption,
    dataset: DatasetOption = "streets",
    split: Annotated[str, typer.Option("--split", help="Split to fit on; evaluate on another one.")] = "train",
    root: RootOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Fit on the first so many images.")] = 32,
    device: DeviceOption = "auto",
) -> FitPlace:
    return FitPlace(model, dataset, split, root, limit, _device(device))


takes_fit_place = takes_options(_read_fit_place, "place_to_fit")
"""Gives a command the options of a fit, as `place_to_fit`."""


@dataclass(frozen=True)
class Application:
    """What is applied to which model and images, and where the figures go."""

    artifact: str
    model: str
    dataset: str
    split: str | None
    root: str | None
    limit: int | None
    gap: bool
    device: str | None
    workers: int
    seed: int
    store: str
    as_json: bool

    def run(self, kind: str, apply: Callable[..., list[Row]], figure: str, options: ModelOptions, **how: Any) -> None:
        """Evaluates the artifact beside its controls and shows the table.

        Args:
            kind: of the artifact: universal or patch.
            apply: `apply_universal` or `apply_patch`.
            figure: what the column is called; {} stands for the main figure of the task.
            options: of the model.
            how: what else `apply` takes.
        """
        from gauntlet.datasets import load_dataset
        from gauntlet.evaluation.execution.progress import Terminal
        from gauntlet.evaluation.jobs import resolve_for
        from gauntlet.tasks import get_task
        from gauntlet.threats.artifacts import load_artifact

        fitted = load_artifact(self.artifact, kind)
        data = load_dataset(self.dataset, split=self.split, root=self.root, limit=self.limit)
        source = resolve_for(self.model, options, data)
        with Terminal() as progress:
            rows = apply(
                source,
                data,
                fitted,
                fit_dataset=fit_images(fitted, self.root) if self.gap else None,
                store=self.store,
                seed=self.seed,
                workers=self.workers,
                device=self.device,
                progress=progress,
                **how,
            )
        title = f"{self.model} on {len(data)} images of {data.name}/{data.split}, fitted on {fitted.facts['model']}"
        show_rows(rows, figure.format(get_task(source.task).main_figure), title, self.store, self.as_json)


def _read_application(
    artifact: ArtifactArgument,
    model: ModelOption,
    dataset: DatasetOption = "streets",
    split: Annotated[str | None, typer.Option("--split", help="Held-out split.")] = None,
    root: RootOption = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many images.")] = None,
    gap: Annotated[bool, typer.Option("--gap", help="Also on the images that it was fitted on.")] = False,
    device: DeviceOption = "auto",
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes with one thread each; one by default.")
    ] = None,
    seed: SeedOption = 0,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> Application:
    return Application(
        artifact, model, dataset, split, root, limit, gap, _device(device), workers or 1, seed, store, as_json
    )


takes_application = takes_options(_read_application, "application")
"""Gives a command the options of an application, as `application`."""


def _device(name: str) -> str | None:
    return None if name == "auto" else name


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

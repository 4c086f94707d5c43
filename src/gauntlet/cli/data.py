"""`gauntlet data`: is a dataset laid out as it should be?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json
from gauntlet.cli.shared_options import DepthRuleOption, JsonOption, SeedOption
from gauntlet.errors import GauntletError

data_app = typer.Typer(help="Datasets on disk.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@data_app.callback()
def data() -> None:
    """Datasets on disk."""


@data_app.command(epilog="Example: gauntlet data check camvid ~/data/camvid --split test")
def check(
    name: Annotated[str, typer.Argument(help="A dataset; 'gauntlet list datasets' shows them.")],
    root: Annotated[Path, typer.Argument(help="Where it lies on disk.")],
    split: Annotated[str | None, typer.Option("--split", help="Only this split; its usual one by default.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Look into the first so many images only.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Verify a dataset's layout, read its images and labels, and count."""
    from gauntlet.datasets.check import check_dataset

    report = check_dataset(name, root, split=split, limit=limit)
    if as_json:
        print_json(report.as_dict())
    else:
        for line in report.lines():
            typer.echo(line)
    if not report.ok:
        raise GauntletError(f"the dataset '{name}' at {root} has problems; they are listed above.")


@data_app.command(epilog="Example: gauntlet data corrupt streets copies --corruption fog --severity 1..5 --limit 20")
def corrupt(
    name: Annotated[str, typer.Argument(help="A dataset, or folder:PATH.")],
    output: Annotated[
        Path, typer.Argument(help="Where the copy goes: cc/NAME/severity_S/FILE below it, in 3D NAME/S/FILE.")
    ],
    corruption: Annotated[
        list[str] | None, typer.Option("--corruption", "-c", help="A corruption; the fifteen common ones by default.")
    ] = None,
    severity: Annotated[str, typer.Option("--severity", help="One (3), several (1,3,5) or a range (1..5).")] = "3",
    split: Annotated[
        str | None, typer.Option("--split", help="Split of the dataset; its usual one by default.")
    ] = None,
    root: Annotated[str | None, typer.Option("--root", help="Where the dataset lies on disk.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many images.")] = None,
    depth_rule: DepthRuleOption = "metric",
    ratio: Annotated[
        float | None,
        typer.Option("--ratio", min=0, max=1, help="Localized: share of the patches that change; masks/ beside."),
    ] = None,
    patch: Annotated[
        str, typer.Option("--patch", help="Localized: size of a patch in pixels, or quarter, half, eighth, 100/1024.")
    ] = "quarter",
    seed: SeedOption = 0,
) -> None:
    """Write a corrupted copy of a dataset in DetecBench's layout; an interrupted copy goes on where it was."""
    from rich.progress import Progress

    from gauntlet.cli.show import parse_severities
    from gauntlet.datasets import load_dataset
    from gauntlet.threats.corruptions import COMMON, write_corrupted

    size = int(patch) if patch.isdecimal() else patch
    region = None if ratio is None else {"patches": {"ratio": ratio, "patch": size}}
    dataset = load_dataset(name, split=split, root=root, limit=limit)
    with Progress(transient=True) as bar:
        task = bar.add_task("writing", total=None)
        write_corrupted(
            dataset,
            output,
            corruption or COMMON,
            parse_severities(severity),
            seed,
            depth_rule=depth_rule,  # type: ignore[arg-type]
            region=region,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    typer.echo(f"written to {output}")


@data_app.command(
    epilog="Example: gauntlet data move streets tilted --threat '{geometric: {name: rotation, degrees: 10}}'"
)
def move(
    name: Annotated[str, typer.Argument(help="A dataset, or folder:PATH.")],
    output: Annotated[
        Path, typer.Argument(help="Where the copy goes; folder:OUTPUT, or coco with this root, reads it.")
    ],
    threat: Annotated[str, typer.Option("--threat", "-t", help="A move of the camera: a description or a file.")],
    split: Annotated[
        str | None, typer.Option("--split", help="Split of the dataset; its usual one by default.")
    ] = None,
    root: Annotated[str | None, typer.Option("--root", help="Where the dataset lies on disk.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many images.")] = None,
    seed: SeedOption = 0,
) -> None:
    """Write a copy of a dataset that a camera moved, with label maps and boxes moved along."""
    from rich.progress import Progress

    from gauntlet.cli.plan_arguments import parse_threat
    from gauntlet.datasets import load_dataset
    from gauntlet.threats import build_threat
    from gauntlet.threats.geometry.writing import write_moved

    built = build_threat(parse_threat(threat))
    dataset = load_dataset(name, split=split, root=root, limit=limit)
    with Progress(transient=True) as bar:
        task = bar.add_task("writing", total=len(dataset))
        write_moved(dataset, output, built, seed, lambda done, total: bar.update(task, completed=done, total=total))
    typer.echo(f"written to {output}")

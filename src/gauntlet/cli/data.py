"""`gauntlet data`: is a dataset laid out as it should be?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json
from gauntlet.cli.shared_options import DepthRuleOption, JsonOption, SeedOption
from gauntlet.errors import GauntletError

if TYPE_CHECKING:
    from gauntlet.datasets.check import CheckReport

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
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="An option of the dataset, NAME=VALUE: binary=true, ignore_index=0."),
    ] = None,
    strip: Annotated[
        Path | None,
        typer.Option("--strip", help="PNG with some masks in class colours; in the cache folder by default."),
    ] = None,
    remember: Annotated[
        bool,
        typer.Option("--remember", help="This copy is the published one: keep its digests, to compare others with."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Verify a dataset's layout, read its images and labels, count, and draw some masks in class colours."""
    from gauntlet.datasets.check import check_dataset

    options = dict(_parse_option(each) for each in option or [])
    report = check_dataset(name, root, split=split, limit=limit, **options)
    drawn = _draw_strips(name, root, report, options, strip)
    if as_json:
        print_json({**report.as_dict(), "strips": [str(path) for path in drawn]})
    else:
        for line in report.lines():
            typer.echo(line)
        for path in drawn:
            typer.echo(f"masks in class colours: {path}")
    if report.ok and limit is None:
        _compare_with_published(name, root, report, options, remember=remember, quiet=as_json)
    if not report.ok:
        raise GauntletError(f"the dataset '{name}' at {root} has problems; they are listed above.")


def _parse_option(text: str) -> tuple[str, Any]:
    """Name and value of an option of a dataset; the value is read as YAML."""
    from gauntlet.yaml_files import parse_yaml

    name, sign, value = text.partition("=")
    if not sign or not name:
        raise GauntletError(f"--option must look like NAME=VALUE, not '{text}'.")
    return name, parse_yaml(value)


def _compare_with_published(
    name: str, root: Path, report: CheckReport, options: Mapping[str, Any], *, remember: bool, quiet: bool
) -> None:
    """Tell whether the images of every split are those of the published set, or remember that they are."""
    from gauntlet.datasets import known_data, load_dataset

    for split in report.splits:
        dataset = load_dataset(name, root=root, split=split.split, **options)
        contents = dataset.contents()
        if remember:
            path = known_data.remember(dataset.name, dataset.split, contents)
        if quiet:
            continue
        place = f"{dataset.name}/{dataset.split}"
        if remember:
            typer.echo(f"the digests of {place} are kept in {path} as those of the published set")
        elif known_data.strangers(dataset.name, dataset.split, contents) == 0:
            typer.echo(f"{place} is the published set, byte for byte")
        elif sentence := known_data.published_sentence(dataset.name, dataset.split, contents):
            typer.echo(sentence)


def _draw_strips(
    name: str, root: Path, report: CheckReport, options: Mapping[str, Any], place: Path | None
) -> list[Path]:
    """Pictures of some masks of every split that has any; none of a split in which nothing could be read."""
    from gauntlet.datasets import load_dataset
    from gauntlet.files import cache_folder
    from gauntlet.pictures.label_strip import write_label_strip

    splits = [split for split in report.splits if split.checked and split.ignored is not None]
    paths = []
    for split in splits:
        path = place or cache_folder() / "masks" / f"{report.dataset}-{Path(root).resolve().name}-{split.split}.png"
        if place is not None and len(splits) > 1:
            path = place.with_stem(f"{place.stem}-{split.split}")
        dataset = load_dataset(name, root=root, split=split.split, **options)
        paths.append(write_label_strip(dataset, path, split.frequencies))
    return paths


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

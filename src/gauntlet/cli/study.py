"""`gauntlet study`: a table or figure of a paper, on models of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json
from gauntlet.cli.shared_options import (
    DEFAULT_STORE,
    DeviceOption,
    JsonOption,
    ModelOptions,
    SeedOption,
    StoreOption,
    takes_model_options,
)

study_app = typer.Typer(no_args_is_help=True, help="Repeat a table or figure of a paper on your own models.")
app.add_typer(study_app, name="study")


@study_app.command("list", epilog="Example: gauntlet study list arnab")
def list_studies(
    paper: Annotated[str, typer.Argument(help="Only those of one paper: arnab, spatial, halmosi, ...")] = "",
    as_json: JsonOption = False,
) -> None:
    """List every study with its other names, its kind and its title."""
    from gauntlet.studies import studies

    found = [studies[name] for name in studies.names() if name.startswith(paper)]
    if as_json:
        facts = ("name", "title", "question", "finding", "kind", "least_models", "needs", "also")
        print_json([{fact: getattr(study, fact) for fact in facts} for study in found])
        return
    for study in found:
        needs = f" (needs {study.needs})" if study.needs else ""
        also = "".join(f", {name.partition('/')[2]}" for name in study.also)
        typer.echo(f"{study.name + also:44} {study.kind:8} {study.title}{needs}")


@study_app.command(
    "run", epilog="Example: gauntlet study run arnab/table-1 --model streets/enet --dataset streets --limit 16"
)
@takes_model_options()
def run_one_study(
    item: Annotated[str, typer.Argument(help="A study; 'gauntlet study list' shows them.")],
    model: Annotated[list[str] | None, typer.Option("--model", "-m", help="A model; several may be given.")] = None,
    second_model: Annotated[
        str, typer.Option("--second-model", help="The other model of studies that mix two (spatial/figure-11).")
    ] = "",
    published: Annotated[
        bool, typer.Option("--published", help="Draw and judge the published figures alone; runs nothing.")
    ] = False,
    image: Annotated[
        str, typer.Option("--image", help="Of a study that is a picture: an image file, or an image of the dataset.")
    ] = "0",
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="A dataset, or folder:PATH.")] = "streets",
    split: Annotated[
        str | None, typer.Option("--split", help="Split of the dataset; its usual one by default.")
    ] = None,
    root: Annotated[str | None, typer.Option("--root", help="Where the dataset lies on disk.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many images.")] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Images computed together.")] = 4,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes with one thread each; one per core by default.")
    ] = None,
    device: DeviceOption = "auto",
    seed: SeedOption = 0,
    store: StoreOption = DEFAULT_STORE,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the page.")] = Path("studies"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run and how long it takes.")] = False,
    as_json: JsonOption = False,
    *,
    model_options: ModelOptions,
) -> None:
    """Run what is missing of a study and write its page, as Markdown and HTML."""
    from gauntlet.cli.dry_run import print_dry_run
    from gauntlet.errors import GauntletError
    from gauntlet.evaluation.local import LocalExecutor, cores
    from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
    from gauntlet.evaluation.progress import Terminal
    from gauntlet.evaluation.provenance import command_line
    from gauntlet.results import open_store
    from gauntlet.studies import run_study, studies
    from gauntlet.studies.page import published_page, study_page, write_page
    from gauntlet.studies.picturing import picture_page
    from gauntlet.studies.running import study_jobs
    from gauntlet.studies.verdicts import judge

    study = studies[item]
    if published:
        _print_written(item, write_page(study, published_page(study, command_line()), output), as_json)
        return
    if not model:
        raise GauntletError("say which models, for example --model streets/enet --model streets/segformer.")
    entries = [ModelEntry(address=each, options=dict(model_options)) for each in model]
    data = DatasetEntry(name=dataset, split=split, root=root, limit=limit)
    if study.kind == "picture":
        page = picture_page(study, entries, data, command_line(), image=image, second_model=second_model, seed=seed)
        _print_written(item, write_page(study, page, output), as_json)
        return
    chosen_device = None if device == "auto" else device
    settings: dict[str, Any] = {
        "second_model": second_model,
        "seed": seed,
        "batch_size": batch_size,
        "device": chosen_device,
    }
    if dry_run:
        jobs = {planned.job.key: planned for planned in study_jobs(study, entries, data, **settings).values()}
        print_dry_run(list(jobs.values()), store, workers or cores(), as_json)
        return
    with open_store(store) as opened:
        with Terminal() as progress:
            results = run_study(
                study, entries, data, opened, executor=LocalExecutor(workers), progress=progress, **settings
            )
        written = write_page(study, study_page(study, results, command_line()), output)
        verdicts = judge(study, results)
    if as_json:
        print_json(
            {
                "study": item,
                "written": [str(path.resolve()) for path in written],
                "verdicts": [
                    {
                        "claim": each.claim.text,
                        "model": each.model,
                        "margin": each.margin.value,
                        "low": each.margin.low,
                        "high": each.margin.high,
                        "verdict": each.verdict,
                    }
                    for each in verdicts
                ],
            }
        )
        return
    for each in verdicts:
        typer.echo(f"{each.verdict}: {each.claim.text}" + (f" [{each.model}]" if each.model else ""))
    _print_written(item, written, as_json)


def _print_written(item: str, written: list[Path], as_json: bool) -> None:
    if as_json:
        print_json({"study": item, "written": [str(path.resolve()) for path in written], "verdicts": []})
        return
    for path in written:
        typer.echo(f"written to {path.resolve()}")

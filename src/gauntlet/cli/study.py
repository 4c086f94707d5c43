"""`gauntlet study`: a table or figure of a paper, on models of one's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json
from gauntlet.cli.plan_arguments import plan_entry
from gauntlet.cli.shared_options import (
    DEFAULT_STORE,
    DeviceOption,
    JsonOption,
    ModelOptions,
    SeedOption,
    SpreadOption,
    StoreOption,
    takes_model_options,
)
from gauntlet.errors import GauntletError

if TYPE_CHECKING:
    from gauntlet.evaluation.jobs import PlannedJob
    from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
    from gauntlet.studies import AnyStudy, Study
    from gauntlet.studies.pages.contract import PageStudy
    from gauntlet.studies.relations import FigureStudy

Outcome = dict[str, Any]
"""What `--json` prints: the study, the files that were written, the verdicts."""

study_app = typer.Typer(no_args_is_help=True, help="Repeat a table or figure of a paper on your own models.")
app.add_typer(study_app, name="study")


@study_app.command("list", epilog="Example: gauntlet study list arnab")
def list_studies(
    paper: Annotated[str, typer.Argument(help="Only those of one paper: arnab, spatial, halmosi, ...")] = "",
    as_json: JsonOption = False,
) -> None:
    """List every study with its other names, its kind and its title."""
    from gauntlet.studies import studies

    every = sorted((studies[name] for name in studies.names()), key=lambda study: _place(study.name))
    found = [study for study in every if any(name.startswith(paper) for name in (study.name, *study.also))]
    if as_json:
        facts = ("name", "title", "question", "finding", "kind", "least_models", "needs", "also")
        print_json([{fact: getattr(study, fact) for fact in facts} for study in found])
        return
    for study in found:
        needs = f" (needs {study.needs})" if study.needs else ""
        own = study.name.partition("/")[0] + "/"
        also = "".join(f", {name.removeprefix(own)}" for name in study.also)
        typer.echo(f"{study.name + also:44} {study.kind:8} {study.title}{needs}")


def _place(name: str) -> list[tuple[str, int]]:
    """Where a study stands in the list: by paper, then by kind and number, figure 2 before figure 10."""
    return [(words, int(number or 0)) for words, number in re.findall(r"(\D*)(\d*)", name)]


@study_app.command(
    "run", epilog="Example: gauntlet study run arnab/table-1 --model streets/enet --dataset streets --limit 16"
)
@takes_model_options()
def run_one_study(
    item: Annotated[str, typer.Argument(help="A study; 'gauntlet study list' shows them.")],
    model: Annotated[list[str] | None, typer.Option("--model", "-m", help="A model; several may be given.")] = None,
    second_model: Annotated[
        str,
        typer.Option(
            "--second-model",
            help="The other model of studies that mix two (spatial/figure-11, where it is streets/segformer).",
        ),
    ] = "",
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="Only a part of a study: labels of its threats or members, or patterns of them ('weight 0*'); claims "
            "about the rest cannot be told.",
        ),
    ] = None,
    image: Annotated[
        str, typer.Option("--image", help="Of a study that is a picture: an image file, or an image of the dataset.")
    ] = "0",
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", help="A dataset, or folder:PATH; streets by default.")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Split of the dataset; its usual one by default.")
    ] = None,
    root: Annotated[str | None, typer.Option("--root", help="Where the dataset lies on disk.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many images.")] = None,
    spread: SpreadOption = False,
    protocol: Annotated[str | None, typer.Option("--protocol", help="How images are resized and cropped.")] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Images computed together.")] = 4,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes with one thread each; one per core by default.")
    ] = None,
    device: DeviceOption = "auto",
    seed: SeedOption = 0,
    store: StoreOption = DEFAULT_STORE,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the page.")] = Path("studies"),
    published: Annotated[
        bool, typer.Option("--published", help="Draw and judge the published figures alone; no model is run.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run and how long it takes.")] = False,
    as_json: JsonOption = False,
    *,
    model_options: ModelOptions,
) -> None:
    """Run what is missing of a study and write its page."""
    from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
    from gauntlet.studies import studies
    from gauntlet.studies.pages.contract import PageStudy
    from gauntlet.studies.relations import FigureStudy

    study = studies[item]
    chosen_device = None if device == "auto" else device
    command = StudyCommand(store, output, workers, seed, batch_size, chosen_device, dry_run, as_json)
    place = {"split": split, "root": root, "limit": limit, "spread": spread, "protocol": protocol}
    data = DatasetEntry.model_validate(plan_entry(dataset or "streets", "name", place))
    entries = [ModelEntry(address=each, options=dict(model_options)) for each in model or ()]
    if isinstance(study, PageStudy):
        if entries or dataset:
            raise GauntletError(
                f"the study '{item}' has models and images of its own; leave out --model and --dataset."
            )
        if published and study.parts():
            raise GauntletError(f"the study '{item}' is made of runs, not of published figures; leave out --published.")
        outcome = command.page(study, data, model_options)
    elif isinstance(study, FigureStudy):
        outcome = command.figures(study, model or (), dataset, published=published)
    elif published:
        if entries or dataset:
            raise GauntletError(
                f"the published figures of the study '{item}' are of its paper's models and images; leave out --model "
                "and --dataset, or --published."
            )
        outcome = command.published(study.named(item))
    elif study.kind == "picture":
        outcome = command.picture(study.named(item), entries, data, image, second_model)
    else:
        part = only or study.parts.get(item, ())
        outcome = command.measure(study.named(item), entries, data, second_model, part)
    if outcome is None:
        return
    if as_json:
        print_json(outcome)
        return
    for each in outcome["verdicts"]:
        typer.echo(f"{each['verdict']}: {each['claim']}" + (f" [{each['model']}]" if each["model"] else ""))
    for path in outcome["written"]:
        typer.echo(f"written to {path}")


@dataclass(frozen=True)
class StudyCommand:
    """What `study run` was told about running; each kind of study has a method.

    Attributes:
        store, output: where results and pages are kept.
        workers, seed, batch_size, device: of the evaluations.
        dry_run: only say what would run.
    """

    store: str
    output: Path
    workers: int | None
    seed: int
    batch_size: int
    device: str | None
    dry_run: bool
    as_json: bool

    def measure(
        self, study: Study, models: list[ModelEntry], data: DatasetEntry, second_model: str, only: Sequence[str]
    ) -> Outcome | None:
        """Runs a study of threats on models."""
        from gauntlet.evaluation.execution.local import LocalExecutor
        from gauntlet.evaluation.execution.memory import keep_freed_memory
        from gauntlet.evaluation.execution.progress import Terminal
        from gauntlet.evaluation.provenance import command_line
        from gauntlet.results import open_store
        from gauntlet.studies import run_study
        from gauntlet.studies.page import study_page, write_page
        from gauntlet.studies.running import study_jobs
        from gauntlet.studies.verdicts import judge

        _need(models)
        keep_freed_memory()
        settings = {"second_model": second_model, "only": only, **self._settings()}
        if self.dry_run:
            self._say_what_would_run(study_jobs(study, models, data, **settings).values())
            return None
        with open_store(self.store) as opened:
            with Terminal() as progress:
                executor = LocalExecutor(self.workers)
                results = run_study(study, models, data, opened, executor=executor, progress=progress, **settings)
            written = write_page(study, study_page(study, results, command_line()), self.output)
            verdicts = judge(study, results)
        return _outcome(
            study,
            written,
            [
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
        )

    def picture(
        self, study: Study, models: list[ModelEntry], data: DatasetEntry, image: str, second_model: str
    ) -> Outcome | None:
        """Draws a study of single images."""
        from gauntlet.evaluation.provenance import command_line
        from gauntlet.studies.page import write_page
        from gauntlet.studies.picturing import picture_page

        _need(models)
        if self.dry_run:
            _nothing_would_run(study, "single images are attacked and drawn, and nothing is kept in the store")
            return None
        page = picture_page(study, models, data, command_line(), image=image, second_model=second_model, seed=self.seed)
        return _outcome(study, write_page(study, page, self.output))

    def page(self, study: PageStudy, data: DatasetEntry, model_options: ModelOptions) -> Outcome | None:
        """Runs what a page of the documentation needs and writes it."""
        from gauntlet.evaluation.execution.local import LocalExecutor
        from gauntlet.evaluation.execution.memory import keep_freed_memory
        from gauntlet.evaluation.execution.progress import Terminal
        from gauntlet.evaluation.provenance import command_line
        from gauntlet.results import open_store
        from gauntlet.studies.pages.contract import plan_page, write_markdown

        keep_freed_memory()
        plan = plan_page(study, limit=data.limit, root=data.root, options=model_options, **self._settings())
        if self.dry_run:
            self._say_what_would_run(plan.jobs.values())
            return None
        if not plan.jobs:  # made of published figures: no store is needed
            return _outcome(study, write_markdown(study, {}, self.output, command_line()))
        with open_store(self.store) as opened, Terminal() as progress:
            runs = plan.run(opened, executor=LocalExecutor(self.workers), progress=progress)
            return _outcome(study, write_markdown(study, runs, self.output, command_line()))

    def figures(
        self, study: FigureStudy, models: Sequence[str], dataset: str | None, *, published: bool
    ) -> Outcome | None:
        """Draws a study of figures, published ones or those of the store, of some models and one dataset or of all."""
        from gauntlet.evaluation.provenance import command_line
        from gauntlet.results import open_store
        from gauntlet.studies.relations import PUBLISHED, write_figures

        if self.dry_run:
            _nothing_would_run(study)
            return None
        if published:
            frame, origin = study.published(), PUBLISHED
        else:
            with open_store(self.store, read_only=True) as opened:
                frame, origin = opened.frame(facts=True), self.store
        frame = frame[frame["model"].isin(models)] if models else frame
        written, judged = write_figures(study, frame, self.output, origin, command_line(), dataset)
        verdicts = [
            {"claim": each.claim, "model": "", "figures": each.evidence, "verdict": each.verdict} for each in judged
        ]
        return _outcome(study, written, verdicts)

    def published(self, study: Study) -> Outcome | None:
        """Writes what a paper found and its figures, without running anything."""
        from gauntlet.evaluation.provenance import command_line
        from gauntlet.studies.page import published_page, write_page
        from gauntlet.studies.verdicts import printed_words

        page = published_page(study, command_line())  # an error where nothing is printed
        if self.dry_run:
            _nothing_would_run(study)
            return None
        printed = study.printed() if study.printed else None
        verdicts = [
            {"claim": claim.text, "model": "", "verdict": printed_words(claim, printed)} for claim in study.claims
        ]
        return _outcome(study, write_page(study, page, self.output), verdicts)

    def _settings(self) -> dict[str, Any]:
        return {"seed": self.seed, "batch_size": self.batch_size, "device": self.device}

    def _say_what_would_run(self, jobs: Iterable[PlannedJob]) -> None:
        from gauntlet.cli.dry_run import print_dry_run

        different = {planned.job.key: planned for planned in jobs}
        print_dry_run(list(different.values()), self.store, self.workers, self.as_json)


def _need(models: Sequence[ModelEntry]) -> None:
    if not models:
        raise GauntletError("say which models, for example --model streets/enet --model streets/segformer.")


def _nothing_would_run(study: AnyStudy, why: str = "it is drawn from figures that are there") -> None:
    """What `--dry-run` says of a study without evaluations."""
    typer.echo(f"no evaluation would run for the study '{study.name}': {why}.", err=True)


def _outcome(study: AnyStudy, written: Sequence[Path], verdicts: Sequence[Mapping[str, Any]] = ()) -> Outcome:
    return {"study": study.name, "written": [str(path.resolve()) for path in written], "verdicts": list(verdicts)}

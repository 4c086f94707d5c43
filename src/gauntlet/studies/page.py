"""A study's results as a page: the question, what came out here, what was published, the verdicts, how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gauntlet.errors import GauntletError
from gauntlet.files import write_atomically
from gauntlet.report.document import Document, Part, Section, Text, made_now
from gauntlet.report.render import html, markdown
from gauntlet.report.tables import Cell, Column, Table
from gauntlet.studies.contract import AnyStudy, Study
from gauntlet.studies.drawings import slug
from gauntlet.studies.results import Results
from gauntlet.studies.verdicts import LEAST_IMAGES, judge


def study_page(study: Study, results: Results, command: str) -> Document:
    """The page of a study.

    Args:
        study: which.
        results: of `run_study`.
        command: what makes the page again.
    """
    one = next(iter(results.evaluations.values()))
    subtitle = f"{study.question} {len(results.models)} models, {results.images} images of {one.dataset}/{one.split}."
    sections = [
        Section("finding", "What the paper found", finding_blocks(study)),
        Section("verdicts", "Does it hold here?", [verdict_table(study, results)]),
        *(Section(f"here-{slug(model)}", model, study.drawing(results.of(model))) for model in results.models),
        *_published(study),
        Section("made", "How this page was made", [Text(command), _settings(results)]),
    ]
    part = Part("study", study.title, subtitle, sections)
    return Document(f"{study.name}: {study.title}", subtitle, [part], made_now())


def published_page(study: Study, command: str) -> Document:
    """The page of a study without results: what the paper found, and its figures."""
    shown = _published(study)
    if not shown:
        raise GauntletError(f"the figures of the study '{study.name}' are not published; run it with --model.")
    sections = [
        Section("finding", "What the paper found", finding_blocks(study)),
        *shown,
        Section("made", "How this page was made", [Text(command)]),
    ]
    subtitle = f"{study.question} Published figures alone."
    return Document(
        f"{study.name}: {study.title}", subtitle, [Part("study", study.title, subtitle, sections)], made_now()
    )


def verdict_table(study: Study, results: Results) -> Table:
    """Every claim with its margin and what follows from it."""
    rows: list[list[Cell]] = [
        [verdict.claim.text, verdict.model or "all", verdict.margin, verdict.verdict]
        for verdict in judge(study, results)
    ]
    caption = (
        "The margin is above 0 where the claim holds. A finding reproduces where the whole 95 % interval over images "
        f"lies above 0, does not where it lies below, and cannot be told otherwise, nor with fewer than {LEAST_IMAGES} "
        "images."
    )
    columns = [Column("claim"), Column("model"), Column("margin", "points"), Column("verdict")]
    return Table("verdicts", "Claims", columns, rows, caption)


def write_page(study: AnyStudy, document: Document, folder: Path) -> list[Path]:
    """Writes the page as Markdown and HTML; the paths."""
    written = []
    for suffix, text in ((".md", markdown.write(document)), (".html", html.write(document))):
        path = folder / f"{study.name.replace('/', '-')}{suffix}"
        write_atomically(path, text.encode())
        written.append(path)
    return written


def finding_blocks(study: AnyStudy) -> list[Text]:
    """What the paper found, with its setting and what is unclear, as far as the study says."""
    told = [study.finding, f"Its setting: {study.setting}" * bool(study.setting)]
    told.append(f"Unclear in it: {study.unknown}" * bool(study.unknown))
    return [Text(text) for text in told if text]


def _published(study: Study) -> list[Section]:
    if study.published is None:
        return []
    rows = study.published()
    names = ("model", "threat", "source_model", "transform", "source_transform", "pooling", "metric")
    columns = [name for name in names if name in rows and rows[name].astype(str).ne("").any()]
    table = Table(
        "published",
        "Published figures",
        [*(Column(name.replace("_", " ")) for name in columns), Column("value", "percent")],
        [[*(str(row[name]) for name in columns), float(row["value"])] for _, row in rows.iterrows()],
        "As printed, by another set of models on other images; only the shape can be compared.",
    )
    return [Section("published", "What was published", [table])]


def _settings(results: Results) -> Table:
    rows: list[Sequence[str | int]] = []
    seen = set()
    for (_, member, threat), evaluation in results.evaluations.items():
        if (member, threat) not in seen:
            seen.add((member, threat))
            rows.append([member, threat, evaluation.threat, evaluation.images])
    columns = [Column("member"), Column("label"), Column("threat"), Column("images", "count")]
    return Table("settings", "Every evaluation", columns, rows, "The same for every model.")

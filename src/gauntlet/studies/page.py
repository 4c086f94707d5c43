"""A study's results as a page: the question, what came out here, what was published, the verdicts, how it was made."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gauntlet.errors import GauntletError
from gauntlet.files import write_atomically
from gauntlet.numbers import counted
from gauntlet.report.document import Block, Command, Document, Gallery, Part, Picture, Section, Text, made_now
from gauntlet.report.render import html, markdown
from gauntlet.report.tables import Cell, Column, Table
from gauntlet.studies.contract import AnyStudy, Study
from gauntlet.studies.drawings import slug
from gauntlet.studies.figures import Figures
from gauntlet.studies.results import Results
from gauntlet.studies.verdicts import LEAST_IMAGES, judge, margin_words, printed_words

_NAMED = 24
"""So many things that a page leaves out are named; more are counted."""
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg"}


def study_page(study: Study, results: Results, command: str) -> Document:
    """The page of a study.

    Args:
        study: which.
        results: of `run_study`.
        command: what makes the page again.
    """
    one = next(iter(results.evaluations.values()))
    models = counted(len(results.models), "model")
    subtitle = f"{study.question} {models}, {results.images} images of {one.dataset}/{one.split}."
    return study_document(
        study,
        subtitle,
        [
            finding_section(study),
            *([Section("verdicts", "Does it hold here?", [verdict_table(study, results)])] if study.claims else []),
            *_drawn(study, results, "here"),
            *published_sections(study),
            Section(
                "made", "How this page was made", [Command(command), *_left_out(study, results), _settings(results)]
            ),
        ],
    )


def published_page(study: Study, command: str) -> Document:
    """The page of a study from what its paper prints alone; an error where it prints nothing."""
    if study.printed is None:
        raise GauntletError(f"nothing is published for the study '{study.name}'; name models of your own with --model.")
    subtitle = f"{study.question} Published figures only."
    made = Section("made", "How this page was made", [Command(command)])
    return study_document(study, subtitle, [finding_section(study), *published_sections(study), made])


def study_document(study: AnyStudy, subtitle: str, sections: Sequence[Section]) -> Document:
    """A page of sections under the study's name."""
    part = Part("study", study.title, subtitle, sections)
    return Document(f"{study.name}: {study.title}", subtitle, [part], made_now())


def finding_section(study: AnyStudy) -> Section:
    """What the paper found, in which setting, and what is unclear in it, as far as the study says."""
    return Section("finding", "What the paper found", finding_blocks(study))


def finding_blocks(study: AnyStudy) -> list[Text]:
    """The paragraphs of `finding_section`."""
    told = [study.finding]
    told += [f"Its setting: {study.setting}"] if study.setting else []
    told += [f"Unclear in it: {study.unknown}"] if study.unknown else []
    return [Text(text) for text in told if text]


def _drawn(study: Study, figures: Figures, source: str) -> list[Section]:
    """What a study draws: of all models, then of each."""
    sections = []
    if study.together is not None:
        sections.append(Section(f"{source}-together", "All models", study.together(figures)))
    if study.drawing is not None:
        drawn = [(model, study.drawing(figures.of(model))) for model in figures.models]
        sections += [Section(f"{source}-{slug(model)}", model, blocks) for model, blocks in drawn]
    return sections


def verdict_table(study: Study, results: Results) -> Table:
    """Every claim with its margin and what follows from it, here and in what was published."""
    printed = study.printed() if study.printed else None
    rows: list[list[Cell]] = [
        [
            verdict.claim.text,
            verdict.model or "all",
            verdict.margin if verdict.claim.unit == "points" else margin_words(verdict.claim, verdict.margin),
            verdict.verdict,
            printed_words(verdict.claim, printed),
        ]
        for verdict in judge(study, results)
    ]
    caption = (
        "The margin is above 0 where the claim holds. A finding reproduces where the whole 95 % interval over images "
        f"lies above 0, does not where it lies below, and cannot be told otherwise, nor with fewer than {LEAST_IMAGES} "
        "images."
    )
    rules = list(dict.fromkeys(each.rule for claim in study.claims for each in claim.conditions))
    caption += f" Rules of ours besides: {'; '.join(rules)}." if rules else ""
    columns = [Column("claim"), Column("model"), Column("margin", "points"), Column("verdict")]
    if printed is None:
        rows = [row[:-1] for row in rows]
    else:
        columns.append(Column("as published"))
    return Table("verdicts", "Claims", columns, rows, caption)


def published_sections(study: Study) -> list[Section]:
    """The paper's own figures in the form of one's own, and whether its claims hold in them."""
    if study.printed is None:
        return []
    printed = study.printed()
    words = "As printed, of other networks and other images; only the shape can be compared."
    blocks: list[Block] = [Text(f"{printed.where}. {words} {printed.note}".strip())]
    if study.claims:
        rows: list[list[Cell]] = [[claim.text, printed_words(claim, printed)] for claim in study.claims]
        blocks.append(
            Table("published-claims", "Claims in the published figures", [Column("claim"), Column("there")], rows)
        )
    sections = [Section("published", "What was published", blocks)]
    return sections + [replace(each, title=f"Published: {each.title}") for each in _drawn(study, printed, "published")]


def write_page(study: AnyStudy, document: Document, folder: Path) -> list[Path]:
    """Writes the page as Markdown, with its pictures in a folder beside it, and as HTML in one piece; the paths."""
    name = study.name.replace("/", "-")
    filed = _with_files(document, folder, name)
    written = []
    for suffix, text in ((".md", markdown.write(filed)), (".html", html.write(document))):
        path = folder / f"{name}{suffix}"
        write_atomically(path, text.encode())
        written.append(path)
    return written


def _with_files(document: Document, folder: Path, name: str) -> Document:
    """The same document with every picture of its galleries as a file NAME/NUMBER.png or .jpg in the folder."""
    numbers = itertools.count(1)

    def filed(picture: Picture) -> Picture:
        file = f"{name}/{next(numbers)}.{_ENDINGS[picture.media_type]}"
        write_atomically(folder / file, picture.data)
        return replace(picture, file=file)

    def changed(block: Block) -> Block:
        if not isinstance(block, Gallery):
            return block
        return replace(
            block, exhibits=[replace(each, pictures=list(map(filed, each.pictures))) for each in block.exhibits]
        )

    parts = [
        replace(part, sections=[replace(each, blocks=list(map(changed, each.blocks))) for each in part.sections])
        for part in document.parts
    ]
    return replace(document, parts=parts)


def _left_out(study: Study, results: Results) -> list[Text]:
    """What of the study was not run."""
    missing = [label for label in study.members if label not in results.members]
    missing += [label for label in study.threats if label not in results.threats]
    if not missing:
        return []
    everything = len(study.members) + len(study.threats)
    names = ", ".join(missing) if len(missing) <= _NAMED else f"{len(missing)} of {everything} members and threats"
    return [Text(f"Left out: {names}.")]


def _settings(results: Results) -> Table:
    rows: list[Sequence[str | int]] = []
    seen = set()
    for (_, member, threat), evaluation in results.evaluations.items():
        if (member, threat) not in seen:
            seen.add((member, threat))
            rows.append([member, threat, evaluation.threat, evaluation.images])
    columns = [Column("member"), Column("label"), Column("threat"), Column("images", "count")]
    return Table("settings", "Every evaluation", columns, rows, "The same for every model.")

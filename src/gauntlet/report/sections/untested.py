"""What was not tested: kinds of threats that a safety reviewer asks about and that were not run strongly enough."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gauntlet.analysis.scoring.scores import WEATHER_DATASET
from gauntlet.report.document import Bullets, Section, Text
from gauntlet.report.scope import Scope
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.tables import Cell, Column, Table
from gauntlet.threats.safety_case import KindOfThreat, Run, kinds_of_task


def section(scope: Scope, ranking: Ranking) -> Section:
    """For every model the kinds of threats that were not run on these images, or too weakly, and a table of all."""
    kinds = kinds_of_task(scope.task)
    counts = {model: _runs(scope, model, kinds) for model in ranking.models}
    sentences = [_sentence(model, counts[model]) for model in ranking.models]
    columns = [
        Column("kind of threat"),
        Column("the question"),
        Column("what counts"),
        *(Column(model) for model in ranking.models),
        Column("how to run it"),
    ]
    rows: list[list[Cell]] = []
    for kind in kinds:
        runs = [counts[model][kind.name] for model in ranking.models]
        remedy = "" if all(run.covered for run in runs) else kind.remedy
        rows.append([kind.name, kind.question, kind.least, *(run.words for run in runs), remedy])
    table = Table(
        f"untested-table-{scope.id}",
        "Threats run, by kind",
        columns,
        rows,
        "Threats of each kind that were run on these images and are strong enough to answer its question; a figure "
        "says nothing about kinds that were not.",
    )
    intro = Text(
        "A safety case names what it leaves out. Kinds of threats that a reviewer asks about, and that were not run, "
        "or only too weakly:"
    )
    return Section(f"untested-{scope.id}", "What was not tested", [intro, Bullets(sentences), table])


def _runs(scope: Scope, model: str, kinds: list[KindOfThreat]) -> dict[str, Run]:
    """What a model was run under of every kind, by the name of the kind."""
    rows = scope.evaluations
    texts = rows.loc[rows["model"].eq(model), "description"].unique()
    described = [next(iter(json.loads(text).items())) for text in texts]
    if scope.dataset == WEATHER_DATASET and described:  # all of its images are real weather
        described.append(("weather", {}))
    return {kind.name: kind.run(described) for kind in kinds}


def _sentence(model: str, runs: Mapping[str, Run]) -> str:
    missing = [_missing(name, run) for name, run in runs.items() if not run.covered]
    if not missing:
        return f"{model}: something of every kind was run."
    return f"{model}: {', '.join(missing)}."


def _missing(name: str, run: Run) -> str:
    if run.enough:
        return f"{name} ({' and '.join(run.missing)})"
    return f"{name} (too weak)" if run.weak else name

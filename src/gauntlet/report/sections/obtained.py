"""How every figure was obtained, and the command that repeats it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from gauntlet.report.document import Fold, Recipe, Recipes, Section, Text
from gauntlet.report.scope import Scope
from gauntlet.report.sections.standing import Standing
from gauntlet.results.record import Evaluation


def section(scope: Scope, standing: Standing, evaluations: Mapping[str, Evaluation], store: str) -> Section:
    """A fold per model with a recipe per threat."""
    rows = scope.evaluations
    folds = []
    for model in standing.models:
        recipes = [
            recipe(str(threat), evaluations[key], store)
            for key, threat in rows.loc[rows["model"].eq(model), ["key", "threat"]].itertuples(index=False)
        ]
        recipes.sort(key=lambda each: list(scope.threats).index(each.title))
        folds.append(Fold(f"{model} ({len(recipes)} evaluations)", [Recipes(recipes)]))
    intro = (
        "The same key means the same figures: the command finds them in the store, or computes them again with --again."
    )
    return Section(f"obtained-{scope.id}", "How each figure was obtained", [Text(intro), *folds])


def recipe(title: str, evaluation: Evaluation, store: str) -> Recipe:
    """How one evaluation was obtained."""
    run = evaluation.provenance
    facts = [
        ("key", evaluation.key),
        ("weights", evaluation.model_digest),
        ("threat", json.dumps(evaluation.description)),
        ("computed", f"{evaluation.created}, {evaluation.duration:.1f} s for {evaluation.images} images"),
        *((name, str(run[name])) for name in ("gauntlet", "torch", "device", "processor", "threads") if run.get(name)),
    ]
    if run.get("command"):
        facts.append(("run by", without_password(str(run["command"]))))
    return Recipe(title, facts, command(evaluation, store))


def without_password(text: str) -> str:
    """A text with the passwords of addresses in it masked: a report is shown to people who may not have them.

    >>> without_password("postgresql+psycopg://me:secret@host/results")
    'postgresql+psycopg://me:***@host/results'
    """
    return re.sub(r"(://[^\s:/@]+):[^\s@]+@", r"\1:***@", text)


def command(evaluation: Evaluation, store: str) -> str:
    """The command that gives the same figures."""
    run: Mapping[str, Any] = evaluation.provenance
    words = ["gauntlet", "run", "--model", evaluation.model, "--dataset", evaluation.dataset]
    if evaluation.split:
        words += ["--split", evaluation.split]
    words += ["--threat", "clean" if evaluation.kind == "clean" else json.dumps(evaluation.description)]
    words += ["--limit", str(evaluation.images), "--seed", str(evaluation.seed)]
    words += ["--batch-size", str(run.get("batch_size", 4)), "--store", without_password(store)]
    if run.get("precision", "fp32") != "fp32":
        words += ["--precision", str(run["precision"])]
    return shlex.join(words)

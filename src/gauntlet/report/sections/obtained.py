"""How every figure was obtained, and the command that repeats it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from gauntlet.report.document import Fold, Recipe, Recipes, Section, Text
from gauntlet.report.scope import Scope
from gauntlet.report.scope_ranking import Ranking
from gauntlet.results.record import Evaluation
from gauntlet.threats.sweeps import as_written

KEPT_OPTIONS = (
    *("--weights", "--num-classes", "--class-names", "--mean", "--std", "--channel-order", "--root", "--protocol"),
)
"""What else `gauntlet run` needs to find the same model and the same images."""
SHORT_OPTIONS = {"-m": "--model", "-d": "--dataset"}


def section(scope: Scope, ranking: Ranking, evaluations: Mapping[str, Evaluation], store: str) -> Section:
    """A fold per model with a recipe per threat."""
    rows = scope.evaluations
    folds = []
    for model in ranking.models:
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
        ("images", json.dumps(dict(evaluation.dataset_identity))),
        ("digest of the images", evaluation.dataset_digest),
        ("threat", json.dumps(as_written(evaluation.description))),
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
    """The command that gives the same figures.

    What the key does not tell (where data and weights lie, how a model is wrapped) is taken from the command that was
    run; a model of several is called by its name.
    """
    run: Mapping[str, Any] = evaluation.provenance
    given = _options(str(run.get("command", "")))
    models = given.get("--model", [])
    words = ["gauntlet", "run", "--model", models[0] if len(models) == 1 else evaluation.model]
    words += ["--dataset", (given.get("--dataset") or [evaluation.dataset])[0]]
    if evaluation.split:
        words += ["--split", evaluation.split]
    words += ["--threat", "clean" if evaluation.kind == "clean" else json.dumps(as_written(evaluation.description))]
    words += ["--limit", str(evaluation.images), "--seed", str(evaluation.seed)]
    words += ["--batch-size", str(run.get("batch_size", 4)), "--store", without_password(store)]
    if run.get("precision", "fp32") != "fp32":
        words += ["--precision", str(run["precision"])]
    for name in KEPT_OPTIONS:
        words += [word for value in given.get(name, []) for word in (name, value)]
    return shlex.join(words)


def _options(text: str) -> dict[str, list[str]]:
    """The options of a `gauntlet run` command and their values; nothing for any other command."""
    try:
        words = shlex.split(text)
    except ValueError:
        return {}
    if "run" not in words[:4]:
        return {}
    options: dict[str, list[str]] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        name = SHORT_OPTIONS.get(name, name)
        if name in ("--model", "--dataset", *KEPT_OPTIONS):
            options.setdefault(name, []).append(value if equals else following)
    return options

"""How every figure was obtained, and the command that repeats it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gauntlet.datasets.contents import TRUSTED
from gauntlet.models.sources import shipped
from gauntlet.report.document import Fold, Recipe, Recipes, Section, Text
from gauntlet.report.scope import Scope
from gauntlet.report.scope_ranking import Ranking
from gauntlet.results.origin import ONLY_IN_PYTHON, Origin, read_origin, read_settings
from gauntlet.results.record import Evaluation
from gauntlet.secrecy import without_password
from gauntlet.threats.sweeps import as_written

FLAGS = (
    *("weights", "name", "num_classes", "class_names", "outputs", "mean", "std", "channel_order", "stride"),
    *("input_size", "trust"),
)
"""Options of a model that `gauntlet run` has a flag for."""
GENERATED = "streets"
"""The dataset that its name and split describe in full."""
WEIGHTED = "A_P"
"""Beginning of the figures that a function of importance gives."""


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
        ("data and code", _recorded(evaluation)),
        ("threat", json.dumps(as_written(evaluation.description))),
        ("versions", f"threat {_version(evaluation.threat_version)}, metric {_version(evaluation.metric_version)}"),
        ("computed", f"{evaluation.created}, {evaluation.duration:.1f} s for {evaluation.images} images"),
        *((name, str(run[name])) for name in ("gauntlet", "torch", "device", "processor", "threads") if run.get(name)),
    ]
    if folder := read_origin(run).folder:
        facts.append(("folder", folder))
    if run.get("command"):
        facts.append(("run by", without_password(str(run["command"]))))
    return Recipe(title, facts, command(evaluation, store))


def _recorded(evaluation: Evaluation) -> str:
    """Digests of the contents of the data and of the model's code, or what nobody recorded."""
    data = {"": "data not recorded", TRUSTED: "data trusted, not read"}.get(evaluation.contents, evaluation.contents)
    return f"{data}; {evaluation.code or 'code not recorded'}"


def _version(number: int) -> str:
    return str(number) if number else "not recorded"


def command(evaluation: Evaluation, store: str) -> str:
    """The command that gives the same figures, run in the folder that the facts name.

    What the key does not tell (where data and weights lie, how a model is wrapped) is taken from the origin that was
    stored. Where a part of the evaluation only lived in a program, the text is a comment that says so.
    """
    run: Mapping[str, Any] = evaluation.provenance
    origin, settings = read_origin(run), read_settings(run)
    if parts := _only_in_python(evaluation, origin, settings):
        program = without_password(" ".join(str(run.get("command", "")).split()))
        by = f" (run by: {program})" if program else ""
        return f"# no command repeats this, since none can name {', '.join(parts)}; evaluate it again in Python{by}"
    words = ["gauntlet", "run", *_model_words(origin, evaluation), *_dataset_words(origin, evaluation)]
    words += ["--threat", "clean" if evaluation.kind == "clean" else json.dumps(as_written(evaluation.description))]
    words += ["--limit", str(evaluation.images), "--seed", str(evaluation.seed)]
    words += ["--batch-size", str(run.get("batch_size", 4)), "--store", _from_folder(store, origin.folder)]
    if "precision" in settings:
        words += ["--precision", str(settings["precision"])]
    if settings.get("objects"):
        words += ["--objects"]
    return shlex.join(words)


def _only_in_python(evaluation: Evaluation, origin: Origin, settings: Mapping[str, Any]) -> list[str]:
    """Parts of an evaluation that no command can name."""
    parts = []
    if origin.model is None and evaluation.model not in shipped.names():
        parts.append(f"the model '{evaluation.model}', of which no address is stored")
    if origin.dataset is None and evaluation.dataset != GENERATED:
        parts.append(f"the dataset '{evaluation.dataset}', of which no address is stored")
    if origin.model is not None:
        parts += [f"the model's option '{name}'" for name in _python_options(origin.model.get("options", {}))]
    if origin.dataset is not None:
        parts += [f"the dataset's option '{name}'" for name in _python_options(origin.dataset.get("options") or {})]
    weighted = any(figure.metric.startswith(WEIGHTED) for figure in evaluation.all_figures)
    if "importance" in settings or weighted:
        parts.append(f"the function of importance {str(settings.get('importance', '')).partition(':')[0]}".rstrip())
    return parts


def _python_options(options: Mapping[str, Any]) -> list[str]:
    """Names of options with a value that is an object of Python."""
    return [name for name, value in options.items() if f'"{ONLY_IN_PYTHON}":' in json.dumps(value)]


def _from_folder(store: str, folder: str) -> str:
    """The address of a store as it is written in a folder."""
    if "://" in store or folder in ("", str(Path.cwd())):
        return without_password(store)
    return str(Path(store).absolute())


def _model_words(origin: Origin, evaluation: Evaluation) -> list[str]:
    """The address with a flag for every option; as a mapping where an option has no flag."""
    if origin.model is None:
        return ["--model", evaluation.model]
    address, options = origin.model["address"], origin.model.get("options", {})
    words = [_option_words(name, value) for name, value in options.items()]
    if any(each is None for each in words):
        return ["--model", json.dumps({"address": address, "options": options})]
    return ["--model", address, *(word for each in words if each is not None for word in each)]


def _option_words(name: str, value: Any) -> list[str] | None:
    """An option of a model as a flag and its value; None where the flag would not be read as the same value."""
    flag = "--" + name.replace("_", "-")
    if name not in FLAGS:
        return None
    if name == "trust":
        return [flag] if value else []
    if name in ("input_size", "outputs"):
        whole = isinstance(value, list) and all(type(each) is int for each in value)
        return [flag, ("x" if name == "input_size" else ",").join(map(str, value))] if whole else None
    if not isinstance(value, list):
        return [flag, str(value)]
    texts = [repr(each) if isinstance(each, float) else each for each in value]  # a whole number is another digest
    if not all(isinstance(each, str) and each.strip() == each and "," not in each for each in texts):
        return None
    return [flag, ",".join(texts)]


def _dataset_words(origin: Origin, evaluation: Evaluation) -> list[str]:
    """Name, split, root and protocol as flags; as a mapping where the dataset has options or its protocol no name."""
    given = {name: value for name, value in (origin.dataset or {}).items() if value and name not in ("limit", "split")}
    name = given.pop("name", evaluation.dataset)
    split = ["--split", evaluation.split] if evaluation.split else []
    split += [f"--{flag.replace('_', '-')}" for flag in ("spread", "trust_data") if given.pop(flag, False)]
    if given.get("options") or not isinstance(given.get("protocol", ""), str):
        return ["--dataset", json.dumps({"name": name, **given}), *split]
    return ["--dataset", name, *split, *(word for flag, value in given.items() for word in (f"--{flag}", value))]

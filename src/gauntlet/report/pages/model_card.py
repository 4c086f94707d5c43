"""Robustness cards: what a model's page on the Hugging Face Hub should say about its reliability."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gauntlet._version import __version__
from gauntlet.analysis.frames import is_older
from gauntlet.analysis.order import in_order
from gauntlet.errors import GauntletError
from gauntlet.models.sources import shipped
from gauntlet.numbers import json_number
from gauntlet.report.image_figures import read_images
from gauntlet.report.order import store_order
from gauntlet.report.render.markdown import block_text, escape
from gauntlet.report.scope import Scope, kind_title, scopes
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.sections.summary import GRADES_IN_WORDS, verdict
from gauntlet.report.tables import Cell, Column, Interval, Table
from gauntlet.report.trivial_answer import with_trivial
from gauntlet.results import Evaluation, Store
from gauntlet.results.model_names import KnownModel
from gauntlet.tasks import TASKS

HUB_TASKS = {name: (task.hub_name, task.title) for name, task in TASKS.items()}
HUB_METRICS = {"mIoU": "mean_iou", "mAP": "map", "aAcc": "accuracy"}
"""Names that the Hub knows; others keep their own."""
SHOWN = ("mIoU", "mAcc", "aAcc", "NmIoU", "mAP", "mAP50", "mAP75")


def write_card(store: Store, model: str, path: str | Path) -> tuple[Path, Path]:
    """Writes a card as Markdown with YAML front matter (Hugging Face's format), and as JSON beside it.

    Args:
        store: the evaluations.
        model: its name in the store, with its digest where several share it, or its address.
        path: the Markdown file; the JSON file has the same name with another ending.

    Returns:
        Both files.
    """
    data = card_data(store, model)
    path = Path(path)
    beside = path.with_suffix(".json")
    if beside == path:
        raise GauntletError(
            f"the card {path} is Markdown; give it another ending than .json, which is written beside it."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(card_text(store, model, data), encoding="utf-8")
        beside.write_text(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise GauntletError(f"{path} cannot be written: {error.strerror}.") from None
    return path, beside


def card_data(store: Store, model: str) -> dict[str, Any]:
    """Everything that is known about a model, JSON-able: facts, and every evaluation with figures and intervals.

    Evaluations of older versions of a threat or metric are left out where the same images have newer ones.
    """
    known = store.find_model(model)
    evaluations = _evaluations(store, known)
    results = [
        {
            "task": each.task,
            "dataset": each.dataset,
            "split": each.split,
            "images": each.images,
            "dataset_identity": dict(each.dataset_identity),
            "threat": each.threat,
            "description": dict(each.description),
            "threat_version": each.threat_version,
            "metric_version": each.metric_version,
            "seed": each.seed,
            "figures": {name: json_number(value) for name, value in each.figures.items() if not math.isnan(value)},
            "intervals": {name: [json_number(bound) for bound in bounds] for name, bounds in each.intervals.items()},
            "key": each.key,
            "created": each.created,
        }
        for each in evaluations
    ]
    return {
        "model": known.label,
        "digests": [known.digest],
        "facts": _facts(known.name),
        "gauntlet": __version__,
        "results": results,
    }


def card_text(store: Store, model: str, data: Mapping[str, Any]) -> str:
    """The card as Markdown."""
    known = store.find_model(model)
    parts = []
    for scope in scopes(store.frame()):
        rows = scope.evaluations
        names = rows.loc[rows["address"].eq(known.name) & rows["digest"].eq(known.digest), "model"].unique()
        order = store_order(store, scope).sentence()
        parts += [_scope_text(_with_trivial(store, scope, str(name)), str(name), order) for name in names]
    front = yaml.safe_dump(front_matter(data), sort_keys=False, allow_unicode=True)
    facts = "\n".join(f"- {escape(name)}: {escape(str(value))}" for name, value in data["facts"].items())
    return f"---\n{front}---\n\n# {escape(known.label)}: robustness\n\n" + "\n".join(
        [facts + "\n" if facts else "", *parts]
    )


def front_matter(data: Mapping[str, Any]) -> dict[str, Any]:
    """The YAML header of a Hugging Face model card, with a model-index; values in per cent."""
    results = []
    for each in data["results"]:
        kind, name = HUB_TASKS.get(each["task"], (each["task"], each["task"]))
        metrics = [
            {
                "type": HUB_METRICS.get(metric, metric),
                "name": f"{metric} (%), {each['threat']}",
                "value": round(100 * each["figures"][metric], 2),
            }
            for metric in SHOWN
            if metric in each["figures"]
        ]
        if not metrics:
            continue  # the Hub refuses a result without a value
        where = f"{each['dataset']} ({each['split']})" if each["split"] else each["dataset"]
        dataset = {"type": each["dataset"], "name": f"{where}, {each['threat']}"}
        if each["split"]:
            dataset["split"] = each["split"]
        names = ("threat_version", "metric_version", "images", "seed")
        dataset["args"] = {"threat": each["description"], **{name: each[name] for name in names}}
        results.append({"task": {"type": kind, "name": name}, "dataset": dataset, "metrics": metrics})
    tasks = sorted({HUB_TASKS.get(each["task"], (each["task"],))[0] for each in data["results"]})
    used = sorted(
        {HUB_METRICS.get(name, name) for each in data["results"] for name in SHOWN if name in each["figures"]}
    )
    return {
        "tags": ["robustness", "adversarial-robustness", "common-corruptions", "gauntlet"],
        **({"pipeline_tag": tasks[0]} if tasks else {}),  # none where all evaluations are of older versions
        "metrics": used,
        "model-index": [{"name": data["model"], "results": results}],
    }


def _scope_text(scope: Scope, model: str, order: str) -> str:
    words = verdict(scope, Ranking(scope), model).text
    lines = [f"## {escape(scope.title)}, {scope.images} images", "", escape(words), "", GRADES_IN_WORDS, ""]
    lines += [escape(order), ""] if order else []
    lines += [line for sentence in scope.left_out for line in (escape(sentence), "")]
    for kind in ("clean", *scope.kinds):
        rows: list[list[Cell]] = []
        for threat in scope.of_kind(kind):
            figures = _headline(scope, model, threat)
            if figures:
                rows.append([threat, *(figures.get(name) for name in SHOWN)])
        if kind == "clean" and rows and scope.trivial_class:
            rows.append([f"trivial answer: '{scope.trivial_class}'", *(scope.trivial.get(name) for name in SHOWN)])
        present = [index for index in range(len(SHOWN)) if any(row[index + 1] is not None for row in rows)]
        if rows:
            columns = [Column("threat"), *(Column(SHOWN[index], "percent") for index in present)]
            kept = [[row[0], *(row[index + 1] for index in present)] for row in rows]
            title = "Clean images" if kind == "clean" else kind_title(kind)
            lines.append(block_text(Table("table", title, columns, kept)))
    return "\n".join(lines)


def _with_trivial(store: Store, scope: Scope, model: str) -> Scope:
    """A scope with the trivial answer, from the counts of a model's clean images or of any other of its evaluations."""
    keys = {pair: key for pair, key in scope.latest_keys().items() if pair[0] == model}
    pair = next((each for each in keys if each[1] in scope.of_kind("clean")), next(iter(keys)))
    images = read_images(store, keys[pair])
    return scope if images is None else with_trivial(scope, {pair: images})


def _headline(scope: Scope, model: str, threat: str) -> dict[str, Cell]:
    rows = scope.frame
    rows = rows[
        rows["model"].eq(model) & rows["threat"].eq(threat) & rows["class_name"].eq("") & rows["view"].eq("all")
    ]
    columns = rows[["metric", "value", "low", "high"]].itertuples(index=False)
    return {str(name): Interval(value, low, high) for name, value, low, high in columns}


def _evaluations(store: Store, model: KnownModel) -> Sequence[Evaluation]:
    frame = store.frame()
    frame = in_order(frame[~is_older(frame)])
    keys = frame.loc[frame["model"].eq(model.name) & frame["model_digest"].eq(model.digest), "key"].unique()
    return [stored for key in keys if (stored := store.load(str(key))) is not None]


def _facts(model: str) -> dict[str, Any]:
    """What the card of a shipped model says about it."""
    if model not in shipped.names():
        return {}
    card = shipped.find(model).card
    described, data = card.get("model", {}), card.get("data", {}).get("training", {})
    facts = {
        "architecture": described.get("architecture"),
        "parameters": described.get("parameters"),
        "training": card.get("kind"),
        "training data": data.get("name"),
        "licence of the weights": card["licence"]["weights"],
        "licence of the data": card["licence"]["data"],
    }
    return {name: value for name, value in facts.items() if value is not None}

"""Entries of a leaderboard: models of a store and published ones in one form."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from gauntlet.analysis import scores
from gauntlet.analysis.frames import MODEL_FACTS, unit_columns
from gauntlet.analysis.scoring import ranking
from gauntlet.analysis.scoring.scores import score_columns
from gauntlet.numbers import counted
from gauntlet.report.naming import slug
from gauntlet.report.order import store_order
from gauntlet.report.scope import Scope, scopes
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.tables import Column, Table
from gauntlet.results import Store
from gauntlet.results.published.flags import FLAGS
from gauntlet.tasks import TASKS

OWN = "store"
LEFT_OUT = "left out"
"""A fact of entries: which evaluations of older versions on the same images do not count."""
METRICS = {name: task.figures for name, task in TASKS.items()}
"""What a leaderboard can be read in, the usual one first."""
_FACTS = tuple(name for name in MODEL_FACTS if name not in ("date", "model_flag", "model_reason"))


@dataclass(frozen=True)
class EntryFigure:
    """One figure of an entry: a threat, a metric, a value as a fraction, and what is known against it."""

    threat: str
    kind: str
    metric: str
    value: float
    low: float = math.nan
    high: float = math.nan
    view: str = "all"
    flag: str = ""


@dataclass(frozen=True)
class Entry:
    """One model on one dataset, from one source.

    Attributes:
        id: safe in an address, unique.
        source: OWN, or a source of the published figures.
        task, dataset, model: what it is.
        facts: what is known about the model (architecture, backbone, parameters, year, ...).
        scores: by metric and name of the score, fractions.
        figures: what the scores are made of.
        flags: codes of known faults.
    """

    id: str
    source: str
    task: str
    dataset: str
    model: str
    facts: Mapping[str, str | float] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    figures: Sequence[EntryFigure] = ()
    flags: Sequence[str] = ()

    @property
    def doubtful(self) -> bool:
        """Whether a known fault or doubt touches its figures."""
        return any(FLAGS[code].level in ("fault", "doubt") for code in self.flags)


def store_entries(frame: pd.DataFrame, task: str | None = None, dataset: str | None = None) -> list[Entry]:
    """Entries of the models in a store, with the worst case of every kind of threat among the scores.

    Args:
        frame: as `Store.frame` gives it.
        task, dataset: only these.
    """
    entries = []
    for title, scope in _titled(frame, task, dataset):
        by_metric = {metric: Ranking(scope.read_in(metric)).scores for metric in _metrics(scope)}
        rows = scope.frame[scope.frame["class_name"].eq("") & scope.frame["metric"].isin(by_metric)]
        groups = {str(model): part for model, part in rows.groupby("model", sort=False)}
        entries += [
            Entry(
                slug(f"{OWN} {scope.id} {model}"),
                OWN,
                scope.task,
                title,
                model,
                {"images": scope.images, **({LEFT_OUT: " ".join(scope.left_out)} if scope.left_out else {})},
                {metric: of_model[model] for metric, of_model in by_metric.items() if of_model.get(model)},
                _figures(groups[model]) if model in groups else (),
            )
            for model in scope.models
        ]
    return entries


def _titled(frame: pd.DataFrame, task: str | None, dataset: str | None) -> list[tuple[str, Scope]]:
    """The scopes of a store with the titles of their leaderboards: several of one name have other numbers of images."""
    cut = [each for each in scopes(frame) if task in (None, each.task) and dataset in (None, each.dataset)]
    titles = Counter((scope.task, scope.title) for scope in cut)
    several = [titles[scope.task, scope.title] > 1 for scope in cut]
    return [
        (f"{scope.title}, {counted(scope.images, 'image')}" if apart else scope.title, scope)
        for scope, apart in zip(cut, several, strict=True)
    ]


def store_orders(
    store: Store,
    task: str | None = None,
    dataset: str | None = None,
    metric: str | None = None,
    sort_by: str | None = None,
) -> dict[str, str]:
    """By leaderboard of a store, which models can be told apart from the first; in their main figure only.

    Args:
        store: the evaluations.
        task, dataset: only these.
        metric, sort_by: of the leaderboards, as for `leaderboard_tables`.
    """
    return {
        title: store_order(store, scope, sort_by).sentence()
        for title, scope in _titled(store.frame(), task, dataset)
        if metric in (None, scope.metric)
    }


def published_entries(frame: pd.DataFrame) -> list[Entry]:
    """Entries of published models.

    Args:
        frame: as `gauntlet.results.published.frame` gives it.
    """
    keys = [name for name in unit_columns(frame) if name != "view"]
    by_metric: dict[str, dict[tuple[str, ...], dict[str, float]]] = {}
    facts: dict[tuple[str, ...], dict[str, str | float]] = {}
    for metric in dict.fromkeys(name for task in frame["task"].unique() for name in METRICS.get(str(task), ())):
        if not frame["metric"].eq(metric).any():
            continue
        table = scores(frame, metric)
        names = score_columns(table)
        for row in table.to_dict("records"):
            key = tuple(str(row[name]) for name in keys)
            by_metric.setdefault(metric, {})[key] = _present(row, names)
            facts.setdefault(key, _facts(row))
    entries = []
    for values, rows in frame.groupby(keys, sort=False, dropna=False):
        key = tuple(map(str, values))
        named = dict(zip(keys, key, strict=True))
        scored = {metric: of_key[key] for metric, of_key in by_metric.items() if of_key.get(key)}
        codes = sorted({code for text in rows["flag"].unique() for code in text.split()})
        label = named["model"] + (f" (table {named['table']})" if named.get("table") else "")
        source, task, dataset = (named[name] for name in ("source", "task", "dataset"))
        identity = slug(f"{source} {dataset} {label}")
        known = facts.get(key, {})
        entries.append(Entry(identity, source, task, dataset, label, known, scored, _figures(rows), codes))
    return entries


def leaderboard_tables(entries: Sequence[Entry], metric: str | None = None, sort_by: str | None = None) -> list[Table]:
    """Leaderboards, one per source, task and dataset, best first, by the rule of `gauntlet.analysis.scoring.ranking`.

    Args:
        entries: of any sources.
        metric: the usual one of the task by default.
        sort_by: a score; by default that of `deciding_score`.
    """
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.source, entry.task, entry.dataset), []).append(entry)
    tables = []
    for (source, task, dataset), members in groups.items():
        chosen = metric or METRICS.get(task, ("mIoU",))[0]
        scored = {
            (each.model, number): each.scores[chosen] for number, each in enumerate(members) if chosen in each.scores
        }
        names = list(dict.fromkeys(name for values in scored.values() for name in values))
        if not names:
            continue
        decisive, ranks = ranking.rank(scored, sort_by)
        rows = [
            [model, place, *(scored[model, number].get(name, math.nan) for name in names)]
            for (model, number), place in ranks.items()
        ]
        title = ", ".join(part for part in (source if source != OWN else "", dataset) if part)
        columns = [
            Column("model"),
            Column("rank", "count"),
            *(Column(name, "percent", heat=True, note=_note(name)) for name in names),
        ]
        caption = f"{chosen} in per cent, ranked by {decisive}."
        left_out = dict.fromkeys(str(each.facts[LEFT_OUT]) for each in members if LEFT_OUT in each.facts)
        caption = " ".join([caption, *left_out])
        tables.append(Table(slug(f"board {source} {task} {dataset}"), title, columns, rows, caption, best="column"))
    return tables


def _note(score: str) -> str:
    return "over the threats of the kind that every model was run under" if score.startswith("worst ") else ""


def _metrics(scope: Scope) -> list[str]:
    there = set(scope.frame["metric"])
    return [metric for metric in METRICS.get(scope.task, (scope.metric,)) if metric in there]


def _figures(rows: pd.DataFrame) -> list[EntryFigure]:
    columns = ["threat", "kind", "metric", "value", "low", "high", "view"]
    flags = rows["flag"] if "flag" in rows else [""] * len(rows)
    return [
        EntryFigure(str(threat), str(kind), str(metric), float(value), float(low), float(high), str(view), str(flag))
        for (threat, kind, metric, value, low, high, view), flag in zip(
            rows[columns].itertuples(index=False), flags, strict=True
        )
    ]


def _present(row: Mapping[Any, Any], names: Sequence[str]) -> dict[str, float]:
    return {name: float(row[name]) for name in names if row[name] is not None and not math.isnan(row[name])}


def _facts(row: Mapping[Any, Any]) -> dict[str, str | float]:
    facts: dict[str, str | float] = {}
    for name in (*_FACTS, "year"):
        value = row.get(name)
        if isinstance(value, str) and value:
            facts[name] = value
        elif isinstance(value, (int, float)) and not math.isnan(value):
            facts[name] = float(value)
    return facts

"""The order of evaluations in tables and figures: it follows from what was evaluated, not from when."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import pandas as pd

from gauntlet.analysis.scoring.benchmark_sets import C_BAR, COMMON_3D, COMMON_CORRUPTIONS
from gauntlet.results.descriptions import read_description
from gauntlet.tasks import TASKS

_DATA = ("task", "dataset", "split", "images", "dataset_digest")
_MODEL = ("model", "model_digest", "address", "digest", "code", "precision", "seed")
_REST = ("description", "threat_version", "metric_version", "figures", "key", "created")
_ATTACKS = dict.fromkeys(name for task in TASKS.values() for name in task.rem_attacks)
_MEMBERS = {name: place for place, name in enumerate((*COMMON_CORRUPTIONS, *COMMON_3D, *C_BAR, *_ATTACKS))}

Place = tuple[object, ...]
"""Sorts an evaluation or a part of it."""


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """The figures of a store, by data, then by threat, then by model; published ones behind them, as they are.

    Clean images come before all threats. Of one kind of threat the corruptions and attacks of the benchmarks come
    first, in the order of the benchmark; all others by name. Numbers inside names go by their size. Rows of one
    evaluation keep their order.

    Args:
        frame: tidy figures; those without a column `key` come from no store and are given back as they are.
    """
    columns = [name for name in (*_DATA, "kind", "threat", *_MODEL, *_REST) if name in frame]
    if "key" not in columns or frame.empty:
        return frame
    codes = frame.groupby(columns, sort=False, dropna=False).ngroup().to_numpy(np.intp)
    evaluations = frame[columns].drop_duplicates().to_dict("records")
    places = [_place({str(name): value for name, value in each.items()}) for each in evaluations]
    numbers = {place: number for number, place in enumerate(sorted(set(places)))}
    of_row = np.array([numbers[place] for place in places], np.intp)[codes]
    return frame if (np.diff(of_row) >= 0).all() else frame.iloc[np.argsort(of_row, kind="stable")]


def _place(evaluation: Mapping[str, object]) -> Place:
    """Sorts an evaluation of a store; all published figures share the last place."""
    text = {name: "" if pd.isna(value) else str(value) for name, value in evaluation.items()}  # type: ignore[call-overload]
    if not text["key"]:
        return (1,)
    data, model, rest = ([_natural(text.get(name, "")) for name in names] for names in (_DATA, _MODEL, _REST))
    kind, threat = text.get("kind", ""), _natural(text.get("threat", ""))
    return (0, *data, kind != "clean", kind, *_place_of_threat(text.get("description", "")), threat, *model, *rest)


@lru_cache(maxsize=8192)
def _place_of_threat(description: str) -> Place:
    """The place of a corruption or an attack among those of the benchmarks, then its norm, linf first."""
    settings = read_description(description)
    name = str(settings.get("corruption") or settings.get("attack") or "")
    return _MEMBERS.get(name, len(_MEMBERS)), str(settings.get("norm", "linf")).replace("linf", "")


@lru_cache(maxsize=8192)
def _natural(text: str) -> Place:
    """Sorts a text with its numbers by their size: "fog-3" before "fog-10"."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return tuple((float(part), part) if place % 2 else (0.0, part) for place, part in enumerate(parts))

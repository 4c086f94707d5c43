"""Reads the packaged figures (`figures.csv.gz`) as tidy frames, with the columns of a store's frame."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from importlib import resources

import pandas as pd

from gauntlet.errors import unknown_name
from gauntlet.numbers import parse_number
from gauntlet.results.published import flags
from gauntlet.results.published.sources import EXTRA_SOURCES, SOURCES
from gauntlet.results.published.threat_names import short_name, write_description
from gauntlet.results.tidy import plain_texts

STORED_COLUMNS = [
    *("source", "table", "task", "model", "architecture", "backbone", "backbone_type", "proposal_type", "training"),
    *("crop_size", "parameters", "date", "dataset", "kind", "name", "norm", "epsilon", "alpha", "steps", "severity"),
    *("ratio", "patch", "source_model", "transform", "source_transform", "pooling", "view", "metric", "value"),
    *("printed", "flag", "model_flag"),
]
"""Columns of the packaged file, all text; epsilon and alpha as "8/255"."""

MODEL_COLUMNS = (
    *("source", "task", "model", "architecture", "backbone", "backbone_type", "proposal_type", "training"),
    *("crop_size", "parameters", "date", "dataset", "model_flag", "model_reason"),
)
_SETTINGS = ("norm", "epsilon", "alpha", "steps", "severity", "ratio", "patch", "source_model")
_WHOLE_OR_REAL = ("steps", "severity", "ratio", "patch")
_COLUMNS = [
    *("source", "table", "task", "model", "architecture", "backbone", "backbone_type", "proposal_type", "training"),
    *("crop_size", "parameters", "date", "dataset", "split", "threat", "kind", "description", "source_model"),
    *("transform", "source_transform", "pooling", "view", "metric", "class_name", "value", "low", "high"),
    *("printed", "flag", "reason", "model_flag", "model_reason"),
]

_METRICS = {
    "mAP_50": "mAP50",
    "mAP_75": "mAP75",
    "mAP_s": "mAP_small",
    "mAP_m": "mAP_medium",
    "mAP_l": "mAP_large",
    "pascal_voc_AP50": "VOC_mAP50",
    "mask_mAP_50": "mask_mAP50",
}
"""What the sources call figures that the store has too: read under the store's names, so that both compare."""

Choice = str | Sequence[str] | None


@lru_cache(maxsize=1)
def _load() -> pd.DataFrame:
    table = _with_threats(_read_file())
    table = table.assign(
        split="",
        class_name="",
        low=float("nan"),
        high=float("nan"),
        view=table["view"].replace({"": "all"}),
        metric=table["metric"].replace(_METRICS),
        value=pd.to_numeric(table["value"]),
        parameters=pd.to_numeric(table["parameters"]),
        date=pd.to_datetime(table["date"], format="%Y-%m-%d"),
        reason=_reasons(table["flag"]),
        model_reason=_reasons(table["model_flag"]),
    )
    return plain_texts(table[_COLUMNS])


def _read_file() -> pd.DataFrame:
    """The packaged file as it is: STORED_COLUMNS, all text."""
    packed = resources.files(__package__).joinpath("figures.csv.gz").read_bytes()
    return pd.read_csv(io.BytesIO(gzip.decompress(packed)), dtype=str, keep_default_na=False)


def _with_threats(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the columns `threat` and `description`, written once for each different threat."""
    columns = ["kind", "name", *_SETTINGS]
    threats = table[columns].drop_duplicates()
    names, descriptions = [], []
    for kind, name, *values in threats.itertuples(index=False):
        settings = _numbers(dict(zip(_SETTINGS, values, strict=True)))
        names.append(short_name(kind, name, settings))
        descriptions.append(json.dumps(write_description(kind, name, settings)))
    threats = threats.assign(threat=names, description=descriptions)
    return table.merge(threats, on=columns, how="left", validate="m:1")


def _numbers(texts: Mapping[str, str]) -> dict[str, float | str]:
    """Settings with numbers instead of their texts; empty texts stay."""
    settings: dict[str, float | str] = dict(texts)
    for key in ("epsilon", "alpha"):
        if texts[key]:
            settings[key] = parse_number(texts[key], key)
    for key in _WHOLE_OR_REAL:
        if texts[key]:
            value = float(texts[key])
            settings[key] = int(value) if value.is_integer() else value
    return settings


def _reasons(codes: pd.Series) -> pd.Series:
    """The sentences behind flags; each different text of codes is looked up once."""
    return codes.map({text: flags.reasons(text) for text in codes.unique()})


def frame(
    task: str | None = None,
    dataset: str | None = None,
    *,
    source: Choice = None,
    model: Choice = None,
    kind: Choice = None,
    metric: Choice = None,
    summaries: bool = False,
) -> pd.DataFrame:
    """Published figures, one per row, in the columns of the store's frame and a few of their own.

    Values are fractions in [0, 1] (an IoU ratio may exceed 1). `flag` holds codes of known faults of the figure,
    `reason` says them in words; `model_flag` and `model_reason` do the same for what is said about the model.

    Args:
        task: "segmentation" or "detection".
        dataset: "ade20k", "cityscapes", "voc", "coco" or "voc0712".
        source: one or more of `gauntlet.published.sources()`; by default all but second runs of the same model.
        model: one or more model names.
        kind: one or more of clean, attack, corruption, weather, localized, battery.
        metric: one or more metric names.
        summaries: also the ReM, GAM and means as printed; they are partly wrong;
            `gauntlet.analysis.rem` and `gam` compute them.
    """
    table = _load()
    chosen = pd.Series(True, index=table.index)
    if source is None:
        chosen &= ~table["source"].isin(EXTRA_SOURCES)
    if not summaries and kind != "summary":
        chosen &= table["kind"].ne("summary")
    filters = {"task": task, "dataset": dataset, "source": source, "model": model, "kind": kind, "metric": metric}
    for column, wanted in filters.items():
        if wanted is not None:
            chosen &= table[column].isin(_known_names(table, column, wanted))
    return table[chosen].reset_index(drop=True)


def _known_names(table: pd.DataFrame, column: str, wanted: str | Sequence[str]) -> list[str]:
    """The names asked for, or an error for one that the column does not have."""
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    known = SOURCES if column == "source" else table[column].unique()
    for name in names:
        if name not in set(known):
            raise unknown_name(f"{column} of the published figures", name, known)
    return names


def models(task: str | None = None, dataset: str | None = None, *, source: Choice = None) -> pd.DataFrame:
    """The published models, one per row: what is known about each, how many figures it has, how many are flagged."""
    rows = frame(task, dataset, source=source)
    rows = rows.assign(figures=1, flagged=rows["flag"].ne("").astype(int))
    return rows.groupby(list(MODEL_COLUMNS), dropna=False, sort=False)[["figures", "flagged"]].sum().reset_index()


def sources() -> pd.DataFrame:
    """Where the figures come from, one source per row, with the number of figures."""
    counts = _load().groupby("source").size()
    rows = [{"source": key, "figures": int(counts[key]), **asdict(each)} for key, each in SOURCES.items()]
    return pd.DataFrame(rows)


def unflagged(figures: pd.DataFrame, levels: Sequence[str] = ("fault", "doubt")) -> pd.DataFrame:
    """The figures without a known fault of the given levels ("fault", "doubt", "note").

    What is said about a model (a doubtful parameter count) does not remove its figures, but the doubtful count.
    """
    for level in levels:
        if level not in flags.LEVELS:
            raise unknown_name("level of a flag", level, flags.LEVELS)
    bad = {codes: flags.has_level(codes, levels) for codes in {*figures["flag"], *figures["model_flag"]}}
    kept = figures[~figures["flag"].map(bad).astype(bool)]
    return kept.assign(parameters=kept["parameters"].mask(kept["model_flag"].map(bad).astype(bool)))

"""Figures of a store as one tidy table, and that table as a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from sqlalchemy import Connection, Text, cast, select

from gauntlet.errors import GauntletError
from gauntlet.extras import install_command
from gauntlet.metrics.intervals import METHOD
from gauntlet.results import schema
from gauntlet.results.origin import weather_of
from gauntlet.results.record import Evaluation, dataset_digest

_FRAME_COLUMNS = (
    "key", "task", "model", "model_digest", "dataset", "split", "dataset_digest", "threat", "kind", "description",
    "seed", "view", "metric", "class_name", "value", "low", "high", "images", "created", "duration",
    "condition", "threat_version", "metric_version", "contents", "code", "protocol", "precision",
)  # fmt: skip

_READ_OUT = ("description", "dataset_digest", "contents", "protocol", "precision", "condition")
"""Columns that are read out of the records of an evaluation, see `_read_out`."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def figures_frame(connection: Connection) -> pd.DataFrame:
    """Every figure of every finished evaluation, one row each.

    A record that is damaged so that it is no JSON is read as an empty one: `Store.frame` leaves it out.
    """
    evaluations, figures = schema.evaluations, schema.figures
    plain = [name for name in _FRAME_COLUMNS if name not in _READ_OUT]
    columns = [
        figures.c[name] if name in figures.c and name != "evaluation_id" else evaluations.c[name] for name in plain
    ]
    finished = evaluations.c.state == schema.COMPLETE
    of_evaluation = figures.c.evaluation_id == evaluations.c.id
    query = select(*columns, evaluations.c.intervals).join(figures, of_evaluation).where(finished)
    rows = connection.execute(query.order_by(evaluations.c.id, figures.c.position)).all()
    frame = pd.DataFrame(rows, columns=[*plain, "intervals"])
    frame.loc[frame["intervals"].ne(METHOD), ["low", "high"]] = None  # another method: it would cover otherwise
    texts = [cast(evaluations.c[name], Text) for name in ("description", "dataset_identity", "provenance")]
    records = {
        key: _read_out(dataset, *map(read_mapping, of_key))
        for key, dataset, *of_key in connection.execute(select(evaluations.c.key, evaluations.c.dataset, *texts))
    }
    for name in _READ_OUT:
        frame[name] = frame["key"].map({key: values[name] for key, values in records.items()}).astype(object)
    frame = frame[list(_FRAME_COLUMNS)]
    for name in ("value", "low", "high", "duration"):
        frame[name] = frame[name].astype("float64")
    return plain_texts(frame)


def read_mapping(text: str) -> Mapping[str, Any]:
    """A JSON object from the text that is stored, an empty one where it is damaged."""
    try:
        parsed = json.loads(text)
    except (ValueError, TypeError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _read_out(
    dataset: str, description: Mapping[str, Any], identity: Mapping[str, Any], provenance: Mapping[str, Any]
) -> dict[str, str]:
    """The columns of one evaluation that are read out of its records."""
    protocol = identity.get("protocol")
    return {
        "description": json.dumps(dict(description), sort_keys=True),
        "dataset_digest": dataset_digest(identity),
        "contents": str(identity.get("contents", "")),
        "protocol": json.dumps(protocol, sort_keys=True) if protocol else "",
        "precision": str(provenance.get("precision", "fp32")),
        "condition": weather_of(dataset, provenance),
    }


def plain_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """The same with Python's own texts: analyses filter and join small frames many times, slower with Arrow's."""
    texts = [name for name, kind in frame.dtypes.items() if isinstance(kind, pd.StringDtype)]
    return frame.astype(dict.fromkeys(texts, object))


def evaluations_frame(evaluations: Iterable[Evaluation]) -> pd.DataFrame:
    """Every figure of some evaluations, one row each, in the columns of `figures_frame`."""
    rows = [
        {
            **{name: getattr(each, name) for name in _FRAME_COLUMNS if hasattr(each, name)},
            **_read_out(each.dataset, each.description, each.dataset_identity, each.provenance),
            **{name: getattr(figure, name) for name in ("view", "metric", "class_name", "value", "low", "high")},
        }
        for each in evaluations
        for figure in each.all_figures
    ]
    return plain_texts(pd.DataFrame(rows, columns=list(_FRAME_COLUMNS)).astype({"dataset_digest": object}))


def csv_text(frame: pd.DataFrame) -> str:
    """A table as CSV in which no text is a formula: a spreadsheet would compute what begins with =, +, - or @.

    >>> csv_text(pd.DataFrame({"model": ["=1+1", "enet"], "value": [-0.5, 1.0]}))
    "model,value\\n'=1+1,-0.5\\nenet,1.0\\n"
    """
    texts = [name for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
    plain = frame.assign(**{name: frame[name].map(_no_formula) for name in texts})
    return plain.to_csv(index=False, lineterminator="\n")


def _no_formula(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell


def write_frame(frame: pd.DataFrame, path: Path) -> Path:
    """Writes a table to a .csv, .json or .parquet file."""
    if path.suffix == ".csv":
        path.write_text(csv_text(frame), encoding="utf-8", newline="\n")
    elif path.suffix == ".json":
        frame.to_json(path, orient="records", indent=1)
    elif path.suffix == ".parquet":
        try:
            frame.to_parquet(path, index=False)
        except ImportError:
            raise GauntletError(f"Parquet needs pyarrow; install it with: {install_command('parquet')}.") from None
    else:
        raise GauntletError(f"the ending of '{path}' must be .csv, .json or .parquet.")
    return path

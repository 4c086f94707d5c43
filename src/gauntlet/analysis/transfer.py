"""Who fools whom: attacks made on one model and shown to another (docs/specs/metrics.md, 11)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pandas as pd

from gauntlet.analysis.frames import of_metric, one_each, require_columns, unit_columns, with_clean
from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import divide
from gauntlet.models.defended_names import DefendedName, read_name, source_name
from gauntlet.results.descriptions import split_transfer, threat_settings

RATIO = "IoU ratio"


def transfer(frame: pd.DataFrame, metric: str | None = None) -> pd.DataFrame:
    """Ratios of attacked to clean figures for every pair of target and source model.

    An attack whose description names a `source_model` was made there; one that names none was made on the model
    itself (white box). A transferred attack goes under the name of the attack alone. Figures that are printed as IoU
    ratios are taken as they are.

    Args:
        frame: tidy figures with clean and attack rows.
        metric: by default mIoU for segmentation and mAP for detection.

    Returns:
        Tidy: what the target's unit has beside the model, target, made_on, threat, ratio (NaN when the clean figure is
        0 or missing), attacked, clean.
    """
    rows = of_metric(frame, metric)
    printed = frame[frame["metric"].eq(RATIO)] if metric is None else rows.iloc[:0]
    rows = pd.concat([rows, printed]) if len(printed) else rows
    attacks = rows[rows["kind"].isin(["attack", "transfer"])]
    if "transform" in attacks:  # attacks on transformed inputs are another table, see `transform_matrix`
        attacks = attacks[attacks["transform"].eq("")]
    sources = threat_settings(attacks)["source_model"]
    attacks = attacks.assign(
        made_on=_makers(attacks, sources),
        threat=[split_transfer(name, source)[0] for name, source in zip(attacks["threat"], sources, strict=True)],
    )
    units = unit_columns(rows)
    attacks = one_each(attacks, [*units, "metric", "threat", "made_on"])
    attacks = with_clean(attacks, rows, [*units, "metric"])
    is_ratio = attacks["metric"].eq(RATIO)
    ratio = pd.Series(divide(attacks["value"], attacks["clean"]), index=attacks.index)
    result = attacks.assign(
        target=attacks["model"],
        ratio=ratio.where(~is_ratio, attacks["value"]),
        attacked=attacks["value"].mask(is_ratio),
    )
    rest = [column for column in units if column not in ("model", "model_digest")]
    columns = [*rest, "target", "made_on", "threat", "ratio", "attacked", "clean"]
    return result[columns].reset_index(drop=True)


def transfer_matrix(frame: pd.DataFrame, threat: str, metric: str | None = None) -> pd.DataFrame:
    """R[target, made on]: the ratio of the row model on images made with the column model; the diagonal is white box.

    Args:
        frame: tidy figures of one dataset.
        threat: the attack's short name.
        metric: by default mIoU for segmentation and mAP for detection.
    """
    rows = transfer(frame, metric)
    rows = rows[rows["threat"].eq(threat)]
    return _matrix(rows, "target", "made_on", "ratio", f"transfers of '{threat}'")


def transfer_means(matrix: pd.DataFrame) -> pd.DataFrame:
    """How well images of every model transfer, and how exposed every model is to those of others.

    Args:
        matrix: of `transfer_matrix`.

    Returns:
        A row per model: white_box (its own images; NaN where it was not attacked itself), as_source (mean of what the
        others keep on its images), as_target (mean of what it keeps on images of the others), strongest (whose images
        leave it least) and least (how much). Where `least` is below `white_box`, the model hides its gradient.
    """
    names = list(dict.fromkeys([*matrix.index, *matrix.columns]))
    square = matrix.reindex(index=names, columns=names)
    others = square.mask(np.eye(len(names), dtype=bool))
    least = others.min(axis=1)
    strongest = others.fillna(np.inf).idxmin(axis=1).where(least.notna(), "")
    return pd.DataFrame(
        {
            "white_box": np.diag(square),
            "as_source": others.mean(axis=0),
            "as_target": others.mean(axis=1),
            "strongest": strongest,
            "least": least,
        },
        index=pd.Index(names, name="model"),
    )


def transform_matrix(frame: pd.DataFrame, metric: str = "mIoU", threat: str | None = None) -> pd.DataFrame:
    """Absolute figures, inference transformation in rows, the attack's own transformation in columns (Arnab, Table 2).

    Args:
        frame: published figures with the columns `transform` and `source_transform`; or those of a store, which has
            both in the names of models: `transform:` around one model, evaluated and as the source of attacks.
        metric: its name in the frame.
        threat: the attack's short name; needed where a store has several.
    """
    rows = frame if "transform" in frame else with_transformations(frame)
    rows = rows[rows["metric"].eq(metric) & rows["transform"].ne("")]
    if threat is not None:
        rows = rows[rows["threat"].eq(threat)]
    return _matrix(rows, "transform", "source_transform", "value", "transformations")


def with_transformations(frame: pd.DataFrame) -> pd.DataFrame:
    """Attacks of a store between one model and itself behind transformations.

    Args:
        frame: tidy figures of a store, of whole datasets and classes.

    Returns:
        Rows with `transform` and `source_transform` ("none" for the plain model), `model` the one inside, and `threat`
        the attack's name without its source; the latest of each.
    """
    require_columns(frame, ["model", "kind", "description", "threat", "metric"], "a matrix of transformations")
    rows = frame[frame["kind"].isin(["attack", "transfer"])]
    rows = rows[rows["class_name"].eq("")] if "class_name" in rows else rows
    rows = rows[rows["view"].eq("all")] if "view" in rows else rows
    sources = threat_settings(rows)["source_model"]
    targets, makers = list(rows["model"]), _makers(rows, sources)
    words = _words_of_transformations([*targets, *makers])
    inside, made = ([words[name] for name in names] for names in (targets, makers))
    rows = rows.assign(
        model=[model for model, _ in inside],
        transform=[kind for _, kind in inside],
        source_transform=[kind for _, kind in made],
        threat=[split_transfer(name, source)[0] for name, source in zip(rows["threat"], sources, strict=True)],
    )
    rows = rows[[one[0] == other[0] for one, other in zip(inside, made, strict=True)]]
    keys = [*unit_columns(rows.drop(columns="model_digest", errors="ignore")), "metric", "threat"]
    return one_each(rows, [*keys, "transform", "source_transform"])


def _makers(rows: pd.DataFrame, sources: pd.Series) -> list[str]:
    """The model that each attack was made on: its source, the model inside for "inner", else the attacked one.

    With the size of the source, where it was attacked at one of its own.
    """
    makers = []
    for source, target, name in zip(sources, rows["model"], rows["threat"], strict=True):
        size = split_transfer(name, source)[1]
        makers.append((source_name(source, target) if source else target) + (f" at {size}" if size else ""))
    return makers


def _words_of_transformations(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The model inside `transform:` and the transformation of every name; "none" for another model.

    A transformation goes by its kind, and by all its settings where a kind occurs with several.
    """
    found = {name: _transformation(name) for name in names}
    settings = {(each.values["kind"], each.settings) for each in found.values() if each is not None}
    several = {kind for kind, count in Counter(kind for kind, _ in settings).items() if count > 1}

    def words(read: DefendedName) -> str:
        kind = read.values["kind"]
        return read.settings.removeprefix("kind=") if kind in several else kind

    return {name: (name, "none") if read is None else (read.inner[0], words(read)) for name, read in found.items()}


def _transformation(name: str) -> DefendedName | None:
    """The `transform:` that is outermost in a stored name, if one is."""
    read = read_name(name)
    return read if read is not None and read.prefix == "transform" else None


def _matrix(rows: pd.DataFrame, index: str, columns: str, values: str, what: str) -> pd.DataFrame:
    if rows.empty:
        raise GauntletError(f"this frame holds no {what}; look at its column 'threat' for what there is.")
    if rows.duplicated([index, columns]).any():
        raise GauntletError(f"this frame holds several {what} for one pair of models; filter it by dataset or table.")
    order_rows, order_columns = list(dict.fromkeys(rows[index])), list(dict.fromkeys(rows[columns]))
    # White-box cells on the diagonal: sources in the order of the targets where both are there.
    order_columns.sort(key=lambda name: order_rows.index(name) if name in order_rows else len(order_rows))
    return rows.set_index([index, columns])[values].unstack(columns).loc[order_rows, order_columns]

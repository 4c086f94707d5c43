"""Errors of detectors from the detections that a store keeps, also for evaluations made before there were figures."""

from __future__ import annotations

import numpy as np
import pandas as pd

from gauntlet.metrics.detection.error_types import Fates, error_types, newly_disappeared, object_fates
from gauntlet.results.detections import stored_detections
from gauntlet.results.store import Store

_UNIT = ("model", "model_digest", "dataset", "split", "dataset_digest", "seed")


def detection_errors(store: Store) -> pd.DataFrame:
    """What every detector of a store does wrong under every threat (docs/specs/beyond.md, 3).

    Of a battery the worst attack of every image, as in its figures.

    Args:
        store: with evaluations of detectors.

    Returns:
        One row per evaluation: key, model, dataset, split, threat, kind, mAP50 (TIDE's, at IoU 0.5), dAP_Cls to dAP_FN,
        errors_Cls to errors_Miss, found, misnamed, disappeared, hallucinated and repeated (with `_per_image`), and
        newly_disappeared: of the objects found on clean images the share that has disappeared, NaN where the store has
        no clean evaluation of the same model and images.
    """
    rows, fates = [], {}
    for stored in stored_detections(store):
        evaluation, key = stored.evaluation, stored.evaluation.key
        errors = error_types(stored.truths, stored.detections, len(stored.class_names))
        fates[key] = object_fates(stored.truths, stored.detections)
        rows.append(
            {
                "key": key,
                **{name: getattr(evaluation, name) for name in (*_UNIT, "threat", "kind")},
                "mAP50": errors.average_precision,
                **{f"dAP_{name}": value for name, value in errors.gains.items()},
                **{f"errors_{name}": count for name, count in errors.counts.items()},
                **fates[key].figures(),
            }
        )
    table = pd.DataFrame(rows)
    return table.assign(newly_disappeared=_against_clean(table, fates)) if len(table) else table


def _against_clean(table: pd.DataFrame, fates: dict[str, Fates]) -> list[float]:
    clean = {
        tuple(row[name] for name in _UNIT): fates[row["key"]] for _, row in table[table["kind"].eq("clean")].iterrows()
    }
    values = []
    for _, row in table.iterrows():
        base = clean.get(tuple(row[name] for name in _UNIT))
        values.append(np.nan if base is None else newly_disappeared(base, fates[row["key"]]))
    return values

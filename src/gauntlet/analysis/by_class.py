"""Which classes a threat breaks."""

from __future__ import annotations

import pandas as pd

from gauntlet.analysis.frames import comparable, one_each, require_columns, unit_columns, with_clean
from gauntlet.metrics.arithmetic import divide


def by_class(frame: pd.DataFrame, metric: str = "IoU") -> pd.DataFrame:
    """The figure of every class under every threat, beside the clean one.

    Args:
        frame: tidy figures with rows per class (`class_name` is not empty).
        metric: the name of the per-class figure.

    Returns:
        Tidy: the unit, threat, kind, class_name, value, clean, drop (clean - value) and ratio (value / clean, NaN when
        the class is never right on clean images); the hardest-hit class of a threat first.
    """
    require_columns(frame, ["class_name", "threat", "kind"], "figures by class")
    rows = comparable(frame[frame["metric"].eq(metric) & frame["class_name"].ne("")])
    keys = [*unit_columns(rows), "class_name"]
    table = with_clean(one_each(rows[rows["kind"].ne("clean")], [*keys, "threat"]), rows, keys)
    table = table.assign(drop=table["clean"] - table["value"], ratio=divide(table["value"], table["clean"]))
    columns = [*unit_columns(rows), "threat", "kind", "class_name", "value", "clean", "drop", "ratio"]
    order = [*unit_columns(rows), "threat", "drop"]
    ascending = [column != "drop" for column in order]
    return table[columns].sort_values(order, ascending=ascending, kind="stable").reset_index(drop=True)

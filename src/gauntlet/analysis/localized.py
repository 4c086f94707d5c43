"""Figures inside and outside a region: relative errors, means over a set of corruptions, what the position changes.

CE = (A_base - A) / A_base with the accuracy of a reference model under the same threat in the same region as the base;
RCE has the model's own clean accuracy there (docs/specs/metrics.md, 4 and 5). Accuracies are averaged first, then the
quotient is formed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from gauntlet.analysis.frames import comparable, one_each, require_columns, unit_columns
from gauntlet.errors import unknown_name
from gauntlet.metrics.arithmetic import divide
from gauntlet.tasks import TASKS

REGIONS = {"inside": "M", "outside": "Mbar", "weighted": "P"}
"""What the suffixes of figures stand for; weighted: by an importance function."""
CENTRE = "centre"


def region_errors(frame: pd.DataFrame, reference: str | None = None) -> pd.DataFrame:
    """Accuracy (mAP for detectors) and relative errors of every threat with a region.

    Args:
        frame: tidy figures of a store.
        reference: a model of the frame; adds `reference`, its accuracy under the same threat in the same region, and
            `CE` against it.

    Returns:
        Tidy: the unit, kind, threat, description, region ("inside", "outside", "weighted"), accuracy, clean, RCE; no
        row for a region that is empty on every image.
    """
    require_columns(frame, ["threat", "kind", "description", "metric", "class_name"], "an analysis of regions")
    rows = comparable(frame[frame["class_name"].eq("")])
    keys = [*unit_columns(rows), "kind", "threat", "description"]
    parts = []
    for region, suffix in REGIONS.items():
        names = {f"{task.region_figure}_{suffix}": "accuracy" for task in TASKS.values()}
        names |= {f"{name}_clean": "clean" for name in names}
        here = rows[rows["metric"].isin(names)]
        here = one_each(here.assign(part=here["metric"].map(names)), [*keys, "part"])
        wide = here.set_index([*keys, "part"])["value"].unstack("part").reindex(columns=["accuracy", "clean"])
        # Weighted accuracies of whole images have no clean one beside them, nor has an empty region.
        parts.append(wide.dropna(subset=["clean"]).reset_index().assign(region=region))
    return _with_errors(pd.concat(parts, ignore_index=True), reference, ["threat", "region"])


def mean_over_corruptions(frame: pd.DataFrame, reference: str | None = None) -> pd.DataFrame:
    """The same for every set of localized corruptions that differ in nothing but their name: one row for their mean.

    Models that were run under different sets are not compared: the set is part of what is compared.

    Args:
        frame, reference: as for `region_errors`.

    Returns:
        Tidy: the unit, setting (what they share), corruptions (their names), region, accuracy, clean, RCE, and CE.
    """
    rows = region_errors(frame)
    rows = rows[rows["kind"].eq("localized")]
    described = rows["description"].map(_split_corruption)
    rows = rows.assign(setting=described.str[0], corruption=described.str[1])
    keys = [*unit_columns(rows), "setting", "region"]
    groups = rows.groupby(keys, sort=False, dropna=False)
    names = groups["corruption"].agg(lambda values: ", ".join(sorted(set(values))))
    means = groups[["accuracy", "clean"]].mean()
    table = means.assign(corruptions=names).reset_index()
    return _with_errors(table, reference, ["setting", "corruptions", "region"])


def position_differences(frame: pd.DataFrame) -> pd.DataFrame:
    """RCE in the centre minus RCE elsewhere, of threats that differ in nothing but the position of their square.

    Args:
        frame: tidy figures of a store.

    Returns:
        Tidy: the unit, kind, threat (the one in the centre), region, position, centre and elsewhere (RCE each), and
        difference.
    """
    rows = region_errors(frame)
    described = rows["description"].map(_split_position)
    rows = rows.assign(setting=described.str[0], position=described.str[1]).dropna(subset=["position"])
    keys = [*unit_columns(rows), "kind", "region", "setting"]
    at_centre = rows["position"].eq(CENTRE)
    centre = rows[at_centre].rename(columns={"RCE": "centre"})[[*keys, "threat", "centre"]]
    elsewhere = rows[~at_centre].rename(columns={"RCE": "elsewhere"})[[*keys, "position", "elsewhere"]]
    pairs = centre.merge(elsewhere, on=keys)
    return pairs.assign(difference=pairs["centre"] - pairs["elsewhere"]).drop(columns="setting")


def _with_errors(table: pd.DataFrame, reference: str | None, shared: list[str]) -> pd.DataFrame:
    """Adds RCE, and CE against a model; `shared` says which of its rows belongs to a row."""
    table = table.assign(RCE=divide(table["clean"] - table["accuracy"], table["clean"]))
    if reference is None:
        return table
    if reference not in set(table["model"]):
        raise unknown_name("model", reference, sorted(set(table["model"])))
    keys = [column for column in unit_columns(table) if column not in ("model", "model_digest")] + shared
    base = table[table["model"].eq(reference)].rename(columns={"accuracy": "reference"})
    table = table.merge(base[[*keys, "reference"]].drop_duplicates(keys, keep="last"), on=keys, how="left")
    return table.assign(CE=divide(table["reference"] - table["accuracy"], table["reference"]))


def _split_corruption(description: str) -> tuple[str, str]:
    """What localized corruptions share, in words, and the name of this one."""
    ((_, options),) = json.loads(description).items()
    own = dict(options["corruption"])
    name = str(own.pop("name"))
    return _words({**own, **{key: value for key, value in options.items() if key != "corruption"}}), name


def _split_position(description: str) -> tuple[str, str | None]:
    """A description without the position of its square, and that; None where it has none."""
    ((kind, options),) = json.loads(description).items()
    square = (options.get("region") or {}).get("square") if isinstance(options, Mapping) else None
    if square is None:
        return description, None
    position = square.pop("position", CENTRE)
    return json.dumps({kind: options}, sort_keys=True), str(position)


def _words(options: Mapping[str, Any]) -> str:
    """Settings as they stand in names: "severity 3 ratio 0.5 patch quarter"; usual ones are left out."""
    return " ".join(
        f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in options.items()
        if value not in (None, "", "bernoulli", "fast", "rgb", "metric")
    )

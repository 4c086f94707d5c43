"""ReM and GAM from their members, for stored and for published figures (docs/specs/metrics.md, 6)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gauntlet.analysis.frames import group_codes, union_of_flags, unit_columns
from gauntlet.analysis.scoring.benchmark_sets import ATTACKS, C_BAR, CORRUPTION_FAMILIES, CORRUPTIONS, DEPTH_CORRUPTIONS
from gauntlet.results.descriptions import grey_levels, is_plain, threat_settings


def rem(frame: pd.DataFrame, *, members: Sequence[str] | None = None) -> pd.DataFrame:
    """The reliability measure: per model and budget, the smallest dataset figure over the attacks.

    Args:
        frame: tidy figures of the store or the published ones.
        members: the attacks; by default PGD, SegPGD, CosPGD for segmentation and BIM, PGD for detection.

    Returns:
        Per unit and metric: summary ("linf-ReM^8_20", epsilon on the 0 to 255 scale), value, mean over the same
        attacks, worst (the attack that gave the value), members, missing; NaN unless every member has a figure.
    """
    return _summarise(frame, "attack", {None: ATTACKS if members is None else _for_any_task(members)})


def gam(frame: pd.DataFrame, *, members: Sequence[str] | None = None) -> pd.DataFrame:
    """The generalization ability measure: per model and severity, the smallest dataset figure over the corruptions.

    Args:
        frame: tidy figures of the store or the published ones.
        members: the corruptions; by default the 15 common ones for segmentation, with 8 three-dimensional ones for
            detection. Of the store's own those in 3D that look at depth count with the benchmark's rule of it only
            (`depth_rule` "estimated"), as the suite `detecbench` runs them: another rule makes another corruption.

    Returns:
        As `rem`, with summary "GAM_3".
    """
    return _summarise(frame, "corruption", {None: CORRUPTIONS if members is None else _for_any_task(members)})


def corruption_families(frame: pd.DataFrame) -> pd.DataFrame:
    """As `gam`, for every family of corruptions: "noise_3", "blur_3", "weather_3", "digital_3", "c-bar_3"."""
    families = {**CORRUPTION_FAMILIES, "c-bar": C_BAR}
    return _summarise(frame, "corruption", {name: _for_any_task(members) for name, members in families.items()})


def _for_any_task(members: Sequence[str]) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(ATTACKS, tuple(members))


def _summarise(frame: pd.DataFrame, kind: str, sets: dict[str | None, dict[str, tuple[str, ...]]]) -> pd.DataFrame:
    """Minimum and mean over sets of members, for every unit, metric and budget; a set's name stands for "GAM"."""
    rows, members = plain_members(frame, kind)
    keys = [*unit_columns(rows), "metric", "summary"]
    parts = []
    for name, members_of in sets.items():
        for task, of_task in rows.assign(member=members).groupby("task", sort=False):
            wanted = members_of[str(task)]
            part = of_task[of_task["member"].isin(wanted)]
            if part.empty:
                continue
            result = _summarise_members(part, keys, wanted)
            if name is not None:
                result["summary"] = result["summary"].str.replace("GAM", name)
            parts.append(result)
    columns = [*keys, "value", "mean", "worst", "members", "missing", "flag"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def plain_members(frame: pd.DataFrame, kind: str) -> tuple[pd.DataFrame, pd.Series]:
    """The figures that may enter a summary, with its notation in `summary`; and the member that each belongs to.

    They are of whole images, of the model's own attacks, and of the benchmark's rule of depth.
    """
    rows = frame[frame["kind"].eq(kind)]
    rows = rows[_each_description(rows["description"], is_plain) & ~_has_own_depth(rows)]
    if "class_name" in rows:
        rows = rows[rows["class_name"].eq("")]
    names, settings = _budgets(rows, kind)
    own = settings["source_model"].eq("")  # not transferred from another model
    return rows.assign(summary=names)[own], settings.loc[own, kind]


def members_of(frame: pd.DataFrame, summary: str) -> list[str]:
    """The threats over which a ReM or GAM of a frame is the smallest figure; none for any other name."""
    names: dict[str, None] = {}
    for kind, sets in (("attack", ATTACKS), ("corruption", CORRUPTIONS)):
        rows, members = plain_members(frame, kind)
        wanted = [member in sets[str(task)] for member, task in zip(members, rows["task"], strict=True)]
        names |= dict.fromkeys(rows.loc[rows["summary"].eq(summary) & np.array(wanted, bool), "threat"])
    return [str(name) for name in names]


def _has_own_depth(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """(n,) whether a figure of the store is of a corruption that read depth in another way than the benchmark.

    Published figures, which have no key, do not say how depth was read: it is the benchmark's way.
    """
    if "key" not in rows:
        return np.zeros(len(rows), bool)
    stored = (rows["key"].notna() & rows["key"].ne("")).to_numpy(bool)
    return stored & _each_description(rows["description"], _reads_depth_in_its_own_way)


def _reads_depth_in_its_own_way(description: Mapping[str, Any]) -> bool:
    options = description.get("corruption", {})
    return options.get("name") in DEPTH_CORRUPTIONS and options.get("depth_rule") != "estimated"


def _each_description(descriptions: pd.Series, test: Callable[[Mapping[str, Any]], bool]) -> npt.NDArray[np.bool_]:
    """(n,) what a test says about every description; each different one is read once."""
    codes, unique = pd.factorize(descriptions)
    return np.array([test(json.loads(text) if text else {}) for text in unique], bool)[codes]


def _budgets(rows: pd.DataFrame, kind: str) -> tuple[pd.Series, pd.DataFrame]:
    """The published notation of every row's budget, and its settings."""
    codes, unique = pd.factorize(rows["description"])
    settings = threat_settings(pd.DataFrame({"description": unique}))
    if kind == "attack":
        names = [
            f"{norm}-ReM^{grey_levels(epsilon):g}_{steps:g}"
            for norm, epsilon, steps in settings[["norm", "epsilon", "steps"]].itertuples(index=False)
        ]
    else:
        names = [f"GAM_{severity:g}" for severity in settings["severity"]]
    notation = pd.Series(names, dtype=object).take(codes).set_axis(rows.index)
    return notation, settings.take(codes).set_axis(rows.index)


def _summarise_members(rows: pd.DataFrame, keys: list[str], wanted: tuple[str, ...]) -> pd.DataFrame:
    """Smallest and mean figure over the members, one row per key; NaN unless every member has a figure."""
    result, groups = group_codes(rows, keys)
    members = pd.Index(wanted).get_indexer(pd.Index(rows["member"]))
    figures = rows["value"].to_numpy(float)
    values = np.full((len(result), len(wanted)), np.nan)  # (units, members)
    # An attack that was run twice with one budget (two step sizes) counts with its stronger run: the last one written.
    order = np.argsort(-figures, kind="stable")
    order = order[~np.isnan(figures[order])]
    values[groups[order], members[order]] = figures[order]
    present = ~np.isnan(values)
    smallest = np.where(present, values, np.inf).argmin(axis=1)
    labels = np.array(wanted, dtype=object)
    patterns, pattern = np.unique(present, axis=0, return_inverse=True)
    return result.assign(
        value=values.min(axis=1),
        mean=values.mean(axis=1),
        worst=np.where(present.all(axis=1), labels[smallest], ""),
        members=np.array([", ".join(labels[each]) for each in patterns], dtype=object)[pattern.ravel()],
        missing=np.array([", ".join(labels[~each]) for each in patterns], dtype=object)[pattern.ravel()],
        flag=union_of_flags(rows, groups, len(result)),
    )

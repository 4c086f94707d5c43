"""Wide tables of figures, one row per model and dataset: what studies set against each other."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import pandas as pd

from gauntlet import analysis
from gauntlet.analysis.frames import unit_columns
from gauntlet.errors import GauntletError
from gauntlet.numbers import parse_number
from gauntlet.report.sections.error_types import MADE_UP

LINF, L2, GAM, MEAN = "linf-ReM^8_20", "l2-ReM^64_20", "GAM_3", "mean of GAM_3"
ATTACKS = tuple(
    f"{name} {norm} {epsilon} x20"
    for norm, epsilon in (("linf", "8/255"), ("l2", "64/255"))
    for name in ("pgd", "segpgd", "cospgd")
)
"""The six attacks of SemSegBench by their names in tables."""
METRICS = ("mIoU", "mAcc", "aAcc")
TYPE, PAPER_TYPE = "backbone_type", "backbone_in_the_paper"
"""Whether a backbone is a convolution or a transformer: what it is, and what SemSegBench's text counts it as."""


def score_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Every score and every threat of a model in one row; `retained` is GAM over clean, `gap` clean minus GAM."""
    table = analysis.scores(frame)
    threats = analysis.threat_table(frame)
    keys = [name for name in unit_columns(table) if name in threats]
    new = [name for name in threats if name not in table]
    table = table.merge(threats[[*keys, *new]], on=keys, how="left")
    if TYPE in table and "backbone" in table:
        intern = table["backbone"].astype(str).str.startswith("internimage")
        table[PAPER_TYPE] = table[TYPE].mask(intern, "transformer")
    for name, score in (("gap", GAM), ("l2 gap", L2), ("linf gap", LINF)):
        if score in table:
            table[name] = table["clean"] - table[score]
    if GAM in table:
        table["retained"] = table[GAM] / table["clean"]
    return table


DETECTOR_STEP = 0.01
"""The step size of DetecBench's attacks on the 0 to 1 scale, that of FGSM too."""


def detector_table(frame: pd.DataFrame) -> pd.DataFrame:
    """As `score_table` with DetecBench's attacks known by their settings."""
    return score_table(_detecbench_names(frame))


def error_table(frame: pd.DataFrame) -> pd.DataFrame:
    """What detectors make up and lose: columns such as "clean disappeared", "fog 3 hallucinated_per_image"."""
    told = frame["metric"].isin((MADE_UP, LOST))
    return metric_table(_detecbench_names(frame), (MADE_UP, LOST)) if told.any() else frame[told]  # nothing to draw


LOST = "disappeared"
"""The share of the objects without a box; MADE_UP are the boxes per image without an object."""


def _detecbench_names(frame: pd.DataFrame) -> pd.DataFrame:
    """Figures with DetecBench's attacks under the names of its tables: a store names them by what is not usual.

    "fgsm linf 8/255 x1 alpha 0.01" and "pgd linf 8/255 x20 random_start False" lose their last words; where a model has
    an attack with other settings under the plain name, the published settings count.
    """
    names = [
        _detecbench_name(text) if kind == "attack" and text else ""
        for kind, text in zip(frame["kind"], frame["description"], strict=True)
    ]
    own = pd.Series(names, index=frame.index, dtype=object)
    named = frame["threat"].where(own.eq(""), own)
    place = (
        frame[[name for name in ("model", "dataset", "metric", "view") if name in frame]]
        .astype(str)
        .agg("|".join, axis=1)
        + "|"
        + named
    )
    shadowed = own.eq("") & place.isin(set(place[own.ne("")]))
    return frame.assign(threat=named)[~shadowed]


def _detecbench_name(description: str) -> str:
    """The plain name of an attack with DetecBench's settings, "" for others."""
    attack = json.loads(description).get("attack", {})
    epsilon, alpha = (attack.get(name) for name in ("epsilon", "alpha"))
    usual = attack.get("norm") == "linf" and not attack.get("random_start") and attack.get("target") is None
    if not usual or attack.get("name") not in ("fgsm", "bim", "pgd") or None in (epsilon, alpha):
        return ""
    if not math.isclose(parse_number(alpha, "alpha"), DETECTOR_STEP):
        return ""
    level = f"{255 * parse_number(epsilon, 'epsilon'):g}"
    return f"{attack['name']} linf {level}/255 x{attack.get('steps', 1)}"


def metric_table(frame: pd.DataFrame, metrics: Sequence[str] = METRICS) -> pd.DataFrame:
    """As `score_table` for several metrics: columns "clean mIoU", "clean mAcc", ..."""
    parts = []
    for metric in metrics:
        rows = frame[frame["metric"].eq(metric)]
        if rows.empty:
            continue
        table = analysis.threat_table(rows, metric)
        keys = unit_columns(table)
        table = table.set_index(keys)
        summary = analysis.gam(rows)
        summary = summary[summary["summary"].eq(GAM)]
        if len(summary):
            table = table.join(summary.set_index(keys)["mean"].rename(MEAN))
        parts.append(table.add_suffix(f" {metric}"))
    if not parts:
        raise GauntletError(f"there are no figures in {', '.join(metrics)}.")
    return pd.concat(parts, axis=1).reset_index()


def dataset_table(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per network, a column per score and dataset: "clean ade20k", "GAM_3 cityscapes".

    Checkpoints of one network on two datasets have names of their own, and are one network where architecture and
    backbone are the same. Where a dataset of a store has several such checkpoints, trained in several ways, or where
    the architecture is not known, the name tells them apart; published ones (two crop sizes) count with their mean.
    """
    on = ["architecture", "backbone"] if "architecture" in frame else ["model"]
    frame = _told_apart(frame)
    parts = []
    known = analysis.scores(frame)
    for score in ("clean", LINF, L2, GAM):
        if score in known:
            table = analysis.scores_by_dataset(frame, score, on=on).set_index(on)
            parts.append(table.add_prefix(f"{score} "))
    table = pd.concat(parts, axis=1).reset_index()
    return table.assign(dataset="all", model=table[on].astype(str).agg("/".join, axis=1).str.rstrip("/"))


def _told_apart(frame: pd.DataFrame) -> pd.DataFrame:
    """The figures with a model's name in the place of an architecture that is not known or that several models have."""
    if "architecture" not in frame or "source" in frame:  # without facts, or published
        return frame
    architecture, backbone = (frame[name].fillna("").astype(str) for name in ("architecture", "backbone"))
    pair = architecture + "/" + backbone
    several = frame["model"].groupby([pair, frame["dataset"]]).transform("nunique").gt(1).groupby(pair).transform("any")
    by_name = several | architecture.eq("")
    return frame.assign(architecture=architecture.mask(by_name, frame["model"]), backbone=backbone.mask(by_name, ""))


def label(score: str) -> str:
    """A score's name for a reader."""
    names = {
        MEAN: "mean of corruptions",
        "retained": "GAM_3 / clean",
        "acdc all": "ACDC",
        "gap": "clean - GAM_3",
        "l2 gap": f"clean - {L2}",
        "linf gap": f"clean - {LINF}",
    }
    return names.get(score, score.replace(MEAN, "mean of corruptions"))

"""What can be compared: the evaluations of one task on the same images, with a name of its own for every model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gauntlet.analysis.frames import MAIN_METRIC, is_older, one_name_each
from gauntlet.analysis.order import in_order
from gauntlet.analysis.scoring.shared_threats import shared_threats
from gauntlet.metrics.arithmetic import divide
from gauntlet.numbers import counted
from gauntlet.report.image_figures import Images
from gauntlet.report.naming import slug
from gauntlet.report.tables import Interval
from gauntlet.results.model_names import Identified, distinct_names
from gauntlet.tasks import DETECTION

MINIMUM = "minimum"
"""An attack without a budget: it always wins in the end, and its size is its figure."""
KIND_ORDER = (
    *("clean", "corruption", "weather", "localized", "geometric", "geometric_worst"),
    *("attack", "universal", "patch", "transfer", "region_aware", "battery", MINIMUM),
)
KIND_WORDS = {
    "corruption": ("corruption", "Corruptions"),
    "weather": ("weather", "Real weather"),
    "localized": ("localized corruption", "Localized corruptions"),
    "geometric": ("move of the camera", "Moves of the camera"),
    "geometric_worst": ("view of many", "The worst of many views"),
    "attack": ("attack", "Attacks"),
    "universal": ("universal perturbation", "Universal perturbations"),
    "patch": ("patch", "Patches"),
    "region_aware": ("region-aware attack", "Region-aware attacks"),
    "battery": ("battery of attacks", "Batteries of attacks"),
    "transfer": ("transferred attack", "Transferred attacks"),
    MINIMUM: ("smallest perturbation", "Smallest perturbations"),
}
_SCOPE = ["task", "dataset", "split", "images"]
_DATA = "dataset_digest"


def kind_word(kind: str) -> str:
    """A kind of threat in the singular."""
    return KIND_WORDS.get(kind, (kind.replace("_", " "), ""))[0]


def kind_title(kind: str) -> str:
    """A kind of threat as a heading."""
    return KIND_WORDS.get(kind, ("", kind.replace("_", " ").capitalize()))[1]


@dataclass(frozen=True)
class Scope:
    """Evaluations of one task on the same images.

    Attributes:
        task, dataset, split, images: what they share.
        data: the digest of the images where others of the same name, split and number are there too, else "".
        frame: their figures, tidy; `model` and `threat` are names that mean one thing each.
        metric: the figure that models are ranked by.
        trivial: figures of the trivial answer, `trivial_class` in every pixel, by name; empty in detection.
        trivial_class: the most frequent class.
        left_out: what the store has of older versions of a threat or of the metric, a sentence each.
    """

    task: str
    dataset: str
    split: str
    images: int
    frame: pd.DataFrame
    metric: str
    data: str = ""
    trivial: Mapping[str, float] = field(default_factory=dict)
    trivial_class: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        boxes, data = "-boxes" if self.task == DETECTION else "", f"-{self.data}" if self.data else ""
        return slug(f"{self.dataset}-{self.split}-{self.images}{boxes}{data}")

    @property
    def title(self) -> str:
        name = f"{self.dataset}/{self.split}" if self.split else self.dataset
        return f"{name} [{self.data}]" if self.data else name

    @property
    def digest(self) -> str:
        """The digest of the images, whether others are there or not."""
        return str(self.frame[_DATA].iloc[0])

    def read_in(self, metric: str) -> Scope:
        """The same evaluations, ranked by another figure."""
        return replace(self, metric=metric)

    @cached_property
    def analysis_frame(self) -> pd.DataFrame:
        """The figures as `gauntlet.analysis` reads them: the name says which seed and weights, so each counts once."""
        return self.frame.drop(columns=["seed", "digest", "address", "code", "precision"], errors="ignore")

    @cached_property
    def evaluations(self) -> pd.DataFrame:
        """One row per evaluation: key, model, threat, kind, description, created, ...

        Of two that differ in what was counted beside the figures (weights of pixels, objects), the one with more
        figures comes last.
        """
        columns = ["key", "model", "address", "digest", "threat", "kind", "description", "seed", "created", "duration"]
        return self.frame[columns].drop_duplicates("key").reset_index(drop=True)

    @cached_property
    def headline(self) -> pd.DataFrame:
        """The main figure of the whole image, one row per model and threat."""
        rows = self.frame
        rows = rows[rows["metric"].eq(self.metric) & rows["class_name"].eq("") & rows["view"].eq("all")]
        return rows.drop_duplicates(["model", "threat"], keep="last")

    @cached_property
    def models(self) -> list[str]:
        return list(dict.fromkeys(self.frame["model"]))

    @cached_property
    def threats(self) -> dict[str, str]:
        """Kind by threat, in the order of KIND_ORDER and then of the frame."""
        pairs = dict(zip(self.evaluations["threat"], self.evaluations["kind"], strict=True))
        order = {kind: index for index, kind in enumerate(KIND_ORDER)}
        return dict(sorted(pairs.items(), key=lambda pair: order.get(pair[1], len(order))))

    @cached_property
    def kinds(self) -> list[str]:
        """Kinds of threats with a figure of their own: not clean images, certificates, attacks without a budget."""
        return [kind for kind in dict.fromkeys(self.threats.values()) if kind not in ("clean", "certify", MINIMUM)]

    def of_kind(self, kind: str) -> list[str]:
        """Threats of a kind."""
        return [threat for threat, its_kind in self.threats.items() if its_kind == kind]

    @cached_property
    def matrix(self) -> pd.DataFrame:
        """The main figure: a row per model, a column per threat."""
        wide = self.headline.pivot(index="model", columns="threat", values="value")
        return wide.reindex(index=self.models, columns=list(self.threats))

    @cached_property
    def _intervals(self) -> dict[tuple[str, str], Interval]:
        rows = self.headline[["model", "threat", "value", "low", "high"]].itertuples(index=False)
        return {(str(model), str(threat)): Interval(value, low, high) for model, threat, value, low, high in rows}

    def latest_keys(self) -> dict[tuple[str, str], str]:
        """Key of the evaluation that counts, the last of `evaluations`, by model and threat."""
        rows = self.evaluations[["model", "threat", "key"]]
        return {(str(model), str(threat)): str(key) for model, threat, key in rows.itertuples(index=False)}

    def figure(self, model: str, threat: str) -> Interval:
        """The main figure of a model under a threat; NaN where it was not evaluated."""
        return self._intervals.get((model, threat), Interval(np.nan))

    def clean(self, model: str) -> Interval:
        """The clean figure of a model."""
        threats = self.of_kind("clean")
        return self.figure(model, threats[0]) if threats else Interval(np.nan)

    @property
    def floor(self) -> float:
        """The main figure of the trivial answer; 0 where it is not known."""
        value = self.trivial.get(self.metric, 0.0)
        return 0.0 if np.isnan(value) else value

    def ratio(self, model: str, threat: str, images: Mapping[tuple[str, str], Images]) -> Interval:
        """The main figure over the clean one, Arnab et al.'s IoU ratio; its interval is paired over the images.

        Args:
            model, threat: whose figure.
            images: of every evaluation, by model and threat; without those of both there is no interval.
        """
        value = float(divide(self.figure(model, threat).value, self.clean(model).value))
        attacked, clean = images.get((model, threat)), images.get((model, next(iter(self.of_kind("clean")), "")))
        if attacked is None or clean is None or not attacked.same_images(clean):
            return Interval(value)
        if self.metric != MAIN_METRIC[self.task]:
            return Interval(value)
        return Interval(value, *(attacked.estimate / clean.estimate).interval().bounds)

    @cached_property
    def _shared(self) -> dict[str, list[str]]:
        return {kind: shared_threats(self.matrix[self.of_kind(kind)]) for kind in self.kinds}

    def shared(self, kind: str) -> list[str]:
        """Threats of a kind that every model with any of the kind was run under: a worst case over them is fair."""
        return self._shared.get(kind, [])

    def worst(self, model: str, kind: str) -> tuple[str, Interval] | None:
        """The threat of a kind, of all that the model was run under, under which it does worst, and the figure."""
        return self._worst_of(model, self.of_kind(kind))

    def worst_shared(self, model: str, kind: str) -> tuple[str, Interval] | None:
        """The same among the threats that every model was run under: the worst case by which models are compared."""
        return self._worst_of(model, self.shared(kind))

    def _worst_of(self, model: str, threats: list[str]) -> tuple[str, Interval] | None:
        figures = {threat: self.figure(model, threat) for threat in threats}
        there = {threat: figure for threat, figure in figures.items() if not np.isnan(figure.value)}
        return min(there.items(), key=lambda pair: pair[1].value, default=None)


def scopes(frame: pd.DataFrame) -> list[Scope]:
    """Cuts the frame of a store into what can be compared, the largest first.

    Args:
        frame: as `Store.frame` gives it, all of it: a model is called the same wherever the store is shown.
    """
    cut = []
    frame = in_order(one_name_each(frame.assign(figures=frame.groupby("key")["key"].transform("size"))))
    names = distinct_names(zip(frame["model"], frame["model_digest"], strict=True))
    several = frame.groupby(_SCOPE)[_DATA].transform("nunique").gt(1)
    frame = frame.drop(columns="figures").assign(mark=frame[_DATA].str[:8].where(several, ""))
    for (task, dataset, split, images, mark), rows in frame.groupby([*_SCOPE, "mark"], sort=False):
        named, older = name_models(rows.drop(columns="mark"), names), is_older(rows)
        part = name_threats(named[~older])
        minimum = {text for text in part["description"].unique() if _has_no_budget(json.loads(text))}
        part = part.assign(kind=part["kind"].mask(part["description"].isin(minimum), MINIMUM)).reset_index(drop=True)
        metric = MAIN_METRIC.get(str(task), "mIoU")
        shared = str(task), str(dataset), str(split), int(str(images))
        cut.append(Scope(*shared, part, metric, str(mark), left_out=_left_out(named, older)))
    return sorted(cut, key=lambda scope: -len(scope.frame))


def _left_out(rows: pd.DataFrame, older: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    """What of a scope is of older versions, a sentence each.

    Args:
        rows: (n,) figures of the scope.
        older: (n,) which of them are left out.
    """
    if not older.any():
        return ()
    newest = rows.groupby(rows["kind"].eq("certify"))["metric_version"].transform("max")
    out = rows.assign(newest=newest)[older].drop_duplicates("key")
    of_metric = out["metric_version"].lt(out["newest"])
    sentences = [
        f"Left out: {counted(len(part), 'evaluation')} of {_models(part)} with figures of {_version(version)} of the "
        f"metric; the figures here are of version {latest}."
        for (version, latest), part in out[of_metric].groupby(["metric_version", "newest"])
    ]
    for (threat, version), part in out[~of_metric].groupby(["threat", "threat_version"], sort=False):
        same = rows["description"].isin(part["description"]) & rows["kind"].isin(part["kind"])
        latest = rows.loc[same, "threat_version"].max()
        sentences.append(
            f"Left out: {threat} of {_models(part)} in {_version(version)} of the threat; its figures here are of "
            f"version {latest}."
        )
    return tuple(sentences)


def _models(rows: pd.DataFrame) -> str:
    return ", ".join(dict.fromkeys(rows["model"]))


def _version(version: object) -> str:
    number = int(str(version))
    return f"version {number}" if number else "an unrecorded version"


def name_models(rows: pd.DataFrame, names: Mapping[Identified, str]) -> pd.DataFrame:
    """Gives every (model, weights, code, precision, seed) a name in `model`; the stored ones go to `address`, `digest`.

    Code, precision and seed are added where a model was run with several. The columns that are told by the name then
    are dropped, so that every analysis counts a model once.

    Args:
        rows: figures of one scope.
        names: of all models of the store, by name and digest.
    """
    columns = ["model", "model_digest", "code", "precision", "seed"]
    identities = rows[columns].drop_duplicates()
    same = identities.groupby(["model", "model_digest"])
    several_codes, several_precisions = (same[name].transform("nunique").gt(1) for name in ("code", "precision"))
    several_seeds = identities.groupby("model")["seed"].transform("nunique").gt(1)
    labels = {}
    for (model, digest, code, precision, seed), by_code, by_precision, by_seed in zip(
        identities.itertuples(index=False, name=None), several_codes, several_precisions, several_seeds, strict=True
    ):
        words = [f"code {str(code)[:8] or 'not recorded'}"] if by_code else []
        words += ([str(precision)] if by_precision else []) + ([f"seed {seed}"] if by_seed else [])
        labels[model, digest, code, precision, seed] = names[model, digest] + (
            f" ({', '.join(words)})" if words else ""
        )
    named = rows.rename(columns={"model": "address", "model_digest": "digest"})
    return named.assign(model=[labels[key] for key in rows[columns].itertuples(index=False, name=None)])


def name_threats(rows: pd.DataFrame) -> pd.DataFrame:
    """Gives every description a name of its own in `threat`: what differs is added where two share a name.

    The stored name stays in `stored_threat`.
    """
    pairs = rows[["threat", "description"]].drop_duplicates()
    labels = {}
    for threat, same in pairs.groupby("threat", sort=False):
        settings = {text: dict(_flatten(json.loads(text))) for text in same["description"]}
        for text, own in settings.items():
            words = [
                f"{key.rsplit('.', 1)[-1]} {value}"
                for key, value in own.items()
                if any(other.get(key) != value for other in settings.values())
            ]
            labels[threat, text] = f"{threat} ({', '.join(words)})" if len(settings) > 1 else str(threat)
    keys = zip(rows["threat"], rows["description"], strict=True)
    return rows.assign(stored_threat=rows["threat"], threat=[labels[key] for key in keys])


def _has_no_budget(description: Mapping[str, Any]) -> bool:
    options = description.get("attack")
    return isinstance(options, Mapping) and "epsilon" in options and options["epsilon"] is None


def _flatten(node: Mapping[str, Any], path: str = "") -> Iterable[tuple[str, str]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", f"{value:g}" if isinstance(value, float) else str(value)

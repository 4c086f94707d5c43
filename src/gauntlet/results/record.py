"""The Evaluation: what was asked, what came out, and how it was obtained."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from gauntlet.datasets.contents import TRUSTED
from gauntlet.errors import GauntletError
from gauntlet.metrics.contract import NAN, Figure, Metric
from gauntlet.notebooks import facts_table
from gauntlet.numbers import counted, json_number
from gauntlet.registry import import_target
from gauntlet.tasks import TASKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


RECORDED = ("contents", "meaning")
"""Fields of a dataset's identity that versions 0.1.0 and 0.2.0 did not record."""


@dataclass(frozen=True)
class Job:
    """One (model, dataset, threat) to evaluate; everything that decides the figures.

    Attributes:
        task: "segmentation" or "detection" (`gauntlet.tasks`).
        model, model_digest: identity of the model.
        dataset: identity of the dataset, JSON-able (name, split, length, ids, protocol, contents, meaning).
        threat: short readable name of the threat.
        kind: the first key of the description ("clean", "attack", "corruption", ...).
        description: canonical description of the threat.
        threat_version: version of the threat's implementation.
        seed: of the run.
        settings: what else changes figures beyond rounding (precision, importance); empty by default.
        stored_name: of the model in the key where that is not `model`.
        code: digest of the model's code and attributes; "" where nobody recorded it.
        used: digest of code and files that the threat and the settings only name; "" for none.
    """

    task: str
    model: str
    model_digest: str
    dataset: Mapping[str, Any]
    threat: str
    kind: str
    description: Mapping[str, Any]
    threat_version: int
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    stored_name: str | None = None
    code: str = ""
    used: str = ""

    @cached_property
    def key(self) -> str:
        """Digest of everything above but the readable names: same key, same figures."""
        return _digest({**self._without_dataset, "dataset": dict(self.dataset)}, 32)

    @cached_property
    def unrecorded(self) -> Job:
        """The same without contents of data and files and without code: its key is that of versions 0.1.0 and 0.2.0."""
        dataset = {name: value for name, value in self.dataset.items() if name not in RECORDED}
        return replace(self, dataset=dataset, code="", used="")

    @cached_property
    def family(self) -> str:
        """Digest of everything but which images there are: an image has the same counts in all jobs of a family.

        "" where contents or code are not recorded, or the contents are trusted.
        """
        contents = self.dataset.get("contents", "")
        if not contents or contents == TRUSTED or not self.code:
            return ""
        protocol = {name: value for name, value in self.dataset["protocol"].items() if name != "content"}
        same = {"name": self.dataset["name"], "meaning": self.dataset["meaning"], "protocol": protocol}
        return _digest({**self._without_dataset, "dataset": same}, 32)

    @property
    def _without_dataset(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "model": [self.stored_name or self.model, self.model_digest, *([self.code] if self.code else [])],
            "threat": dict(self.description),
            "version": self.threat_version,
            "seed": self.seed,
            "settings": dict(self.settings),
            **({"used": self.used} if self.used else {}),
        }


@dataclass(frozen=True)
class Recorded:
    """What versions 0.1.0 and 0.2.0 did not record of an evaluation.

    Attributes:
        key: with contents and code.
        dataset: identity of the dataset with its contents.
        threat_version, code, family: as in the Job.
    """

    key: str
    dataset: Mapping[str, Any]
    threat_version: int
    code: str
    family: str

    @classmethod
    def of(cls, job: Job) -> Recorded:
        """What is recorded of a job."""
        return cls(job.key, dict(job.dataset), job.threat_version, job.code, job.family)


@dataclass(frozen=True)
class ImageRow:
    """Counts of one image as the store keeps them.

    Attributes:
        position: of the image in the dataset.
        image_id: its id.
        counts: the encoded counts of its metric.
        details: what the threat reported.
        digest: of the image and its ground truth as they were read; "" where nobody recorded it.
    """

    position: int
    image_id: str
    counts: bytes
    details: Mapping[str, Any]
    digest: str = ""


def read_counts(metric: Metric, row: ImageRow) -> Any:
    """The counts of an image as the metric has them; an error where the bytes are no counts."""
    try:
        return metric.decode(row.counts)
    except Exception as error:  # bytes without a checksum may be anything, and every metric has its own way to read
        raise GauntletError(
            f"the counts of the image '{row.image_id}' are damaged ({type(error).__name__}); 'gauntlet run --again' "
            "computes the evaluation anew."
        ) from error


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation.

    Attributes:
        key: digest of what was evaluated.
        task, model, dataset, split, threat, kind, description, seed, images: as in the Job.
        all_figures: every figure, also per class and per view.
        provenance: package and torch versions, device, batch size, threads, command, and where the model and the images
            came from (`results.origin`).
        duration: seconds of computing, over all sessions that worked on it.
        created: UTC time of the start, ISO 8601.
        from_store: whether it was read from a store, or from published figures, rather than computed.
        dataset_identity: which images: name, split, length, digest of their ids, protocol; empty for published figures.
        threat_version, metric_version: of the implementations that made the counts and the figures.
        code: digest of the model's code and attributes; "" where nobody recorded it.
        members: of a family of threats (fifteen corruptions, the conditions of ACDC) the evaluations by name, whose
            means the figures then are (`results.families`); empty for one threat.
    """

    key: str
    task: str
    model: str
    model_digest: str
    dataset: str
    split: str
    threat: str
    kind: str
    description: Mapping[str, Any]
    seed: int
    images: int
    views: Sequence[str]
    all_figures: Sequence[Figure]
    provenance: Mapping[str, Any]
    duration: float
    created: str
    from_store: bool = False
    dataset_identity: Mapping[str, Any] = field(default_factory=dict)
    threat_version: int = 1
    metric_version: int = 1
    code: str = ""
    members: Mapping[str, Evaluation] = field(default_factory=dict)
    _per_image: Callable[[], pd.DataFrame] | None = field(default=None, repr=False, compare=False)

    @property
    def dataset_digest(self) -> str:
        """Short form of the dataset's identity: figures with the same one are of the same images."""
        return dataset_digest(self.dataset_identity)

    @property
    def contents(self) -> str:
        """Digest of the contents of the data, or "" if it was not recorded."""
        return str(self.dataset_identity.get("contents", ""))

    @property
    def figures(self) -> dict[str, float]:
        """Headline figures by name: fractions in [0, 1]."""
        return {f.metric: f.value for f in self.all_figures if f.view == "all" and not f.class_name}

    @property
    def minimum(self) -> dict[str, float]:
        """The smallest headline figures among the members of a family; the figures themselves for one threat.

        Of fifteen corruptions at one severity this is GAM (docs/specs/corruptions.md, 5). NaN unless every member has a
        figure: the one without may be the smallest.
        """
        if not self.members:
            return self.figures
        rows = [each.figures for each in self.members.values()]
        return {
            name: NAN if math.isnan(mean) else min(row[name] for row in rows) for name, mean in self.figures.items()
        }

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """95 % intervals over images of the headline figures that have one; from 8 images on."""
        return {
            f.metric: (f.low, f.high)
            for f in self.all_figures
            if f.view == "all" and not f.class_name and not math.isnan(f.low)
        }

    @property
    def per_class(self) -> pd.DataFrame:
        """One row per class, one column per per-class metric."""
        rows = [(f.class_name, f.metric, f.value) for f in self.all_figures if f.class_name and f.view == "all"]
        frame = pd.DataFrame(rows, columns=["class", "metric", "value"])
        return frame.pivot(index="class", columns="metric", values="value").reindex(frame["class"].unique())

    @property
    def per_image(self) -> pd.DataFrame:
        """One row per image and view: accuracy, mIoU and what the threat reported."""
        if self._per_image is None:
            return pd.DataFrame()
        return self._per_image()

    @property
    def headline(self) -> dict[str, float]:
        """The figures that tables show of its task, the main one first: fractions; empty where it has none of them."""
        figures = self.figures
        return {name: figures[name] for name in TASKS[self.task].figures if name in figures}

    @property
    def headline_text(self) -> str:
        """The main figure as a text, in percent, with its interval where it has one; else the names of its figures."""
        if not self.headline:
            return ", ".join(self.figures) or "no figures"
        name, value = next(iter(self.headline.items()))
        bounds = self.intervals.get(name)
        interval = "" if bounds is None else f" [{100 * bounds[0]:.1f}, {100 * bounds[1]:.1f}]"
        return f"{name} {100 * value:.1f} %{interval}"

    def plot(self, axes: Axes | None = None) -> Axes:
        """Bars of the figure of every class, drawn with Matplotlib (the extra `figures`).

        Args:
            axes: where to draw; new axes of pyplot by default.
        """
        drawn: Axes = import_target("gauntlet.report.evaluation_chart:plot_evaluation")(self, axes)
        return drawn

    def __repr__(self) -> str:
        images = counted(self.images, "image")
        place = f"{self.dataset}/{self.split}" if self.split else self.dataset
        return f"<Evaluation of {self.model} on {place} ({images}) under {self.threat}: {self.headline_text}>"

    def _repr_html_(self) -> str:
        facts = {
            "dataset": self.dataset,
            "split": self.split,
            "images": self.images or None,
            "threat": self.threat,
            **{name: f"{100 * value:.1f} %" for name, value in self.headline.items()},
            "read from": "a store, or published figures" if self.from_store else None,
            "key": self.key,
        }
        return facts_table(f"Evaluation of {self.model}", facts)

    def as_dict(self) -> dict[str, Any]:
        """A JSON-able form: NaN becomes null, an infinite figure (NLL) the text "Infinity"."""
        return {
            "key": self.key,
            "task": self.task,
            "model": self.model,
            "model_digest": self.model_digest,
            "dataset": self.dataset,
            "split": self.split,
            "dataset_identity": dict(self.dataset_identity),
            "threat": self.threat,
            "description": dict(self.description),
            "seed": self.seed,
            "images": self.images,
            "figures": {name: json_number(value) for name, value in self.figures.items()},
            "intervals": {name: [json_number(bound) for bound in bounds] for name, bounds in self.intervals.items()},
            "per_class": {
                f"{f.metric}/{f.class_name}": json_number(f.value)
                for f in self.all_figures
                if f.class_name and f.view == "all"
            },
            "views": {
                view: {f.metric: json_number(f.value) for f in self.all_figures if f.view == view and not f.class_name}
                for view in dict.fromkeys(f.view for f in self.all_figures if f.view != "all")
            },
            **({"members": {name: each.as_dict() for name, each in self.members.items()}} if self.members else {}),
            "from_store": self.from_store,
            "duration_seconds": self.duration,
            "created": self.created,
            "provenance": dict(self.provenance),
        }


def dataset_digest(identity: Mapping[str, Any]) -> str:
    """Digest of the identity of a dataset, "" where there is none (published figures)."""
    return _digest(dict(identity), 16) if identity else ""


def _digest(content: Mapping[str, Any], length: int) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:length]

"""Which public checkpoint stands for a model of the published benchmarks: a table, and how to look things up in it.

`models.csv` has one row per model. `source` is an address for `load_model` (hub names that are known to exist; nothing
is made up), `openmmlab_config` and `openmmlab_weights` name what OpenMMLab (or InternImage's authors, on its framework)
publish, `openmmlab_match` says whether those weights score what the benchmark reports on clean images: "exact" (within
0.02 points), "near" (0.15), "other", or "unknown" where the benchmark reports nothing. `note` says how the checkpoint
of `source` differs from the benchmark's.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.zoo.spelling import (
    canonical_architecture,
    canonical_backbone,
    canonical_crop_size,
    canonical_dataset,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ZooEntry", "entries", "entry_of", "find", "frame"]

_LIBRARIES = {"segmentation": "mmseg", "detection": "mmdet"}
# Networks of InternImage's authors: their code and its compiled operators are in no package.
_OWN_CODE = "huggingface.co/OpenGVLab"


@dataclass(frozen=True)
class ZooEntry:
    """One model of a benchmark, or a public one beside them.

    Attributes:
        task: "segmentation" or "detection".
        model_name, backbone, dataset: the triple that names it.
        crop_size: HEIGHTxWIDTH it was trained on, or "" where that is not known.
        benchmark: "semsegbench", "detecbench", or "" for a public checkpoint that neither has.
        benchmark_label: what DetecBench's tables of figures call it ("TOOD_R-101-dcnv2"), or "" where they lack it.
        architecture: the name as printed.
        date: as the benchmark dates it.
        source: an address for `load_model`, or "" when no public checkpoint is known to the loaders.
        openmmlab_config: name of the configuration on OpenMMLab's framework, or "".
        openmmlab_weights: where its weights are, or "".
        openmmlab_match: "exact", "near", "other", "unknown" or "": see the module.
        openmmlab_figure: the clean mIoU or box mAP that OpenMMLab publishes for those weights, in percent, or "".
        benchmark_figure: the one that the benchmark reports, in percent, or "".
        note: how the checkpoint of `source` differs from the benchmark's, and what else to know.
    """

    task: str
    model_name: str
    backbone: str
    dataset: str
    crop_size: str
    benchmark: str
    benchmark_label: str
    architecture: str
    date: str
    source: str
    openmmlab_config: str
    openmmlab_weights: str
    openmmlab_match: str
    openmmlab_figure: str
    benchmark_figure: str
    note: str

    @property
    def title(self) -> str:
        """The triple in words."""
        return f"{self.model_name} with {self.backbone} on {self.dataset}"

    @property
    def openmmlab_address(self) -> str | None:
        """The address of the OpenMMLab configuration, or None."""
        return f"{_LIBRARIES[self.task]}:{self.openmmlab_config}" if self.openmmlab_config else None

    @property
    def address(self) -> str | None:
        """What `load_model` is to be given: the source, else the OpenMMLab configuration, else None."""
        return self.source or self.openmmlab_address

    @property
    def openmmlab_options(self) -> dict[str, str]:
        """The options that go with the address of the OpenMMLab configuration."""
        return {"checkpoint": self.openmmlab_weights} if self.openmmlab_weights else {}

    @property
    def options(self) -> dict[str, str]:
        """The options that go with the address."""
        return {} if self.source else self.openmmlab_options

    @property
    def published_figure(self) -> float | None:
        """The published clean mIoU or mAP, between 0 and 1: the benchmark's, else OpenMMLab's, else None."""
        figure = self.benchmark_figure or self.openmmlab_figure
        return float(figure) / 100 if figure else None

    @property
    def loads(self) -> str:
        """How its weights are loaded, in a few words."""
        ways = [self.source.partition(":")[0]] if self.source else []
        if self.openmmlab_config:
            library = _LIBRARIES[self.task]
            if _OWN_CODE in self.openmmlab_weights:
                ways.append(f"{library} with InternImage's code")
            elif self.openmmlab_config.startswith("glip"):
                ways.append("no: needs a text encoder")
            else:
                ways.append(library if self.openmmlab_weights else f"{library} with your weights")
        return " or ".join(ways) or "no: nothing public is known"

    def require_address(self) -> str:
        """The address, or an error that says that no public checkpoint is known."""
        if self.address is None:
            raise GauntletError(
                f"no public checkpoint of {self.title} is known; give your own, for example "
                "load_model('script:PATH') or load_model('python:MODULE:FUNCTION')."
            )
        return self.address


@lru_cache(maxsize=1)
def entries() -> tuple[ZooEntry, ...]:
    """Every row of the table, in order."""
    text = (files(__name__) / "models.csv").read_text(encoding="utf-8")
    return tuple(ZooEntry(**row) for row in csv.DictReader(text.splitlines()))


def frame() -> pd.DataFrame:
    """The table as a DataFrame, with a column `address`."""
    import pandas as pd

    return pd.DataFrame([{**asdict(entry), "address": entry.address} for entry in entries()])


def find(model_name: str, backbone: str, dataset: str, *, crop_size: str | None = None) -> ZooEntry:
    """The entry of a triple; spelling is lenient ("DeepLabV3+", "ResNet-50", "Swin-Tiny").

    Where a benchmark has one triple with several crop sizes, the one with published weights comes first.

    Args:
        model_name: the architecture ("upernet").
        backbone: ("convnext-t").
        dataset: what it was trained on ("ade20k").
        crop_size: HEIGHTxWIDTH, to choose among several.
    """
    kept = _narrow(entries(), "zoo model", "model_name", model_name, "")
    kept = _narrow(kept, "backbone", "backbone", backbone, f" of the zoo model '{kept[0].model_name}'")
    kept = _narrow(kept, "dataset", "dataset", dataset, f" of the zoo's {kept[0].model_name} with {kept[0].backbone}")
    if crop_size is not None:
        kept = _narrow(kept, "crop size", "crop_size", crop_size, f" of {kept[0].title}")
    return kept[0]


def entry_of(address: str) -> ZooEntry | None:
    """The entry that an address loads, by its source or by the name of its OpenMMLab configuration; None for others."""
    prefix, _, rest = address.partition(":")
    name = rest.rsplit("/", 1)[-1].removesuffix(".py")
    for entry in entries():
        if address == entry.source or (prefix == _LIBRARIES[entry.task] and name == entry.openmmlab_config):
            return entry
    return None


def _dataset(name: str) -> str:
    # The table calls both VOC 2012 (of segmentation models) and VOC 2007 + 2012 (of detectors) "voc".
    return canonical_dataset(name).removesuffix("0712")


_SPELLINGS = {
    "model_name": canonical_architecture,
    "backbone": canonical_backbone,
    "dataset": _dataset,
    "crop_size": canonical_crop_size,
}


def _narrow(candidates: Sequence[ZooEntry], kind: str, field: str, wanted: str, where: str) -> list[ZooEntry]:
    """The candidates whose field is spelled as wanted, or an error that names the nearest."""
    canonical = _SPELLINGS[field]
    kept = [entry for entry in candidates if canonical(getattr(entry, field)) == canonical(wanted)]
    if not kept:
        known = dict.fromkeys(getattr(entry, field) for entry in candidates)
        raise unknown_name(f"{kind}{where}", wanted, [name for name in known if name])
    return kept

"""What a paper prints, as figures that the same claims and drawings read as those of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gauntlet.studies.figures import Figures, FloatArray

Place = tuple[str, str, str]
"""Model, label of the member, label of the threat."""


@dataclass(frozen=True)
class Printed(Figures):
    """Printed figures of a study, as fractions.

    Attributes:
        where: the tables that they stand in, "Tables 7 and 10, VOC".
        mious: by place; what is not there was not printed.
        ratios: IoU ratios that are printed as such.
        sizes: numbers of parameters by model.
        accuracies: mean accuracy of images by place and view ("all", "inside", "outside").
        of_views: figures by place, view and metric ("mIoU", "NmIoU", "aAcc", "mAcc").
        note: what else must be said about them.
        chosen: the model that claims and drawings are about; None for all of them.
    """

    where: str
    mious: Mapping[Place, float]
    ratios: Mapping[Place, float] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)
    accuracies: Mapping[tuple[Place, str], float] = field(default_factory=dict)
    of_views: Mapping[tuple[Place, str, str], float] = field(default_factory=dict)
    note: str = ""
    chosen: str | None = None
    source: str = "published"

    @property
    def models(self) -> Sequence[str]:  # type: ignore[override] # read, never set
        return self._labels(0)

    @property
    def members(self) -> Sequence[str]:  # type: ignore[override]
        return self._labels(1)

    def _labels(self, part: int) -> list[str]:
        of_views = (place for place, _, _ in self.of_views)
        places = (*self.ratios, *self.mious, *(place for place, _ in self.accuracies), *of_views)
        return list(dict.fromkeys(place[part] for place in places))

    def of(self, model: str) -> Printed:
        return replace(self, chosen=model)

    def miou(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        printed = self.mious.get((self._name(model), member, threat))
        return self._of_view("mIoU", member, threat, model, view) if printed is None else np.full(1, printed)

    def nmiou(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        return self._of_view("NmIoU", member, threat, model, view)

    def accuracy(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        return self._of_view("aAcc", member, threat, model, view)

    def class_accuracy(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        return self._of_view("mAcc", member, threat, model, view)

    def _of_view(self, metric: str, member: str, threat: str, model: str | None, view: str) -> FloatArray:
        return np.full(1, self.of_views.get(((self._name(model), member, threat), view, metric), np.nan))

    def ratio(self, member: str, threat: str, model: str | None = None) -> FloatArray:
        printed = self.ratios.get((self._name(model), member, threat))
        return super().ratio(member, threat, model) if printed is None else np.full(1, printed)

    def image_accuracy(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        return np.full(1, self.accuracies.get(((self._name(model), member, threat), view), np.nan))

    def parameters(self, member: str, model: str | None = None) -> float:
        return self.sizes.get(self._name(model), float("nan"))

"""The metric of certificates: certified accuracy and mIoU, abstention, radius, from the votes of every image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.class_numbers import check_void
from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import BoolArray, divide
from gauntlet.metrics.certification.testing import certified_radius, check_taus, check_testing, p_values, rejected
from gauntlet.metrics.certification.votes import Votes
from gauntlet.metrics.contract import Figure, Metric, metrics
from gauntlet.metrics.segmentation import estimates
from gauntlet.metrics.segmentation import figures as segmentation
from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.metrics.views import Views

VOTES, BASE = "majority", "clean"
"""Views beside those of each tau: the vote without abstention, and the base model without noise."""


@metrics.register("certification")
class CertificationMetric(Metric):
    """Certified figures of a smoothed model.

    A pixel that is not certified counts as wrong for accuracy and as missing for IoU. The level alpha holds per image:
    over M images the chances of a wrong certificate add up.

    Args:
        class_names: names of the K classes.
        ignore_index: the label that counts for nothing; such pixels are tested all the same, because labels are not
            known when a certificate is given.
        sigma: standard deviation of the noise, on the [0, 1] scale.
        tau: probabilities that are to be exceeded, one view of figures each; the first is the headline.
        alpha: level per image.
        correction: "holm", "bonferroni" or "none".
        tolerated: wrong pixels that are put up with.
    """

    def __init__(
        self,
        class_names: Sequence[str],
        ignore_index: int | None = 255,
        *,
        sigma: float,
        tau: Sequence[float] = (0.75,),
        alpha: float = 0.001,
        correction: str = "holm",
        tolerated: int = 0,
    ) -> None:
        super().__init__(class_names)
        check_void(ignore_index, len(self.class_names))
        check_taus(tau)
        check_testing(alpha, correction, tolerated)
        self.ignore_index, self.sigma, self.tau = ignore_index, sigma, tuple(tau)
        self.alpha, self.correction, self.tolerated = alpha, correction, tolerated

    def update(self, prediction: Votes, target: npt.NDArray[np.integer], region: BoolArray | None = None) -> Votes:
        if region is not None:
            raise GauntletError("certificates are of whole images; leave out the region.")
        labels = np.asarray(target, dtype=np.int64)
        if labels.shape != prediction.top.shape:
            raise GauntletError(f"the labels have the shape {labels.shape}, the votes {prediction.top.shape}.")
        classes = len(self.class_names)
        void = np.zeros(labels.shape, bool) if self.ignore_index is None else labels == self.ignore_index
        strange = labels[~void & ((labels < 0) | (labels >= classes))]
        if strange.size:
            raise GauntletError(f"a label is {int(strange[0])}, outside 0 to {classes - 1}; check ignore_index.")
        return replace(prediction, labels=np.where(void, classes, labels))  # void is the class after the last

    def decode(self, data: bytes) -> Votes:
        return Votes.from_bytes(data)

    def certified(self, votes: Votes, tau: float) -> npt.NDArray[np.bool_]:
        """(H, W): which pixels of an image are certified."""
        return rejected(p_values(votes.hits, votes.samples, tau), self.alpha, self.correction, self.tolerated)

    @property
    def view_names(self) -> list[str]:
        """The views that have counts: one per tau, the vote without abstention, the base model."""
        return [*(f"tau {tau:g}" for tau in self.tau), VOTES, BASE]

    def tables(self, counts: Iterable[Votes]) -> dict[str, CountTable]:
        """Counts of every image by view; in that of a tau a pixel without a certificate is predicted as no class."""
        names = self.view_names
        rows: dict[str, list[npt.NDArray[np.int64]]] = {name: [] for name in names}
        for votes in counts:
            everywhere = np.ones(votes.top.shape, bool)
            for name, tau in zip(names, self.tau, strict=False):
                rows[name].append(self._row(votes, votes.top, self.certified(votes, tau)))
            rows[VOTES].append(self._row(votes, votes.top, everywhere))
            rows[BASE].append(self._row(votes, votes.clean, everywhere))
        return {name: _table(part, len(self.class_names)) for name, part in rows.items()}

    def compute(self, counts: Iterable[Votes], views: Views) -> list[Figure]:
        names, tables = self.view_names, self.tables(counts)
        figures = self._certified_figures(tables[names[0]], self.tau[0], "all")
        for name, tau in zip(names, self.tau, strict=False):
            figures += self._certified_figures(tables[name], tau, name)
        for name in (VOTES, BASE):
            bounds = estimates.intervals(tables[name])
            values = {"aAcc": segmentation.pixel_accuracy(tables[name]), "mIoU": segmentation.cmiou(tables[name])}
            figures += [
                Figure(metric, value, name, low=bounds[metric][0], high=bounds[metric][1])
                for metric, value in values.items()
            ]
        return figures

    def per_image(self, counts: Votes, views: Views) -> list[dict[str, Any]]:
        table = _table([self._row(counts, counts.top, self.certified(counts, self.tau[0]))], len(self.class_names))
        return [
            {
                "view": "all",
                "accuracy": float(segmentation.image_accuracy(table)[0]),
                "mIoU": float(segmentation.image_iou(table)[0]),
                "abstention": float(_abstention(table)),
                "valid": int(table.valid[0]),
            }
        ]

    def _certified_figures(self, table: CountTable, tau: float, view: str) -> list[Figure]:
        bounds = estimates.intervals(table)
        values = {
            "certified_accuracy": (segmentation.pixel_accuracy(table), bounds["aAcc"]),
            "certified_mIoU": (segmentation.cmiou(table), bounds["mIoU"]),
        }
        figures = [Figure(name, value, view, low=low, high=high) for name, (value, (low, high)) in values.items()]
        named = zip(self.class_names, segmentation.class_iou(table), strict=True)
        figures += [Figure("certified_IoU", float(value), view, name) for name, value in named]
        figures.append(Figure("abstention", float(_abstention(table)), view))
        figures.append(Figure("radius", certified_radius(self.sigma, tau), view))
        return figures

    def _row(self, votes: Votes, said: npt.NDArray[np.integer], certified: BoolArray) -> npt.NDArray[np.int64]:
        """(3, K): pixels of every class that are certified and right, all of them, those certified as the class."""
        labels = votes.labels
        assert labels is not None
        counted = labels < len(self.class_names)
        parts = (
            labels[counted & certified & (said == labels)],
            labels[counted],
            said[counted & certified],
        )
        return np.stack([np.bincount(part.reshape(-1), minlength=len(self.class_names)) for part in parts])


def _table(rows: Sequence[npt.NDArray[np.int64]], classes: int) -> CountTable:
    stacked = np.array(rows, dtype=np.int64).reshape(-1, 3, classes)
    return CountTable(stacked[:, 0], stacked[:, 1], stacked[:, 2])


def _abstention(table: CountTable) -> float:
    """Share of the counted pixels without a certificate."""
    return 1.0 - float(divide(table.predicted.sum(), table.valid.sum()))

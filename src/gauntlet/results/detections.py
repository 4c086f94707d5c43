"""The detections that a store keeps, evaluation by evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gauntlet.metrics import DetectionMetric
from gauntlet.results.record import Evaluation, read_counts
from gauntlet.results.store import Store
from gauntlet.samples import Boxes


@dataclass(frozen=True)
class StoredDetections:
    """What a detector found under one threat.

    Attributes:
        evaluation: model, dataset, threat and figures.
        class_names: of the boxes.
        image_ids: of the N images.
        truths: objects of every image, moved where the threat moves them.
        detections: of every image, with scores; of a battery those under the worst attack of the image.
    """

    evaluation: Evaluation
    class_names: Sequence[str]
    image_ids: Sequence[str]
    truths: Sequence[Boxes]
    detections: Sequence[Boxes]


def stored_detections(store: Store) -> Iterator[StoredDetections]:
    """Every evaluation of a detector whose counts are kept, in the order of the store's keys."""
    keys = store.keys()
    for key in keys:
        evaluation, metric, started = store.load(key), store.metric(key), store.started(key)
        if evaluation is None or started is None or started.views is None or not isinstance(metric, DetectionMetric):
            continue
        rows = list(store.image_rows(started))
        pairs = metric.headline_pairs((read_counts(metric, row) for row in rows), started.views)
        if pairs:  # else figures without counts
            truths, detections = zip(*pairs, strict=True)
            yield StoredDetections(evaluation, metric.class_names, [row.image_id for row in rows], truths, detections)

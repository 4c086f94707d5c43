"""A metric of one figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gauntlet.metrics import Figure, Metric


class Agreement(Metric):
    """The share of images of which every pixel is right; counts are 1 or 0."""

    def __init__(self, class_names: Sequence[str]) -> None:
        self.class_names = tuple(class_names)

    def update(self, prediction: Any, target: Any, region: Any = None) -> int:
        """1 for an image without a wrong pixel."""
        return int((prediction == target).all())

    def decode(self, data: bytes) -> int:
        return int.from_bytes(data, "little")

    def compute(self, counts: Iterable[int], views: Any) -> list[Figure]:
        values = list(counts)
        return [Figure("agreement", sum(values) / len(values))]

    def per_image(self, counts: int, views: Any) -> list[dict[str, Any]]:
        return [{"view": "all", "agreement": counts}]

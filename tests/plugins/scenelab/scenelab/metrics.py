"""A metric of one figure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gauntlet.metrics import Figure, Metric, Views


@dataclass(frozen=True)
class Verdict:
    """The counts of one image: whether every pixel is right."""

    right: bool

    def to_bytes(self) -> bytes:
        return bytes([self.right])


class Agreement(Metric):
    """The share of images of which every pixel is right."""

    def update(self, prediction: Any, target: Any, region: Any = None) -> Verdict:
        return Verdict(bool((prediction == target).all()))

    def decode(self, data: bytes) -> Verdict:
        return Verdict(bool(data[0]))

    def compute(self, counts: Iterable[Verdict], views: Views) -> list[Figure]:
        verdicts = [each.right for each in counts]
        return [Figure("agreement", sum(verdicts) / len(verdicts))]

    def per_image(self, counts: Verdict, views: Views) -> list[dict[str, Any]]:
        return [{"view": "all", "agreement": counts.right}]

"""Finished evaluations, told to experiment trackers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from gauntlet.results.record import Evaluation
from gauntlet.results.tracking import Tracker, open_tracker


@dataclass
class TrackerListener:
    """One run per (model, dataset) in a tracker; the figures of a threat are named "threat/figure"."""

    kind: str
    folder: Path
    _open: dict[tuple[str, str], tuple[Tracker, int]] = field(default_factory=dict)

    def finished(self, evaluation: Evaluation) -> None:
        key = (evaluation.model, f"{evaluation.dataset}/{evaluation.split}")
        if key not in self._open:
            config = {"model": key[0], "digest": evaluation.model_digest, "data": key[1], **evaluation.provenance}
            name = f"{key[0]}-{key[1]}".replace("/", "-")
            self._open[key] = (open_tracker(self.kind, name, config, self.folder), 0)
        tracker, step = self._open[key]
        threat = evaluation.threat.replace(" ", "_")
        figures = {f"{threat}/{name}": value for name, value in evaluation.figures.items() if not math.isnan(value)}
        tracker.log(figures, step)
        self._open[key] = (tracker, step + 1)

    def close(self) -> None:
        for tracker, _ in self._open.values():
            tracker.close()

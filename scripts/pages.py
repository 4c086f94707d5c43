"""What the scripts that write a page of docs/ share: Markdown, and evaluations that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gauntlet
from gauntlet.datasets.contract import Dataset
from gauntlet.evaluation.progress import Terminal
from gauntlet.models.sources import shipped
from gauntlet.results import Evaluation, Store
from gauntlet.threats.build import ThreatLike

DOCS = Path(__file__).resolve().parents[1] / "docs"


class Runs:
    """Evaluations of one dataset, out of the store or computed now."""

    def __init__(self, dataset: Dataset, store: Store, progress: Terminal) -> None:
        self.dataset, self._store, self._progress = dataset, store, progress

    def __call__(self, model: Any, threat: ThreatLike) -> Evaluation:
        result: Evaluation = gauntlet.evaluate(model, self.dataset, threat, store=self._store, progress=self._progress)
        return result

    def row(self, models: Sequence[Any], threat: ThreatLike) -> list[Evaluation]:
        """One threat, every model."""
        return [self(model, threat) for model in models]


def shipped_models(task: str) -> list[str]:
    """Names of the shipped models of a task."""
    return [name for name in shipped.names() if shipped.find(name).task == task]


def cards_section(title: str, models: Sequence[str], figures: Sequence[str]) -> str:
    """What the cards of shipped models say, with some of their clean figures in %."""
    rows = []
    for name in models:
        model = shipped.find(name)
        clean, parameters = model.card["figures"]["clean"], model.card["model"]["parameters"]
        size = model.weights.stat().st_size / 1e6
        rows.append(
            [f"`{name}`", model.card["kind"], f"{parameters / 1e6:.2f} M", f"{size:.1f} MB",
             *(percent(clean[figure]) for figure in figures)]
        )  # fmt: skip
    header = ["model", "training", "parameters", "file", *(f"clean {figure} %" for figure in figures)]
    return section(title, "As in the cards, on the validation images named there.", table(header, rows))


def section(title: str, *parts: str) -> str:
    """A heading and what stands below it, an empty line between any two."""
    return "\n\n".join([f"## {title}", *parts]) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows))


def percent(value: float | None) -> str:
    """A fraction as per cent with one decimal; nothing where there is none."""
    return "" if value is None else f"{100 * value:.1f}"


def short(models: Sequence[str]) -> list[str]:
    """Names without the dataset."""
    return [name.removeprefix("streets/") for name in models]

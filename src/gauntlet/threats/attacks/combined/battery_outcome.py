"""What a battery made of a batch: figures of every attack and image, and the worst cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from gauntlet.notebooks import facts_table
from gauntlet.pictures import Tile, from_tensor
from gauntlet.pictures.showing import check_index, row_of
from gauntlet.threats.attacks.engine.outcome import Queries, batch_text

if TYPE_CHECKING:
    from PIL.Image import Image

CLEAN = -1
"""The index of the clean image among the candidates; it comes before the attacks, so a tie goes to it."""


@dataclass
class BatteryOutcome:
    """What a battery made of a batch.

    With A attacks and N images; a skipped cell is one whose image had nothing left to lose.

    The metrics are "accuracy" and "miou" of an image's pixels; for a detector "f1" of its detections and "recall", the
    share of its objects that a detection of any score finds.

    Attributes:
        names: of the A attacks.
        images: (N, 3, H, W), the worst case by the first metric. chosen_images: the worst case of every metric.
        ran: bool (A, N), False where skipped.
        figures: by metric, float64 (A, N); NaN where skipped or where no pixel counts.
        clean: by metric, float64 (N,).
        choice: by metric, int64 (N,): index of the attack with the smallest figure, the lowest of a tie, -1 for the
            clean image. Skipping never changes it.
        worst: by metric, float64 (N,): the figure of the choice.
        candidates: by attack, (N, 3, H, W); where skipped, the image that left nothing to lose. Empty unless kept.
        norms, shares: float64 (A, N), for minimum-perturbation attacks: size before clipping and share of fooled
            pixels; NaN elsewhere and where skipped.
        queries: forward and backward passes per image, all attacks together.
        attack_queries: those of every attack alone, (A, N); 0 where skipped.
        measures_norm: for each attack, whether it looks for a minimum perturbation.
    """

    names: Sequence[str]
    images: torch.Tensor
    chosen_images: Mapping[str, torch.Tensor]
    ran: torch.Tensor
    figures: Mapping[str, torch.Tensor]
    clean: Mapping[str, torch.Tensor]
    choice: Mapping[str, torch.Tensor]
    worst: Mapping[str, torch.Tensor]
    candidates: Mapping[str, torch.Tensor]
    norms: torch.Tensor
    shares: torch.Tensor
    queries: Queries
    attack_queries: Queries
    measures_norm: Sequence[bool]

    def to(self, device: torch.device) -> BatteryOutcome:
        """The same with all images on a device."""
        return replace(
            self,
            images=self.images.to(device),
            chosen_images={metric: images.to(device) for metric, images in self.chosen_images.items()},
            candidates={name: images.to(device) for name, images in self.candidates.items()},
        )

    @property
    def accuracy(self) -> torch.Tensor:
        """Pixel accuracy of every attack and image, (A, N)."""
        return self.figures["accuracy"]

    @property
    def miou(self) -> torch.Tensor:
        """Image mIoU of every attack and image, (A, N)."""
        return self.figures["miou"]

    @property
    def f1(self) -> torch.Tensor:
        """F1 of every attack and image, (A, N); detectors only."""
        return self.figures["f1"]

    def distribution(self, metric: str | None = None) -> dict[str, int]:
        """How often each attack, or the clean image, is the worst case by a metric, the first by default."""
        metric = next(iter(self.choice)) if metric is None else metric
        choice = self.choice[metric]
        counted = choice[~torch.isnan(self.worst[metric])]
        return {name: int((counted == index).sum()) for index, name in enumerate(("clean", *self.names), start=CLEAN)}

    def show(self, index: int = 0) -> Image:
        """A picture of the worst case of one image by every metric, with the attack that made it and the figure."""
        check_index(index, len(self.images))
        tiles = []
        for metric, images in self.chosen_images.items():
            choice, figure = int(self.choice[metric][index]), float(self.worst[metric][index])
            name = "clean" if choice == CLEAN else self.names[choice]
            tiles.append(Tile(f"{metric} {figure:.2f}: {name}", from_tensor(images[index].detach().clamp(0, 1))))
        return row_of(tiles)

    def __repr__(self) -> str:
        first = next(iter(self._facts().items()))
        return f"<{type(self).__name__} of {batch_text(self.images)}: {' '.join(first)}>"

    def _repr_html_(self) -> str:
        return facts_table(f"{type(self).__name__} of {batch_text(self.images)}", self._facts())

    def _facts(self) -> dict[str, str]:
        """By metric, how many images every attack is the worst case of."""
        facts = {}
        for metric in self.choice:
            times = {name: count for name, count in self.distribution(metric).items() if count}
            facts[f"worst by {metric}"] = ", ".join(f"{name} {count}" for name, count in times.items()) or "none"
        return facts

    def minimum_table(self, share: float = 0.99) -> dict[str, list[float]]:
        """The size of the smallest successful perturbation per attack and image, and over all attacks ("smallest").

        inf where the attack stays below the share, NaN where it was skipped (`table=True` runs it everywhere). Raw
        material of a cumulative distribution: F(ε) is the part of entries at most ε (docs/specs/metrics.md, 8).
        """
        table: dict[str, list[float]] = {}
        rows = []
        for index, name in enumerate(self.names):
            norms, shares = self.norms[index], self.shares[index]
            if not self.measures_norm[index]:
                continue
            sizes = torch.where(shares >= share - 1e-12, norms, torch.full_like(norms, math.inf))
            sizes = torch.where(torch.isnan(norms), norms, sizes)
            rows.append(torch.where(torch.isnan(sizes), torch.full_like(sizes, math.inf), sizes))
            table[name] = sizes.tolist()
        if rows:
            table["smallest"] = torch.stack(rows).amin(0).tolist()
        return table


def joined(parts: Sequence[BatteryOutcome]) -> BatteryOutcome:
    """Outcomes of single images as one of all of them."""

    def rows(pick: Callable[[BatteryOutcome], torch.Tensor], dim: int = 0) -> torch.Tensor:
        return torch.cat([pick(part) for part in parts], dim)

    def metrics(pick: Callable[[BatteryOutcome], Mapping[str, torch.Tensor]], dim: int = 0) -> dict[str, torch.Tensor]:
        return {key: torch.cat([pick(part)[key] for part in parts], dim) for key in pick(parts[0])}

    return BatteryOutcome(
        names=parts[0].names,
        images=rows(lambda part: part.images),
        chosen_images=metrics(lambda part: part.chosen_images),
        ran=rows(lambda part: part.ran, 1),
        figures=metrics(lambda part: part.figures, 1),
        clean=metrics(lambda part: part.clean),
        choice=metrics(lambda part: part.choice),
        worst=metrics(lambda part: part.worst),
        candidates=metrics(lambda part: part.candidates),
        norms=rows(lambda part: part.norms, 1),
        shares=rows(lambda part: part.shares, 1),
        queries=Queries(rows(lambda part: part.queries.forward), rows(lambda part: part.queries.backward)),
        attack_queries=Queries(
            rows(lambda part: part.attack_queries.forward, 1), rows(lambda part: part.attack_queries.backward, 1)
        ),
        measures_norm=parts[0].measures_norm,
    )

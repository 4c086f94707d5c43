"""The rounds of a region-aware attack on one image, one by one: what each aimed at, and what it won."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gauntlet import pictures
from gauntlet.report.painters import LabelPainter, Labels
from gauntlet.samples import Batch, Sample
from gauntlet.seeding import ImageSeed
from gauntlet.threats.kinds.attack import RegionAwareThreat

BoolMap = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Round:
    """One round on one image.

    Attributes:
        image: what the model saw.
        aimed_at: (H, W), the fooling region: pixels that were still right.
        prediction: (H, W), what it said.
        newly_wrong: (H, W), what no round before had won.
    """

    image: pictures.Image
    aimed_at: BoolMap
    prediction: Labels
    newly_wrong: BoolMap


@dataclass(frozen=True)
class Rounds:
    """All rounds on one image, and the worst case per pixel over them (H, W), which no single image has."""

    rounds: Sequence[Round]
    cumulative: Labels


def rounds_on(threat: RegionAwareThreat, painter: LabelPainter, batch: Batch, seed: ImageSeed) -> Rounds:
    """Runs an untargeted region-aware attack on a batch of one image, and says what each round did.

    Args:
        threat: the attack.
        painter: what asks the model.
        batch: one image with its labels.
        seed: of the image.
    """
    outcome = threat.outcome(painter.model, batch, [seed])  # type: ignore[arg-type] # a painter that predicts has one
    sample: Sample = batch.samples[0]
    labels, ignored = painter.truth(sample), batch.ignore_index
    counted = np.ones(labels.shape, np.bool_) if ignored is None else labels != ignored
    still_right = counted & (painter.predict(batch.images, sample.id) == labels)
    rounds = []
    for each in outcome.rounds:
        said = painter.predict(each.images, sample.id)
        won = still_right & (said != labels)
        rounds.append(Round(pictures.from_tensor(each.images[0]), still_right, said, won))
        still_right = still_right & ~won
    return Rounds(rounds, painter.given(outcome.predictions))


def draw_mask(mask: BoolMap) -> pictures.Image:
    """A mask in white on black, (H, W, 3)."""
    return np.repeat(np.where(mask, 255, 0).astype(np.uint8)[..., None], 3, axis=2)

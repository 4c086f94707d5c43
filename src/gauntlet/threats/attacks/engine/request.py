"""What an attack asks for when it has a batch posed as a problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gauntlet.threats.attacks.detection.goals import LOSS
from gauntlet.threats.attacks.detection.matching import CONFIDENCE
from gauntlet.threats.attacks.engine.regions import Region
from gauntlet.threats.attacks.engine.targets import Target

MODEL_IGNORE_INDEX = "model"
"""Stands for the ignore index that the model states; 255 where it states none."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options and call arguments that make a problem of a batch.

    Attributes:
        target: what a targeted attack wants, see `targets.target_map` and for detectors
            `detection.targets.wanted_boxes`; None for an untargeted attack.
        region: pixels that may change.
        fooling_region: pixels that the attack aims at; on a detector where the centre of an object must lie to be
            aimed at, or its class.
        samples, precision: see `BatchProblem`.
        seeds: one per image, for regions that are drawn at random and for models that draw.
        ignore_index: pixels only: the void label, None for none, "model" for the model's own.
        ignore: pixels only: classes whose pixels do not count either.
        retarget: pixels only: whether a least-likely target is chosen anew at every point.
        own_prediction: pixels only: whether the model's clean prediction takes the place of the ground truth (Arnab
            et al.).
        goal: detectors only: one of `goals.GOALS`.
        confidence: detectors only: the score from which a detection of the clean image is one of the detector's own.
    """

    target: Target = None
    region: Region = None
    fooling_region: Region = None
    samples: int = 1
    precision: str = "fp32"
    seeds: Sequence[int] | None = None
    ignore_index: int | str | None = MODEL_IGNORE_INDEX
    ignore: tuple[int, ...] = ()
    retarget: bool = False
    own_prediction: bool = False
    goal: str = LOSS
    confidence: float = CONFIDENCE

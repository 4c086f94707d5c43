"""TOG: equal sign steps towards what a detector should say about the whole image (docs/specs/attacks.md, 15)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gauntlet.numbers import parse_fraction
from gauntlet.tasks import DETECTION
from gauntlet.threats.attacks.algorithms.gradient import GradientAttack
from gauntlet.threats.attacks.detection.goals import GOALS, LOSS, TO_LEAST_LIKELY, TO_MOST_LIKELY, UNTARGETED
from gauntlet.threats.attacks.detection.matching import CONFIDENCE
from gauntlet.threats.attacks.engine.option_checks import one_of
from gauntlet.threats.options import Option

MISLABELING = {"ll": TO_LEAST_LIKELY, "ml": TO_MOST_LIKELY}


@dataclass(frozen=True, kw_only=True)
class TargetedObjectness(GradientAttack):
    """Ten steps of 2/255 from a random start in 8/255 by default, as TOG.

    Attributes:
        goal: "vanishing": BCE(objectness, 0) falls at every candidate; "fabrication": BCE(objectness, 1) falls;
            "untargeted": the training loss of the detector's own clean detections rises (without any: fabrication).
        confidence: the score from which a detection of the clean image is one of the detector's own.
    """

    steps: int = 10
    random_start: bool = True
    goal: str = UNTARGETED
    confidence: Any = CONFIDENCE

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.goal, "goal", [goal for goal in GOALS if goal != LOSS])
        self._set(confidence=parse_fraction(self.confidence, "confidence"))

    def default_alpha(self) -> float:
        return 2 / 255 if self.norm == "linf" else 0.1

    @property
    def tasks(self) -> tuple[str, ...]:
        return (DETECTION,)

    @property
    def object_goal(self) -> str:
        return self.goal

    @property
    def object_confidence(self) -> float:
        return float(self.confidence)


@dataclass(frozen=True, kw_only=True)
class Mislabeling(TargetedObjectness):
    """The training loss falls for the clean detections' own boxes with other classes.

    Attributes:
        towards: "ll", the least likely class of each detection, or "ml", the most likely one that is not detected
            there. A `target` takes its place.
    """

    goal: str = TO_LEAST_LIKELY
    towards: str = field(default="ll", metadata=Option(place=9).metadata)

    def __post_init__(self) -> None:
        one_of(self.towards, "towards", tuple(MISLABELING))
        self._set(goal=MISLABELING[self.towards])
        super().__post_init__()

"""From a call to the problem of its task: pixels with labels, or objects with boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gauntlet.errors import GauntletError
from gauntlet.samples import Boxes
from gauntlet.tasks import DETECTION, task_of
from gauntlet.threats.attacks.detection.matching import CONFIDENCE
from gauntlet.threats.attacks.detection.problem import LOSS, pose_objects
from gauntlet.threats.attacks.engine.inputs import pose
from gauntlet.threats.attacks.engine.problem import BatchProblem
from gauntlet.threats.attacks.engine.regions import Region
from gauntlet.threats.attacks.engine.targets import Target, is_target_file


def pose_task(
    model: Any,
    images: torch.Tensor,
    truth: torch.Tensor | Sequence[Boxes],
    *,
    target: Target = None,
    retarget: bool = False,
    own_prediction: bool = False,
    goal: str = LOSS,
    confidence: float = CONFIDENCE,
    region: Region = None,
    fooling_region: Region = None,
    ignore_index: int | str | None,
    samples: int = 1,
    precision: str = "fp32",
    seeds: Sequence[int] | None = None,
) -> BatchProblem:
    """The problem of a batch; see `inputs.pose` (retarget, own_prediction, ignore_index: pixels only) and
    `objects.pose_objects` (goal, confidence: objects only).
    """
    if task_of(model) == DETECTION:
        return pose_objects(
            model,
            images,
            truth,  # type: ignore[arg-type] # checked there
            goal=goal,
            confidence=confidence,
            target=target,
            region=region,
            fooling_region=fooling_region,
            samples=samples,
            precision=precision,
            seeds=seeds,
        )
    if not isinstance(truth, torch.Tensor) and any(isinstance(each, Boxes) for each in truth):
        raise GauntletError("a segmentation model is attacked with label maps (N, H, W), not with boxes.")
    if target is True or is_target_file(target):
        raise GauntletError(
            f"the target {target!r} is for detectors; give a class, a label map, a rank or a permutation."
        )
    return pose(
        model,
        images,
        truth,  # type: ignore[arg-type] # checked there
        target=target,
        retarget=retarget,
        own_prediction=own_prediction,
        region=region,
        fooling_region=fooling_region,
        ignore_index=ignore_index,
        samples=samples,
        precision=precision,
        seeds=seeds,
    )

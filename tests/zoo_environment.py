"""The environment of `make zoo-test`: every package of the extra `zoo` must be there, so that no test skips silently.

torchvision on PyPI is compiled against the plain build of torch, which brings 2.9 GB of CUDA. Where torch is a build
for the CPU only, torchvision's compiled operators cannot be loaded and even importing it fails. Its own Python code
takes their place then: `roi_align` has such a fallback, `nms` gets one here. With the plain build nothing is replaced.
"""

from __future__ import annotations

import importlib
import re
import runpy
import sys
from importlib.metadata import distributions

import numpy as np
import pytest
import torch

PACKAGES = (
    "torchvision",
    "transformers",
    "timm",
    "segmentation-models-pytorch",
    "onnx",
    "onnx2torch",
    "onnxruntime",
    "datasets",
    "av",
)


def suppress(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """What torchvision::nms computes: the positions of the boxes that stay, best first."""
    from torchvision.ops import box_iou

    rivals = (box_iou(boxes, boxes) > iou_threshold).numpy()
    gone = np.zeros(len(boxes), dtype=bool)
    kept: list[int] = []
    for position in scores.argsort(descending=True, stable=True).tolist():
        if not gone[position]:
            kept.append(position)
            gone |= rivals[position]
    return torch.tensor(kept, dtype=torch.int64)


def provide_operators() -> None:
    """Makes torchvision usable beside a torch that its compiled operators do not fit."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        torch.library.impl("torchvision::nms", "CPU", suppress)
        boxes = importlib.import_module("torchvision.ops.boxes")
        vars(boxes)["_assert_has_ops"] = lambda: None


def pytest_configure() -> None:
    installed = {re.sub("[-_.]+", "-", each.metadata["Name"]).lower() for each in distributions()}
    missing = [package for package in PACKAGES if package not in installed]
    if missing:
        raise pytest.UsageError(f"the extra 'zoo' is not complete: {', '.join(missing)} not installed")


# When the plugin is imported, before anything that imports torchvision.
provide_operators()

if __name__ == "__main__":  # python -m zoo_environment SCRIPT: a script in this environment
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")

"""onnx: with runtime=onnxruntime: the file as it is deployed, without a gradient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from gauntlet.errors import GauntletError, first_line
from gauntlet.models.asked import AskedPart
from gauntlet.models.sources.adapting import require

RUNTIMES = ("onnx2torch", "onnxruntime")
"""Who computes an ONNX file: torch operations with gradients, or ONNX Runtime, which can only be asked."""


class RuntimeNetwork(AskedPart):
    """An ONNX file in ONNX Runtime, on one thread of the processor: its first output.

    Args:
        path: of the file, with one image input (N, 3, H, W).
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        runtime = require("onnxruntime", "onnx")
        settings = runtime.SessionOptions()
        settings.intra_op_num_threads = settings.inter_op_num_threads = 1  # the same sums on every machine
        settings.log_severity_level = 3
        try:
            self.session = runtime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        except Exception as error:  # its own kinds of errors, of a package that is not ours to know
            raise GauntletError(f"onnxruntime cannot read {path}: {first_line(error)}") from None
        self.input, self.output = self.session.get_inputs()[0].name, self.session.get_outputs()[0].name

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        array = images.detach().to("cpu", torch.float32).contiguous().numpy()
        (answer,) = self.session.run([self.output], {self.input: array})
        return torch.from_numpy(answer).to(images.device)

    def __deepcopy__(self, memo: dict[int, Any]) -> RuntimeNetwork:
        """Itself: a session cannot be copied and has nothing that changes."""
        return self

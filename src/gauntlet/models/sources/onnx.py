"""onnx: a segmentation network in ONNX, turned into a torch module by onnx2torch; gradients reach the input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel, ModelIdentity
from gauntlet.models.sources.adapting import OPTIONS, Adapter, check_options, digested, require
from gauntlet.models.sources.contract import ModelSource, file_digest


@dataclass(frozen=True)
class OnnxModel(ModelSource):
    """An ONNX file with one image input (N, 3, H, W); its first output is taken as logits (N, K, h, w)."""

    path: Path
    options: Mapping[str, Any]

    @property
    def identity(self) -> ModelIdentity:
        files = [self.path, *_external_files(self._graph, self.path)]
        return ModelIdentity(self.options.get("name") or self.path.stem, file_digest(files, digested(self.options)))

    @cached_property
    def _graph(self) -> Any:
        """The file without the weights that lie in files beside it."""
        onnx = require("onnx", "onnx")
        try:
            return onnx.load(self.path, load_external_data=False)
        # A damaged file ends in an error of protobuf, whose package is not ours to know.
        except Exception as error:
            raise GauntletError(f"{self.path} is not an ONNX file: {_first_line(error)}") from None

    def load(self) -> GauntletModel:
        onnx, onnx2torch = require("onnx", "onnx"), require("onnx2torch", "onnx")
        batch, height, width = _input_shape(self._graph, self.path)
        outputs = self.options.get("num_classes") or _count_outputs(self._graph)
        if outputs is None:
            raise GauntletError(f"onnx:{self.path} does not say how many classes it has; give num_classes.")
        _external_files(self._graph, self.path)
        try:
            network: nn.Module = onnx2torch.convert(onnx.load(self.path))
        # Unsupported operators end in NotImplementedError, others in what the operator's own code raises.
        except Exception as error:
            raise GauntletError(f"onnx2torch cannot convert {self.path}: {_first_line(error)}") from None
        if batch == 1:
            network = OneByOne(network)
        size = (height, width) if height is not None and width is not None else None
        return Adapter(int(outputs), input_size=size).overruled(self.options).wrap(network, self.identity)


class OneByOne(nn.Module):
    """A network whose batch size was fixed at 1 when it was exported."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([_first(self.network(image[None])) for image in images])


def source(path: str, options: Mapping[str, Any]) -> ModelSource:
    """onnx:PATH, with the options of `Adapter`; num_classes where the file does not say."""
    check_options(f"onnx:{path}", options, (*OPTIONS, "trust"))
    file = Path(path).expanduser()
    if not file.is_file():
        raise GauntletError(f"there is no file {file}; onnx: takes the path of an ONNX file.")
    return OnnxModel(file, dict(options))


def _first(output: Any) -> torch.Tensor:
    tensor: torch.Tensor = output[0] if isinstance(output, (tuple, list)) else output
    return tensor


def _input_shape(graph: Any, path: Path) -> tuple[int | None, int | None, int | None]:
    """Batch size, height and width of the input; None where they are free."""
    constants = {tensor.name for tensor in graph.graph.initializer}
    inputs = [each for each in graph.graph.input if each.name not in constants]
    shape = [_side(side) for side in inputs[0].type.tensor_type.shape.dim] if len(inputs) == 1 else []
    if len(shape) != 4 or shape[1] not in (3, None):
        raise GauntletError(
            f"onnx:{path} takes {len(inputs)} inputs{f', the first of shape {shape}' if shape else ''}; expected one "
            "image of shape (N, 3, H, W)."
        )
    return shape[0], shape[2], shape[3]


def _count_outputs(graph: Any) -> int | None:
    """The channels of the first output, where the file states them."""
    sides = graph.graph.output[0].type.tensor_type.shape.dim
    return _side(sides[1]) if len(sides) == 4 else None


def _side(side: Any) -> int | None:
    return int(side.dim_value) if side.HasField("dim_value") and side.dim_value > 0 else None


def _external_files(graph: Any, path: Path) -> list[Path]:
    """Files beside the ONNX file that hold its larger tensors; they must lie in its folder or below."""
    folder = path.resolve().parent
    names = sorted(
        {entry.value for tensor in graph.graph.initializer for entry in tensor.external_data if entry.key == "location"}
    )
    files = [(folder / name).resolve() for name in names]
    for name, file in zip(names, files, strict=True):
        if not file.is_relative_to(folder):
            raise GauntletError(f"{path} wants the file '{name}', which lies outside its folder; it is not read.")
    return files


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".") + "."

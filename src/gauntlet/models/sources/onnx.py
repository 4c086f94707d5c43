"""onnx: a network in ONNX, turned into a torch module by onnx2torch; gradients reach the input.

With runtime="onnxruntime" the file runs as it is deployed, without a gradient (`onnx_runtime`). Its output is taken as
logits of a segmentation; with gives="labels" as label maps, with the option `decode` as a detector's
(`onnx_detection`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gauntlet.errors import GauntletError, first_line
from gauntlet.models.asked import LabelMaps
from gauntlet.models.code_identity import code_of_packages
from gauntlet.models.contract import GauntletModel, ModelIdentity
from gauntlet.models.sources import onnx_detection
from gauntlet.models.sources.adapting import OPTIONS, Adapter, check_options, digested, read_size, require
from gauntlet.models.sources.contract import ModelSource, file_digest
from gauntlet.models.sources.decoding import build_rule, decode_rules
from gauntlet.models.sources.detecting import Labels
from gauntlet.models.sources.onnx_runtime import RUNTIMES, RuntimeNetwork
from gauntlet.models.wrapping import GIVEN, Normalisation

READABLE_OPSET = 17
"""The newest operators that onnx2torch reads all of."""


@dataclass(frozen=True)
class OnnxModel(ModelSource):
    """An ONNX file with one image input (N, 3, H, W); its first output is taken."""

    path: Path
    options: Mapping[str, Any]

    @property
    def identity(self) -> ModelIdentity:
        files = [self.path, *_external_files(self._graph, self.path)]
        runtime = self.options.get("runtime") == "onnxruntime"
        code = code_of_packages("onnxruntime" if runtime else "onnx2torch")
        digest = file_digest(files, digested(self.options))
        return ModelIdentity(self.options.get("name") or self.path.stem, digest, code=code)

    @cached_property
    def _graph(self) -> Any:
        """The file without the weights that lie in files beside it."""
        onnx = require("onnx", "onnx")
        try:
            return onnx.load(self.path, load_external_data=False)
        # A damaged file ends in an error of protobuf, whose package is not ours to know.
        except Exception as error:
            raise GauntletError(f"{self.path} is not an ONNX file: {first_line(error)}") from None

    @property
    def task(self) -> str:
        return "detection" if "decode" in self.options else "segmentation"

    @property
    def needs_num_classes(self) -> bool:
        if {"num_classes", "outputs", "decode"} & set(self.options):
            return False
        return self.options.get("gives") == "labels" or _count_outputs(self._graph) is None

    def load(self) -> GauntletModel:
        batch, height, width = _input_shape(self._graph, self.path)
        size = (height, width) if height is not None and width is not None else None
        if self.task == "detection":
            return self._detector(OneByOne(self._network()) if batch == 1 else First(self._network()), size)
        shape = _output_shape(self._graph)
        labels = self.options.get("gives") == "labels"
        if len(shape) in (2, 3) and not labels:
            sides = "x".join("?" if side is None else str(side) for side in shape)
            raise GauntletError(
                f"onnx:{self.path} gives {sides} numbers, which is no map of logits; if it is a detector, say how it "
                f"writes boxes with decode (--decode): {', '.join(sorted(decode_rules))}; if they are label maps, say "
                "gives=labels (--gives labels)."
            )
        outputs = self.options.get("num_classes") or (None if labels else _count_outputs(self._graph))
        if outputs is None:
            raise GauntletError(f"onnx:{self.path} does not say how many classes it has; give num_classes.")
        network = OneByOne(self._network()) if batch == 1 else self._network()
        if labels:
            network = LabelMaps(Flat(network), int(outputs))
        model = Adapter(int(outputs), input_size=size).overruled(self.options).wrap(network, self.identity)
        model.normalisation_assumed = "mean" not in self.options and "std" not in self.options
        return model

    def _network(self) -> nn.Module:
        if self.options.get("runtime") == "onnxruntime":
            _external_files(self._graph, self.path)
            return RuntimeNetwork(self.path)
        onnx, onnx2torch = require("onnx", "onnx"), require("onnx2torch", "onnx")
        _external_files(self._graph, self.path)
        try:
            network: nn.Module = onnx2torch.convert(onnx.load(self.path))
        # Unsupported operators end in NotImplementedError, others in what the operator's own code raises.
        except Exception as error:
            raise GauntletError(
                f"onnx2torch cannot convert {self.path}: {first_line(error)[:-1]}{_opset_advice(self._graph)}."
            ) from None
        return network

    def _detector(self, network: nn.Module, size: tuple[int, int] | None) -> GauntletModel:
        rule = build_rule(self.options["decode"])
        count = rule.count_classes(_output_shape(self._graph)) or self.options.get("num_classes")
        if count is None:
            raise GauntletError(f"onnx:{self.path} does not say how many classes it has; give num_classes.")
        given = self.options.get("input_size")
        return onnx_detection.ExportedDetector(
            network,
            Labels.of(f"onnx:{self.path}", [f"class {k}" for k in range(int(count))], self.options, named=False),
            self.identity,
            rule=rule,
            normalisation=Normalisation(
                self.options.get("mean", (0.0,) * 3),
                self.options.get("std", (1.0,) * 3),
                self.options.get("channel_order", "RGB"),
            ),
            size=size if given is None else read_size(given),
        ).freeze()


def _opset_advice(graph: Any) -> str:
    """What to do where the file is written in newer operators than the converter reads; nothing where it is not."""
    opset = max((int(each.version) for each in graph.opset_import if each.domain in ("", "ai.onnx")), default=0)
    if opset <= READABLE_OPSET:
        return ""
    return (
        f"; the file has opset {opset}: export it with opset_version={READABLE_OPSET}, in torch with dynamo=False, "
        "which onnx2torch reads"
    )


class First(nn.Module):
    """The first output of a network that may have several."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return _first(self.network(images))


class Flat(nn.Module):
    """A network whose label maps may have one channel, (N, 1, H, W), without it."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        answer = _first(self.network(images))
        return answer.squeeze(1) if answer.ndim == 4 else answer


class OneByOne(nn.Module):
    """A network whose batch size was fixed at 1 when it was exported."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([_first(self.network(image[None])) for image in images])


def source(path: str, options: Mapping[str, Any]) -> ModelSource:
    """onnx:PATH, with the options of `Adapter`, or decode for a detector; num_classes where the file does not say."""
    accepted = onnx_detection.OPTIONS if "decode" in options else (*OPTIONS, "decode", "gives", "trust")
    check_options(f"onnx:{path}", options, (*accepted, "runtime"))
    for option, known in (("runtime", RUNTIMES), ("gives", GIVEN)):
        if options.get(option, known[0]) not in known:
            raise GauntletError(f"{option} must be one of {', '.join(known)}, not '{options[option]}'.")
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
    sides = _output_shape(graph)
    return sides[1] if len(sides) == 4 else None


def _output_shape(graph: Any) -> list[int | None]:
    return [_side(side) for side in graph.graph.output[0].type.tensor_type.shape.dim]


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

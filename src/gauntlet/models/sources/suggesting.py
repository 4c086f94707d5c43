"""A file or folder given as a model without a prefix: which address it should have."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch

from gauntlet.errors import GauntletError
from gauntlet.models.architectures import architectures
from gauntlet.models.architectures.base import Architecture
from gauntlet.models.sources.weights import read_state

WEIGHT_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".tar")
FILE_SUFFIXES = (*WEIGHT_SUFFIXES, ".pt2", ".onnx", ".py")
PUBLISHED = "published"
# Numbers of classes that every architecture takes; what differs between both is where the classes are.
_TWO_COUNTS = (100, 101)


def suggest_address(given: str) -> GauntletError | None:
    """The error for a model that was given as a file or a folder; None where it is neither."""
    path = Path(given).expanduser()
    try:
        if path.is_dir():
            return GauntletError(f"'{given}' is a folder; {_of_folder(given, path)}.")
        if path.is_file():
            return GauntletError(f"'{given}' is a file; {_of_file(given, path)}.")
    except OSError:  # too long for a name of a file
        return None
    if path.suffix in FILE_SUFFIXES:
        return GauntletError(f"there is no file '{given}'; a model is a shipped name or prefix:rest (docs/models.md).")
    return None


def _of_folder(given: str, path: Path) -> str:
    if (path / "config.json").is_file():
        return f"for a model of Hugging Face's write hf:{given.rstrip('/')}"
    return "a model is hf:FOLDER (with its config.json), script:FILE, onnx:FILE or python:MODULE:CALLABLE"


def _of_file(given: str, path: Path) -> str:
    if path.suffix == ".onnx":
        return f"for a network in ONNX write onnx:{given}"
    if path.suffix == ".pt2":
        return f"for an exported program write script:{given} with --trust"
    if path.suffix == ".py":
        return f"for a network in Python write python:{path.stem}:CALLABLE, run where the file is"
    if _is_script(path):
        return f"for TorchScript write script:{given}"
    if path.suffix in WEIGHT_SUFFIXES:
        return _of_weights(given, path)
    return "a model is script:FILE, onnx:FILE, hf:FOLDER or python:MODULE:CALLABLE"


def _is_script(path: Path) -> bool:
    """Whether a file is a TorchScript archive, by what it is made of."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


def _of_weights(given: str, path: Path) -> str:
    try:
        state = read_state(path)
    except GauntletError as error:
        return f"it was taken for weights, but {error.args[0].rstrip('.')}"
    for name in architectures.names():
        if name == PUBLISHED:
            continue  # fifty networks in one; which one it is, its options say
        constructor = architectures[name]
        classes = _classes_of(constructor, state)
        if classes is not None:
            place = f"{constructor.__module__}:{constructor.__qualname__}"
            return (
                f"it holds the weights of the architecture '{name}' with {classes} outputs: write python:{place} with "
                f"--weights {given} --num-classes {classes}, and the mean and std it was trained with"
            )
    return (
        "it holds weights and no network: write python:MODULE:CALLABLE for the code that builds the network, with "
        f"--weights {given}, or net:NAME for a published one ('gauntlet list models --architectures')"
    )


def _classes_of(constructor: type[Architecture], state: Mapping[str, torch.Tensor]) -> int | None:
    """How many outputs an architecture must have for weights to fit it; None where they do not."""
    plain = {name.removeprefix("module."): tuple(value.shape) for name, value in state.items()}
    few, more = _TWO_COUNTS
    small = _shapes(constructor, few)
    if set(small) != set(plain):
        return None
    large = _shapes(constructor, more)
    counts = {
        given for name, shape in small.items()
        for given, less, larger in zip(plain[name], shape, large[name], strict=False) if less != larger
    }  # fmt: skip
    count = next(iter(counts)) if len(counts) == 1 else None
    return count if count is not None and _shapes(constructor, count) == plain else None


def _shapes(constructor: type[Architecture], num_classes: int) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):  # shapes without numbers
        return {name: tuple(value.shape) for name, value in constructor(num_classes).state_dict().items()}

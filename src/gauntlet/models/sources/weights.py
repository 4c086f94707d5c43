"""State dicts from files: safetensors, or torch files without unpickling anything but tensors."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gauntlet.errors import GauntletError, first_line

# What training programs put their state dict under, beside the epoch and the optimiser.
_WRAPPERS = ("state_dict", "model_state_dict", "model_state", "model", "net")
# What data-parallel training and Lightning put before every name.
_PREFIXES = ("module.", "model.")


def weights_path(address: str, weights: object) -> Path:
    """The file that an option `weights` names; an error where there is none."""
    if weights is None:
        raise GauntletError(f"{address} needs its weights: weights='PATH', on the command line --weights PATH.")
    path = Path(str(weights)).expanduser()
    if not path.is_file():
        raise GauntletError(f"there is no file {path}; the weights of {address} are expected there.")
    return path


def read_state(path: Path, *, trust: bool = False) -> dict[str, torch.Tensor]:
    """The tensors of a file by name, from within a training program's checkpoint where it is one.

    Args:
        path: safetensors, or what `torch.save` wrote.
        trust: unpickle whatever the file holds, which runs code from it; tensors only by default.
    """
    content = _load(path, trust)
    for wrapper in _WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if isinstance(content, nn.Module):
        content = content.state_dict()
    if not isinstance(content, Mapping):
        raise GauntletError(f"{path} holds a {type(content).__name__}; expected a state dict.")
    state = {str(name): without_denormals(value) for name, value in content.items() if isinstance(value, torch.Tensor)}
    if not state:
        raise GauntletError(f"{path} holds no tensors; expected a state dict.")
    return state


def without_denormals(weights: torch.Tensor) -> torch.Tensor:
    """Weights with 0 for numbers below the smallest normal one, which long weight decay leaves behind.

    Beside any other number they are lost in rounding, but many processors take a hundred times as long for them: half
    of CGNet's published weights are such, and its passes forty times slower.
    """
    if weights.dtype not in (torch.float32, torch.float64):  # of half precision they still count
        return weights
    denormal = (weights != 0) & (weights.abs() < torch.finfo(weights.dtype).tiny)
    return weights.masked_fill(denormal, 0) if denormal.any() else weights


def fill(network: nn.Module, state: Mapping[str, torch.Tensor], path: Path) -> None:
    """Loads a state dict, with the prefixes of data-parallel training and Lightning taken off where that helps."""
    expected = network.state_dict()
    plain = dict(state)
    for prefix in _PREFIXES:
        if not any(name in expected for name in plain):
            plain = {name.removeprefix(prefix): value for name, value in plain.items()}
    missing = [name for name in expected if name not in plain and not name.endswith("num_batches_tracked")]
    unknown = [name for name in plain if name not in expected]
    if missing or unknown:
        raise GauntletError(
            f"the weights {path} do not fit {type(network).__name__}: {len(missing)} tensors are missing and "
            f"{len(unknown)} are unknown, '{(missing or unknown)[0]}' for one."
        )
    # Compared here, since some libraries' networks only warn and keep their random weights.
    for name, value in plain.items():
        if value.shape != expected[name].shape:
            raise GauntletError(
                f"the weights {path} do not fit {type(network).__name__}: '{name}' has the shape {tuple(value.shape)} "
                f"there and {tuple(expected[name].shape)} here."
            )
    network.load_state_dict(plain, strict=False)


def _load(path: Path, trust: bool) -> Any:
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=not trust)  # nosec B614 # tensors, or trust
    except pickle.UnpicklingError as error:
        if trust:
            raise GauntletError(f"the weights {path} cannot be read: {first_line(error)}") from None
        raise GauntletError(
            f"{path} holds more than tensors, or is damaged: unpickling it would run code from the file; pass "
            "trust=True (--trust) if you trust where it comes from."
        ) from None
    # Damaged files end in one of many errors of zip files, safetensors and torch.
    except Exception as error:
        raise GauntletError(f"the weights {path} cannot be read: {first_line(error)}") from None

"""Learned parameters of a CRF, as CRF-RNN has them, from a file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch

from gauntlet.errors import GauntletError

NAMES = ("compatibility", "w_bilateral", "w_spatial")


@dataclass(frozen=True)
class CrfParameters:
    """What training found.

    Attributes:
        compatibility: mu, (K, K): row k says what every class of the message adds to the energy of class k.
        w_bilateral: weight of the bilateral kernel for every class of the message, (K,).
        w_spatial: weight of the spatial kernel, (K,).
    """

    compatibility: torch.Tensor
    w_bilateral: torch.Tensor
    w_spatial: torch.Tensor

    def check(self, num_classes: int) -> None:
        """Raises where shapes do not fit a number of classes."""
        shapes = ((num_classes, num_classes), (num_classes,), (num_classes,))
        for name, shape in zip(NAMES, shapes, strict=True):
            found = tuple(getattr(self, name).shape)
            if found != shape:
                raise GauntletError(
                    f"'{name}' of the parameters of crf: has shape {found}; {num_classes} classes need {shape}."
                )


def load_parameters(path: str | Path) -> CrfParameters:
    """Parameters from a safetensors file with the tensors compatibility, w_bilateral and w_spatial."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(str(path))
    except (OSError, SafetensorError) as error:
        raise GauntletError(f"the parameters of crf: '{path}' cannot be read as safetensors: {error}") from error
    missing = [name for name in NAMES if name not in tensors]
    if missing:
        raise GauntletError(
            f"the parameters of crf: '{path}' lack the tensor '{missing[0]}'; all of {NAMES} are needed."
        )
    chosen = {name: tensors[name].to(torch.float64) for name in NAMES}
    unusable = [name for name, tensor in chosen.items() if not bool(tensor.isfinite().all())]
    if unusable:
        raise GauntletError(f"'{unusable[0]}' of the parameters of crf: '{path}' has NaN or infinite numbers.")
    return CrfParameters(**chosen)


def parameters_digest(path: str | Path) -> str:
    """SHA-256 of the file, first 16 hex digits."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise GauntletError(f"the parameters of crf: '{path}' cannot be read: {error}") from error

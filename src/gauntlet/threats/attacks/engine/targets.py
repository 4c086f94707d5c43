"""Where a targeted attack wants every pixel to go: a class, a label map, a rank, a permutation of classes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import torch

from gauntlet.errors import GauntletError
from gauntlet.samples import own_array
from gauntlet.threats.attacks.engine.labels import least_likely

LEAST_LIKELY = "least-likely"
FILES = (".pt", ".npz")
Target = torch.Tensor | np.ndarray[Any, Any] | Mapping[str, Any] | Sequence[Any] | int | str | None


def is_target_file(target: Target) -> bool:
    """Whether a target is a file of boxes and classes (detectors only)."""
    if isinstance(target, str):
        return Path(target).suffix in FILES
    return isinstance(target, Mapping) and "file" in target


def _described_file(target: Any) -> dict[str, Any]:
    """Path and digest of a target file: another content is another attack."""
    path = str(target["file"] if isinstance(target, Mapping) else target)
    try:
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise GauntletError(f"the target file {path} cannot be read: {error.strerror}.") from None
    if isinstance(target, Mapping) and target.get("digest", digest) != digest:
        raise GauntletError(f"the target file {path} is not the one described: its digest is {digest}.")
    return {"file": path, "digest": digest}


def describe_target(target: Target) -> dict[str, Any] | int | str | None:
    """A target given as an option, checked, in its JSON-able form; label maps are given when the attack is called."""
    if target is None or target is True or target == LEAST_LIKELY:
        return target  # type: ignore[return-value]
    if is_target_file(target):
        return _described_file(target)
    if _is_whole(target):
        if target < 0:
            raise GauntletError(f"target must be a class index of at least 0, not {target}.")
        return int(target)
    if isinstance(target, Mapping) and set(target) == {"rank"} and _is_whole(target["rank"]) and target["rank"] >= 1:
        return {"rank": int(target["rank"])}
    classes = target["permutation"] if isinstance(target, Mapping) and set(target) == {"permutation"} else target
    if isinstance(classes, (Sequence, np.ndarray)) and not isinstance(classes, str) and all(map(_is_whole, classes)):
        return {"permutation": [int(each) for each in classes]}
    raise GauntletError(
        f"target must be a class index, '{LEAST_LIKELY}', {{'rank': n}} with n >= 1 or {{'permutation': [...]}}, "
        f"for detectors also True or a .pt or .npz file, not {target!r}; give a label map when calling the attack."
    )


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def target_text(target: Target) -> str:
    """A described target in the name of a threat; a file by its path."""
    return str(target["file"] if isinstance(target, Mapping) and "file" in target else target)


def needs_logits(target: Target) -> bool:
    """Whether the target depends on what the model says about the clean image."""
    return target == LEAST_LIKELY if isinstance(target, str) else isinstance(target, Mapping) and "rank" in target


def target_map(target: Target, labels: torch.Tensor, logits: torch.Tensor | None, void: torch.Tensor) -> torch.Tensor:
    """The target of every pixel, int64 (N, H, W).

    Args:
        target: a class index; a label map (H, W) or (N, H, W); K class indices (label c aims at the c-th of them);
            "least-likely"; {"rank": n}, the n-th most likely class of the clean image, 1 being the prediction.
        labels: the ground truth, int64 (N, H, W).
        logits: of the clean images, where `needs_logits`.
        void: bool (N, H, W), pixels whose label is no class.
    """
    if isinstance(target, (torch.Tensor, np.ndarray)) and target.ndim > 1:
        if isinstance(target, np.ndarray):
            target = torch.from_numpy(own_array(target, "the target map"))
        wanted = target.to(labels.device)
        if wanted.shape not in (labels.shape, labels.shape[1:]) or wanted.is_floating_point():
            raise GauntletError(
                f"the target map has the shape {tuple(wanted.shape)} and type {wanted.dtype}; expected integers of "
                f"shape {tuple(labels.shape[1:])} or {tuple(labels.shape)}."
            )
        return wanted.long().expand(labels.shape)
    if isinstance(target, (torch.Tensor, np.ndarray)):
        target = target.tolist()
    description = describe_target(target)
    if isinstance(description, int):
        return torch.full_like(labels, description)
    if logits is not None:
        classes = logits.shape[1]
        if description == LEAST_LIKELY:
            return least_likely(logits)
        assert isinstance(description, dict)
        rank = description["rank"]
        if rank > classes:
            raise GauntletError(f"the rank of the target is {rank}, but the model has {classes} classes.")
        return logits.topk(rank, dim=1).indices[:, rank - 1]
    assert isinstance(description, dict)
    permutation = description["permutation"]
    if sorted(permutation) != list(range(len(permutation))) or int(labels.masked_fill(void, 0).max()) >= len(
        permutation
    ):
        raise GauntletError(
            f"the permutation {permutation} must name every class exactly once and have one entry per class."
        )
    return torch.tensor(permutation, device=labels.device)[torch.where(void, torch.zeros_like(labels), labels)]

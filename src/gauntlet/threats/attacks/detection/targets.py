"""Where a targeted attack on a detector wants to go: a class for every object, or boxes and classes of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.errors import GauntletError
from gauntlet.samples import Boxes
from gauntlet.threats.attacks.engine.targets import Target, is_target_file

DETECBENCH_CLASS = 42
"""What DetecBench aims at when it is told target=True: a fork, in COCO's eighty classes."""


def wanted_boxes(
    target: Target, truth: Sequence[Boxes], num_classes: int, ids: Sequence[str] | None = None
) -> list[Boxes]:
    """The boxes and classes that every image is to get.

    Args:
        target: True for DetecBench's class; a class index for every object; classes (n,) for the n objects of each
            image; one `Boxes` (or one tensor of classes) per image; the path of a file (see `read_targets`).
        truth: the objects of every image; their boxes stay where only classes are given.
        num_classes: of the detector.
        ids: of the images, for files that hold targets by image.
    """
    if target is True:
        if num_classes <= DETECBENCH_CLASS:
            raise GauntletError(
                f"target=True is DetecBench's class {DETECBENCH_CLASS}, but the detector has {num_classes} classes; "
                "give the number of a class."
            )
        target = DETECBENCH_CLASS
    if is_target_file(target):
        entries = read_targets(target["file"] if isinstance(target, Mapping) else str(target))
        given: list[Any] = [_entry(entries, None if ids is None else ids[row]) for row in range(len(truth))]
    elif isinstance(target, (int, np.integer)) and not isinstance(target, bool):
        given = [np.full(len(boxes), int(target)) for boxes in truth]
    elif isinstance(target, (torch.Tensor, np.ndarray)):
        given = [target] * len(truth)
    elif isinstance(target, Sequence) and not isinstance(target, str):
        given = list(target)
        if len(given) != len(truth):
            raise GauntletError(f"{len(given)} targets were given for {len(truth)} images; give one per image.")
    else:
        raise GauntletError(
            f"the target on a detector is True, a class, classes, boxes per image or a file, not {target!r}."
        )
    return [_boxes(each, boxes, num_classes) for each, boxes in zip(given, truth, strict=True)]


def _boxes(given: Any, truth: Boxes, num_classes: int) -> Boxes:
    if isinstance(given, Boxes):
        wanted = given
    else:
        classes = torch.as_tensor(given).detach().cpu().numpy().reshape(-1)
        if classes.dtype.kind not in "iu" and len(classes):
            raise GauntletError(f"target classes must be whole numbers, not {classes.dtype}.")
        if len(classes) != len(truth):
            raise GauntletError(
                f"{len(classes)} target classes were given for an image with {len(truth)} objects; give one per "
                "object, or boxes with them."
            )
        wanted = replace(truth, classes=classes.astype(np.int64), scores=None)
    if len(wanted) and not 0 <= int(wanted.classes.min()) <= int(wanted.classes.max()) < num_classes:
        raise GauntletError(
            f"a target class is {_outside(wanted.classes, num_classes)}, but the detector has {num_classes} classes "
            f"(0 to {num_classes - 1})."
        )
    return wanted


def _outside(classes: npt.NDArray[np.int64], num_classes: int) -> int:
    return int(classes[(classes < 0) | (classes >= num_classes)][0])


def _entry(entries: Mapping[str, Any], image_id: str | None) -> Any:
    if "" in entries:
        return entries[""]
    if image_id is None:
        raise GauntletError("the target file holds targets by image id; use it in a threat, or give boxes per image.")
    if image_id not in entries:
        raise GauntletError(f"the target file has no entry for image '{image_id}'; it has {len(entries)} others.")
    return entries[image_id]


def read_targets(path: str | Path) -> dict[str, Boxes | npt.NDArray[np.int64]]:
    """The targets of a file by image id; under "" where one target is for every image.

    A .pt file (loaded without running any code of it) holds a tensor of classes; or {"classes": (n,), "boxes": (n, 4)}
    with the boxes left out where they stay; or such a mapping under the id of every image. A .npz file holds the arrays
    `classes` and `boxes`, or `<id>/classes` and `<id>/boxes`.
    """
    content = _read(Path(path))
    if isinstance(content, (torch.Tensor, np.ndarray)):
        content = {"classes": content}
    if not isinstance(content, Mapping) or not content:
        raise GauntletError(
            f"the target file {path} must hold classes, and boxes where they move, not {type(content)}."
        )
    if "classes" in content:
        content = {"": content}
    return {str(key): _parsed(value, path) for key, value in content.items()}


def _parsed(value: Any, path: str | Path) -> Boxes | npt.NDArray[np.int64]:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        value = {"classes": value}
    if not isinstance(value, Mapping) or "classes" not in value or not set(value) <= {"classes", "boxes"}:
        raise GauntletError(f"an entry of the target file {path} must hold 'classes' and, where they move, 'boxes'.")
    classes = np.asarray(value["classes"]).reshape(-1)
    if len(classes) and classes.dtype.kind not in "iu":
        raise GauntletError(f"the classes of the target file {path} must be whole numbers, not {classes.dtype}.")
    classes = classes.astype(np.int64)
    if "boxes" not in value:
        return classes
    return Boxes(np.asarray(value["boxes"], dtype=np.float32).reshape(-1, 4), classes)


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
            if "classes" in arrays:
                return arrays
            nested: dict[str, dict[str, Any]] = {}
            for key, value in arrays.items():
                image_id, _, name = key.rpartition("/")
                nested.setdefault(image_id, {})[name] = value
            return nested
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise GauntletError(f"the target file {path} cannot be read: {error.strerror or error}.") from None
    except Exception:  # damaged files end in one of many errors of zip files and pickles
        raise GauntletError(f"the target file {path} holds no plain tensors; save classes and boxes only.") from None

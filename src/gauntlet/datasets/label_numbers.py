"""From the numbers in a label file to class indices, with an error for every number that means nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gauntlet.class_numbers import VOID, WIDE_VOID, void_label
from gauntlet.errors import GauntletError

IGNORE = VOID
"""The label that counts for nothing, in every dataset of this package with up to 255 classes."""


class LabelTable:
    """A mapping from stored values to classes.

    Attributes:
        void: label of the pixels that count for nothing, of a plain table.

    Args:
        mapping: stored value to class index (or the ignore index).
        what: the classes in words, for messages ("trainIds 0 to 18 and 255").
    """

    def __init__(self, mapping: Mapping[int, int], what: str, void: int = IGNORE) -> None:
        self.what, self.void = what, void
        size = max(256, max(mapping) + 1)
        self._table = np.full(size, -1, dtype=np.int32)
        for value, label in mapping.items():
            self._table[value] = label
        self._type = np.uint8 if max(mapping.values()) < 256 else np.int32

    @classmethod
    def plain(
        cls,
        classes: int,
        *,
        ignore_index: int | None = None,
        reduce_zero_label: bool = False,
        ignored: Sequence[int] = (),
    ) -> LabelTable:
        """Values 0 to K - 1 are the classes, and the ignore index stands for itself where it is no class.

        Args:
            classes: K.
            ignore_index: the value that counts for nothing; 255 by default, 65535 where 255 stands for a class.
            reduce_zero_label: 0 counts for nothing as well, and 1 to K are the classes.
            ignored: further values that count for nothing; the classes are the other values from 0 on.
        """
        if ignore_index is not None and not 0 <= ignore_index < 65536:
            raise GauntletError(f"ignore_index must be a value that masks can hold, 0 to 65535, not {ignore_index}.")
        void = {*ignored, 0} if reduce_zero_label else set(ignored)
        values = [value for value in range(classes + len(void)) if value not in void][:classes]
        if ignore_index is None:
            ignore_index = IGNORE if IGNORE not in values else WIDE_VOID
        elif ignore_index in values:
            raise GauntletError(
                f"ignore_index {ignore_index} is the value of a class in these masks ({values[0]} to {values[-1]}); "
                + (
                    "leave it out, or give the value that counts for nothing."
                    if ignore_index
                    else "say reduce_zero_label=True where 0 counts for nothing and the first class is 1."
                )
            )
        label = ignore_index if ignore_index >= classes else void_label(classes)
        mapping = dict.fromkeys((*void, ignore_index), label) | {value: k for k, value in enumerate(values)}
        between = sorted({*(value for value in void if value > values[0]), ignore_index})
        words = ", ".join(str(value) for value in between)
        return cls(mapping, f"{values[0]} to {values[-1]}, and {words} for ignored pixels", label)

    def apply(self, stored: npt.NDArray[np.integer], path: Path) -> npt.NDArray[np.integer]:
        """Class indices of stored values, the same shape; uint8 where every class fits.

        Args:
            stored: what the file holds.
            path: the file, for the message.
        """
        low, high = (int(stored.min()), int(stored.max())) if stored.size else (0, 0)
        if low >= 0 and high < len(self._table):
            labels: npt.NDArray[np.integer] = self._table[stored]
            if labels.min(initial=0) >= 0:
                return labels.astype(self._type)
            outside = stored[labels < 0]
        else:
            outside = stored[(stored < 0) | (stored >= len(self._table))]
        raise GauntletError(f"the label file '{path}' holds the value {int(outside.flat[0])}; expected {self.what}.")


def parse_class_names(classes: Sequence[str] | int | str, where: str) -> tuple[str, ...]:
    """Names of classes from what a user gives: the names, or their number.

    Args:
        classes: names, or a number (as text, too), which makes "class 0", "class 1", ...
        where: what the classes belong to, for the message.
    """
    if isinstance(classes, Sequence) and not isinstance(classes, str):
        names = tuple(str(name) for name in classes)
    else:
        names = tuple(f"class {index}" for index in range(int(classes) if str(classes).isdigit() else 0))
    if not names or len(set(names)) != len(names):
        raise GauntletError(f"the classes of {where} must be different names or a number from 1, not {classes!r}.")
    return names

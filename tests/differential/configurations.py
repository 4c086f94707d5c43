"""Random configurations by kind, each compared with an independent reference; `scripts/differential.py` runs many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import detection_reference
import folder_reference
import protocol_reference
import segmentation_reference

KINDS: Mapping[str, Callable[[Sequence[int]], list[str]]] = {
    "segmentation": segmentation_reference.compare_whole,
    "regions": segmentation_reference.compare_regions,
    "detection": detection_reference.compare,
    "protocols": protocol_reference.compare,
    "folders": folder_reference.compare,
}
"""From the numbers that seed a configuration to the differences found, in words."""


def differences(number: int, seed: int, kinds: Sequence[str] = tuple(KINDS)) -> tuple[str, list[str]]:
    """The kind of a configuration, and its differences; kinds take turns.

    Args:
        number: of the configuration.
        seed: of the run.
        kinds: that take part.
    """
    kind = kinds[number % len(kinds)]
    try:
        return kind, KINDS[kind]([seed, number])
    except Exception as error:
        return kind, [f"{type(error).__name__}: {error}"]

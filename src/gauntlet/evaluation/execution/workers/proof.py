"""Proof of a worker before its counts are taken: its versions, its model and its images are those of the run."""

from __future__ import annotations

import hashlib
import platform
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from gauntlet._version import __version__
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel
from gauntlet.models.probe import Probe, probe_model
from gauntlet.threats.contract import Threat

_PACKAGE = Path(__file__).resolve().parents[3]


class UnfitError(GauntletError):
    """A worker has other data, another model or other code than the run; its counts are not taken."""


@dataclass(frozen=True)
class Station:
    """Where a worker runs.

    Attributes:
        host: name of the machine.
        versions: of what decides figures: this package with a digest of its files, torch, OpenCV, NumPy.
    """

    host: str
    versions: Mapping[str, str]

    def differences(self, other: Station) -> str:
        """What this station has otherwise than another one, in words; "" for nothing."""
        return ", ".join(
            f"{name} {self.versions.get(name)}, not {other.versions.get(name)}"
            for name in {**self.versions, **other.versions}
            if self.versions.get(name) != other.versions.get(name)
        )

    @property
    def facts(self) -> dict[str, str]:
        """What the provenance of an evaluation says about a host."""
        return {**self.versions, "platform": platform.platform()}


@lru_cache(maxsize=1)
def station_here() -> Station:
    """Host and versions of this process."""
    digest = hashlib.sha256()
    for file in sorted(_PACKAGE.rglob("*.py")):
        digest.update(file.relative_to(_PACKAGE).as_posix().encode())
        digest.update(file.read_bytes())
    own = f"{__version__} ({digest.hexdigest()[:12]})"
    versions = {"gauntlet": own, "torch": torch.__version__, "opencv": cv2.__version__, "numpy": np.__version__}
    return Station(socket.gethostname(), versions)


@dataclass(frozen=True)
class Expected:
    """What a worker must have to compute a unit.

    Attributes:
        model: digests of the model's weights and code.
        probe: of the model, as `Probe.as_dict`; None where the driver could not ask it.
        used: digest of code and files that the threat only names; "" for none.
        meaning: digest of what labels mean.
        images: digests of the images of the unit; empty for data that is trusted.
    """

    model: tuple[str, str]
    probe: Mapping[str, Any] | None
    used: str
    meaning: str
    images: tuple[str, ...]


def check_model(expected: Expected, model: tuple[str, str] | None, loaded: GauntletModel) -> None:
    """An error where a worker's model is another one than the run's.

    Args:
        expected: of the run.
        model: digests of the worker's model; None for the object of the run itself.
        loaded: the worker's model.
    """
    for name, mine, theirs in zip(("weights", "code"), model or expected.model, expected.model, strict=True):
        if mine != theirs != "":  # nobody recorded the code of what an older version began
            raise UnfitError(f"it has other {name} of the model '{loaded.identity.name}'")
    if expected.probe is not None and not Probe.from_dict(expected.probe).agrees(probe_model(loaded)):
        raise UnfitError(f"the model '{loaded.identity.name}' answers otherwise there")


def check_threat_files(expected: Expected, threat: Threat) -> None:
    """An error where the code or the files that a threat names are others than the run's."""
    if expected.used and threat.uses() != expected.used:
        raise UnfitError(f"the code or the files that the threat '{threat.name}' uses are others there")


def check_images(expected: Expected, dataset: Dataset, positions: Sequence[int]) -> None:
    """An error where a worker's images, ground truth or classes are others than the run's."""
    if dataset.meaning() != expected.meaning:
        raise UnfitError(f"the classes of '{dataset.name}' are others there")
    if not expected.images:
        return
    found = dataset.image_digests(positions)
    different = [number for number, (one, other) in enumerate(zip(found, expected.images, strict=True)) if one != other]
    if different:
        name = dataset.ids()[positions[different[0]]]
        raise UnfitError(f"the image '{name}' of '{dataset.name}' or its ground truth is another one there")

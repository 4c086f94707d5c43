"""Comparison of a model with the probe of what is stored of it, before anything stored is returned or continued."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from gauntlet._version import __version__
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.loaded_once import LoadedOnce
from gauntlet.evaluation.execution.progress import Progress
from gauntlet.evaluation.jobs import PlannedJob
from gauntlet.evaluation.provenance import choose_device
from gauntlet.files import cache_folder, write_atomically
from gauntlet.models.code_identity import OWN_CODE
from gauntlet.models.contract import GauntletModel
from gauntlet.models.probe import Probe, probe_model
from gauntlet.models.sources.contract import ModelSource, coded_identity
from gauntlet.results.store import Store

_PACKAGE = Path(__file__).resolve().parents[2]


def probe_of(
    source: GauntletModel | ModelSource, device: torch.device, progress: Progress, model: GauntletModel | None = None
) -> Probe:
    """The probe of a model, taken once for a `LoadedOnce`; a model that differs from itself is told of.

    Args:
        source: of the model.
        device: where it is asked.
        progress: told of a model that differs from itself.
        model: the loaded one; where none is given, a probe in the user's cache spares the loading.
    """
    if isinstance(source, LoadedOnce) and source.probe is not None:
        return source.probe
    file = _cache_file(source, device)
    probe = _read(file) if file is not None and model is None else None
    if probe is None:
        if model is None:
            model = source.load() if isinstance(source, ModelSource) else source
            model.freeze()
        probe = probe_model(model.to(device))
        if file is not None:
            _keep(file, probe)
    if probe.random:
        progress.note_once(
            f"'{coded_identity(source).name}' differs from itself: asked again for the same images, it gave other "
            "answers. It draws numbers that no seed reaches, or keeps a state, so its figures cannot be repeated and "
            "attacks on it prove little; gauntlet.models.randomness shows how a model declares its draws."
        )
    if isinstance(source, LoadedOnce):
        source.probe = probe
    return probe


def check_probe(store: Store, planned: PlannedJob, probe: Probe, keys: Sequence[str]) -> None:
    """An error where a model answers otherwise than when counts that a job takes up were computed.

    Args:
        store, planned, probe: what has the counts, the job, and its model's answers now.
        keys: of the evaluations that have them.
    """
    for key, text in store.probes(keys).items():
        if not _agrees(text, probe):
            raise GauntletError(_sentence(planned, store.provenance(key), probe))


def need_same_models(store: Store, jobs: Sequence[PlannedJob], progress: Progress) -> None:
    """An error where a model answers otherwise than when something of these jobs was stored."""
    for _, sentence in check_stored(store, jobs, progress):
        raise GauntletError(sentence)


def check_stored(store: Store, jobs: Sequence[PlannedJob], progress: Progress) -> list[tuple[PlannedJob, str]]:
    """The jobs whose model answers otherwise than when they were stored, each with a sentence.

    A model is loaded and asked once for all its jobs; one of Gauntlet's own is known from before where nothing that
    its answers depend on has changed. Evaluations of earlier versions have no probe and are not compared.
    """
    probed = store.probes([planned.job.key for planned in jobs])
    by_model: dict[int, list[PlannedJob]] = {}
    for planned in jobs:
        if probed.get(planned.job.key):
            by_model.setdefault(id(planned.model), []).append(planned)
    wrong: list[tuple[PlannedJob, str]] = []
    for group in by_model.values():
        try:
            probe = probe_of(group[0].model, choose_device(group[0].settings.device), progress)
        except GauntletError as error:
            progress.note_once(f"'{group[0].job.model}' is not compared with what is stored of it, since {error}")
            continue
        texts = {probed[planned.job.key] for planned in group}
        differing = {text for text in texts if not _agrees(text, probe)}
        wrong += [
            (planned, _sentence(planned, store.provenance(planned.job.key), probe))
            for planned in group
            if probed[planned.job.key] in differing
        ]
    return wrong


def _cache_file(source: GauntletModel | ModelSource, device: torch.device) -> Path | None:
    """Where the probe of a model is remembered; nowhere where its digests do not hold all that its answers depend on.

    Those of Gauntlet's own networks do: one is of the very bytes of the weights. The versions of packages, the machine
    and the files of this package are the rest.
    """
    if not isinstance(source, ModelSource) or source.in_memory:
        return None
    identity = coded_identity(source)
    if identity.code != OWN_CODE:
        return None
    versions = [__version__, torch.__version__, np.__version__, cv2.__version__]
    facts = [identity.digest, *versions, platform.node(), platform.machine(), device.type, _files_of_package()]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]
    try:
        return cache_folder() / "probes" / f"{digest}.json"
    except RuntimeError:  # no home
        return None


def _keep(file: Path, probe: Probe) -> None:
    if file.is_file():
        return
    try:
        write_atomically(file, json.dumps(probe.as_dict()).encode())
    except (OSError, RuntimeError):  # no home, or none that can be written: it is asked again
        return


def _read(file: Path) -> Probe | None:
    try:
        return Probe.from_dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


@lru_cache(maxsize=1)
def _files_of_package() -> str:
    """Digest of the names, sizes and times of the files that models of this package are made of."""
    files = sorted(file for folder in ("models", "defences") for file in (_PACKAGE / folder).rglob("*.py"))
    facts = [(str(file), status.st_size, status.st_mtime_ns) for file in files if (status := file.stat())]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _agrees(text: str, probe: Probe) -> bool:
    """Whether a stored probe can be read and is of the same model."""
    try:
        return Probe.from_dict(json.loads(text)).agrees(probe)
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _sentence(planned: PlannedJob, stored: Mapping[str, Any], probe: Probe) -> str:
    now = {"gauntlet": __version__, "torch": torch.__version__, "platform": platform.platform()}
    then, here = (
        f"gauntlet {facts.get('gauntlet', '?')}, torch {facts.get('torch', '?')}, {facts.get('platform', '?')}"
        for facts in (stored, now)
    )
    random = "; it differs from itself now" if probe.random else ""
    return (
        f"the model '{planned.job.model}' answers otherwise than when '{planned.job.threat}' was stored"
        f"{random} (stored {stored.get('started', 'at an unknown time')} with {then}; now with {here}): something "
        "changed that its weights and code do not show; compute it anew with --again (retrieve_existing=False), or use "
        "another store."
    )

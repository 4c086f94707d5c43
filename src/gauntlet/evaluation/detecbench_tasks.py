"""DetecBench's own call: evaluate(task=..., model_folder=..., log_dir=..., logger=..., wandb=...)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from gauntlet.datasets import load_dataset
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.cases import Cases, corruption_family, find_cases
from gauntlet.evaluation.execution.listeners import TrackerListener
from gauntlet.models import resolve_model
from gauntlet.models.sources.contract import ModelSource
from gauntlet.models.sources.model_folder import find_model_folder
from gauntlet.results.record import Evaluation
from gauntlet.threats.build import ThreatLike
from gauntlet.threats.compat import detecbench, semsegbench
from gauntlet.threats.contract import Threat
from gauntlet.threats.corruptions import registry
from gauntlet.threats.kinds.corruption import CorruptionThreat

STORE_NAME = "results.db"
"""Of the store in a log_dir."""

_NAMED: dict[str, Callable[[], Threat]] = {
    "none": detecbench.IID,
    "iid": detecbench.IID,
    "fgsm": detecbench.attacks.FGSM,
    "bim": detecbench.attacks.BIM,
    "pgd": lambda: detecbench.attacks.PGD(random_start=True),
}
"""What `threat_model` calls single threats, in lower case, with the published settings."""

Tell = Callable[[Evaluation], None]


def task_cases(task: ThreatLike | list[Threat]) -> Cases:
    """The cases of a task: a threat, the corruptions of a family, or a name of either as the paper prints it."""
    if isinstance(task, list):
        in_3d = all(isinstance(each, CorruptionThreat) and registry[each.options.name].group == "3d" for each in task)
        return corruption_family("3DCommonCorruptions" if in_3d else "2DCommonCorruptions", task)
    if isinstance(task, str):
        name = task.strip().lower()
        if name == detecbench.corruptions.ALL or name.startswith(detecbench.corruptions.PREFIX_3D):
            return task_cases(detecbench.corruptions.CommonCorruption(name))
        if name in _NAMED:
            return find_cases(_NAMED[name]())
        if semsegbench.family_name(task) is not None:
            return find_cases({"threat_model": task})
    return find_cases(task)


def folder_model(model_folder: str | Path, trust: bool) -> tuple[ModelSource, dict[str, Any]]:
    """The source of the detector in a folder, and its address and options."""
    found = find_model_folder(model_folder)
    options: dict[str, Any] = {**found.options, **({"trust": True} if trust else {})}
    return resolve_model(found.address, **options), {"address": found.address, "options": options}


def folder_dataset(model_folder: str | Path, root: str | Path | None) -> Dataset:
    """The dataset that the configuration in a folder names, in the folder that it names, where that exists."""
    name, named_root = find_model_folder(model_folder).dataset()
    there = named_root if named_root is not None and Path(named_root).is_dir() else None
    return load_dataset(name, root=root or there)


@contextmanager
def told_to(loggers: Sequence[str | logging.Logger | None], log_dir: str | Path | None) -> Iterator[Tell]:
    """Tells evaluations to trackers by name ("wandb", "tensorboard", "mlflow") and to Python's loggers, each once."""
    wanted = list(dict.fromkeys(each for each in loggers if each is not None))
    told: list[Tell] = []
    with ExitStack() as stack:
        for logger in wanted:
            if isinstance(logger, logging.Logger):
                told.append(partial(logger.info, "%s"))
                continue
            if log_dir is None:
                raise GauntletError(f"the logger '{logger}' needs a folder: log_dir='logs'.")
            listener = TrackerListener(logger, Path(log_dir))
            stack.callback(listener.close)
            told.append(listener.finished)

        def tell(evaluation: Evaluation) -> None:
            for each in told:
                each(evaluation)

        yield tell

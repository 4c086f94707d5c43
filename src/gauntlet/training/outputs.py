"""What is written beside the weights: card.json for machines, README.md for people."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from safetensors.torch import save

from gauntlet._version import __version__
from gauntlet.datasets.contract import Dataset
from gauntlet.evaluation.provenance import command_line
from gauntlet.files import write_atomically
from gauntlet.models.architectures import WrappedDetector
from gauntlet.models.sources.trained import CARD_FILE, WEIGHTS_FILE, register
from gauntlet.models.wrapping import WrappedSegmentation
from gauntlet.numbers import format_duration, format_percent
from gauntlet.own_code import PREFIX, find_callable, folder_of
from gauntlet.training.config import TrainingConfig
from gauntlet.training.validation import Figures

TrainedModel = WrappedSegmentation | WrappedDetector

READABLE = {"aAcc": "pixel accuracy"}


@dataclass(frozen=True)
class Outcome:
    """What a training ended with.

    Attributes:
        steps: updates of the weights.
        samples: images seen, repetitions included.
        seconds: training time over all sessions, validation included.
        processes: how many trained together.
        figures: clean figures on the validation split.
    """

    steps: int
    samples: int
    seconds: float
    processes: int
    figures: Figures


def describe(
    config: TrainingConfig, model: TrainedModel, train: Dataset, validation: Dataset, outcome: Outcome
) -> dict[str, Any]:
    """The model card as data; everything that is needed to load the weights stands under "model"."""
    figure, values = outcome.figures.by_class
    segmentation = isinstance(model, WrappedSegmentation)
    parameters = sum(parameter.numel() for parameter in model.module.parameters())
    return {
        "name": config.name,
        "description": config.description,
        "kind": training_kind(config),
        "model": {
            "task": model.task,
            "architecture": config.model.architecture,
            "options": config.model.options,
            "num_classes": model.num_classes,
            "class_names": list(model.class_names),
            "mean": list(config.model.mean),
            "std": list(config.model.std),
            **({"ignore_index": model.ignore_index, "stride": model.stride} if segmentation else {}),
            "parameters": parameters,
        },
        **own_code(config.model.architecture),
        "data": {"training": train.identity.as_dict(), "validation": validation.identity.as_dict()},
        "recipe": config.as_dict(),
        "command": command_line(),
        "seed": config.seed,
        "training": {
            "steps": outcome.steps,
            "samples": outcome.samples,
            "seconds": round(outcome.seconds, 1),
            "processes": outcome.processes,
            "threads": torch.get_num_threads(),
            "device": str(model.device),
        },
        "figures": {
            "clean": {
                **{name: _rounded(value) for name, value in outcome.figures.summary.items()},
                figure: dict(zip(model.class_names, map(_rounded, values), strict=True)),
            }
        },
        "versions": {"gauntlet": __version__, "torch": torch.__version__, "numpy": np.__version__},
    }


def own_code(architecture: str) -> dict[str, str]:
    """Where the user's own network lies, so that the trained folder can be loaded from anywhere."""
    if not architecture.startswith(PREFIX):
        return {}
    return {"code": folder_of(find_callable(architecture.removeprefix(PREFIX)))}


def training_kind(config: TrainingConfig) -> str:
    """A few words for a list of models: "clean", "noise 0.25", "pgd-at 100 %, pgd 8/255"."""
    if config.adversarial is None:
        return f"noise {config.augmentation.noise:g}" if config.augmentation.noise else "clean"
    attack = config.adversarial.attack
    budget = f" {attack['epsilon']}" if "epsilon" in attack else ""
    return f"{config.adversarial.method} {100 * config.adversarial.share:g} %, {attack['name']}{budget}"


def write_model(folder: Path, config: TrainingConfig, model: TrainedModel, card: dict[str, Any]) -> None:
    """Writes config.yaml, README.md, model.safetensors and, last of all, card.json; then the name is an address."""
    state = {name: value.detach().cpu().contiguous() for name, value in model.module.state_dict().items()}
    recipe = yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True)
    contents = {
        "config.yaml": recipe.encode(),
        "README.md": readme(card).encode(),
        WEIGHTS_FILE: save(state, {"name": config.name, "format": "pt"}),
        CARD_FILE: (json.dumps(card, indent=1) + "\n").encode(),
    }
    for name, content in contents.items():
        write_atomically(folder / name, content, sync=True)
    register(config.name, folder)


def readme(card: dict[str, Any]) -> str:
    """The model card as Markdown."""
    model, training, clean = card["model"], card["training"], card["figures"]["clean"]
    data = card["data"]["training"]
    overall = "\n".join(
        f"| clean {READABLE.get(name, name)} | {_percent(value)} |"
        for name, value in clean.items()
        if not isinstance(value, dict)
    )
    figure, values = next((name, value) for name, value in clean.items() if isinstance(value, dict))
    rows = "\n".join(f"| {name} | {_percent(value)} |" for name, value in values.items())
    started = card["recipe"]["model"]["initial_weights"]
    begun = f"\n| starts from | {started} |" if started else ""
    licence = card.get("licence")
    licences = f"\n| licence | weights: {licence['weights']}; data: {licence['data']} |" if licence else ""
    return f"""# {card["name"]}

{card["description"]}

| | |
|---|---|
| architecture | {model["architecture"]}, {model["parameters"]:,} parameters, {model["num_classes"]} classes |
| training | {card["kind"]} |{begun}
| data | {data["name"]}, split {data["split"]}, {data["length"]} samples |{licences}
| length | {training["steps"]} steps, {training["samples"]} samples, {format_duration(training["seconds"])} |
| machine | {training["device"]}, {training["processes"]} process(es) of {training["threads"]} thread(s) |
| seed | {card["seed"]} |
{overall}

Figures are measured on the {card["data"]["validation"]["length"]} samples of the split
{card["data"]["validation"]["split"]}. {images(data["name"])}The recipe is in the card's data, and
`config.yaml` in the folder of the training beside the curve `log.csv`; the command was

    {card["command"]}

| class | {figure} |
|---|---|
{rows}
{threats(card)}"""


def images(dataset: str) -> str:
    """That images are not part of a model, but for those that are generated."""
    return "" if dataset == "streets" else f"The images of {dataset} do not come with it: they are yours to fetch. "


def threats(card: dict[str, Any]) -> str:
    """The figures under the suite `quick` as a section, or nothing where the card has none yet."""
    quick = card["figures"].get("quick")
    if quick is None:
        return ""
    rows = "\n".join(f"| {name} | {_percent(value)} |" for name, value in quick["threats"].items())
    return f"""
Under the suite `quick`, the first {quick["images"]} samples of the same split:

| threat | {quick["metric"]} |
|---|---|
{rows}
"""


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 5)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{format_percent(value)} %"

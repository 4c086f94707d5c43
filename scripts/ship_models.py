"""Puts trained models into the package, with their figures under the suite `quick` on the card.

    python scripts/ship_models.py trained/enet trained/segformer [--images 16] [--store gauntlet-shipped.db]

A folder that `gauntlet train` wrote becomes models/weights/streets/NAME.{safetensors,json,md}, its kernels and matrices
rounded to half precision, which halves the package; the clean figures of the card are measured again for that reason. A
name in place of a folder ("enet") only measures the shipped model again.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save

import gauntlet
from gauntlet.evaluation.execution.progress import Terminal
from gauntlet.models.sources.shipped import WEIGHTS, ShippedModel
from gauntlet.results import Store
from gauntlet.threats import suites
from gauntlet.training.outputs import readme

DATASET = "streets"
HEADLINE = {"segmentation": "mIoU", "detection": "mAP"}
BY_CLASS = {"segmentation": "IoU", "detection": "AP"}


def main() -> None:
    """Copies, measures and writes the cards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="folders of trainings, or names of shipped models")
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--store", default="gauntlet-shipped.db")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    with gauntlet.open_store(chosen.store) as store, Terminal() as progress:
        for each in chosen.models:
            folder = Path(each)
            if folder.is_dir():
                copy(folder)
            measure(folder.name, chosen.images, store, progress)


def copy(folder: Path) -> None:
    """The files of a training into the package."""
    target = WEIGHTS / DATASET / folder.name
    state = {name: compact(value) for name, value in load_file(folder / "model.safetensors").items()}
    target.with_suffix(".safetensors").write_bytes(save(state, {"name": folder.name, "format": "pt"}))
    shutil.copyfile(folder / "card.json", target.with_suffix(".json"))


def compact(value: torch.Tensor) -> torch.Tensor:
    """As it is shipped: kernels and matrices in half precision, statistics, biases and counters as they are."""
    return value.half() if value.is_floating_point() and value.dim() > 1 else value


def measure(name: str, images: int, store: Store, progress: Terminal) -> None:
    """The clean validation and the suite `quick` on a shipped model, written to its card."""
    model = ShippedModel(f"{DATASET}/{name}")
    metric, by_class = HEADLINE[model.task], BY_CLASS[model.task]
    validation = gauntlet.load_dataset(DATASET, split="val", limit=model.card["data"]["validation"]["length"])
    clean = gauntlet.evaluate(model.name, validation, "clean", store=store, progress=progress)
    dataset = gauntlet.load_dataset(DATASET, split="val", limit=images)
    values = {}
    for threat in suites.build("quick", model.task):
        result = gauntlet.evaluate(model.name, dataset, threat, store=store, progress=progress)
        values[result.threat] = round(result.figures[metric], 5)
    card = model.card
    before = card["figures"]["clean"][metric]  # of a folder: as trained, in single precision
    print(f"clean {metric}: {100 * before:.3f} % on the card, {100 * clean.figures[metric]:.3f} % now")
    overall = [figure for figure in card["figures"]["clean"] if figure != by_class]
    card["figures"]["clean"] = {
        **{figure: round(clean.figures[figure], 5) for figure in overall},
        by_class: {each: round(value, 5) for each, value in clean.per_class[by_class].items()},
    }
    card["figures"]["quick"] = {"images": images, "metric": metric, "threats": values}
    target = WEIGHTS / model.name
    target.with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n")
    target.with_suffix(".md").write_text(readme(card))
    print(f"wrote {target}.json, {target}.md")


if __name__ == "__main__":
    main()

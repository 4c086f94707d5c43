"""Puts trained models into the package, with their figures under the suite `quick` on the card.

    python scripts/ship_models.py trained/enet trained/segformer [--images 16] [--store gauntlet-shipped.db]

A folder that `gauntlet train` wrote becomes models/weights/streets/NAME.{safetensors,json,md}. A name in place of a
folder ("enet") only measures the shipped model again.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import torch

import gauntlet
from gauntlet.evaluation.progress import Terminal
from gauntlet.models.sources.shipped import WEIGHTS, ShippedModel
from gauntlet.results import Store
from gauntlet.threats import suites
from gauntlet.training.card import readme

DATASET = "streets"
HEADLINE = {"segmentation": "mIoU", "detection": "mAP"}


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
    shutil.copyfile(folder / "model.safetensors", target.with_suffix(".safetensors"))
    shutil.copyfile(folder / "card.json", target.with_suffix(".json"))


def measure(name: str, images: int, store: Store, progress: Terminal) -> None:
    """The suite `quick` on a shipped model, written to its card."""
    model = ShippedModel(f"{DATASET}/{name}")
    dataset = gauntlet.load_dataset(DATASET, split="val", limit=images)
    metric = HEADLINE[model.task]
    values = {}
    for threat in suites.build("quick", model.task):
        result = gauntlet.evaluate(model.name, dataset, threat, store=store, progress=progress)
        values[result.threat] = round(result.figures[metric], 5)
    card = model.card
    card["figures"]["quick"] = {"images": images, "metric": metric, "threats": values}
    target = WEIGHTS / model.name
    target.with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n")
    target.with_suffix(".md").write_text(readme(card))
    print(f"wrote {target}.json, {target}.md")


if __name__ == "__main__":
    main()

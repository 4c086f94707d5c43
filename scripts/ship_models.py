"""Puts trained models into the package, with their figures under the suite `quick` on the card.

    python scripts/ship_models.py streets/enet=trained/enet camvid/enet-at=trained/camvid-enet-at [--images 16]

A folder that `gauntlet train` wrote becomes ADDRESS.{safetensors,json,md}: the card models/weights/ADDRESS.json in the
package, the other two beside it or, where the licence of the data forbids packaging, in weights/ of the repository.
Kernels and matrices are rounded to half precision, which halves the package; the clean figures of the card are measured
again for that reason, on the split that the training validated on. An address alone ("streets/enet") only measures the
shipped model again. Datasets that are not generated are looked for below GAUNTLET_DATA.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save

import gauntlet
from gauntlet.evaluation.execution.progress import Terminal
from gauntlet.models.sources.contract import file_digest
from gauntlet.models.sources.shipped import CARDS, CLONE, PACKAGED, ShippedModel
from gauntlet.results import Store
from gauntlet.threats import suites
from gauntlet.training.outputs import readme

HEADLINE = {"segmentation": "mIoU", "detection": "mAP"}
BY_CLASS = {"segmentation": "IoU", "detection": "AP"}
LICENCES = {
    "streets": {"weights": "MIT", "data": "MIT"},
    "camvid": {"weights": "CC BY-NC 4.0", "data": "CC BY-NC 4.0"},
}
"""Licences of the weights and of the images that they are trained on, by dataset."""


def main() -> None:
    """Copies, measures and writes the cards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="ADDRESS=FOLDER of a training, or ADDRESS of a shipped model")
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--store", default="gauntlet-shipped.db")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    with gauntlet.open_store(chosen.store) as store, Terminal() as progress:
        for each in chosen.models:
            address, _, folder = each.partition("=")
            if folder:
                copy(Path(folder), address)
            measure(address, chosen.images, store, progress)


def copy(folder: Path, address: str) -> None:
    """Copy the files of a training into the repository."""
    target = files_of(address)
    target.parent.mkdir(parents=True, exist_ok=True)
    name = target.name
    state = {name: compact(value) for name, value in load_file(folder / "model.safetensors").items()}
    weights = target.with_suffix(".safetensors")
    weights.write_bytes(save(state, {"name": name, "format": "pt"}))
    card = {**json.loads((folder / "card.json").read_text()), "name": name}
    card |= {"licence": LICENCES[address.split("/")[0]], "digest": file_digest([weights], card["model"])}
    ShippedModel(address).card_file.write_text(json.dumps(card, indent=1) + "\n")


def files_of(address: str) -> Path:
    """Path of a model's weights and readable card, without their endings."""
    return (CARDS if address.startswith(PACKAGED) else CLONE) / address


def compact(value: torch.Tensor) -> torch.Tensor:
    """As it is shipped: kernels and matrices in half precision, statistics, biases and counters as they are."""
    return value.half() if value.is_floating_point() and value.dim() > 1 else value


def measure(name: str, images: int, store: Store, progress: Terminal) -> None:
    """The clean validation and the suite `quick` on a shipped model, written to its card."""
    model = ShippedModel(name)
    metric, by_class = HEADLINE[model.task], BY_CLASS[model.task]
    said, data = model.card["data"]["validation"], model.card["recipe"]["data"]
    options = data["validation_options"] or data["options"]
    load = partial(gauntlet.load_dataset, said["name"], split=said["split"], **options)
    clean = gauntlet.evaluate(model.name, load(limit=said["length"]), "clean", store=store, progress=progress)
    dataset = load(limit=images)
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
    described = files_of(model.name).with_suffix(".md")
    model.card_file.write_text(json.dumps(card, indent=1) + "\n")
    described.write_text(readme(card))
    print(f"wrote {model.card_file}, {described}")


if __name__ == "__main__":
    main()

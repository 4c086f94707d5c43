"""Figures 9, 10 and 20 to 25: conditional random fields behind the network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from gauntlet.report.charts import Axis
from gauntlet.report.document import Block
from gauntlet.studies.contract import Claim, Description, Study
from gauntlet.studies.drawings import curves, figures, matrix, scatter
from gauntlet.studies.figures import Figures, FloatArray, mean_of, rank_correlation
from gauntlet.studies.papers.arnab.shared import (
    ATTACKS,
    EPSILON,
    SHORT_LEVELS,
    VOC_8,
    attack,
    label,
    level_name,
    transferred,
)

PLAIN, CRF, PARTIAL = "plain", "crf", "crf, gradient of the unaries only"
FROM_PLAIN = "fgsm from plain"
ZERO = "exactly zero gradients, FGSM"


# Figures 9, 10 and 20: does the field help?


def crf_members(preset: str) -> dict[str, str]:
    """The network, and the network with a field whose gradient is whole or that of the unaries alone."""
    return {
        PLAIN: "{model}",
        CRF: f"crf:preset={preset},iterations=5:{{model}}",
        PARTIAL: f"crf:preset={preset},iterations=5,image_gradient=false:{{model}}",
    }


def crf_drawing(results: Figures) -> list[Block]:
    """IoU ratios under every attack, and the clean figures."""
    columns = {name: name for name in (*ATTACKS, FROM_PLAIN)}
    sure = {
        "clean mIoU": lambda part, member: part.miou(member, "clean"),
        "confidence, clean": lambda part, member: part.certainty("confidence", member, "clean"),
        "confidence, FGSM": lambda part, member: part.certainty("confidence", member, "fgsm"),
        "entropy, clean (hundredths of a nat)": lambda part, member: part.certainty("entropy", member, "clean"),
        ZERO: lambda part, member: part.zero_gradients(member, "fgsm"),
    }
    return [
        *matrix(results, "IoU ratio at 8/255", columns, caption="The last column was made on the plain network."),
        *figures(results, "Clean mIoU, and how sure the output is", sure),
    ]


def crf_study(item: str, preset: str, setting: str, also: Sequence[str] = ()) -> Study:
    """Four attacks on the member itself, and FGSM made on the plain network."""
    return Study(
        name=f"arnab/{item}",
        title=f"A CRF ({preset}) behind the network: robust, or a hidden gradient?",
        question="Does a conditional random field make a network robust to attacks?",
        setting=setting,
        finding="Untargeted attacks look weak through the CRF, because its confident output hides the gradient (99.1 % "
        "confidence and 0.025 nats of entropy, against 95.2 % and 0.13 without it); images made on the network without "
        "it fool both, and targeted attacks show no difference.",
        unknown="Section 8.3 says untargeted where Section 8.1 and the figures say targeted.",
        members=crf_members(preset),
        threats={
            "clean": "clean",
            **{name: attack(name) for name in ATTACKS},
            FROM_PLAIN: transferred("fgsm", PLAIN),
        },
        # On the network itself, what is made there is the attack above.
        exceptions={(PLAIN, FROM_PLAIN): attack("fgsm")},
        drawing=crf_drawing,
        claims=[
            Claim(
                "Through the CRF (gradient of the unaries, as printed) FGSM leaves a higher IoU ratio than on the "
                "plain network.",
                lambda results: results.ratio(PARTIAL, "fgsm") - results.ratio(PLAIN, "fgsm"),
            ),
            Claim(
                "FGSM images made on the plain network are stronger on the CRF model than its own.",
                lambda results: results.ratio(PARTIAL, "fgsm") - results.ratio(PARTIAL, FROM_PLAIN),
            ),
            Claim(
                "Against the least likely class (iterative FGSM ll) the CRF is worth less than 5 points (bound ours) "
                "of IoU ratio.",
                lambda results: np.asarray(
                    0.05 - (results.ratio(PARTIAL, "ifgsm-ll") - results.ratio(PLAIN, "ifgsm-ll"))
                ),
            ),
        ],
        also=tuple(f"arnab/{each}" for each in also),
    )


# Figures 21 to 23: wider kernels.

WIDTHS = (1, 3, 10, 50, 160)
SPATIAL_WIDTHS, SPATIAL_WEIGHTS = (1, 3, 10), (1, 3, 10)


def member(**parameters: float) -> str:
    """The label of a field whose parameters are not those of the preset."""
    return ", ".join(f"{name} {value:g}" for name, value in parameters.items())


def field(**parameters: float) -> str:
    """The address of such a field, whose gradient is that of the unaries, as in Figure 9."""
    written = "".join(f",{name}={value:g}" for name, value in parameters.items())
    return f"crf:preset=crfrnn,iterations=5,image_gradient=false{written}:{{model}}"


def widths_of(parameter: str) -> dict[str, str]:
    """The field with narrow to wide kernels in one parameter."""
    return {member(**{parameter: width}): field(**{parameter: width}) for width in WIDTHS}


def spatial_members() -> dict[str, str]:
    """The field with narrow to wide spatial kernels of small to large weight."""
    settings = [{"theta_gamma": width, "w_spatial": weight} for width in SPATIAL_WIDTHS for weight in SPATIAL_WEIGHTS]
    return {member(**each): field(**each) for each in settings}


def sweep_threats(levels: Sequence[float] = (EPSILON,)) -> dict[str, Description]:
    """Clean images, and FGSM on each member itself."""
    return {"clean": "clean", **{label("fgsm", level): attack("fgsm", level) for level in levels}}


def fgsm_ratio(results: Figures, label_of_member: str) -> FloatArray:
    """IoU ratio under FGSM at 8/255."""
    return results.ratio(label_of_member, label("fgsm"))


def sweep_drawing(results: Figures) -> list[Block]:
    """Ratio, clean figure and confidence of every member."""
    columns = {
        "IoU ratio, FGSM": fgsm_ratio,
        "clean mIoU": lambda part, each: part.miou(each, "clean"),
        "confidence, clean": lambda part, each: part.certainty("confidence", each, "clean"),
        ZERO: lambda part, each: part.zero_gradients(each, label("fgsm")),
    }
    return figures(results, "More smoothing, and how sure the network is", columns, "Wider kernels smooth more.")


def spatial_drawing(results: Figures) -> list[Block]:
    """Ratio over the weight of the spatial kernel, a line per width."""
    lines = {
        f"theta_gamma {width}": [
            (weight, fgsm_ratio(results, member(theta_gamma=width, w_spatial=weight))) for weight in SPATIAL_WEIGHTS
        ]
        for width in SPATIAL_WIDTHS
    }
    title = "IoU ratio under FGSM at 8/255 over the spatial kernel"
    return [*curves(results, title, lines, "weight of the spatial kernel", "IoU ratio"), *sweep_drawing(results)]


def narrow_is_better(parameter: str, results: Figures) -> FloatArray:
    """Ratio of the narrowest kernel minus the widest."""
    narrow, wide = (fgsm_ratio(results, member(**{parameter: width})) for width in (WIDTHS[0], WIDTHS[-1]))
    return narrow - wide


def mean_over(results: Figures, **fixed: float) -> FloatArray:
    """Mean ratio over the spatial members with one parameter fixed."""
    wanted = member(**fixed)
    return mean_of([fgsm_ratio(results, each) for each in spatial_members() if wanted in each.split(", ")])


def sweep_study(item: str, parameter: str, finding: str) -> Study:
    """Narrow to wide kernels in one parameter of the bilateral kernel."""
    return Study(
        name=f"arnab/{item}",
        title=f"Wider kernels of the CRF: {parameter}",
        question="Is it the smoothing that seems to help?",
        setting=f"CRF-RNN with {parameter} 1 to 160; FGSM; {VOC_8}.",
        finding=finding,
        unknown="Which of the other parameters were kept (ours: those of CRF-RNN, 5 iterations), and the grid.",
        members={PLAIN: "{model}", **widths_of(parameter)},
        threats=sweep_threats(),
        drawing=sweep_drawing,
        claims=[
            Claim(f"{parameter} 1 is more robust to FGSM than 160 (IoU ratio).", partial(narrow_is_better, parameter))
        ],
    )


# Figures 24 and 25: what explains it.

# The field of the preset is in all three sweeps; it counts once.
_REPEATED = (member(theta_beta=3), member(theta_gamma=3, w_spatial=3))
_SWEEPS = {**widths_of("theta_alpha"), **widths_of("theta_beta"), **spatial_members()}
EVERY_MEMBER = {PLAIN: "{model}", **{each: _SWEEPS[each] for each in _SWEEPS if each not in _REPEATED}}


def certainty_points(name: str, level: float, results: Figures) -> dict[str, tuple[FloatArray, FloatArray]]:
    """By member: confidence or entropy on clean images, and the IoU ratio under FGSM."""
    return {
        each: (results.certainty(name, each, "clean"), results.ratio(each, label("fgsm", level)))
        for each in results.members
    }


def certainty_drawing(name: str, results: Figures) -> list[Block]:
    """IoU ratio against confidence or entropy, a chart per epsilon."""
    across = Axis("confidence on clean images (%)", percent=True) if name == "confidence" else Axis("entropy (nats)")
    blocks: list[Block] = []
    for level in SHORT_LEVELS:
        title = f"IoU ratio under FGSM at {level_name(level)} against {name}"
        points = certainty_points(name, level, results)
        blocks += scatter(results, title, points, across, Axis("IoU ratio (%)", percent=True))
    return blocks


def certainty_correlation(name: str, results: Figures) -> FloatArray:
    """Spearman's rho at 8/255 over members."""
    points = certainty_points(name, EPSILON, results).values()
    return rank_correlation([x for x, _ in points], [y for _, y in points])


def certainty_study(item: str, name: str, words: str, claim: Claim) -> Study:
    """Robustness against how sure the output is."""
    return Study(
        name=f"arnab/{item}",
        title=f"Does the {name} of the output explain how robust a CRF seems?",
        question=f"Do fields with {words} output keep a higher IoU ratio under FGSM?",
        setting=f"The fields of Figures 21 to 23, FGSM at several epsilons; {VOC_8}.",
        finding="The IoU ratio under FGSM follows the confidence of the output (and, the other way round, its "
        "entropy), not its smoothness: confident outputs hide the gradient.",
        unknown="The epsilons drawn, and whether confidence is that of clean images (ours) or attacked ones.",
        kind="relate",
        members=EVERY_MEMBER,
        threats=sweep_threats(SHORT_LEVELS),
        drawing=partial(certainty_drawing, name),
        claims=[claim],
    )


_N = len(EVERY_MEMBER)
STUDIES = (
    crf_study("figure-9", "crfrnn", f"CRF-RNN and FCN8s; {VOC_8}; gradients through the unaries only.", ("figure-20",)),
    crf_study(
        "figure-10",
        "deeplab-resnet",
        f"DeepLab v2 multiscale with and without CRF (clean mIoU 74.9 and 73.9 %); {VOC_8}; gradients through the "
        "unaries only.",
    ),
    sweep_study(
        "figure-21",
        "theta_alpha",
        "Larger bandwidths do not help: theta_alpha about 1 is more robust than 160. Robustness follows the "
        "confidence of the output, not its smoothness (Figures 24, 25).",
    ),
    sweep_study("figure-22", "theta_beta", "Larger bandwidths in colour do not help either."),
    Study(
        name="arnab/figure-23",
        title="The spatial kernel of the CRF: its width and its weight",
        question="Is it the width of the spatial kernel or its weight that seems to help?",
        setting=f"CRF-RNN with theta_gamma and the weight of the spatial kernel varied; FGSM; {VOC_8}.",
        finding="A larger weight of the spatial kernel raises the IoU ratio, a larger width does not.",
        unknown="The grid of both (ours 1, 3, 10 each).",
        members={PLAIN: "{model}", **spatial_members()},
        threats=sweep_threats(),
        drawing=spatial_drawing,
        claims=[
            Claim(
                "A weight of 10 is more robust to FGSM than 1 (mean IoU ratio over widths).",
                lambda results: mean_over(results, w_spatial=10) - mean_over(results, w_spatial=1),
            ),
            Claim(
                "theta_gamma 10 is not worth 1 point (bound ours) of IoU ratio more than 1 (mean over weights).",
                lambda results: np.asarray(
                    0.01 - (mean_over(results, theta_gamma=10) - mean_over(results, theta_gamma=1))
                ),
            ),
        ],
    ),
    certainty_study(
        "figure-24",
        "confidence",
        "more confident",
        Claim(
            f"Confidence and IoU ratio under FGSM at 8/255 rise together (Spearman's rho over {_N} members above 0).",
            partial(certainty_correlation, "confidence"),
            unit="rho",
        ),
    ),
    certainty_study(
        "figure-25",
        "entropy",
        "less uncertain",
        Claim(
            f"The IoU ratio under FGSM at 8/255 falls as entropy rises (minus Spearman's rho over {_N} members).",
            lambda results: np.asarray(-certainty_correlation("entropy", results)),
            unit="rho",
        ),
    ),
)

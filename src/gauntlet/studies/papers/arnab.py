"""Arnab, Miksik and Torr 2018: On the Robustness of Semantic Segmentation Models to Adversarial Attacks.

docs/specs/studies.md, 5, and docs/specs/defences.md, 1, 2, 5 and 8.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from gauntlet.report.document import Block
from gauntlet.results import published
from gauntlet.studies.contract import Claim, Study, studies
from gauntlet.studies.drawings import curves, figures, matrix, miou
from gauntlet.studies.results import FloatArray, Results, largest, mean_of, smallest

EPSILON = "8/255"
LEVELS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SINGLE_STEP = ("fgsm", "fgsm-ll")
ATTACKS = ("fgsm", "fgsm-ll", "ifgsm", "ifgsm-ll")
VOC = "VOC 2012 reduced validation set, 346 images, epsilon 8 of 255"
# The transfer tables only fit the shorter iteration rule (docs/specs/defences.md, 1, "known contradictions").
TRANSFER_RULE = "kurakin"


def attack(name: str, epsilon: str = EPSILON, **options: Any) -> dict[str, Any]:
    """An attack of the paper."""
    return {"name": name, "epsilon": epsilon, **options}


def transferred(name: str, source: str, epsilon: str = EPSILON, **options: Any) -> dict[str, Any]:
    """The attack made on a member; iterative ones take the shorter rule of the transfer tables."""
    rule = {} if name in SINGLE_STEP else {"iteration_rule": TRANSFER_RULE}
    return {"transfer": {"source_model": f"@{source}", "attack": attack(name, epsilon, **rule, **options)}}


def table(number: int) -> pd.DataFrame:
    """The figures of one of the paper's tables."""
    rows = published.frame(source="arnab")
    return rows[rows["table"].eq(str(number))]


# Tables 1, 17 to 20: scales.


def scales(pool: str) -> dict[str, str]:
    """The network at each scale, and at all of them."""
    return {
        "50 %": "multiscale:scales=0.5:{model}",
        "75 %": "multiscale:scales=0.75:{model}",
        "100 %": "{model}",
        "multiscale": f"multiscale:scales=0.5+0.75+1,pool={pool}:{{model}}",
    }


MULTISCALE = "multiscale"
SINGLE = ("50 %", "75 %", "100 %")


def scale_threats(names: Sequence[str]) -> dict[str, Mapping[str, Any] | str]:
    """Clean images, and each attack made on each scale and on all of them."""
    made = {f"{name} from {source}": transferred(name, source) for name in names for source in (*SINGLE, MULTISCALE)}
    return {"clean": "clean", **made}


def scale_drawing(names: Sequence[str], results: Results) -> list[Block]:
    """A matrix per attack, and the clean figures."""
    blocks: list[Block] = []
    for name in names:
        columns = {source: f"{name} from {source}" for source in results.members}
        blocks += matrix(results, f"IoU ratio under {name} at 8/255", columns)
    clean = {"clean mIoU": lambda part, member: part.miou(member, "clean")}
    return [*blocks, *figures(results, "Clean mIoU of every scale (Tables 15 and 16)", clean)]


def own_ratio(results: Results, name: str, member: str) -> FloatArray:
    """IoU ratio of a member under the attack made on itself."""
    return results.ratio(member, f"{name} from {member}")


def multiscale_is_most_robust(name: str, results: Results) -> FloatArray:
    """Ratio of the multiscale network under its own attack minus the largest of the scales under theirs."""
    return own_ratio(results, name, MULTISCALE) - largest([own_ratio(results, name, each) for each in SINGLE])


def single_scales_transfer_badly(name: str, results: Results) -> FloatArray:
    """Ratio on other scales minus the white-box ratio, the smallest over pairs of single scales."""
    return smallest(
        [
            results.ratio(target, f"{name} from {source}") - own_ratio(results, name, source)
            for target, source in itertools.permutations(SINGLE, 2)
        ]
    )


def multiscale_attacks_transfer_best(name: str, results: Results) -> FloatArray:
    """Mean ratio of single scales under the other scales' attacks minus under the multiscale attack."""
    others = [results.ratio(target, f"{name} from {source}") for target, source in itertools.permutations(SINGLE, 2)]
    return mean_of(others) - mean_of([results.ratio(each, f"{name} from {MULTISCALE}") for each in SINGLE])


def scale_study(
    item: str,
    pool: str,
    names: Sequence[str],
    number: int,
    setting: str,
    *,
    robust: Sequence[str],
    also: Sequence[str] = (),
) -> Study:
    """A study of one pooling and two attacks.

    Args:
        item, number: of the table.
        pool: how scales are pooled.
        names: of the two attacks, the iterative one last.
        setting: the paper's.
        robust: those for which the paper's own figures say that several scales are more robust than each alone.
        also: other tables that show the same.
    """
    claims = [
        *(
            Claim(
                f"The multiscale network is more robust to {name} made on itself than any single scale is to its own.",
                partial(multiscale_is_most_robust, name),
            )
            for name in robust
        ),
        *(
            Claim(
                f"{name} made on one scale leaves more on every other scale than on its own.",
                partial(single_scales_transfer_badly, name),
            )
            for name in names
        ),
        Claim(
            f"{names[-1]} made on the multiscale network is stronger on single scales than what other scales make.",
            partial(multiscale_attacks_transfer_best, names[-1]),
        ),
    ]
    return Study(
        name=f"arnab/{item}",
        title=f"One network at several scales, {pool} pooling: who fools whom",
        question="Does a second scale help, and do attacks transfer between scales?",
        setting=setting,
        finding="Seeing the image at 50, 75 and 100 % makes a network more robust to attacks made on itself; attacks "
        "made on one scale transfer badly to another, those made on all scales transfer well.",
        unknown="Whether logits or probabilities are pooled; the iterative rows fit the shorter iteration rule only.",
        members=scales(pool),
        threats=scale_threats(names),
        drawing=partial(scale_drawing, names),
        claims=claims,
        published=partial(table, number),
        also=tuple(f"arnab/{each}" for each in also),
    )


_DEEPLAB = f"DeepLab v2 (ResNet-101), trained on several scales; {VOC}."
_FCN = f"FCN8s (VGG), not trained on several scales; {VOC}."
_FIRST, _SECOND = ("fgsm", "ifgsm-ll"), ("fgsm-ll", "ifgsm")
MULTISCALE_STUDIES = (
    scale_study("table-1", "max", _FIRST, 1, _DEEPLAB, robust=_FIRST, also=("table-15",)),
    scale_study("table-18", "max", _SECOND, 18, _DEEPLAB, robust=_SECOND),
    # Printed for the iterative attack: 16.7 against 18.0 % in Table 17, 20.0 against 20.5 % in Table 19.
    scale_study("table-17", "mean", _FIRST, 17, _DEEPLAB, robust=("fgsm",)),
    scale_study("table-19", "max", _FIRST, 19, _FCN, robust=("fgsm",), also=("table-16",)),
    scale_study("table-20", "max", _SECOND, 20, _FCN, robust=_SECOND),
)


# Figures 6 to 8 and Table 2: transformations of the input.

KINDS = ("jpeg", "blur", "hsv", "grey")
NONE = "none"
TRANSFORMED = {NONE: "{model}", **{kind: f"transform:kind={kind}:{{model}}" for kind in KINDS}}
SAMPLES = 10
"""Draws over which an aware attacker averages the gradient (Eq. 8)."""


def level_name(level: float) -> str:
    """The label of a threat at an epsilon in grey levels."""
    return f"{level:g}/255"


def unaware_threats(levels: Sequence[float]) -> dict[str, Mapping[str, Any] | str]:
    """Iterative FGSM ll made on the plain network."""
    made = {level_name(level): transferred("ifgsm-ll", NONE, level_name(level)) for level in levels}
    return {"clean": "clean", **made}


def aware_threats(levels: Sequence[float]) -> dict[str, Mapping[str, Any] | str]:
    """Iterative FGSM ll through each transformation, gradients averaged over draws."""
    made = {
        level_name(level): {
            "attack": attack("ifgsm-ll", level_name(level), iteration_rule=TRANSFER_RULE, samples=SAMPLES)
        }
        for level in levels
    }
    return {"clean": "clean", **made}


def ratio_over_epsilon(levels: Sequence[float], results: Results) -> list[Block]:
    """IoU ratio of every member over epsilon, and its clean figure."""
    lines = {
        member: [(level, results.ratio(member, level_name(level))) for level in levels] for member in results.members
    }
    clean = {"clean mIoU": lambda part, member: part.miou(member, "clean")}
    return [
        *curves(results, "IoU ratio over epsilon", lines, "epsilon (grey levels of 255)", "IoU ratio"),
        *figures(results, "Clean mIoU behind every transformation", clean, "What the defence costs comes first."),
    ]


def gain(kind: str, results: Results, level: float = 8.0) -> FloatArray:
    """Figure behind a transformation minus mIoU without it, under the same label of threat."""
    return results.miou(kind, level_name(level)) - results.miou(NONE, level_name(level))


def no_gain(kind: str, results: Results, level: float = 8.0) -> FloatArray:
    """Five points minus the gain: above 0 where the defence is worth less than five points."""
    return np.asarray(0.05 - gain(kind, results, level))


_SHORT = (2.0, 8.0, 32.0)
_TRANSFORM_SETTING = f"DeepLab v2 multiscale; iterative FGSM towards the least likely class; {VOC}, nine trials."
TRANSFORM_STUDIES = (
    Study(
        name="arnab/figure-6",
        title="Transformations against an attacker who does not know of them",
        question="Does JPEG, blur, colour noise or grey before the network help?",
        setting=_TRANSFORM_SETTING,
        finding="At epsilon 8 the mIoU of 15.5 % rises to 47.7 (JPEG), 43.5 (blur), 33.5 (HSV) and 25.2 % (grey).",
        unknown="The units of the HSV noise; where in the pipeline the image is rounded.",
        members=TRANSFORMED,
        threats=unaware_threats(_SHORT),
        drawing=partial(ratio_over_epsilon, _SHORT),
        claims=[Claim(f"{kind} raises mIoU under the unaware attack at 8/255.", partial(gain, kind)) for kind in KINDS],
    ),
    Study(
        name="arnab/figure-7",
        title="Transformations against an attacker who knows of them",
        question="Is anything left of the gain when the attacker averages over draws of the transformation?",
        setting=f"{_TRANSFORM_SETTING} Gradients averaged over {SAMPLES} draws (Eq. 8, with the sign of Eq. 6).",
        finding="Under the aware attack the mIoU at epsilon 8 is 13.6 to 19.7 %, against 15.5 % without any "
        "transformation: the gain of Figure 6 is gone.",
        members=TRANSFORMED,
        threats=aware_threats(_SHORT),
        drawing=partial(ratio_over_epsilon, _SHORT),
        claims=[
            Claim(
                f"{kind} is worth less than 5 points of mIoU under the aware attack at 8/255.", partial(no_gain, kind)
            )
            for kind in KINDS
        ],
    ),
)


def transform_threats() -> dict[str, Mapping[str, Any] | str]:
    """Attacks made for every transformation."""
    made = {kind: transferred("ifgsm-ll", kind, samples=1 if kind == NONE else SAMPLES) for kind in TRANSFORMED}
    return {"clean": "clean", **made}


def transform_drawing(results: Results) -> list[Block]:
    """The 5 x 5 matrix of absolute mIoU."""
    columns = {kind: kind for kind in TRANSFORMED}
    return matrix(
        results,
        "mIoU under iterative FGSM ll at 8/255",
        columns,
        figure=miou,
        caption="Rows: the transformation before the network; columns: the one that the attack was made for.",
    )


def diagonal_is_lowest(kind: str, results: Results) -> FloatArray:
    """What is left under the attack on the plain network minus under the attack that knows the transformation."""
    return results.miou(kind, NONE) - results.miou(kind, kind)


MATRIX_STUDY = Study(
    name="arnab/table-2",
    title="Attacks made for one transformation, shown behind another",
    question="Which attack transfers to which transformation?",
    setting=_TRANSFORM_SETTING,
    finding="Behind each transformation the attack that was made for it is far stronger than the one made for "
    "the plain "
    "network (19.7 against 47.7 % for JPEG, 18.4 against 43.5 for blur, 15.7 against 33.5 for HSV, 13.6 against "
    "25.2 for "
    "grey); attacks made for JPEG and blur hardly transfer to grey.",
    unknown="The text says that grey transfers best; by the printed numbers HSV does.",
    members=TRANSFORMED,
    threats=transform_threats(),
    drawing=transform_drawing,
    claims=[
        Claim(
            f"Behind {kind}, the attack made for it leaves less mIoU than the one made for the plain network.",
            partial(diagonal_is_lowest, kind),
        )
        for kind in KINDS
    ],
    published=partial(table, 2),
    also=("arnab/figure-8",),
)


# Figures 9, 10 and 20 to 25: conditional random fields.

PLAIN, CRF, PARTIAL = "plain", "crf", "crf, gradient of the unaries only"
CRF_MEMBERS = {
    PLAIN: "{model}",
    CRF: "crf:preset=crfrnn,iterations=5:{model}",
    PARTIAL: "crf:preset=crfrnn,iterations=5,image_gradient=false:{model}",
}


def crf_threats() -> dict[str, Mapping[str, Any] | str]:
    """Four attacks on the member itself, and FGSM made on the plain network."""
    own = {name: {"attack": attack(name)} for name in ATTACKS}
    return {"clean": "clean", **own, "fgsm from plain": transferred("fgsm", PLAIN)}


def crf_drawing(results: Results) -> list[Block]:
    """IoU ratios under every attack, and the clean figures."""
    columns = {name: name for name in (*ATTACKS, "fgsm from plain")}
    costs = {
        "clean mIoU": lambda part, member: part.miou(member, "clean"),
    }
    return [
        *matrix(results, "IoU ratio at 8/255", columns, caption="The last column was made on the plain network."),
        *figures(results, "Clean mIoU", costs),
    ]


CRF_STUDY = Study(
    name="arnab/figure-9",
    title="A CRF behind the network: robust, or a hidden gradient?",
    question="Does a conditional random field make a network robust to attacks?",
    setting=f"CRF-RNN and FCN8s, DeepLab v2 with and without CRF; {VOC}; gradients through the unaries only.",
    finding="Untargeted attacks look weak through the CRF, because its confident output hides the gradient; "
    "images made "
    "on the network without it fool both, and targeted attacks show no difference.",
    unknown="Section 8.3 says untargeted where Section 8.1 and the figures say targeted.",
    members=CRF_MEMBERS,
    threats=crf_threats(),
    drawing=crf_drawing,
    claims=[
        Claim(
            "Through the CRF (gradient of the unaries, as printed) FGSM leaves a higher IoU ratio than on the plain "
            "network.",
            lambda results: results.ratio(PARTIAL, "fgsm") - results.ratio(PLAIN, "fgsm"),
        ),
        Claim(
            "FGSM images made on the plain network are stronger on the CRF model than its own.",
            lambda results: results.ratio(PARTIAL, "fgsm") - results.ratio(PARTIAL, "fgsm from plain"),
        ),
        Claim(
            "Against the least likely class (iterative FGSM ll) the CRF is worth less than 5 points of IoU ratio.",
            lambda results: np.asarray(0.05 - (results.ratio(PARTIAL, "ifgsm-ll") - results.ratio(PLAIN, "ifgsm-ll"))),
        ),
    ],
    also=("arnab/figure-10", "arnab/figure-20"),
)

SPATIAL_WIDTHS = (1, 10, 50, 160)


def sweep_members() -> dict[str, str]:
    """The CRF with narrow to wide kernels."""
    fields = {
        f"theta_alpha {width}": f"crf:preset=crfrnn,iterations=5,theta_alpha={width}:{{model}}"
        for width in SPATIAL_WIDTHS
    }
    return {PLAIN: "{model}", **fields}


def sweep_drawing(results: Results) -> list[Block]:
    """Ratio, clean figure and confidence of every width."""
    columns = {
        "IoU ratio, FGSM": lambda part, member: part.ratio(member, "fgsm"),
        "clean mIoU": lambda part, member: part.miou(member, "clean"),
        "confidence, clean": lambda part, member: np.full(1, part.figure("confidence", member, "clean").value),
    }
    return figures(
        results, "More smoothing, and how sure the network is", columns, "Wider kernels smooth more (Figures 21, 22)."
    )


SWEEP_STUDY = Study(
    name="arnab/figure-21",
    title="Wider kernels of the CRF",
    question="Is it the smoothing that seems to help?",
    setting=f"CRF-RNN with theta_alpha 1 to 160; FGSM; {VOC}.",
    finding="Larger bandwidths do not help: theta_alpha about 1 is more robust than 160. Robustness follows the "
    "confidence of the output, not its smoothness (Figures 24, 25).",
    unknown="Which of the other parameters were kept.",
    members=sweep_members(),
    threats={"clean": "clean", "fgsm": {"attack": attack("fgsm")}},
    drawing=sweep_drawing,
    claims=[
        Claim(
            "theta_alpha 1 is at least as robust to FGSM as 160 (IoU ratio).",
            lambda results: results.ratio("theta_alpha 1", "fgsm") - results.ratio("theta_alpha 160", "fgsm"),
        )
    ],
)


# Figures 2 to 4 and 14 to 16, Tables 7 to 14: networks side by side.

MODEL = "network"


def network_threats(names: Sequence[str], levels: Sequence[float]) -> dict[str, Mapping[str, Any] | str]:
    """Attacks on the network itself at several epsilons."""
    made = {
        f"{name} {level_name(level)}": {"attack": attack(name, level_name(level))} for name in names for level in levels
    }
    return {"clean": "clean", **made}


def network_drawing(names: Sequence[str], levels: Sequence[float], results: Results) -> list[Block]:
    """IoU ratio over epsilon, one line per attack."""
    lines = {name: [(level, results.ratio(MODEL, f"{name} {level_name(level)}")) for level in levels] for name in names}
    clean = {"clean mIoU": lambda part, member: part.miou(member, "clean")}
    return [
        *curves(results, "IoU ratio over epsilon", lines, "epsilon (grey levels of 255)", "IoU ratio"),
        *figures(results, "Clean mIoU", clean),
    ]


def iterative_is_stronger(levels: Sequence[float], results: Results) -> FloatArray:
    """IoU ratio under FGSM minus under iterative FGSM, the smallest over epsilon."""
    return smallest(
        [
            results.ratio(MODEL, f"fgsm {level_name(level)}") - results.ratio(MODEL, f"ifgsm {level_name(level)}")
            for level in levels
        ]
    )


def smallest_loss(name: str, results: Results) -> FloatArray:
    """Relative loss at the smallest epsilon minus 3 %, the smallest over models."""
    return smallest([0.97 - results.ratio(MODEL, f"{name} {level_name(0.25)}", model) for model in results.models])


def order_differs(results: Results) -> FloatArray:
    """IoU ratio of the most robust of the others minus that of the network with the best clean figure."""
    clean = [results.miou(MODEL, "clean", model) for model in results.models]
    robust = [results.ratio(MODEL, f"fgsm {level_name(8.0)}", model) for model in results.models]
    best = int(np.argmax([values[0] for values in clean]))
    return largest([values for index, values in enumerate(robust) if index != best]) - robust[best]


_FIGURE_2 = (0.25, 1.0, 4.0, 8.0, 32.0)
_ALL = ATTACKS
NETWORK_STUDY = Study(
    name="arnab/figure-2",
    title="Networks side by side",
    question="Which network keeps the most of its mIoU?",
    setting="Nine networks on VOC (346 images), six on Cityscapes (500 images at 512x1024); four attacks, "
    "epsilon 0.25 to "
    "32, alpha 1, max(eps + 4, ceil(5 eps)) steps.",
    finding="Residual networks are more robust than VGG ones; the most accurate network (PSPNet) is not the most "
    "robust "
    "(DeepLab v2 multiscale); size does not decide; an epsilon of 0.25 already costs every network 3 % and more.",
    unknown="FGSM with the true label or the prediction; ours is the suite's. By the printed tables iterative FGSM is "
    "not the stronger one at 0.25, nor always at 32, and one network loses 2.2 % only at 0.25 (DeepLab v2, ll).",
    members={MODEL: "{model}"},
    threats=network_threats(_ALL, _FIGURE_2),
    drawing=partial(network_drawing, _ALL, _FIGURE_2),
    claims=[
        Claim("Iterative FGSM is stronger than FGSM at 4 and 8/255.", partial(iterative_is_stronger, (4.0, 8.0))),
        *(
            Claim(f"{name} at 0.25/255 costs every network 3 % of its mIoU at least.", partial(smallest_loss, name),
                  models=2)
            for name in _ALL
        ),
        Claim("The most accurate network is not the most robust one (FGSM, 8/255).", order_differs, models=3),
    ],
    published=lambda: pd.concat([table(number) for number in range(7, 15)]),
    also=(
        *(f"arnab/figure-{number}" for number in (3, 4, 14, 15)),
        *(f"arnab/table-{number}" for number in (7, 8, 9, 10, 11, 12, 13, 14)),
        "arnab/text-5.3",
        "arnab/text-5.4",
    ),
)  # fmt: skip

RANKS = (2, 3, 5)
LEAST = "least likely"


def rank_drawing(results: Results) -> list[Block]:
    """IoU ratio over the rank of the target class."""
    line = [(float(rank), results.ratio(MODEL, f"rank {rank}")) for rank in RANKS]
    least = {"IoU ratio, least likely class": lambda part, member: part.ratio(member, LEAST)}
    title, axis = "IoU ratio over the rank of the target", "rank of the class"
    return [
        *curves(results, title, {"fgsm-nth": line}, axis, "IoU ratio"),
        *figures(results, "The least likely class", least),
    ]


RANK_STUDY = Study(
    name="arnab/figure-16",
    title="The choice of the target class",
    question="Is the second most likely class or the least likely one the better target of FGSM?",
    setting="FCN8s; FGSM towards the n-th most likely class, n from 2 to 21 (VOC) or 19 (Cityscapes).",
    finding="On Cityscapes the second most likely class hurts more than the least likely, on VOC it hurts least.",
    unknown="The epsilons drawn.",
    members={MODEL: "{model}"},
    threats={
        "clean": "clean",
        **{f"rank {rank}": {"attack": attack("fgsm-nth", rank=rank)} for rank in RANKS},
        LEAST: {"attack": attack("fgsm-ll")},
    },
    drawing=rank_drawing,
    claims=[
        Claim(
            "The second most likely class hurts more than the least likely (as on Cityscapes).",
            lambda results: results.ratio(MODEL, LEAST) - results.ratio(MODEL, f"rank {RANKS[0]}"),
        )
    ],
)

for _study in (
    *MULTISCALE_STUDIES,
    *TRANSFORM_STUDIES,
    MATRIX_STUDY,
    CRF_STUDY,
    SWEEP_STUDY,
    NETWORK_STUDY,
    RANK_STUDY,
):
    studies.add(_study.name, _study, aliases=tuple(_study.also))

"""Tables 1, 15 to 20 and Figures 17 to 19: one network at several scales."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gauntlet.report.document import Block
from gauntlet.studies.contract import Claim, Description, Study
from gauntlet.studies.drawings import curves, figures, matrix
from gauntlet.studies.figures import Figures, FloatArray, largest, mean_of, smallest
from gauntlet.studies.papers.arnab.shared import (
    ATTACKS,
    EPSILON,
    EPSILON_AXIS,
    LEVELS,
    RATIO_AXIS,
    VOC,
    VOC_8,
    label,
    printed_threat,
    table,
    transferred,
)
from gauntlet.studies.printed import Printed

MULTISCALE = "multiscale"
SINGLE = ("50 %", "75 %", "100 %")
SCALES = (*SINGLE, MULTISCALE)
MAXIMUM = "multiscale, max pooling"
"""The other pooling, beside the mean."""


def scales(pool: str) -> dict[str, str]:
    """The network at each scale, and at all of them."""
    return {
        "50 %": "multiscale:scales=0.5:{model}",
        "75 %": "multiscale:scales=0.75:{model}",
        "100 %": "{model}",
        MULTISCALE: f"multiscale:scales=0.5+0.75+1,pool={pool}:{{model}}",
    }


def made_on(name: str, source: str, level: float = EPSILON) -> str:
    """The label of an attack made on a scale."""
    return f"{label(name, level)} from {source}"


def scale_threats(names: Sequence[str], levels: Sequence[float] = (EPSILON,)) -> dict[str, Description]:
    """Clean images, and each attack made on each scale and on all of them."""
    made = {
        made_on(name, source, level): transferred(name, source, level)
        for name in names
        for level in levels
        for source in SCALES
    }
    return {"clean": "clean", **made}


def own_ratio(results: Figures, name: str, member: str, level: float = EPSILON) -> FloatArray:
    """IoU ratio of a member under the attack made on itself."""
    return results.ratio(member, made_on(name, member, level))


def scale_drawing(names: Sequence[str], results: Figures) -> list[Block]:
    """A matrix per attack, and the clean figures."""
    blocks: list[Block] = []
    for name in names:
        columns = {source: made_on(name, source) for source in SCALES}
        rows = [scale for scale in SCALES if scale in results.members]
        blocks += matrix(results, f"IoU ratio under {name} at 8/255", columns, members=rows)
    return [*blocks, *clean_figures(results)]


def clean_figures(results: Figures) -> list[Block]:
    """Clean mIoU of every scale."""
    clean = {"clean mIoU": lambda part, member: part.miou(member, "clean")}
    return figures(results, "Clean mIoU of every scale (Tables 15 and 16)", clean)


def level_drawing(results: Figures) -> list[Block]:
    """Per attack, over epsilon: every source on the multiscale network, and every scale under its own attack."""
    blocks: list[Block] = []
    for name in ATTACKS:
        shown = {
            f"made on {source}": [(level, results.ratio(MULTISCALE, made_on(name, source, level))) for level in LEVELS]
            for source in SCALES
        }
        own = {scale: [(level, own_ratio(results, name, scale, level)) for level in LEVELS] for scale in SCALES}
        caption = "The last line is the white box."
        blocks += curves(results, f"{name} on the multiscale network", shown, EPSILON_AXIS, RATIO_AXIS, caption=caption)
        blocks += curves(results, f"{name} made on the network at each scale", own, EPSILON_AXIS, RATIO_AXIS)
    return [*blocks, *clean_figures(results)]


def multiscale_is_most_robust(name: str, results: Figures) -> FloatArray:
    """Ratio of the multiscale network under its own attack minus the largest of the scales under theirs."""
    return own_ratio(results, name, MULTISCALE) - largest([own_ratio(results, name, each) for each in SINGLE])


def single_scales_transfer_badly(name: str, results: Figures) -> FloatArray:
    """Ratio on other scales minus the white-box ratio, the smallest over pairs of single scales."""
    return smallest(
        [
            results.ratio(target, made_on(name, source)) - own_ratio(results, name, source)
            for target, source in itertools.permutations(SINGLE, 2)
        ]
    )


def neighbours_transfer_better(name: str, results: Figures) -> FloatArray:
    """Ratio between 50 and 100 % minus ratio on 75 %, the smaller of both directions."""
    first, middle, last = SINGLE
    return smallest(
        [
            results.ratio(far, made_on(name, source)) - results.ratio(middle, made_on(name, source))
            for source, far in ((first, last), (last, first))
        ]
    )


def multiscale_attacks_are_nearly_white_box(name: str, results: Figures) -> FloatArray:
    """Five points minus what a single scale keeps more under the multiscale attack than under its own, the largest."""
    return np.asarray(
        0.05
        - largest([results.ratio(each, made_on(name, MULTISCALE)) - own_ratio(results, name, each) for each in SINGLE])
    )


def multiscale_attacks_transfer_best(name: str, results: Figures) -> FloatArray:
    """Mean ratio of single scales under the other scales' attacks minus under the multiscale attack."""
    others = [results.ratio(target, made_on(name, source)) for target, source in itertools.permutations(SINGLE, 2)]
    return mean_of(others) - mean_of([results.ratio(each, made_on(name, MULTISCALE)) for each in SINGLE])


def own_attack_is_strongest(name: str, results: Figures) -> FloatArray:
    """Ratio of the multiscale network under the attack of the best single scale minus under its own."""
    others = [results.ratio(MULTISCALE, made_on(name, source)) for source in SINGLE]
    return smallest(others) - own_ratio(results, name, MULTISCALE)


def clean_figures_rise(results: Figures) -> FloatArray:
    """The smallest rise of the clean mIoU from 50 to 75 to 100 % to all scales."""
    clean = [results.miou(scale, "clean") for scale in SCALES]
    return smallest([larger - smaller for smaller, larger in itertools.pairwise(clean)])


def poolings_agree(name: str, results: Figures) -> FloatArray:
    """Five points minus how far the IoU ratios of both poolings are apart, each under the attack made on itself."""
    apart = own_ratio(results, name, MULTISCALE) - own_ratio(results, name, MAXIMUM)
    return np.asarray(0.05 - np.abs(apart))


def most_robust_claim(name: str) -> Claim:
    """Several scales are better than each alone."""
    return Claim(
        f"The multiscale network is more robust to {name} made on itself than any single scale is to its own.",
        partial(multiscale_is_most_robust, name),
    )


def printed_scales(network: str, numbers: Sequence[int], pooling: str, clean: int) -> Printed:
    """What the paper prints of a network at its scales.

    Args:
        network: its name, with {scale} for what the tables call a scale.
        numbers: of the tables of IoU ratios.
        pooling: of the multiscale rows.
        clean: the table of clean figures.
    """
    names = {"50 %": "50% scale", "75 %": "75% scale", "100 %": "100% scale", MULTISCALE: "Multiscale"}
    spelled = {network.format(scale=words): scale for scale, words in names.items()}
    threats = {printed_threat(name): name for name in ATTACKS}
    model = network.format(scale="").replace("  ", " ")
    ratios = {
        (model, spelled[row["model"]], made_on(threats[row["threat"]], spelled[row["source_model"]])): row["value"]
        for number in numbers
        for row in table(number).to_dict("records")
        if row["model"] in spelled
    }
    mious = {}
    for row in table(clean).to_dict("records"):
        scale = next(scale for scale, words in names.items() if words in row["model"])
        if row["pooling"]:
            scale = MULTISCALE  # the average is printed as that of the 100 % scale, a slip
        if row["pooling"] in ("", pooling):
            mious[model, scale, "clean"] = row["value"]
    where = f"Tables {', '.join(map(str, (*numbers, clean)))}, VOC, epsilon 8 of 255"
    return Printed(where, mious, ratios)


def scale_study(
    item: str,
    pool: str,
    names: Sequence[str],
    setting: str,
    *,
    printed: partial[Printed],
    robust: Sequence[str],
    also: Sequence[str] = (),
) -> Study:
    """A study of one pooling and two attacks.

    Args:
        item: the table.
        pool: how scales are pooled.
        names: of the two attacks, the iterative one last.
        setting: the paper's.
        printed: its figures.
        robust: those for which the paper's own figures say that several scales are more robust than each alone.
        also: other tables that show the same.
    """
    claims = [
        *map(most_robust_claim, robust),
        *(
            Claim(
                f"{name} made on one scale leaves more on every other scale than on its own.",
                partial(single_scales_transfer_badly, name),
            )
            for name in names
        ),
        *(
            Claim(
                f"{name} transfers worst between 50 and 100 %: more is left there than on 75 %.",
                partial(neighbours_transfer_better, name),
            )
            for name in names
        ),
        Claim(
            f"{names[-1]} made on the multiscale network leaves no single scale 5 points (bound ours) more than its "
            "own attack.",
            partial(multiscale_attacks_are_nearly_white_box, names[-1]),
        ),
        Claim(
            f"{names[-1]} made on the multiscale network is stronger on single scales than what other scales make.",
            partial(multiscale_attacks_transfer_best, names[-1]),
        ),
        Claim("Clean mIoU rises from 50 to 75 to 100 % and once more with all scales.", clean_figures_rise),
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
        printed=printed,
        also=tuple(f"arnab/{each}" for each in also),
    )


def beside_max(study: Study, names: Sequence[str], maximum: partial[Printed]) -> Study:
    """A study of the mean that also has the maximum, attacked on itself alone.

    Args:
        study: of `scale_study`.
        names: of its attacks.
        maximum: the paper's figures of the maximum.
    """
    own = {made_on(name, MAXIMUM): transferred(name, MAXIMUM) for name in names}
    needless: dict[tuple[str, str], None] = {(scale, threat): None for scale in SCALES for threat in own}
    needless |= {(MAXIMUM, threat): None for threat in study.threats if threat != "clean"}
    assert study.printed is not None
    return replace(
        study,
        members={**study.members, MAXIMUM: scales("max")[MULTISCALE]},
        threats={**study.threats, **own},
        exceptions=needless,
        claims=[
            *study.claims,
            *(
                Claim(
                    f"Mean and maximum are worth the same under {name} made on each itself (within 5 points; "
                    "bound ours).",
                    partial(poolings_agree, name),
                )
                for name in names
            ),
        ],
        printed=partial(with_maximum, study.printed, maximum, names),
    )


def with_maximum(mean: Callable[[], Printed], maximum: Callable[[], Printed], names: Sequence[str]) -> Printed:
    """The figures of the mean, and of the maximum those that `beside_max` compares."""
    found, other = mean(), maximum()
    model = other.models[0]
    ratios = {
        (model, MAXIMUM, made_on(name, MAXIMUM)): other.ratios[model, MULTISCALE, made_on(name, MULTISCALE)]
        for name in names
    }
    clean = {(model, MAXIMUM, "clean"): other.mious[model, MULTISCALE, "clean"]}
    return replace(found, ratios={**found.ratios, **ratios}, mious={**found.mious, **clean})


def level_study(
    item: str,
    pool: str,
    setting: str,
    *,
    printed: partial[Printed],
    robust: Sequence[str],
    strongest: Sequence[str] = ATTACKS,
) -> Study:
    """A study of four attacks over epsilon, on the multiscale network and on every scale itself.

    Args:
        item, pool, setting, printed, robust: as for `scale_study`.
        strongest: the attacks that the paper's own figures call strongest where they are made on the network itself.
    """
    threats = scale_threats(ATTACKS, LEVELS)
    needless: Mapping[tuple[str, str], None] = {
        (scale, threat): None
        for scale in SINGLE
        for threat in threats
        if threat != "clean" and not threat.endswith(f" from {scale}")
    }
    return Study(
        name=f"arnab/{item}",
        title=f"Attacks made on one scale, shown to all of them, over epsilon, {pool} pooling",
        question="How do attacks on single scales fare against a network that sees several, from weak to strong?",
        setting=setting,
        finding="What is made on one scale is weaker on the multiscale network than the white box, far more so for "
        "iterative attacks; at epsilon 8 FGSM on FCN8s is the one exception.",
        unknown="The heights of the bars; the tables print those at epsilon 8.",
        members=scales(pool),
        threats=threats,
        exceptions=needless,
        drawing=level_drawing,
        claims=[
            *map(most_robust_claim, robust),
            *(
                Claim(
                    f"On the multiscale network {name} at 8/255 made on itself is stronger than made on any scale.",
                    partial(own_attack_is_strongest, name),
                )
                for name in strongest
            ),
        ],
        printed=printed,
    )


_DEEPLAB_NETWORK = f"DeepLab v2 (ResNet-101), trained on several scales; {VOC}"
_FCN_NETWORK = f"FCN8s (VGG), not trained on several scales; {VOC}"
_DEEPLAB = f"DeepLab v2 (ResNet-101), trained on several scales; {VOC_8}."
_FCN = f"FCN8s (VGG), not trained on several scales; {VOC_8}."
_LEVELS = "; epsilon 0.25 to 32."
_FIRST, _SECOND = ("fgsm", "ifgsm-ll"), ("fgsm-ll", "ifgsm")
_max = partial(printed_scales, "Deeplab v2 {scale} (ResNet)", (1, 18), "max", 15)
_mean = partial(printed_scales, "Deeplab v2 {scale} (ResNet)", (17,), "average", 15)
_fcn = partial(printed_scales, "FCN8 {scale} (VGG)", (19, 20), "max", 16)
# Where the printed figures deny that several scales are more robust: 16.7 against 18.0 % in Table 17, 20.0 against
# 20.5 % in Table 19, both iterative FGSM ll.
STUDIES = (
    scale_study("table-1", "max", _FIRST, _DEEPLAB, printed=_max, robust=_FIRST, also=("table-15",)),
    scale_study("table-18", "max", _SECOND, _DEEPLAB, printed=_max, robust=_SECOND),
    beside_max(scale_study("table-17", "mean", _FIRST, _DEEPLAB, printed=_mean, robust=("fgsm",)), _FIRST, _max),
    scale_study("table-19", "max", _FIRST, _FCN, printed=_fcn, robust=("fgsm",), also=("table-16",)),
    scale_study("table-20", "max", _SECOND, _FCN, printed=_fcn, robust=_SECOND),
    level_study("figure-17", "mean", _DEEPLAB_NETWORK + _LEVELS, printed=_mean, robust=("fgsm",)),
    level_study("figure-18", "max", _DEEPLAB_NETWORK + _LEVELS, printed=_max, robust=ATTACKS),
    level_study(
        "figure-19", "max", _FCN_NETWORK + _LEVELS, printed=_fcn, robust=("fgsm", *_SECOND), strongest=ATTACKS[1:]
    ),
)

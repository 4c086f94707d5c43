"""Marchiori Pietrosanti et al.: localized corruptions and attacks, Table 1, Figures 4 to 9 (docs/specs/studies.md, 1).

Claims have the numbers of section 7 there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gauntlet.metrics.arithmetic import divide
from gauntlet.models.sources import shipped
from gauntlet.report.charts import Axis
from gauntlet.report.document import Block
from gauntlet.results import published
from gauntlet.studies.contract import Claim, Condition, Description, Study, studies
from gauntlet.studies.correlation_rules import ENOUGH_MODELS
from gauntlet.studies.drawings import curves, scatter, side_by_side
from gauntlet.studies.figures import UNKNOWN, Figures, FloatArray, largest, mean_of, rank_correlation, smallest
from gauntlet.studies.printed import Place, Printed
from gauntlet.threats.suites import LARGE, SMALL, SPATIAL_CORRUPTIONS, localized, rounds_in_square

NETWORK = "network"
MEMBERS = {NETWORK: "{model}"}
INSIDE, OUTSIDE = "inside", "outside"
SEVERITIES = (1, 3, 5)
RATIOS = tuple(step / 10 for step in range(1, 11))
ROUNDS = (1, 2, 3, 4, 5)
STEPS = (10, 25, 50, 100, 150, 200, 250)
LEVELS = (16, 32)
SIZES: Mapping[str, str] = {"100": SMALL, "200": LARGE}
TRANSFORMERS = ("segformer", "swin", "mask2former", "maskformer", "setr", "vit", "beit")
"""Words in the names of networks that are taken for transformers where the type of their backbone is not known."""
CITYSCAPES = "Cityscapes validation set, 500 images, resized to a size that is not named"
SHARES = (
    "Here patches are a quarter of the height (256 of 1024 pixels) and squares 100 or 200 of 1024 of it, so that they "
    "fit images of any size. Transformers are told by the type of their backbone, else by their names."
)


# Figures of one network.


def accuracy(results: Figures, threat: str, view: str, model: str | None = None) -> FloatArray:
    """(R,) A_M (inside) or A_Mbar (outside)."""
    return results.image_accuracy(NETWORK, threat, model, view)


def clean_accuracy(results: Figures, threat: str, view: str, model: str | None = None) -> FloatArray:
    """(R,) the same of the clean images; of the whole image where no more is printed."""
    inside = results.image_accuracy(NETWORK, threat, model, f"clean {view}")
    if results.source == "here":
        return inside
    return results.image_accuracy(NETWORK, "clean", model)


def relative_error(results: Figures, names: Sequence[str], view: str, model: str | None = None) -> FloatArray:
    """(R,) RCE in a region: accuracies are averaged over the threats first, then the quotient is formed."""
    kept = mean_of([accuracy(results, name, view, model) for name in names])
    base = mean_of([clean_accuracy(results, name, view, model) for name in names])
    return np.asarray(divide(base - kept, base), dtype=np.float64)


def lost(results: Figures, names: Sequence[str], view: str, model: str | None = None) -> FloatArray:
    """(R,) clean accuracy minus accuracy in a region, mean over threats."""
    return mean_of(
        [clean_accuracy(results, name, view, model) - accuracy(results, name, view, model) for name in names]
    )


# Two groups of networks.

OfModel = Callable[[str], FloatArray]


def is_transformer(results: Figures, model: str) -> bool:
    """Whether a network is a transformer by the type of its backbone; by its name where that is not known."""
    known = results.backbone_type(model)
    return known == "transformer" if known else any(word in model.lower() for word in TRANSFORMERS)


def of_groups(
    results: Figures, figure: OfModel, fold: Callable[[Sequence[FloatArray]], FloatArray] = mean_of
) -> tuple[FloatArray, FloatArray]:
    """A figure of the transformers and of the other networks, folded over each group; unknown where one is empty."""
    groups = kinds(results)
    if not all(groups):
        return UNKNOWN, UNKNOWN
    transformers, others = (fold([figure(model) for model in group]) for group in groups)
    return transformers, others


def kinds(results: Figures) -> tuple[list[str], list[str]]:
    """The transformers, and the other networks."""
    transformers = [model for model in results.models if is_transformer(results, model)]
    return transformers, [model for model in results.models if model not in transformers]


def network_of(model: str) -> tuple[str, int] | str:
    """The network of a shipped model by its card: its trainings are one network; any other model is one of its own."""
    return shipped.find(model).network if model in shipped.names() else model


def one_of_a_kind(results: Figures) -> str:
    """Why a claim about transformers cannot be judged of these networks."""
    fewest = min(len(set(map(network_of, group))) for group in kinds(results))
    return "" if fewest >= 2 else f"{('no', 'one')[fewest]} network of a kind"


TWO_OF_A_KIND = Condition(
    "a verdict on transformers takes two of them and two other networks, as intervals over images tell nothing of a "
    "kind (two sizes of SegFormer count, as in the paper, two trainings of a network do not)",
    one_of_a_kind,
)
LEAST_EFFECT = 0.05
"""An attack acts where one network loses such a share of its clean accuracy outside; SegFormer lost 0.66 in print."""


def lead(results: Figures, figure: OfModel) -> FloatArray:
    """(R,) mean of the transformers minus mean of the others."""
    transformers, others = of_groups(results, figure)
    return np.asarray(transformers - others)


# Table 1: severity.


def corrupted(name: str, severity: int = 3, ratio: float = 0.5) -> str:
    """The label of a localized corruption."""
    return f"{name} {severity}" if ratio == 0.5 else f"{name} {severity}, ratio {ratio:g}"


def severity_threats() -> dict[str, Description]:
    """Three corruptions at three severities, half of the patches."""
    made = {
        corrupted(name, severity): localized(name, severity) for name in SPATIAL_CORRUPTIONS for severity in SEVERITIES
    }
    return {"clean": "clean", **made}


def printed_severities() -> Printed:
    """Table 1."""
    accuracies: dict[tuple[Place, str], float] = {}
    for row in published.frame(source="spatial").to_dict("records"):
        label = str(row["threat"]).partition(" on ")[0]
        accuracies[(row["model"], NETWORK, label), row["view"]] = row["value"]
    note = "Clean accuracy is of the whole image; the caption says severities 1, 2, 3, the header 1, 3, 5."
    return Printed("Table 1, Cityscapes", {}, accuracies=accuracies, note=note)


def severity_drawing(results: Figures) -> list[Block]:
    """Accuracy by network; a table per corruption, and the mean over them."""
    blocks: list[Block] = []
    for name in SPATIAL_CORRUPTIONS:
        columns: dict[str, OfModel] = {"clean": partial(results.image_accuracy, NETWORK, "clean")}
        for view in (INSIDE, OUTSIDE):
            for severity in SEVERITIES:
                columns[f"{view} {severity}"] = partial(accuracy, results, corrupted(name, severity), view)
        blocks += side_by_side(results, f"Accuracy under localized {name}", columns, results.models, _AREA)
    means: dict[str, OfModel] = {
        f"RCE {view} {severity}": partial(relative_error, results, every(severity), view)
        for view in (INSIDE, OUTSIDE)
        for severity in SEVERITIES
    }
    caption = "Accuracies are averaged over the three corruptions first, then the relative error is formed."
    return blocks + side_by_side(results, "Mean over the corruptions", means, results.models, caption)


_AREA = "Mean over images of the accuracy inside and outside the corrupted patches; clean: of the whole image."


def every(severity: int) -> list[str]:
    """The labels of the corruptions at one severity."""
    return [corrupted(name, severity) for name in SPATIAL_CORRUPTIONS]


def mean_accuracy(results: Figures, names: Sequence[str], view: str, model: str) -> FloatArray:
    """(R,) accuracy in a region, mean over threats."""
    return mean_of([accuracy(results, name, view, model) for name in names])


def outside_lead(results: Figures, severity: int) -> FloatArray:
    """(R,) by how much transformers are better outside at a severity, mean over corruptions."""
    return lead(results, lambda model: mean_accuracy(results, every(severity), OUTSIDE, model))


def noise_lead(results: Figures) -> FloatArray:
    """(R,) the worst transformer minus the best of the others inside noise at severity 5."""
    label = corrupted("gaussian_noise", 5)
    worst, _ = of_groups(results, lambda model: accuracy(results, label, INSIDE, model), smallest)
    _, best = of_groups(results, lambda model: accuracy(results, label, INSIDE, model), largest)
    return np.asarray(worst - best)


def no_winner(results: Figures) -> FloatArray:
    """(R,) 5 points minus what the best of a kind is ahead inside snow and brightness at severity 5, the smaller."""
    margins = []
    for name in ("snow", "brightness"):
        figure = partial(accuracy, results, corrupted(name, 5), INSIDE)
        best, other = of_groups(results, figure, largest)
        margins.append(np.asarray(0.05 - np.abs(best - other)))
    return smallest(margins)


def spreads(results: Figures) -> FloatArray:
    """(R,) accuracy lost outside at severity 5, mean over corruptions, the smallest over networks."""
    return smallest([lost(results, every(5), OUTSIDE, model) for model in results.models])


# Figure 4: ratio.


def ratio_threats() -> dict[str, Description]:
    """Snow and noise at severity 3, from a tenth of the patches to all of them."""
    made = {
        corrupted(name, ratio=ratio): localized(name, ratio=ratio)
        for name in ("snow", "gaussian_noise")
        for ratio in RATIOS
    }
    return {"clean": "clean", **made}


def ratio_drawing(results: Figures) -> list[Block]:
    """RCE over the ratio, a line per network, inside and outside."""
    blocks: list[Block] = []
    for name in ("snow", "gaussian_noise"):
        for view in (INSIDE, OUTSIDE):
            # At a ratio of 1 nothing is outside.
            ratios = RATIOS if view == INSIDE else RATIOS[:-1]
            lines = {
                model: [
                    (ratio, relative_error(results, [corrupted(name, ratio=ratio)], view, model)) for ratio in ratios
                ]
                for model in results.models
            }
            blocks += curves(results, f"RCE {view} under {name}", lines, "ratio of patches", "RCE")
    return blocks


def error_lead(results: Figures, name: str, ratio: float) -> FloatArray:
    """(R,) by how much the RCE of transformers inside is smaller than that of the others."""
    return -lead(results, partial(relative_error, results, [corrupted(name, ratio=ratio)], INSIDE))


# Figures 5, 8 and 9: attacks in a square.


def attacked(size: str = "200", level: int = 16, rounds: int = 3, steps: int = 50, position: str = "centre") -> str:
    """The label of a region-aware attack."""
    return f"{size} px, {level}/255, {rounds} x {steps}, {position}"


def attack(
    size: str = "200", level: int = 16, rounds: int = 3, steps: int = 50, position: str = "centre"
) -> Description:
    """The region-aware attack in a square of the paper."""
    return rounds_in_square(SIZES[size], level, rounds=rounds, steps=steps, position=position)


def square_threats(sizes: Sequence[str] = tuple(SIZES)) -> dict[str, Description]:
    """Squares at two budgets."""
    made = {attacked(size, level): attack(size, level) for size in sizes for level in LEVELS}
    return {"clean": "clean", **made}


def square_drawing(results: Figures) -> list[Block]:
    """Accuracy outside the square: clean, and at two budgets."""
    blocks: list[Block] = []
    for size in SIZES:
        first = attacked(size, LEVELS[0])
        columns: dict[str, OfModel] = {"clean": partial(clean_accuracy, results, first, OUTSIDE)}
        for level in LEVELS:
            columns[f"{level}/255"] = partial(accuracy, results, attacked(size, level), OUTSIDE)
        title = f"Accuracy outside a square of {size} of 1024"
        blocks += side_by_side(results, title, columns, results.models, "Worst case per pixel over three rounds.")
    return blocks


def attacked_error(label: str, results: Figures, model: str | None = None) -> FloatArray:
    """(R,) RCE outside under an attack."""
    return relative_error(results, [label], OUTSIDE, model)


def acting(*labels: str) -> Condition:
    """That one of the attacks takes LEAST_EFFECT of its accuracy outside from one network at least."""

    def lacking(results: Figures) -> str:
        errors = [float(attacked_error(label, results, model)[0]) for label in labels for model in results.models]
        most = max((each for each in errors if not np.isnan(each)), default=LEAST_EFFECT)
        return f"the attack hardly acts on these models (RCE outside {most:.3f} at most)" if most < LEAST_EFFECT else ""

    rule = f"a verdict on who suffers from an attack takes one network with an RCE outside of {LEAST_EFFECT:g} at least"
    return Condition(rule, lacking)


def turned_round(results: Figures) -> FloatArray:
    """(R,) RCE outside of transformers minus that of the others at 16/255, mean over both squares."""
    labels = [attacked(size) for size in SIZES]
    return lead(results, lambda model: mean_of([attacked_error(label, results, model) for label in labels]))


def line_drawing(title: str, labels: Mapping[float, str], axis: str, results: Figures) -> list[Block]:
    """RCE outside over a number, a line per network."""
    lines = {
        model: [(x, attacked_error(label, results, model)) for x, label in labels.items()] for model in results.models
    }
    return curves(results, title, lines, axis, "RCE outside")


_BY_ROUNDS = {float(rounds): attacked(rounds=rounds) for rounds in ROUNDS}
_BY_STEPS = {float(steps): attacked(steps=steps) for steps in STEPS}


def gain_of_rounds(results: Figures, model: str | None = None) -> FloatArray:
    """(R,) RCE outside after five rounds minus after one; never negative, as rounds only add fooled pixels."""
    return attacked_error(_BY_ROUNDS[5.0], results, model) - attacked_error(_BY_ROUNDS[1.0], results, model)


LEAST_GAIN = 0.1
"""What five rounds must add to the relative error; 0.35 is printed."""


def same_order(results: Figures) -> FloatArray:
    """(R,) Spearman's rho of RCE at 50 and at 250 steps over networks, minus 0.8."""
    few, many = (
        [attacked_error(_BY_STEPS[steps], results, model) for model in results.models] for steps in (50.0, 250.0)
    )
    return rank_correlation(few, many, redraw=True) - 0.8


CORNER = attacked(position="bottom-left")


def position_difference(results: Figures, model: str | None = None) -> FloatArray:
    """(R,) RCE outside with the square in the centre minus with it in the corner."""
    return attacked_error(attacked(), results, model) - attacked_error(CORNER, results, model)


def position_drawing(results: Figures) -> list[Block]:
    """RCE in both places and their difference."""
    columns: dict[str, OfModel] = {
        "centre": partial(attacked_error, attacked(), results),
        "bottom left": partial(attacked_error, CORNER, results),
        "difference": partial(position_difference, results),
    }
    return side_by_side(results, "RCE outside by position", columns, results.models, "Paired over images.")


def position_matters_less(results: Figures) -> FloatArray:
    """(R,) the largest difference of the others minus that of transformers, both without their sign."""
    transformers, others = of_groups(results, lambda model: np.abs(position_difference(results, model)), largest)
    return np.asarray(others - transformers)


# Sections 1 and 7: natural against adversarial.


def natural(results: Figures, model: str) -> FloatArray:
    """(R,) A_M at severity 3, mean over corruptions."""
    return mean_accuracy(results, every(3), INSIDE, model)


def adversarial(results: Figures, model: str) -> FloatArray:
    """(R,) A_Mbar under the attack in the large square at 16/255."""
    return accuracy(results, attacked(), OUTSIDE, model)


def relation_drawing(results: Figures) -> list[Block]:
    """One robustness against the other, a point per network."""
    points = {model: (natural(results, model), adversarial(results, model)) for model in results.models}
    axes = Axis("A inside natural corruptions (%)", percent=True), Axis("A outside attacks (%)", percent=True)
    return scatter(results, "Natural and adversarial robustness", points, *axes)


def unrelated(results: Figures) -> FloatArray:
    """(R,) 0.5 minus Spearman's rho of the two robustnesses over networks."""
    rho = rank_correlation(
        [natural(results, model) for model in results.models],
        [adversarial(results, model) for model in results.models],
        redraw=True,
    )
    return 0.5 - rho


def light_networks(results: Figures) -> FloatArray:
    """(R,) the lightest other network loses more to corruptions than transformers, less to attacks: the smaller."""
    others = {
        model: results.parameters(NETWORK, model) for model in results.models if not is_transformer(results, model)
    }
    transformers, _ = kinds(results)
    if not transformers or not others or np.isnan(list(others.values())).any():
        return UNKNOWN
    light = min(others, key=lambda model: others[model])
    to_nature = partial(relative_error, results, every(3), INSIDE)
    to_attacks = partial(attacked_error, attacked(), results)
    return smallest(
        [
            to_nature(light) - mean_of([to_nature(model) for model in transformers]),
            mean_of([to_attacks(model) for model in transformers]) - to_attacks(light),
        ]
    )


_ATTACK = "region-aware attack, epsilon 16/255, three rounds of 50 steps, square of 200x200 in the centre"
_STEP = "The step size and the start (ours: 2.5 epsilon / steps, from the clean image)."


def both(first: Study, second: Study, name: str) -> Study:
    """Two parts of a figure as one study."""

    def drawn(results: Figures) -> list[Block]:
        return [block for part in (first, second) if part.together for block in part.together(results)]

    return replace(
        first,
        name=name,
        title=f"{first.title}; {second.title[0].lower()}{second.title[1:]}",
        question=f"{first.question} {second.question}",
        setting=f"{first.setting} {second.setting}",
        finding=f"{first.finding} {second.finding}",
        unknown=f"{first.unknown} {second.unknown}",
        threats={**first.threats, **second.threats},
        together=drawn,
        claims=[*first.claims, *second.claims],
    )


BY_ROUNDS = Study(
    name="spatial/figure-8a",
    title="What more rounds gain",
    question="Does one perturbation reach all that several can?",
    setting=f"The {_ATTACK.replace('three rounds', 'one to five rounds')}; {CITYSCAPES}.",
    finding="SegFormer's relative error grows from about 0.6 (one round, plain PGD) to 0.95 (five), most for "
    "transformers and PSPNet.",
    unknown=f"The other lines. {_STEP} {SHARES}",
    members=MEMBERS,
    threats={"clean": "clean", **{attacked(rounds=rounds): attack(rounds=rounds) for rounds in ROUNDS}},
    together=partial(line_drawing, "RCE outside over rounds", _BY_ROUNDS, "rounds"),
    claims=[
        Claim(
            f"7: five rounds add {LEAST_GAIN:g} of RCE at least to what one reaches (0.6 to 0.95 printed; bound ours, "
            "as they cannot take any away).",
            lambda results: np.asarray(gain_of_rounds(results) - LEAST_GAIN),
            conditions=[acting(_BY_ROUNDS[5.0])],
        ),
        Claim(
            "7: and the gain is larger for transformers.",
            lambda results: lead(results, partial(gain_of_rounds, results)),
            models=2,
            conditions=[TWO_OF_A_KIND, acting(_BY_ROUNDS[5.0])],
        ),
    ],
)
BY_STEPS = Study(
    name="spatial/figure-8b",
    title="What more steps gain",
    question="Are 50 steps enough to compare networks?",
    setting=f"The {_ATTACK.replace('50 steps', 'up to 250 steps')}; {CITYSCAPES}.",
    finding="The relative error rises with the steps; 50 are enough for comparing networks.",
    unknown=f"The grid of steps (ours: 10 to 250). {_STEP} {SHARES}",
    members=MEMBERS,
    threats={"clean": "clean", **{attacked(steps=steps): attack(steps=steps) for steps in STEPS}},
    together=partial(line_drawing, "RCE outside over steps", _BY_STEPS, "steps of a round"),
    claims=[
        Claim(
            "8: 50 steps order networks as 250 do (Spearman's rho minus 0.8; bound ours).",
            same_order,
            models=3,
            conditions=[ENOUGH_MODELS, acting(_BY_STEPS[250.0])],
            unit="rho",
        ),
        Claim(
            "8: 250 steps reach more than 10.",
            lambda results: attacked_error(_BY_STEPS[250.0], results) - attacked_error(_BY_STEPS[10.0], results),
        ),
    ],
)
STUDIES = (
    Study(
        name="spatial/table-1",
        title="Accuracy inside and outside localized corruptions",
        question="Who bears natural corruptions of a part of the image, there and elsewhere?",
        setting="14 networks; brightness, snow, noise at severities 1, 3, 5; half of the patches of 256x256; "
        f"{CITYSCAPES}.",
        finding="Noise at severity 5: SegFormer-b1 42.2 % inside, b0 34.8, the next 22.4; outside 77.7, 73.0, 70.7. "
        "Snow: DeepLabV3-MobileNet first inside (25.2), SegFormer-b1 first outside (74.5).",
        unknown=f"Severities (the caption says 1, 2, 3) and the number of networks (15 in the text). {SHARES}",
        members=MEMBERS,
        threats=severity_threats(),
        together=severity_drawing,
        printed=printed_severities,
        claims=[
            Claim(
                "1: outside, transformers are better at severity 5 (mean over corruptions).",
                lambda results: outside_lead(results, 5),
                models=2,
                conditions=[TWO_OF_A_KIND],
            ),
            Claim(
                "1: and by more than at severity 1.",
                lambda results: outside_lead(results, 5) - outside_lead(results, 1),
                models=2,
                conditions=[TWO_OF_A_KIND],
            ),
            Claim(
                "2: inside noise at severity 5 every transformer is ahead of every other.",
                noise_lead,
                models=2,
                conditions=[TWO_OF_A_KIND],
            ),
            Claim(
                "2: inside snow and brightness nobody wins: neither kind leads by 5 points (bound ours).",
                no_winner,
                models=2,
                conditions=[TWO_OF_A_KIND],
            ),
            Claim("3: errors spread into clean regions (severity 5).", spreads, models=2),
            Claim(
                "3: and least for transformers.",
                lambda results: -lead(results, lambda model: lost(results, every(5), OUTSIDE, model)),
                models=2,
                conditions=[TWO_OF_A_KIND],
            ),
        ],
    ),
    Study(
        name="spatial/figure-4",
        title="Relative error over the share of corrupted patches",
        question="How does the share of corrupted patches count?",
        setting=f"Snow and noise at severity 3, the ratio swept; {CITYSCAPES}.",
        finding="Snow: DeepLabs are like SegFormer at small ratios and rise faster; noise: SegFormer is better from "
        "the start.",
        unknown=f"The grid of ratios (ours: 0.1 to 1) and which networks. {SHARES}",
        members=MEMBERS,
        threats=ratio_threats(),
        together=ratio_drawing,
        also=("spatial/figure-4a", "spatial/figure-4b"),
        parts={"spatial/figure-4a": ("snow*",), "spatial/figure-4b": ("gaussian_noise*",)},
        claims=[
            Claim(
                "4: the lead of transformers inside snow grows with the ratio (0.9 against 0.1).",
                lambda results: error_lead(results, "snow", 0.9) - error_lead(results, "snow", 0.1),
                models=2,
                conditions=[TWO_OF_A_KIND],
            ),
            Claim(
                "4: inside noise transformers lead from the start (ratio 0.1).",
                lambda results: error_lead(results, "gaussian_noise", 0.1),
                models=2,
                conditions=[TWO_OF_A_KIND],
            ),
        ],
    ),
    Study(
        name="spatial/figure-5",
        title="Accuracy outside an attacked square",
        question="What does an attack in a square do to the rest of the image?",
        setting=f"Region-aware attack, 3 rounds of 50 steps, 16 and 32/255, squares of 100 and 200; {CITYSCAPES}.",
        finding="SegFormer falls from 0.73 to 0.25 (16/255) and 0.17 (32/255) at 100; DeepLabV3-ResNet is much more "
        "robust; PSPNet falls far at 200.",
        unknown="Which SegFormer, and why its clean accuracy is 0.73 here and 79.3 or 80.9 in Table 1. "
        f"{_STEP} {SHARES}",
        members=MEMBERS,
        threats=square_threats(),
        together=square_drawing,
        also=("spatial/figure-5a", "spatial/figure-5b"),
        parts={"spatial/figure-5a": ("100 px*",), "spatial/figure-5b": ("200 px*",)},
        claims=[
            Claim(
                "5: under localized attacks transformers lose more than the others (RCE, 16/255).",
                turned_round,
                models=2,
                conditions=[TWO_OF_A_KIND, acting(*(attacked(size) for size in SIZES))],
            ),
        ],
    ),
    BY_ROUNDS,
    BY_STEPS,
    both(BY_ROUNDS, BY_STEPS, "spatial/figure-8"),
    Study(
        name="spatial/figure-9",
        title="Centre or corner",
        question="Does it matter where the attacked square is?",
        setting=f"The {_ATTACK}, and in the bottom left corner; {CITYSCAPES}.",
        finding="The difference of relative errors is small for transformers, about 0.05 for BiSeNet-R101 and 0.06 for "
        "PSPNet.",
        unknown=f"Rounds and steps, and how far from the border (ours: touching it). {_STEP} {SHARES}",
        members=MEMBERS,
        threats={"clean": "clean", attacked(): attack(), CORNER: attack(position="bottom-left")},
        together=position_drawing,
        claims=[
            Claim(
                "9: the position matters less for transformers.",
                position_matters_less,
                models=2,
                conditions=[TWO_OF_A_KIND, acting(attacked(), CORNER)],
            )
        ],
    ),
    Study(
        name="spatial/text-7",
        title="Natural against adversarial robustness",
        question="Do networks that bear corruptions also bear attacks?",
        setting=f"Localized corruptions at severity 3 and the {_ATTACK}; {CITYSCAPES}.",
        finding="The two need not correlate; light convolutional networks are weak against natural corruptions and "
        "stronger against attacks (Sections 1 and 7).",
        unknown=f"Which networks are light (here: the one with the fewest parameters). {SHARES}",
        kind="relate",
        members=MEMBERS,
        threats={
            "clean": "clean",
            **{corrupted(name): localized(name) for name in SPATIAL_CORRUPTIONS},
            attacked(): attack(),
        },
        together=relation_drawing,
        claims=[
            Claim(
                "10: the two robustnesses need not correlate (0.5 minus Spearman's rho; bound ours).",
                unrelated,
                models=3,
                conditions=[ENOUGH_MODELS, acting(attacked())],
                unit="rho",
            ),
            Claim(
                "6: the lightest network loses more to corruptions, less to attacks than transformers.",
                light_networks,
                models=2,
                conditions=[TWO_OF_A_KIND, acting(attacked())],
            ),
        ],
        least_models=2,
    ),
)

for _study in STUDIES:
    studies.add(_study.name, _study, aliases=tuple(_study.also))

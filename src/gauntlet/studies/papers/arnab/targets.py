"""Figure 16: towards which class?"""

from __future__ import annotations

import numpy as np

from gauntlet.report.document import Block
from gauntlet.studies.contract import Claim, Study, on_objects, on_streets
from gauntlet.studies.drawings import curves, figures
from gauntlet.studies.figures import Figures, FloatArray
from gauntlet.studies.papers.arnab.networks import MEMBERS, NETWORK
from gauntlet.studies.papers.arnab.shared import RATIO_AXIS, attack

MOST_CLASSES = 21
"""Of VOC; Cityscapes has 19."""
RANKS = tuple(range(2, MOST_CLASSES + 1))
LEAST = "least likely"


def rank_label(rank: int) -> str:
    """The label of FGSM towards the class of a rank."""
    return f"rank {rank}"


def rank_drawing(results: Figures) -> list[Block]:
    """IoU ratio over the rank of the target class, up to the last of the dataset."""
    swept = [(float(rank), results.ratio(NETWORK, rank_label(rank))) for rank in RANKS]
    line = [(rank, values) for rank, values in swept if np.isfinite(values[0])]
    least = {"IoU ratio, least likely class": lambda part, member: part.ratio(member, LEAST)}
    title, axis = "IoU ratio over the rank of the target", "rank of the class"
    return [
        *curves(results, title, {"fgsm-nth": line}, axis, RATIO_AXIS),
        *figures(results, "The least likely class", least),
    ]


def second_hurts_least(results: Figures) -> FloatArray:
    """Ratio of rank 2 minus the largest of the others, ranks that the dataset lacks or nobody ran left out."""
    others = [results.ratio(NETWORK, label) for label in (*map(rank_label, RANKS[1:]), LEAST)]
    return np.asarray(results.ratio(NETWORK, rank_label(2)) - np.fmax.reduce(np.stack(others)))


STUDIES = (
    Study(
        name="arnab/figure-16",
        title="The choice of the target class",
        question="Is the second most likely class or the least likely one the better target of FGSM?",
        setting="FCN8s; FGSM towards the n-th most likely class, n from 2 to 21 (VOC) or 19 (Cityscapes).",
        finding="On Cityscapes the second most likely class hurts more than the least likely, on VOC it hurts least.",
        unknown="The epsilons drawn (ours: 8).",
        members=MEMBERS,
        threats={
            "clean": "clean",
            **{rank_label(rank): attack("fgsm-nth", rank=rank) for rank in RANKS},
            LEAST: attack("fgsm-ll"),
        },
        least_classes={rank_label(rank): rank for rank in RANKS},
        drawing=rank_drawing,
        claims=[
            Claim(
                "The second most likely class hurts more than the least likely (as on Cityscapes).",
                lambda results: results.ratio(NETWORK, LEAST) - results.ratio(NETWORK, rank_label(2)),
                on=on_streets,
            ),
            Claim(
                "The second most likely class hurts less than every other (as on VOC).",
                second_hurts_least,
                on=on_objects,
            ),
        ],
        also=("arnab/figure-16a", "arnab/figure-16b"),
    ),
)

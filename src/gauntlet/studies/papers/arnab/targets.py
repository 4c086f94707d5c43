"""Figure 16: towards which class?"""

from __future__ import annotations

from gauntlet.report.document import Block
from gauntlet.studies.contract import Claim, Study
from gauntlet.studies.drawings import curves, figures
from gauntlet.studies.figures import Figures
from gauntlet.studies.papers.arnab.networks import MEMBERS, NETWORK
from gauntlet.studies.papers.arnab.shared import RATIO_AXIS, attack

RANKS = (2, 3, 5)
LEAST = "least likely"


def rank_drawing(results: Figures) -> list[Block]:
    """IoU ratio over the rank of the target class."""
    line = [(float(rank), results.ratio(NETWORK, f"rank {rank}")) for rank in RANKS]
    least = {"IoU ratio, least likely class": lambda part, member: part.ratio(member, LEAST)}
    title, axis = "IoU ratio over the rank of the target", "rank of the class"
    return [
        *curves(results, title, {"fgsm-nth": line}, axis, RATIO_AXIS),
        *figures(results, "The least likely class", least),
    ]


STUDIES = (
    Study(
        name="arnab/figure-16",
        title="The choice of the target class",
        question="Is the second most likely class or the least likely one the better target of FGSM?",
        setting="FCN8s; FGSM towards the n-th most likely class, n from 2 to 21 (VOC) or 19 (Cityscapes).",
        finding="On Cityscapes the second most likely class hurts more than the least likely, on VOC it hurts least.",
        unknown="The epsilons drawn.",
        members=MEMBERS,
        threats={
            "clean": "clean",
            **{f"rank {rank}": attack("fgsm-nth", rank=rank) for rank in RANKS},
            LEAST: attack("fgsm-ll"),
        },
        drawing=rank_drawing,
        claims=[
            Claim(
                "The second most likely class hurts more than the least likely (as on Cityscapes).",
                lambda results: results.ratio(NETWORK, LEAST) - results.ratio(NETWORK, f"rank {RANKS[0]}"),
            )
        ],
        also=("arnab/figure-16a", "arnab/figure-16b"),
    ),
)

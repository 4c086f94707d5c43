"""Fischer, Baader and Vechev 2021: Scalable Certified Segmentation via Randomized Smoothing.

docs/specs/defences.md, 6 and 8, row "certified".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from gauntlet.metrics.certification import certified_radius
from gauntlet.report.document import Block
from gauntlet.report.tables import Cell, Column, Table
from gauntlet.studies.contract import Claim, Description, Study, studies
from gauntlet.studies.drawings import curves, slug
from gauntlet.studies.figures import Figures, FloatArray, interval

NETWORK = "network"
ALPHA = 0.001
BASE, MAJORITY = "clean", "majority"
"""Views of a certificate beside that of its tau: the network without noise, the vote without abstention."""


@dataclass(frozen=True)
class Certificate:
    """One row of the paper's table: noise of `sigma`, `n` votes, and the probability `tau` that they must exceed."""

    sigma: float
    n: int
    tau: float

    @property
    def label(self) -> str:
        """Of its threat."""
        return f"sigma {self.sigma:g}, n {self.n}"

    @property
    def view(self) -> str:
        """Where its figures are."""
        return f"tau {self.tau:g}"

    @property
    def radius(self) -> float:
        """l2 norm, on the [0, 1] scale, up to which it holds."""
        return certified_radius(self.sigma, self.tau)

    @property
    def threat(self) -> Description:
        """The evaluation that gives it."""
        return {"certify": {"sigma": self.sigma, "n": self.n, "tau": self.tau, "alpha": ALPHA, "correction": "holm"}}


SIGMAS = (0.25, 0.33, 0.5)
VOTES = {0.75: 100, 0.95: 500}
"""By tau, how many votes are taken."""
CERTIFICATES = tuple(Certificate(sigma, n, tau) for tau, n in VOTES.items() for sigma in SIGMAS)
SMALLEST, LARGEST = CERTIFICATES[0], CERTIFICATES[len(SIGMAS) - 1]
"""The least and the most noise at the smaller tau."""
SURER = CERTIFICATES[len(SIGMAS)]
"""The least noise at the larger tau."""
OfCertificate = Callable[[Figures, Certificate], FloatArray]


def certified_accuracy(results: Figures, row: Certificate) -> FloatArray:
    """(R,) share of the pixels that are certified and right."""
    return results.accuracy(NETWORK, row.label, view=row.view)


def base_accuracy(results: Figures, row: Certificate) -> FloatArray:
    """(R,) accuracy of the network without noise."""
    return results.accuracy(NETWORK, row.label, view=BASE)


def abstention(results: Figures, row: Certificate) -> FloatArray:
    """(R,) share of the pixels without a certificate."""
    return results.abstention(NETWORK, row.label, view=row.view)


FIGURES: dict[str, OfCertificate] = {
    "certified accuracy": certified_accuracy,
    "certified mIoU": lambda results, row: results.miou(NETWORK, row.label, view=row.view),
    "abstained": abstention,
    "accuracy of the vote": lambda results, row: results.accuracy(NETWORK, row.label, view=MAJORITY),
    "accuracy without noise": base_accuracy,
}


def drawing(results: Figures) -> list[Block]:
    """The paper's table, and certified accuracy over the radius."""
    title = "Certified by randomised smoothing"
    heads = [Column("noise and votes"), Column("tau", "number"), Column("l2 radius", "number")]
    heads += [Column(name, "percent", heat=name != "abstained") for name in FIGURES]
    rows: list[list[Cell]] = [
        [row.label, row.tau, row.radius, *(interval(figure(results, row)) for figure in FIGURES.values())]
        for row in CERTIFICATES
    ]
    caption = (
        f"alpha {ALPHA:g} per image, Holm over all its pixels; a pixel that abstains counts as wrong. 95 % intervals "
        "over images. The network is the same in every row, where the paper trains one for each sigma: noise that it "
        "was not trained on costs it more."
    )
    lines = {
        f"tau {tau:g}": [(row.radius, certified_accuracy(results, row)) for row in CERTIFICATES if row.tau == tau]
        for tau in VOTES
    }
    return [
        Table(f"table-{slug(f'{results.place}-{title}')}", title, heads, rows, caption),
        *curves(results, "Certified accuracy over the radius", lines, "l2 radius", "certified accuracy"),
    ]


def more_abstain(first: Certificate, second: Certificate, results: Figures) -> FloatArray:
    """(R,) what abstains more with the second certificate."""
    return abstention(results, second) - abstention(results, first)


CERTIFIED = Study(
    name="fischer/certified",
    title="Pixels that no small perturbation can change",
    question="How many pixels can be certified, and at what price?",
    setting="A network trained on noise of the same sigma: 0.25, 0.33, 0.5; tau 0.75 with 100 votes, 0.95 with 500; "
    "Holm, alpha 0.001; Cityscapes.",
    finding="Most pixels of a network that was trained on noise can be certified at the smallest radius; more noise "
    "and a larger tau certify larger radii of fewer pixels, the rest abstains.",
    unknown="The grid is from memory, and no figure of the paper is at hand. Its public code counts copies of one "
    "noisy image as votes, so that its figures are no certificates; ours draws every vote anew.",
    members={NETWORK: "{model}"},
    threats={"clean": "clean", **{row.label: row.threat for row in CERTIFICATES}},
    drawing=drawing,
    claims=[
        Claim(
            f"Certified accuracy is above a half (bound ours) at sigma {SMALLEST.sigma:g} and tau {SMALLEST.tau:g}.",
            lambda results: np.asarray(certified_accuracy(results, SMALLEST) - 0.5),
        ),
        Claim(
            "Certificates cost accuracy: at the smallest radius less is certified right than is right without noise.",
            lambda results: base_accuracy(results, SMALLEST) - certified_accuracy(results, SMALLEST),
        ),
        Claim(
            f"More noise ({LARGEST.sigma:g} against {SMALLEST.sigma:g}) lets more pixels abstain (of one network; the "
            "paper has one for each sigma).",
            partial(more_abstain, SMALLEST, LARGEST),
        ),
        Claim(
            f"A larger tau ({SURER.tau:g} against {SMALLEST.tau:g}) lets more pixels abstain.",
            partial(more_abstain, SMALLEST, SURER),
        ),
    ],
)

studies.add(CERTIFIED.name, CERTIFIED)

"""Marchiori Pietrosanti et al., Figures 1, 2, 3 and 7: localized corruptions and rounds of attacks, in pictures."""

from __future__ import annotations

from gauntlet.studies.contract import Description, Study, studies
from gauntlet.studies.papers.localized import CITYSCAPES, MEMBERS, SHARES, attack, corrupted
from gauntlet.studies.picturing import CLASS
from gauntlet.threats.suites import SMALL, localized

CLASSES = ("road", "sky", "car")
STEP = "1.6/255"
"""2.5 epsilon / steps at 32/255 and 50 steps, as the region-aware attack has it."""


def in_square(target: str | None = None) -> Description:
    """The iterative attack in the centred square of 100, untargeted or towards a class."""
    options = {"name": "bim", "epsilon": "32/255", "steps": 50, "alpha": STEP}
    options |= {} if target is None else {"target": f"{CLASS}{target}"}
    return {"attack": {**options, "region": {"square": {"size": SMALL, "position": "centre"}}}}


FOR_CLASSES = {"untargeted": in_square(), **{f"towards {name}": in_square(name) for name in CLASSES}}
ROUNDS, CARS = {"rounds": attack("100", 32)}, {"rounds": "car"}
_NO_NUMBERS = "Which images and networks."
STUDIES = (
    Study(
        name="spatial/figure-1",
        title="A localized corruption, in pictures",
        question="What does a corruption of a part of the image look like?",
        setting=f"An image, its labels, the corrupted image and the mask; {CITYSCAPES}.",
        finding="A picture: the mask chooses where the corruption is seen.",
        unknown=f"Corruption, severity and ratio (ours: snow, 3, 0.5). {SHARES}",
        kind="picture",
        members=MEMBERS,
        threats={"snow 3": localized("snow")},
    ),
    Study(
        name="spatial/figure-2a",
        title="One perturbation for each class, in pictures",
        question="Does one perturbation cover all classes?",
        setting=f"A centred square of 100x100, 32/255; targeted on road, sky and car, and untargeted; {CITYSCAPES}.",
        finding="The runs differ; the untargeted one looks like that for road.",
        unknown=f"Network, steps (ours: 50) and whether the class is the target (so here) or the region. {SHARES}",
        kind="picture",
        members=MEMBERS,
        threats=FOR_CLASSES,
    ),
    Study(
        name="spatial/figure-2b",
        title="Rounds within one class, in pictures",
        question="Does one perturbation cover all of one class?",
        setting=f"The class car, three rounds, each without the pixels already fooled; {CITYSCAPES}.",
        finding="Every round adds area.",
        unknown=f"Network, epsilon and square (ours: as Figure 2a). {SHARES}",
        kind="picture",
        members=MEMBERS,
        threats=ROUNDS,
        aims=CARS,
    ),
    Study(
        name="spatial/figure-2",
        title="One perturbation for each class, and rounds within one, in pictures",
        question="Does one perturbation cover all classes, or all of one class?",
        setting=f"Figures 2a and 2b: a centred square of 100x100, 32/255; {CITYSCAPES}.",
        finding="The runs for classes differ; within the class car every round adds area.",
        unknown=f"As of its two parts. {SHARES}",
        kind="picture",
        members=MEMBERS,
        threats={**FOR_CLASSES, **ROUNDS},
        aims=CARS,
    ),
    Study(
        name="spatial/figure-3",
        title="Localized snow and noise, in pictures",
        question="What do networks say about a partly corrupted image?",
        setting=f"Snow, noise at severity 3, ratio 0.3; BiSeNet-X39, PSPNet, SegFormer-b1, DeepLabV3-R; {CITYSCAPES}.",
        finding="SegFormer is best inside and outside.",
        unknown=f"{_NO_NUMBERS} {SHARES}",
        kind="picture",
        members=MEMBERS,
        threats={corrupted(name, ratio=0.3): localized(name, ratio=0.3) for name in ("gaussian_noise", "snow")},
    ),
    Study(
        name="spatial/figure-7",
        title="The rounds of the region-aware attack, in pictures",
        question="What does each round win?",
        setting=f"SegFormer and PSPNet; square of 200x200, 32/255, three rounds; {CITYSCAPES}.",
        finding="On SegFormer each round hits other classes; on PSPNet the third takes the whole image.",
        unknown=f"{_NO_NUMBERS} {SHARES}",
        kind="picture",
        members=MEMBERS,
        threats={"rounds": attack("200", 32)},
        also=("spatial/figure-7a", "spatial/figure-7b"),
    ),
)

for _study in STUDIES:
    studies.add(_study.name, _study, aliases=tuple(_study.also))

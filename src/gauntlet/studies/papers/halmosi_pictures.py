"""Halmosi et al., Figures 5, 6 and 17 to 23: attacked images and what models say about them, in pictures."""

from __future__ import annotations

from gauntlet.studies.contract import Description, Study, studies
from gauntlet.studies.papers.halmosi import PLAIN, SETTING
from gauntlet.threats.attacks.combined.members import battery_members

EPSILON = "8/255"
MEMBERS = {PLAIN: "{model}"}


def single(name: str) -> Description:
    """One attack of the battery by itself; what looks for the smallest perturbation is clipped to the budget."""
    attack, options = battery_members["halmosi"][name]
    return {"attack": {"name": attack, "epsilon": EPSILON, **options}}


EVERY = {name: single(name) for name in battery_members["halmosi"]}
STUDIES = (
    Study(
        name="halmosi/figure-5",
        title="Ten attacks on one image, in pictures",
        question="What do the attacks make of one image?",
        setting="SEA-AT-Tiny, an image of PASCAL VOC; the perturbed image and the mask under some of the attacks.",
        finding="The perturbations are not seen; the masks differ.",
        unknown="Which attacks (ours: all ten) and images.",
        kind="picture",
        members=MEMBERS,
        threats=EVERY,
    ),
    Study(
        name="halmosi/figure-6",
        title="One attack on several models, in pictures",
        question="Which models keep anything of an image?",
        setting="PAdam-Cos on the PSPNet models and SEA-AT-Small, VOC (Figure 6); on PSPNet, Cityscapes (Figure 18).",
        finding="It changes the output of all of them completely.",
        unknown="Which images.",
        kind="picture",
        members=MEMBERS,
        threats={"padam-cos": EVERY["padam-cos"]},
        also=("halmosi/figure-18",),
    ),
    Study(
        name="halmosi/figure-17",
        title="The images of the examples, with their labels",
        question="Which images do the examples show?",
        setting="An image of Cityscapes and one of VOC, with their labels.",
        finding="No claim.",
        unknown="Which images; give yours with --image.",
        kind="picture",
        members=MEMBERS,
        threats={},
    ),
    Study(
        name="halmosi/figure-19",
        title="Examples: models by attacks, in pictures",
        question="What is left of the masks of each model under each attack?",
        setting=f"{SETTING} Cityscapes: PSPNet (Figure 19), DeepLabv3 (20); VOC: DeepLabv3 (21), PSPNet (22), "
        "SEA-AT (23).",
        finding="Models trained on wholly adversarial batches keep something on Cityscapes, only background on VOC.",
        unknown="Which images.",
        kind="picture",
        members=MEMBERS,
        threats=EVERY,
        also=tuple(f"halmosi/figure-{number}" for number in (20, 21, 22, 23)),
    ),
)

for _study in STUDIES:
    studies.add(_study.name, _study, aliases=tuple(_study.also))

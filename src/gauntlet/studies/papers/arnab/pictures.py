"""Figures 1, 5 and 11 to 13: what attacked images and what networks say about them look like."""

from __future__ import annotations

from gauntlet.studies.contract import Study
from gauntlet.studies.papers.arnab.networks import MEMBERS
from gauntlet.studies.papers.arnab.scales import MULTISCALE, made_on, scales
from gauntlet.studies.papers.arnab.shared import ATTACKS, CITYSCAPES, VOC, attack, label, level_name, transferred

_UNKNOWN = "Which images."
STUDIES = (
    Study(
        name="arnab/figure-1",
        title="Networks under a perturbation of 4 grey levels, in pictures",
        question="What do several networks say about one attacked image?",
        setting=f"Several networks on the {VOC}, epsilon 4.",
        finding="The perturbation is not seen, and networks differ in what they lose.",
        unknown="Which attack (ours: FGSM), which images.",
        kind="picture",
        members=MEMBERS,
        threats={label("fgsm", 4.0): attack("fgsm", 4.0)},
    ),
    Study(
        name="arnab/figure-5",
        title="One network at several scales, in pictures",
        question="What does each scale, and what do all of them say about their own attacked image?",
        setting=f"DeepLab v2 at 50, 75, 100 % and multiscale; iterative FGSM ll, epsilon 8; {VOC}.",
        finding="Attacks on single scales change their output wholly and fool the multiscale network little.",
        unknown=_UNKNOWN,
        kind="picture",
        members=scales("max"),
        threats={made_on("ifgsm-ll", source): transferred("ifgsm-ll", source) for source in ("100 %", MULTISCALE)},
    ),
    Study(
        name="arnab/figure-11",
        title="From which epsilon on a perturbation is seen",
        question="How large must an FGSM perturbation be to be seen?",
        setting=f"DeepLab v2; FGSM at growing epsilon; {VOC}.",
        finding="Perturbations are visible from an epsilon of about 8 on.",
        unknown="Which epsilons and images.",
        kind="picture",
        members=MEMBERS,
        threats={level_name(level): attack("fgsm", level) for level in (1.0, 4.0, 8.0, 16.0, 32.0)},
    ),
    Study(
        name="arnab/figure-12",
        title="Four attacks, in pictures",
        question="What do the four attacks make of one image?",
        setting=f"DeepLab v2 multiscale; the four attacks; {VOC}.",
        finding="Iterative attacks change the output more, with a perturbation that is seen less.",
        unknown="Which epsilon (ours: 8) and images.",
        kind="picture",
        members=MEMBERS,
        threats={label(name): attack(name) for name in ATTACKS},
    ),
    Study(
        name="arnab/figure-13",
        title="Small and large networks under iterative FGSM ll, in pictures",
        question="What do small and large networks say about one attacked street scene?",
        setting=f"ICNet, Dilated Context and PSPNet; iterative FGSM ll; {CITYSCAPES}.",
        finding="PSPNet keeps the most.",
        unknown="Which epsilons (ours: 2 and 8) and images.",
        kind="picture",
        members=MEMBERS,
        threats={label("ifgsm-ll", level): attack("ifgsm-ll", level) for level in (2.0, 8.0)},
    ),
)

"""Agnihotri et al.: Figures 14, 15 and 25 as pictures, and the attack of App. I.1 with more steps."""

from __future__ import annotations

from functools import partial

import numpy as np

from gauntlet.report.document import Block
from gauntlet.studies.contract import Claim, Description, Study, studies
from gauntlet.studies.drawings import side_by_side
from gauntlet.studies.figures import UNKNOWN, Figures, FloatArray, largest, smallest
from gauntlet.studies.printed import Printed
from gauntlet.threats.corruptions import COMMON
from gauntlet.threats.suites import L2, LINF

NETWORK = "network"
MEMBERS = {NETWORK: "{model}"}
ATTACKS = ("pgd", "segpgd", "cospgd")
STRONG, PATIENT = "PGD, 8/255, 20 steps", "PGD, 2/255, 40 steps"
MASK_CLASSIFIERS = ("mask2former", "maskformer")
"""Words in the names of networks that predict masks and their classes."""


def attacks() -> dict[str, Description]:
    """Three attacks in two norms."""
    budgets = {"linf": LINF, "l2": L2}
    return {f"{name}, {norm}": {"attack": {"name": name, **own}} for norm, own in budgets.items() for name in ATTACKS}


def corruption(name: str) -> Description:
    """A corruption as the benchmarks run it."""
    return {"corruption": {"name": name, "severity": 3}}


def patient_drawing(results: Figures) -> list[Block]:
    """MIoU and mean class accuracy: clean, under twenty steps at 8/255 and under forty at 2/255."""
    blocks: list[Block] = []
    for title, figure in (("mIoU", results.miou), ("mAcc", results.class_accuracy)):
        columns = {threat: partial(figure, NETWORK, threat) for threat in ("clean", STRONG, PATIENT)}
        caption = "95 % intervals over images." if results.source == "here" else ""
        blocks += side_by_side(results, title, columns, results.models, caption)
    return blocks


PRINTED = Printed(
    "App. I.1, ADE20K",
    {},
    of_views={
        ((model, NETWORK, PATIENT), "all", metric): value / 100
        for model, values in {"SegFormer MIT-B1": (3.8, 6.73), "Mask2Former": (0.35, 0.97)}.items()
        for metric, value in zip(("mIoU", "mAcc"), values, strict=True)
    },
)
"""What forty steps at 2/255 left."""


def merely_harder(results: Figures) -> FloatArray:
    """(R,) mIoU under forty steps at 2/255: the least robust other network minus the best of those with masks."""
    masks = [any(word in model.lower() for word in MASK_CLASSIFIERS) for model in results.models]
    if all(masks) or not any(masks):
        return UNKNOWN
    groups: dict[bool, list[FloatArray]] = {True: [], False: []}
    for model, has_masks in zip(results.models, masks, strict=True):
        groups[has_masks].append(results.miou(NETWORK, PATIENT, model))
    return np.asarray(smallest(groups[False]) - largest(groups[True]))


STUDIES = (
    Study(
        name="semsegbench/figure-14",
        title="Attacks, in pictures",
        question="What do the attacks make of one image?",
        setting="UPerNet with InternImage-B, an image of Cityscapes; PGD, SegPGD and CosPGD in two norms.",
        finding="A picture.",
        kind="picture",
        members=MEMBERS,
        threats=attacks(),
    ),
    Study(
        name="semsegbench/figure-15",
        title="Corruptions, in pictures",
        question="What does a network say about a corrupted image?",
        setting="UPerNet with InternImage-B, an image of Cityscapes; some of the corruptions (ours: all fifteen).",
        finding="A picture.",
        kind="picture",
        members=MEMBERS,
        threats={name: corruption(name) for name in COMMON},
    ),
    Study(
        name="semsegbench/text-i1",
        title="More steps of a smaller size",
        question="Is Mask2Former robust, or merely harder to attack?",
        setting="PGD, linf, 2/255, 40 steps; SegFormer MIT-B1 and Mask2Former on ADE20K.",
        finding="SegFormer keeps 3.8 % mIoU and Mask2Former 0.35 %, which kept more than the others under 20 steps at "
        "8/255: it is merely harder to attack.",
        unknown="The step size (ours: 0.01, as with 20 steps) and the backbone of Mask2Former.",
        members=MEMBERS,
        threats={
            "clean": "clean",
            STRONG: {"attack": {"name": "pgd", **LINF}},
            PATIENT: {"attack": {"name": "pgd", **LINF, "epsilon": "2/255", "steps": 40}},
        },
        together=patient_drawing,
        printed=lambda: PRINTED,
        claims=[
            Claim(
                "Forty steps at 2/255 leave less of a network that predicts masks (told by its name: mask2former) than "
                "of any other.",
                merely_harder,
                models=2,
            )
        ],
    ),
    Study(
        name="detecbench/figure-25",
        title="A detector under an attack and two corruptions, in pictures",
        question="What does a detector lose, what does it invent?",
        setting="Deformable DETR with ConvNeXt-S; PGD at 8/255, zoom blur, fog in 3D.",
        finding="PGD invents objects, corruptions lose them.",
        unknown="The steps of PGD (ours: 20). Counted over a dataset: the section Errors of the report.",
        kind="picture",
        members=MEMBERS,
        threats={
            "PGD": {"attack": {"name": "pgd", **LINF}},
            "zoom_blur": corruption("zoom_blur"),
            "fog_3d": {"corruption": {"name": "fog_3d", "severity": 3, "depth_rule": "estimated"}},
        },
    ),
)

for _study in STUDIES:
    studies.add(_study.name, _study, aliases=tuple(_study.also))

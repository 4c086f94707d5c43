"""Agnihotri et al.: SemSegBench and DetecBench, drawn from figures of many models. docs/specs/studies.md, 3 and 4."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd

from gauntlet.analysis import gam
from gauntlet.analysis.frames import unit_columns
from gauntlet.analysis.scoring.benchmark_sets import COMMON_3D, COMMON_CORRUPTIONS
from gauntlet.report.sections.error_types import MADE_UP
from gauntlet.results import published
from gauntlet.studies.contract import studies
from gauntlet.studies.correlation_rules import (
    judge_moderate,
    judge_not_correlated,
    judge_not_strong,
    judge_positive,
    judge_strong,
    judge_very_strong,
    judge_weak,
)
from gauntlet.studies.figure_tables import (
    ATTACKS,
    GAM,
    L2,
    LINF,
    LOST,
    MEAN,
    METRICS,
    PAPER_TYPE,
    TYPE,
    dataset_table,
    detector_table,
    error_table,
    metric_table,
)
from gauntlet.studies.papers.benchmark_models import CONFIGURATION, listed_models, models_table
from gauntlet.studies.relations import EVERYTHING, Case, FigureStudy, Groups, Lines, Pair

SETTING = (
    "76 checkpoints; PGD, SegPGD and CosPGD with 20 steps at 8/255 (linf) and 64/255 (l2), 15 corruptions at severity "
    "3, ACDC for models of Cityscapes."
)
DETECTION_SETTING = (
    "61 detectors on COCO and VOC; FGSM, BIM and PGD at 8/255, 15 corruptions and 8 in 3D at severity 3. Of the "
    "published figures only interim exports could be read: clean, and some attacks."
)
ACDC = "acdc all"
CORRUPTED = tuple(f"{name} 3" for name in COMMON_CORRUPTIONS)
DETECTOR_METRICS = ("mAP", "mAP_small", "mAP_medium", "mAP_large")


def figures(source: str, dataset: str | None = None) -> Callable[[], pd.DataFrame]:
    """The published figures of a source without known faults, of one dataset or of all."""
    return lambda: published.unflagged(published.frame(source=source, dataset=dataset))


def add(item: str, title: str, question: str, finding: str, **rest: Any) -> None:
    """Registers a study of SemSegBench."""
    rest = {"setting": SETTING, "published": figures("semsegbench", rest.pop("on", None)), **rest}
    studies.add(
        f"semsegbench/{item}", FigureStudy(name=f"semsegbench/{item}", **_texts(title, question, finding), **rest)
    )


def add_detection(item: str, title: str, question: str, finding: str, **rest: Any) -> None:
    """Registers a study of DetecBench."""
    rest = {"setting": DETECTION_SETTING, "published": figures("detecbench_interim"), "color": "backbone", **rest}
    rest = {"table": detector_table, **rest}
    studies.add(
        f"detecbench/{item}", FigureStudy(name=f"detecbench/{item}", **_texts(title, question, finding), **rest)
    )


def _texts(title: str, question: str, finding: str) -> dict[str, Any]:
    return {"title": title, "question": question, "finding": finding}


def crossed(rows: Sequence[str], metrics: Sequence[str], place: str) -> list[Pair]:
    """Every pair of metrics under every threat; the place is where the paper says that they agree."""
    return [
        Pair(f"{row} {first}", f"{row} {second}", judge_very_strong, place)
        for row in rows
        for first, second in itertools.combinations(metrics, 2)
    ]


def leaves_more(attack: str) -> Case:
    """That an attack leaves twice as much in l2 as in linf."""
    first, second = f"{attack} l2 64/255 x20", f"{attack} linf 8/255 x20"
    claim = f"{first} leaves far more than {second} (App. I), twice at least (bound ours)"
    return Case(claim, (first, second), lambda rows: rows[first] > 2 * rows[second])


def breaks(corruption: str) -> Case:
    """That a corruption is a complete failure: less than a tenth of the clean figure is left."""
    column = f"{corruption} 3"
    claim = f"{column} is a complete failure (footnote 1): less than a tenth of clean is left (bound ours)"
    return Case(claim, ("clean", column), lambda rows: rows[column] < 0.1 * rows["clean"])


def adds(attack: str) -> Case:
    """That an attack makes a detector see what is not there."""
    clean, attacked = (f"{threat} {MADE_UP}" for threat in ("clean", attack))
    claim = f"{attack} adds objects (Fig. 25): more boxes per image without an object than on clean images"
    return Case(claim, (clean, attacked), lambda rows: rows[attacked] > rows[clean])


def loses(corruption: str) -> Case:
    """That a corruption makes a detector lose what is there."""
    clean, corrupted = (f"{threat} {LOST}" for threat in ("clean", f"{corruption} 3"))
    claim = f"{corruption} 3 loses objects (Fig. 25): a larger share is not seen than on clean images"
    return Case(claim, (clean, corrupted), lambda rows: rows[corrupted] > rows[clean])


def dimensions_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over the corruptions in 2D and over those in 3D."""
    table = detector_table(frame)
    keys = [name for name in unit_columns(table) if name in frame]
    for name, members in (("mean 2D", COMMON_CORRUPTIONS), ("mean 3D", COMMON_3D)):
        rows = gam(frame[frame["metric"].eq("mAP")], members=members)
        means = rows[rows["summary"].eq(GAM)][[*keys, "mean"]].rename(columns={"mean": name})
        table = table.merge(means, on=keys, how="left")
    return table


# SemSegBench

TIME = [Pair("year", "clean", judge_positive, "Fig. 1"), Pair("year", "gap", judge_positive, "Fig. 1"),
        Pair("year", "l2 gap", judge_positive, "Fig. 1")]  # fmt: skip
SCORES = [
    Pair("clean", LINF, judge_not_correlated, "Sec. 4.1.1"),
    Pair(LINF, L2, judge_not_correlated, "Sec. 4.1.1"),
    Pair("clean", L2, judge_strong, "Sec. 4.1.1"),
    Pair("clean", GAM, judge_positive, "Sec. 4.1.1"),
    Pair(L2, GAM, judge_not_strong, "Sec. 4.1.1"),
    Pair(LINF, GAM, judge_not_correlated, "Sec. 4.1.1"),
]
CAPACITY = [
    Pair("parameters", "clean", judge_moderate, "Sec. 4.3"),
    *(Pair("parameters", score, judge_weak, "Sec. 4.3") for score in (LINF, L2, GAM)),
]
BACKBONES = [
    Groups(PAPER_TYPE, ("clean", GAM), "convolution", "transformer"),
    Groups(PAPER_TYPE, (LINF, L2)),
    Groups(TYPE, ("clean", LINF, L2, GAM)),
]
"""As the paper counts, by which it is judged, and with InternImage as the convolution that it is."""

TRAINED_METRICS = ("mIoU", "mAcc")
PGD_LIKE = tuple(f"{name} linf 8/255 x10" for name in ("bim", "segpgd", "cospgd"))
TRAINED_ATTACKS = (*PGD_LIKE, "cosapgd linf 8/255 x10", "sea linf 8/255 x100")
UNDEFENDED = "No Defense"


def trained_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Both metrics, and how a model was trained where the figures tell it."""
    table = metric_table(frame, TRAINED_METRICS)
    if "training" not in frame or not frame["training"].eq(UNDEFENDED).any():
        return table
    return table.merge(frame[["model", "training"]].drop_duplicates(), on="model", validate="m:1")


def above_undefended(rows: pd.DataFrame) -> pd.Series:
    """Whether a trained model is above every undefended one under each attack (mIoU)."""
    names = [f"{name} mIoU" for name in PGD_LIKE]
    trained = rows["training"].ne(UNDEFENDED)
    return (rows.loc[trained, names] > rows.loc[~trained, names].max()).all(axis=1)


def far_below_clean(rows: pd.DataFrame) -> pd.Series:
    """Whether the strongest attack leaves a trained model less than half of its clean mIoU."""
    trained = rows[rows["training"].ne(UNDEFENDED)]
    names = [f"{name} mIoU" for name in TRAINED_ATTACKS if f"{name} mIoU" in trained]
    return trained[names].min(axis=1) < trained["clean mIoU"] / 2


ADVERSARIAL_TRAINING = [
    Case("44: trained PSPNets are above the undefended one under BIM, SegPGD and CosPGD (App. H)",
         ("training", *(f"{name} mIoU" for name in PGD_LIKE)), above_undefended),
    Case("44: a large gap stays: trained models keep less than half (bound ours) of their clean mIoU (App. H)",
         ("training", "clean mIoU"), far_below_clean),
]  # fmt: skip

add("figure-1", "Progress over time", "Do reliability and generalization rise with the years as clean figures do?",
    "Clean mIoU rises with the year in which a model was proposed; the other two lag behind.",
    pairs=TIME, on="ade20k",
    unknown="Which ReM. The dates: the data have one per architecture (used), Table 2 one per backbone.")  # fmt: skip
add("figure-2a", "Clean mIoU, ReM and GAM", "Do clean performance, reliability and generalization go together?",
    "Under linf attacks all are near 0 and nothing is correlated; clean and l2-ReM strongly; clean and GAM somewhat; "
    "l2-ReM and GAM positive, but not strongly.", pairs=SCORES, on="ade20k",
    unknown="Table 1 calls l2-ReM and GAM strongly correlated, App. A says not high.")  # fmt: skip
add("figure-2b", "Convolution or transformer backbone", "Which backbones are better?",
    "Transformers are clearly better in GAM, slightly in clean mIoU.", groups=BACKBONES, on="ade20k",
    unknown="InternImage: a transformer in its text, by which it is judged; a convolution in its table.")  # fmt: skip
add("figure-2c", "Number of parameters", "Are larger models better?",
    "Moderately in clean mIoU, more weakly in ReM and GAM.", pairs=CAPACITY, on="ade20k")  # fmt: skip
add("figure-2", "Clean mIoU, ReM and GAM by backbone and size", "What goes with reliability and generalization?",
    "Figures 2a, 2b and 2c on every dataset.", pairs=[*SCORES, *CAPACITY], groups=BACKBONES)  # fmt: skip
add("figure-10", "Clean mIoU, ReM and GAM, all six pairs", "Do the scores go together?", "As figure 2a.",
    pairs=SCORES, on="ade20k")  # fmt: skip
add("figure-4", "Synthetic corruptions against real weather", "Do synthetic corruptions stand in for real ones?",
    "ACDC is correlated very strongly with the mean of the corruptions, strongly with snow, weakly with brightness and "
    "fog.", on="cityscapes", pairs=[Pair(MEAN, ACDC, judge_very_strong, "App. A.1"),
                                    Pair("brightness 3", ACDC, judge_weak, "App. A.1"),
                                    Pair("snow 3", ACDC, judge_strong, "App. A.1"),
                                    Pair("fog 3", ACDC, judge_weak, "App. A.1"),
                                    Pair("clean", ACDC)],
    unknown="Whether ACDC is all images or a mean of conditions.")  # fmt: skip
add("figure-5", "ACDC, GAM and the mean of corruptions", "Is the minimum or the mean closer to real weather?",
    "ACDC is correlated very strongly with the mean.", on="cityscapes",
    pairs=[Pair(MEAN, ACDC, judge_very_strong, "App. A.1"), Pair(GAM, ACDC), Pair(GAM, MEAN)])  # fmt: skip
add("figure-6", "Across datasets", "Does a model that is good on Cityscapes do well on ADE20K?",
    "Clean figures agree highly; l2-ReM and GAM weakly; linf-ReM is near 0.", table=dataset_table,
    pairs=[Pair("clean cityscapes", "clean ade20k", judge_strong, "App. A.2"),
           Pair(f"{LINF} cityscapes", f"{LINF} ade20k", judge_not_correlated, "App. A.2"),
           Pair(f"{L2} cityscapes", f"{L2} ade20k", judge_weak, "App. A.2"),
           Pair(f"{GAM} cityscapes", f"{GAM} ade20k", judge_weak, "App. A.2")])  # fmt: skip
for number, dataset in ((7, "ade20k"), (8, "cityscapes"), (9, "voc")):
    add(f"figure-{number}", f"mIoU, mAcc and aAcc on {dataset}", "Do the metrics agree?",
        "They are correlated very strongly under every threat.", on=dataset, table=metric_table,
        pairs=crossed(("clean", "cospgd linf 8/255 x20", "cospgd l2 64/255 x20", MEAN), METRICS, "App. A.3"),
        unknown="The l2 budget: 8/255 in the captions of Figures 7 and 9, 64 in that of Figure 8 and in App. I (used). "
        "App. D swaps mAcc and aAcc.")  # fmt: skip
for number, dataset in ((16, "voc"), (17, "cityscapes"), (18, "ade20k")):
    add(f"figure-{number}", f"Attacks against each other on {dataset}", "Do attacks rank models alike?",
        "Strongly correlated, but for linf CosPGD, which leaves about 0.", on=dataset,
        pairs=[Pair(x, y, judge_not_correlated if "cospgd linf" in x + y else judge_strong, "App. I.1")
               for x, y in itertools.combinations(ATTACKS, 2)])  # fmt: skip
for number, dataset in ((19, "voc"), (20, "cityscapes"), (21, "ade20k")):
    add(f"figure-{number}", f"Each attack in two norms on {dataset}", "How much more does l2 leave?",
        "At its budget l2 leaves far more than linf.", on=dataset,
        pairs=[Pair(f"{name} l2 64/255 x20", f"{name} linf 8/255 x20") for name in ("pgd", "segpgd", "cospgd")],
        cases=[leaves_more(name) for name in ("pgd", "segpgd", "cospgd")], listed=("model", *ATTACKS))  # fmt: skip
for number, dataset in ((22, "voc"), (23, "cityscapes"), (24, "ade20k")):
    add(f"figure-{number}", f"Each corruption against size on {dataset}", "Do larger models bear corruptions better?",
        "Weakly on Cityscapes, to some extent on VOC and ADE20K; exceptions are failed runs.", on=dataset,
        pairs=[Pair(name, "parameters", judge_weak if dataset == "cityscapes" else judge_positive, "App. I.2")
               for name in CORRUPTED],
        unknown="Crop sizes: the captions print 512x512 and 512x1024, the data of Cityscapes have 512x1024 and "
        "1024x1024. What the axes are is assumed. The exceptions (DeepLabV3+ R18, DeepLabV3) are failed runs, left out "
        "here.")  # fmt: skip
add("table-2", "The models", "Which models are there?",
    "71 rows; seven have two checkpoints, and two, Mask2Former with ResNets on VOC, have no figures.",
    kind="list", least_models=1, published=partial(listed_models, "semsegbench"), table=models_table,
    listed=("model", "architecture", "backbone", "backbone_type", "date", "crop_size", "parameters", "clean",
            CONFIGURATION),
    unknown="Its dates are those of the backbone's row; the figures by year date the architecture.")  # fmt: skip
add("table-3", "Adversarially trained models", "What does adversarial training keep?",
    "PSPNet without, with SAT, with DDC-AT under CosPGD: 0.13, 17.05, 23.04 mIoU; UPerNet with PIR-AT 34.6 under SEA: "
    "adversarial training helps, a large gap to clean images stays.",
    kind="list", least_models=1, published=figures("adversarially_trained"), cases=ADVERSARIAL_TRAINING,
    table=trained_table,
    setting="Four models, copied from other papers; epsilon 8/255, alpha 0.01, 10 steps (SEA 100).",
    listed=("model", *(f"{threat} {metric}" for threat in ("clean", *TRAINED_ATTACKS) for metric in TRAINED_METRICS)),
    unknown="The dataset. The mIoU and mAcc of SegAPGD (79.47, 48.60) look swapped and are left out. Halmosi et al. "
    "find that DDC-AT falls to 0.")  # fmt: skip

# DetecBench

RELIABILITY = "pgd linf 8/255 x1"
OWN_DETECTORS = "a store of your own detectors (`gauntlet run --suite detecbench`); these figures are not published"
STEPS = range(1, 21)
DETECTOR_SCORES = [
    Pair("clean", LINF, judge_not_correlated, "Sec. 4.2.1"),
    Pair("clean", GAM, judge_strong, "Sec. 4.2.1"),
    Pair(LINF, GAM, judge_not_correlated, "Sec. 4.2.1"),
    Pair("clean", RELIABILITY),
]
DETECTOR_CAPACITY = [Pair("parameters", score, judge_moderate, "Sec. 4.3") for score in ("clean", LINF, GAM)]
CORRUPTED_DETECTORS = [Pair(f"{name} 3", "parameters") for name in (*COMMON_CORRUPTIONS, *COMMON_3D)]
DETECTOR_BACKBONES = Groups("backbone_type", ("clean", LINF, GAM), "convolution", "transformer")
add_detection("figure-1", "Progress over time", "Do robust figures rise with the years as clean ones do?",
    "Clean mAP rises, ReM and GAM lag behind.",
    pairs=[Pair("year", "clean", judge_positive, "Fig. 1"), Pair("year", "linf gap", judge_positive, "Fig. 1"),
           Pair("year", "gap", judge_positive, "Fig. 1"), Pair("year", LINF), Pair("year", GAM)])  # fmt: skip
add_detection("figure-3a", "Clean mAP, ReM and GAM", "Do the three go together?",
    "Clean and ReM weakly, clean and GAM strongly, ReM and GAM not.",
    pairs=DETECTOR_SCORES, unknown="Called weak and none in two places.")  # fmt: skip
add_detection("figure-3b", "Convolution or transformer backbone", "Which backbones are better?",
    "Transformers marginally in clean mAP and ReM, clearly in GAM.",
    groups=[DETECTOR_BACKBONES])  # fmt: skip
add_detection("figure-3c", "Number of parameters", "Are larger detectors better?", "Moderately in all three.",
    pairs=DETECTOR_CAPACITY, needs=OWN_DETECTORS)  # fmt: skip
add_detection("figure-3", "Clean mAP, ReM and GAM by backbone and size",
    "What goes with reliability and generalization?", "Figures 3a, 3b and 3c.",
    pairs=[*DETECTOR_SCORES, *DETECTOR_CAPACITY], groups=[DETECTOR_BACKBONES])  # fmt: skip
add_detection("figure-11", "Kinds of proposals", "Do object queries make a detector robust?",
    "They are best on clean images only.",
    groups=[Groups("proposal_type", ("clean", LINF, GAM))]
    + [Groups("proposal_type", scores, other, "sparse", better=better) for other in ("dense", "two-stage")
       for scores, better in ((("clean",), True), ((LINF, GAM), False))],
    unknown="TOOD is called YOLO, RetinaNet two-stage.")  # fmt: skip
add_detection("figure-12", "Corruptions in 2D against 3D", "Do 2D corruptions predict 3D ones?", "Very strongly.",
    table=dimensions_table, pairs=[Pair("mean 2D", "mean 3D", judge_very_strong, "App. B.2")],
    needs=OWN_DETECTORS)  # fmt: skip
add_detection("figure-13", "Metrics of detection", "Do mAP and its sizes agree?", "Very strongly.",
    table=partial(metric_table, metrics=DETECTOR_METRICS),
    pairs=crossed(("clean", "fog 3", "low_light 3"), DETECTOR_METRICS, "App. B.3"))  # fmt: skip
add_detection("figure-28", "FGSM", "Is FGSM's figure more than the clean one?",
    "FGSM is correlated highly with clean mAP, not with size.",
    pairs=[Pair("clean", name, judge_strong, "App. O.2.1") for name in (RELIABILITY, "fgsm linf 8/255 x1")]
    + [Pair("parameters", name, judge_not_correlated, "App. O.2.1") for name in (RELIABILITY, "fgsm linf 8/255 x1")],
    unknown="The code moves one step of 2.55 grey levels, not of 8.")  # fmt: skip
add_detection("figure-26", "Clean mAP against size, VOC", "Are larger detectors better on VOC?",
    "No claim: two models, Faster R-CNN and RetinaNet with ResNet-50.", pairs=[Pair("clean", "parameters")],
    published=figures("detecbench_interim", "voc0712"), unknown="The interim export has twelve models of VOC.",
    needs=OWN_DETECTORS)  # fmt: skip
add_detection("figure-27", "Each corruption against size, VOC", "Do larger detectors bear corruptions better on VOC?",
    "No claim: two models, Faster R-CNN and RetinaNet with ResNet-50.", pairs=CORRUPTED_DETECTORS,
    published=figures("detecbench_interim", "voc0712"), needs=OWN_DETECTORS)  # fmt: skip
add_detection("figure-29", "More iterations", "After how many iterations does an attack no longer gain?",
    "BIM and PGD saturate after about 10.", least_models=1,
    lines=[Lines(f"{name.upper()} by iterations", "iterations (0 is clean)",
                 {0: "clean", **{steps: f"{name} linf 8/255 x{steps}" for steps in STEPS}}, enough=10)
           for name in ("bim", "pgd")],
    unknown="The interim export has 1 and 20 iterations only. For your own: a plan with "
    "`{attack: {name: bim, epsilon: 8/255, alpha: 0.01, steps: [1, 2, 5, 10, 20]}}`.")  # fmt: skip
add_detection("figure-30", "Each corruption against size, COCO", "Do larger detectors bear corruptions better?",
    "No claim: it is drawn without words.", pairs=CORRUPTED_DETECTORS[:15], needs=OWN_DETECTORS)  # fmt: skip
add_detection("figure-31", "Each corruption in 3D against size, COCO", "Do larger detectors bear corruptions better?",
    "3D motion blurs and 3D fog are a complete failure.", pairs=CORRUPTED_DETECTORS[15:], needs=OWN_DETECTORS,
    cases=[breaks(name) for name in ("xy_motion_blur", "z_motion_blur", "fog_3d")])  # fmt: skip
add_detection("text-errors", "What detectors make up, what they lose",
    "Does an attack add objects where corruptions lose them?",
    "PGD adds objects, corruptions lose them (Fig. 25, a picture).", table=error_table,
    cases=[adds("pgd linf 8/255 x20"), loses("zoom_blur"), loses("fog_3d")],
    listed=EVERYTHING, needs=OWN_DETECTORS)  # fmt: skip
add_detection("table-4", "The models", "Which detectors are there?",
    "61 detectors; the damaged text of the table gives 62.", kind="list", least_models=1,
    published=partial(listed_models, "detecbench"), table=models_table,
    listed=("model", "architecture", "backbone", "backbone_type", "proposal_type", "date", "clean", CONFIGURATION),
    unknown="Clean figures are those of the interim exports; 21 detectors are in none.")  # fmt: skip

"""Known faults of the published figures, as codes that travel with every cell they touch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LEVELS = ("fault", "doubt", "note")
"""fault: the figure is wrong. doubt: it may be. note: the figure stands, a label or a setting was inferred."""


@dataclass(frozen=True)
class Flag:
    """What is known to be wrong with a published figure.

    Attributes:
        level: one of LEVELS.
        reason: one sentence for a person who reads the figure.
    """

    level: str
    reason: str


FLAGS: dict[str, Flag] = {
    # SemSegBench
    "gam_not_minimum": Flag(
        "fault",
        "the printed GAM is not the smallest corruption figure of this model but that of its 1024x1024 twin",
    ),
    "repeated_run": Flag(
        "fault",
        "all corruption figures repeat those of the resnet50 model; the source 'semsegbench_rerun' has other ones",
    ),
    "failed_run": Flag("fault", "the figure collapses under mild corruptions as well: the evaluation probably failed"),
    "brightness_loss": Flag(
        "doubt",
        "the run loses 16 to 25 % of its mIoU under mere brightness, where nearly every other model loses under 4 %",
    ),
    "parameters_swapped": Flag(
        "doubt", "the parameter counts of internimage-b and internimage-l on ADE20K look swapped in the source"
    ),
    # DetecBench, interim exports
    "one_small_step": Flag("doubt", "FGSM took one step of alpha 2.55 grey levels, not one of epsilon 8"),
    "no_random_start": Flag(
        "note",
        "run without a random start, so BIM in the paper's terms; the norm is not recorded and taken as linf, "
        "since the figures agree with BIM to 0.002",
    ),
    "tiny_step": Flag("fault", "alpha was 0.01 on the 0 to 255 scale: the attack hardly moved"),
    "near_zero": Flag("doubt", "the model scores near zero in every run: it was probably broken"),
    "settings_missing": Flag("note", "the source gives no settings for this run"),
    "wrong_config": Flag("doubt", "the repository's own model list loads this R-101 model from an R-50 configuration"),
    # Papers read from text conversions
    "sources_differ": Flag("note", "another published table prints a slightly different value for the same cell"),
    "label_inferred": Flag(
        "note", "the row labels of Tables 4 to 7 are shifted; this attack's name was inferred from the row order"
    ),
    "nmiou_scale": Flag(
        "fault", "clean and attacked NmIoU of the SEA-AT models cannot be on one scale; do not compare with it"
    ),
    "repeated_rows": Flag("doubt", "the ICNet rows of Tables 13 and 14 are identical; one of them must be wrong"),
    "label_doubtful": Flag("note", "printed as '100% scale (average pooling)'; probably the multiscale network"),
    "dataset_inferred": Flag("note", "the caption does not name the dataset; VOC by context"),
    "metric_inferred": Flag("note", "the caption does not name the metric; IoU ratio, since cells repeat Table 1"),
    "epsilon_doubtful": Flag(
        "doubt", "white-box ratios of iterative attacks at epsilon 8 disagree with Tables 9 and 10 of the same paper"
    ),
    "severity_ambiguous": Flag("note", "the header says severities 1, 3, 5 (used here), the caption says 1, 2, 3"),
    "columns_swapped": Flag("fault", "printed mIoU exceeds printed mAcc: the two are probably swapped in the source"),
}


def reasons(codes: str) -> str:
    """The sentences behind space-separated codes, joined by "; "; empty for no code.

    >>> reasons("tiny_step")
    'alpha was 0.01 on the 0 to 255 scale: the attack hardly moved'
    """
    return "; ".join(FLAGS[code].reason for code in codes.split())


def has_level(codes: str, levels: Iterable[str]) -> bool:
    """Whether any of space-separated codes is of one of the levels."""
    wanted = set(levels)
    return any(FLAGS[code].level in wanted for code in codes.split())

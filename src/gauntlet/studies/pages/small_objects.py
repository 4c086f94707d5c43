"""Are small classes and small objects lost before large ones in the worst case (Halmosi et al.)?"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from gauntlet.analysis import by_size, stored_objects
from gauntlet.analysis.size_bias import FRACTION_NAMES, LARGE_OBJECTS, SMALL_OBJECTS, kept_recall
from gauntlet.metrics.arithmetic import divide
from gauntlet.metrics.intervals import mean_of_ratios
from gauntlet.studies.figures import UNKNOWN, FloatArray, smallest
from gauntlet.studies.pages.contract import NETWORK, Runs
from gauntlet.studies.pages.markdown import judged, percent, section, table, with_interval
from gauntlet.studies.pages.worst_case import BATTERY, CLEAN, fully_attacked

SMALL = ("pole", "sign_symbol", "pedestrian", "bicyclist")
LARGE = ("sky", "building", "road")
LEARNED = 0.1
"""Clean IoU, on the same images, below which a class of a model was not learned and has nothing to lose."""
LEAST_CLASSES = 2
"""Small ones that a model has learned, below which nothing is said of small classes."""


def pooling_section(runs: Runs) -> str:
    """CmIoU pools the pixels of all images, NmIoU averages images; and what becomes of small classes."""
    rows = []
    for model in runs.models:
        figures = runs(model, BATTERY).figures
        cells = [class_cell(runs, model, names) for names in (SMALL, LARGE)]
        rows.append([f"`{model}`", percent(figures["mIoU"]), percent(figures["NmIoU"]), *cells])
    attacked = fully_attacked(runs.models)
    told = [
        model for model in attacked if len(learned(runs, model, SMALL)) >= LEAST_CLASSES and learned(runs, model, LARGE)
    ]
    margins = [kept_iou(runs, model, LARGE) - kept_iou(runs, model, SMALL) for model in told]
    return section(
        "CmIoU against NmIoU, small classes against large",
        judged(
            smallest(margins) if told else UNKNOWN,
            len(runs.dataset),
            "" if told else f"no model trained on attacked images only has learned {LEAST_CLASSES} small classes",
        )
        + " Robust models are robust on large objects first (Halmosi et al.): under the battery "
        f"{', '.join(SMALL)} keep a smaller share of their clean mean IoU than {', '.join(LARGE)} do, for "
        f"every model trained on attacked images only; the verdict speaks of {len(told)} of {len(attacked)} of them. "
        f"Classes with a clean IoU below {percent(LEARNED, 0)} % on these images were not learned and are left out; "
        "where it is not all of them, those that are left stand behind the figures. CmIoU pools the pixels of all "
        "images, NmIoU averages over images and the classes that each of them has.",
        table(
            ["worst case, %", "CmIoU", "NmIoU", "small classes, clean > worst", "large classes, clean > worst"], rows
        ),
    )


def class_cell(runs: Runs, model: str, names: Sequence[str]) -> str:
    """The mean IoU of those of some classes that a model has learned, clean and in the worst case."""
    kept = learned(runs, model, names)
    if not kept:
        return "none learned"
    clean, worst = (class_iou(runs, threat, model, kept) for threat in (CLEAN, BATTERY))
    which = "" if len(kept) == len(names) else f", {', '.join(kept)} only"
    return f"{percent(float(clean[0]))} > {with_interval(worst)}{which}"


def learned(runs: Runs, model: str, names: Sequence[str]) -> list[str]:
    """Those of some classes whose clean IoU on the images of a part is not below LEARNED."""
    return [name for name in names if class_iou(runs, CLEAN, model, [name])[0] >= LEARNED]


def kept_iou(runs: Runs, model: str, names: Sequence[str]) -> FloatArray:
    """(R,) share of the clean mean IoU of the learned ones of some classes that is left under the battery."""
    kept = learned(runs, model, names)
    return divide(class_iou(runs, BATTERY, model, kept), class_iou(runs, CLEAN, model, kept))


def class_iou(runs: Runs, threat: str, model: str, names: Sequence[str]) -> FloatArray:
    """(R,) mean IoU of some classes, each image under its worst attack."""
    table, classes = runs.results.tables(NETWORK, threat, model)[0], list(runs.dataset.class_names)
    chosen = [classes.index(name) for name in names]
    parts = (table.true_positives, table.union, table.ground_truth)
    return mean_of_ratios(*(part[:, chosen] for part in parts), counted=table.valid > 0).rows()


def size_section(runs: Runs) -> str:
    """Recall of connected objects by their size; the part was run with objects."""
    objects = {model: objects_of(runs, model) for model in runs.models}
    tables = {model: by_size(found) for model, found in objects.items()}
    counts = next(iter(tables.values()))["objects"]
    kept = {
        model: [kept_recall(found, runs.dataset.ids(), runs.results.weights, *bounds)
                for bounds in (SMALL_OBJECTS, LARGE_OBJECTS)]
        for model, found in objects.items()
    }  # fmt: skip
    rows = [
        [f"`{model}`",
         *(f"{percent(clean)} > {percent(worst)}"
           for clean, worst in found[["clean_recall", "recall"]].to_numpy(float)),
         *map(with_interval, kept[model])]
        for model, found in tables.items()
    ]  # fmt: skip
    attacked = fully_attacked(runs.models)
    small, large = (f"{percent(bound, 0)} %" for bound in (SMALL_OBJECTS[1], LARGE_OBJECTS[0]))
    header = ["model", *(f"{size} ({count})" for size, count in zip(FRACTION_NAMES, counts, strict=True))]
    return section(
        "Recall by the size of objects",
        judged(
            smallest([kept[model][1] - kept[model][0] for model in attacked]) if attacked else UNKNOWN,
            len(runs.dataset),
            "" if attacked else "no model was trained on attacked images only",
        )
        + f" The same by objects instead of classes: those of at least {large} of the image keep a larger share of "
        f"their clean mean recall than those below {small}, for every model trained on attacked images "
        f"only ({len(attacked)} here). Classes and objects need not agree: IoU falls with every pixel that is wrongly "
        "given to a class, recall does not; and what is small is mostly missed on clean images already, which leaves "
        "little to lose.",
        "Mean recall in %, clean > worst case, of connected objects of one class, by the share of the image that they "
        "cover; the number of objects stands in the header. Behind it the share of the clean mean recall that is kept.",
        table([*header, f"kept below {small}", f"kept from {large}"], rows),
    )


def objects_of(runs: Runs, model: str) -> pd.DataFrame:
    """The objects of all images, clean and in the worst case."""
    return stored_objects(runs.store, runs(model, CLEAN).key, runs(model, BATTERY).key)

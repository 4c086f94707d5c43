"""What a task is: its metric and figures, what it needs of a dataset, its suites, and the words used for it.

Models, evaluations and stores name a task by a text, SEGMENTATION or DETECTION. Whatever else differs between tasks and
is a fact (not an algorithm) stands here, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gauntlet.errors import GauntletError, unknown_name

SEGMENTATION = "segmentation"
DETECTION = "detection"


class Classes(Protocol):
    """The part of a dataset that says which ground truth it has."""

    @property
    def name(self) -> str: ...

    @property
    def class_names(self) -> Sequence[str]: ...

    @property
    def box_class_names(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: what models, evaluations and stores call it.
        title: what a model card calls it.
        hub_name: what the Hugging Face hub calls it.
        metric: name of its metric in `gauntlet.metrics`.
        figures: the figures that tables and leaderboards show, the main figure first.
        image_figure: the figure of a single image, by which batteries choose an image's worst case.
        region_figure, region_words: the figure that is given inside and outside a region, and what it is.
        truth: the ground truth that a dataset must have, in the plural.
        classes_field: the field of a dataset that names the classes of that ground truth.
        classes_word: what those classes are called in messages.
        model_word: what a model is called in messages.
        example_datasets: two datasets that have the ground truth.
        suites: built-in suites that are meant for it, the quickest first.
        rem_attacks: the attacks over which ReM is the minimum (docs/specs/metrics.md, 6).
    """

    name: str
    title: str
    hub_name: str
    metric: str
    figures: tuple[str, ...]
    image_figure: str
    region_figure: str
    region_words: str
    truth: str
    classes_field: str
    classes_word: str
    model_word: str
    example_datasets: tuple[str, str]
    suites: tuple[str, ...]
    rem_attacks: tuple[str, ...]

    @property
    def main_figure(self) -> str:
        """The figure that models are ranked by."""
        return self.figures[0]

    def class_names(self, dataset: Classes) -> Sequence[str]:
        """The classes of a dataset in this task; an error where the dataset has no ground truth for it."""
        names: Sequence[str] = getattr(dataset, self.classes_field)
        if not names:
            raise GauntletError(
                f"the dataset '{dataset.name}' has no {self.truth}; a {self.model_word} needs one with {self.truth}, "
                f"such as {' or '.join(self.example_datasets)}."
            )
        return names


TASKS: dict[str, Task] = {
    SEGMENTATION: Task(
        name=SEGMENTATION,
        title="Semantic segmentation",
        hub_name="image-segmentation",
        metric="segmentation",
        figures=("mIoU", "mAcc", "aAcc", "NmIoU"),
        image_figure="accuracy",
        region_figure="A",
        region_words="accuracy",
        truth="label maps",
        classes_field="class_names",
        classes_word="classes",
        model_word="segmentation model",
        example_datasets=("streets", "cityscapes"),
        suites=("quick", "semsegbench", "spatial", "full"),
        rem_attacks=("pgd", "segpgd", "cospgd"),
    ),
    DETECTION: Task(
        name=DETECTION,
        title="Object detection",
        hub_name="object-detection",
        metric="detection",
        figures=("mAP", "mAP50", "mAP75"),
        image_figure="F1",
        region_figure="mAP",
        region_words="mAP of the objects whose centre lies",
        truth="boxes",
        classes_field="box_class_names",
        classes_word="classes of boxes",
        model_word="detector",
        example_datasets=("streets", "coco"),
        suites=("quick", "detecbench", "spatial", "full"),
        rem_attacks=("bim", "pgd"),
    ),
}
"""Every task by its name."""


def get_task(name: str) -> Task:
    """The task of a name; an error that lists the known ones for another name."""
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]


def task_of(model: object) -> str:
    """The name of a model's task; whatever names none is taken to give a logit per pixel and class (segmentation)."""
    return DETECTION if getattr(model, "task", None) == DETECTION else SEGMENTATION

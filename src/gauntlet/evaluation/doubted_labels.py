"""Doubts about labels, told before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable

from gauntlet.datasets.doubts import sample_doubts
from gauntlet.evaluation.execution.progress import Progress
from gauntlet.evaluation.jobs import PlannedJob
from gauntlet.tasks import SEGMENTATION


def tell_doubts(jobs: Iterable[PlannedJob], progress: Progress) -> None:
    """Note what is doubtful in the labels of the datasets of some jobs; every dataset is looked at once."""
    datasets = {id(planned.dataset): planned.dataset for planned in jobs if planned.job.task == SEGMENTATION}
    for dataset in datasets.values():
        for doubt in sample_doubts(dataset):
            progress.note_once(f"doubtful labels in '{dataset.name}': {doubt}.")

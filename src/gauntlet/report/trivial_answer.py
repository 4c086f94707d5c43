"""The trivial answer of a scope, and classes that are only predicted, from the counts of its images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gauntlet.metrics.segmentation.trivial import most_frequent_figures, only_predicted
from gauntlet.numbers import listed
from gauntlet.report.image_figures import Images, LabelImages
from gauntlet.report.scope import Scope


def with_trivial(scope: Scope, images: Mapping[tuple[str, str], Images]) -> Scope:
    """A scope with the figures of the trivial answer on its clean images; as it is where the store has no counts.

    Args:
        scope: the evaluations.
        images: of some of its evaluations, by model and threat.
    """
    clean = {pair: each for pair, each in images.items() if pair[1] in scope.of_kind("clean")}
    found = next((each for each in (clean or images).values() if isinstance(each, LabelImages)), None)
    if found is None or not found.headline.valid.sum():
        return scope
    answer = int(np.argmax(found.headline.ground_truth.sum(axis=0)))
    figures = most_frequent_figures(found.headline)
    return replace(scope, trivial=figures, trivial_class=found.class_names[answer])


def only_predicted_sentence(scope: Scope, images: Mapping[tuple[str, str], Images]) -> str:
    """The sentence that names classes that models predict and no label map has; "" where there are none.

    Args:
        scope: the evaluations.
        images: of its evaluations, by model and threat.
    """
    by_class: dict[str, list[str]] = {}
    for (model, _), each in images.items():
        if isinstance(each, LabelImages):
            for index in only_predicted(each.headline):
                models = by_class.setdefault(each.class_names[index], [])
                models += [model] if model not in models else []
    if not by_class:
        return ""
    said = listed([f"'{name}' (by {_counted(models, scope)})" for name, models in by_class.items()])
    return f"Predicted but in no label map, so counted as IoU 0 in the mIoU of the evaluation: {said}."


def _counted(models: Sequence[str], scope: Scope) -> str:
    return models[0] if len(models) == 1 else f"{len(models)} of {len(scope.models)} models"

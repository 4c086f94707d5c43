"""What a fitted perturbation or patch does on held-out images, beside its controls and the images it was fitted on.

docs/specs/beyond.md, 6 and 7.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import ndimage

from gauntlet.datasets.contract import Dataset
from gauntlet.evaluation.evaluate import evaluate
from gauntlet.evaluation.execution.units import cut_units, load_unit
from gauntlet.evaluation.jobs import ready_model
from gauntlet.evaluation.provenance import choose_device
from gauntlet.models import GauntletModel
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results.record import Evaluation
from gauntlet.tasks import DETECTION, get_task
from gauntlet.threats import build_threat
from gauntlet.threats.artifacts import Artifact, load_artifact
from gauntlet.threats.attacks.engine.labels import label_map
from gauntlet.threats.contract import Threat
from gauntlet.threats.fitted.universal import HIDE, STATIC

HELD_OUT, FIT = "held out", "fit"
RINGS = (0.0, 1.0, 2.0, 4.0)
"""Where rings around a patch begin, in sides of it; the last one has no end."""
_AT_ONCE = 4


@dataclass(frozen=True)
class Row:
    """One line of a comparison.

    Attributes:
        images: "held out" or "fit".
        threat: "clean", "fitted", or the name of a control.
        value: the mean of the main figure over the evaluations.
        evaluations: one, or one per draw of a random control.
        effects: further figures by name.
    """

    images: str
    threat: str
    value: float
    evaluations: Sequence[Evaluation]
    effects: dict[str, float] = field(default_factory=dict)


def apply_universal(
    model: GauntletModel | ModelSource,
    dataset: Dataset,
    artifact: str | Path | Artifact,
    *,
    fit_dataset: Dataset | None = None,
    draws: int = 5,
    **options: Any,
) -> list[Row]:
    """Clean, perturbed, and under random signs of the same norm; and how well a target is reached.

    Args:
        model: what is evaluated; another one than it was fitted on tells about transfer.
        dataset: held-out images.
        artifact: what was fitted, or its file.
        fit_dataset: the images that it was fitted on, to measure the gap.
        draws: of the random control, whose figures are averaged.
        options: those of `evaluate`: store=, seed=, workers=, ...
    """
    fitted = load_artifact(artifact, "universal")
    norm = fitted.facts["norm"]
    figure = get_task(model.task).main_figure
    controls = [{"universal": {"artifact": fitted, "control": norm, "draw": draw}} for draw in range(draws)]
    rows = _rows(
        model, dataset, HELD_OUT, "universal", fitted, {f"random signs, same {norm}": controls}, figure, options
    )
    if fit_dataset is not None:
        rows += _rows(model, fit_dataset, FIT, "universal", fitted, {}, figure, options)
    if model.task != DETECTION and fitted.facts["aim"] in (STATIC, HIDE):
        loaded = _loaded(model, dataset, options)
        for row in (each for each in rows if each.threat == "fitted"):
            data = dataset if row.images == HELD_OUT or fit_dataset is None else fit_dataset
            row.effects.update(target_effects(loaded, data, _threat("universal", fitted, row.images), fitted))
    return rows


def apply_patch(
    model: GauntletModel | ModelSource,
    dataset: Dataset,
    artifact: str | Path | Artifact,
    *,
    place: str | None = None,
    fit_dataset: Dataset | None = None,
    draws: int = 1,
    **options: Any,
) -> list[Row]:
    """Figures outside the patch: clean, with it, and with the controls in the same places; rings around it.

    Args:
        model, dataset, fit_dataset, options: as for `apply_universal`.
        artifact: what was fitted, or its file.
        place: another one than it was fitted for.
        draws: of the random patch, whose figures are averaged.
    """
    fitted = load_artifact(artifact, "patch")
    figure = f"{get_task(model.task).main_figure}_Mbar"
    elsewhere = {} if place is None else {"place": place}

    def control(content: str, **more: Any) -> dict[str, Any]:
        return {"patch": {"artifact": fitted, "content": content, **elsewhere, **more}}

    controls = {
        "random": [control("random", draw=draw) for draw in range(draws)],
        "grey": [control("grey")],
        "crop of an image": [control("crop")],
    }
    rows = _rows(model, dataset, HELD_OUT, "patch", fitted, controls, figure, options, **elsewhere)
    if fit_dataset is not None:
        rows += _rows(model, fit_dataset, FIT, "patch", fitted, {}, figure, options, **elsewhere)
    if model.task != DETECTION:
        loaded = _loaded(model, dataset, options)
        for row in (each for each in rows if each.images == HELD_OUT and each.threat in ("fitted", "random")):
            threat = build_threat(control(row.threat))
            row.effects.update(ring_accuracy(loaded, dataset, threat, int(options.get("seed", 0))))
    return rows


def _loaded(model: GauntletModel | ModelSource, dataset: Dataset, options: dict[str, Any]) -> GauntletModel:
    return ready_model(model, dataset, choose_device(options.get("device")))


def _threat(kind: str, fitted: Artifact, images: str, **more: Any) -> Threat:
    allowed = {"fit_images": True} if images == FIT else {}
    return build_threat({kind: {"artifact": fitted, **allowed, **more}})


def _rows(
    model: GauntletModel | ModelSource,
    dataset: Dataset,
    images: str,
    kind: str,
    fitted: Artifact,
    controls: dict[str, list[dict[str, Any]]],
    figure: str,
    options: dict[str, Any],
    **place: Any,
) -> list[Row]:
    """Evaluates the fitted threat and its controls; of a patch the clean figure is that outside of it."""
    wanted: dict[str, list[Any]] = {"clean": ["clean"]} if kind == "universal" else {}
    wanted |= {"fitted": [_threat(kind, fitted, images, **place)], **controls}
    done = iter(evaluate(model, dataset, [threat for threats in wanted.values() for threat in threats], **options))
    evaluations = {name: [next(done) for _ in threats] for name, threats in wanted.items()}
    rows = [_row(images, name, of_name, figure) for name, of_name in evaluations.items()]
    if kind == "patch":
        rows.insert(0, _row(images, "clean", evaluations["fitted"], f"{figure}_clean"))
        for row in rows[1:]:
            row.effects.update(_placing_facts(row.evaluations[0]))
    return rows


def _row(images: str, name: str, evaluations: Sequence[Evaluation], figure: str) -> Row:
    return Row(images, name, float(np.mean([each.figures[figure] for each in evaluations])), evaluations)


def _placing_facts(evaluation: Evaluation) -> dict[str, float]:
    """Images without a place for the patch, and objects that it covers."""
    frame = evaluation.per_image
    known = [name for name in ("unpatched", "ignored_by_patch") if name in frame]
    return {name: float(frame.drop_duplicates("image_id")[name].sum()) for name in known}


Arrays = npt.NDArray[np.integer]


def _seen(
    model: GauntletModel, dataset: Dataset, threat: Threat, seed: int
) -> Iterator[tuple[Arrays, Arrays, Arrays | None, npt.NDArray[np.bool_] | None]]:
    """Per image: label maps of the clean and of the changed image, the truth, and where the threat acted."""
    for unit in cut_units(len(dataset), _AT_ONCE):
        for group in load_unit(dataset, unit, seed, model.device):
            made = threat.perturb(model, group.batch, group.seeds)
            with torch.inference_mode():
                clean, changed = (label_map(model(each)).cpu().numpy() for each in (group.batch.images, made.images))
            for index, sample in enumerate(group.batch.samples):
                region = None if made.region is None else made.region[index].cpu().numpy()
                yield clean[index], changed[index], sample.labels, region


def target_effects(
    model: GauntletModel, dataset: Dataset, threat: Threat, artifact: Artifact, seed: int = 0
) -> dict[str, float]:
    """How well a perturbation reaches its target.

    A static target: `target_share`, the share of pixels that have its label, and the same on the clean images. A hidden
    class: `hidden`, the share of its clean pixels that are no longer seen as it, and `background_kept`, the share of
    all others that are seen as before. A share of nothing is left out.
    """
    reached = np.zeros(2)
    hidden, others = np.zeros(2), np.zeros(2)
    pixels = 0
    for clean, changed, _, _ in _seen(model, dataset, threat, seed):
        if artifact.facts["aim"] == STATIC:
            target = artifact.tensors["target"].numpy()
            reached += ((changed == target).sum(), (clean == target).sum())
            pixels += target.size
        else:
            own = clean == artifact.facts["hide"]
            hidden += ((own & (changed != clean)).sum(), own.sum())
            others += ((~own & (changed == clean)).sum(), (~own).sum())
    if artifact.facts["aim"] == STATIC:
        return {"target_share": reached[0] / pixels, "target_share_clean": reached[1] / pixels}
    shares = {"hidden": hidden, "background_kept": others}
    return {name: float(part / of) for name, (part, of) in shares.items() if of}


def ring_accuracy(model: GauntletModel, dataset: Dataset, threat: Threat, seed: int = 0) -> dict[str, float]:
    """The accuracy in rings around a patch: 0 to 1, 1 to 2, 2 to 4 and more than 4 sides of it away.

    Distances are Chebyshev's to the nearest pixel of the patch, over the square root of its area. A ring that no image
    reaches is left out.
    """
    right, valid = np.zeros(len(RINGS)), np.zeros(len(RINGS))
    for _, changed, labels, region in _seen(model, dataset, threat, seed):
        if labels is None or region is None or not region.any():
            continue
        distance = ndimage.distance_transform_cdt(~region, metric="chessboard") / np.sqrt(region.sum())
        counted = ~region if dataset.ignore_index is None else ~region & (labels != dataset.ignore_index)
        ring = np.searchsorted(RINGS, distance, side="left") - 1  # -1 is the patch itself, which does not count
        valid += np.bincount(ring[counted], minlength=len(RINGS))
        right += np.bincount(ring[counted & (changed == labels)], minlength=len(RINGS))
    names = [f"ring {low:g}-{high:g}" for low, high in itertools.pairwise(RINGS)] + [f"ring >{RINGS[-1]:g}"]
    return {name: float(part / of) for name, part, of in zip(names, right, valid, strict=True) if of}

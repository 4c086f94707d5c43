"""A made-up store: plausible figures of any number of models and threats, without running any model."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gauntlet.metrics import REGION, WHOLE, Figure, SegmentationMetric, Views
from gauntlet.metrics.segmentation.counts import SCALARS, ImageCounts
from gauntlet.results import Job, Store
from gauntlet.results.record import ImageRow

CLASSES = ("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist")
CORRUPTIONS = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression"),
)
HOSTILE = "<script>window.hacked=1</script>\"'><img src=x onerror=window.hacked=1>|`$_{}%&\\</script>"
MODELS = ("zoo/plain", "zoo/steady", HOSTILE)

DATASET = {"name": "d", "split": "val", "length": 40, "ids": "x", "protocol": {}}
METRIC = {"class_names": ["a", "b"], "ignore_index": 255, "background_index": None}

BATTERY = Views.of_candidates(["apgd-ce", "segpgd", "cospgd", "pdpgd"])


@dataclass(frozen=True)
class MadeUpThreat:
    """A threat and what it does: the share of a model's skill that a model of robustness 0 or 1 keeps."""

    name: str
    description: dict[str, Any]
    weak: float
    strong: float
    views: Views = WHOLE

    @property
    def kind(self) -> str:
        return next(iter(self.description))


def attack(name: str, epsilon: int, steps: int, norm: str = "linf") -> MadeUpThreat:
    options = {"name": name, "norm": norm, "epsilon": epsilon / 255, "steps": steps}
    force = min(1.0, (epsilon / 8) ** 0.6 * (0.75 if steps == 1 else 1.0))
    return MadeUpThreat(f"{name} {norm} {epsilon}/255 x{steps}", {"attack": options}, 1 - 0.99 * force, 1 - 0.6 * force)


def corruption(name: str, severity: int) -> MadeUpThreat:
    force = (0.12 + 0.14 * severity) * (0.4 + 0.1 * (CORRUPTIONS.index(name) % 7))
    described = {"corruption": {"name": name, "severity": severity}}
    return MadeUpThreat(f"{name}-{severity}", described, max(0.05, 1 - 1.4 * force), 1 - 0.6 * force)


def localized(name: str, ratio: float) -> MadeUpThreat:
    described = {"localized": {"corruption": {"name": name, "severity": 3}, "ratio": ratio, "patch": 64}}
    return MadeUpThreat(f"{name}-3-ratio{ratio}-patch64", described, 1 - 0.5 * ratio, 1 - 0.2 * ratio, REGION)


def minimum(name: str) -> MadeUpThreat:
    described = {"attack": {"name": name, "norm": "linf", "epsilon": None, "steps": 100, "threshold": 0.99}}
    return MadeUpThreat(f"{name} x100", described, 0.0, 0.0)


CLEAN = MadeUpThreat("clean", {"clean": {}}, 1.0, 1.0)
HALMOSI = MadeUpThreat("halmosi 8/255", {"battery": {"name": "halmosi", "epsilon": 8 / 255}}, 0.01, 0.35, BATTERY)

SMALL = (
    CLEAN,
    *(attack("pgd", epsilon, 20) for epsilon in (2, 4, 8)),
    attack("segpgd", 8, 20),
    attack("cospgd", 8, 20),
    attack("fgsm", 8, 1),
    *(corruption("fog", severity) for severity in (1, 3, 5)),
    corruption("gaussian_noise", 3),
    localized("gaussian_noise", 0.25),
    localized("gaussian_noise", 0.5),
    minimum("alma-prox"),
    minimum("dag"),
    HALMOSI,
)
LARGE = (
    *SMALL,
    *(corruption(name, 3) for name in CORRUPTIONS if name not in ("fog", "gaussian_noise")),
    *(corruption(name, severity) for name in ("snow", "motion_blur") for severity in (1, 5)),
    corruption("gaussian_noise", 5),
    attack("pgd", 1, 20),
    attack("pgd", 8, 5),
    attack("pgd", 8, 10),
    *(attack(name, 64, 20, "l2") for name in ("pgd", "segpgd", "cospgd")),
)
"""Forty threats."""


def fill_store(
    store: Store,
    models: Sequence[str],
    threats: Sequence[MadeUpThreat] = SMALL,
    *,
    images: int = 12,
    classes: Sequence[str] = CLASSES,
    dataset: str = "streets",
    seed: int = 0,
) -> Store:
    """Adds evaluations of some models under some threats; later models are more robust and less accurate."""
    metric_options: dict[str, Any] = {"class_names": list(classes), "ignore_index": 255, "background_index": None}
    metric = SegmentationMetric(**metric_options)
    identity = {"name": dataset, "split": "val", "length": images, "ids": "0123456789abcdef", "protocol": {}}
    for number, model in enumerate(models):
        robust = (number + 0.5) / len(models)
        skill = 0.93 - 0.08 * robust
        for position, threat in enumerate(threats):
            job = Job(
                "segmentation", model, f"{number:016x}", identity, threat.name, threat.kind, threat.description, 1, seed
            )
            provenance = {
                "started": f"2026-03-01T10:{position % 60:02d}:00+00:00",
                "gauntlet": "0.1.0",
                "torch": "2.13.0",
                "device": "cpu",
                "batch_size": 4,
                "precision": "fp32",
                "command": shlex.join(["gauntlet", "run", "--model", model]),
            }
            started = store.begin(job, images=images, batch_size=4, metric=metric_options, provenance=provenance)
            keep = threat.weak + (threat.strong - threat.weak) * robust
            # Images and classes are hard or easy for every model: one generator for what is shared.
            shared, own = np.random.default_rng([seed, 1]), np.random.default_rng([seed, number, position])
            rows = []
            for image in range(images):
                hard = 0.75 + 0.5 * shared.random((1, len(classes)))
                sizes = (2000 * shared.dirichlet(np.linspace(3, 0.4, len(classes)))).astype(np.int64)
                counts = [
                    image_counts(np.clip(skill * keep * hard * own.normal(1, 0.05), 0, 0.995), sizes, own, view)
                    for view in threat.views
                ]
                details = {} if threat.kind != "attack" else {"norm": attack_norm(threat, robust, own)}
                rows.append(
                    ImageRow(image, f"{dataset}/val/{image:06d}", ImageCounts.stack(counts).to_bytes(), details)
                )
            store.add_images(started, rows, threat.views, seconds=1.5)
            decoded = (metric.decode(row.counts) for row in rows)
            store.finish(started, metric.compute(decoded, threat.views))
    return store


def image_counts(accuracy: np.ndarray, sizes: np.ndarray, own: np.random.Generator, view: str) -> ImageCounts:
    """Confusions of one image in one view: every class keeps its accuracy, the rest goes anywhere."""
    accuracy = accuracy.ravel()
    classes = len(accuracy)
    if view.startswith("clean"):
        accuracy = np.clip(accuracy * 1.2, 0, 0.98)
    right = np.round(sizes * accuracy).astype(np.int64)
    confusion = np.diag(right)
    for row, rest in enumerate(sizes - right):
        confusion[row, own.integers(classes)] += rest
    return ImageCounts(confusion[None], np.full((1, len(SCALARS)), np.nan))


def attack_norm(threat: MadeUpThreat, robust: float, own: np.random.Generator) -> float:
    epsilon = threat.description["attack"]["epsilon"]
    return float(epsilon if epsilon is not None else own.gamma(3, (0.5 + 3 * robust) / 255))


def put(
    store: Store,
    model: str,
    threat: str,
    description: dict[str, Any],
    *,
    digest: str = "0",
    seed: int = 0,
    images: int = 40,
    protocol: dict[str, Any] | None = None,
    **figures: float,
) -> None:
    """An evaluation with given figures and no counts."""
    job = Job(
        "segmentation",
        model,
        digest,
        {**DATASET, "length": images, "protocol": protocol or {}},
        threat,
        next(iter(description)),
        description,
        1,
        seed,
    )
    provenance = {"started": f"2026-01-01T00:00:{store.count() % 60:02d}+00:00"}
    started = store.begin(job, images=images, batch_size=4, metric=METRIC, provenance=provenance)
    store.finish(started, [Figure(name, value) for name, value in figures.items()])

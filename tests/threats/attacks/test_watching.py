"""Watching an attack: what is shown, and that being watched changes nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from gauntlet.models import SegmentationModel
from gauntlet.samples import collate
from gauntlet.threats import attacks
from gauntlet.threats.attacks.watching import watching
from tiny import TinyDataset
from tiny_detector import TinyBoxes, TinyDetector


def _watched(name: str, model: object, images: torch.Tensor, truth: object, **options: object) -> list[torch.Tensor]:
    """The points that an attack showed; the look on it draws random numbers, and nothing comes out otherwise."""
    attack = attacks.build(name, **options)
    alone = attack(model, images, truth, seed=3)
    seen: list[torch.Tensor] = []

    def look(points: torch.Tensor) -> None:
        torch.rand(5)
        seen.append(points.clone())

    with watching(look):
        outcome = attack(model, images, truth, seed=3)
    assert torch.equal(outcome.images, alone.images)
    assert outcome.queries.forward.tolist() == alone.queries.forward.tolist()
    attack(model, images, truth, seed=3)  # nobody watches any more
    return [*seen, outcome.images]


@pytest.mark.parametrize(("name", "steps"), [("fgsm", 1), ("pgd", 4), ("cospgd", 3), ("alma-prox", 5)])
def test_every_gradient_step_is_shown_once(tiny_model: SegmentationModel, name: str, steps: int) -> None:
    batch = collate([TinyDataset()[0]], ignore_index=255)
    shown = _watched(name, tiny_model, batch.images, batch.labels, steps=steps)
    assert len(shown) == steps + 1
    assert all(not torch.equal(one, other) for one, other in pairwise(shown[:-1]))


def test_pgd_starts_at_a_random_point_and_bim_at_the_image(tiny_model: SegmentationModel) -> None:
    batch = collate([TinyDataset()[0]], ignore_index=255)
    assert torch.equal(_watched("bim", tiny_model, batch.images, batch.labels, steps=2)[0], batch.images)
    start = _watched("pgd", tiny_model, batch.images, batch.labels, steps=2)[0]
    assert 0 < (start - batch.images).abs().max() <= 8 / 255


def test_gradients_that_are_averaged_are_one_step(tiny_model: SegmentationModel) -> None:
    batch = collate([TinyDataset()[0]], ignore_index=255)
    assert len(_watched("pgd", tiny_model, batch.images, batch.labels, steps=3, samples=2)) == 4


def test_queries_and_detectors_are_shown_too(tiny_model: SegmentationModel) -> None:
    batch = collate([TinyDataset()[0]], ignore_index=255)
    asked = _watched("square", tiny_model, batch.images, batch.labels, queries=6)
    assert len(asked) >= 6
    objects = collate([TinyBoxes()[0]], ignore_index=None)
    assert len(_watched("pgd", TinyDetector(), objects.images, objects.boxes, steps=3)) == 4


def test_an_observer_that_raises_ends_the_attack(tiny_model: SegmentationModel) -> None:
    batch = collate([TinyDataset()[0]], ignore_index=255)
    calls: list[int] = []

    def stop(points: torch.Tensor) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError), watching(stop):
        attacks.build("pgd", steps=9)(tiny_model, batch.images, batch.labels)
    assert len(calls) == 2

"""Attacks on a detector (docs/specs/attacks.md, 16): exact constraints, true gradients, growing strength, targets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from gauntlet.models.contract import Candidates
from gauntlet.samples import Boxes, collate
from gauntlet.threats.attacks import build
from gauntlet.threats.attacks.algorithms.gradient import GradientAttack
from gauntlet.threats.attacks.detection.matching import matched_detections
from gauntlet.threats.attacks.detection.problem import ObjectProblem
from gauntlet.threats.attacks.engine.batch_call import BatchCall
from gauntlet.threats.attacks.engine.losses import losses
from tiny_detector import CELL, TinyBoxes, TinyDetector

MODEL = TinyDetector()
BATCH = collate([TinyBoxes(5)[index] for index in range(5)], ignore_index=None)
IMAGES, BOXES = BATCH.images, BATCH.boxes
FEW: dict[str, dict[str, Any]] = {
    "fgsm": {},
    "bim": {"steps": 3},
    "pgd": {"steps": 3, "restarts": 2},
    "mifgsm": {"steps": 3},
    "apgd": {"steps": 5},
    "padam-ce": {"steps": 3},
    "tog-vanishing": {"steps": 3},
    "tog-fabrication": {"steps": 3, "returns": "best"},
    "tog-mislabeling": {"steps": 3},
    "tog-untargeted": {"steps": 3},
    "dag": {"steps": 3, "alpha": 0.2},
}
TARGETABLE = ("fgsm", "bim", "pgd", "mifgsm", "apgd", "padam-ce", "tog-mislabeling", "dag")
ITERATIVE = ("bim", "pgd", "padam-ce", "apgd", "tog-vanishing", "tog-fabrication", "tog-mislabeling", "tog-untargeted")


def posed(attack: Any, images: torch.Tensor = IMAGES, target: Any = None, model: TinyDetector = MODEL) -> ObjectProblem:
    problem = attack.pose(BatchCall(model, images, BOXES[: len(images)], target, None, None, [0] * len(images)))
    assert isinstance(problem, ObjectProblem)
    return problem


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(FEW)),
    st.sampled_from(["linf", "l2"]),
    st.sampled_from([0.0, 1e-6, 1 / 255, 8 / 255, 0.5, 1.0]),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([None, 0.0, 0.4]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_every_attack_respects_the_threat_model(
    name: str, norm: str, epsilon: float, dtype: torch.dtype, share: float | None, targeted: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.rand(IMAGES[:3].shape, generator=generator) - 0.5
    images = (IMAGES[:3] + 0.6 * noise).clamp(0, 1).to(dtype)  # many pixels on the boundary of the box
    region = None if share is None else torch.rand(IMAGES.shape[2:], generator=generator) < share
    model = TinyDetector().to(dtype)
    attack = build(name, norm=norm, epsilon=epsilon, **FEW[name])
    target = 1 if targeted and name in TARGETABLE else None
    outcome = attack(model, images, BOXES[:3], target=target, region=region, seed=seed)
    assert outcome.images.dtype == dtype
    assert torch.isfinite(outcome.images).all()
    assert outcome.images.min() >= 0
    assert outcome.images.max() <= 1
    change = (outcome.images.double() - images.double()).flatten(1)
    size = change.abs().amax(1) if norm == "linf" else change.square().sum(1).sqrt()
    assert (size <= epsilon).all()
    if region is not None:
        assert torch.equal(outcome.images[..., ~region], images[..., ~region])
    if epsilon == 0:
        assert torch.equal(outcome.images, images)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("name", ["bim", "pgd", "padam-ce", "apgd", "tog-vanishing"])
def test_the_budget_is_used_up(name: str, norm: str) -> None:
    """An attack that stayed far inside its ball would pass every test of the constraint."""
    epsilon = 0.05 if norm == "linf" else 0.4
    alpha = {} if name == "apgd" else {"alpha": epsilon / 4}
    outcome = build(name, norm=norm, epsilon=epsilon, steps=8, **alpha)(MODEL, IMAGES[:2], BOXES[:2])
    assert (outcome.norms > 0.99 * epsilon).all()


@pytest.mark.parametrize(
    ("name", "target"),
    [("bim", None), ("bim", 2), *((name, None) for name in ITERATIVE if name.startswith("tog-"))],
)
def test_t07_gradients_equal_differences(name: str, target: int | None) -> None:
    """The slope that an attack climbs is that of what it says it wants, in any direction."""
    model, images = TinyDetector().double(), (0.1 + 0.8 * IMAGES.double())
    problem = posed(build(name), images, target, model)
    generator = torch.Generator().manual_seed(4)
    images = images + 0.02 * torch.rand(images.shape, generator=generator)  # off the clean detections' own corners
    slope = problem.evaluate(images, losses["ce"], 0.0).gradient
    for _ in range(3):
        way = torch.randn(images.shape, generator=generator, dtype=torch.float64)
        above, below = (problem.goal.value(model, images + sign * 1e-6 * way) for sign in (1, -1))
        difference = (above - below).detach() / 2e-6
        assert torch.allclose((slope * way).flatten(1).sum(1), difference, rtol=1e-5, atol=1e-6)


def strength(name: str, norm: str, epsilon: float, steps: int, returns: str | None) -> tuple[torch.Tensor, float]:
    """What the attack drives up, per image, and the mean share of what it wants."""
    options: dict[str, Any] = {"norm": norm, "epsilon": epsilon, "steps": steps, "returns": returns}
    if name != "apgd":
        options["alpha"] = epsilon / 8
    attack = build(name, **options)
    outcome = attack(MODEL, IMAGES[:3], BOXES[:3], seed=1)
    with torch.no_grad():
        value = posed(attack, IMAGES[:3]).goal.value(MODEL, outcome.images)
    return value, float(outcome.share.nan_to_num().mean())


# In L2 a step and a ball of their own, with every rule of steps: the goals of TOG are the same in both.
@pytest.mark.parametrize(
    ("name", "norm"), [*((name, "linf") for name in ITERATIVE), *((name, "l2") for name in ("bim", "padam-ce", "apgd"))]
)
def test_t03_more_budget_is_not_weaker(name: str, norm: str) -> None:
    """A larger ball: more of what is driven up, on every image, and not less of what is wanted (2 % for the last)."""
    scale = 1.0 if norm == "linf" else 40.0
    reached = [strength(name, norm, scale * epsilon, 10, None) for epsilon in (0.03, 0.12, 0.4)]
    for (less, lower), (more, higher) in itertools.pairwise(reached):
        assert (more > less - 1e-6).all()
        assert higher >= lower - 0.02
    assert reached[-1][1] > reached[0][1] + 0.1
    shares = [strength(name, norm, 0.3 * scale, steps, "best")[1] for steps in (1, 4, 12)]
    assert shares[0] - 0.01 <= shares[1] <= shares[2] + 0.01


def test_t04_the_whole_box_leaves_nothing() -> None:
    for name in ("pgd", "apgd", "padam-ce"):
        options = {} if name == "apgd" else {"alpha": 0.1}
        outcome = build(name, epsilon=1, steps=40, returns="best", **options)(MODEL, IMAGES, BOXES)
        assert outcome.share.tolist() == [1.0] * len(IMAGES), name


def test_t05_order_of_strength() -> None:
    """Steps beat a single one, and that beats the strongest of twenty noises."""
    epsilon, problem = 0.25, posed(build("bim"))

    def left(points: torch.Tensor) -> float:
        return 1 - int(problem.won(points).sum()) / int(problem.counts.sum())

    def noisy(seed: int) -> torch.Tensor:
        draw = torch.rand(IMAGES.shape, generator=torch.Generator().manual_seed(seed))
        return (IMAGES + epsilon * (2 * draw - 1)).clamp(0, 1)

    single = build("fgsm", epsilon=epsilon)(MODEL, IMAGES, BOXES)
    many = build("bim", epsilon=epsilon, alpha=epsilon / 8, steps=20, returns="best")(MODEL, IMAGES, BOXES)
    adaptive = build("apgd", epsilon=epsilon, steps=20)(MODEL, IMAGES, BOXES)
    assert left(many.images) <= left(single.images) < min(left(noisy(seed)) for seed in range(20))
    assert left(adaptive.images) <= left(single.images)


@pytest.mark.parametrize("name", ["pgd", "apgd", "padam-ce", "tog-fabrication", "tog-mislabeling", "dag"])
def test_t12_same_seed_same_bits_and_another_seed_others(name: str) -> None:
    attack = build(name, **FEW[name])
    first, again, other = (attack(MODEL, IMAGES, BOXES, seed=seed).images for seed in (7, 7, 8))
    assert torch.equal(first, again)
    assert name == "dag" or not torch.equal(first, other)


# Targets ------------------------------------------------------------------------------------------------------------


class ManyClasses(TinyDetector):
    """44 classes, of which 0, 1 and DetecBench's 42 are the three colours."""

    def __init__(self) -> None:
        super().__init__()
        self.num_classes = 44
        self.class_names = tuple(str(index) for index in range(44))

    def candidates(self, images: torch.Tensor) -> Candidates:
        detected = super().candidates(images)
        scores = nn.functional.pad(detected.scores, (0, 41), value=-9.0)
        scores = torch.cat([scores[..., :2], scores[..., 3:43], scores[..., 2:3], scores[..., 43:]], 2)
        return Candidates(scores, detected.boxes, scores.amax(2))


def at_targets(model: TinyDetector, images: torch.Tensor, wanted: Sequence[Boxes]) -> list[list[bool]]:
    """For every wanted box whether a confident detection of its class stands there."""
    return [(matched_detections(*each) >= 0).tolist() for each in zip(wanted, model.predict(images), strict=True)]


STRONG: dict[str, dict[str, Any]] = {
    "bim": {"alpha": 0.1, "steps": 12},
    "pgd": {"alpha": 0.1, "steps": 12},
    "padam-ce": {"alpha": 0.1, "steps": 12},
    "apgd": {"steps": 12},
    "tog-mislabeling": {"alpha": 0.1, "steps": 12},
    "dag": {"alpha": 0.1, "strong": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(STRONG))
@pytest.mark.parametrize("target", [0, 2])
def test_a_class_is_reached_at_every_object(name: str, target: int) -> None:
    outcome = build(name, epsilon=0.9, **STRONG[name])(MODEL, IMAGES, BOXES, target=target)
    wanted = [Boxes(each.xyxy, np.full(len(each), target)) for each in BOXES]
    assert all(all(each) for each in at_targets(MODEL, outcome.images, wanted))
    assert not all(all(each) for each in at_targets(MODEL, IMAGES, wanted))


@pytest.mark.parametrize("name", ["bim", "pgd", "apgd", "padam-ce"])
def test_a_class_is_reached_in_l2(name: str) -> None:
    options = {**STRONG[name], **({} if name == "apgd" else {"alpha": 0.2 if name == "padam-ce" else 4.0})}
    outcome = build(name, norm="l2", epsilon=40.0, **options)(MODEL, IMAGES, BOXES, target=1)
    wanted = [Boxes(each.xyxy, np.full(len(each), 1)) for each in BOXES]
    assert all(all(each) for each in at_targets(MODEL, outcome.images, wanted))


def test_the_default_class_of_detecbench_is_reached() -> None:
    model = ManyClasses()
    outcome = build("pgd", epsilon=0.9, target=True, **STRONG["pgd"])(model, IMAGES, BOXES)
    wanted = [Boxes(each.xyxy, np.full(len(each), 42)) for each in BOXES]
    assert all(all(each) for each in at_targets(model, outcome.images, wanted))
    assert outcome.success[[len(each) > 0 for each in BOXES]].all()


@pytest.mark.parametrize("suffix", [".pt", ".npz"])
def test_the_boxes_of_a_tensor_file_are_reached(tmp_path: Path, suffix: str) -> None:
    """Objects appear where there were none, of the classes that the file says; the others go."""
    corners = np.array([[8, 8, 16, 16], [24, 0, 32, 8]], np.float32)
    content: dict[str, Any] = {"classes": np.array([2, 1]), "boxes": corners}
    path = tmp_path / f"target{suffix}"
    if suffix == ".npz":
        np.savez(path, **content)
    else:
        torch.save({key: torch.from_numpy(value) for key, value in content.items()}, path)
    outcome = build("pgd", epsilon=0.9, target=str(path), **STRONG["pgd"])(MODEL, IMAGES, BOXES)
    for row, detected in enumerate(MODEL.predict(outcome.images)):
        assert (matched_detections(Boxes(corners, np.array([2, 1])), detected) >= 0).all()
        assert detected.scores is not None
        assert (detected.scores > 0.5).sum() == 2, row
    assert outcome.share.tolist() == [1.0] * len(IMAGES)


def test_one_class_per_object() -> None:
    wanted = [(boxes.classes + 1 + np.arange(len(boxes)) % 2) % 3 for boxes in BOXES]
    outcome = build("pgd", epsilon=0.9, **STRONG["pgd"])(MODEL, IMAGES, BOXES, target=wanted)
    aimed = [Boxes(boxes.xyxy, each) for boxes, each in zip(BOXES, wanted, strict=True)]
    assert all(all(each) for each in at_targets(MODEL, outcome.images, aimed))


def test_a_step_of_detecbench_in_l2_is_a_sign() -> None:
    """One step of alpha in every element, then the ball: the change of a step has one size everywhere."""
    attack = GradientAttack(name="bim", norm="l2", rule="sign", epsilon=1, alpha=1 / 255, steps=1)
    image = torch.full((1, 3, CELL, CELL), 0.5)
    change = (attack(MODEL, image, [Boxes(np.array([[0, 0, 8, 8]], np.float32), np.array([0]))]).images - image).abs()
    assert torch.allclose(change, torch.full_like(change, 1 / 255), atol=1e-6)

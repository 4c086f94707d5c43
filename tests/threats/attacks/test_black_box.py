"""Attacks that only ask the model: reference values of docs/specs/beyond.md, 5, and what holds for all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from attack_fixture import IMAGES, LABELS, VOID, VOID_LABELS, close, correct, network

from gauntlet.errors import GauntletError
from gauntlet.samples import collate
from gauntlet.threats.attacks import build
from gauntlet.threats.attacks.asking import label_only, square
from gauntlet.threats.attacks.asking.object_verdicts import matched_scores
from gauntlet.threats.attacks.asking.square_moves import (
    TINY,
    L2Moves,
    bump,
    double_bump,
    l2_side,
    linf_side,
    square_share,
)
from gauntlet.threats.attacks.detection.matching import confident
from paths import DATA
from tiny_detector import TinyBoxes, TinyDetector

REFERENCE: dict[str, Any] = json.loads((DATA / "beyond_reference_5.json").read_text())
SQUARE, LABEL_ONLY = REFERENCE["square"], REFERENCE["label_only"]
RUNS = [key for key in SQUARE if "|" in key]
PARTING, PARTS_AFTER = "L2|0.500000|ce|300", (48, 140)
"""The run that follows from rounding, and the query of each of its images at which that begins."""


class Draws:
    """The test generator of the specification, and how many numbers it gave."""

    def __init__(self, state: int) -> None:
        self.state, self.count = state, 0

    def __call__(self, count: int) -> npt.NDArray[np.float64]:
        values = np.empty(count)
        for index in range(count):
            self.state = (1664525 * self.state + 1013904223) % 2**32
            values[index] = self.state // 256 / 2**24
        self.count += count
        return values


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> dict[int, Draws]:
    """Every image draws from the test generator that its seed starts."""
    given: dict[int, Draws] = {}

    def stream(seed: int, purpose: str) -> Callable[[int], npt.NDArray[np.float64]]:
        given[seed] = Draws(seed)
        return given[seed]

    monkeypatch.setattr(square, "uniform_stream", stream)
    monkeypatch.setattr(label_only, "uniform_stream", stream)
    return given


def test_the_test_generator_is_that_of_the_specification() -> None:
    assert Draws(1)(5) == pytest.approx(SQUARE["first_draws"]["draws"], abs=1e-12)


def image_losses(logits: torch.Tensor, labels: torch.Tensor, loss: str) -> list[float]:
    """The loss of every image, by a way of its own."""
    hidden = torch.where(labels == VOID, 0, labels).unsqueeze(1)
    own = logits.gather(1, hidden).squeeze(1)
    margin = own - logits.scatter(1, hidden, -torch.inf).amax(1)
    values = {
        "margin": margin,
        "clipped": margin.clamp_min(0),
        "accuracy": (margin >= 0).double(),
        "ce": own - logits.logsumexp(1),
    }[loss]
    losses: list[float] = (values * (labels != VOID)).flatten(1).sum(1).tolist()
    return losses


@pytest.mark.parametrize("key", RUNS)
def test_square_is_the_reference(key: str, draws: dict[int, Draws]) -> None:
    norm, epsilon, loss, queries, *more = key.split("|")
    extra = more[0] if more else ""
    rows = 10 if extra.startswith("rows") else 16
    labels, images = (VOID_LABELS if extra == "ignore" else LABELS)[:, :rows], IMAGES[:, :, :rows]
    threshold = float(extra.split()[1]) if extra.startswith("threshold") else 0.99
    budget = {"0.031373": 8 / 255, "0.062745": 16 / 255, "0.500000": 0.5}[epsilon]
    seen: list[list[float]] = []

    def asked(points: torch.Tensor) -> torch.Tensor:
        logits = network(points)
        if len(points) == 2:
            seen.append(image_losses(logits, labels, loss))
        return logits

    options = {"norm": norm.lower(), "epsilon": budget, "loss": loss, "threshold": threshold}
    outcome = build("square", queries=int(queries) + 1, **options)(asked, images, labels, seed=[1, 2])
    expected = SQUARE[key]
    assert outcome.queries.backward.tolist() == [0, 0]
    assert [count - 1 for count in outcome.queries.forward.tolist()] == [each["queries"] for each in expected]
    assert [draws[seed].count for seed in (1, 2)] == [each["draws_used"] for each in expected]
    assert outcome.counted.tolist() == [each["valid"] for each in expected]
    # One run parts from the reference where it takes a window without a budget: see the test of that below.
    tolerance, parts = 1e-5, key == PARTING
    lowest = np.minimum.accumulate(np.array(seen[1:]), axis=0)  # without the look at the clean image
    for row, run in enumerate(expected):
        after = {int(count): value for count, value in run["best_loss_after"].items() if int(count) <= len(lowest)}
        known = [count for count in after if count <= PARTS_AFTER[row] or not parts]
        wanted = [after[count] for count in known]
        assert [lowest[count - 1, row] for count in known] == pytest.approx(wanted, abs=tolerance)
        if len(lowest) == 301 and not parts:
            assert int((np.diff(lowest[:, row]) < 0).sum()) == run["accepted"]
    right = correct(outcome.images, labels)
    assert right == pytest.approx([each["correct_pixels"] for each in expected], abs=1 if parts else 0)
    difference = (outcome.images - images).flatten(1)
    close(difference.norm(dim=1), [each["l2"] for each in expected], relative=1e-6)
    if not parts:
        close(difference.abs().amax(1), [each["linf"] for each in expected], relative=tolerance)
        close(difference.sum(1), [each["sum_delta"] for each in expected], absolute=tolerance)
        close(difference.abs().sum(1), [each["l1"] for each in expected], absolute=tolerance)
        losses = image_losses(network(outcome.images), labels, loss)
        assert losses == pytest.approx([each["final_loss"] for each in expected], abs=tolerance)


@pytest.mark.parametrize("constant", [0.0, TINY])
def test_a_window_without_budget_decides_by_rounding(
    constant: float, draws: dict[int, Draws], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The constant that guards a division by zero leaves sqrt(1e-12 / 3) = 6e-7 of spare budget to an empty window.

    Such a candidate lowers the loss by some 1e-6 and is taken. Later moves scale what the window holds to unit length,
    and the rest of the run follows from it. Without the constant the first image is the reference in every figure.
    """

    def moved(self: L2Moves, shift: torch.Tensor) -> torch.Tensor:
        return self.image + (shift / (shift.square().sum().sqrt() + constant) * self.epsilon).to(self.image)

    budgets: list[float] = []

    class Watched(L2Moves):
        def step(self, point: torch.Tensor, share: float) -> torch.Tensor:
            found = super().step(point, share)
            budgets.append(float((found - point).abs().max()))
            return found

    monkeypatch.setattr(L2Moves, "moved", moved)
    monkeypatch.setitem(square.MOVES, "l2", Watched)
    images, labels = IMAGES[:1, :, :16], LABELS[:1, :16]
    attack = build("square", queries=301, norm="l2", epsilon=0.5, loss="ce", threshold=0.99)
    outcome = attack(network, images, labels, seed=[1])
    run = SQUARE[PARTING][0]
    difference = outcome.images - images
    figures = [*correct(outcome.images, labels), *image_losses(network(outcome.images), labels, "ce")]
    sizes = [float(difference.abs().max()), float(difference.sum()), float(difference.abs().sum())]
    wanted = [run[name] for name in ("correct_pixels", "final_loss", "linf", "sum_delta", "l1")]
    assert ([*figures, *sizes] == pytest.approx(wanted, abs=1e-5)) == (constant == 0)
    assert min(budgets) < 1e-6  # a candidate next to its best point, of either kind


def test_shapes_of_squares_and_bumps() -> None:
    sides = SQUARE["window_side_16x16_300_queries"]
    shares = [square_share(0.8, step, 300) for step in sides["iterations"]]
    assert [linf_side(share, 16, 16) for share in shares] == sides["Linf"]
    assert [l2_side(share, 16, 16) for share in shares] == sides["L2"]
    np.testing.assert_allclose(bump(2, 5), SQUARE["eta_rectangles_2x5"], atol=1e-9)
    np.testing.assert_allclose(bump(3, 5), SQUARE["eta_rectangles_3x5"], atol=1e-9)
    np.testing.assert_allclose(double_bump(5), SQUARE["eta_5"], atol=1e-9)


@pytest.mark.parametrize("loss", ["accuracy", "miou"])
def test_label_only_is_the_reference(loss: str, draws: dict[int, Draws]) -> None:
    expected = LABEL_ONLY[f"label_only|{'mIoU' if loss == 'miou' else loss}|T200|linf 8/255"]
    outcome = build("label-only", epsilon="8/255", loss=loss)(network, IMAGES, LABELS, seed=[1, 2])
    assert outcome.queries.forward.tolist() == [1 + each["queries"] for each in expected]
    assert [draws[seed].count for seed in (1, 2)] == [each["draws"] for each in expected]
    assert correct(outcome.images) == [each["right_pixels"] for each in expected]
    close((outcome.images - IMAGES).flatten(1).sum(1), [each["sum_delta"] for each in expected], absolute=1e-6)


class Unforgiving(torch.autograd.Function):
    """The identity, whose backward raises."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        raise AssertionError("a backward pass was made")


def unforgiving(images: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = Unforgiving.apply(network(images))  # type: ignore[no-untyped-call]
    return logits


def label_maps(images: torch.Tensor) -> torch.Tensor:
    return network(images).argmax(1)


ATTACKS: list[dict[str, Any]] = [
    {"name": "square", "queries": 12},
    {"name": "square", "queries": 12, "norm": "l2", "epsilon": 0.5},
    {"name": "label-only", "queries": 12},
    {"name": "label-only", "queries": 12, "loss": "miou"},
]


@pytest.mark.parametrize("options", ATTACKS, ids=str)
def test_no_gradient_is_asked_for_and_no_result_depends_on_batch_mates(options: dict[str, Any]) -> None:
    attack = build(**options)
    with pytest.raises(AssertionError, match="a backward pass was made"):
        build("pgd", steps=1)(unforgiving, IMAGES, LABELS)
    together = attack(unforgiving, IMAGES, LABELS, seed=[4, 5])
    assert together.queries.backward.tolist() == [0, 0]
    assert together.queries.forward.tolist() == [13, 13]
    assert (together.norms <= attack.epsilon).all()
    assert together.images.min() >= 0
    assert together.images.max() <= 1
    assert not torch.equal(together.images, IMAGES)
    for row in range(2):
        alone = attack(network, IMAGES[row : row + 1], LABELS[row : row + 1], seed=4 + row)
        assert torch.equal(alone.images[0], together.images[row])
    assert not torch.equal(attack(network, IMAGES, LABELS, seed=[4, 6]).images[1], together.images[1])
    assert attack.describe() == build(**attack.describe()).describe()


@pytest.mark.parametrize("options", ATTACKS, ids=str)
def test_a_callable_that_gives_label_maps_is_attacked(options: dict[str, Any]) -> None:
    outcome = build(**options)(label_maps, IMAGES, LABELS, seed=[1, 2])
    assert outcome.counted - outcome.fooled == pytest.approx(torch.tensor(correct(outcome.images)))
    assert all(after <= before for after, before in zip(correct(outcome.images), correct(IMAGES), strict=True))
    with pytest.raises(GauntletError, match="use an attack that needs no gradient, square or label-only"):
        build("pgd", steps=1)(label_maps, IMAGES, LABELS)


def test_script_under_no_grad_is_attacked() -> None:
    class Quiet(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                return torch.cat([images, 1 - images], 1)

    scripted = torch.jit.script(Quiet())
    labels = scripted(IMAGES).argmax(1)
    outcome = build("square", queries=20, epsilon=0.1)(scripted, IMAGES, labels, seed=3)
    assert (outcome.fooled > 0).all()


@pytest.mark.parametrize("options", ATTACKS, ids=str)
def test_nothing_to_do(options: dict[str, Any]) -> None:
    still = build(**{**options, "epsilon": 0})(network, IMAGES, LABELS)
    assert torch.equal(still.images, IMAGES)
    assert still.queries.forward.tolist() == [1, 1]
    void = LABELS.clone()
    void[0] = VOID
    outcome = build(**options)(network, IMAGES, void)
    assert outcome.queries.forward.tolist() == [0, 13]
    assert torch.equal(outcome.images[0], IMAGES[0])


@pytest.mark.parametrize("options", ATTACKS, ids=str)
@pytest.mark.parametrize("size", [(16, 16), (3, 16), (12, 7), (4, 4), (1, 5)])
def test_regions_and_odd_shapes(options: dict[str, Any], size: tuple[int, int]) -> None:
    images, labels = IMAGES[:, :, : size[0], : size[1]], LABELS[:, : size[0], : size[1]]
    region = torch.zeros(2, *size, dtype=torch.bool)
    region[:, size[0] // 3 :, size[1] // 2 :] = True
    region[:, -1, -1] = False
    if not region.any():
        region[:, 0, 0] = True
    attack = build(**{**options, "queries": 6})
    for where in (None, region):
        outcome = attack(network, images, labels, region=where, seed=1)
        assert (outcome.norms <= attack.epsilon).all()
        if where is not None:
            outside = ~where.unsqueeze(1).expand_as(images)
            assert torch.equal(outcome.images[outside], images[outside])


def test_the_last_row_and_column_keep_their_stripe(draws: dict[int, Draws]) -> None:
    """int(u (h - s)) never reaches h - s, as in the reference."""
    outcome = build("square", epsilon="8/255", queries=40)(network, IMAGES, LABELS, seed=[1, 2])
    shift = outcome.images - IMAGES
    inside = ((IMAGES > 8 / 255) & (IMAGES < 1 - 8 / 255))[:, :, -1, :-1]
    stripes = torch.from_numpy(np.where(2 * Draws(1)(48) - 1 > 0, 1.0, -1.0)).view(3, 16)[:, :-1]
    assert torch.equal(shift[0, :, -1, :-1].sign()[inside[0]], stripes[inside[0]])


def test_more_restarts_and_more_queries_never_hurt() -> None:
    one, more = (build("square", queries=30, restarts=restarts)(network, IMAGES, LABELS, seed=2) for restarts in (1, 3))
    losses = [image_losses(network(each.images), LABELS, "margin") for each in (one, more)]
    assert all(after <= before for after, before in zip(losses[1], losses[0], strict=True))
    assert more.queries.forward.tolist() == [91, 91]


def test_targets_are_approached() -> None:
    for options in ATTACKS[:3]:
        outcome = build(**options)(network, IMAGES, LABELS, target=3, seed=1)
        before = (label_maps(IMAGES) == 3).flatten(1).sum(1)
        if options["name"] == "label-only":
            assert (outcome.fooled >= before).all()
        assert torch.equal(outcome.fooled, (label_maps(outcome.images) == 3).flatten(1).sum(1))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"name": "square", "queries": 0}, "queries must be a whole number of at least 1, not 0"),
        ({"name": "square", "loss": "dice"}, "dice"),
        ({"name": "square", "share": 2}, "share"),
        ({"name": "square", "samples": 2}, "has no gradients to average"),
        ({"name": "square", "steps": 20}, "unknown option of the attack 'square' 'steps'"),
        ({"name": "label-only", "norm": "l2"}, "label-only is defined for the norm linf"),
    ],
)
def test_bad_options_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GauntletError, match=re.escape(sentence)):
        build(**options)


def test_square_lowers_the_scores_of_a_detector() -> None:
    dataset = TinyBoxes(2)
    batch, detector = collate([dataset[index] for index in range(2)]), TinyDetector()
    own = [confident(each, 0.5).as_truth() for each in detector.predict(batch.images)]
    before = [matched_scores(*each) for each in zip(own, detector.predict(batch.images), strict=True)]
    for loss in ("margin", "accuracy"):
        attack = build("square", epsilon=0.3, queries=8, loss=loss)
        outcome = attack(detector, batch.images, batch.boxes, seed=[1, 2])
        assert outcome.queries.backward.tolist() == [0, 0]
        alone = attack(detector, batch.images[1:], batch.boxes[1:], seed=2)
        assert torch.equal(alone.images[0], outcome.images[1])
    with pytest.raises(GauntletError, match="aims at pixels, not at boxes"):
        build("square", loss="ce")(detector, batch.images, batch.boxes)
    attacked = build("square", epsilon=0.3, queries=30)(detector, batch.images, batch.boxes, seed=[1, 2])
    after = [matched_scores(*each) for each in zip(own, detector.predict(attacked.images), strict=True)]
    assert sum(before) > 0
    assert all(low <= high for low, high in zip(after, before, strict=True))
    assert sum(after) < sum(before)

"""Attacks on a detector: steps by hand, exact constraints, goals that do what they say, worst cases by brute force."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch.nn import functional

from gauntlet.errors import GauntletError
from gauntlet.metrics.detection.figures import image_f1
from gauntlet.metrics.detection.overlap import ignored_objects
from gauntlet.models.contract import Candidates
from gauntlet.samples import Boxes, collate
from gauntlet.threats.attacks import build, check_attack, names
from gauntlet.threats.attacks.algorithms.tog import Mislabeling
from gauntlet.threats.attacks.combined.battery_outcome import CLEAN
from gauntlet.threats.attacks.detection.matching import confident, counted, matched_detections, recall
from gauntlet.threats.attacks.detection.proposals import (
    NO_CLASS,
    Proposals,
    Pursuit,
    other_classes,
    select_proposals,
    suppressed,
)
from gauntlet.threats.attacks.detection.rounds import RemainingObjects
from gauntlet.threats.attacks.detection.targets import wanted_boxes
from gauntlet.threats.attacks.engine.batch_call import BatchCall
from tiny_detector import CELL, TinyBoxes, TinyDetector


class FairDetector(TinyDetector):
    """Cells in a crowd are neither objects nor background to its loss, as for the detectors of the package."""

    def losses(self, images: torch.Tensor, targets: Any) -> torch.Tensor:
        picked = self.candidates(images)
        centres = (picked.boxes[..., :2] + picked.boxes[..., 2:]).detach() / 2
        values = super().losses(images, [counted(target) for target in targets])
        for row, target in enumerate(targets):
            for corners in torch.from_numpy(target.xyxy[ignored_objects(target)]):
                inside = ((centres[row] > corners[:2]) & (centres[row] < corners[2:])).all(dim=1)
                left_out = functional.softplus(picked.scores[row, inside]).sum()
                values = values - left_out * (torch.arange(len(values)) == row)
        return values


MODEL = FairDetector()
BATCH = collate([TinyBoxes(6)[index] for index in range(6)], ignore_index=None)
IMAGES, BOXES = BATCH.images, BATCH.boxes
NOTHING = Boxes(np.zeros((0, 4), np.float32), np.zeros(0, np.int64))
COLOR = (0.8, 0.1, 0.1)
ONE = torch.tensor(COLOR).view(1, 3, 1, 1).expand(1, 3, CELL, CELL).contiguous()
RED = Boxes(np.array([[0, 0, CELL, CELL]], np.float32), np.array([0]))
STRONG = {"epsilon": 0.3, "alpha": 0.05, "steps": 8}
BALL = ["fgsm", "bim", "pgd", "mifgsm", "apgd", "padam-ce", "tog-vanishing", "tog-fabrication", "tog-untargeted"]


def options(name: str) -> dict[str, Any]:
    if name == "fgsm":
        return {"epsilon": 0.3}
    return {key: value for key, value in STRONG.items() if name != "apgd" or key != "alpha"}


def moved(outcome: Any) -> list[float]:
    """The change of each channel of the one-coloured image, the same at every pixel."""
    change = outcome.images[0] - ONE[0]
    assert torch.allclose(change, change[:, :1, :1].expand_as(change), atol=1e-6)
    values: list[float] = change[:, 0, 0].tolist()
    return values


# Scores of COLOR: 16 c - 4 (c0 + c1 + c2) - 4 = (4.8, -6.4, -6.4); the box moves by weights whose gradient of the mean
# absolute error is 0.16364 in every channel (0.65455 / 4: signs -, -, +, + times the rows of linspace(-0.3, 0.3, 12)).
def slopes(first: float, second: float, third: float, box: float = 0.0) -> list[float]:
    """dL/dc from dL/ds: the weights are 16 on the diagonal, less 4 everywhere."""
    total = first + second + third
    return [16 * each - 4 * total + box for each in (first, second, third)]


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def test_one_step_on_an_image_without_objects() -> None:
    """Every score is to rise that is high: dL/ds = σ(s), dL/dc = (11.9, -4.0, -4.0)."""
    gradient = slopes(sigmoid(4.8), sigmoid(-6.4), sigmoid(-6.4))
    assert gradient == pytest.approx([11.888, -3.954, -3.954], abs=1e-3)
    outcome = build("fgsm", epsilon=0.05)(MODEL, ONE, [NOTHING])
    assert moved(outcome) == pytest.approx([0.05, -0.05, -0.05], abs=1e-6)
    length = 8 * math.sqrt(sum(each * each for each in gradient))
    outcome = build("bim", norm="l2", epsilon=1, alpha=0.4, steps=1)(MODEL, ONE, [NOTHING])
    assert moved(outcome) == pytest.approx([0.4 * each / length for each in gradient], abs=1e-6)


def test_one_targeted_step() -> None:
    """Towards class 1 the loss falls: dL/ds = (σ(4.8), σ(-6.4) - 1, σ(-6.4)) and the box's share."""
    gradient = slopes(sigmoid(4.8), sigmoid(-6.4) - 1, sigmoid(-6.4), box=0.65455 / 4)
    assert [math.copysign(1, each) for each in gradient] == [1, -1, 1]
    outcome = build("fgsm", epsilon=0.05)(MODEL, ONE, [RED], target=1)
    assert moved(outcome) == pytest.approx([-0.05, 0.05, -0.05], abs=1e-6)


def test_class_0_is_a_target_and_not_the_absence_of_one() -> None:
    green = Boxes(RED.xyxy, np.array([1]))
    towards, away = (build("fgsm", epsilon=0.05)(MODEL, ONE, [green], target=target) for target in (0, None))
    before = float(MODEL.losses(ONE, [RED]))
    assert float(MODEL.losses(towards.images, [RED])) < before
    assert not torch.equal(towards.images, away.images)


@pytest.mark.parametrize(("name", "signs"), [("tog-vanishing", (-1, 1, 1)), ("tog-fabrication", (1, -1, -1))])
def test_one_step_of_tog(name: str, signs: tuple[int, ...]) -> None:
    """The only candidate's objectness is its largest score, whose slope is (12, -4, -4)."""
    outcome = build(name, random_start=False, steps=1)(MODEL, ONE, [RED])
    assert moved(outcome) == pytest.approx([sign * 2 / 255 for sign in signs], abs=1e-6)


def test_tog_is_ten_steps_of_two_grey_levels_from_a_random_start() -> None:
    for name in names("detection"):
        if name.startswith("tog-"):
            described = build(name).describe()
            assert {
                "epsilon": 8 / 255,
                "alpha": 2 / 255,
                "steps": 10,
                "random_start": True,
            }.items() <= described.items()
            assert build(**described).describe() == described


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("name", BALL)
def test_the_constraint_is_exact(name: str, norm: str) -> None:
    given = {**options(name), "norm": norm, "steps": 2} if name != "fgsm" else {"norm": norm, "epsilon": 0.3}
    outcome = build(name, **given)(MODEL, IMAGES[:2], BOXES[:2], seed=1)
    change = (outcome.images.double() - IMAGES[:2].double()).flatten(1)
    size = change.abs().amax(1) if norm == "linf" else change.square().sum(1).sqrt()
    assert (size <= 0.3).all()
    assert (size > 0).all()
    assert 0 <= outcome.images.min() <= outcome.images.max() <= 1


@pytest.mark.parametrize("name", ["pgd", "apgd", "padam-ce", "tog-vanishing", "dag"])
def test_outside_the_mask_nothing_changes(name: str) -> None:
    mask = torch.zeros(IMAGES.shape[2:], dtype=torch.bool)
    mask[4:20, 3:30] = True
    given = options(name) if name != "dag" else {"steps": 3, "alpha": 0.1}
    outcome = build(name, **given)(MODEL, IMAGES[:3], BOXES[:3], region=mask)
    assert torch.equal(outcome.images[..., ~mask], IMAGES[:3][..., ~mask])
    assert not torch.equal(outcome.images, IMAGES[:3])


@pytest.mark.parametrize("name", ["pgd", "apgd", "tog-untargeted", "dag"])
def test_an_image_does_not_depend_on_its_batch(name: str) -> None:
    model, images = TinyDetector().double(), IMAGES[:4].double()
    attack = build(name, **(options(name) if name != "dag" else {"steps": 4, "alpha": 0.1}))
    together = attack(model, images, BOXES[:4], seed=[5, 6, 7, 8]).images
    for row in (0, 3):
        alone = attack(model, images[row : row + 1], [BOXES[row]], seed=5 + row).images
        assert torch.allclose(together[row], alone[0], atol=1e-9)


def loss_after(images: torch.Tensor, boxes: list[Boxes] = BOXES) -> torch.Tensor:
    with torch.no_grad():
        return MODEL.losses(images, boxes)


def test_a_larger_budget_is_not_weaker() -> None:
    last = loss_after(IMAGES)
    for epsilon in (0.05, 0.1, 0.2, 0.4):
        now = loss_after(build("bim", epsilon=epsilon, alpha=epsilon / 4, steps=8)(MODEL, IMAGES, BOXES).images)
        assert (now > last).all()
        last = now
    few, many = (
        loss_after(build("bim", epsilon=0.3, alpha=0.02, steps=steps)(MODEL, IMAGES, BOXES).images) for steps in (4, 12)
    )
    assert (many > few).all()
    apgd = build("apgd", epsilon=0.3, steps=8, returns="best-loss", random_start=False)(MODEL, IMAGES, BOXES)
    assert (loss_after(apgd.images) > loss_after(IMAGES)).all()
    assert apgd.queries.forward.tolist() == [9] * 6  # the loss decides: no pass for detections


def test_the_best_of_apgd_costs_a_look_at_every_tenth_step() -> None:
    """Images that do not fall: N + 1 passes for N steps, a look after 10, after 20 and at the end."""
    best, by_loss = (
        build("apgd", epsilon=0.02, steps=25, returns=returns)(MODEL, IMAGES, BOXES, seed=3)
        for returns in ("best", "best-loss")
    )
    assert best.share.max() < 1
    assert best.queries.forward.tolist() == [25 + 1 + 3] * 6
    assert best.queries.backward.tolist() == by_loss.queries.backward.tolist() == [25] * 6
    assert (best.share >= by_loss.share).all()  # the point of highest loss is among those that were looked at
    lost = build("apgd", epsilon=0.6, steps=25)(MODEL, IMAGES, BOXES, seed=3)
    assert (lost.share == 1).any()
    assert set(lost.queries.forward[lost.share == 1].tolist()) <= {11 + 1, 21 + 2, 26 + 3}  # they end at a look
    for row, picked in enumerate(MODEL.predict(lost.images)):
        assert lost.share[row].item() == pytest.approx(1 - image_f1(BOXES[row], picked), abs=2e-6)


def test_the_best_of_equal_steps_is_looked_at_every_tenth_step_and_at_the_end() -> None:
    for steps, looks in ((4, 1), (25, 3)):
        outcome = build("bim", epsilon=0.02, alpha=0.005, steps=steps, returns="best")(MODEL, IMAGES, BOXES)
        assert outcome.queries.forward.tolist() == [steps + looks] * 6
        assert outcome.share.max() < 1
        last = build("bim", epsilon=0.02, alpha=0.005, steps=steps)(MODEL, IMAGES, BOXES)
        assert (outcome.share >= last.share).all()
    short = build("bim", epsilon=0.02, alpha=0.005, steps=4, returns="best", evaluate_last=False)
    assert short(MODEL, IMAGES, BOXES).queries.forward.tolist() == [4 + 1] * 6
    assert not torch.equal(short(MODEL, IMAGES, BOXES).images, IMAGES)


def test_targeted_attacks_lower_the_loss_of_their_target() -> None:
    wanted = wanted_boxes(2, BOXES, 3)
    before = loss_after(IMAGES, wanted)
    for name in ("pgd", "apgd", "padam-ce"):
        outcome = build(name, **options(name))(MODEL, IMAGES, BOXES, target=2)
        held = torch.tensor([bool((each.classes != 2).any()) for each in BOXES])
        assert (loss_after(outcome.images, wanted)[held] < before[held]).all(), name


def test_the_best_iterate_is_judged_by_f1_and_ends_an_image_early() -> None:
    attack = build("bim", epsilon=0.6, alpha=0.1, steps=12, returns="best")
    outcome = attack(MODEL, IMAGES, BOXES)
    for row, picked in enumerate(MODEL.predict(outcome.images)):
        assert outcome.share[row].item() == pytest.approx(1 - image_f1(BOXES[row], picked), abs=2e-6)
    last = build("bim", epsilon=0.6, alpha=0.1, steps=12)(MODEL, IMAGES, BOXES)
    assert (outcome.share >= last.share - 2e-6).all()
    done = outcome.share == 1
    assert done.any()
    assert (outcome.queries.backward[done] < 12).all()
    for row in torch.nonzero(done).flatten().tolist():  # nothing is found at any score, not only none above one half
        assert recall(BOXES[row], MODEL.predict(outcome.images[row : row + 1])[0]) == 0


def test_restarts_are_not_weaker() -> None:
    one, three = (
        build("pgd", epsilon=0.3, alpha=0.1, steps=3, restarts=restarts)(MODEL, IMAGES, BOXES, seed=2)
        for restarts in (1, 3)
    )
    assert (three.share >= one.share).all()


def test_an_image_without_objects_is_attacked_too() -> None:
    assert [len(each) for each in BOXES].count(0) <= 1
    outcome = build("pgd", epsilon=0.9, alpha=0.2, steps=6)(MODEL, IMAGES[:1], [NOTHING])
    assert outcome.share.item() == 1  # something is detected where nothing is
    outcome = build("pgd", epsilon=0.9)(MODEL, IMAGES[:1], [NOTHING], target=1)
    assert torch.equal(outcome.images, IMAGES[:1])  # no box to give a class to


def detections(images: torch.Tensor) -> list[int]:
    return [len(confident(picked, 0.5)) for picked in MODEL.predict(images)]


def test_vanishing_leaves_fewer_boxes_and_fabrication_makes_more() -> None:
    before = detections(IMAGES)
    vanished = build("tog-vanishing", epsilon=0.7, alpha=0.1)(MODEL, IMAGES, BOXES)
    assert detections(vanished.images) == [0] * 6
    assert vanished.success.all()
    more = build("tog-fabrication", epsilon=0.5, alpha=0.05)(MODEL, IMAGES, BOXES)
    after = detections(more.images)
    assert all(now > then for now, then in zip(after, before, strict=True))
    expected = [1 - then / now for now, then in zip(after, before, strict=True)]
    assert more.share.tolist() == pytest.approx([min(each, 1 - 1e-6) for each in expected], abs=2e-6)


@pytest.mark.parametrize("towards", ["ll", "ml"])
def test_mislabeling_keeps_the_boxes_and_changes_their_class(towards: str) -> None:
    outcome = build("tog-mislabeling", epsilon=0.6, alpha=0.1, towards=towards)(MODEL, IMAGES, BOXES)
    assert outcome.share.tolist() == [1.0] * 6
    for row, picked in enumerate(MODEL.predict(outcome.images)):
        assert (matched_detections(BOXES[row], picked) < 0).all()  # no object has its class any more


def test_least_and_most_likely_classes_by_hand() -> None:
    """A red cell with more green than blue: blue is the least likely, green the most likely of the others."""
    image = torch.tensor((0.9, 0.2, 0.1)).view(1, 3, 1, 1).expand(1, 3, CELL, CELL).contiguous()
    for towards, kind in (("ll", 2), ("ml", 1)):
        attack = Mislabeling(name="tog-mislabeling", towards=towards)
        problem = attack.pose(BatchCall(MODEL, image, [RED], None, None, None, [0]))
        (wanted,) = problem.goal.wanted  # type: ignore[attr-defined]
        assert wanted.classes.tolist() == [kind]
    outcome = build("tog-mislabeling", epsilon=0.8, alpha=0.2)(MODEL, image, [RED], target=1)
    assert MODEL.predict(outcome.images)[0].classes.tolist() == [1]


def test_untargeted_tog_uses_its_own_detections_and_fabricates_where_there_are_none() -> None:
    dark = torch.zeros(1, 3, CELL, CELL)
    images = torch.cat([ONE, dark])
    attack = build("tog-untargeted", epsilon=0.9, alpha=0.2, random_start=False)
    outcome = attack(MODEL, images, [NOTHING, RED])  # the ground truth does not matter
    assert outcome.images[0, 0].mean() < ONE[0, 0].mean()  # the red box goes
    assert detections(outcome.images[1:]) == [1]


def test_only_what_is_aimed_at() -> None:
    left = torch.zeros(IMAGES.shape[2:], dtype=torch.bool)
    left[:, :16] = True
    boxes = Boxes(np.array([[0, 0, 8, 8], [32, 16, 40, 24]], np.float32), np.array([0, 1]))
    image = IMAGES[:1] * 0
    image[:, 0, :8, :8] = 0.9
    image[:, 1, 16:24, 32:40] = 0.9
    attack = build("bim", epsilon=0.8, alpha=0.2, steps=6)
    outcome = attack(MODEL, image, [boxes], fooling_region=left)
    picked = matched_detections(boxes, MODEL.predict(outcome.images)[0])
    assert picked[0] < 0
    assert picked[1] >= 0
    assert outcome.share.item() == 1
    assert torch.equal(outcome.images[..., 16:24, 32:40], image[..., 16:24, 32:40])  # nothing is to gain there
    by_class = attack(MODEL, image, [boxes], fooling_region=1)
    picked = matched_detections(boxes, MODEL.predict(by_class.images)[0])
    assert picked[1] < 0
    assert picked[0] >= 0
    targeted = attack(MODEL, image, [boxes], fooling_region=left, target=2)
    detected = MODEL.predict(targeted.images)[0]
    assert (
        matched_detections(Boxes(boxes.xyxy, np.array([2, 1])), detected).min() >= 0
    )  # one to its target, the other stays
    assert targeted.share.item() == 1
    nowhere = attack(MODEL, image, [boxes], fooling_region=torch.zeros_like(left))
    assert torch.equal(nowhere.images, image)
    vanish = build("tog-vanishing", epsilon=0.8, alpha=0.1, steps=4, random_start=False)
    outcome = vanish(MODEL, image, [boxes], fooling_region=left)
    assert matched_detections(boxes, MODEL.predict(outcome.images)[0]).tolist()[0] < 0
    assert torch.equal(outcome.images[..., 16:], image[..., 16:])  # candidates elsewhere have no say


def test_proposals_by_hand() -> None:
    """Of four candidates one is a near copy, one is far, one gives the class too little."""
    boxes = torch.tensor([[[0.0, 0, 10, 10], [0, 0, 10, 9.5], [50, 50, 60, 60], [0, 5, 10, 15]]])
    scores = torch.tensor([[[3.0, 0, 0], [2.0, 0, 0], [3.0, 0, 0], [-4.0, 3, 0]]])
    candidates = Candidates(scores, boxes, scores.amax(2))
    truth = Boxes(np.array([[0, 0, 10, 10], [0, 8, 10, 18]], np.float32), np.array([0, 1]))
    assert suppressed(boxes[0].double().numpy(), scores.amax(2)[0].double().numpy(), 0.9).tolist() == [0, 2, 3]
    (picked,) = select_proposals(candidates, [truth], [truth.classes], [0])
    assert picked.places.tolist() == [0, 3]
    assert picked.true.tolist() == [0, 1]
    assert picked.wanted.tolist() == [2, 2]  # the only absent class
    order = np.array([2, 0, 3, 1])  # a two-stage detector sorts its proposals anew
    assert order[picked.now_at(boxes[0].numpy()[order])].tolist() == [0, 3]


def test_nobody_is_led_to_the_class_of_an_object_that_is_not_aimed_at() -> None:
    corners = torch.tensor([[[0.0, 0, 10, 10]]])
    candidates = Candidates(torch.tensor([[[3.0, 0, 0]]]), corners, torch.tensor([[3.0]]))
    for seed in range(8):
        (picked,) = select_proposals(candidates, [Boxes(corners[0].numpy(), np.array([0]))], [np.array([0, 1])], [seed])
        assert picked.wanted.tolist() == [2]


STRONG_BOXES = np.array([[0, 0, 10, 10], [0, 0, 10, 6], [0, 0, 10, 10], [30, 0, 40, 10], [60, 0, 70, 10]], np.float64)


def pursuit(*, strong: bool, first: bool = False) -> Pursuit:
    """Five proposals of class 0 that are led to class 1."""
    classes = np.zeros(5, np.int64)
    return Pursuit([Proposals(np.arange(5), STRONG_BOXES, classes, classes + 1)], strong, first)


def led(strong: bool, scores: list[list[float]], first: bool = False) -> tuple[float, int, list[list[float]]]:
    """Value, proposals won, and the slope of the value by every score."""
    logits = torch.tensor([scores], dtype=torch.float64, requires_grad=True)
    aim = pursuit(strong=strong, first=first)
    (value,) = aim(Candidates(logits, torch.from_numpy(STRONG_BOXES)[None], logits.detach().amax(2)))
    slope = torch.zeros(1, 5, 2) if not value.requires_grad else torch.autograd.grad(value, logits)[0]
    return value.item(), int(aim.won), slope[0].tolist()


def test_the_strong_rule_by_hand() -> None:
    """Who has come to the wanted class is won, unless it beats its neighbours (IoU 0.35) with less than 0.8.

    The proposals 0 and 1 overlap by 0.6: 0 is the surer of them, with σ(1.3) = 0.786; σ(1.5) = 0.818 is enough.
    """
    unsure: list[list[float]] = [[-3, 1.3], [-3, 0.5], [2, -1], [-3, 1.5], [-4, -4]]
    value, won, slope = led(False, unsure)
    assert (value, won) == (-3, 4)  # only proposal 2 still says its class; 4 says background
    assert slope == [[0, 0], [0, 0], [-1, 1], [0, 0], [0, 0]]
    value, won, slope = led(True, unsure)
    assert value == pytest.approx(1.3)
    assert won == 3  # 0 is led on: 1.3 + 3 more; 1, which it suppresses, is not
    assert slope == [[-1, 1], [0, 0], [-1, 1], [0, 0], [0, 0]]
    sure: list[list[float]] = [[-3, 1.5], [-3, 0.5], [2, -1], [-3, 1.3], [-4, -4]]
    value, won, slope = led(True, sure)  # now 3 stands alone and is not sure
    assert value == pytest.approx(1.3)
    assert won == 3
    assert slope == [[0, 0], [0, 0], [-1, 1], [-1, 1], [0, 0]]
    _, won, slope = led(True, sure, first=True)  # at the first step all take part
    assert won == 3
    assert slope == [[-1, 1]] * 5


def best_score(images: torch.Tensor) -> float:
    scores = MODEL.predict(images)[0].scores
    assert scores is not None
    return float(scores.max())


def test_strong_dag_goes_further_and_is_for_boxes(tiny_model: Any) -> None:
    plain, strong = (build("dag", alpha=0.05, strong=strong)(MODEL, ONE, [RED], target=2) for strong in (False, True))
    sure, unsure = (best_score(each.images) for each in (strong, plain))
    assert MODEL.predict(strong.images)[0].classes.tolist() == [2]
    assert sure >= 0.8 > unsure
    assert strong.norms > plain.norms
    assert build("dag").describe()["strong"] is False
    with pytest.raises(GauntletError, match="aims at boxes"):
        build("dag", strong=True)(tiny_model, IMAGES, torch.zeros(6, 32, 48, dtype=torch.int64))


def test_dag_goes_on_until_the_last_proposal() -> None:
    """299 of 300 is a share of 0.997, and still one object that is found."""

    class Many(TinyDetector):
        def candidates(self, images: torch.Tensor) -> Candidates:
            colors = images.mean((2, 3))  # (N, 3)
            others = torch.cat([colors[:, :1].expand(-1, 299), colors[:, :1] + 0.2], 1) - 0.4
            scores = 10 * torch.stack([others, -others], 2)
            corners = torch.stack([torch.arange(300.0) * 20, torch.zeros(300)], 1)
            boxes = torch.cat([corners, corners + 10], 1).expand(len(images), -1, -1)
            return Candidates(scores, boxes, scores.amax(2))

    model = Many()
    every = model.candidates(ONE).boxes[0]
    outcome = build("dag", alpha=0.02)(model, ONE, [Boxes(every.numpy(), np.zeros(300, np.int64))])
    scores = model.candidates(outcome.images).scores[0]
    assert (scores.argmax(1) == 1).all()


def test_classes_are_led_to_absent_ones() -> None:
    for seed in range(20):
        goes = other_classes(np.array([1, 4]), 6, seed)
        assert set(goes[[1, 4]].tolist()) <= {0, 2, 3, 5}
        assert goes[1] != goes[4]
        everyone = other_classes(np.arange(3), 3, seed)
        assert (everyone != np.arange(3)).all()
    assert other_classes(np.array([0]), 1, 0).tolist() == [NO_CLASS]
    assert len({tuple(other_classes(np.array([1, 4]), 6, seed)) for seed in range(20)}) > 3


def test_dag_leads_every_proposal_away() -> None:
    outcome = build("dag", alpha=0.05)(MODEL, IMAGES, BOXES)
    for row, picked in enumerate(MODEL.predict(outcome.images)):
        assert (matched_detections(BOXES[row], picked, 0.1) < 0).all()
    assert (outcome.queries.backward < 60).all()
    towards = build("dag", alpha=0.05)(MODEL, ONE, [RED], target=2)
    assert MODEL.predict(towards.images)[0].classes.tolist() in ([2], [])
    assert build("dag").describe()["steps"] is None
    clipped = build("dag", alpha=0.05, epsilon=0.1)(MODEL, IMAGES, BOXES)
    assert (clipped.images - IMAGES).abs().max() <= 0.1
    assert (clipped.norms >= 0.1).any()


def test_rounds_never_give_an_object_back() -> None:
    attack = build("region-aware", epsilon=0.9, rounds=3, steps=4, region={"square": {"size": 20}})
    outcome = attack(MODEL, IMAGES, BOXES)
    assert outcome.detections is not None
    middle = torch.zeros(IMAGES.shape[2:], dtype=torch.bool)
    middle[6:26, 14:34] = True
    for each in outcome.rounds:
        assert torch.equal(each.images[..., ~middle], IMAGES[: len(each.images)][..., ~middle]) or len(each.images) < 6
    for row, (truth, seen) in enumerate(zip(BOXES, outcome.detections, strict=True)):
        lost = outcome.details["clean_fooled"][row] + sum(outcome.details["newly_fooled"][row])
        assert lost == int(outcome.fooled[row]) == int((matched_detections(truth, seen) < 0).sum())
    assert outcome.fooled.sum() > 0
    with pytest.raises(GauntletError, match="literal"):
        build("region-aware", literal=True)(MODEL, IMAGES, BOXES)


MEMBERS = {
    "weak": {"name": "bim", "epsilon": 0.1, "alpha": 0.05, "steps": 2},
    "strong": {"name": "pgd", "epsilon": 0.5, "alpha": 0.1, "steps": 6},
    "vanish": {"name": "tog-vanishing", "epsilon": 0.6, "alpha": 0.1, "steps": 8},
    "late": {"name": "apgd", "epsilon": 0.5, "steps": 6},
}


def test_a_battery_is_the_worst_of_its_attacks() -> None:
    full = build("mine", members=MEMBERS, skip=False)(MODEL, IMAGES, BOXES, seed=4)
    for row, truth in enumerate(BOXES):
        everything = [IMAGES, *full.candidates.values()]
        figures = [image_f1(truth, MODEL.predict(images[row : row + 1])[0]) for images in everything]
        assert full.worst["f1"][row].item() == pytest.approx(min(figures), abs=1e-9)
        assert full.choice["f1"][row].item() == figures.index(min(figures)) + CLEAN
        chosen = MODEL.predict(full.images[row : row + 1])[0]
        assert image_f1(truth, chosen) == pytest.approx(min(figures), abs=1e-9)
    skipping = build("mine", members=MEMBERS)(MODEL, IMAGES, BOXES, seed=4)
    assert torch.equal(skipping.worst["f1"], full.worst["f1"])
    assert torch.equal(skipping.choice["f1"], full.choice["f1"])
    assert torch.equal(skipping.images, full.images)
    assert not skipping.ran.all()
    assert (skipping.worst["recall"][~skipping.ran.all(0)] == 0).all()


def test_batteries_for_detectors() -> None:
    assert list(build("detecbench").members) == ["bim", "pgd"]
    for member in build("detecbench").members.values():
        assert {"steps": 20, "alpha": 0.01, "epsilon": 8 / 255}.items() <= member.describe().items()
    assert {"apgd", "padam-ce", "tog-vanishing"} <= set(build("detectors").members)
    with pytest.raises(GauntletError, match="'segpgd' aims at pixels"):
        build("semsegbench")(MODEL, IMAGES, BOXES)


@pytest.mark.parametrize("name", ["segpgd", "cospgd", "sea-jsd", "alma-prox", "ifgsm-ll", "padam-cos"])
def test_attacks_on_pixels_say_which_ones_to_use(name: str) -> None:
    with pytest.raises(
        GauntletError, match=rf"'{name}' aims at pixels, not at boxes; on detectors use one of .*pgd"
    ) as error:
        build(name)(MODEL, IMAGES, BOXES)
    assert name not in str(error.value).split("use one of")[1].replace(",", " ").split()


def test_wrong_arguments_say_what_is_wrong(tiny_model: Any) -> None:
    attack = build("pgd", steps=1)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("detector is attacked with boxes", {"labels": torch.zeros(6, 32, 48, dtype=torch.int64)}),
        ("boxes of 1 images were given for 6", {"labels": BOXES[:1]}),
        ("class 3, but the detector has 3", {"labels": [Boxes(RED.xyxy, np.array([3]))] * 6}),
        ("target=True is DetecBench's class 42", {"labels": BOXES, "target": True}),
        ("target class is 9", {"labels": BOXES, "target": 9}),
        ("2 target classes were given", {"labels": [RED] * 6, "target": torch.tensor([1, 2])}),
        ("target on a detector is", {"labels": BOXES, "target": "least-likely"}),
    ]
    for match, given in cases:
        with pytest.raises(GauntletError, match=match):
            attack(MODEL, IMAGES, **given)
    with pytest.raises(GauntletError, match="aims at boxes"):
        build("tog-vanishing")(tiny_model, IMAGES, torch.zeros(6, 32, 48, dtype=torch.int64))
    with pytest.raises(GauntletError, match="label maps"):
        attack(tiny_model, IMAGES, BOXES)
    with pytest.raises(GauntletError, match="has no target"):
        build("tog-vanishing")(MODEL, IMAGES, BOXES, target=1)


def test_the_default_target_of_detecbench() -> None:
    assert [each.classes.tolist() for each in wanted_boxes(True, [RED, NOTHING], 80)] == [[42], []]


def test_target_files(tmp_path: Path) -> None:
    classes, corners = np.array([2]), np.array([[1.0, 2, 3, 4]])
    np.savez(tmp_path / "one.npz", classes=classes, boxes=corners)
    content: dict[str, Any] = {"a/b/classes": classes, "c/classes": np.array([1]), "c/boxes": corners}
    np.savez(tmp_path / "ids.npz", **content)
    torch.save(torch.from_numpy(classes), tmp_path / "plain.pt")
    torch.save({"a/b": {"classes": torch.tensor([2])}}, tmp_path / "ids.pt")
    (wanted,) = wanted_boxes(str(tmp_path / "one.npz"), [RED], 3)
    assert (wanted.xyxy.tolist(), wanted.classes.tolist()) == (corners.tolist(), [2])
    for file in ("ids.npz", "ids.pt"):
        (wanted,) = wanted_boxes(str(tmp_path / file), [RED], 3, ["a/b"])
        assert (wanted.xyxy.tolist(), wanted.classes.tolist()) == (RED.xyxy.tolist(), [2])
    attack = build("bim", target=str(tmp_path / "plain.pt"), epsilon=0.05, alpha=0.05, steps=1)
    assert torch.equal(
        attack(MODEL, ONE, [RED]).images, build("fgsm", epsilon=0.05)(MODEL, ONE, [RED], target=2).images
    )
    described = attack.describe()
    assert len(described["target"]["digest"]) == 16
    assert build(**described).describe() == described
    torch.save(torch.tensor([1]), tmp_path / "plain.pt")
    with pytest.raises(GauntletError, match="not the one described"):
        build(**described)
    with pytest.raises(GauntletError, match="by image id"):
        wanted_boxes(str(tmp_path / "ids.pt"), [RED], 3)
    with pytest.raises(GauntletError, match="no entry for image 'z'"):
        wanted_boxes(str(tmp_path / "ids.pt"), [RED], 3, ["z"])
    torch.save(torch.tensor([1.5]), tmp_path / "half.pt")
    with pytest.raises(GauntletError, match="must be whole numbers, not float32"):
        wanted_boxes(str(tmp_path / "half.pt"), [RED], 3)
    np.savez(tmp_path / "nowhere.npz", classes=classes, boxes=corners * np.nan)
    with pytest.raises(GauntletError, match="NaN or infinite"):
        wanted_boxes(str(tmp_path / "nowhere.npz"), [RED], 3)
    torch.save(TinyDetector, tmp_path / "code.pt")  # a pickled class is code, not tensors
    with pytest.raises(GauntletError, match="no plain tensors"):
        wanted_boxes(str(tmp_path / "code.pt"), [RED], 3)
    with pytest.raises(GauntletError, match="cannot be read"):
        build("bim", target="missing.pt")


class Masked(TinyDetector):
    """Boxes without a gradient: rounding hides it."""

    def candidates(self, images: torch.Tensor) -> Candidates:
        return super().candidates((images * 4).round() / 4 + 0 * images)


def test_a_hidden_gradient_is_noticed() -> None:
    codes = {
        finding.code for finding in check_attack(Masked(), IMAGES[:2], BOXES[:2], steps=2, noises=2, whole_box_steps=2)
    }
    assert "zero-gradient" in codes
    assert "whole-box-survives" in codes
    honest = check_attack(MODEL, IMAGES[:2], BOXES[:2], epsilon=0.4, steps=6, noises=3, whole_box_steps=20)
    assert not [finding for finding in honest if finding.severity == "error"]


def test_crowds_reach_the_loss_with_their_flag_and_count_for_nothing() -> None:
    seen: list[Boxes] = []

    class Recorder(TinyDetector):
        def losses(self, images: torch.Tensor, targets: Any) -> torch.Tensor:
            seen.extend(targets)
            return super().losses(images, targets)

    crowd = Boxes(np.array([[0, 0, 8, 8], [8, 0, 16, 8]], np.float32), np.array([0, 1]), crowd=np.array([False, True]))
    outcome = build("bim", steps=1)(Recorder(), IMAGES[:1], [crowd], target=2)
    assert [each.crowd.tolist() for each in seen if each.crowd is not None] == [[False, True]]
    assert seen[0].classes.tolist() == [2, 2]
    assert outcome.images.shape == IMAGES[:1].shape
    only = crowd.select(np.array([False, True]))
    everything = torch.ones(IMAGES.shape[2:], dtype=torch.bool)
    clean = build("bim", steps=1)(MODEL, IMAGES[:1], [only], fooling_region=everything)
    assert torch.equal(clean.images, IMAGES[:1])  # nothing that counts lies there


def test_the_worst_case_of_an_object_does_not_repeat_its_neighbour() -> None:
    """Of two objects that overlap by two thirds the first is lost: the other is found once, not twice."""
    corners = np.array([[0, 0, 10, 10], [2, 0, 12, 10]], np.float32)
    truth, scores = Boxes(corners, np.array([0, 0])), np.array([0.9, 0.8], np.float32)
    standing = RemainingObjects.of(truth, Boxes(corners, np.array([0, 0]), scores))
    other = Boxes(np.array([[0, 0, 10, 10.5]], np.float32), np.array([1]), np.array([0.6], np.float32))
    now = Boxes(np.concatenate([corners[1:], other.xyxy]), np.array([0, 1]), np.array([0.7, 0.6], np.float32))
    assert standing.update(now, None, 3) == 1
    seen = standing.worst_case()
    assert seen.classes.tolist() == [0, 1]
    assert seen.scores == pytest.approx([0.8, 0.6])


@pytest.mark.parametrize("name", ["pgd", "tog-vanishing"])
def test_a_random_detector(name: str) -> None:
    """One sample: the same draw at every step, so that steps climb one loss. Several: their gradients are averaged."""

    class Random(TinyDetector):
        draws: ClassVar[list[float]] = []

        def candidates(self, images: torch.Tensor) -> Candidates:
            self.draws.append(float(torch.rand(())))
            return super().candidates(images * (0.9 + 0.2 * self.draws[-1]))

    model = Random()
    one = build(name, steps=3, epsilon=0.1)(model, IMAGES[:1], BOXES[:1])
    assert len(set(model.draws[-3:])) == 1
    assert one.queries.backward.tolist() == [3]
    several = build(name, steps=3, epsilon=0.1, samples=4)(model, IMAGES[:1], BOXES[:1])
    assert several.queries.backward.tolist() == [12]
    assert len(set(model.draws[-12:])) == 12


@pytest.mark.parametrize("name", ["pgd", "apgd", "tog-fabrication", "dag"])
def test_half_precision_is_for_the_model_only(name: str) -> None:
    options = {"steps": 4, "alpha": 0.05} if name == "dag" else {"steps": 4, "epsilon": 0.3}
    passes: list[bool] = []

    class Watched(FairDetector):
        def candidates(self, images: torch.Tensor) -> Candidates:
            passes.append(torch.is_autocast_enabled("cpu"))
            return super().candidates(images)

    exact = build(name, **options)(Watched(), IMAGES, BOXES)
    assert not any(passes)
    passes.clear()
    coarse = build(name, precision="bf16", **options)(Watched(), IMAGES, BOXES)
    assert passes
    assert all(passes)
    assert coarse.images.dtype == torch.float32
    assert coarse.norms.max() <= (0.3 if name != "dag" else 4 * 0.05 + 1e-6)
    changes = ((each.images - IMAGES).flatten(1) for each in (coarse, exact))
    assert torch.cosine_similarity(*changes)[coarse.norms > 0].min() > 0.5


@pytest.mark.parametrize("name", ["tog-vanishing", "tog-untargeted", "tog-mislabeling"])
def test_rounds_need_an_attack_that_can_aim(name: str) -> None:
    with pytest.raises(GauntletError, match="every round would be the same"):
        build("region-aware", attack=name)(MODEL, IMAGES, BOXES)


def test_dag_takes_no_boxes_of_its_own() -> None:
    elsewhere = [Boxes(each.xyxy + 1, each.classes) for each in BOXES]
    with pytest.raises(GauntletError, match="targets with boxes of their own do not"):
        build("dag", steps=1)(MODEL, IMAGES, BOXES, target=elsewhere)


def test_a_crowd_is_no_target() -> None:
    """The loss leaves it out, so that it never gets the class: without it the target is reached."""
    image = IMAGES[:1] * 0
    image[:, 0, :8, :8] = image[:, 1, 16:24, 32:40] = 0.9
    crowd = Boxes(
        np.array([[0, 0, 8, 8], [32, 16, 40, 24]], np.float32), np.array([0, 1]), crowd=np.array([False, True])
    )
    attack = build("bim", epsilon=0.8, alpha=0.2, steps=6)
    assert attack(MODEL, image, [crowd], target=2).share.item() == 1
    only = attack(MODEL, image, [crowd.select(np.array([False, True]))], target=2)
    assert torch.equal(only.images, image)


def test_rounds_leave_alone_what_is_lost_already() -> None:
    """The object that the detector misses in the clean image, and its crowds, are no part of any round's loss."""
    image = IMAGES[:1] * 0
    image[:, 0, :8, :8] = image[:, 1, 16:24, 32:40] = image[:, 2, 16:24, :8] = 0.9
    corners = np.array([[0, 0, 8, 8], [32, 16, 40, 24], [0, 16, 8, 24]], np.float32)
    truth = Boxes(corners, np.array([0, 2, 2]), crowd=np.array([False, False, True]))  # green is not found as blue
    outcome = build("region-aware", epsilon=0.9, rounds=2, steps=4)(MODEL, image, [truth])
    assert (outcome.details["clean_fooled"], outcome.counted.tolist()) == ([1], [2])
    assert outcome.details["fooling_objects"] == [[1]]
    assert outcome.fooled.tolist() == [2]
    assert not torch.equal(outcome.images[..., :8, :8], image[..., :8, :8])
    assert torch.equal(outcome.images[..., 16:24, 32:40], image[..., 16:24, 32:40])
    assert torch.equal(outcome.images[..., 16:24, :8], image[..., 16:24, :8])
    assert outcome.detections is not None
    (seen,) = outcome.detections
    stays = matched_detections(Boxes(corners, np.array([0, 1, 2])), seen) >= 0
    assert stays.tolist() == [False, True, True]  # what was detected on the crowd, and in the place of the lost one


def test_losses_that_are_no_number_are_an_error() -> None:
    class Broken(TinyDetector):
        def losses(self, images: torch.Tensor, targets: Any) -> torch.Tensor:
            return super().losses(images, targets) * float("nan")

    with pytest.raises(GauntletError, match="loss is NaN"):
        build("bim", steps=1)(Broken(), ONE, [RED])

    class Mean(TinyDetector):
        def losses(self, images: torch.Tensor, targets: Any) -> torch.Tensor:
            return super().losses(images, targets).mean()

    with pytest.raises(GauntletError, match="expected one per image"):
        build("bim", steps=1)(Mean(), ONE, [RED])

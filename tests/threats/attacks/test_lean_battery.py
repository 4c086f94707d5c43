"""The lean battery `gauntlet` (docs/specs/attacks.md, 19): members that go on from each other's best points."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from attack_fixture import EPSILON, IMAGES, LABELS, VOID_LABELS, Recorder, network

from gauntlet.errors import GauntletError
from gauntlet.threats.attacks import build, build_battery, losses
from gauntlet.threats.attacks.engine.labels import image_figures, label_map
from gauntlet.threats.attacks.engine.pixels import Pixels
from gauntlet.threats.build import build_threat
from tiny_detector import TinyBoxes, TinyDetector

MEMBERS = ["jsd", "jsd-again", "jsd-further", "jsd-balanced"]
SMALL: dict[str, Any] = {"epsilon": EPSILON, "budget": 0.2}


def figures(images: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    counted = labels != 255
    return image_figures(label_map(network(images)), labels.masked_fill(~counted, 0), counted, 5)


def test_lean_is_another_name_of_the_battery() -> None:
    assert build("lean").describe() == build("gauntlet").describe()
    assert build_threat({"battery": {"name": "lean"}}).name == "battery gauntlet 8/255"
    assert list(build("gauntlet").members) == MEMBERS


def test_its_description_builds_it_again() -> None:
    description = build("gauntlet", epsilon="4/255", budget=0.5).describe()
    assert json.loads(json.dumps(description)) == description
    assert build_battery(**description).describe() == description


def test_it_costs_a_twelfth_of_the_battery_that_it_stands_for() -> None:
    passes, full = build("gauntlet").passes(), build("halmosi").passes()
    assert passes.forward == 250
    assert 12 * passes.forward < full.forward


def test_it_asks_as_often_as_it_says() -> None:
    battery = build("gauntlet", epsilon=1e-6, budget=0.2)
    recorder = Recorder()
    outcome = battery(recorder, IMAGES, LABELS)
    assert outcome.queries.forward.tolist() == [battery.passes().forward] * 2
    assert outcome.queries.backward.tolist() == [battery.passes().backward] * 2
    assert sum(map(len, recorder.seen)) == 2 * battery.passes().forward


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_member_keeps_the_constraint_exactly(norm: str, dtype: torch.dtype) -> None:
    images = IMAGES.to(dtype)
    region = torch.zeros(16, 16, dtype=torch.bool)
    region[:, 4:12] = True
    size = 0.05 if norm == "linf" else 0.5
    outcome = build("gauntlet", epsilon=size, norm=norm, budget=0.2)(network, images, VOID_LABELS, region=region)
    assert outcome.ran.all()
    for made in outcome.candidates.values():
        difference = made.double() - images.double()
        lengths = difference.abs().flatten(1).amax(1) if norm == "linf" else difference.flatten(1).norm(dim=1)
        assert (lengths <= size).all()
        assert (lengths > 0.9 * size).all()
        assert made.min() >= 0
        assert made.max() <= 1
        assert torch.equal(made[:, :, ~region], images[:, :, ~region])


def test_more_budget_is_not_weaker() -> None:
    """On the mean of the images, within 1 % of the pixels; docs/specs/attacks.md, 16 (T3)."""
    short, long = (build("gauntlet", epsilon=EPSILON, budget=budget)(network, IMAGES, LABELS) for budget in (0.1, 1))
    for metric in ("accuracy", "miou"):
        assert long.worst[metric].mean() <= short.worst[metric].mean() + 0.01
    sea = build("sea-jsd", steps=100, radius="fixed", epsilon=EPSILON)(network, IMAGES, LABELS)
    assert long.worst["accuracy"].mean() < figures(sea.images, LABELS)[0].mean()


def test_members_go_on_from_the_worst_case_so_far() -> None:
    recorder, battery = Recorder(), build("gauntlet", **SMALL)
    outcome = battery(recorder, IMAGES[:1], LABELS[:1])
    asked = outcome.attack_queries.forward[:, 0].tolist()
    looks = 1
    worst: dict[str, torch.Tensor] = {}
    lowest = {metric: float(outcome.clean[metric][0]) for metric in ("accuracy", "miou")}
    for index, name in enumerate(MEMBERS):
        first = recorder.seen[sum(asked[:index]) + looks]
        metric = battery.members[name].starts_from
        if metric is None:
            assert not torch.equal(first, IMAGES[:1])
        else:
            assert torch.equal(first, worst[metric])
        for key, least in lowest.items():
            figure = float(outcome.figures[key][index, 0])
            if figure < least:
                lowest[key], worst[key] = figure, outcome.candidates[name]
        looks += 1
    assert [member.starts_from for member in battery.members.values()] == [None, None, "accuracy", "miou"]


def test_a_wave_leaves_the_ball_and_comes_back() -> None:
    recorder = Recorder()
    attack = build("apgd-jsd", radius="wave", steps=20, epsilon=EPSILON)
    assert attack.stages() == [(1.0, 4), (1.5, 7), (1.0, 9)]
    attack(recorder, IMAGES, LABELS)
    reached = [float((seen - IMAGES).abs().amax()) / EPSILON for seen in recorder.seen]
    within = 1 + 1e-9
    assert max(reached[:5]) <= within
    assert max(reached[5:13]) == pytest.approx(1.5)
    assert max(reached[13:]) <= within


def test_the_first_step_has_the_length_that_is_asked_for() -> None:
    recorder = Recorder()
    build("apgd-jsd", first_step=0.5, steps=3, epsilon=EPSILON)(recorder, IMAGES, LABELS, start=IMAGES)
    moved = (recorder.seen[1] - recorder.seen[0]).abs().amax()
    assert float(moved) == pytest.approx(EPSILON / 2, rel=1e-9)


@pytest.mark.parametrize(("returns", "figure"), [("best", 0), ("best-miou", 1)])
def test_the_best_point_is_the_lowest_by_its_figure(returns: str, figure: int) -> None:
    recorder = Recorder()
    attack = build("apgd-jsd", loss="jsd-bal", returns=returns, steps=12, epsilon=EPSILON)
    made = attack(recorder, IMAGES, VOID_LABELS).images
    lowest = torch.stack([figures(seen, VOID_LABELS)[figure] for seen in recorder.seen]).amin(0)
    assert torch.equal(figures(made, VOID_LABELS)[figure], lowest)


def test_the_two_best_points_differ() -> None:
    options: dict[str, Any] = {"loss": "jsd-bal", "steps": 12, "epsilon": EPSILON}
    by_accuracy, by_overlap = (
        build("apgd-jsd", returns=returns, **options)(network, IMAGES, LABELS) for returns in ("best", "best-miou")
    )
    assert (figures(by_overlap.images, LABELS)[1] <= figures(by_accuracy.images, LABELS)[1]).all()
    assert not torch.equal(by_overlap.images, by_accuracy.images)
    assert by_overlap.fooled.tolist() == [
        int(((network(by_overlap.images).argmax(1) != LABELS)[row]).sum()) for row in range(2)
    ]


def test_batch_and_order_change_nothing() -> None:
    images, labels = IMAGES.float(), VOID_LABELS
    both = build("gauntlet", **SMALL)(network, images, labels, seed=[5, 6])
    turned = build("gauntlet", **SMALL)(network, images.flip(0), labels.flip(0), seed=[6, 5])
    for row in range(2):
        alone = build("gauntlet", **SMALL)(network, images[row : row + 1], labels[row : row + 1], seed=[5 + row])
        for name in MEMBERS:
            assert torch.equal(both.candidates[name][row], alone.candidates[name][0])
            assert torch.equal(both.candidates[name][row], turned.candidates[name][1 - row])


def breakable(images: torch.Tensor) -> torch.Tensor:
    """Two classes by the sign of a difference of channels: every pixel is won by a budget that turns it."""
    score = 10 * (images[:, :1] - images[:, 1:2])
    return torch.cat([score, -score], 1)


def test_an_image_without_anything_left_is_skipped() -> None:
    images = torch.full((1, 3, 8, 8), 0.5)
    images[:, 0] = 0.52
    labels = torch.zeros(1, 8, 8, dtype=torch.int64)
    outcome = build("gauntlet", epsilon=0.1)(breakable, images, labels)
    assert outcome.worst["accuracy"].tolist() == [0]
    assert outcome.ran[:, 0].tolist() == [True, False, False, False]
    assert outcome.queries.forward[0] < 32


def test_an_image_with_next_to_nothing_left_skips_the_expensive_members() -> None:
    """One pixel of 144 has a margin that the budget cannot turn: 0.7 % of the image, and an mIoU of half of it."""
    images = torch.full((1, 3, 12, 12), 0.5)
    images[:, 0] = 0.52
    images[:, 0, 3, 3] = 0.95
    labels = torch.zeros(1, 12, 12, dtype=torch.int64)
    outcome = build("gauntlet", epsilon=0.1, budget=0.2)(breakable, images, labels)
    assert outcome.worst["accuracy"][0] == pytest.approx(1 / 144)
    assert outcome.ran[:, 0].tolist() == [True, False, False, True]
    images[:, 0, 3, 4] = 0.95
    outcome = build("gauntlet", epsilon=0.1, budget=0.2)(breakable, images, labels)
    assert outcome.worst["accuracy"][0] == pytest.approx(2 / 144)
    assert outcome.ran.all()


def test_the_balanced_loss_weighs_classes_alike() -> None:
    labels = torch.tensor([[[0, 0, 0, 1], [0, 0, 0, 255]]])
    counted = labels != 255
    pixels = Pixels(torch.zeros(1, 3, 2, 4), labels.masked_fill(~counted, 0), counted, False)
    values = losses["jsd-bal"](pixels, 0.0)
    plain = losses["jsd-self"](pixels, 0.0)
    own = 1 / 3
    expected = 0.5 * ((1 - own) * math.log(2) + own * math.log(2 * own / (1 + own)) + math.log(2 / (1 + own)))
    assert plain[0, 0, 0] == pytest.approx(expected, rel=1e-6)
    assert (values / plain)[counted].tolist() == pytest.approx([1 / 7] * 3 + [6 / 7] + [1 / 7] * 3, rel=1e-6)
    assert values[~counted].tolist() == [0]
    assert losses["jsd-self"].tracked is losses["jsd-self"]
    assert losses["jsd-bal"].tracked is losses["jsd-bal"]


def test_a_target_is_won_where_its_overlap_grows() -> None:
    logits = torch.zeros(1, 2, 1, 4)
    logits[0, 1, 0, :3] = 1
    labels = torch.ones(1, 1, 4, dtype=torch.int64)
    everywhere = torch.ones(1, 1, 4, dtype=torch.bool)
    overlap = 3 / 4 / 2  # class 0 is predicted once and never there
    assert Pixels(logits, labels, everywhere, True).won_overlap.tolist() == pytest.approx([overlap])
    assert Pixels(logits, labels, everywhere, False).won_overlap.tolist() == pytest.approx([1 - overlap])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"radius": "growing"}, "radius 'growing'"),
        ({"warm_start": "f1"}, "warm_start 'f1'"),
        ({"first_step": 0}, "first_step must be positive"),
        ({"worth_from": 2}, "worth_from must lie in"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(GauntletError, match=words):
        build("apgd-jsd", **options)


def test_a_detector_is_refused_in_one_sentence() -> None:
    boxes = TinyBoxes(1)[0]
    with pytest.raises(GauntletError, match="aims at pixels, not at boxes"):
        build("gauntlet")(TinyDetector(), torch.zeros(1, 3, 32, 32), [boxes.boxes])

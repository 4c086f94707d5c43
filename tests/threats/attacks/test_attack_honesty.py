"""Models that only look robust are found out; honest ones raise nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from attack_fixture import IMAGES, LABELS, VOID_LABELS, network

from gauntlet.defences import Defence, DefenceSettings, EnsembleModel, TransformedModel
from gauntlet.errors import GauntletError
from gauntlet.models import SegmentationModel, wrap_model
from gauntlet.models.randomness import AttackDraws
from gauntlet.report.sections import honesty
from gauntlet.threats.attacks import checks, names
from gauntlet.threats.attacks.checks import (
    Measured,
    Trial,
    check_attack,
    expected_gradients,
    judge,
    measure,
    wrappers,
)
from gauntlet.threats.attacks.checks.gradient import LOOKS
from gauntlet.threats.attacks.checks.wrappers import StraightThrough, Withstood, judge_wrapper, withstand
from gauntlet.threats.attacks.engine import problem
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.problem import BatchProblem

HONEST = Measured(
    classes=5,
    clean=0.9,
    attack=0.3,
    last=0.3,
    single_step=0.4,
    larger_epsilon=0.1,
    more_steps=0.29,
    whole_box=0.0,
    noise=0.85,
    transfer=0.6,
    zero_gradient=0.0,
    tiny_gradient=0.0,
)


@pytest.mark.parametrize(
    ("change", "code", "severity"),
    [
        ({"zero_gradient": 0.02}, "zero-gradient", "warning"),
        ({"zero_gradient": 0.6}, "zero-gradient", "error"),
        ({"tiny_gradient": 0.25}, "vanishing-gradient", "warning"),
        ({"tiny_gradient": 1.0}, "vanishing-gradient", "error"),
        ({"larger_epsilon": 0.33}, "larger-epsilon-weaker", "warning"),
        ({"more_steps": 0.33}, "more-steps-weaker", "warning"),
        ({"single_step": 0.28}, "iterative-weaker", "error"),
        ({"transfer": 0.28}, "transfer-stronger", "error"),
        ({"black_box": 0.28}, "black-box-stronger", "error"),
        ({"noise": 0.3}, "noise-as-strong", "error"),
        ({"whole_box": 0.21}, "whole-box-survives", "error"),
    ],
)
def test_each_doubt_has_its_finding(change: dict[str, Any], code: str, severity: str) -> None:
    assert judge(HONEST) == []
    (finding,) = judge(replace(HONEST, **change))
    assert (finding.code, finding.severity) == (code, severity)
    assert next(iter(change.values())) in finding.figures.values()
    assert finding.sentence.endswith(".")


def test_slack_is_granted() -> None:
    close = replace(HONEST, larger_epsilon=0.319, more_steps=0.319, single_step=0.295, transfer=0.295, whole_box=None)
    close = replace(close, black_box=0.295)
    assert judge(close) == []


def test_an_honest_model_raises_nothing() -> None:
    assert check_attack(network, IMAGES, LABELS) == []
    assert check_attack(network, IMAGES, VOID_LABELS, norm="l2", epsilon="128/255", whole_box_steps=0, noises=5) == []


def codes(model: Any, **options: Any) -> set[str]:
    options = {"noises": 5, "whole_box_steps": 20, "steps": 10, **options}
    return {finding.code for finding in check_attack(model, IMAGES.float(), LABELS, **options)}


def test_a_model_without_gradient_is_found_out() -> None:
    def quantised(images: torch.Tensor) -> torch.Tensor:
        return network((images * 30).round() / 30)

    actual = codes(quantised, other_model=network)
    assert {
        "zero-gradient",
        "vanishing-gradient",
        "transfer-stronger",
        "black-box-stronger",
        "noise-as-strong",
        "whole-box-survives",
    } <= actual


def test_a_saturated_model_is_found_out() -> None:
    def saturated(images: torch.Tensor) -> torch.Tensor:
        return network(images) * 1e4

    actual = codes(saturated, other_model=network)
    assert "transfer-stronger" in actual
    assert "zero-gradient" in actual


def test_a_misleading_gradient_is_found_out() -> None:
    """Where a wiggle dominates the slope, many small steps go astray; a long one may not."""

    def wiggling(images: torch.Tensor) -> torch.Tensor:
        return network(images + 0.004 * torch.sin(images * 2000))

    measured = measure(wiggling, IMAGES, LABELS, Trial(noises=3, whole_box_steps=0, other_model=network))
    assert measured.transfer is not None
    assert measured.transfer < measured.attack
    assert "transfer-stronger" in {finding.code for finding in judge(measured)}


def test_the_figures_are_what_the_attacks_give() -> None:
    measured = measure(network, IMAGES, LABELS, Trial(noises=2, whole_box_steps=0))
    assert measured.clean == 471 / 512
    assert measured.single_step == (148 + 141) / 512
    assert measured.attack <= measured.last
    assert measured.whole_box is None
    assert measured.classes == 5
    assert measured.attack < (measured.black_box or 0) < measured.clean
    assert measure(network, IMAGES, LABELS, Trial(noises=1, whole_box_steps=0, queries=0)).black_box is None


def test_nothing_to_check() -> None:
    with pytest.raises(GauntletError, match="no labelled pixel"):
        check_attack(network, IMAGES, torch.full_like(LABELS, 255))
    with pytest.raises(GauntletError, match="epsilon must lie in"):
        check_attack(network, IMAGES, LABELS, epsilon=8)


def test_the_attacks_that_checks_name_exist() -> None:
    compared = {checks.ITERATIVE, checks.SINGLE_STEP, checks.BLACK_BOX, wrappers.TARGETED}
    assert {*compared, *honesty.SINGLE_STEP} <= set(names())


# Models around models.

HOLDS = Withstood(attack=0.5, inside=0.3, from_inside=0.7, targeted=0.6, averaged=0.5, straight_through=0.5)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"averaged": 0.4}, "averaging-stronger"),
        ({"from_inside": 0.4}, "inside-stronger"),
        ({"straight_through": 0.4}, "straight-through-stronger"),
        ({"targeted": 0.4}, "targeted-stronger"),
        # Stronger than the attack along one draw only, as the averaged one is: nothing but the randomness hides.
        ({"averaged": 0.4, "from_inside": 0.42, "straight_through": 0.42, "targeted": 0.42}, "averaging-stronger"),
    ],
)
def test_a_wrapper_that_falls_to_someone_who_knows_of_it(change: dict[str, float], code: str) -> None:
    assert judge_wrapper(HOLDS) == []
    assert judge_wrapper(replace(HOLDS, averaged=None, straight_through=None)) == []
    (finding,) = judge_wrapper(replace(HOLDS, **change))
    assert (finding.code, finding.severity) == (code, "error")
    assert finding.figures == {"attack": 0.5, "stronger": 0.4}


def test_targets_say_nothing_where_the_wrapper_gains_nothing() -> None:
    assert judge_wrapper(replace(HOLDS, inside=0.5, targeted=0.4)) == []


class Coarse(Defence):
    """Shows rounded images to the model inside: the same answers, and no gradient."""

    prefix = "coarse"
    settings_type = DefenceSettings

    def __init__(self, model: SegmentationModel) -> None:
        super().__init__([model], DefenceSettings())

    def defend(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model((images * 30).round() / 30)
        return logits


class Fixture(torch.nn.Module):
    """The network of the fixture as a module."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return network(images)


def inside() -> SegmentationModel:
    return wrap_model(Fixture(), num_classes=5, name="fixture")


def test_a_wrapper_without_gradient_is_found_out_by_what_is_inside() -> None:
    found = codes(Coarse(inside()), whole_box_steps=0)
    assert {"zero-gradient", "inside-stronger", "straight-through-stronger"} <= found
    assert "targeted-stronger" not in found  # rounding leaves targets no gradient either


def test_an_honest_wrapper_raises_nothing() -> None:
    assert codes(EnsembleModel([inside(), inside()], gamma=0.4), whole_box_steps=0) == set()
    kept = withstand(TransformedModel(inside(), kind="grey"), IMAGES.float(), LABELS, Trial(steps=4))
    assert kept.averaged is not None
    assert kept.averaged < kept.from_inside  # who knows of the weights need not hit them by chance


@pytest.mark.parametrize("random", [False, True])
def test_the_expected_gradients_are_about_those_that_are_taken(random: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = TransformedModel(inside(), kind="grey") if random else EnsembleModel([inside(), inside()], gamma=0.4)
    taken = 0

    def counted(self: BatchProblem, *arguments: Any, **options: Any) -> torch.Tensor:
        nonlocal taken
        taken += self.samples if self.model is model or isinstance(self.model, StraightThrough) else 0
        return averaged(self, *arguments, **options)

    averaged = BatchProblem.averaged
    monkeypatch.setattr(BatchProblem, "averaged", counted)
    check_attack(model, IMAGES[:1].float(), LABELS[:1])
    assert taken == pytest.approx(expected_gradients(model), rel=0.1)


def test_random_models_are_judged_by_draws_that_no_attack_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    attacking: list[bool] = []
    drawn: dict[bool, set[int]] = {True: set(), False: set()}
    together: list[int] = []

    class Watched(AttackDraws):
        def numbers(self, name: str, sample: int | None = None) -> list[int]:
            numbers = super().numbers(name, sample)
            drawn[bool(attacking)].update(numbers)
            together.append(len(set(numbers)))
            return numbers

    def call(self: Attack, *arguments: Any, **options: Any) -> Any:
        attacking.append(True)
        try:
            return plain(self, *arguments, **options)
        finally:
            attacking.pop()

    plain = Attack.__call__
    monkeypatch.setattr(Attack, "__call__", call)
    monkeypatch.setattr(problem, "AttackDraws", Watched)
    codes(TransformedModel(inside(), kind="grey"), noises=2, whole_box_steps=0, steps=2, queries=2)
    assert len(drawn[True]) > 0
    assert len(drawn[False]) == LOOKS * len(IMAGES)  # the same for everything that is compared, every noise too
    assert not drawn[True] & drawn[False]
    assert set(together) == {len(IMAGES)}  # no two images share a number

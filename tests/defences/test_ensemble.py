"""ensemble: against the reference values; weights, members, bad input."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from defence_cases import CLOSE, REFERENCE, assert_record, gradient_record, images, labels, logit_record, model
from gauntlet.cli.output import print_table
from gauntlet.defences import EnsembleModel
from gauntlet.defences.ensemble import split_members
from gauntlet.errors import GauntletError
from gauntlet.models import SegmentationModel, resolve_model, wrap_model
from gauntlet.threats import attacks


class _Forbidden(nn.Module):
    def forward(self, points: torch.Tensor) -> torch.Tensor:
        raise AssertionError("a member without weight is not to be asked")


def _forbidden() -> SegmentationModel:
    return wrap_model(_Forbidden(), num_classes=4)


@pytest.mark.parametrize("gamma", ["0", "0.25", "0.4", "0.5", "0.75", "1"])
def test_values_and_gradients_are_those_of_the_reference(gamma: str) -> None:
    made = EnsembleModel([model("first"), model("second")], gamma=gamma)
    expected = REFERENCE["ensemble"][gamma]
    logits = made(images())
    assert_record(logit_record(logits), expected)
    assert_record(gradient_record(made), expected["gradient"])
    confidence = logits.softmax(1).max(1).values.mean()
    assert float(confidence) == pytest.approx(expected["mean_confidence"], rel=CLOSE)
    accuracy = (logits.argmax(1) == labels()).double().mean()
    assert float(accuracy) == pytest.approx(expected["accuracy"], rel=CLOSE)


def test_all_weight_on_one_member_is_that_member_and_the_other_is_not_asked() -> None:
    inner = model()
    assert torch.equal(EnsembleModel([inner, _forbidden()], gamma=1)(images()), inner(images()))
    assert torch.equal(EnsembleModel([_forbidden(), inner], gamma=0)(images()), inner(images()))


class _RuledOut(nn.Module):
    """Never says class 3."""

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        ruled_out = torch.full_like(points[:, :1], -float("inf"))
        return torch.cat([points, ruled_out], dim=1)


@pytest.mark.parametrize("of", ["probabilities", "logits"])
@pytest.mark.parametrize(("gamma", "place"), [(1, 0), (0, 1), ("0+0+1", 2)])
def test_all_weight_on_a_member_that_rules_a_class_out_is_that_member(gamma: int | str, place: int, of: str) -> None:
    inner = wrap_model(_RuledOut(), num_classes=4, name="sure")
    members = [_forbidden() for _ in range(3 if isinstance(gamma, str) else 2)]
    members[place] = inner
    made = EnsembleModel(members, gamma=gamma, of=of)
    assert torch.equal(made(images()), inner(images()))
    assert made(images())[:, 3].eq(-float("inf")).all()


def test_logits_that_are_mixed_must_be_finite() -> None:
    with pytest.raises(GauntletError, match="'ensemble:' made NaN or infinite logits"):
        EnsembleModel([wrap_model(_RuledOut(), num_classes=4), model()], gamma=0.5, of="logits")(images())


def test_an_ensemble_with_itself_is_the_log_softmax() -> None:
    inner = model()
    mixed = EnsembleModel([inner, inner], gamma=0.3)(images())
    assert torch.allclose(mixed, inner(images()).log_softmax(1), rtol=0, atol=1e-12)
    assert torch.allclose(mixed.exp().sum(1), torch.ones(2, 24, 32, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("gamma", [0.25, 0.4, 0.5, 0.75])
def test_attacking_the_ensemble_is_stronger_than_transferring_the_attack_of_a_member(gamma: float) -> None:
    """By the loss that the attack climbs: a check, not a theorem. By the pixels that stay right it need not hold.

    Of streets/enet and streets/ddrnet (gamma 0.4, two images of 64x128, epsilon 2/255, 5 steps) 0.61 of the pixels stay
    right under bim on the ensemble and 0.55 under bim from ddrnet, though the loss is 1.36 and 0.89; under cospgd 0.47
    and 0.51. A report tells where images of another model are stronger (`defended.transfer_stronger`).
    """
    first, second = model("first"), model("second")
    mixed, attack = EnsembleModel([first, second], gamma=gamma), attacks.build("bim", epsilon="8/255", steps=10)

    def loss(points: torch.Tensor) -> float:
        return float(functional.cross_entropy(mixed(points), labels()))

    clean, own, *crossed = (
        loss(points)
        for points in (images(), *(attack(each, images(), labels()).images for each in (mixed, first, second)))
    )
    assert clean < min(crossed)
    assert own > max(crossed) + 0.04  # 0.07 at least, of 6.6 to 7.0


def test_three_members_and_logits() -> None:
    first, second = model("first"), model("second")
    z1, z2 = first(images()), second(images())
    probabilities = 0.2 * z1.softmax(1) + 0.3 * z2.softmax(1) + 0.5 * z1.softmax(1)
    made = EnsembleModel([first, second, first], gamma="0.2+0.3+0.5")
    assert torch.allclose(made(images()).exp(), probabilities, rtol=0, atol=1e-12)
    mixed = EnsembleModel([first, second], gamma=0.25, of="logits")(images())
    assert torch.allclose(mixed, 0.25 * z1 + 0.75 * z2, rtol=0, atol=1e-12)


@pytest.mark.parametrize("low", [-1e4, -float("inf")])
def test_a_class_without_probability_in_both_members_has_a_finite_gradient(low: float) -> None:
    class Certain(nn.Module):
        def forward(self, points: torch.Tensor) -> torch.Tensor:
            return torch.cat([points[:, :2] * 5, torch.full_like(points[:, :1], low)], dim=1)

    inner = wrap_model(Certain(), num_classes=3)
    inputs = torch.rand(1, 3, 4, 5).requires_grad_(True)
    logits = EnsembleModel([inner, inner], gamma=0.5)(inputs)
    (gradient,) = torch.autograd.grad(logits.sum(), inputs)
    assert torch.isfinite(logits).all()
    assert torch.isfinite(gradient).all()


def test_the_order_of_members_and_gamma_are_part_of_the_identity() -> None:
    def identity(address: str) -> str:
        return resolve_model(address).identity.digest

    first = identity("ensemble:gamma=0.4:[streets/enet]+[streets/segformer]")
    assert first == identity("ensemble:gamma=2/5,of=probabilities:streets/enet+streets/segformer")
    assert first == identity("ensemble:gamma=0.4+0.6:[streets/enet]+[streets/segformer]")
    others = [
        "ensemble:gamma=0.6:[streets/segformer]+[streets/enet]",
        "ensemble:gamma=0.41:[streets/enet]+[streets/segformer]",
        "ensemble:gamma=0.4,of=logits:[streets/enet]+[streets/segformer]",
        "ensemble:gamma=0.4:[multiscale:streets/enet]+[streets/segformer]",
    ]
    assert len({first, *map(identity, others)}) == 5


def test_members_in_brackets_may_contain_anything() -> None:
    nested = "ensemble:gamma=0.5:[a+b]+[c]"
    assert split_members(f"[{nested}]+[tiled:size=4:x]") == [nested, "tiled:size=4:x"]


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("ensemble:gamma=1.2:[streets/enet]+[streets/segformer]", r"\[0, 1\]"),
        ("ensemble:gamma=-0.1:[streets/enet]+[streets/segformer]", r"\[0, 1\]"),
        ("ensemble:gamma=nan:[streets/enet]+[streets/segformer]", "finite"),
        ("ensemble:gamma=0.5+0.6:[streets/enet]+[streets/segformer]", "sum to 1"),
        ("ensemble:gamma=0.2+0.3+0.5:[streets/enet]+[streets/segformer]", "2 members, but 3 weights"),
        ("ensemble:gamma=0.5:[streets/enet]", "at least two members"),
        ("ensemble:gamma=0.5:[streets/enet]+streets/segformer", "in brackets"),
        ("ensemble:gamma=0.5:streets/enet+", "in brackets"),
        ("ensemble:gamma=0.5:[streets/enet]+[streets/fcos]", "segmentation models only"),
        ("ensemble:of=labels:[streets/enet]+[streets/segformer]", "unknown output"),
    ],
)
def test_bad_settings_are_one_sentence(address: str, sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        resolve_model(address)


def test_options_that_only_one_member_takes_are_refused() -> None:
    with pytest.raises(GauntletError, match="EnsembleModel"):
        resolve_model("ensemble:gamma=0.5:[streets/enet]+[streets/segformer]", weights="net.pt")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"num_classes": 3}, "4 and 3 classes"),
        ({"num_classes": 4, "class_names": ["class 0", "car", "class 2", "class 3"]}, "'class 1' in one and 'car'"),
        ({"num_classes": 4, "ignore_index": 0}, "ignore indices are 255 and 0"),
    ],
)
def test_members_of_other_classes_are_refused(options: dict[str, Any], sentence: str) -> None:
    other = wrap_model(nn.Conv2d(3, 4, 1), **options)
    with pytest.raises(GauntletError, match=sentence):
        EnsembleModel([model(), other])


def test_the_brackets_of_a_name_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    name = resolve_model("ensemble:gamma=0.4:[streets/enet]+[streets/segformer]").identity.name
    print_table("", ["threat", name], [["clean", "80.4"]])
    assert "[streets/enet]+[streets/segformer] ensemble gamma=0.4" in capsys.readouterr().out

"""multiscale: against the reference values; what max, mean and the order of scales mean."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from defence_cases import (
    REFERENCE,
    assert_record,
    gradient_record,
    images,
    logit_record,
    model,
    odd_images,
)
from gauntlet.defences import MultiscaleModel
from gauntlet.errors import GauntletError
from gauntlet.models import resolve_model, wrap_model


@pytest.mark.parametrize("which", ["first", "second"])
def test_the_networks_are_those_of_the_reference(which: str) -> None:
    assert_record(logit_record(model(which)(images())), REFERENCE["plain"][which])


def test_the_plain_odd_size_and_gradient_are_those_of_the_reference() -> None:
    assert_record(logit_record(model()(odd_images())), REFERENCE["plain"]["odd_23x31"])
    assert_record(gradient_record(model()), REFERENCE["plain"]["first_gradient"])


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("of", ["logits", "probabilities"])
def test_values_and_gradients_are_those_of_the_reference(pool: str, of: str) -> None:
    made = MultiscaleModel(model(), pool=pool, of=of)
    expected = REFERENCE["multiscale"][f"{pool}/{of}"]
    assert_record(logit_record(made(images())), expected["values"])
    assert_record(logit_record(made(odd_images())), expected["odd_23x31"])
    assert_record(gradient_record(made), expected["gradient"])


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("of", ["logits", "probabilities"])
@pytest.mark.parametrize("scales", ["0.5+0.75+1", "1+1.5"])
def test_values_without_a_gradient_are_those_with_one_and_the_models_answer_stays(
    scales: str, pool: str, of: str
) -> None:
    made = MultiscaleModel(model(), scales=scales, pool=pool, of=of)
    answers: list[torch.Tensor] = []
    made.model.register_forward_hook(lambda module, given, said: answers.append(said))
    with torch.inference_mode():
        plain = made(images())
    full = answers[-1 if scales.endswith("+1") else 0]
    assert torch.equal(full, model()(images()))
    assert torch.equal(plain, made(images().requires_grad_()).detach())


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("settings", [{}, {"pool": "mean"}, {"of": "probabilities"}])
def test_large_images_too_have_the_same_values_with_and_without_a_gradient(
    settings: dict[str, str], layout: torch.memory_format
) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 5, 1))
    network.to(memory_format=layout)  # type: ignore[call-overload]
    made = MultiscaleModel(wrap_model(network, num_classes=5, name="large"), scales="0.6+0.8+1", **settings)
    points = torch.rand(2, 3, 150, 170)
    with torch.inference_mode():
        plain = made(points)
    assert torch.equal(plain, made(points.requires_grad_()).detach())


def test_one_scale_is_that_of_the_reference() -> None:
    made = MultiscaleModel(model(), scales="0.5")
    assert_record(logit_record(made(images())), REFERENCE["multiscale"]["scale 0.5 alone"])


def test_resizing_by_a_factor_would_be_another_model() -> None:
    def by_factor(points: torch.Tensor) -> torch.Tensor:
        small = functional.interpolate(points, scale_factor=0.5, mode="bilinear", align_corners=False)
        middle = functional.interpolate(points, scale_factor=0.75, mode="bilinear", align_corners=False)
        seen = [
            functional.interpolate(inner(each), size=points.shape[-2:], mode="bilinear", align_corners=False)
            for each in (small, middle)
        ]
        return torch.stack([*seen, inner(points)]).max(0).values

    inner = model()
    expected = REFERENCE["multiscale"]["difference to scale_factor semantics at 23x31"]
    made = MultiscaleModel(inner)
    assert float((made(odd_images()) - by_factor(odd_images())).abs().max()) == pytest.approx(expected["max_abs"])
    assert float((made(images()) - by_factor(images())).abs().max()) == pytest.approx(expected["same_at_24x32"])


@pytest.mark.parametrize("of", ["logits", "probabilities"])
def test_the_single_scale_1_is_the_model_bit_for_bit(of: str) -> None:
    inner = model()
    assert torch.equal(MultiscaleModel(inner, scales=1, of=of)(images()), inner(images()))


@pytest.mark.parametrize("pool", ["max", "mean"])
def test_a_constant_model_stays_constant(pool: str) -> None:
    class Constant(nn.Module):
        def forward(self, points: torch.Tensor) -> torch.Tensor:
            return torch.tensor([1.0, -2.0, 0.5]).view(1, 3, 1, 1).expand(len(points), 3, *points.shape[-2:])

    made = MultiscaleModel(wrap_model(Constant(), num_classes=3), pool=pool)
    logits = made(torch.rand(2, 3, 20, 30))
    assert torch.allclose(logits, torch.tensor([1.0, -2.0, 0.5]).view(1, 3, 1, 1).expand_as(logits))


def test_the_gradient_of_every_scale_reaches_the_image() -> None:
    class Remembering(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[torch.Tensor] = []
            self.inner = model()

        def forward(self, points: torch.Tensor) -> torch.Tensor:
            points.retain_grad()
            self.seen.append(points)
            logits: torch.Tensor = self.inner(points)
            return logits

    remembering = Remembering()
    made = MultiscaleModel(wrap_model(remembering, num_classes=4))
    inputs = images().requires_grad_(True)
    made(inputs * 1.0).sum().backward()
    assert [tuple(each.shape[-2:]) for each in remembering.seen] == [(12, 16), (18, 24), (24, 32)]
    assert all(each.grad is not None and bool((each.grad != 0).any()) for each in remembering.seen)


def test_a_batch_of_two_is_two_batches_of_one() -> None:
    made = MultiscaleModel(model())
    both = made(images())
    assert torch.allclose(both, torch.cat([made(images()[:1]), made(images()[1:])]), rtol=0, atol=1e-12)


def test_spellings_of_one_setting_share_an_identity_and_others_do_not() -> None:
    def identity(settings: str) -> str:
        return resolve_model(f"multiscale:{settings}:streets/enet").identity.digest

    assert identity("scales=1+0.5") == identity("scales=0.50+1.0,pool=max") == identity("scales=1/2+1,of=logits")
    different = {identity(each) for each in ("scales=0.5+1", "scales=0.5", "pool=mean", "of=probabilities")}
    assert len(different) == 4
    assert resolve_model("streets/enet").identity.digest not in different
    loaded = MultiscaleModel(resolve_model("streets/enet").load(), scales=(1, 0.5))
    assert loaded.identity == resolve_model("multiscale:scales=0.5+1:streets/enet").identity


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("multiscale:scales=0+1:streets/enet", "greater than 0"),
        ("multiscale:scales=-1:streets/enet", "greater than 0"),
        ("multiscale:scales=1+8.5:streets/enet", "must be at most 8, not 8.5"),
        ("multiscale:pool=:streets/enet", "'pool' of multiscale: has no value behind its '='"),
        ("multiscale:scales=nan:streets/enet", "finite"),
        ("multiscale:scales=:streets/enet", "'scales' of multiscale: has no value behind its '='"),
        ("multiscale:scales=0.5+1/2:streets/enet", "a scale twice"),
        ("multiscale:pool=min:streets/enet", "unknown pool"),
        ("multiscale:of=labels:streets/enet", "unknown output"),
        ("multiscale:scale=1:streets/enet", "did you mean 'scales'"),
        ("multiscale:pool=max,pool=max:streets/enet", "given twice"),
        ("multiscale:pool=max", "must name a model"),
        ("multiscale:streets/fcos", "segmentation models only"),
    ],
)
def test_bad_settings_are_one_sentence(address: str, sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        resolve_model(address)


def test_no_scale_at_all_is_one_sentence() -> None:
    with pytest.raises(GauntletError, match="at least one scale"):
        MultiscaleModel(model(), scales=())


def test_a_size_that_the_model_does_not_accept_is_named() -> None:
    class Deep(nn.Module):
        def forward(self, points: torch.Tensor) -> torch.Tensor:
            return functional.conv2d(points, torch.ones(2, 3, 20, 20))

    with pytest.raises(GauntletError, match="becomes 12x16"):
        MultiscaleModel(wrap_model(Deep(), num_classes=2))(images().float())


def test_nan_of_the_inner_model_names_the_wrapper() -> None:
    class Broken(nn.Module):
        def forward(self, points: torch.Tensor) -> torch.Tensor:
            return points[:, :2] * float("nan")

    with pytest.raises(GauntletError, match="'multiscale:' made NaN"):
        MultiscaleModel(wrap_model(Broken(), num_classes=2))(images())

"""`crf:` as a model: neutral settings, what it must not depend on, identity, address, bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from crf_scenes import Saying, beliefs, small_scene
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from gauntlet.defences.crf import PRESETS, Crf, CrfSettings
from gauntlet.errors import GauntletError
from gauntlet.models import SegmentationModel, load_model, resolve_model

GENTLE: dict[str, Any] = {"theta_alpha": 6, "theta_beta": 25, "theta_gamma": 1.5, "w_bilateral": 0.6, "w_spatial": 0.4}


@pytest.mark.parametrize("neutral", [{"iterations": 0}, {"w_bilateral": 0, "w_spatial": 0}])
@pytest.mark.parametrize("method", ["exact", "cells"])
def test_neutral_settings_are_the_inner_model(tiny_model: SegmentationModel, neutral: Any, method: str) -> None:
    images = torch.rand(2, 3, 8, 12)
    assert torch.equal(Crf(tiny_model, method=method, clip=1e-5, **neutral)(images), tiny_model(images))


@pytest.mark.parametrize("method", ["exact", "cells"])
def test_batch_mates_change_nothing(method: str) -> None:
    logits, images = torch.randn(3, 4, 9, 14), torch.rand(3, 3, 9, 14)
    together = Crf(Saying(logits), method=method, iterations=3)(images)
    alone = [Crf(Saying(logits[[n]]), method=method, iterations=3)(images[[n]]) for n in range(3)]
    assert torch.equal(together, torch.cat(alone))


@settings(deadline=None, max_examples=20)
@given(height=st.integers(1, 12), width=st.integers(1, 12), method=st.sampled_from(["exact", "cells"]))
def test_every_size_gives_logits_of_that_size_and_a_gradient(height: int, width: int, method: str) -> None:
    logits = torch.randn(1, 5, height, width)
    image = torch.rand(1, 3, height, width, requires_grad=True)
    refined = Crf(Saying(logits), method=method, iterations=2)(image)
    assert refined.shape == logits.shape
    (gradient,) = torch.autograd.grad(refined.square().sum(), image)
    assert gradient.isfinite().all()


def test_exact_up_to_16384_pixels(tiny_model: SegmentationModel) -> None:
    model = Crf(tiny_model)
    assert model.settings.exact(128 * 128)
    assert not model.settings.exact(128 * 128 + 1)


@pytest.mark.parametrize("method", ["exact", "cells"])
def test_derivative_to_one_pixel_is_the_difference_quotient(method: str) -> None:
    image, logits, labels = small_scene()

    def loss(image: torch.Tensor) -> torch.Tensor:
        refined = Crf(Saying(logits), method=method, iterations=5, **GENTLE)(image)
        return torch.nn.functional.cross_entropy(refined, labels[None], reduction="sum")

    image.requires_grad_()
    (gradient,) = torch.autograd.grad(loss(image), image)
    step = torch.zeros_like(image)
    step[0, 1, 12, 16] = 1e-6
    quotient = (loss(image + step) - loss(image - step)) / 2e-6
    assert gradient[0, 1, 12, 16].item() == pytest.approx(quotient.item(), rel=1e-4)


def test_without_image_gradient_only_logits_carry_it(tiny_model: SegmentationModel) -> None:
    image, logits, _ = small_scene()
    image.requires_grad_()
    logits.requires_grad_()
    refined = Crf(Saying(logits), image_gradient=False, iterations=2)(image)
    to_logits, to_image = torch.autograd.grad(refined.square().sum(), (logits, image), allow_unused=True)
    assert to_image is None
    assert to_logits.abs().sum() > 0


def test_a_constant_grey_value_changes_nothing() -> None:
    image, logits, _ = small_scene()
    brighter = beliefs(image + 20 / 255, logits, iterations=5)
    torch.testing.assert_close(brighter, beliefs(image, logits, iterations=5), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ["exact", "cells"])
def test_permuted_classes_permute_beliefs(method: str) -> None:
    image, logits, _ = small_scene()
    order = [2, 0, 3, 1]
    permuted = beliefs(image, logits[:, order], iterations=5, method=method)
    torch.testing.assert_close(permuted, beliefs(image, logits, iterations=5, method=method)[order])


@pytest.mark.parametrize("method", ["exact", "cells"])
def test_constant_images_and_logits_stay_constant(method: str) -> None:
    """With normalisation after, every pixel hears the weights' sum times Q: z + 8 softmax(z) after one iteration."""
    image = torch.full((1, 3, 6, 7), 0.4, dtype=torch.float64)
    logits = torch.tensor([0.3, 0.1, -0.2], dtype=torch.float64).view(1, 3, 1, 1).expand(1, 3, 6, 7)
    refined = Crf(Saying(logits), method=method, iterations=1)(image)
    expected = logits + 8 * logits.softmax(dim=1)
    torch.testing.assert_close(refined, expected, rtol=1e-9, atol=1e-9)


def test_potts_as_a_learned_compatibility(tmp_path: Path) -> None:
    """A file with mu = 1 - I gives the beliefs of the model without one, which computes with -I."""
    ones = torch.ones(4, dtype=torch.float64)
    tensors = {"compatibility": 1 - torch.eye(4).double(), "w_bilateral": 0.6 * ones, "w_spatial": 0.4 * ones}
    save_file(tensors, tmp_path / "potts.safetensors")
    image, logits, _ = small_scene()
    bandwidths = {name: value for name, value in GENTLE.items() if name.startswith("theta")}
    learned = beliefs(image, logits, iterations=5, parameters=str(tmp_path / "potts.safetensors"), **bandwidths)
    torch.testing.assert_close(learned, beliefs(image, logits, iterations=5, **GENTLE), rtol=1e-12, atol=1e-12)


def test_clip_cuts_improbable_classes() -> None:
    """One pixel alone, which hears 8 Q of itself: log of (1 - 1e-9, clipped to 1e-5) plus that."""
    logits = torch.tensor([0.0, -20.72326583694641], dtype=torch.float64).view(1, 2, 1, 1)  # log(1e-9)
    image = torch.full((1, 3, 1, 1), 0.5, dtype=torch.float64)
    refined = Crf(Saying(logits), iterations=1, clip=1e-5)(image).flatten()
    cut = torch.tensor([0.0, 1e-5], dtype=torch.float64).log()
    cut[0] = -1e-9
    torch.testing.assert_close(refined, cut + 8 * cut.softmax(0), rtol=1e-7, atol=1e-7)


def test_scale_widens_bandwidths_of_large_images() -> None:
    """An image of 250 pixels has half the published bandwidths."""
    logits, image = torch.randn(1, 3, 4, 250).double(), torch.rand(1, 3, 4, 250).double()
    scaled = beliefs(image, logits, scale="auto", theta_alpha=20, theta_gamma=3, iterations=2)
    torch.testing.assert_close(scaled, beliefs(image, logits, theta_alpha=10, theta_gamma=1.5, iterations=2))


def test_half_precision_is_computed_in_single(tiny_model: SegmentationModel) -> None:
    logits, image = torch.randn(1, 3, 6, 8), torch.rand(1, 3, 6, 8)
    single = Crf(Saying(logits.bfloat16().float()), iterations=2)(image.bfloat16().float())
    half = Crf(Saying(logits.bfloat16()), iterations=2)(image.bfloat16())
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, single.bfloat16())


@pytest.mark.parametrize("preset", list(PRESETS))
def test_a_preset_is_its_numbers(tiny_model: SegmentationModel, preset: str) -> None:
    spelled = Crf(tiny_model, **PRESETS[preset])
    assert Crf(tiny_model, preset=preset).identity == spelled.identity


def test_published_numbers() -> None:
    words = CrfSettings(preset="deeplab-resnet").words
    assert words == (
        "iterations=10,theta_alpha=67,theta_beta=3,theta_gamma=1,w_bilateral=4,w_spatial=3,normalisation=after,"
        "self_term=true,method=auto,side=1,scale=none,clip=0,image_gradient=true"
    )


@pytest.mark.parametrize(
    "other",
    ["iterations=4", "theta_beta=2", "self_term=false", "method=cells", "side=0.5", "scale=auto", "clip=1e-5",
     "image_gradient=false", "normalisation=mean", "w_spatial=2.5"],
)  # fmt: skip
def test_every_setting_is_part_of_the_identity(other: str) -> None:
    plain = resolve_model("crf:iterations=5:streets/enet")
    assert resolve_model(f"crf:{other}:streets/enet").identity != plain.identity


def test_two_spellings_are_one_identity() -> None:
    one = resolve_model("crf:preset=crfrnn,theta_alpha=160.0,side=1/1:streets/enet")
    assert one.identity == resolve_model("crf:streets/enet").identity


def test_an_address_loads_and_nests() -> None:
    model = load_model("crf:iterations=1,method=cells:multiscale:scales=0.5+1:streets/enet")
    assert isinstance(model, Crf)
    images = torch.rand(1, 3, 32, 64)
    assert model(images).shape == (1, model.num_classes, 32, 64)


def test_parameters_are_in_the_identity_by_content(tmp_path: Path, tiny_model: SegmentationModel) -> None:
    def saved(name: str, weight: float) -> str:
        tensors = {"compatibility": torch.eye(3), "w_bilateral": torch.full((3,), weight), "w_spatial": torch.ones(3)}
        save_file(tensors, tmp_path / name)
        return str(tmp_path / name)

    first, copy, other = (Crf(tiny_model, parameters=saved(*each)) for each in (("a", 1.0), ("b", 1.0), ("c", 2.0)))
    assert first.identity == copy.identity != other.identity


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"theta_beta": 0}, r"theta_beta of crf: must be greater than 0, not 0\."),
        ({"theta_alpha": -1}, r"theta_alpha of crf: must be greater than 0"),
        ({"iterations": -1}, r"iterations of crf: must be a whole number of at least 0"),
        ({"iterations": 1.5}, r"whole number"),
        ({"w_spatial": float("nan")}, r"w_spatial of crf: must be finite"),
        ({"preset": "crfrn"}, r"did you mean 'crfrnn'"),
        ({"normalisation": "row"}, r"unknown normalisation of crf: 'row'"),
        ({"method": "lattice"}, r"unknown method of crf: 'lattice'"),
        ({"method": "exact", "side": 1}, r"takes no side"),
        ({"side": 5}, r"at most 4 standard deviations, not 5"),
        ({"clip": 1}, r"probability in \[0, 1\)"),
        ({"parameters": "nowhere"}, r"'nowhere' cannot be read"),
        ({"parameters": "nowhere", "w_spatial": 1}, r"give no others beside it"),
    ],
)
def test_bad_settings_are_refused(tiny_model: SegmentationModel, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        Crf(tiny_model, **given)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"compatibility": torch.ones(3, 2)}, r"'compatibility' .* has shape \(3, 2\); 3 classes need \(3, 3\)\."),
        ({"w_spatial": torch.ones(4)}, r"'w_spatial' .* has shape \(4,\); 3 classes need \(3,\)\."),
        ({"w_bilateral": torch.full((3,), torch.inf)}, r"NaN or infinite"),
        ({"w_bilateral": None}, r"lack the tensor 'w_bilateral'"),
    ],
)
def test_bad_parameters_are_refused(
    tiny_model: SegmentationModel, tmp_path: Path, changed: dict[str, torch.Tensor | None], sentence: str
) -> None:
    right = {"compatibility": torch.eye(3), "w_bilateral": torch.ones(3), "w_spatial": torch.ones(3)}
    tensors = {name: value for name, value in (right | changed).items() if value is not None}
    save_file(tensors, tmp_path / "parameters.safetensors")
    with pytest.raises(GauntletError, match=sentence):
        Crf(tiny_model, parameters=str(tmp_path / "parameters.safetensors"))


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_images_outside_the_range_are_refused(tiny_model: SegmentationModel, value: float) -> None:
    images = torch.full((1, 3, 4, 4), 0.5)
    images[0, 1, 2, 3] = value
    with pytest.raises(GauntletError, match=r"takes images in \[0, 1\], not "):
        Crf(tiny_model)(images)


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_logits_that_are_not_finite_are_refused(value: float) -> None:
    logits = torch.zeros(1, 3, 4, 4)
    logits[0, 1, 2, 3] = value
    with pytest.raises(GauntletError, match="gave NaN or infinite logits to 'crf:'"):
        Crf(Saying(logits))(torch.rand(1, 3, 4, 4))


def test_exact_beyond_its_bound_is_refused(tiny_model: SegmentationModel) -> None:
    with pytest.raises(
        GauntletError, match=r"512x1024 pixels takes 1024 GiB, and less than 4 are kept; use method=cells\."
    ):
        Crf(tiny_model, method="exact")(torch.zeros(1, 3, 512, 1024))

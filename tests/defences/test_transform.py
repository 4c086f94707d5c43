"""transform: against the reference values; draws, gradients, bad input."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from defence_cases import (
    REFERENCE,
    assert_record,
    gradient_record,
    image_record,
    images,
    labels,
    logit_record,
    model,
    weighted_sum,
)
from gauntlet.defences import MultiscaleModel, TransformedModel
from gauntlet.defences.transform import KINDS, TransformSettings
from gauntlet.defences.transformations.hsv import hsv_jitter, to_hsv, to_rgb
from gauntlet.defences.transformations.jpeg import jpeg
from gauntlet.errors import GauntletError
from gauntlet.models import SegmentationModel, resolve_model
from gauntlet.models.randomness import AttackDraws, Draws, EvaluationDraws, drawing, random_parts
from gauntlet.seeding import ImageSeed, numpy_generator
from gauntlet.threats import attacks

TRANSFORMS = REFERENCE["transforms"]
RANDOM = ("jpeg", "blur", "hsv", "grey")


def _ask(made: SegmentationModel, points: torch.Tensor, draws: Draws) -> torch.Tensor:
    with drawing(random_parts(made), draws):
        logits: torch.Tensor = made(points)
    return logits


def _evaluated(made: SegmentationModel, points: torch.Tensor, ids: str, trial: int = 0) -> torch.Tensor:
    return _ask(made, points, EvaluationDraws([ImageSeed(0, each) for each in ids], trial))


class _Jittered:
    """The fixture's shift of hue, saturation and value before the first network."""

    def __init__(self) -> None:
        n, c, i, j = torch.meshgrid(
            *(torch.arange(size, dtype=torch.float64) for size in (2, 3, 24, 32)), indexing="ij"
        )
        self.shifts = 30 * torch.sin(0.7 * i + 1.1 * j + 2 * c + 0.5 * n)
        self.model = model()

    def images(self, points: torch.Tensor) -> torch.Tensor:
        return hsv_jitter(points, self.shifts)

    def __call__(self, points: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(self.images(points))
        return logits


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("grey w=(0.2,0.5,0.3)", {"kind": "grey", "fixed": "0.2+0.5+0.3"}),
        ("blur sigma=0.4", {"kind": "blur", "fixed": 0.4}),
        ("blur sigma=1.3", {"kind": "blur", "fixed": "1.3"}),
        ("blur sigma=2.0", {"kind": "blur", "sigma": 2}),
    ],
)
def test_fixed_parameters_give_the_values_of_the_reference(name: str, settings: dict[str, Any]) -> None:
    made = TransformedModel(model(), **settings)
    assert_record(image_record(made.transform(images())), TRANSFORMS[name]["image"])
    assert_record(logit_record(made(images())), TRANSFORMS[name]["logits"])


def test_hsv_gives_the_values_of_the_reference() -> None:
    jittered = _Jittered()
    expected = TRANSFORMS["hsv jitter d=30sin(0.7i+1.1j+2c+0.5n)"]
    assert_record(image_record(to_hsv(images())), TRANSFORMS["hsv of the image"])
    assert_record(image_record(jittered.images(images())), expected["image"])
    assert_record(logit_record(jittered(images())), expected["logits"])
    error = float((to_rgb(to_hsv(images())) - images()).abs().max())
    assert error <= 2 * TRANSFORMS["hsv round trip max abs error"]


def test_gradients_are_those_of_the_reference() -> None:
    assert_record(gradient_record(_Jittered()), TRANSFORMS["hsv gradient"])
    blurred = TransformedModel(model(), kind="blur", fixed=1.3)
    assert_record(gradient_record(blurred), TRANSFORMS["blur 1.3 gradient"])
    greyed = TransformedModel(model(), kind="grey", fixed=(0.2, 0.5, 0.3))
    assert_record(gradient_record(greyed), TRANSFORMS["grey gradient"])


@pytest.mark.parametrize("quality", [50, 75, 100])
def test_jpeg_changes_images_as_in_the_reference(quality: int) -> None:
    made = TransformedModel(model(), kind="jpeg", fixed=quality)
    expected = TRANSFORMS[f"jpeg quality={quality}"]
    changed = made.transform(images())
    change = 255 * (changed - images())
    assert float(change.abs().mean()) == pytest.approx(expected["mean_abs_change_levels"], rel=0.05)
    assert float(change.square().mean().sqrt()) == pytest.approx(expected["rms_change_levels"], rel=0.05)
    means = (255 * changed).mean((0, 2, 3)).tolist()
    assert means == pytest.approx(expected["mean_per_channel_levels"], abs=0.3)
    moved = int((made(images()).argmax(1) != model()(images()).argmax(1)).sum())
    assert moved == pytest.approx(expected["argmax_changed"], rel=0.2)


@pytest.mark.parametrize("trial", range(9))
def test_the_draws_are_those_of_the_reference(trial: int) -> None:
    expected = TRANSFORMS["draws"]
    seed = ImageSeed(expected["run_seed"], expected["image_id"])
    if trial == 0:
        assert seed.stream("transform|jpeg|trial|0") == int(expected["stream_of_jpeg_trial_0"])
    draws = EvaluationDraws([seed], trial)
    for kind in RANDOM:
        (number,) = draws.numbers(kind)
        drawn = KINDS[kind].draw(TransformSettings(kind=kind), numpy_generator(number), (24, 32))
        first = drawn[0, 0].tolist() if kind == "hsv" else np.asarray(drawn).tolist()
        assert first == pytest.approx(expected["by_trial"][str(trial)][kind], rel=1e-9)


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "none"},
        {"kind": "blur", "sigma": "0+0"},
        {"kind": "blur", "fixed": 0.0005},
        {"kind": "hsv", "range": 0},
        {"kind": "hsv", "fixed": 0},
    ],
)
def test_strength_0_is_the_model_bit_for_bit(settings: dict[str, Any]) -> None:
    inner = model()
    made = TransformedModel(inner, **settings)
    assert not made.random
    assert torch.equal(made(images()), inner(images()))


@pytest.mark.parametrize("quality", [1, 35, 50, 75, 95, 100])
def test_jpeg_is_what_pillow_writes_and_reads(quality: int) -> None:
    points = torch.rand(1, 3, 37, 51, generator=torch.Generator().manual_seed(quality))
    points[..., :20] = torch.linspace(0, 1, 20)
    stream = io.BytesIO()
    levels = (255 * points[0]).round().to(torch.uint8).permute(1, 2, 0).contiguous().numpy()
    Image.fromarray(levels).save(stream, "JPEG", quality=quality)
    read = torch.from_numpy(np.array(Image.open(stream))).permute(2, 0, 1)
    assert torch.equal((255 * jpeg(points, [quality])[0]).round().to(torch.uint8), read)


@pytest.mark.parametrize("kind", RANDOM)
def test_a_draw_depends_on_the_image_alone(kind: str) -> None:
    made = TransformedModel(model(), kind=kind)
    both = _evaluated(made, images(), "ab")
    swapped = _evaluated(made, images().flip(0), "ba").flip(0)
    alone = torch.cat([_evaluated(made, images()[:1], "a"), _evaluated(made, images()[1:], "b")])
    assert torch.allclose(both, swapped, rtol=0, atol=1e-12)
    assert torch.allclose(both, alone, rtol=0, atol=1e-12)
    assert not torch.allclose(both, _evaluated(made, images(), "ab", trial=1))
    torch.manual_seed(1)
    assert torch.equal(both, _evaluated(made, images(), "ab"))


def test_attacks_and_evaluations_draw_other_numbers_and_every_pass_another() -> None:
    seed = ImageSeed(0, "a")
    attack = [AttackDraws([seed.stream("attack|pgd")], [index]).numbers("jpeg")[0] for index in range(20)]
    evaluation = [EvaluationDraws([seed], trial).numbers("jpeg")[0] for trial in range(20)]
    assert len({*attack, *evaluation}) == 40


def test_a_random_model_that_is_asked_without_numbers_says_so() -> None:
    made = TransformedModel(model(), kind="jpeg")
    with pytest.raises(GauntletError, match="without seeds"):
        made(images())
    _evaluated(made, images(), "ab")
    with pytest.raises(GauntletError, match="without seeds"):  # the numbers of a pass are for that pass
        made(images())


def test_two_parts_of_the_same_kind_draw_other_numbers() -> None:
    class Recording:
        def __init__(self) -> None:
            self.names: list[str] = []

        def numbers(self, name: str, sample: int | None = None) -> list[int]:
            self.names.append(name)
            return [0, 1]

    recording = Recording()
    inner = TransformedModel(model(), kind="grey")
    _ask(TransformedModel(TransformedModel(inner, kind="jpeg"), kind="grey"), images(), recording)
    assert recording.names == ["grey", "jpeg", "grey 2"]


def test_the_gradient_passes_straight_through_jpeg() -> None:
    made = TransformedModel(model(), kind="jpeg", fixed=60)
    compressed = made.transform(images()).detach()
    assert gradient_record(made)["grad_weighted_sum"] == gradient_record(model(), compressed)["grad_weighted_sum"]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("turn", [180.0, 360.0])
def test_the_hsv_jitter_without_a_gradient_is_the_same_bit_for_bit(kind: torch.dtype, turn: float) -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(2, 3, 8, 40, generator=generator, dtype=kind)
    points[:, :, 0] = points[:, :1, 0]  # grey
    points[:, :, 1], points[:, :, 2] = 0, 1
    points[:, 1, 3], points[:, 1, 4] = points[:, 2, 3], points[:, 0, 4]  # ties
    points[:, :, 5:] = (255 * points[:, :, 5:]).round() / 255
    drawn = 60 * torch.rand(2, 8, 40, 3, generator=generator, dtype=kind) - 30
    for shifts in (drawn.permute(0, 3, 1, 2), 40 * drawn[..., :1].permute(0, 3, 1, 2), drawn.new_full((1,), -30)):
        with_gradient = hsv_jitter(points.clone().requires_grad_(), shifts, turn)
        assert with_gradient.requires_grad
        assert torch.equal(hsv_jitter(points, shifts, turn), with_gradient.detach())


def test_the_hsv_gradient_is_finite_on_grey_black_and_white_pixels() -> None:
    made = TransformedModel(model(), kind="hsv")
    points = torch.stack([torch.full((3, 4, 5), level, dtype=torch.float64) for level in (0.0, 0.5, 1.0)])
    points.requires_grad_(True)
    logits = _evaluated(made, points, "abc")
    (gradient,) = torch.autograd.grad(logits.sum(), points)
    assert torch.isfinite(gradient).all()
    assert float(gradient.abs().sum()) > 0


def test_one_shared_shift_and_degrees() -> None:
    shared = KINDS["hsv"].draw(TransformSettings(kind="hsv", shared=True), numpy_generator(1), (4, 5))
    assert shared.shape == (4, 5, 1)
    assert np.abs(shared).max() <= 30
    hue = to_hsv(images(), 360.0)[:, 0]
    assert torch.allclose(hue, 2 * to_hsv(images())[:, 0])
    turned = TransformedModel(model(), kind="hsv", units="degrees", fixed=20.0).transform(images())
    half = to_hsv(images()) + torch.tensor([10.0, 20, 20], dtype=torch.float64).view(1, 3, 1, 1)
    half = torch.cat([half[:, :1].remainder(180), half[:, 1:].clamp(0, 255)], dim=1)
    assert torch.allclose(turned, to_rgb(half), rtol=0, atol=1e-12)


def test_transformations_chain_by_nesting() -> None:
    inner = TransformedModel(model(), kind="grey", fixed="0.2+0.5+0.3")
    made = TransformedModel(inner, kind="blur", fixed=1.3)
    by_hand = inner(TransformedModel(model(), kind="blur", fixed=1.3).transform(images()))
    assert torch.equal(made(images()), by_hand)
    around = MultiscaleModel(TransformedModel(model(), kind="jpeg"))
    assert around.random
    assert _evaluated(around, images(), "ab").shape == (2, 4, 24, 32)


def test_spellings_of_one_setting_share_an_identity_and_others_do_not() -> None:
    def identity(settings: str) -> str:
        return resolve_model(f"transform:{settings}:streets/enet").identity.digest

    assert (
        identity("kind=jpeg") == identity("kind=jpeg,quality=50+100,trials=9") == identity("kind=jpeg,quality=50.0+100")
    )
    assert identity("kind=jpeg,fixed=75") == identity("kind=jpeg,quality=75") == identity("kind=jpeg,quality=75+75")
    assert identity("kind=hsv,shared") == identity("kind=hsv,shared=true,range=30,units=8bit")
    different = ("kind=jpeg", "kind=jpeg,quality=60+100", "kind=jpeg,trials=3", "kind=jpeg,fixed=75", "kind=blur")
    assert len(set(map(identity, different))) == len(different)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("kind=jpg", "did you mean 'jpeg'"),
        ("kind=jpeg,quality=90+50", "from low to high"),
        ("kind=jpeg,quality=0+50", "from 1 to 100"),
        ("kind=jpeg,quality=50+101", "from 1 to 100"),
        ("kind=jpeg,quality=50.5+60", "whole numbers"),
        ("kind=jpeg,sigma=1", "none of kind=jpeg"),
        ("kind=jpeg,quality=50+100,fixed=75", "either fixed or quality"),
        ("kind=jpeg,fixed=50+75", "fixed of kind=jpeg must be one number"),
        ("kind=blur,fixed=1+2", "fixed of kind=blur must be one number"),
        ("kind=hsv,fixed=10+20+30", "fixed of kind=hsv must be one number"),
        ("kind=blur,sigma=-1+1", "at least 0"),
        ("kind=blur,sigma=2+1", "from low to high"),
        ("kind=blur,sigma=0+1+2", "one number, or a lowest"),
        ("kind=hsv,range=-1", "at least 0"),
        ("kind=hsv,units=hours", "unknown units"),
        ("kind=hsv,shared=perhaps", "true or false"),
        ("kind=grey,fixed=0.5+0.6+0.1", "sum to 1"),
        ("kind=grey,trials=0", "at least 1"),
        ("kind=none,trials=2", "none of kind=none"),
    ],
)
def test_bad_settings_are_one_sentence(settings: str, sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        resolve_model(f"transform:{settings}:streets/enet")


def test_bad_images_are_one_sentence() -> None:
    made = TransformedModel(model(), kind="grey", fixed=(1, 0, 0))
    with pytest.raises(GauntletError, match=r"images in \[0, 1\]"):
        made(images() * 255)
    with pytest.raises(GauntletError, match="reaches 24 pixels, but an image is 24x32"):
        TransformedModel(model(), kind="blur", fixed=6)(images())
    wide = TransformedModel(model(), kind="blur", sigma=(0, 6))
    for seed in range(4):  # whatever is drawn
        draws = AttackDraws([seed] * len(images()), [0] * len(images()))
        with (
            pytest.raises(GauntletError, match="a blur of sigma 6 reaches 24 pixels"),
            drawing(random_parts(wide), draws),
        ):
            wide(images())


@pytest.mark.parametrize("rule", ["sign", "raw"])
def test_expectation_over_three_weightings_is_that_of_the_reference(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five steps of one grey level in 8/255 towards the least likely class of the same, transformed, pass."""
    weightings = [(0.2, 0.5, 0.3), (0.7, 0.1, 0.2), (0.1, 0.3, 0.6)]
    drawn: list[int] = []

    def draw(*_: Any) -> np.ndarray:
        drawn.append(len(drawn) // 2 % 3)  # two images a pass
        return np.array(weightings[drawn[-1]])

    monkeypatch.setattr(KINDS["grey"], "draw", draw)
    attack = attacks.build("ifgsm-ll", epsilon="8/255", alpha="1/255", steps=5, samples=3, rule=rule)
    inner = model()
    outcome = attack(TransformedModel(inner, kind="grey"), images(), labels())
    expected = TRANSFORMS["eot over three grey weightings"][f"{rule}/transformed"]
    change = outcome.images - images()
    assert len(drawn) == 5 * 3 * 2
    assert float(change.abs().sum()) == pytest.approx(expected["sum_abs_delta"], rel=1e-9)
    assert weighted_sum(change) == pytest.approx(expected["weighted_sum"], rel=1e-7)
    changed = int((inner(outcome.images).argmax(1) != inner(images()).argmax(1)).sum())
    assert changed == expected["argmax_changed"]


@pytest.mark.parametrize("rule", ["sign", "raw"])
def test_expectation_with_targets_of_untransformed_iterates_is_that_of_the_reference(rule: str) -> None:
    """The other reading of the paper, by hand: what the attack above is compared with in docs/defences.md."""
    inner, epsilon, level = model(), 8 / 255, 1 / 255
    greys = [TransformedModel(inner, kind="grey", fixed=each) for each in ("0.2+0.5+0.3", "0.7+0.1+0.2", "0.1+0.3+0.6")]
    points = images()
    for _ in range(5):
        target = inner(points).argmin(1)
        inputs = points.clone().requires_grad_(True)
        losses = [torch.nn.functional.cross_entropy(each(inputs), target, reduction="sum") for each in greys]
        (gradient,) = torch.autograd.grad(torch.stack(losses).mean(), inputs)
        moved = points - level * (gradient.sign() if rule == "sign" else gradient)
        points = torch.minimum(torch.maximum(moved, images() - epsilon), images() + epsilon).clamp(0, 1)
    expected = TRANSFORMS["eot over three grey weightings"][f"{rule}/untransformed"]
    assert float((points - images()).abs().sum()) == pytest.approx(expected["sum_abs_delta"], rel=1e-9)
    assert weighted_sum(points - images()) == pytest.approx(expected["weighted_sum"], rel=1e-7)
    changed = int((inner(points).argmax(1) != inner(images()).argmax(1)).sum())
    assert changed == expected["argmax_changed"]

"""Prepared models compute the same function, faster; the user's own module is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parametrizations

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import DetectionModel, SegmentationModel, wrap_model
from gauntlet.models.preparation import choose_steps, choosing, parse_steps, prepare
from gauntlet.models.preparation.folding import FixedLeakyReLU, FixedPReLU, Foldable, ScaleAndShift, fold, foldables
from gauntlet.threats import build_threat
from tiny import TinyDataset


def lively_norm(channels: int, **options: bool) -> nn.BatchNorm2d:
    """A batch norm that does something."""
    norm = nn.BatchNorm2d(channels, **options)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    nn.init.normal_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    if norm.affine:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return norm


class Joined(nn.Module):
    """A block whose normalisation follows a concatenation, beside one whose convolution is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 1)
        self.joint = lively_norm(8)
        self.twice = nn.Conv2d(8, 8, 1, bias=False)
        self.norm = lively_norm(8)
        self.plain = nn.Conv2d(8, 5, 3, padding=1, bias=False)
        self.last = lively_norm(5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        joined = torch.relu(self.joint(torch.cat((self.left(images), self.right(images)), 1)))
        used = self.twice(joined)
        result: torch.Tensor = self.last(self.plain(self.norm(used) + used))
        return result


class Branching(nn.Module):
    """A module that tracing cannot follow, around one that it can."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), lively_norm(4), nn.PReLU())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if images.sum() > 0:
            images = images * 2
        result: torch.Tensor = self.body(images)
        return result


def assert_same_function(module: nn.Module, size: tuple[int, int] = (9, 12)) -> None:
    """Folded, a module gives the same outputs and gradients to 1e-5 of the largest."""
    module = module.eval().requires_grad_(False)
    images = torch.rand(2, 3, *size, requires_grad=True)
    expected = module(images)
    (slope,) = torch.autograd.grad(expected.square().sum(), images)
    fold(module)
    assert not [each for each in module.modules() if isinstance(each, nn.BatchNorm2d)]
    output = module(images)
    (folded,) = torch.autograd.grad(output.square().sum(), images)
    assert torch.allclose(output, expected, rtol=0, atol=1e-5 * float(expected.detach().abs().max()))
    assert torch.allclose(folded, slope, rtol=0, atol=1e-4 * float(slope.abs().max()))


@settings(deadline=None, max_examples=25)
@given(
    groups=st.sampled_from([1, 3]),
    width=st.integers(1, 4),
    transposed=st.booleans(),
    bias=st.booleans(),
    affine=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_a_folded_convolution_is_the_same_function(
    groups: int, width: int, transposed: bool, bias: bool, affine: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    kind = nn.ConvTranspose2d if transposed else nn.Conv2d
    convolution = kind(3, groups * width, 3, stride=2, groups=groups, bias=bias)
    assert_same_function(nn.Sequential(convolution, lively_norm(groups * width, affine=affine), nn.PReLU()))


def test_only_a_norm_that_alone_takes_the_output_is_folded_the_others_become_scale_and_shift() -> None:
    module = Joined().eval()
    assert list(foldables(module)) == [Foldable(("left", "right"), "joint"), Foldable(("plain",), "last")]
    assert_same_function(module)
    assert isinstance(module.joint, nn.Identity)
    assert isinstance(module.norm, ScaleAndShift)
    assert isinstance(module.last, nn.Identity)


def test_convolutions_side_by_side_are_folded_only_if_nothing_else_takes_one_of_them() -> None:
    class Taken(Joined):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            left = self.left(images)
            result: torch.Tensor = self.joint(torch.cat((left, self.right(images)), 1)) + left.mean()
            return result

    module = Taken().eval()
    assert list(foldables(module)) == []
    assert_same_function(module)
    assert isinstance(module.joint, ScaleAndShift)


def test_a_slope_per_channel_has_the_gradient_of_torch() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.PReLU(3))
    module[0].weight.data = torch.tensor([0.3, 0.8, -0.2])  # lerp has a branch at a half
    assert_same_function(module)
    assert isinstance(module[0], FixedPReLU)


def test_a_slope_per_channel_has_a_gradient_in_half_precision() -> None:
    """Under autocast features are bfloat16 and the slope is not."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.PReLU(4), nn.Conv2d(4, 2, 1))
    gradients = []
    for folded in (False, True):
        if folded:
            fold(network)
        images = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            value = network(images)
        gradients.append(torch.autograd.grad(value.float().sum(), images)[0])
    assert isinstance(network[1], FixedPReLU)
    assert torch.allclose(gradients[0], gradients[1], rtol=0.02, atol=0.02)


def test_inside_a_module_that_cannot_be_traced_blocks_are_still_found() -> None:
    module = Branching().eval()
    assert list(foldables(module)) == [Foldable(("body.0",), "body.1")]
    assert_same_function(module)
    assert isinstance(module.body[2], FixedLeakyReLU)


def test_a_convolution_called_twice_or_with_a_computed_kernel_is_left_alone() -> None:
    shared = nn.Conv2d(3, 3, 1)
    twice = nn.Sequential(shared, lively_norm(3), shared, lively_norm(3)).eval()
    computed = nn.Sequential(parametrizations.weight_norm(nn.Conv2d(3, 3, 1)), lively_norm(3)).eval()
    assert list(foldables(twice)) == list(foldables(computed)) == []
    assert_same_function(twice)
    assert_same_function(computed)


def test_a_norm_in_training_mode_is_left_alone() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 1), lively_norm(4))
    fold(module)
    assert isinstance(module[1], nn.BatchNorm2d)


def test_preparing_copies_and_keeps_the_identity() -> None:
    model = wrap_model(Joined(), num_classes=5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    prepared = prepare(model, ("fold", "channels-last"))
    assert prepared.identity == model.identity
    assert prepared is not model
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert prepared.get_parameter("module.plain.weight").is_contiguous(memory_format=torch.channels_last)
    assert not any(parameter.requires_grad for parameter in prepared.parameters())
    assert prepare(model, ()) is model


def test_steps_are_parsed_in_their_order_and_misspellings_are_told() -> None:
    assert parse_steps("channels-last, fold") == ("fold", "channels-last")
    assert parse_steps("off") == ()
    assert parse_steps("auto") is None
    with pytest.raises(GauntletError, match="did you mean 'channels-last'"):
        parse_steps("fold,channel-last")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "preparations.json"


@pytest.fixture
def model() -> SegmentationModel:
    torch.manual_seed(0)
    return wrap_model(Joined(), num_classes=5)


def timed(monkeypatch: pytest.MonkeyPatch, seconds: list[float]) -> None:
    """Every pass of the candidate of one position takes the given time."""
    calls = iter(seconds * choosing.ROUNDS)
    monkeypatch.setattr(choosing, "_seconds", lambda run, device: next(calls))


def test_the_fastest_candidate_is_chosen_and_remembered(
    own_cache: Path, model: SegmentationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed(monkeypatch, [1.0, 0.7, 0.9, 0.8])
    assert choose_steps(model, (16, 16), 2) == ("fold",)
    assert list(json.loads(own_cache.read_text()).values()) == [["fold"]]
    monkeypatch.setattr(choosing, "_seconds", lambda run, device: pytest.fail("it was measured again"))
    assert choose_steps(model, (16, 16), 2) == ("fold",)


def test_a_gain_within_the_noise_keeps_the_plainer_candidate(
    own_cache: Path, model: SegmentationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed(monkeypatch, [1.0, 0.98, 0.99, 0.975])
    assert choose_steps(model, (16, 16), 2) == ()


def test_a_preparation_that_changes_the_function_is_never_chosen(
    own_cache: Path, model: SegmentationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(module: nn.Module) -> None:
        with torch.no_grad():
            module.get_parameter("module.plain.weight").mul_(1.1)

    def broken(module: nn.Module) -> None:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr("gauntlet.models.preparation.steps.STEPS", {"fold": wrong, "channels-last": broken})
    timed(monkeypatch, [1.0])
    assert choose_steps(model, (16, 16), 2) == ()


@pytest.mark.parametrize(
    ("moved", "classes", "accepted"), [(0, 5, True), (5, 5, True), (6, 5, False), (6, 1, False), (256, 1, False)]
)
def test_a_few_outputs_of_every_class_may_move_as_they_do_where_maxima_tie(
    own_cache: Path, model: SegmentationModel, monkeypatch: pytest.MonkeyPatch, moved: int, classes: int, accepted: bool
) -> None:
    class Moving(nn.Module):
        def forward(self, logits: torch.Tensor) -> torch.Tensor:
            change = torch.zeros(logits[0].flatten(1).shape)
            change[:classes, :moved] = 0.1
            return logits + change.view(logits.shape[1:]) * logits.detach().abs().max()

    def move(module: nn.Module) -> None:
        module.get_submodule("module").last = nn.Sequential(module.get_submodule("module.last"), Moving())

    assert model(torch.rand(1, 3, 16, 16)).shape[1:] == (5, 16, 16)  # two in a hundred of a class are 5.1
    monkeypatch.setattr("gauntlet.models.preparation.steps.STEPS", {"fold": move})
    timed(monkeypatch, [1.0, 0.5, 1.0, 1.0] if accepted else [1.0, 1.0])
    assert choose_steps(model, (16, 16), 2) == (("fold",) if accepted else ())


def test_a_damaged_or_unwritable_cache_only_costs_the_measurement(
    own_cache: Path, model: SegmentationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache.parent.mkdir()
    own_cache.write_text("{not json")
    timed(monkeypatch, [1.0, 0.7, 0.9, 0.8])
    assert choose_steps(model, (16, 16), 2) == ("fold",)
    own_cache.unlink()
    own_cache.mkdir()  # a folder in the place of the file: it can be neither read nor replaced
    timed(monkeypatch, [1.0, 0.9, 0.7, 0.8])
    assert choose_steps(model, (16, 16), 2) == ("channels-last",)


@pytest.mark.parametrize(
    "name",
    ["streets/enet", "streets/pspnet", "streets/segformer", "streets/fcos", "streets/detr", "streets/faster-rcnn"],
)
def test_shipped_models_prepared_give_the_same_outputs(name: str) -> None:
    model = gauntlet.load_model(name)
    prepared = prepare(model, ("fold", "channels-last"))
    images = torch.rand(1, 3, 64, 128, generator=torch.Generator().manual_seed(0))
    if isinstance(model, DetectionModel):
        assert isinstance(prepared, DetectionModel)
        output, expected = prepared.candidates(images).scores, model.candidates(images).scores
    else:
        output, expected = prepared(images), model(images)
    assert torch.allclose(output, expected, rtol=0, atol=1e-4 * float(expected.detach().abs().max()))


class Doubling(nn.BatchNorm2d):
    """A batch norm that does more than its name says."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(features)


class Peeking(nn.Module):
    """Uses a kernel besides the module that holds it."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 3, 1, bias=False), lively_norm(3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        again = nn.functional.conv2d(images, self.convolution.weight)
        result: torch.Tensor = self.norm(self.convolution(images)) + again
        return result


class Shared(Branching):
    """Below a module that cannot be traced, one convolution stands in two sequences."""

    def __init__(self) -> None:
        super().__init__()
        shared = nn.Conv2d(3, 3, 1)
        self.body = nn.Sequential(nn.Sequential(shared, lively_norm(3)), nn.Sequential(shared, lively_norm(3)))


class Beside(Branching):
    """Below a module that cannot be traced, a convolution is used alone too: only its outputs tell."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = super().forward(images) + self.body[0](images)
        return result


def test_what_folding_would_change_is_left_alone() -> None:
    hooked = nn.Sequential(nn.Conv2d(3, 3, 1), lively_norm(3)).eval()
    hooked[1].register_forward_hook(lambda module, inputs, output: output + 1)
    doubled = nn.Sequential(nn.Conv2d(3, 3, 1), Doubling(3)).eval()
    for module in (hooked, doubled, Peeking().eval(), Shared().eval()):
        assert list(foldables(module)) == []
        images = torch.rand(1, 3, 6, 6)
        expected = module(images)
        fold(module)
        assert torch.allclose(module(images), expected, atol=1e-5)


def test_a_fold_that_was_asked_for_and_changes_the_function_is_refused(own_cache: Path) -> None:
    model = wrap_model(Beside(), num_classes=4)
    attack = {"attack": {"name": "bim", "steps": 1}}
    data = TinyDataset(2, sizes=((8, 12),))
    data.class_names = ("a", "b", "c", "d")
    with pytest.raises(GauntletError, match="the preparation 'fold' changes what 'Beside' computes; use --prepare off"):
        gauntlet.evaluate(model, data, attack, prepare="fold")
    chosen = gauntlet.evaluate(model, data, attack, prepare="auto").provenance["preparation"]
    assert "fold" not in chosen


def test_a_remembered_choice_is_checked_for_another_network_with_the_same_weights(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    plain, beside = Branching(), Beside()
    beside.load_state_dict(plain.state_dict())
    models = [wrap_model(each, num_classes=4, name="one") for each in (plain, beside)]
    assert models[0].identity.digest == models[1].identity.digest
    monkeypatch.setattr(choosing, "_machine_key", lambda *_: "the same")
    timed(monkeypatch, [1.0, 0.7, 0.9, 0.8])
    assert choose_steps(models[0], (16, 16), 2) == ("fold",)
    timed(monkeypatch, [1.0, 0.9])  # fold is not the same function here: two candidates are left
    assert choose_steps(models[1], (16, 16), 2) == ("channels-last",)


def test_a_choice_is_remembered_for_layers_images_of_a_pass_and_the_processor() -> None:
    torch.manual_seed(0)
    plain, beside = Branching(), Beside()
    beside.load_state_dict(plain.state_dict())
    one, other = (wrap_model(each, num_classes=4, name="one") for each in (plain, beside))
    keys = [choosing._machine_key(model, (16, 16), count) for model in (one, other) for count in (1, 4)]
    assert len(set(keys)) == 4
    assert choosing.processor() in keys[0]


def test_passes_of_cuda_graphs_leave_earlier_results_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a replay that writes where the one before it wrote, as on a GPU."""
    places: dict[str, torch.Tensor] = {}

    class Replayed(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, images: torch.Tensor) -> torch.Tensor:
            return places.setdefault("logits", torch.empty_like(images)).copy_(images).mul_(2)

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
            return places.setdefault("gradient", torch.empty_like(gradient)).copy_(gradient).mul_(2)

    def compiled(model: nn.Module, **options: str) -> None:
        assert options == {"mode": "reduce-overhead"}
        model._compiled_call_impl = Replayed.apply

    monkeypatch.setattr(nn.Module, "compile", compiled)
    model = prepare(wrap_model(nn.Identity(), num_classes=3).freeze(), ["cuda-graphs"])
    kept = []
    for level in (1.0, 3.0):
        images = torch.full((1, 3, 4, 4), level).requires_grad_()
        logits = model(images)
        kept += [logits.detach(), *torch.autograd.grad(logits, images, torch.full_like(logits, level))]
    assert [float(each.max()) for each in kept] == [2, 2, 6, 6]


def test_a_battery_is_prepared_for_single_images() -> None:
    battery = {"name": "semsegbench", "epsilon": "8/255"}
    assert build_threat({"battery": battery}).images_per_pass(4) == 1
    assert build_threat({"battery": {**battery, "together": True}}).images_per_pass(4) == 4
    assert build_threat({"attack": {"name": "pgd"}}).images_per_pass(4) == 4


class Flat(nn.Module):
    """A network without a gradient."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.detach().round()


def test_a_model_that_cannot_be_timed_is_left_to_the_attack(own_cache: Path) -> None:
    model = wrap_model(Flat(), num_classes=3)
    assert choose_steps(model, (8, 12), 1) == ()
    assert not own_cache.exists()
    with pytest.raises(GauntletError, match="straight_through"):
        gauntlet.evaluate(model, TinyDataset(1, sizes=((8, 12),)), {"attack": {"name": "bim", "steps": 1}})

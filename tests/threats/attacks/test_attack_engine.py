"""What the engine does around an attack: counting, compaction, expectation, precision, leaving the model alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attack_fixture import CLASSES, EPSILON, IMAGES, LABELS, VOID_LABELS, Recorder, correct, network
from torch import nn

from gauntlet.errors import GauntletError
from gauntlet.threats.attacks import PixelLoss, attacks, build, losses, register, straight_through
from gauntlet.threats.attacks.algorithms.gradient import GradientAttack, arnab_steps
from gauntlet.threats.attacks.engine.losses import jensen_shannon, rare_classes_first
from gauntlet.threats.attacks.engine.pixels import Pixels
from gauntlet.threats.attacks.engine.step_rules import AmsGrad


@pytest.mark.parametrize(
    ("name", "options", "forward", "backward"),
    [
        ("fgsm", {}, 1, 1),
        ("fgsm-ll", {}, 2, 1),  # one pass finds the target
        ("pgd", {"steps": 5}, 5, 5),
        ("pgd", {"steps": 5, "returns": "best"}, 6, 5),
        ("apgd", {"steps": 10}, 11, 10),
        ("sea-mce", {"steps": 10}, 13, 10),
        ("pdpgd", {"steps": 4}, 4, 4),
        ("alma-prox", {"steps": 4}, 4, 4),
        ("bim", {"steps": 3, "samples": 4}, 12, 12),
        ("dag", {"steps": 4, "alpha": 1e-5}, 5, 4),
    ],
)
def test_queries(name: str, options: dict[str, Any], forward: int, backward: int) -> None:
    recorder = Recorder()
    outcome = build(name, **options)(recorder, IMAGES, LABELS)
    assert outcome.queries.forward.tolist() == [forward, forward] == [len(recorder.seen)] * 2
    assert outcome.queries.backward.tolist() == [backward, backward]


def test_the_last_iterate_is_evaluated_only_when_asked_for() -> None:
    recorder = Recorder()
    outcome = build("bim", steps=2)(recorder, IMAGES, LABELS)
    assert len(recorder.seen) == 2
    assert (256 - outcome.fooled).tolist() == correct(outcome.images)
    assert len(recorder.seen) == 3
    assert outcome.share.tolist() == [actual / 256 for actual in outcome.fooled.tolist()]
    assert len(recorder.seen) == 3


def test_success_is_a_matter_of_the_threshold() -> None:
    outcome = build("bim", threshold=0.44)(network, IMAGES, LABELS)
    assert outcome.fooled.tolist() == [112, 115]
    assert outcome.success.tolist() == [False, True]  # 0.44 * 256 = 112.64


def test_finished_images_leave_the_batch() -> None:
    """An image that is fooled everywhere stops; the other goes on, and both end where they end alone."""
    labels = LABELS.clone()
    labels[0] = (network(IMAGES)[0].argmin(0)).long()  # wrong everywhere from the start
    recorder = Recorder()
    attack = build("pgd", steps=6, returns="best", random_start=False)
    outcome = attack(recorder, IMAGES, labels)
    assert outcome.queries.backward.tolist() == [1, 6]
    assert [len(points) for points in recorder.seen] == [2, 1, 1, 1, 1, 1, 1]
    assert torch.equal(outcome.images[0], IMAGES[0])
    assert outcome.success.tolist() == [True, False]
    alone = attack(network, IMAGES[1:], labels[1:])
    assert torch.equal(alone.images[0], outcome.images[1])
    for name in ("apgd", "sea-jsd"):
        recorder = Recorder()
        actual = build(name, steps=10, random_start=False)(recorder, IMAGES, labels)
        assert {len(points) for points in recorder.seen} == {1, 2}
        assert actual.queries.backward[0] < actual.queries.backward[1]


def test_dag_stops_per_image() -> None:
    outcome = build("dag", alpha=0.003)(network, IMAGES, LABELS)
    assert outcome.queries.backward[0] != outcome.queries.backward[1]
    assert (outcome.queries.backward < 200).all()


class Guarded(nn.Module):
    """Dropout and batch normalisation, both of which behave differently while training."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Dropout(0.5), nn.Conv2d(8, 5, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.body(images)
        return logits


def test_the_model_is_left_as_it_was() -> None:
    model = Guarded()
    model.body[1].eval()
    state = {key: value.clone() for key, value in model.state_dict().items()}
    images, labels = IMAGES.float(), LABELS
    attack = build("bim", steps=3)
    first = attack(model, images, labels).images
    assert model.training
    assert model.body[2].training
    assert not model.body[1].training
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    second = attack(model.eval(), images, labels).images
    assert torch.equal(first, second), "the attack sees the model in eval mode"


def test_the_model_is_restored_after_an_error() -> None:
    model = Guarded()
    with pytest.raises(GauntletError):
        build("bim")(model, IMAGES.float(), torch.full_like(LABELS, 9))
    assert model.training


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_gradients_are_switched_on(context: Any) -> None:
    expected = build("apgd", steps=4)(network, IMAGES, LABELS).images
    with context():
        images = IMAGES.clone()
        assert torch.equal(build("apgd", steps=4)(network, images, LABELS).images, expected)


def test_the_global_random_state_is_left_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    build("pgd", steps=2)(network, IMAGES, LABELS)
    assert torch.equal(torch.rand(3), expected)


def test_a_random_model_is_repeatable() -> None:
    def noisy(images: torch.Tensor) -> torch.Tensor:
        return network(images + 0.1 * torch.randn_like(images))

    attack = build("bim", steps=3, samples=2)
    assert torch.equal(attack(noisy, IMAGES, LABELS, seed=1).images, attack(noisy, IMAGES, LABELS, seed=1).images)
    assert not torch.equal(attack(noisy, IMAGES, LABELS, seed=1).images, attack(noisy, IMAGES, LABELS, seed=2).images)


def test_samples_are_averaged() -> None:
    """Two samples of a model that alternates between z and 3z give the mean of both gradients."""

    class Alternating:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, images: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            logits = network(images)
            return logits if self.calls % 2 else 3 * logits

    attack = GradientAttack(name="x", rule="raw", steps=1, alpha=1e-3, epsilon=1, loss="dl", samples=2)
    single = GradientAttack(name="x", rule="raw", steps=1, alpha=2e-3, epsilon=1, loss="dl")
    actual = attack(Alternating(), IMAGES, LABELS).images
    assert torch.allclose(actual, single(network, IMAGES, LABELS).images, atol=1e-12)


def test_straight_through() -> None:
    def quantised(images: torch.Tensor) -> torch.Tensor:
        return network((images * 15).round() / 15)

    def passed(images: torch.Tensor) -> torch.Tensor:
        return network(straight_through(lambda values: (values * 15).round() / 15)(images))

    assert torch.equal(quantised(IMAGES), passed(IMAGES))
    stuck = build("bim", epsilon=0.1)(quantised, IMAGES, LABELS)
    assert stuck.details["zero_gradient_share"] == [1.0, 1.0]
    assert torch.equal(stuck.images, IMAGES)
    moved = build("bim", epsilon=0.1)(passed, IMAGES, LABELS)
    wrong = (quantised(moved.images).argmax(1) != LABELS).double().mean()
    assert wrong > (quantised(IMAGES).argmax(1) != LABELS).double().mean() + 0.2
    with pytest.raises(GauntletError, match="keeps the shape"):
        straight_through(lambda values: values[:1])(IMAGES)


def test_gradients_that_are_not_finite_are_left_out_and_counted() -> None:
    def partly_broken(images: torch.Tensor) -> torch.Tensor:
        left = images[..., :1] * 0
        return network(images) + torch.sqrt(left).sum(1, keepdim=True)  # the slope of the root is infinite at 0

    outcome = build("bim", steps=3)(partly_broken, IMAGES, LABELS)
    assert torch.isfinite(outcome.images).all()
    assert torch.equal(outcome.images[..., :1], IMAGES[..., :1])
    assert outcome.details["non_finite_gradients"] == [3 * 3 * 16] * 2
    assert correct(outcome.images) < [200, 200]


def test_infinite_logits_for_impossible_classes_are_allowed() -> None:
    def masked(images: torch.Tensor) -> torch.Tensor:
        logits = network(images)
        return torch.cat([logits, torch.full_like(logits[:, :1], float("-inf"))], 1)

    for name in ("bim", "cospgd", "sea-jsd", "dag"):
        made = build(name, steps=4, epsilon=EPSILON)(masked, IMAGES, LABELS).images
        assert torch.isfinite(made).all()
        assert not torch.equal(made, IMAGES)


def test_fully_void_images_are_returned_clean() -> None:
    labels = VOID_LABELS.clone()
    labels[0] = 255
    for name in ("pgd", "apgd", "dag", "region-aware"):
        outcome = build(name, steps=3)(network, IMAGES, labels)
        assert torch.equal(outcome.images[0], IMAGES[0])
        assert not torch.equal(outcome.images[1], IMAGES[1])
        assert outcome.counted.tolist() == [0, 232]
        assert torch.isnan(outcome.share[0])
    nothing = build("pgd")(network, IMAGES, torch.full_like(LABELS, 255))
    assert torch.equal(nothing.images, IMAGES)
    assert nothing.queries.forward.tolist() == [0, 0]


def test_bfloat16_is_for_the_model_only() -> None:
    model = Guarded().eval()
    images = IMAGES.float()
    outcome = build("bim", steps=5, precision="bf16")(model, images, LABELS)
    assert outcome.images.dtype == torch.float32
    assert (outcome.images - images).abs().max().item() <= EPSILON
    kinds = []

    def spy(values: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(values)
        kinds.append(logits.dtype)
        return logits

    build("bim", steps=1, precision="bf16")(spy, images, LABELS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = build("bim", steps=5)(spy, images, LABELS).images
    assert kinds[0] == torch.bfloat16
    assert set(kinds[1:]) == {torch.float32}
    assert torch.equal(inside, build("bim", steps=5)(model, images, LABELS).images)


def test_visiting_few_images_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cospgd", "apgd", "alma-prox", "pdpgd"):
        expected = build(name, steps=5)(network, IMAGES, VOID_LABELS)
        with monkeypatch.context() as patch:
            patch.setattr("gauntlet.threats.attacks.engine.problem._VISITED_AT_ONCE", 1)
            actual = build(name, steps=5)(network, IMAGES, VOID_LABELS)
        assert torch.equal(actual.images, expected.images)


def test_a_new_attack_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in (attacks, losses):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))  # other tests count what is there
    losses.add("test-squared", PixelLoss(lambda pixels: pixels.cross_entropy**2))
    register("test-squared-pgd", GradientAttack, loss="test-squared", random_start=True)
    attack = build("test-squared-pgd", steps=10)
    assert attack.describe()["loss"] == "test-squared"
    assert sum(correct(attack(network, IMAGES, LABELS).images)) < 400
    with pytest.raises(GauntletError, match="taken"):
        register("test-squared-pgd", GradientAttack)
    assert "test-squared-pgd" in attacks


def test_iteration_rules_of_arnab() -> None:
    assert [arnab_steps(e / 255) for e in (0.25, 0.5, 1, 2, 4, 8, 16, 32)] == [5, 5, 5, 10, 20, 40, 80, 160]
    assert [arnab_steps(e / 255, "kurakin") for e in (0.25, 1, 4, 8, 16, 32)] == [1, 2, 5, 10, 20, 36]
    assert build("ifgsm-ll", epsilon="0.5/255").alpha == 0.5 / 255


def test_jensen_shannon_against_its_definition() -> None:
    logits = network(IMAGES)
    pixels = Pixels(logits, LABELS, LABELS >= 0, False)
    p = torch.softmax(logits, 1)
    q = torch.nn.functional.one_hot(LABELS, CLASSES).permute(0, 3, 1, 2).double()
    middle = (p + q) / 2
    expected = 0.5 * (torch.xlogy(p, p / middle) + torch.xlogy(q, q / middle)).sum(1)
    assert torch.allclose(jensen_shannon(pixels), expected)


def test_jensen_shannon_of_a_saturated_pixel_has_a_finite_gradient() -> None:
    logits = torch.tensor([0.0, 900.0, -900.0], dtype=torch.float32).view(1, 3, 1, 1).requires_grad_(True)
    for label in range(3):
        labels = torch.full((1, 1, 1), label)
        value = jensen_shannon(Pixels(logits, labels, labels >= 0, False)).sum()
        (slope,) = torch.autograd.grad(value, logits)
        assert torch.isfinite(value)
        assert torch.isfinite(slope).all()


def test_rare_classes_weigh_more() -> None:
    labels = torch.zeros(1, 2, 5, dtype=torch.int64)
    labels[0, 0, 0] = 1
    logits = torch.nn.functional.one_hot(labels, 3).permute(0, 3, 1, 2).double()  # all right
    counted = torch.ones_like(labels, dtype=torch.bool)
    counted[0, 1, 4] = False
    weights = rare_classes_first(Pixels(logits, labels, counted, False), 0.0)
    assert weights[0, 0, 0].item() == pytest.approx(8 / 9)  # one pixel of class 1, eight counted ones of class 0
    assert weights[0, 0, 1].item() == pytest.approx(1 / 9)


def test_amsgrad_equals_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    value = torch.nn.Parameter(torch.rand(1, 3, 2, 2, generator=generator, dtype=torch.float64))
    optimiser = torch.optim.Adam([value], lr=0.1, amsgrad=True, maximize=True)
    rule, mine = AmsGrad("linf", value.detach()), value.detach().clone()
    for step in range(6):
        value.grad = torch.randn(value.shape, generator=generator, dtype=torch.float64) * 10.0**-step
        mine = mine + 0.1 * rule.direction(value.grad, step)
        optimiser.step()
        assert torch.allclose(mine, value.detach(), atol=1e-12)


def test_scaled_noise_touches_the_surface() -> None:
    attack = GradientAttack(name="x", random_start=True, noise="scaled", steps=1, alpha=1e-12, box=False)
    shift = attack(network, IMAGES, LABELS).images - IMAGES
    assert shift.flatten(1).abs().amax(1).tolist() == pytest.approx([EPSILON] * 2, rel=1e-6)
    attack = GradientAttack(name="x", random_start=True, norm="l2", epsilon=0.3, steps=1, alpha=1e-12, box=False)
    shift = attack(network, IMAGES, LABELS).images - IMAGES
    assert torch.linalg.vector_norm(shift.flatten(1), dim=1).tolist() == pytest.approx([0.3] * 2, rel=1e-6)


def test_minimum_attacks_report_what_they_found_before_clipping() -> None:
    free = build("fmn", steps=30, threshold=0.9)(network, IMAGES, LABELS)
    clipped = build("fmn", steps=30, threshold=0.9, epsilon="4/255")(network, IMAGES, LABELS)
    assert torch.equal(free.norms, clipped.norms)
    assert torch.equal(free.success, clipped.success)
    assert clipped.unclipped is not None
    assert torch.equal(clipped.unclipped, free.images)
    expected = torch.minimum(torch.maximum(free.images, IMAGES - 4 / 255), IMAGES + 4 / 255)
    assert torch.allclose(clipped.images, expected, atol=1e-15)
    shrunk = build("fmn", steps=30, threshold=0.9, epsilon="4/255", clip="rescale")(network, IMAGES, LABELS).images
    ratio = (4 / 255 / free.norms).view(-1, 1, 1, 1)
    assert torch.allclose(shrunk - IMAGES, (free.images - IMAGES) * ratio, atol=1e-12)


def test_an_already_fooled_image_needs_no_perturbation() -> None:
    labels = network(IMAGES).argmin(1)
    for name, options in (("dag", {}), ("pdpgd", {"steps": 5}), ("fmn", {"steps": 5}), ("alma-prox", {"steps": 5})):
        outcome = build(name, **options)(network, IMAGES, labels)
        assert outcome.success.all()
        assert outcome.norms.tolist() == [0, 0], name


def test_region_aware_with_one_round_is_the_attack() -> None:
    base = build("bim", steps=10, epsilon=0.1, alpha=0.02)
    outcome = build("region-aware", attack=base.describe(), rounds=1)(network, IMAGES, LABELS)
    clean = network(IMAGES).argmax(1)
    aimed = base(network, IMAGES, LABELS, fooling_region=clean == LABELS)
    assert torch.equal(outcome.images, aimed.images)
    after = network(aimed.images).argmax(1)
    assert outcome.predictions is not None
    assert torch.equal(outcome.predictions, torch.where((clean == LABELS) & (after != LABELS), after, clean))


def test_region_aware_gains_with_rounds_and_takes_targets() -> None:
    region = {"square": {"size": 6}}
    fooled = [
        build("region-aware", rounds=rounds, epsilon="32/255", steps=10, region=region)(network, IMAGES, LABELS).fooled
        for rounds in (1, 2, 3)
    ]
    assert (fooled[1] > fooled[0]).all()
    assert (fooled[2] >= fooled[1]).all()
    outcome = build("region-aware", attack="cospgd", steps=5, epsilon=0.3)(network, IMAGES, LABELS, target=0)
    assert outcome.predictions is not None
    assert torch.equal((outcome.predictions == 0).flatten(1).sum(1), outcome.fooled)

"""Properties that hold for any attack, model, mask and label map."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from gauntlet.threats.attacks import build
from gauntlet.threats.attacks.algorithms.primal_dual import shrink_linf
from gauntlet.threats.attacks.engine.constraints import ball, largest_at_most
from gauntlet.threats.attacks.engine.labels import label_map
from gauntlet.threats.attacks.engine.pixels import Pixels

OPTIONS: dict[str, dict[str, Any]] = {
    "fgsm": {},
    "fgsm-ll": {},
    "bim": {"steps": 3},
    "ifgsm-ll": {"steps": 2},
    "pgd": {"steps": 3},
    "segpgd": {"steps": 3, "returns": "best"},
    "cospgd": {"steps": 3, "restarts": 2},
    "mifgsm": {"steps": 3},
    "padam-ce": {"steps": 3},
    "padam-cos": {"steps": 3},
    "apgd": {"steps": 5},
    "sea-jsd": {"steps": 7},
    "sea-mce-bal": {"steps": 7},
    "sea-msl": {"steps": 7},
    "apgd-jsd": {"steps": 7, "radius": "wave", "returns": "best-miou", "loss": "jsd-bal"},
    "dag": {"steps": 3, "alpha": 0.05},
    "pdpgd": {"steps": 3},
    "fmn": {"steps": 3},
    "alma-prox": {"steps": 3},
    "minimal-pgd": {"steps": 2, "rounds": 2},
}
EPSILONS = (0.0, 1e-6, 1 / 255, 0.03, 8 / 255, 0.5, 1.0)


@st.composite
def situations(draw: st.DrawFn) -> dict[str, Any]:
    count, height, width = draw(st.integers(1, 3)), draw(st.integers(3, 8)), draw(st.integers(3, 8))
    classes = draw(st.integers(3, 6))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    images = torch.rand(count, 3, height, width, generator=generator, dtype=torch.float64)
    images = (images * 1.4 - 0.2).clamp(0, 1).to(dtype)  # many pixels on the boundary of the box
    labels = torch.randint(classes, (count, height, width), generator=generator)
    void_share = draw(st.sampled_from([0.0, 0.3, 1.0]))
    labels[torch.rand(labels.shape, generator=generator) < void_share] = 255
    region_share = draw(st.sampled_from([None, 0.0, 0.4]))
    region = None if region_share is None else torch.rand(height, width, generator=generator) < region_share
    kernel = torch.randn(classes, 3, 3, 3, generator=generator, dtype=torch.float64)
    sharpness = draw(st.sampled_from([0.0, 1.0, 1e3]))  # a model without any gradient, a usual one, a saturated one

    def model(points: torch.Tensor) -> torch.Tensor:
        return sharpness * functional.conv2d(points - 0.5, kernel.to(points), padding=1)

    return {"model": model, "images": images, "labels": labels, "region": region, "classes": classes}


@settings(max_examples=60, deadline=None)
@given(
    situations(),
    st.sampled_from(sorted(OPTIONS)),
    st.sampled_from(["linf", "l2"]),
    st.sampled_from(EPSILONS),
    st.booleans(),
)
def test_every_attack_respects_the_threat_model(
    situation: dict[str, Any], name: str, norm: str, epsilon: float, targeted: bool
) -> None:
    if name == "alma-prox":
        norm = "linf"
        targeted = targeted and situation["classes"] >= 4
    if name == "ifgsm-ll":
        targeted = False
    images, labels, region = situation["images"], situation["labels"], situation["region"]
    before = images.clone()
    attack = build(name, norm=norm, epsilon=epsilon, **OPTIONS[name])
    target = 0 if targeted else None
    outcome = attack(situation["model"], images, labels, target=target, region=region, seed=9)
    made = outcome.images
    assert torch.equal(images, before), "the input was changed"
    assert made.shape == images.shape
    assert made.dtype == images.dtype
    assert torch.isfinite(made).all()
    assert made.min() >= 0
    assert made.max() <= 1
    for shift in (made - images, made.double() - images.double()):
        flat = shift.flatten(1)
        size = flat.abs().amax(1) if norm == "linf" else torch.linalg.vector_norm(flat, dim=1)
        assert size.max().item() <= epsilon
    if region is not None:
        assert torch.equal(made[:, :, ~region], images[:, :, ~region])
    empty = (labels == 255).flatten(1).all(1)
    assert torch.equal(made[empty], images[empty])
    assert (outcome.queries.forward[~empty] > 0).all()
    assert outcome.norms.shape == outcome.fooled.shape == outcome.success.shape == (len(images),)
    assert not outcome.success[empty].any()


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(["linf", "l2"]), st.sampled_from(EPSILONS), st.booleans())
def test_balls_are_exact(data: st.DataObject, norm: str, epsilon: float, single: bool) -> None:
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**32)))
    dtype = torch.float32 if single else torch.float64
    images = torch.rand(2, 3, 9, 7, generator=generator, dtype=torch.float64).to(dtype)
    far = (
        torch.randn(images.shape, generator=generator, dtype=torch.float64) * 10 ** data.draw(st.integers(-8, 2))
    ).to(dtype)
    allowed = ball(norm, images, torch.full((2,), epsilon, dtype=torch.float64), None)
    result = allowed.finish(allowed.project(images + far))
    assert torch.equal(result, allowed.finish(result)) or norm == "l2"
    for shift in (result - images, result.double() - images.double()):
        size = shift.abs().max() if norm == "linf" else torch.linalg.vector_norm(shift.flatten(1), dim=1).max()
        assert size.item() <= epsilon
    if norm == "linf":
        wanted = (
            (images.double() + far.double()).clamp(images.double() - epsilon, images.double() + epsilon).clamp(0, 1)
        )
        assert (result.double() - wanted).abs().max() <= 2 * torch.finfo(dtype).eps


@given(st.floats(1e-9, 1.0))
def test_largest_at_most(value: float) -> None:
    actual = largest_at_most(value, torch.float32)
    above = torch.nextafter(torch.tensor(actual), torch.tensor(2.0))
    assert actual <= value < above.item()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 7), st.booleans(), st.booleans())
def test_pixels_agree_with_torch(seed: int, classes: int, ties: bool, targeted: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(2, classes, 4, 5, generator=generator, dtype=torch.float64) * 2
    if ties:
        logits = logits.round()
    labels = torch.randint(classes, (2, 4, 5), generator=generator)
    pixels = Pixels(logits.requires_grad_(True), labels, torch.ones_like(labels, dtype=torch.bool), targeted)
    detached = logits.detach()
    assert torch.equal(label_map(detached), detached.argmax(1))
    expected = functional.cross_entropy(detached, labels, reduction="none")
    assert torch.allclose(pixels.cross_entropy, expected)
    others = detached.scatter(1, labels.unsqueeze(1), float("-inf")).amax(1)
    own = detached.gather(1, labels.unsqueeze(1)).squeeze(1)
    assert torch.equal(pixels.margin, own - others if classes > 1 else torch.ones_like(own))  # nothing to lose to
    assert torch.equal(pixels.fooled, own > others if targeted else own < others)
    count = min(3, classes)
    for rank, values in enumerate(pixels.leading(count)):
        assert torch.equal(values, detached.topk(count, dim=1).values[:, rank])
    (actual,) = torch.autograd.grad(pixels.cross_entropy.sum(), logits, retain_graph=True)
    onehot = functional.one_hot(labels, classes).permute(0, 3, 1, 2)
    assert torch.allclose(actual, torch.softmax(detached, 1) - onehot)
    if not ties and classes > 1:
        (actual,) = torch.autograd.grad(pixels.margin.sum(), logits)
        runner_up = functional.one_hot(detached.scatter(1, labels.unsqueeze(1), float("-inf")).argmax(1), classes)
        assert torch.equal(actual, (onehot - runner_up.permute(0, 3, 1, 2)).double())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.floats(1e-3, 10.0))
def test_proximal_map_of_the_maximum_norm(seed: int, amount: float) -> None:
    """What the map takes away is amount times a projection onto the L1 ball: its L1 norm is min(|v|_1, amount)."""
    values = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    result = shrink_linf(values, torch.full((2, 1, 1, 1), amount, dtype=torch.float64))
    removed = (values - result).abs().flatten(1).sum(1)
    assert torch.allclose(removed, values.abs().flatten(1).sum(1).clamp(max=amount))
    level = result.abs().flatten(1).amax(1).view(-1, 1, 1, 1)
    assert torch.equal(result, torch.minimum(torch.maximum(values, -level), level))


@pytest.mark.parametrize("ignore_index", [255, -1, 4, None])
def test_any_ignore_index(ignore_index: int | None) -> None:
    generator = torch.Generator().manual_seed(0)
    kernel = torch.randn(5, 3, 3, 3, generator=generator, dtype=torch.float64)

    def model(points: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(points - 0.5, kernel, padding=1)

    images = torch.rand(1, 3, 8, 8, generator=generator, dtype=torch.float64)
    truth = torch.randint(4, (1, 8, 8), generator=generator)
    attack = build("bim", steps=3, ignore_index=ignore_index)
    counted = attack(model, images, truth).counted
    assert counted.item() == 64
    if ignore_index is not None:
        marked = truth.clone()
        marked[:, :3] = ignore_index
        outcome = attack(model, images, marked)
        assert outcome.counted.item() == 40
        aim = torch.ones(8, 8, dtype=torch.bool)
        aim[:3] = False
        assert torch.equal(outcome.images, attack(model, images, truth, fooling_region=aim).images)

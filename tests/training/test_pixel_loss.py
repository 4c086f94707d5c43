from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from gauntlet.models.architectures.published.network import HardPixels
from gauntlet.training.pixel_loss import PixelLoss, boundaries, boundary_loss, hardest

LOG2 = math.log(2)


def logits_with(probabilities: list[float]) -> torch.Tensor:
    """(1, 2, 1, P): class 0 has these probabilities."""
    first = torch.tensor(probabilities, dtype=torch.float64)
    return torch.stack((first, 1 - first)).log()[None, :, None]


def test_the_hardest_are_those_below_the_threshold() -> None:
    losses = -torch.tensor([0.9, 0.8, 0.5, 0.25]).log()
    chosen = hardest(losses, HardPixels(threshold=0.7, share=0.25))
    assert chosen.tolist() == pytest.approx([LOG2, 2 * LOG2])


@pytest.mark.parametrize(("share", "kept"), [(0.75, 3), (0.5, 2), (0.01, 2), (1.0, 4)])
def test_a_share_counts_even_where_few_pixels_are_hard(share: float, kept: int) -> None:
    losses = -torch.tensor([0.9, 0.8, 0.5, 0.25]).log()
    assert len(hardest(losses, HardPixels(0.7, share))) == kept


def test_the_loss_of_hard_pixels_by_hand() -> None:
    logits, labels = logits_with([0.5, 0.99, 0.25, 0.1]), torch.tensor([[[0, 0, 0, 255]]])
    loss = PixelLoss(255, hard=HardPixels(0.7, 0.1))(logits, labels)
    assert loss.item() == pytest.approx((LOG2 + 2 * LOG2) / 2)


def test_the_loss_of_all_pixels_is_the_weighted_cross_entropy() -> None:
    logits, labels = logits_with([0.5, 0.25]), torch.tensor([[[0, 1]]])
    loss = PixelLoss(None, weight=torch.tensor([3.0, 1.0]))(logits, labels)
    assert loss.item() == pytest.approx((3 * LOG2 - math.log(0.75)) / 4)


@pytest.mark.parametrize("hard", [None, HardPixels()])
def test_no_labelled_pixel_costs_nothing(hard: HardPixels | None) -> None:
    logits = torch.rand(1, 3, 4, 4, requires_grad=True)
    loss = PixelLoss(255, hard=hard)(logits, torch.full((1, 4, 4), 255))
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_boundaries_are_where_another_label_is_near() -> None:
    labels = torch.tensor([[[0, 0, 0, 0, 1, 1, 1, 1]]])
    assert boundaries(labels, 1)[0, 0].tolist() == [False, False, False, True, True, False, False, False]
    assert boundaries(labels, 2)[0, 0].tolist() == [False, False, True, True, True, True, False, False]
    assert not boundaries(torch.full((1, 5, 5), 7)).any()


def test_both_sides_of_the_boundary_loss_weigh_the_same() -> None:
    labels = torch.zeros(1, 1, 16, dtype=torch.int64)
    labels[..., 8:] = 1  # four of sixteen pixels lie within two of the other label
    logits = torch.full((1, 1, 1, 16), math.log(3.0))  # a boundary with probability 3/4, everywhere
    by_hand = (4 * (12 / 16) * -math.log(0.75) + 12 * (4 / 16) * -math.log(0.25)) / 16
    assert boundary_loss(logits, labels, 255).item() == pytest.approx(by_hand)


def test_ignored_pixels_have_no_boundary_loss() -> None:
    labels = torch.zeros(1, 1, 8, dtype=torch.int64)
    labels[..., 4:] = 255
    logits = torch.zeros(1, 1, 1, 8)
    near, far = logits.clone(), logits.clone()
    far[..., 4:] = 9.0
    assert boundary_loss(near, labels, 255) == boundary_loss(far, labels, 255)
    assert boundary_loss(logits, torch.full_like(labels, 255), 255).item() == 0
    plain = functional.binary_cross_entropy_with_logits(torch.zeros(4), torch.tensor([0.0, 0.0, 1.0, 1.0]))
    assert boundary_loss(logits, labels, 255).item() == pytest.approx(plain.item() / 2)

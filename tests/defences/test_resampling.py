"""Resampling that pools as it goes: the values are torch's own, bit for bit."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from gauntlet.defences import resampling
from gauntlet.defences.contract import is_finite
from gauntlet.defences.resampling import ADD, LARGEST, REPLACE, pour, resampled

SIDES = st.integers(1, 150)


def expected(values: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    return functional.interpolate(values, size=size, mode="bilinear", align_corners=False)


def some(*shape: int, kind: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=kind, generator=torch.Generator().manual_seed(sum(shape)))


@given(height=SIDES, width=SIDES, to_height=SIDES, to_width=SIDES, channels=st.integers(1, 5), count=st.integers(1, 2))
@settings(max_examples=80, deadline=None)
def test_values_at_any_size_are_those_of_torch(
    height: int, width: int, to_height: int, to_width: int, channels: int, count: int
) -> None:
    values = some(count, channels, height, width)
    assert torch.equal(resampled(values, (to_height, to_width)), expected(values, (to_height, to_width)))


@pytest.mark.parametrize("size", [(96, 128), (20, 30), (40, 50)])  # compiled, too small for it, the same size
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("channels", [3, 5])
def test_pouring_pools_with_what_is_there(size: tuple[int, int], layout: torch.memory_format, channels: int) -> None:
    values = some(2, channels, 40, 50).contiguous(memory_format=layout)
    there = some(2, channels, *size)
    seen = expected(values, size)
    for pooling, whole in ((REPLACE, seen), (LARGEST, torch.maximum(there, seen)), (ADD, there + seen)):
        target = there.clone()
        assert pour(values, target, pooling) is target
        assert torch.equal(target, whole)


@pytest.mark.parametrize("broken", ["values", "target"])
def test_the_largest_of_nan_and_a_number_is_nan(broken: str) -> None:
    values, target = some(1, 1, 40, 50), some(1, 1, 96, 128)
    {"values": values, "target": target}[broken][0, 0, 3, 3] = torch.nan
    wrong = torch.maximum(target, expected(values, (96, 128))).isnan()
    assert wrong.any()
    assert torch.equal(pour(values, target, LARGEST).isnan(), wrong)


def test_gradients_and_double_precision_go_through_torch() -> None:
    values = some(1, 2, 40, 50).requires_grad_()
    (gradient,) = torch.autograd.grad(resampled(values, (96, 128)).sum(), values)
    assert gradient.sum() == pytest.approx(2 * 96 * 128, rel=1e-4)
    double = some(1, 2, 40, 50, kind=torch.float64)
    assert torch.equal(resampled(double, (96, 128)), expected(double, (96, 128)))


def test_where_torch_adds_up_in_another_way_it_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    values = some(1, 2, 40, 50)
    monkeypatch.setattr(resampling, "_is_as_torch_does", lambda: False)
    monkeypatch.setattr(resampling, "_pour_compiled", None)
    assert torch.equal(resampled(values, (96, 128)), expected(values, (96, 128)))


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_nan_and_infinities_are_found_and_a_sum_that_overflows_is_none(wrong: float) -> None:
    values = some(1, 2, 8, 8)
    assert is_finite(values)
    assert is_finite(torch.full((4,), 3e38))
    values[0, 0, 0, 0] = wrong
    assert not is_finite(values)
    values[0, 1, 0, 0] = -wrong
    assert not is_finite(values)

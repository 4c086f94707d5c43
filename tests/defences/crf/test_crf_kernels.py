"""The kernels of the CRF: derivatives, the cells against the exact kernel, work in blocks."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gauntlet.defences.crf import cells, neighbours
from gauntlet.defences.crf.blocks import balanced
from gauntlet.defences.crf.cells import CellKernel
from gauntlet.defences.crf.dense import DenseKernel
from gauntlet.defences.crf.falloff import falloff
from gauntlet.defences.crf.mean_field import NORMALISATIONS, NormalisedKernel
from gauntlet.defences.crf.separable import SeparableKernel
from gauntlet.errors import GauntletError


def features_of(pixels: int, spread: float = 2.0, seed: int = 0) -> torch.Tensor:
    return spread * torch.randn(pixels, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def values_of(pixels: int, classes: int = 3) -> torch.Tensor:
    return torch.rand(pixels, classes, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("make", [DenseKernel, functools.partial(CellKernel, side=1.0)])
@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("self_term", [True, False])
def test_derivatives_to_values_and_features_are_those_of_the_function(make, normalisation, self_term) -> None:  # type: ignore[no-untyped-def]
    features = features_of(5, 0.8).requires_grad_()
    values = values_of(5, 2).requires_grad_()

    def heard(values: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        return NormalisedKernel(make(features, self_term=self_term), normalisation, values)(values)

    assert torch.autograd.gradcheck(heard, (values, features), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(("kind", "error"), [(np.float32, 1e-5), (np.float64, 1e-6)])
def test_falloff_is_the_exponential(kind: type[np.floating], error: float) -> None:
    points = np.linspace(0, 20, 2001).astype(kind)
    found = np.array([falloff(point) for point in points])
    np.testing.assert_allclose(found, np.exp(-points.astype(np.float64)), rtol=error)
    assert falloff(kind(1000)) == falloff(kind(40)) < 1e-17


def test_dense_kernel_of_two_pixels() -> None:
    """Features 2 apart: k = exp(-2)."""
    kernel = DenseKernel(torch.tensor([[0.0, 0, 0, 0, 0], [0, 2, 0, 0, 0]], dtype=torch.float64))
    heard = kernel(torch.tensor([[1.0], [10.0]], dtype=torch.float64))
    assert heard.flatten().tolist() == pytest.approx([1 + 10 * np.exp(-2), np.exp(-2) + 10])


@pytest.mark.parametrize("apart", [2.0, 6.0, 12.0, 20.0])
def test_far_neighbours_count_in_full_where_a_pixel_does_not_hear_itself(apart: float) -> None:
    """Three pixels in a row, k = exp(-d²/2) of one step and of two: the middle one hears the mean of its neighbours,
    the first one weighs them 1 to exp(-3 d²/2)."""
    features = torch.zeros(3, 5, dtype=torch.float64)
    features[:, 0] = apart * torch.arange(3)
    values = torch.tensor([[1.0], [10.0], [4.0]], dtype=torch.float64)
    exact = DenseKernel(features, self_term=False)
    spatial = SeparableKernel((1, 3), 1 / apart, values, self_term=False)
    near, far = np.exp(-(apart**2) / 2), np.exp(-2 * apart**2)
    for kernel in (exact, spatial):
        heard = NormalisedKernel(kernel, "after", values)(values).flatten().tolist()
        assert heard == pytest.approx([(10 * near + 4 * far) / (near + far), 2.5, (10 * near + far) / (near + far)])
        mean = NormalisedKernel(kernel, "mean", values)(values).flatten().tolist()
        scale = 3 / (4 * near + 2 * far)
        assert mean == pytest.approx([scale * (10 * near + 4 * far), scale * 5 * near, scale * (10 * near + far)])


def test_a_pixel_alone_hears_nothing_and_has_a_gradient() -> None:
    features = torch.tensor([[0.0] * 5, [1e3] * 5], requires_grad=True)
    for normalisation in NORMALISATIONS:
        heard = NormalisedKernel(DenseKernel(features, self_term=False), normalisation, features)(torch.ones(2, 1))
        assert heard.tolist() == [[0.0], [0.0]]
        (gradient,) = torch.autograd.grad(heard.sum(), features)
        assert gradient.isfinite().all()


def test_dense_kernel_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    features, values = features_of(50).requires_grad_(), values_of(50)
    whole = torch.autograd.grad(DenseKernel(features)(values).square().sum(), features)[0]
    monkeypatch.setattr("gauntlet.defences.crf.dense.CHUNK", 170)  # three rows at once, the last chunk has two
    parts = torch.autograd.grad(DenseKernel(features)(values).square().sum(), features)[0]
    torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)


@settings(deadline=None)
@given(height=st.integers(1, 9), width=st.integers(1, 9), theta=st.floats(0.05, 20), self_term=st.booleans())
def test_separable_kernel_is_the_dense_one_of_positions(height: int, width: int, theta: float, self_term: bool) -> None:
    positions = torch.cartesian_prod(torch.arange(height).double(), torch.arange(width).double()).view(-1, 2) / theta
    values = values_of(height * width)
    exact = DenseKernel(positions, self_term=self_term)(values)
    separable = SeparableKernel((height, width), theta, values, self_term=self_term)(values)
    torch.testing.assert_close(separable, exact, rtol=1e-7, atol=0)


def test_separable_kernel_in_blocks_of_rows() -> None:
    """A side of two blocks and a bit, of which each row reaches only a part."""
    positions = torch.cartesian_prod(torch.arange(150).double(), torch.arange(3).double()) / 1.5
    values = values_of(450, 2).requires_grad_()
    exact, banded = DenseKernel(positions)(values), SeparableKernel((150, 3), 1.5, values.detach())(values)
    torch.testing.assert_close(banded, exact, rtol=1e-13, atol=1e-13)
    weights = torch.linspace(-1, 1, 900, dtype=torch.float64).view(450, 2)
    gradients = [torch.autograd.grad((each * weights).sum(), values)[0] for each in (banded, exact)]
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


@settings(deadline=None, max_examples=25)
@given(pixels=st.integers(1, 60), spread=st.floats(0.1, 30), seed=st.integers(0, 99), classes=st.integers(1, 40))
def test_small_cells_and_a_wide_radius_are_the_exact_kernel(
    pixels: int, spread: float, seed: int, classes: int
) -> None:
    features, values = features_of(pixels, spread, seed), values_of(pixels, classes)
    kernel = CellKernel(features, 1e-2 * spread, radius=9.0)
    torch.testing.assert_close(kernel(values), DenseKernel(features)(values), rtol=1e-5, atol=1e-5)


def test_cells_that_cannot_be_numbered_are_refused() -> None:
    with pytest.raises(GauntletError, match="more cells than can be numbered"):
        CellKernel(features_of(9, 30.0), 1e-3)


@settings(deadline=None, max_examples=25)
@given(pixels=st.integers(1, 60), spread=st.floats(0.1, 30), side=st.floats(0.2, 4), seed=st.integers(0, 99))
def test_pixels_hear_the_cells_near_theirs(pixels: int, spread: float, side: float, seed: int) -> None:
    """Against the definition, written with every pair of a pixel and a cell."""
    features, values = features_of(pixels, spread, seed), values_of(pixels)
    _, cell = torch.unique(torch.floor(features / side + 0.5), dim=0, return_inverse=True)
    member = torch.nn.functional.one_hot(cell).double()  # (P, C)
    centroids = (member.T @ features) / member.sum(0)[:, None]
    near = torch.cdist(centroids, centroids, compute_mode="donot_use_mm_for_euclid_dist") < cells.RADIUS
    weights = torch.exp(-(features[:, None] - centroids).square().sum(-1) / 2) * near[cell]
    torch.testing.assert_close(CellKernel(features, side)(values), weights @ (member.T @ values), rtol=1e-5, atol=1e-6)


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    features, values = features_of(400).requires_grad_(), values_of(400).requires_grad_()

    def computed() -> list[torch.Tensor]:
        heard = CellKernel(features, 1.0)(values)
        return [heard, *torch.autograd.grad(heard.square().sum(), (values, features))]

    one = computed()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert all(torch.equal(*pair) for pair in zip(one, computed(), strict=True))


@given(costs=st.lists(st.integers(1, 50), min_size=1, max_size=40), count=st.integers(1, 16))
def test_blocks_hold_everything_once(costs: list[int], count: int) -> None:
    blocks = balanced(np.array(costs), count)
    assert [index for first, last in blocks for index in range(first, last)] == list(range(len(costs)))
    assert len(blocks) <= count
    assert all(first < last for first, last in blocks)


def test_too_many_neighbours_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "LARGEST_LIST", 100)
    with pytest.raises(GauntletError, match=r"larger side\.$"):
        CellKernel(features_of(200, 0.5), 0.1)

"""The procedural frost textures against the figures of docs/specs/corruptions.md, section 3.1."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from gauntlet.threats.corruptions.textures import BAND_SIGMAS, CLASSES, DRAW_ORDER, frost_texture


@pytest.mark.parametrize("kind", list(CLASSES))
def test_texture_has_the_figures_of_its_class(kind: str) -> None:
    target = CLASSES[kind]
    texture = frost_texture(kind)
    assert texture.dtype == np.uint8
    assert texture.shape == (*target.shape, 3)
    pixels = texture.astype(float)
    np.testing.assert_allclose(pixels.mean(axis=(0, 1)), target.means, atol=1)
    np.testing.assert_allclose(pixels.std(axis=(0, 1)), target.deviations, atol=1)
    grey = pixels @ [0.299, 0.587, 0.114]
    smoother = [grey, *(gaussian_filter(grey, sigma, mode="reflect") for sigma in BAND_SIGMAS)]
    bands = [fine - coarse for fine, coarse in pairwise(smoother)]
    for band, expected in zip(bands[:6], target.bands, strict=False):
        assert band.std() == pytest.approx(expected, rel=0.15)
    assert smoother[-1].std() == pytest.approx(target.bands[-1], rel=0.1)
    finest = bands[0]
    assert (finest**4).mean() / (finest**2).mean() ** 2 > 3.5  # sparser than Gaussian noise


@pytest.mark.parametrize(("kind", "step"), [("A", 7.6), ("B", 7.9), ("C", 13.2), ("D", 17.4)])
def test_texture_is_as_rough_as_the_photograph(kind: str, step: float) -> None:
    grey = frost_texture(kind).astype(float) @ [0.299, 0.587, 0.114]
    assert np.abs(np.diff(grey, axis=1)).mean() == pytest.approx(step, rel=0.1)


def test_classes_are_drawn_as_often_as_the_photographs() -> None:
    assert [DRAW_ORDER.count(kind) for kind in CLASSES] == [1, 2, 1, 1]

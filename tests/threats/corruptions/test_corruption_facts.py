"""Facts about single corruptions that a usual mistake would break (docs/specs/corruptions.md, sections 2 and 7.4)."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from corruption_patterns import Image, waves
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Picture
from scipy.special import ndtr

from gauntlet.threats.corruptions import SEVERITIES, corrupt
from gauntlet.threats.corruptions.draws import FastDraws, random_word


def flat(level: int, size: tuple[int, int] = (64, 80)) -> Image:
    return np.full((*size, 3), level, np.uint8)


def noise(height: int, width: int, seed: int = 0) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def error(out: Image, image: Image) -> float:
    return float(np.abs(out.astype(float) - image).mean())


def test_flat_grey_becomes_brighter_by_whole_steps() -> None:
    for severity, level in zip(SEVERITIES, (153, 179, 204, 230, 255), strict=True):
        assert (corrupt(flat(128), "brightness", severity) == level).all()


def test_defocus_kernels_are_not_normalised() -> None:
    for severity, level in zip(SEVERITIES, (127, 127, 127, 129, 129), strict=True):
        assert (corrupt(flat(128), "defocus_blur", severity) == level).all()


def test_defocus_of_a_point_is_the_disk() -> None:
    image = flat(0, (48, 48))
    image[20, 24] = 255
    out = corrupt(image, "defocus_blur", 1)
    y, x = np.mgrid[:48, :48]
    disk = (y - 20) ** 2 + (x - 24) ** 2 <= 9
    assert disk.sum() == 29
    assert (out == np.where(disk, 255 // 29, 0)[..., None]).all()


def test_shot_noise_counts_photons() -> None:
    for severity, photons in zip(SEVERITIES, (60, 25, 12, 5, 3), strict=True):
        levels = np.unique(corrupt(noise(256, 256), "shot_noise", severity))
        assert set(levels) <= {int(k / photons * 255) for k in range(photons + 1)}
        assert len(levels) == photons + 1
        assert (corrupt(flat(0), "shot_noise", severity) == 0).all()


def test_impulse_noise_hits_channels_independently() -> None:
    out = corrupt(flat(128, (512, 512)), "impulse_noise", 5, seed=3)
    hit = out != 128
    assert set(np.unique(out)) == {0, 128, 255}
    assert hit.mean() == pytest.approx(0.27, abs=0.003)
    assert (out == 255).mean() == pytest.approx(0.135, abs=0.003)
    assert hit.all(axis=2).mean() == pytest.approx(0.27**3, abs=0.002)


def test_gaussian_noise_has_the_exact_distribution() -> None:
    level, deviation = 100, 0.18
    out = corrupt(flat(level, (1024, 1024)), "gaussian_noise", 3, seed=5)
    share = np.bincount(out.reshape(-1), minlength=256) / out.size
    edges = np.concatenate([[-np.inf], np.arange(1, 256) / 255, [np.inf]])
    expected = np.diff(ndtr((edges - level / 255) / deviation))
    chi_squared = out.size * ((share - expected) ** 2 / expected).sum()
    assert chi_squared < 255 + 5 * np.sqrt(2 * 255)
    neighbours = np.corrcoef(out[:, :-1, 0].reshape(-1), out[:, 1:, 0].reshape(-1))[0, 1]
    assert abs(neighbours) < 0.005
    channels = np.corrcoef(out[..., 0].reshape(-1), out[..., 1].reshape(-1))[0, 1]
    assert abs(channels) < 0.005


def test_speckle_noise_leaves_black_alone() -> None:
    assert (corrupt(flat(0), "speckle_noise", 5) == 0).all()
    assert corrupt(flat(100, (512, 512)), "speckle_noise", 1).std() == pytest.approx(15, abs=0.1)


def test_glass_blur_copies_and_does_not_swap() -> None:
    image = waves()
    for severity, copied in zip(SEVERITIES, (9.68, 8.87, 18.96, 17.41, 20.67), strict=True):
        assert error(corrupt(image, "glass_blur", severity), image) == pytest.approx(copied, abs=0.15)


def test_motion_blur_is_one_sided() -> None:
    image = flat(0, (64, 64))
    image[32, 32] = 255
    for seed in range(6):
        rows, columns = np.nonzero(corrupt(image, "motion_blur", 1, seed)[..., 0])
        assert columns.max() == 32  # out(x) reads in(x + offset) with offsets from 0 on: the trail lies on the left
        assert columns.min() < 28
        assert np.ptp(rows) <= 32 - columns.min()  # within 45 degrees of the horizontal


def test_motion_kernel_is_cut_where_it_leaves_a_small_image() -> None:
    out = corrupt(flat(255, (32, 32)), "motion_blur", 5, seed=1)
    assert (out == out[0, 0]).all()
    assert out[0, 0, 0] < 255


def test_zoom_blur_has_twelve_factors_at_severity_1() -> None:
    assert error(corrupt(waves(), "zoom_blur", 1), waves()) == pytest.approx(20.42, abs=0.01)


def test_fog_is_smooth_and_keeps_below_white() -> None:
    image = waves()
    for severity, expected in zip(SEVERITIES, (2.51, 2.11, 1.88, 2.03, 2.25), strict=True):
        outs = [corrupt(image, "fog", severity, seed).astype(float) for seed in range(4)]
        assert np.mean([np.abs(np.diff(out, axis=1)).mean() for out in outs]) == pytest.approx(expected, rel=0.15)
        assert max(out.max() for out in outs) <= image.max()


def test_fog_adds_the_same_haze_to_all_channels() -> None:
    image = flat(60, (64, 64))
    out = corrupt(image, "fog", 4, seed=2)
    assert (out[..., 0] == out[..., 1]).all()
    assert (out[..., 0] == out[..., 2]).all()


def test_contrast_keeps_the_mean_of_every_channel() -> None:
    image = np.stack([noise(64, 64)[..., 0] // 2, noise(64, 64)[..., 1] // 4 + 190, noise(64, 64)[..., 2]], axis=2)
    out = corrupt(image, "contrast", 3)
    np.testing.assert_allclose(out.mean(axis=(0, 1)), image.mean(axis=(0, 1)) - 0.5, atol=0.2)
    np.testing.assert_allclose(out.std(axis=(0, 1)), 0.2 * image.std(axis=(0, 1)), rtol=0.05)


def test_elastic_transform_moves_by_the_stated_distance() -> None:
    """A ramp shows the displacement itself: RMS .0814 alpha sqrt(H / W) pixels."""
    ramp = np.arange(200, dtype=np.uint8)[None, :, None].repeat(200, axis=0).repeat(3, axis=2)
    for severity, strength in zip(SEVERITIES, (12.5, 16.25, 21.25, 25, 30), strict=True):
        moved = [corrupt(ramp, "elastic_transform", severity, seed)[20:-20, 20:-20].astype(float) for seed in range(8)]
        shift = np.concatenate([out + 0.5 - ramp[20:-20, 20:-20] for out in moved])
        assert np.sqrt((shift**2).mean() - 1 / 12) == pytest.approx(0.0814 * strength, rel=0.06)


@settings(deadline=None, max_examples=25)
@given(st.integers(32, 90), st.integers(0, 120), st.sampled_from(SEVERITIES), st.integers(0, 1000))
def test_pixelate_equals_pillow(height: int, more: int, severity: int, seed: int) -> None:
    """Wide images only: current Pillow filters tall ones along the columns first, the reference's did not."""
    image = noise(height, height + more, seed)
    scale = (0.6, 0.5, 0.4, 0.3, 0.25)[severity - 1]
    size = (int(image.shape[1] * scale), int(height * scale))
    small = Picture.fromarray(image).resize(size, Picture.Resampling.BOX)
    expected = np.asarray(small.resize((image.shape[1], height), Picture.Resampling.NEAREST))
    assert (corrupt(image, "pixelate", severity) == expected).all()


@pytest.mark.parametrize("severity", SEVERITIES)
def test_jpeg_is_what_pillow_writes_and_reads(severity: int) -> None:
    image = waves()[:130, :201]
    buffer = BytesIO()
    Picture.fromarray(image).save(buffer, "JPEG", quality=(25, 18, 15, 10, 7)[severity - 1])
    expected = np.asarray(Picture.open(buffer)).astype(int)
    assert np.abs(corrupt(image, "jpeg_compression", severity) - expected).max() <= 2


def test_saturate_turns_grey_reddish_at_the_high_severities() -> None:
    assert (corrupt(flat(100), "saturate", 3) == 100).all()
    assert (corrupt(flat(100), "saturate", 4) == (100, 90, 90)).all()


def test_spatter_splashes_water_then_mud() -> None:
    image = flat(200, (128, 128))
    water, mud = (corrupt(image, "spatter", severity, 1).astype(int) - 200 for severity in (3, 5))
    assert water.min() >= 0
    assert water.max() > 20
    assert mud.max() <= 0
    assert mud.min() == 20 - 200


def test_spatter_without_a_drop_leaves_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    def dry(self: FastDraws, shape: tuple[int, int], *_: object) -> np.ndarray:
        return np.zeros(shape, np.float32)

    monkeypatch.setattr(FastDraws, "normal_window", dry)
    image = noise(64, 64)
    assert (corrupt(image, "spatter", 1) == image).all()


def test_random_words_are_splitmix64() -> None:
    """The published test vector of SplitMix64 for the seed 1234567."""
    words = [int(random_word(np.uint64(1234567), np.uint64(counter))) for counter in range(1, 4)]
    assert words == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_draws_have_their_moments() -> None:
    draws = FastDraws(11)
    uniform = draws.uniform_field((600, 500), -2.0, 4.0)
    assert uniform.min() >= -2
    assert uniform.max() < 4
    assert uniform.mean() == pytest.approx(1, abs=0.015)
    assert uniform.std() == pytest.approx(6 / np.sqrt(12), abs=0.01)
    normal = draws.normal_window((600, 500), (slice(100, 500), slice(0, 500)), 3.0, 0.5)
    assert normal.shape == (400, 500)
    assert normal.mean() == pytest.approx(3, abs=0.006)
    assert normal.std() == pytest.approx(0.5, abs=0.004)
    numbers = np.array([draws.integer(5) for _ in range(2000)])
    assert np.bincount(numbers, minlength=5).min() > 330
    angles = np.array([draws.uniform(-45, 45) for _ in range(2000)])
    assert angles.mean() == pytest.approx(0, abs=3)
    assert np.abs(angles).max() <= 45

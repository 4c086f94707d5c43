"""Every corruption against the measured reference: the acceptance rules of docs/specs/corruptions.md, section 7.3."""

from __future__ import annotations

import csv
import hashlib
from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from corruption_patterns import PATTERNS, Image

from gauntlet.threats.corruptions import COMMON, EXTRA, SEVERITIES, corrupt, registry
from paths import DATA

SEEDS = 10
FIGURES = ("mae", "mean_r", "mean_g", "mean_b", "std", "psnr", "absdx")

Key = tuple[str, str, int]


@lru_cache(maxsize=1)
def reference() -> dict[Key, dict[str, float]]:
    rows: dict[Key, dict[str, float]] = {}
    for file in ("corruption_reference.csv", "corruption_reference_extra.csv"):
        with (DATA / file).open() as lines:
            for row in csv.DictReader(lines):
                key = (row.pop("image"), row.pop("corruption"), int(row.pop("severity")))
                rows.setdefault(key, {}).update({name: float(value) for name, value in row.items()})
    return rows


@lru_cache(maxsize=3)
def pattern(name: str) -> Image:
    return PATTERNS[name]()


def figures(out: Image, image: Image) -> npt.NDArray[np.float64]:
    """The figures of the table, in the order of FIGURES."""
    count = image.size
    mae = cv2.norm(out, image, cv2.NORM_L1) / count
    psnr = 10 * np.log10(255**2 * count / cv2.norm(out, image, cv2.NORM_L2SQR))
    std = cv2.meanStdDev(out.reshape(-1, 1))[1].item()
    steps = 3 * out.shape[0] * (out.shape[1] - 1)
    absdx = cv2.norm(out[:, 1:].copy(), out[:, :-1].copy(), cv2.NORM_L1) / steps
    return np.array([mae, *cv2.mean(out)[:3], std, psnr, absdx])


def cases(*, random: bool) -> list[str]:
    return [name for name in (*COMMON, *EXTRA) if registry[name].random == random]


@pytest.mark.parametrize(
    ("name", "digest", "pixels"),
    [
        ("S1", "22f62e52ced5162992d1c805ec4c0b65cf33dffa20ffe41331a1f844eab0fb4e", [(17, 125, 233), (205, 80, 165)]),
        ("S2", "68fae5165c5ee8a959b53537b014da7954d6c2792f69f8dccd0f45bd8ca5188f", [(25, 46, 124), (206, 165, 227)]),
        ("S3", "77351681cfa3ec875e7fd281c6ffe168b23c46c8d5623b7f96f26d47617474ee", [(145, 180, 225), (250, 245, 235)]),
    ],
)
def test_patterns_are_those_of_the_specification(name: str, digest: str, pixels: list[tuple[int, ...]]) -> None:
    image = pattern(name)
    assert hashlib.sha256(image.tobytes()).hexdigest() == digest
    assert [tuple(image[10, 20]), tuple(image[100, 200])] == pixels


@pytest.mark.parametrize("name", cases(random=False))
def test_deterministic_corruption_equals_the_reference(name: str) -> None:
    tolerance = 0.5 if name == "jpeg_compression" else 0.1
    for image_name in PATTERNS:
        for severity in SEVERITIES:
            row = reference()[image_name, name, severity]
            measured = figures(corrupt(pattern(image_name), name, severity), pattern(image_name))
            expected = np.array([row[figure] for figure in FIGURES])
            np.testing.assert_allclose(measured, expected, rtol=0, atol=tolerance, err_msg=f"{image_name} {severity}")


@pytest.mark.parametrize("name", [name for name in cases(random=True) if name != "frost"])
def test_random_corruption_has_the_statistics_of_the_reference(name: str) -> None:
    for image_name in PATTERNS:
        for severity in SEVERITIES:
            image, row = pattern(image_name), reference()[image_name, name, severity]
            drawn = np.array([figures(corrupt(image, name, severity, seed), image) for seed in range(SEEDS)])
            expected = np.array([row[figure] for figure in FIGURES])
            spread = drawn.std(axis=0, ddof=1)
            own_error = spread / np.sqrt(SEEDS)
            # Channel means and absdx have no error of their own in the table: the spread between our seeds stands in.
            error = spread / np.sqrt(row["n_seeds"])
            error[0], error[4], error[5] = row["se_mae"], row["se_std"], row["se_psnr"]
            error[1:4] = np.maximum(error[1:4], row["se_mean"])
            tolerance = 4 * np.hypot(error, own_error) + np.array([0.05] * 6 + [0.01 * row["absdx"]])
            excess = np.abs(drawn.mean(axis=0) - expected) / tolerance
            assert excess.max() <= 1, (image_name, severity, dict(zip(FIGURES, excess.round(2), strict=True)))


@pytest.mark.parametrize("name", [name for name in cases(random=True) if name != "frost"])
def test_legacy_stream_gives_the_values_of_seed_0(name: str) -> None:
    for image_name in PATTERNS:
        for severity in SEVERITIES:
            # The reference's zoom leaves the last column of the flakes black at this size (section 2.7, last sentence:
            # not to be reproduced); the one row where that is more than the tolerance.
            tolerance = 0.25 if (image_name, name, severity) == ("S3", "snow", 5) else 0.01
            image, row = pattern(image_name), reference()[image_name, name, severity]
            out = corrupt(image, name, severity, 0, stream="legacy").astype(np.float64)
            assert np.abs(out - image).mean() == pytest.approx(row["mae_seed0"], abs=tolerance), (image_name, severity)
            if tolerance == 0.01:
                assert out.mean() == pytest.approx(row["mean_seed0"], abs=0.01), (image_name, severity)


@pytest.mark.slow
@pytest.mark.parametrize("image_name", list(PATTERNS))
def test_procedural_frost_is_close_to_the_photographs(image_name: str) -> None:
    """Rule 3; the table's 100 seeds draw the same classes and offsets here: the textures have the same sizes."""
    image = pattern(image_name)
    for severity in SEVERITIES:
        row = reference()[image_name, "frost", severity]
        drawn = np.array(
            [figures(corrupt(image, "frost", severity, seed, stream="legacy"), image) for seed in range(100)]
        )
        mae, red, green, blue, std, _, absdx = drawn.mean(axis=0)
        assert mae == pytest.approx(row["mae"], abs=1.5)
        assert (red, green, blue) == pytest.approx((row["mean_r"], row["mean_g"], row["mean_b"]), abs=5)
        assert std == pytest.approx(row["std"], abs=3)
        assert absdx == pytest.approx(row["absdx"], rel=0.15)


@pytest.mark.parametrize(
    "name",
    [
        *("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise", "defocus_blur", "zoom_blur"),
        *("gaussian_blur", "brightness", "contrast", "elastic_transform", "jpeg_compression"),
    ],
)
def test_severity_makes_it_worse(name: str) -> None:
    image = pattern("S1")
    errors = [figures(corrupt(image, name, severity), image)[0] for severity in SEVERITIES]
    assert errors == sorted(errors)

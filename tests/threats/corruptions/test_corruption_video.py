"""H.265: needs PyAV (the extra video); what can be said without it comes first."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from gauntlet.analysis.scoring.benchmark_sets import CORRUPTIONS
from gauntlet.errors import GauntletError
from gauntlet.threats.compat.detecbench import corruptions as detecbench
from gauntlet.threats.corruptions import VIDEO, corrupt, names, registry

IMAGE = np.kron(np.random.default_rng(0).integers(0, 256, (9, 13, 3)), np.ones((8, 8, 1))).astype(np.uint8)[:71, :97]
DEPTH = np.repeat(np.linspace(12, 2, 71)[:, None], 97, axis=1)


def test_they_are_corruptions_outside_gam() -> None:
    assert names("video") == list(VIDEO) == ["h265_crf", "h265_abr"]
    assert not set(VIDEO) & set(CORRUPTIONS["detection"])
    assert all(registry[name].needs_depth and registry[name].shares_draw for name in VIDEO)
    assert detecbench.CommonCorruption3d("cc3d_h265_crf").describe() == {
        "corruption": {"name": "h265_crf", "severity": 3, "depth_rule": "estimated"}
    }
    assert not {each.options.name for each in detecbench.AllCommonCorruptions3d()} & set(VIDEO)


def test_without_pyav_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(GauntletError, match=r"need PyAV; install it with: .*\[video\]"):
        corrupt(IMAGE, "h265_crf", 3, depth=DEPTH)


def change(name: str, severity: int, **more: Any) -> float:
    corrupted = corrupt(IMAGE, name, severity, depth=DEPTH, **more)
    assert corrupted.shape == IMAGE.shape
    assert corrupted.dtype == np.uint8
    return float(np.abs(corrupted.astype(int) - IMAGE).mean())


@pytest.mark.zoo
@pytest.mark.parametrize("name", VIDEO)
def test_stronger_compression_changes_more(name: str) -> None:
    pytest.importorskip("av")
    changes = [change(name, severity) for severity in (1, 5)]
    assert 0 < changes[0] < changes[1]


@pytest.mark.zoo
def test_an_image_that_is_too_small_for_the_encoder_is_told() -> None:
    pytest.importorskip("av")
    with pytest.raises(GauntletError, match="at least 64 pixels in height and width, not 40x97"):
        corrupt(IMAGE[:40], "h265_crf", 3, depth=DEPTH[:40])


@pytest.mark.zoo
def test_the_same_seed_gives_the_same_bytes() -> None:
    pytest.importorskip("av")
    first, second, other = (corrupt(IMAGE, "h265_crf", 3, seed, depth=DEPTH) for seed in (1, 1, 2))
    assert (first == second).all()
    assert (first != other).any()


@pytest.mark.zoo
def test_the_last_frame_shows_the_original_view() -> None:
    """The camera came back: at the best quality the image is its own 2x2 means, up to the codec."""
    pytest.importorskip("av")
    padded = np.pad(IMAGE.astype(int), ((0, 1), (0, 1), (0, 0)), mode="edge")
    means = (padded[:-1, :-1] + padded[:-1, 1:] + padded[1:, :-1] + padded[1:, 1:]) / 4
    corrupted = corrupt(IMAGE, "h265_crf", 1, depth=DEPTH)
    inside = np.s_[2:-3, 2:-3]
    assert np.abs(corrupted - means)[inside].mean() < 0.7 * np.abs(corrupted - np.roll(means, 6, axis=1))[inside].mean()

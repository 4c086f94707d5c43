"""What holds for every corruption, size, severity and seed."""

from __future__ import annotations

import hashlib
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from corruption_patterns import Image, waves
from hypothesis import given, settings
from hypothesis import strategies as st

from fresh_python import FreshPython
from gauntlet.threats.corruptions import COMMON, EXTRA, SEVERITIES, corrupt, names, registry
from gauntlet.threats.corruptions.settings import Stream

ALL = (*COMMON, *EXTRA)

# Bytes of every corruption of S1's top left 64 x 96 pixels, severity 3, seed 2024: they must not depend on the machine,
# the processor's instruction set or the versions of NumPy, SciPy, OpenCV and numba.
DIGESTS: dict[str, str] = {
    "gaussian_noise": "8d4465a821c743d2",
    "shot_noise": "8be48f2996c09257",
    "impulse_noise": "f1dccc86676c7740",
    "defocus_blur": "8f6f0c4846b1898e",
    "glass_blur": "191a236378542af4",
    "motion_blur": "a90bcd5df0e17a38",
    "zoom_blur": "ee46a771028a8316",
    "snow": "9b1e752f3ade5931",
    "frost": "bdd28195b18a396c",
    "fog": "2ff3b4c0e9b38efb",
    "brightness": "716b2a13b8f22491",
    "contrast": "c26989c8137f889e",
    "elastic_transform": "fc38d10b3e610c74",
    "pixelate": "d91df60a3f78a8cf",
    "jpeg_compression": "93bbf022800d177e",
    "speckle_noise": "1ecd1f27e7f90d6b",
    "gaussian_blur": "a444d771fd4eaab4",
    "spatter": "7f8662045dfb46c5",
    "saturate": "a4197b8003c30430",
}


def noise(height: int, width: int, seed: int = 0) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def digest(image: Image) -> str:
    return hashlib.sha256(image.tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("name", ALL)
def test_bytes_are_the_same_on_any_machine(name: str) -> None:
    assert digest(corrupt(waves()[:64, :96], name, 3, 2024)) == DIGESTS[name]


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(ALL),
    st.integers(32, 100),
    st.integers(32, 100),
    st.sampled_from(SEVERITIES),
    st.integers(0, 2**63 - 1),
    st.sampled_from(["fast", "legacy"]),
)
def test_image_in_image_out(name: str, height: int, width: int, severity: int, seed: int, stream: Stream) -> None:
    image = noise(height, width, seed % 7)
    before = image.copy()
    out = corrupt(image, name, severity, seed, stream=stream)
    assert out.dtype == np.uint8
    assert out.shape == image.shape
    assert (image == before).all()
    assert not np.shares_memory(out, image)
    assert (out == corrupt(image, name, severity, seed, stream=stream)).all()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("shape", [(32, 600), (600, 32)])
def test_long_images(name: str, shape: tuple[int, int]) -> None:
    for severity in (1, 3, 5):
        assert corrupt(noise(*shape), name, severity).shape == (*shape, 3)


@pytest.mark.parametrize("name", ALL)
def test_seed_matters_exactly_where_there_is_chance(name: str) -> None:
    outs = {digest(corrupt(waves()[:80, :64], name, 3, seed)) for seed in range(4)}
    assert (len(outs) > 1) == registry[name].random


def test_order_and_threads_do_not_matter() -> None:
    image = waves()[:96, :128]
    work = [(name, severity, seed) for name in ALL for severity in (2, 5) for seed in (0, 1)]
    forwards = {case: digest(corrupt(image, *case)) for case in work}
    with ThreadPoolExecutor(4) as pool:
        backwards = dict(zip(work[::-1], pool.map(lambda case: digest(corrupt(image, *case)), work[::-1]), strict=True))
    assert forwards == backwards


@pytest.mark.parametrize("stream", ["fast", "legacy"])
def test_global_random_states_are_left_alone(stream: Stream) -> None:
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002 - the global state is what is checked
    before = random.getstate(), np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    outs = [digest(corrupt(noise(40, 40), name, 3, 9, stream=stream)) for name in ALL]
    after = random.getstate(), np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    assert before[0] == after[0]
    assert (before[1]["key"] == after[1]["key"]).all()
    assert before[1]["pos"] == after[1]["pos"]
    np.random.seed(4)  # noqa: NPY002
    assert outs == [digest(corrupt(noise(40, 40), name, 3, 9, stream=stream)) for name in ALL]


@pytest.mark.parametrize("name", ALL)
def test_any_memory_layout(name: str) -> None:
    image = noise(50, 70)
    expected = corrupt(image, name, 4, 1)
    image.setflags(write=False)
    assert (corrupt(image, name, 4, 1) == expected).all()
    assert (corrupt(np.asfortranarray(image), name, 4, 1) == expected).all()
    assert (corrupt(noise(50, 70)[:, ::-1][:, ::-1], name, 4, 1) == expected).all()


def test_a_severity_has_randomness_of_its_own_per_seed() -> None:
    """Neighbouring seeds are as different as distant ones."""
    image = np.full((128, 128, 3), 128, np.uint8)
    first, second = (corrupt(image, "gaussian_noise", 3, seed).astype(float) - 128 for seed in (0, 1))
    assert abs(np.corrcoef(first.reshape(-1), second.reshape(-1))[0, 1]) < 0.02


def test_names_of_both_benchmarks() -> None:
    assert len(COMMON) == 15
    assert len(EXTRA) == 4
    assert names()[:19] == list(ALL)
    assert names("weather") == ["snow", "frost", "fog", "brightness"]
    image = noise(48, 40)
    for alias, name in (
        ("frosted_glass_blur", "glass_blur"),
        ("elastic", "elastic_transform"),
        ("jpeg", "jpeg_compression"),
    ):
        assert (corrupt(image, alias, 2, 5) == corrupt(image, name, 2, 5)).all()


def test_bgr_is_the_corruption_of_the_turned_image() -> None:
    image = noise(48, 64)
    for name in ("snow", "frost", "spatter", "saturate", "brightness"):
        turned = corrupt(image[..., ::-1], name, 4, 7)[..., ::-1]
        assert (corrupt(image, name, 4, 7, channels="bgr") == turned).all()
    assert (corrupt(image, "snow", 4, 7, channels="bgr") != corrupt(image, "snow", 4, 7)).any()


def test_the_compiler_is_loaded_at_the_first_corruption(fresh_python: FreshPython, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "for name in [each for each in sys.modules if each.partition('.')[0] == 'numba']: del sys.modules[name]\n"
        "from gauntlet.threats.corruptions import names; names(); print('numba' in sys.modules)"
    )
    assert fresh_python.run(code, folder=tmp_path).stdout.strip() == "False"

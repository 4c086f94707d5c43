"""Bad input in one sentence, conversion on demand, corruptions of one's own."""

from __future__ import annotations

import inspect
from pathlib import Path

import numba
import numpy as np
import pytest
from PIL import Image as Picture

from gauntlet.compiling import compiled
from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.registry import Registry
from gauntlet.seeding import ImageSeed
from gauntlet.threats.corruptions import Corruption, catalogue, contact_sheet, corrupt, names, register, registry
from gauntlet.threats.corruptions.api import corruption_stream
from gauntlet.threats.corruptions.draws import Draws
from gauntlet.threats.corruptions.settings import DepthRule

IMAGE = np.random.default_rng(1).integers(0, 256, (40, 56, 3), dtype=np.uint8)


def one_sentence(error: BaseException) -> str:
    text = str(error)
    assert "\n" not in text
    assert text.endswith((".", "?"))
    return text


@pytest.mark.parametrize("severity", [0, 6, 9, -1, 2.5, "3", True, None])
def test_wrong_severity(severity: object) -> None:
    with pytest.raises(GauntletError) as caught:
        corrupt(IMAGE, "fog", severity)  # type: ignore[arg-type]
    assert one_sentence(caught.value) == f"the severity of a corruption must be 1, 2, 3, 4 or 5, not {severity!r}."


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("fogg", "'fog'"), ("gausian_noise", "'gaussian_noise'"), ("Elastic", "'elastic'"), ("jpg", "'jpeg'")],
)
def test_unknown_name_gets_a_suggestion(name: str, suggestion: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        corrupt(IMAGE, name)
    assert suggestion in one_sentence(caught.value)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (IMAGE / 255.0, "must be uint8 with values 0 to 255, not float64"),
        (IMAGE.astype(np.float32), "not float32"),
        (IMAGE.astype(np.int64), "not int64"),
        (IMAGE[..., 0], "greyscale (40, 56)"),
        (IMAGE[..., :1], "greyscale (40, 56, 1)"),
        (np.concatenate([IMAGE, IMAGE[..., :1]], axis=2), "RGBA (40, 56, 4)"),
        (IMAGE[..., :2], "(40, 56, 2)"),
        (IMAGE[None], "(1, 40, 56, 3)"),
        (IMAGE[:0], "must have pixels"),
        (np.zeros((0,), np.uint8), "must have pixels"),
        (IMAGE[:31], "at least 32 pixels high and wide, not 31x56"),
        (IMAGE[:, :20], "not 40x20"),
    ],
)
def test_wrong_image(image: np.ndarray, said: str) -> None:
    with pytest.raises(GauntletError) as caught:
        corrupt(image, "fog")
    assert said in one_sentence(caught.value)


def test_conversion_only_when_asked() -> None:
    grey = IMAGE[..., 0]
    expected = corrupt(np.repeat(grey[..., None], 3, axis=2), "snow", 2)
    assert (corrupt(grey, "snow", 2, convert=True) == expected).all()
    assert (corrupt(grey[..., None], "snow", 2, convert=True) == expected).all()
    rgba = np.concatenate([IMAGE, IMAGE[..., :1]], axis=2)
    assert (corrupt(rgba, "snow", 2, convert=True) == corrupt(IMAGE, "snow", 2)).all()
    with pytest.raises(GauntletError, match="float64"):
        corrupt(IMAGE / 255, "snow", convert=True)


def test_wrong_words() -> None:
    with pytest.raises(UnknownNameError, match="random stream 'fastt'; did you mean 'fast'"):
        corrupt(IMAGE, "fog", stream="fastt")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="channel order 'grb'"):
        corrupt(IMAGE, "fog", channels="grb")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="option of the corruption 'fog' 'density'"):
        corrupt(IMAGE, "fog", density=2)
    with pytest.raises(UnknownNameError, match="did you mean 'frost_textures'"):
        corrupt(IMAGE, "frost", frost_texture=".")
    with pytest.raises(GauntletError, match="whole number from 0 on, not -1"):
        corrupt(IMAGE, "fog", seed=-1)
    with pytest.raises(GauntletError, match=r"whole number from 0 on, not 0\.5"):
        corrupt(IMAGE, "fog", seed=0.5)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="group of corruptions 'wether'; did you mean 'weather'"):
        names("wether")


def test_numpy_numbers_are_numbers() -> None:
    assert (corrupt(IMAGE, "snow", np.int64(2), np.uint64(7)) == corrupt(IMAGE, "snow", 2, 7)).all()  # type: ignore[arg-type]


def test_frost_with_the_users_textures(tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match=r"has no frost\d.png or frost\d.jpg"):
        corrupt(IMAGE, "frost", frost_textures=tmp_path)
    for number in range(1, 6):
        pixels = np.full((60, 80, 4), 10 * number, np.uint8)  # transparency must be ignored
        Picture.fromarray(pixels).save(tmp_path / f"frost{number}.png")
    black = np.zeros((40, 56, 3), np.uint8)
    drawn = {int(corrupt(black, "frost", 1, seed, frost_textures=tmp_path).max()) for seed in range(40)}
    assert drawn == {4, 8, 12, 16, 20}  # 0.4 F
    assert not (corrupt(black, "frost", 1, 0, frost_textures=str(tmp_path)) == corrupt(black, "frost", 1, 0)).all()


def test_frost_uses_the_scale_of_the_reference(tmp_path: Path) -> None:
    """A texture is enlarged by 1.1 max(1, H / h, W / w), so that a step of one pixel grows with the image."""
    ramp = np.arange(0, 160, 2, dtype=np.uint8)[None, :, None].repeat(60, axis=0).repeat(3, axis=2)
    for number in range(1, 6):
        Picture.fromarray(ramp).save(tmp_path / f"frost{number}.png")
    out = corrupt(np.zeros((40, 320, 3), np.uint8), "frost", 3, 3, frost_textures=tmp_path).astype(float)
    slope = np.polyfit(np.arange(20, 300), out[20, 20:300, 0], 1)[0]
    assert slope == pytest.approx(0.7 * 2 / (1.1 * 4), rel=0.02)


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Registry[Corruption]:
    """A copy of the registry that a test may add to."""
    copy: Registry[Corruption] = Registry("corruption", check=registry._check, wrap=registry._wrap)
    for name in registry.names():
        copy.add(name, registry[name])
    for module in ("catalogue", "api"):
        monkeypatch.setattr(f"gauntlet.threats.corruptions.{module}.registry", copy)
    return copy


def test_a_corruption_of_ones_own(own_registry: Registry[Corruption]) -> None:
    @register("stripes", aliases=("lines",), options=("every",))
    def stripes(image: np.ndarray, severity: int, draws: Draws, every: int = 4) -> np.ndarray:
        out = image.copy()
        out[draws.integer(every) :: every] //= severity
        return out

    assert "stripes" in own_registry
    expected = {
        tuple(np.flatnonzero((corrupt(IMAGE, "lines", 5, seed, every=8) != IMAGE).any(axis=(1, 2))))
        for seed in range(20)
    }
    assert all(rows[1] - rows[0] == 8 for rows in expected)
    assert len(expected) > 3
    with pytest.raises(GauntletError, match="the corruption name 'fog' is taken"):
        register("fog")(stripes)


def test_severities_of_ones_own_share_a_draw_when_asked(own_registry: Registry[Corruption]) -> None:
    def shift(image: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
        return np.roll(image, draws.integer(32), axis=1)

    register("shared_shift", shares_draw=True)(shift)
    register("shift")(shift)
    seed = ImageSeed(0, "one")
    assert len({corruption_stream(seed, "shared_shift", severity) for severity in (1, 2, 3)}) == 1
    assert len({corruption_stream(seed, "shift", severity) for severity in (1, 2, 3)}) == 3


def test_a_plain_function_is_a_corruption(own_registry: Registry[Corruption]) -> None:
    def shade(image: np.ndarray, severity: int, draws: Draws, depth: np.ndarray, *, tone: int = 9) -> np.ndarray:
        return np.full_like(image, tone)

    own_registry.add("shade", shade)
    assert own_registry["shade"] == Corruption("other", True, shade, ("tone",), needs_depth=True)
    depth = np.ones(IMAGE.shape[:2])
    assert (corrupt(IMAGE, "shade", depth=depth, tone=4) == 4).all()
    assert (corrupt(IMAGE, "shade", depth=depth) == 9).all()
    with pytest.raises(GauntletError, match=r"must be a function of \(image, severity, draws\) or a Corruption, but"):
        own_registry.add("seven", 7)


def test_no_option_of_a_corruption_hides_behind_an_argument(own_registry: Registry[Corruption]) -> None:
    def rotate(image: np.ndarray, severity: int, draws: Draws, seed: int = 0) -> np.ndarray:
        return image

    with pytest.raises(GauntletError, match=r"cannot have an option 'seed'; that is an argument of corrupt\(\)"):
        own_registry.add("rotate", rotate)
    arguments = [each for each in inspect.signature(corrupt).parameters if each != "options"]
    assert set(catalogue.RESERVED) == set(arguments)


@pytest.mark.parametrize("rule", ["metric", "estimated"])
def test_depth_arrives_as_float64(own_registry: Registry[Corruption], rule: DepthRule) -> None:
    arrived: list[np.ndarray] = []

    @register("deep", needs_depth=True)
    def deep(image: np.ndarray, severity: int, draws: Draws, depth: np.ndarray) -> np.ndarray:
        arrived.append(depth)
        return image

    metres = np.linspace(1, 100, IMAGE[..., 0].size, dtype=np.float32).reshape(IMAGE.shape[:2])
    metres[0, 0] = np.inf
    corrupt(IMAGE, "deep", depth=metres, depth_rule=rule)
    assert arrived[0].dtype == np.float64
    assert np.isinf(arrived[0][0, 0]) == (rule == "metric")
    assert np.isfinite(arrived[0].ravel()[1:]).all()


def test_a_corruption_of_another_package(own_registry: Registry[Corruption]) -> None:
    own_registry.add("plugin", Corruption("other", False, "numpy:copy_image_that_is_not_there"))
    with pytest.raises(AttributeError):
        corrupt(IMAGE, "plugin")
    assert catalogue.registry.names()[-1] == "plugin"
    assert registry.group == "gauntlet.corruptions"


def test_compiles_without_a_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    original = numba.njit

    def without_cache(*arguments: object, cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available for file")
        return original(*arguments, **options)

    monkeypatch.setattr(numba, "njit", without_cache)

    @compiled
    def twice(value: int) -> int:
        return 2 * value

    assert twice(21) == 42


def test_contact_sheet_shows_what_corrupt_gives() -> None:
    sheet = contact_sheet(IMAGE, ["fog", "elastic"], [1, 5], seed=4)
    height, width = IMAGE.shape[0] + 18, IMAGE.shape[1]
    assert sheet.shape == (2 * (height + 4) + 4, 3 * (width + 4) + 4, 3)
    assert (sheet[4 + 18 : 4 + height, 4 : 4 + width] == IMAGE).all()
    left, top = 4 + 2 * (width + 4), 4 + height + 4 + 18
    assert (sheet[top : top + 40, left : left + width] == corrupt(IMAGE, "elastic_transform", 5, 4)).all()
    assert sheet[4:22, 4 : 4 + width].min() < 100  # a caption


def test_contact_sheet_of_one_severity_is_a_square() -> None:
    sheet = contact_sheet(IMAGE, names()[:8], [3], tile_width=28)
    assert sheet.shape == (3 * (20 + 18 + 4) + 4, 3 * (28 + 4) + 4, 3)


def test_contact_sheet_of_nothing() -> None:
    with pytest.raises(GauntletError, match="at least one corruption and one severity"):
        contact_sheet(IMAGE, [], [1])
    with pytest.raises(GauntletError, match="severity"):
        contact_sheet(IMAGE, ["fog"], [7])
    with pytest.raises(UnknownNameError, match="'fog'"):
        contact_sheet(IMAGE, ["fogg"], [1])

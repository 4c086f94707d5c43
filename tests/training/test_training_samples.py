from __future__ import annotations

from collections import Counter

import cv2
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from training_squares import Squares

from gauntlet.errors import GauntletError
from gauntlet.seeding import numpy_generator
from gauntlet.threats import corruptions
from gauntlet.training.augmentation import images_and_labels as augmentation
from gauntlet.training.augmentation import part_augmentation
from gauntlet.training.augmentation.images_and_labels import Augmentation, Image, Pair
from gauntlet.training.class_weights import weights_from_counts
from gauntlet.training.config import (
    AugmentationConfig,
    ColorJitterConfig,
    CutmixConfig,
    CutoutConfig,
    LocalizedCorruptionConfig,
)
from gauntlet.training.sample_feed import Loader, Preparation, SampleOrder

IGNORED = 255


def coded_pair(height: int = 40, width: int = 60) -> Pair:
    """An image whose colour says its label: red is 20 times the class, so that a mismatch shows."""
    rng = np.random.default_rng(3)
    coarse = rng.integers(0, 5, size=(height // 10, width // 10)).astype(np.uint8)
    labels = np.kron(coarse, np.ones((10, 10), dtype=np.uint8))
    return np.repeat((labels * 20)[..., None], 3, axis=2), labels


def no_partner(rng: np.random.Generator) -> Pair:
    raise AssertionError("nobody asked for a partner")


def agreement(pair: Pair) -> float:
    """Share of the pixels inside a class (5x5 around have one label) whose colour says their label."""
    image, labels = pair
    lowest, highest = (extreme(labels, np.ones((5, 5), np.uint8)) for extreme in (cv2.erode, cv2.dilate))
    inside = (lowest == highest) & (labels != IGNORED)
    inside[[0, 1, -2, -1]] = inside[:, [0, 1, -2, -1]] = False  # what lies around them was cut off
    return float((np.abs(image[..., 0][inside].astype(int) - 20 * labels[inside]) <= 4).mean())


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**31), low=st.floats(0.5, 1.0), rotation=st.sampled_from([0.0, 10.0, 45.0]))
@example(seed=473, low=0.75, rotation=0.0)
def test_geometry_moves_labels_with_their_pixels(seed: int, low: float, rotation: float) -> None:
    config = AugmentationConfig(scale=(low, 1.5), rotation=rotation, crop=(32, 48), flip=0.5)
    augment = Augmentation(config, IGNORED)
    result = augment(coded_pair(), numpy_generator(seed), no_partner)
    assert result[0].shape == (32, 48, 3)
    assert result[1].shape == (32, 48)
    assert agreement(result) > 0.95  # edges: colours are mixed there, labels are not
    again = augment(coded_pair(), numpy_generator(seed), no_partner)
    assert np.array_equal(result[0], again[0])
    assert np.array_equal(result[1], again[1])


def test_a_mirrored_pair_is_mirrored_in_both_parts() -> None:
    image, labels = coded_pair()
    flipped = Augmentation(AugmentationConfig(flip=1.0), IGNORED)((image, labels), numpy_generator(0), no_partner)
    assert np.array_equal(flipped[0], image[:, ::-1])
    assert np.array_equal(flipped[1], labels[:, ::-1])


def test_a_crop_larger_than_the_image_is_padded_with_ignored_pixels() -> None:
    image, labels = coded_pair(20, 30)
    grown, grown_labels = augmentation.crop((image, labels), (24, 40), numpy_generator(0), IGNORED)
    assert np.array_equal(grown[2:22, 5:35], image)
    assert np.array_equal(grown_labels[2:22, 5:35], labels)
    assert (grown_labels == IGNORED).sum() == 24 * 40 - 20 * 30


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_resizing_by_whole_factors_is_exact(factor: float) -> None:
    coarse = np.random.default_rng(0).integers(0, 5, size=(6, 8)).astype(np.uint8)
    labels = np.kron(coarse, np.ones((2, 2), dtype=np.uint8))
    image = np.repeat((labels * 20)[..., None], 3, axis=2)
    resized, resized_labels = augmentation.resize((image, labels), factor)
    side = round(2 * factor)
    assert np.array_equal(resized_labels, np.kron(coarse, np.ones((side, side), dtype=np.uint8)))
    # The middle of a block of 6x6 is untouched by its neighbours; a block of one pixel is the mean of its four.
    middle = np.s_[side // 2 :: side, side // 2 :: side]
    assert np.array_equal(resized[middle][..., 0], coarse * 20)


def test_rotation_by_a_quarter_turn_of_a_square() -> None:
    image, labels = coded_pair(40, 40)
    turned = augmentation.rotate((image, labels), 90.0, IGNORED)[1]
    assert np.array_equal(turned, np.rot90(labels))


def test_color_jitter_without_strength_changes_nothing() -> None:
    image, _ = coded_pair()
    assert np.array_equal(augmentation.jitter_color(image, ColorJitterConfig(), numpy_generator(0)), image)
    jittered = augmentation.jitter_color(image, ColorJitterConfig(brightness=0.5, hue=0.2), numpy_generator(1))
    assert not np.array_equal(jittered, image)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**31),
    height=st.integers(8, 90),
    width=st.integers(8, 90),
    ratio=st.tuples(st.floats(0.05, 0.5), st.floats(0.5, 0.9)),
)
def test_a_window_lies_inside_and_has_the_area_asked_for(
    seed: int, height: int, width: int, ratio: tuple[float, float]
) -> None:
    rows, columns = part_augmentation.draw_window((height, width), ratio, numpy_generator(seed))
    assert 0 <= rows.start < rows.stop <= height
    assert 0 <= columns.start < columns.stop <= width
    share = (rows.stop - rows.start) * (columns.stop - columns.start) / (height * width)
    assert 0.7 * ratio[0] <= share <= 1.3 * ratio[1] + 2 / min(height, width)


def test_cutout_paints_and_ignores_one_rectangle() -> None:
    image, labels = coded_pair()
    config = CutoutConfig(probability=1.0, ratio=(0.2, 0.2))
    painted, painted_labels = part_augmentation.cutout((image, labels), config, numpy_generator(5), IGNORED)
    hidden = painted_labels == IGNORED
    assert hidden.mean() == pytest.approx(0.2, abs=0.02)
    assert (painted[hidden] == part_augmentation.CUTOUT_COLOR).all()
    assert np.array_equal(painted[~hidden], image[~hidden])


def test_cutmix_takes_image_and_labels_from_the_partner() -> None:
    pair = coded_pair()
    other = pair[0] + 1, np.full_like(pair[1], 7)
    config = CutmixConfig(probability=1.0, ratio=(0.3, 0.3))
    mixed, mixed_labels = part_augmentation.cutmix(pair, config, numpy_generator(2), lambda: other)
    pasted = mixed_labels == 7
    assert pasted.mean() == pytest.approx(0.3, abs=0.03)
    assert np.array_equal(mixed[pasted], other[0][pasted])
    assert np.array_equal(mixed[~pasted], pair[0][~pasted])


def test_a_localized_corruption_changes_pixels_of_one_rectangle_only() -> None:
    image, _ = coded_pair()
    config = LocalizedCorruptionConfig(probability=1.0, names=("gaussian_noise",), severities=(5,), ratio=(0.25, 0.25))
    corrupted = part_augmentation.corrupt_locally(image, config, numpy_generator(4))
    changed = (corrupted != image).any(axis=2)
    rows, columns = np.nonzero(changed)
    box = (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
    assert box <= 0.26 * changed.size
    assert changed.sum() > 0.9 * box


def test_a_localized_corruption_is_drawn_from_the_fifteen_common_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: Counter[str] = Counter()

    def record(image: Image, name: str, severity: int, seed: int) -> Image:
        drawn[name] += 1
        return image

    monkeypatch.setattr(corruptions, "corrupt", record)
    image, _ = coded_pair()
    for seed in range(300):
        part_augmentation.corrupt_locally(image, LocalizedCorruptionConfig(probability=1.0), numpy_generator(seed))
    assert set(drawn) == set(corruptions.COMMON)
    assert not any(corruptions.registry[name].needs_depth for name in drawn)


def test_a_localized_corruption_that_needs_depth_is_refused_in_the_recipe() -> None:
    with pytest.raises(ValueError, match="fog_3d needs depth"):
        LocalizedCorruptionConfig(names=("fog", "fog_3d"))
    with pytest.raises(ValueError, match="did you mean 'fog'"):
        LocalizedCorruptionConfig(names=("fogg",))


def test_an_epoch_shows_every_sample_once_and_epochs_differ() -> None:
    order = SampleOrder(7, seed=3)
    epochs = [[order.index(7 * epoch + offset) for offset in range(7)] for epoch in range(3)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert [SampleOrder(7, seed=3).index(position) for position in range(7, 14)] == epochs[1]
    with pytest.raises(GauntletError, match="no samples"):
        SampleOrder(0, seed=3)


@pytest.mark.parametrize(
    ("workers", "kind", "cache"),
    [(1, "thread", True), (3, "thread", False), pytest.param(1, "process", True, marks=pytest.mark.slow)],
)
def test_batches_do_not_depend_on_who_prepares_them(workers: int, kind: str, cache: bool) -> None:
    config = AugmentationConfig(scale=(0.8, 1.4), crop=(24, 24), flip=0.5, cutmix=CutmixConfig())

    def batches(workers: int, kind: str, cache: bool) -> list[torch.Tensor]:
        preparation = Preparation(Squares(), Augmentation(config, IGNORED), seed=1, cache=cache)
        loader = Loader(preparation, SampleOrder(12, seed=1), workers=workers, kind=kind, prefetch=2)
        try:
            made = list(loader.batches(range(first, first + 5) for first in range(0, 30, 5)))
        finally:
            loader.close()
        parts = [part for batch in made for part in (batch.images, batch.labels)]
        tensors = [part for part in parts if isinstance(part, torch.Tensor)]
        assert len(tensors) == len(parts)
        return tensors

    expected = batches(0, "thread", False)
    actual = batches(workers, kind, cache)
    assert len(actual) == len(expected) == 12
    assert all(torch.equal(first, second) for first, second in zip(actual, expected, strict=True))


def test_a_label_outside_the_classes_is_reported_with_the_image() -> None:
    dataset = Squares()
    dataset.class_names = ("ground", "red")
    preparation = Preparation(dataset, Augmentation(AugmentationConfig(), IGNORED), seed=0, cache=False)
    with pytest.raises(GauntletError, match=r"'train-0' has the label 2; expected 0 to 1 or 255"):
        preparation.load(0)


def test_class_weights_by_hand() -> None:
    counts = np.array([60, 30, 10, 0])
    log = weights_from_counts(counts, "log")
    assert log[:3] == pytest.approx(1 / np.log(1.02 + np.array([0.6, 0.3, 0.1])))
    assert weights_from_counts(counts, "median") == pytest.approx([0.5, 1.0, 3.0, 1.0])
    assert weights_from_counts(counts, "root") == pytest.approx([0.5**0.5, 1.0, 3.0**0.5, 1.0])
    assert Counter(log.tolist())[1.0] == 1

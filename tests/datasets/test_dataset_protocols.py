"""Protocols: sizes computed by hand, labels that stay classes, boxes and depth that follow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauntlet.datasets import protocols
from gauntlet.datasets.protocols import Protocol, as_protocol
from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.samples import Boxes, Sample


def make_sample(height: int, width: int, seed: int = 0) -> Sample:
    generator = np.random.default_rng(seed)
    boxes = Boxes(
        np.array([[0, 0, width, height], [width / 4, height / 4, width / 2, height / 2]], dtype=np.float32),
        np.array([3, 1]),
        crowd=np.array([True, False]),
        difficult=np.array([False, True]),
    )
    return Sample(
        "x",
        generator.integers(0, 256, (height, width, 3), dtype=np.uint8),
        labels=generator.choice(np.array([0, 7, 18, 255], dtype=np.uint8), (height, width)),
        boxes=boxes,
        depth=generator.choice(np.array([1.5, np.inf], dtype=np.float32), (height, width)),
    )


# (protocol, given height and width, height and width in the end); VOC's usual sizes, Cityscapes, COCO.
SIZES = [
    ("full", (375, 500), (375, 500)),
    ("voc-longer-512", (375, 500), (384, 512)),
    ("voc-longer-512", (500, 333), (512, 341)),  # 333 * 512 / 500 = 340.99
    ("voc-longer-512", (281, 500), (288, 512)),  # 287.74
    ("voc-shorter-512", (375, 500), (512, 683)),  # 682.67
    ("voc-shorter-512", (500, 333), (769, 512)),  # 768.77
    ("croce-473", (375, 500), (473, 473)),
    ("croce-473", (500, 375), (473, 473)),
    ("croce-473", (100, 900), (473, 473)),
    ("croce-473-shorter", (500, 375), (473, 473)),
    ("croce-473-code", (366, 500), (473, 473)),
    ("cityscapes-1024x512", (1024, 2048), (512, 1024)),
    ("mmseg-2048x512", (375, 500), (512, 683)),
    ("mmseg-2048x512", (100, 1000), (205, 2048)),  # the longer side would be 5120: bounded, 204.8
    ("mmdet-1333x800", (480, 640), (800, 1067)),  # 1066.67
    ("mmdet-1333x800", (427, 640), (800, 1199)),  # 1199.06
    ("mmdet-1333x800", (300, 640), (625, 1333)),  # 800/300 > 1333/640: bounded, 624.84
    ("mmdet-voc-1000x600", (375, 500), (600, 800)),
    ("size=352x352", (480, 640), (352, 352)),
    ("crop=4x600", (10, 20), (4, 20)),  # a smaller side stays
    ("longer=1", (3, 100), (1, 1)),  # never less than a pixel
]


@pytest.mark.parametrize(("name", "given_size", "expected"), SIZES)
def test_sizes(name: str, given_size: tuple[int, int], expected: tuple[int, int]) -> None:
    assert as_protocol(name).final_size(*given_size) == expected


@pytest.mark.parametrize("name", ["voc-longer-512", "croce-473", "mmdet-voc-1000x600"])
def test_every_field_of_a_sample_gets_the_size(name: str) -> None:
    sample = as_protocol(name).apply(make_sample(75, 100))
    expected = as_protocol(name).final_size(75, 100)
    assert sample.image.shape == (*expected, 3)
    assert sample.labels is not None
    assert sample.depth is not None
    assert sample.labels.shape == sample.depth.shape == expected
    assert sample.image.flags["C_CONTIGUOUS"]


def test_labels_take_the_pixel_under_the_centre() -> None:
    labels = np.arange(6, dtype=np.uint8).reshape(1, 6)
    sample = Sample("x", np.zeros((1, 6, 3), np.uint8), labels=labels)
    half = Protocol(size=(1, 3)).apply(sample).labels
    third = Protocol(size=(1, 2)).apply(sample).labels
    double = Protocol(size=(2, 12)).apply(sample).labels
    assert half is not None
    assert third is not None
    assert double is not None
    assert half.tolist() == [[1, 3, 5]]  # centres 1, 3, 5 fall on the border: the pixel to the right
    assert third.tolist() == [[1, 4]]
    assert double[1].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_area_averages_and_bilinear_samples() -> None:
    image = np.zeros((8, 8, 3), np.uint8)
    image[:, ::4] = 200  # one column of four
    sample = Sample("x", image)
    area = Protocol(size=(2, 2), interpolation="area").apply(sample).image
    bilinear = Protocol(size=(2, 2), interpolation="bilinear").apply(sample).image
    assert (area == 50).all()
    assert (bilinear == 0).all()  # the two neighbours of the centre are columns 1 and 2


def test_boxes_scale_with_the_image() -> None:
    sample = Protocol(size=(50, 300)).apply(make_sample(100, 100))
    assert sample.boxes is not None
    assert sample.boxes.xyxy.tolist() == [[0, 0, 300, 50], [75, 12.5, 150, 25]]
    assert sample.boxes.crowd is not None
    assert sample.boxes.crowd.tolist() == [True, False]


def test_areas_stay_those_of_the_annotation_and_shrink_with_a_crop() -> None:
    boxes = Boxes(
        np.array([[0, 0, 100, 100], [40, 40, 60, 80]], np.float32),
        np.array([0, 1]),
        area=np.array([5000, 400], np.float32),
    )
    sample = Sample("x", np.zeros((100, 100, 3), np.uint8), boxes=boxes)
    resized, cropped = Protocol(size=(50, 300)).apply(sample).boxes, Protocol(crop=(20, 40)).apply(sample).boxes
    assert resized is not None
    assert resized.area is not None
    assert resized.area.tolist() == [5000, 400]  # half as high, three times as wide
    assert resized.pixel_area == 1 / 1.5
    assert cropped is not None
    assert cropped.area is not None
    # 20 rows from 40, 40 columns from 30: 800 of 10000 pixels of the first box, 400 of 800 of the second.
    assert cropped.area.tolist() == [400, 200]


def test_boxes_are_cut_at_the_crop_and_dropped_when_nothing_is_left() -> None:
    boxes = Boxes(
        np.array([[0, 0, 100, 100], [0, 0, 30, 100], [35, 45, 60, 90], [40, 0, 50, 20]], dtype=np.float32),
        np.array([0, 1, 2, 3]),
        difficult=np.array([True, False, False, True]),
    )
    sample = Sample("x", np.zeros((100, 100, 3), np.uint8), boxes=boxes)
    # 20 rows from 40, 40 columns from 30.
    cut = Protocol(crop=(20, 40)).apply(sample).boxes
    assert cut is not None
    assert cut.xyxy.tolist() == [[0, 0, 40, 20], [5, 5, 30, 20]]
    assert cut.classes.tolist() == [0, 2]
    assert cut.difficult is not None
    assert cut.difficult.tolist() == [True, False]


def test_the_crop_is_centred() -> None:
    image = np.zeros((5, 8, 3), np.uint8)
    image[..., 0] = np.arange(8)
    image[..., 1] = np.arange(5)[:, None]
    crop = Protocol(crop=(2, 3)).apply(Sample("x", image)).image
    assert crop[0, :, 0].tolist() == [2, 3, 4]  # (8 - 3) // 2
    assert crop[:, 0, 1].tolist() == [1, 2]  # (5 - 2) // 2


def test_full_size_changes_nothing() -> None:
    sample = make_sample(7, 9)
    assert Protocol().apply(sample) is sample


sides = st.integers(1, 60)


@st.composite
def protocol_values(draw: st.DrawFn) -> Protocol:
    kind = draw(st.sampled_from(["none", "longer", "shorter", "bounded", "size"]))
    crop = draw(st.none() | st.tuples(sides, sides))
    interpolation = draw(st.sampled_from(protocols.INTERPOLATIONS))
    if kind == "size":
        return Protocol(size=draw(st.tuples(sides, sides)), crop=crop, interpolation=interpolation)
    if kind == "bounded":
        return Protocol(shorter=draw(sides), at_most=draw(sides), crop=crop, interpolation=interpolation)
    if kind == "none":
        return Protocol(crop=crop)
    longer, shorter = (draw(sides), None) if kind == "longer" else (None, draw(sides))
    return Protocol(longer=longer, shorter=shorter, crop=crop, interpolation=interpolation)


@settings(deadline=None, max_examples=40)
@given(protocol_values(), st.integers(1, 50), st.integers(1, 50))
def test_labels_stay_classes_and_fields_stay_together(protocol: Protocol, height: int, width: int) -> None:
    sample = make_sample(height, width)
    result = protocol.apply(sample)
    assert result.image.shape[:2] == protocol.final_size(height, width)
    assert result.image.dtype == np.uint8
    assert result.labels is not None
    assert sample.labels is not None
    assert result.depth is not None
    assert result.labels.dtype == np.uint8
    assert set(np.unique(result.labels)) <= set(np.unique(sample.labels))
    assert set(np.unique(result.depth)) <= {1.5, np.inf}
    assert result.boxes is not None
    limits = np.array([result.image.shape[1], result.image.shape[0]] * 2)
    assert (result.boxes.xyxy >= 0).all()
    assert (result.boxes.xyxy <= limits + 1e-3).all()
    # Each field alone goes the same way.
    alone = protocol.apply(Sample("x", sample.image, labels=sample.labels))
    assert (alone.image == result.image).all()
    assert alone.labels is not None
    assert (alone.labels == result.labels).all()


@settings(deadline=None, max_examples=60)
@given(protocol_values(), st.integers(1, 3000), st.integers(1, 3000))
def test_descriptions_are_read_back_and_proportions_kept(protocol: Protocol, height: int, width: int) -> None:
    again = as_protocol(protocol.describe())
    assert again.describe() == protocol.describe()
    assert again.final_size(height, width) == protocol.final_size(height, width)
    new_height, new_width = protocol.resized_size(height, width)
    if protocol.longer is not None:
        assert max(new_height, new_width) == protocol.longer
    if protocol.shorter is not None and protocol.at_most is None:
        assert min(new_height, new_width) == protocol.shorter
    if protocol.at_most is not None:
        assert max(new_height, new_width) <= max(protocol.at_most, 1)


def test_names_and_texts() -> None:
    assert protocols.names()[0] == "full"
    assert as_protocol("full").describe() == {}
    assert as_protocol("croce-473").describe() == {"size": [512, 512], "crop": [473, 473], "interpolation": "area"}
    assert as_protocol("size=512x512, crop=473x473") == as_protocol("croce-473")
    # What version 0.1.0 called croce-473: results under it are found by the other reading's name.
    shorter = as_protocol("croce-473-shorter").describe()
    assert shorter == {"shorter": 512, "crop": [473, 473], "interpolation": "area"}


@pytest.mark.parametrize(
    ("given_protocol", "message"),
    [
        ("croce", "did you mean 'croce-473'"),
        ({"longest": 512}, "unknown field of a protocol 'longest'; did you mean 'longer'"),
        ({"longer": 512, "shorter": 512}, "resizes once"),
        ({"at_most": 512}, "give 'shorter' too"),
        ({"longer": 0}, "longer of a protocol must be a whole number of pixels, at least 1, not 0"),
        ({"longer": 5.5}, "whole number"),
        ({"longer": "many"}, "whole number"),
        ({"longer": True}, "whole number"),
        ({"size": 512}, "size of a protocol must be a height and a width, not 512"),
        ({"size": [1, 2, 3]}, "a height and a width"),
        ({"crop": "ab"}, "a height and a width"),
        ({"longer": 5, "interpolation": "cubic"}, "unknown interpolation 'cubic'"),
    ],
)
def test_bad_protocols(given_protocol: object, message: str) -> None:
    with pytest.raises(GauntletError, match=message):
        as_protocol(given_protocol)  # type: ignore[arg-type]


def test_unknown_protocol_is_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError):
        as_protocol("half")

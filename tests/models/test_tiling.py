"""Tiled inference: where windows lie, what is averaged, gradients, identity, the address."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import SegmentationModel, resolve_model, wrap_model
from gauntlet.models.tiling import TiledModel, _spans, tile_settings
from tiny import tiny_network

IMAGES = torch.rand(2, 3, 20, 31, generator=torch.Generator().manual_seed(0))
ADDRESS = "python:tiny:tiny_network"


class WindowWidth(SegmentationModel):
    """Says how wide and high the window it sees is, and where its left border was."""

    def __init__(self) -> None:
        super().__init__(num_classes=2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        first = images[:, :1, :, :1].expand(-1, 1, -1, images.shape[-1])
        return torch.cat((first, images[:, 1:2]), dim=1)


def test_windows_lie_where_openmmlab_puts_them() -> None:
    assert list(_spans(10, 4, 3)) == [(0, 4), (3, 7), (6, 10)]
    assert list(_spans(11, 4, 3)) == [(0, 4), (3, 7), (6, 10), (7, 11)]
    assert list(_spans(4, 4, 3)) == [(0, 4)]
    assert list(_spans(3, 4, 3)) == [(0, 3)]
    # Cityscapes at full size, 769 windows a third apart: 1024 rows and 2048 columns.
    step = tile_settings(769).step[0]
    assert step == 513
    assert list(_spans(1024, 769, step)) == [(0, 769), (255, 1024)]
    assert list(_spans(2048, 769, step)) == [(0, 769), (513, 1282), (1026, 1795), (1279, 2048)]


@given(st.integers(1, 200), st.integers(1, 60), st.data())
@settings(deadline=None)
def test_windows_cover_everything_and_stay_inside(length: int, size: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(1, size))
    spans = list(_spans(length, size, step))
    assert set().union(*(range(*span) for span in spans)) == set(range(length))
    assert all(end - begin == min(size, length) for begin, end in spans)
    # OpenMMLab's number of windows: max(length - size + step - 1, 0) // step + 1.
    assert len(spans) == max(length - size + step - 1, 0) // step + 1


def test_overlapping_windows_are_averaged() -> None:
    """A window's first output is the image's value at its left border, so that averages can be told apart."""
    images = torch.arange(7.0).repeat(1, 3, 1, 1)
    tiled = TiledModel(WindowWidth(), (1, 4), overlap=(0, 1))(images)
    # Windows [0, 4) and [3, 7): borders 0 and 3, and both at column 3.
    assert tiled[0, 0, 0].tolist() == [0, 0, 0, 1.5, 3, 3, 3]
    assert tiled[0, 1, 0].tolist() == list(range(7))


def test_mirroring_averages_what_is_seen_from_both_sides() -> None:
    images = torch.arange(4.0).repeat(1, 3, 1, 1)
    tiled = TiledModel(WindowWidth(), (1, 4), mirror=True)(images)
    # Mirrored, the left border is the image's last value, 3.
    assert tiled[0, 0, 0].tolist() == [1.5] * 4
    assert tiled[0, 1, 0].tolist() == [0, 1, 2, 3]


def test_one_window_is_the_model_itself_and_pointwise_models_do_not_notice_tiles() -> None:
    model = wrap_model(tiny_network(), num_classes=3)
    torch.testing.assert_close(TiledModel(model, 64)(IMAGES), model(IMAGES))
    pointwise = wrap_model(torch.nn.Conv2d(3, 4, 1), num_classes=4)
    torch.testing.assert_close(TiledModel(pointwise, (8, 9), overlap=0.5, mirror=True)(IMAGES), pointwise(IMAGES))


def test_probabilities_are_averaged_before_the_logarithm() -> None:
    model = wrap_model(tiny_network(), num_classes=3)
    tiled = TiledModel(model, (20, 31), mirror=True, average="probabilities")(IMAGES)
    expected = (model(IMAGES).softmax(1) + model(IMAGES.flip(-1)).flip(-1).softmax(1)) / 2
    torch.testing.assert_close(tiled.exp(), expected)
    torch.testing.assert_close(tiled.softmax(1), expected)


@pytest.mark.parametrize("average", ["logits", "probabilities"])
def test_gradients_are_those_of_the_average(average: str) -> None:
    model = wrap_model(tiny_network().double(), num_classes=3)
    model.normalisation.double()
    tiled = TiledModel(model, (4, 5), overlap=2, mirror=True, average=average)
    images = torch.rand(1, 3, 6, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(tiled, (images,))


def test_identity_names_the_tiles() -> None:
    model = wrap_model(tiny_network(), num_classes=3, name="net")
    tiled = TiledModel(model, (8, 12), overlap="1/4", mirror=True)
    assert tiled.identity.name == "net tiled 8x12 every 6x9 mirrored"
    digests = {
        TiledModel(model, 8, **options).identity.digest
        for options in ({}, {"overlap": 0}, {"mirror": True}, {"average": "probabilities"})
    }
    assert len(digests | {model.identity.digest}) == 5


def test_the_address_says_the_same() -> None:
    address = f"tiled:size=8x12,overlap=1/4,mirror:{ADDRESS}"
    source = resolve_model(address, num_classes=3, name="net")
    model = source.load()
    expected = TiledModel(wrap_model(tiny_network(), num_classes=3, name="net"), (8, 12), overlap="1/4", mirror=True)
    assert source.identity == model.identity
    assert source.identity.name == expected.identity.name
    torch.testing.assert_close(model(IMAGES), expected(IMAGES))
    square = gauntlet.load_model(f"tiled:size=8,average=probabilities:{ADDRESS}", num_classes=3)
    assert square.settings.size == (8, 8)
    assert square.settings.average == "probabilities"


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("tiled:size=8", "must name settings and a model"),
        (f"tiled:overlap=1/2:{ADDRESS}", "needs the size of a tile"),
        (f"tiled:sise=8:{ADDRESS}", "unknown setting of tiled: 'sise'; did you mean 'size'"),
        (f"tiled:size=8xx:{ADDRESS}", "must be HEIGHTxWIDTH in pixels"),
        (f"tiled:size=0:{ADDRESS}", "must be a height and a width in pixels"),
        (f"tiled:size=8,overlap=8:{ADDRESS}", r"must lie in \[0, 8\), not 8"),
        (f"tiled:size=8,average=logit:{ADDRESS}", "did you mean 'logits'"),
        ("tiled:size=8:streets/ennet", "did you mean 'streets/enet'"),
    ],
)
def test_bad_settings_are_one_sentence(address: str, sentence: str) -> None:
    options: dict[str, Any] = {"num_classes": 3} if ADDRESS in address else {}
    with pytest.raises(GauntletError, match=sentence):
        gauntlet.load_model(address, **options)

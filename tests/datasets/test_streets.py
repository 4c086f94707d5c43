"""Streets: the same on every machine, labels, boxes and depth that agree with each other, and clear refusals."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from fresh_python import FreshPython
from gauntlet.datasets.streets import RENDERER_VERSION, Streets
from gauntlet.datasets.streets.camera import Camera, Lens
from gauntlet.datasets.streets.dataset import object_boxes
from gauntlet.datasets.streets.dice import Dice
from gauntlet.datasets.streets.light import sample_light
from gauntlet.datasets.streets.mesh import RAILING, Mesh, Paint, plain
from gauntlet.datasets.streets.render import Picture, render
from gauntlet.datasets.streets.shadows import Shadows
from gauntlet.datasets.streets.street import Street, sample_street
from gauntlet.datasets.streets.street_classes import (
    BOX_CLASSES,
    BUILDING,
    CAR,
    FENCE,
    PAVEMENT,
    PEDESTRIAN,
    POLE,
    ROAD,
    SKY,
    VOID,
)
from gauntlet.datasets.streets.world import Scene
from gauntlet.errors import GauntletError

SIZE = (128, 256)

# Of image, labels and depth. They change only together with RENDERER_VERSION: figures of models are kept under it.
GOLDEN = [
    ("train", 0, (128, 256), "5595077992a3dfa6", "ac5b8280f00e7920", "9c2287ac3443c18b"),
    ("val", 12, (128, 256), "0d90a60bf8e0f34b", "167bf41a7296ea8a", "269830e641c38b32"),
    ("test", 199, (96, 96), "536ca9864cf7cf85", "3b94f099c8b93d85", "6488dcce3664a214"),
]


@pytest.fixture(scope="module")
def pictures() -> list[Picture]:
    dataset = Streets("val", length=50)
    return [dataset.picture(index) for index in range(50)]


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()[:16]


def empty_scene(mesh: Mesh) -> Scene:
    """A straight, empty street seen from 1.5 m, with the horizon in the middle and a focal length of one height."""
    light = sample_light(Dice("test"))
    street = sample_street(Dice("test"))._replace(
        half_width=3.0, offset=0.0, slope=0.0, bend=0.0, cross_near=20.0, cross_far=20.0
    )
    return Scene(Lens(1.5, 1.0, 0.5), street, light, mesh, Shadows(light.sun))


def square(mesh: Mesh, label: int, z: float, half: float, instance: int = 0, x: float = 0.0) -> None:
    """A square board at depth z whose middle is at the height of the camera."""
    outline = [(-half, 1.5 - half), (half, 1.5 - half), (half, 1.5 + half), (-half, 1.5 + half)]
    mesh.board(x, z, outline, plain((0.5, 0.5, 0.5)), label, instance=instance)


def show(mesh: Mesh, size: tuple[int, int] = (64, 128)) -> Picture:
    return render(empty_scene(mesh), size, Dice("static"))


class TestDeterminism:
    def test_the_same_scene_twice_is_the_same_bytes(self) -> None:
        first, second = Streets("train")[7], Streets("train", length=9)[7]
        assert first.id == second.id == "streets/train/000007"
        assert digest(first.image) == digest(second.image)
        assert first.labels is not None
        assert second.labels is not None
        assert digest(first.labels) == digest(second.labels)

    @pytest.mark.parametrize(("split", "index", "size", "image", "labels", "depth"), GOLDEN)
    def test_the_pixels_of_this_version(
        self, split: str, index: int, size: tuple[int, int], image: str, labels: str, depth: str
    ) -> None:
        assert RENDERER_VERSION == 1
        picture = Streets(split, size=size).picture(index)
        assert (digest(picture.image), digest(picture.labels), digest(picture.depth)) == (image, labels, depth)

    def test_another_process_gives_the_same_bytes(self, fresh_python: FreshPython, tmp_path: Path) -> None:
        code = (
            "import hashlib; from gauntlet.datasets.streets import Streets; s = Streets('test', size=(48, 80))[3];"
            "print(hashlib.sha256(s.image.tobytes() + s.labels.tobytes() + s.depth.tobytes()).hexdigest())"
        )
        other = fresh_python.run(code, folder=tmp_path).stdout.strip()
        here = Streets("test", size=(48, 80))[3]
        assert here.labels is not None
        assert here.depth is not None
        data = here.image.tobytes() + here.labels.tobytes() + here.depth.tobytes()
        assert other == hashlib.sha256(data).hexdigest()

    def test_dice_draw_the_top_53_bits_of_pcg64(self) -> None:
        seed = int.from_bytes(hashlib.sha256(b"name").digest()[:16], "little")
        words = np.random.PCG64(seed).random_raw(512)
        dice = Dice("name")
        assert dice.uniform() == (int(words[511]) >> 11) / 2**53
        assert dice.uniform(2.0, 4.0) == 2.0 + 2.0 * ((int(words[510]) >> 11) / 2**53)

    def test_splits_and_indices_differ(self) -> None:
        images = [Streets(split, size=(32, 64))[index].image for split in ("train", "val", "test") for index in (0, 1)]
        assert len({digest(image) for image in images}) == 6

    def test_the_identity_names_the_renderer_and_the_size(self) -> None:
        identity = Streets("val").identity
        assert (identity.name, identity.split, identity.length) == ("streets", "val", 200)
        assert identity.protocol == {"size": [128, 256], "renderer": RENDERER_VERSION}
        assert identity != Streets("val", size=(64, 128)).identity
        assert identity != Streets("val", length=10).identity
        assert len(Streets("train")) == 4000
        assert len(Streets("test")) == 200


class TestContents:
    def test_shapes_and_types(self) -> None:
        sample = Streets("val")[-1]
        assert sample.id == "streets/val/000199"
        assert sample.image.shape == (*SIZE, 3)
        assert sample.labels is not None
        assert sample.depth is not None
        assert sample.labels.shape == sample.depth.shape == SIZE
        assert sample.image.dtype == sample.labels.dtype == np.uint8
        assert sample.depth.dtype == np.float32

    def test_every_class_has_a_learnable_share(self, pictures: list[Picture]) -> None:
        counts = np.stack([np.bincount(picture.labels.ravel(), minlength=12) for picture in pictures])
        assert counts.shape == (50, 12)  # no label above 11
        shares = counts.sum(0) / counts.sum()
        assert (shares[:VOID] > 0.008).all()
        assert (shares < 0.4).all()
        assert 0.005 < shares[VOID] < 0.08
        assert ((counts[:, :VOID] >= 40).mean(0) > 0.7).all()

    def test_color_alone_does_not_give_the_class_away(self, pictures: list[Picture]) -> None:
        """The best guess from a pixel's colour (16 levels a channel) is wrong on many pixels of scenes not seen."""
        votes = np.zeros((16**3, 11))

        def bins(picture: Picture) -> tuple[np.ndarray, np.ndarray]:
            known = picture.labels != VOID
            colors = (picture.image[known] // 16).astype(np.int64)
            return colors @ np.array([256, 16, 1]), picture.labels[known]

        for picture in pictures[:40]:
            np.add.at(votes, bins(picture), 1)
        right = [votes[colors].argmax(1) == labels for colors, labels in map(bins, pictures[40:])]
        assert 0.3 < np.concatenate(right).mean() < 0.7

    def test_scenes_vary_in_light(self, pictures: list[Picture]) -> None:
        brightness = np.array([picture.image.mean() for picture in pictures])
        assert brightness.min() > 35
        assert brightness.max() < 220
        assert brightness.std() > 12

    @pytest.mark.parametrize("size", [(32, 32), (33, 47), (65, 40), (40, 301)])
    def test_any_size(self, size: tuple[int, int]) -> None:
        sample = Streets("val", size=size)[2]
        assert sample.image.shape == (*size, 3)
        assert sample.labels is not None
        assert sample.labels.max() <= VOID

    def test_the_same_world_at_another_resolution(self) -> None:
        for index in range(4):
            small, large = Streets("val").picture(index), Streets("val", size=(256, 512)).picture(index)
            blocks = large.labels.reshape(128, 2, 256, 2).transpose(0, 2, 1, 3).reshape(128, 256, 4)
            agrees = (blocks == small.labels[..., None]).mean(2) >= 0.5
            clear = (small.labels != VOID) & (blocks != VOID).all(2)
            assert agrees[clear].mean() > 0.95
            means = large.image.reshape(128, 2, 256, 2, 3).mean((1, 3))
            assert np.abs(means - small.image).mean() < 10


class TestBoxes:
    def test_boxes_are_tight_and_inside(self, pictures: list[Picture]) -> None:
        actual = 0
        for picture in pictures[:20]:
            boxes = object_boxes(picture)
            assert boxes.xyxy.min(initial=0) >= 0
            spans = {}
            for number in np.unique(picture.instances[picture.instances > 0]):
                rows, columns = np.nonzero(picture.instances == number)
                spans[columns.min(), rows.min(), columns.max() + 1, rows.max() + 1] = number
            for corners, index in zip(boxes.xyxy, boxes.classes, strict=True):
                left, top, right, bottom = (int(value) for value in corners)
                number = spans[left, top, right, bottom]
                mask = picture.instances == number
                assert (picture.labels[mask] == BOX_CLASSES[index]).all()
                assert corners[2] <= SIZE[1]
                assert corners[3] <= SIZE[0]
                assert mask.sum() >= 12
                assert picture.visible[number - 1] >= 0.2
                actual += 1
        assert actual > 60

    def test_all_four_classes_have_boxes(self, pictures: list[Picture]) -> None:
        classes = np.concatenate([object_boxes(picture).classes for picture in pictures])
        assert Streets.box_class_names == ("car", "pedestrian", "bicyclist", "sign_symbol")
        assert (np.bincount(classes, minlength=4) > 25).all()

    def test_a_hand_placed_board(self) -> None:
        """64x128 pixels, focal length 64 px: a board of 2 m at 8 m is 16 px wide around the middle (64, 32)."""
        mesh = Mesh()
        square(mesh, CAR, 8.0, 1.0, mesh.new_instance(CAR, bordered=False))
        boxes = object_boxes(show(mesh))
        assert boxes.xyxy.tolist() == [[56.0, 24.0, 72.0, 40.0]]
        assert boxes.areas.tolist() == [256.0]  # a square: every pixel of the box is the object's
        assert boxes.classes.tolist() == [0]

    def test_hidden_and_tiny_objects_have_no_box(self) -> None:
        mesh = Mesh()
        hidden, half_hidden = (mesh.new_instance(CAR, bordered=False) for _ in range(2))
        square(mesh, CAR, 8.0, 1.0, hidden)
        square(mesh, CAR, 8.0, 1.0, half_hidden, x=-3.0)
        square(mesh, PEDESTRIAN, 40.0, 0.5, mesh.new_instance(PEDESTRIAN, bordered=False), x=18.0)  # 1.6 px wide
        square(mesh, BUILDING, 4.0, 0.475)  # hides the middle 1.9 m of 2 m at 8 m
        square(mesh, BUILDING, 4.0, 0.5, x=-1.0)  # hides one half: x from -3 to -1 at 8 m
        picture = show(mesh)
        assert 0 < picture.visible[0] < 0.2
        assert picture.visible[1] == pytest.approx(0.5, abs=0.08)
        assert object_boxes(picture).xyxy.tolist() == [[32.0, 24.0, 40.0, 40.0]]


class TestDepth:
    def test_depth_is_infinite_exactly_in_the_sky(self, pictures: list[Picture]) -> None:
        for picture in pictures:
            sky = picture.labels == SKY
            assert np.isinf(picture.depth[sky]).all()
            rest = ~sky & (picture.labels != VOID)
            assert np.isfinite(picture.depth[rest]).all()
            assert (picture.depth > 0.5).all()

    def test_the_ground_comes_nearer_downwards(self, pictures: list[Picture]) -> None:
        for picture in pictures[:20]:
            for column in (60, 128, 200):
                is_road = picture.labels[:, column] == ROAD
                assert (np.diff(picture.depth[is_road, column]) < 0).all()

    def test_objects_have_little_depth(self, pictures: list[Picture]) -> None:
        for picture in pictures[:20]:
            for number, label in enumerate(picture.instance_labels, start=1):
                depth = picture.depth[picture.instances == number]
                if len(depth):
                    assert np.ptp(depth) < (8.0 if label == CAR else 0.2)

    def test_an_object_at_12_metres_is_12_metres_away(self) -> None:
        mesh = Mesh()
        square(mesh, CAR, 12.0, 1.0, mesh.new_instance(CAR, bordered=False))
        picture = show(mesh)
        np.testing.assert_allclose(picture.depth[picture.labels == CAR], 12.0, rtol=1e-6)

    def test_the_ground_follows_the_pinhole(self) -> None:
        """Row r of 64 with the horizon at 32 and 64 px of focal length sees the ground 1.5 * 64 / (r - 32) m ahead."""
        picture = show(Mesh())
        for row in (40, 50, 60):
            nearest, farthest = 1.5 * 64 / (row + 1 - 32), 1.5 * 64 / (row - 32)
            assert nearest < picture.depth[row, 64] < farthest
        assert (picture.labels[33:, 64] == ROAD).all()
        assert (picture.labels[:32] == SKY).all()
        # Column 8 looks 55.5 / 64 m to the left per metre ahead; the kerb is 3 m left.
        assert picture.labels[60, 8] == ROAD  # 3.4 m ahead, 2.9 m left
        assert picture.labels[50, 8] == PAVEMENT  # 5.2 m ahead, 4.5 m left

    @pytest.mark.parametrize("near_first", [True, False])
    def test_the_nearer_one_hides_the_farther_one(self, near_first: bool) -> None:
        mesh = Mesh()
        for z, label in sorted([(6.0, POLE), (9.0, BUILDING)], reverse=not near_first):
            square(mesh, label, z, 1.0)
        picture = show(mesh)
        middle = (slice(26, 38), slice(58, 70))
        assert (picture.labels[middle] == POLE).all()
        np.testing.assert_allclose(picture.depth[middle], 6.0, rtol=1e-6)

    def test_one_looks_through_a_railing_but_it_is_the_fence_that_counts(self) -> None:
        def colors(with_railing: bool, wall: float) -> Picture:
            mesh = Mesh()
            mesh.board(0.0, 9.0, [(-3, 0), (3, 0), (3, 3), (-3, 3)], plain((wall, wall, wall), 0.0), BUILDING)
            if with_railing:
                paint = Paint(RAILING, (0.5, 0.5, 0.5), parameters=(0.3, 0.35, 2.0, 0.09, 0.25))
                mesh.board(0.0, 6.0, [(-2, 0), (2, 0), (2, 2), (-2, 2)], paint, FENCE)
            return show(mesh)

        behind_white, behind_black = colors(True, 0.9), colors(True, 0.05)
        region = behind_white.labels == FENCE
        assert region.sum() > 500
        np.testing.assert_allclose(behind_white.depth[region], 6.0, rtol=1e-6)
        difference = behind_white.image[region].astype(float).mean() - behind_black.image[region].mean()
        assert 10 < difference < colors(False, 0.9).image[region].mean() - colors(False, 0.05).image[region].mean()


class TestVoid:
    def test_void_is_there(self, pictures: list[Picture]) -> None:
        with_void = [picture for picture in pictures if (picture.labels == VOID).any()]
        assert len(with_void) > 40
        bonnets = [picture for picture in pictures if (picture.labels[-1] == VOID).mean() > 0.8]
        assert 15 < len(bonnets) < 45

    def test_borders_surround_bordered_objects_only(self) -> None:
        mesh = Mesh()
        square(mesh, CAR, 8.0, 1.0, mesh.new_instance(CAR, bordered=True))
        square(mesh, CAR, 8.0, 1.0, mesh.new_instance(CAR, bordered=False), x=-4.0)
        labels = show(mesh).labels
        assert (labels == VOID).sum() == 4 * 16  # one pixel along each side of 16
        assert (labels[24:40, 55] == VOID).all()
        assert (labels[24:40, 56:72] == CAR).all()
        assert (labels[24:40, 24:40] == CAR).all()


class TestCamera:
    def test_the_sensor_scales_with_the_size(self) -> None:
        small, large = Camera.of(Lens(1.5, 1.2, 0.4), (64, 128)), Camera.of(Lens(1.5, 1.2, 0.4), (128, 256))
        assert large.focal == 2 * small.focal == 2 * 1.2 * 128  # two samples a pixel
        assert (large.center_x, large.center_y) == (2 * small.center_x, 2 * small.center_y)

    def test_side_streets(self) -> None:
        street: Street = empty_scene(Mesh()).street._replace(
            cross_near=20.0, cross_far=28.0, cross_left=1.0, cross_right=0.0
        )
        assert street.is_crossed(-1, 15.0, 21.0)
        assert not street.is_crossed(1, 15.0, 21.0)
        assert not street.is_crossed(-1, 28.5, 40.0)


class TestRefusals:
    def test_an_unknown_split(self) -> None:
        with pytest.raises(GauntletError, match=r"unknown split of streets 'vall'; did you mean 'val'"):
            Streets("vall")

    @pytest.mark.parametrize("size", [(31, 256), (128, 0), (128,)])
    def test_a_size_too_small(self, size: tuple[int, ...]) -> None:
        with pytest.raises(GauntletError, match="size of streets must be"):
            Streets("val", size=size)  # type: ignore[arg-type]

    @pytest.mark.parametrize("length", [0, -5])
    def test_a_length_that_is_none(self, length: int) -> None:
        with pytest.raises(GauntletError, match=f"must be at least 1, not {length}"):
            Streets("val", length=length)

    @pytest.mark.parametrize("index", [3, -4])
    def test_an_index_out_of_range(self, index: int) -> None:
        with pytest.raises(IndexError, match=f"streets/val has 3 scenes; index {index}"):
            Streets("val", length=3)[index]

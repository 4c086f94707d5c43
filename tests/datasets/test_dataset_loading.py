"""Names, roots, options and the identity of datasets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dataset_trees import MakeTree
from gauntlet import datasets
from gauntlet.datasets import load_dataset
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError, UnknownNameError
from subprocesses import environment

# dataset -> (split, ids in order); hand-written from the trees in conftest.py.
EXPECTED = {
    "cityscapes": (
        "val",
        [
            "frankfurt_000000_000019",
            "frankfurt_000001_000019",
            "munster_000000_000019",
            "munster_000001_000019",
        ],
    ),
    "acdc": (
        "val",
        [
            "fog/GOPR00_frame_000000",
            "night/GOPR00_frame_000000",
            "night/GOPR01_frame_000001",
            "night/GOPR02_frame_000002",
            "rain/GOPR00_frame_000000",
            "snow/GOPR00_frame_000000",
        ],
    ),
    "bdd100k": ("val", ["0004a4c0-d4dff0ad", "00054602-3bf57337"]),
    "ade20k": ("val", ["ADE_val_00000001", "ADE_val_00000002", "ADE_val_00000003"]),
    "camvid": ("test", ["0001TP_00test1", "0001TP_00test0"]),
    "voc2012": ("val", ["2007_000033"]),
    "voc2007": ("test", ["2008_000002"]),
    "voc2012-detection": ("val", ["2007_000033"]),
    "coco": ("val", ["000000000139", "000000000285"]),
    "lvis": ("val", ["train2017/000000000139", "val2017/000000000285"]),
    "folder": ("all", ["scene/0", "scene/1", "scene/2"]),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_default_split_and_ids(name: str, make_tree: MakeTree) -> None:
    split, ids = EXPECTED[name]
    dataset = load_dataset(name, root=make_tree(name))
    assert (dataset.split, list(dataset.ids()), len(dataset)) == (split, ids, len(ids))
    sample = dataset[-1]
    assert sample.id == ids[-1]
    assert sample.image.shape == (6, 8, 3)
    assert (sample.labels is None) != (sample.boxes is None)
    assert len(dataset.colors) == len(dataset.class_names) > 2
    with pytest.raises(IndexError):
        dataset[len(ids)]


def test_every_registered_dataset_can_be_imported() -> None:
    wanted = [*EXPECTED, "hf"]
    assert set(wanted) <= set(datasets.names())
    for name in wanted:
        assert issubclass(datasets.datasets[name], Dataset)  # type: ignore[arg-type]


def test_importing_the_package_imports_no_dataset() -> None:
    program = (
        # A stand-in for torch, which takes seconds to import and is not the question here.
        "import sys, unittest.mock; sys.modules['torch'] = unittest.mock.MagicMock(); "
        "import gauntlet.datasets as d; d.names(); "
        "heavy = {'cv2', 'PIL', 'numba', 'gauntlet.datasets.streets', 'gauntlet.datasets.cityscapes'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_root_in_the_name(make_tree: MakeTree) -> None:
    root = make_tree("folder")
    assert load_dataset(f"folder:{root}").identity == load_dataset("folder", root=root).identity
    with pytest.raises(GauntletError, match="given twice"):
        load_dataset(f"folder:{root}", root=root)


def test_root_from_the_environment(make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_tree("voc2012")
    with pytest.raises(GauntletError, match=r"where is the dataset 'voc2012'\?.*GAUNTLET_DATA is not set"):
        load_dataset("voc")
    monkeypatch.setenv("GAUNTLET_DATA", str(root.parent))
    assert load_dataset("voc").name == "voc2012"
    # Detection of the same year is in the same folder.
    assert load_dataset("voc2012-detection").box_class_names[0] == "aeroplane"
    with pytest.raises(GauntletError, match="camvid' is not a folder"):
        load_dataset("camvid")


def test_unknown_names_are_explained(make_tree: MakeTree) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'cityscapes'"):
        load_dataset("cityscape")
    root = make_tree("acdc")
    with pytest.raises(UnknownNameError, match="option of the dataset 'acdc' 'conditions'; did you mean 'condition'"):
        load_dataset("acdc", root=root, conditions="fog")
    with pytest.raises(UnknownNameError, match="condition of the dataset 'acdc' 'hail'"):
        load_dataset("acdc", root=root, condition="hail")
    with pytest.raises(UnknownNameError, match=r"split of the dataset 'acdc' 'test'; known: train, val\."):
        load_dataset("acdc", root=root, split="test")


def test_limit_and_protocol_are_part_of_the_identity(make_tree: MakeTree) -> None:
    root = make_tree("cityscapes")
    full = load_dataset("cityscapes", root=root)
    assert full.identity.protocol == {}
    assert load_dataset("cityscapes", root=root, protocol="full").identity == full.identity
    small = load_dataset("cityscapes", root=root, limit=2, protocol={"size": [3, 4]})
    assert len(small) == 2
    assert small[1].image.shape == (3, 4, 3)
    assert small.identity.protocol == {"size": [3, 4], "interpolation": "area"}
    assert small.identity.ids_digest != full.identity.ids_digest
    assert (small.class_names, small.colors, small.ignore_index) == (full.class_names, full.colors, 255)


def test_a_spread_limit_takes_images_at_equal_distances() -> None:
    whole = load_dataset("streets", split="val", length=10)
    some = load_dataset("streets", split="val", length=10, limit=4, spread=True)
    assert list(some.ids()) == [whole.ids()[position] for position in (0, 2, 5, 7)]
    assert (some[1].id, some[-1].id) == (whole[2].id, whole[7].id)
    assert some.origin is not None
    assert (some.origin["limit"], some.origin["spread"]) == (4, True)
    assert list(load_dataset("streets", split="val", length=3, limit=5, spread=True).ids()) == list(whole.ids())[:3]
    with pytest.raises(GauntletError, match="spread without a limit"):
        load_dataset("streets", spread=True)
    with pytest.raises(IndexError):
        some[4]


def test_identity_does_not_depend_on_the_place(make_tree: MakeTree, tmp_path: Path) -> None:
    root = make_tree("camvid")
    moved = tmp_path / "elsewhere"
    root_identity = load_dataset("camvid", root=root).identity
    root.rename(moved)
    assert load_dataset("camvid", root=moved).identity == root_identity


def test_other_data_under_the_same_ids_has_another_identity(make_tree: MakeTree) -> None:
    root = make_tree("folder")
    before = load_dataset("folder", root=root).identity
    assert load_dataset("folder", root=root).identity == before
    (root / "masks/scene/1.png").write_bytes((root / "masks/scene/1.png").read_bytes() + b"\0")
    after = load_dataset("folder", root=root).identity
    assert after.ids_digest == before.ids_digest
    assert after != before


def test_a_registered_dataset_of_ones_own() -> None:
    from gauntlet.samples import Sample

    class Two(Dataset):
        name, split, class_names = "two", "all", ("a", "b")

        def __init__(self, brightness: int = 0) -> None:
            self.brightness = brightness

        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> Sample:
            image = np.full((4, 4, 3), self.brightness, np.uint8)
            return Sample(self.ids()[index], image, labels=np.zeros((4, 4), np.uint8))

        def ids(self) -> list[str]:
            return ["x", "y"]

    datasets.datasets.add("two-for-the-test", Two)
    dataset = load_dataset("two-for-the-test", brightness=9, protocol="longer=2")
    assert (dataset[0].image == np.full((2, 2, 3), 9)).all()
    with pytest.raises(GauntletError, match="comes without files"):
        load_dataset("two-for-the-test", root="somewhere")


def test_a_function_that_makes_a_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_street(size: int = 1) -> Dataset:
        return load_dataset("streets", limit=size)

    monkeypatch.setitem(datasets.datasets._entries, "first", first_street)
    assert len(load_dataset("first", size=2)) == 2
    with pytest.raises(GauntletError, match="option of the dataset 'first' 'sise'; did you mean 'size'"):
        load_dataset("first", sise=2)
    monkeypatch.setitem(datasets.datasets._entries, "first", lambda: [1])
    with pytest.raises(GauntletError, match=r"the dataset 'first' is a function that returned a list, no Dataset\."):
        load_dataset("first")

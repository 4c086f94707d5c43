"""Data is what its bytes are: any change of images or ground truth is another key, and no stored result is taken."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

import gauntlet
from dataset_trees import TREES, MakeTree
from gauntlet.cli import commands  # noqa: F401 - registers the commands
from gauntlet.cli.app import app
from gauntlet.datasets import Dataset, contents, load_dataset
from gauntlet.datasets.contents import boxes_digest
from gauntlet.datasets.known_data import published_sentence, remember
from gauntlet.datasets.streets.dataset import Streets
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.local import run_job
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.jobs import Settings, plan_job
from gauntlet.evaluation.reloading import Loaders, evaluated_again
from gauntlet.models import SegmentationModel
from gauntlet.results import Store
from gauntlet.samples import Boxes, Sample
from gauntlet.threats import build_threat
from tiny import TinyDataset

SIZE = (16, 24)


def write_folder(root: Path, images: int = 4) -> Path:
    """A folder of BMP files, whose sizes say nothing about their contents."""
    draws = np.random.default_rng(0)
    for name in ("images", "masks"):
        (root / name).mkdir(parents=True)
    for index in range(images):
        picture = draws.integers(0, 256, (*SIZE, 3), dtype=np.uint8)
        Image.fromarray(picture).save(root / "images" / f"{index}.bmp")
        Image.fromarray((picture[..., 0] > 127).astype(np.uint8) + (picture[..., 1] > 200)).save(
            root / "masks" / f"{index}.bmp"
        )
    (root / "classes.txt").write_text("dark\nlight\nred\n")
    return root


def paint_half_black(root: Path) -> None:
    path = root / "images" / "0.bmp"
    picture = np.array(Image.open(path))
    picture[:, : SIZE[1] // 2] = 0
    Image.fromarray(picture).save(path)


def swap_two_masks(root: Path) -> None:
    one, other = root / "masks" / "0.bmp", root / "masks" / "1.bmp"
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def exchange_two_classes(root: Path) -> None:
    (root / "classes.txt").write_text("light\ndark\nred\n")


def keep_the_times(root: Path) -> None:
    """Paint, and put size and time of change back as they were."""
    path = root / "images" / "0.bmp"
    state = os.stat(path)
    paint_half_black(root)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.mark.parametrize("change", [paint_half_black, swap_two_masks, exchange_two_classes, keep_the_times])
def test_a_changed_folder_is_computed_anew(
    tmp_path: Path, tiny_model: SegmentationModel, change: Callable[[Path], None]
) -> None:
    root, store = write_folder(tmp_path / "data"), Store()
    before = gauntlet.evaluate(tiny_model, load_dataset("folder", root=root), store=store)
    again = gauntlet.evaluate(tiny_model, load_dataset("folder", root=root), store=store)
    assert again.from_store
    assert again.key == before.key
    change(root)
    after = gauntlet.evaluate(tiny_model, load_dataset("folder", root=root), store=store)
    assert not after.from_store
    assert after.key != before.key
    alone = gauntlet.evaluate(tiny_model, load_dataset("folder", root=root))
    assert after.figures == alone.figures


def test_a_copy_of_the_files_has_the_same_key(tmp_path: Path, tiny_model: SegmentationModel) -> None:
    root = write_folder(tmp_path / "one" / "data")
    copy = shutil.copytree(root, tmp_path / "other" / "data")
    keys = {gauntlet.evaluate(tiny_model, load_dataset("folder", root=each)).key for each in (root, copy)}
    assert len(keys) == 1


def test_every_box_of_an_annotation_file_counts(make_tree: MakeTree) -> None:
    root = make_tree("coco")
    before = load_dataset("coco", root=root).identity
    path = next(root.rglob("instances_*.json"))
    content = json.loads(path.read_text())
    for annotation in content["annotations"]:
        annotation["bbox"] = [1, 1, 3, 3]
    path.write_text(json.dumps(content))
    assert load_dataset("coco", root=root).identity.contents != before.contents


LAYOUTS = [name for name in TREES if name != "bdd100k"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_read_by_its_bytes(make_tree: MakeTree, layout: str) -> None:
    """One byte of any image or ground truth, changed at its end, is another identity or no image any more."""
    root = make_tree(layout)
    dataset = load_dataset(layout, root=root)
    before = dataset.identity.contents
    assert before
    changed = 0
    for path in sorted(root.rglob("*")):
        if not path.is_file() or path.suffix in (".txt", ".json"):
            continue
        whole = path.read_bytes()
        path.write_bytes(whole + b"\0")
        changed += load_dataset(layout, root=root).identity.contents != before
        path.write_bytes(whole)
    assert load_dataset(layout, root=root).identity.contents == before
    assert changed >= len(dataset)


class Darker(Streets):
    """A user's own class derived from one of ours, whose digests must not be taken over."""

    shade = 8

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        return Sample(sample.id, sample.image // self.shade, sample.labels)


def test_what_a_user_changes_of_a_class_of_ours_is_told_apart() -> None:
    ours, darker = Streets(length=2, size=(32, 64)), Darker(length=2, size=(32, 64))
    assert ours.identity.contents != darker.identity.contents
    before = darker.identity.contents
    darker.shade = 4
    assert darker.identity.contents != before


class Array(Dataset):
    """A dataset in memory."""

    name, split, class_names = "array", "", ("a", "b", "c")

    def __init__(self, images: int = 5) -> None:
        draws = np.random.default_rng(1)
        self.images = draws.integers(0, 256, (images, *SIZE, 3), dtype=np.uint8)
        self.labels = draws.integers(0, 3, (images, *SIZE)).astype(np.int64)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Sample:
        return Sample(f"{index}", self.images[index], self.labels[index])

    def ids(self) -> list[str]:
        return [f"{index}" for index in range(len(self))]


@settings(max_examples=20, deadline=None)
@given(
    where=st.tuples(st.integers(0, 4), st.integers(0, SIZE[0] - 1), st.integers(0, SIZE[1] - 1)),
    what=st.sampled_from(["image", "label", "void", "names", "background"]),
)
def test_any_change_of_an_array_is_another_key(where: tuple[int, int, int], what: str) -> None:
    data = Array()
    before = data.identity.as_dict()
    if what == "image":
        data.images[where] ^= 1
    elif what == "label":
        data.labels[where] = (data.labels[where] + 1) % 3
    elif what == "void":
        data.ignore_index = 254
    elif what == "names":
        data.class_names = ("b", "a", "c")
    else:
        data.background_index = 0
    assert data.identity.as_dict() != before


def test_label_maps_of_another_type_are_the_same_data() -> None:
    data, other = Array(), Array()
    other.labels = other.labels.astype(np.uint8)
    assert data.identity == other.identity


class Told(Silent):
    """Counts the images that were computed, and keeps the notes."""

    def __init__(self) -> None:
        self.images, self.notes = 0, list[str]()

    def advance(self, count: int, figure: float = 0.0, name: str = "", text: str = "") -> None:
        self.images += count

    def note_once(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize("threat", ["clean", {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 2}}, "fog"])
def test_a_subset_is_its_images(tiny_model: SegmentationModel, threat: Any) -> None:
    """What is stored of 6 images serves 3 of them, and in part 10, bit for bit."""
    store, size = Store(), ((32, 48),)
    six = gauntlet.evaluate(tiny_model, TinyDataset(6, size), threat, store=store, batch_size=2)
    few, many, nine = Told(), Told(), TinyDataset(9, size)
    three = gauntlet.evaluate(tiny_model, nine.subset(3), threat, store=store, batch_size=4, progress=few)
    ten = gauntlet.evaluate(tiny_model, TinyDataset(10, size), threat, store=store, batch_size=4, progress=many)
    assert (few.images, many.images) == (0, 4)
    made_with = {name: six.provenance[name] for name in ("gauntlet", "torch", "device")}
    assert three.provenance["counts_from"] == {"key": six.key, "images": 3, **made_with}
    assert three.provenance["hosts"] == six.provenance["hosts"]
    assert three.provenance["batch_size"] == 2
    rows = {row.image_id: row.counts for row in store.counts_of(six.key)}
    for smaller in (three, ten):
        shared = {row.image_id: row.counts for row in store.counts_of(smaller.key) if row.image_id in rows}
        assert shared == {name: rows[name] for name in shared}
    fresh = gauntlet.evaluate(tiny_model, TinyDataset(10, size), threat, batch_size=2)
    assert ten.figures == fresh.figures
    assert (three.images, six.images, ten.images) == (3, 6, 10)


def test_counts_of_a_model_that_differs_from_itself_are_not_taken_over() -> None:
    class Drawing(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return torch.randn(len(images), 3, *images.shape[-2:])

    model, store, told = gauntlet.wrap_model(Drawing(), num_classes=3), Store(), Told()
    gauntlet.evaluate(model, TinyDataset(6), store=store)
    gauntlet.evaluate(model, TinyDataset(3), store=store, progress=told)
    assert told.images == 3


def test_again_takes_no_counts_over(tiny_model: SegmentationModel) -> None:
    store, told = Store(), Told()
    gauntlet.evaluate(tiny_model, TinyDataset(6), store=store)
    gauntlet.evaluate(tiny_model, TinyDataset(3), store=store, progress=told, retrieve_existing=False)
    assert told.images == 3


def test_an_image_that_changes_while_a_run_goes_on_ends_it(tiny_model: SegmentationModel) -> None:
    class Changing(Array):
        reads = 0

        def __getitem__(self, index: int) -> Sample:
            self.reads += 1
            if self.reads > len(self):  # all were read to identify them
                self.images[index] = 0
            return super().__getitem__(index)

    planned = plan_job(tiny_model, Changing(), build_threat("clean"), Settings())
    with pytest.raises(GauntletError, match="is not what it was when the evaluation was planned"):
        run_job(planned, Store(), Silent())


def test_trusted_data_is_not_read_and_says_so(tmp_path: Path, tiny_model: SegmentationModel) -> None:
    root, store = write_folder(tmp_path / "data"), Store()
    told, unread = Told(), load_dataset("folder", root=root, trust_data=True)
    trusted = gauntlet.evaluate(tiny_model, unread, store=store, progress=told)
    assert any("are trusted, not read" in note for note in told.notes)
    assert trusted.contents == "trusted"
    read = gauntlet.evaluate(tiny_model, load_dataset("folder", root=root), store=store)
    assert read.key != trusted.key
    assert not read.from_store


def test_files_are_read_once_and_again_when_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_folder(tmp_path / "data")
    for path in root.rglob("*.bmp"):
        os.utime(path, (1, 1))
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(contents, "_SETTLED", -60.0)  # files were written just now
    read: list[str] = []
    usual = contents._bytes_digest

    def reading(path: Path) -> str:
        read.append(path.name)
        return usual(path)

    monkeypatch.setattr(contents, "_bytes_digest", reading)
    first = load_dataset("folder", root=root).identity
    assert len(read) == 8
    monkeypatch.setattr(contents, "_SEEN", {})  # as in a new process
    assert load_dataset("folder", root=root).identity == first
    assert len(read) == 8
    paint_half_black(root)
    assert load_dataset("folder", root=root).identity != first
    assert read[8:] == ["0.bmp"]


def test_a_cache_that_is_damaged_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_folder(tmp_path / "data")
    first = load_dataset("folder", root=root).identity
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "digests.sqlite").write_bytes(b"no database" * 100)
    assert load_dataset("folder", root=root).identity == first


def test_published_data_is_known_by_its_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = write_folder(tmp_path / "data")
    data = load_dataset("folder", root=root)
    assert published_sentence(data.name, data.split, data.contents()) is None  # nobody knows
    remember(data.name, data.split, data.contents())
    assert published_sentence(data.name, data.split, data.subset(2).contents()) is None
    paint_half_black(root)
    sentence = published_sentence(data.name, data.split, load_dataset("folder", root=root).contents())
    assert sentence is not None
    assert sentence.startswith("1 of 4 images of folder:data/all are not")


def test_camvid_here_is_the_published_set_and_a_darkened_copy_is_not(shared: Path, tmp_path: Path) -> None:
    root = shared / "realdata" / "camvid"
    data = load_dataset("camvid", root=root, split="test", limit=3)
    assert published_sentence("camvid", "test", data.contents()) is None
    for folder in ("test", "testannot"):
        (tmp_path / folder).mkdir()
    pairs = [line.split() for line in (root / "test.txt").read_text().splitlines()[:3]]
    for image, label in pairs:
        name = Path(image).name
        Image.fromarray(np.array(Image.open(root / "test" / name)) // 8).save(tmp_path / "test" / name)
        shutil.copy(root / "testannot" / Path(label).name, tmp_path / "testannot" / Path(label).name)
    darker = load_dataset("camvid", root=tmp_path, split="test")
    sentence = published_sentence("camvid", "test", darker.contents())
    assert sentence is not None
    assert sentence.startswith("3 of 3 images of camvid/test are not")
    assert darker.ids() == data.ids()
    assert darker.identity.contents != data.identity.contents


def test_data_check_remembers_and_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))
    root = write_folder(tmp_path / "data")
    first = CliRunner().invoke(app, ["data", "check", "folder", str(root), "--remember"])
    assert "are kept in" in first.output
    assert (
        "is the published set, byte for byte" in CliRunner().invoke(app, ["data", "check", "folder", str(root)]).output
    )
    paint_half_black(root)
    outcome = CliRunner().invoke(app, ["data", "check", "folder", str(root)])
    assert "1 of 4 images of folder:data/all are not, byte for byte" in outcome.output


def test_what_an_evaluation_is_shown_with_is_what_was_evaluated(tiny_model: SegmentationModel) -> None:
    """A gallery runs a threat again: on other images or by other code of the same weights it shows something else."""
    data = Array()
    stored = gauntlet.evaluate(tiny_model, data)
    loaders = Loaders(model=lambda name: tiny_model, dataset=lambda name, split: data)
    with evaluated_again(stored, loaders):
        pass
    data.images[0] = 0
    with pytest.raises(GauntletError, match="are not those that were evaluated"), evaluated_again(stored, loaders):
        pass
    other = replace(stored, code="0123456789abcdef")
    with pytest.raises(GauntletError, match=r"code of .* is not that"), evaluated_again(other, loaders):
        pass


def test_boxes_at_another_scale_are_other_boxes() -> None:
    boxes = Boxes(np.array([[0, 0, 4, 4]], np.float32), np.array([0]))
    assert boxes_digest(boxes) == boxes_digest(replace(boxes, pixel_area=1.0))
    assert boxes_digest(boxes) != boxes_digest(replace(boxes, pixel_area=4.0))

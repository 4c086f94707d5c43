"""Corrupted copies of a dataset on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.samples import Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import build_threat
from gauntlet.threats.corruptions import write_corrupted, writing


class Pictures(Dataset):
    """Grey blocks under given ids; counts how often one is read."""

    name, split, class_names = "pictures", "val", ("a",)

    def __init__(self, ids: Sequence[str] = ("000001.jpg", "a/000002.jpg", "third"), size: int = 40) -> None:
        self._ids, self._size, self.reads = ids, size, 0

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> Sample:
        self.reads += 1
        grey = np.random.default_rng(index).integers(0, 256, (self._size // 4, 12, 1), dtype=np.uint8)
        return Sample(self._ids[index], grey.repeat(4, axis=0).repeat(4, axis=1).repeat(3, axis=2))

    def ids(self) -> Sequence[str]:
        return self._ids


def read(path: Path) -> np.ndarray:
    image: np.ndarray = cv2.imread(str(path), cv2.IMREAD_COLOR)[..., ::-1]
    return image


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_layout_of_detecbench(tmp_path: Path) -> None:
    done = write_corrupted(Pictures(), tmp_path, ["fog", "jpeg"], [1, 3])
    assert done == writing.WrittenCopy(tmp_path, 12, 0)
    folders = [f"cc/{name}/severity_{severity}" for name in ("fog", "jpeg_compression") for severity in (1, 3)]
    names = ("000001.png", "a/000002.png", "third.png")
    assert files(tmp_path) == sorted(["corrupted.json", *(f"{folder}/{name}" for folder in folders for name in names)])


def test_a_file_is_what_the_threat_gives(tmp_path: Path) -> None:
    dataset = Pictures()
    write_corrupted(dataset, tmp_path, ["snow"], [2], seed=9, layout="plain", channels="bgr")
    sample = dataset[1]
    threat = build_threat({"corruption": {"name": "snow", "severity": 2, "channels": "bgr"}})
    images = threat.perturb(None, collate([sample]), [ImageSeed(9, sample.id)]).images  # type: ignore[arg-type]
    expected = (images[0].permute(1, 2, 0) * 255).round().byte().numpy()
    assert (read(tmp_path / "snow/2/a/000002.png") == expected).all()


def test_a_localized_copy_has_the_images_of_the_threat_and_their_masks(tmp_path: Path) -> None:
    dataset, place = Pictures(), {"ratio": 0.5, "patch": 8}
    write_corrupted(dataset, tmp_path, ["snow"], [2], seed=9, region={"patches": place})
    sample = dataset[1]
    threat = build_threat({"localized": {"corruption": {"name": "snow", "severity": 2}, **place}})
    made = threat.perturb(None, collate([sample]), [ImageSeed(9, sample.id)])  # type: ignore[arg-type]
    expected = (made.images[0].permute(1, 2, 0) * 255).round().byte().numpy()
    assert (read(tmp_path / "cc/snow/severity_2/a/000002.png") == expected).all()
    assert made.region is not None
    assert made.region.any()
    assert (read(tmp_path / "masks/a/000002.png")[..., 0] == 255 * made.region[0].numpy()).all()
    assert len(files(tmp_path / "masks")) == len(dataset)
    with pytest.raises(GauntletError, match="holds a copy with region"):
        write_corrupted(dataset, tmp_path, ["snow"], [2], seed=9)


def test_jpeg_keeps_the_file_name(tmp_path: Path) -> None:
    write_corrupted(Pictures(["0001.jpg"]), tmp_path / "a", ["brightness"], [3], format="jpeg")
    write_corrupted(Pictures(["0001.jpg"]), tmp_path / "b", ["brightness"], [3])
    lossy = read(tmp_path / "a/cc/brightness/severity_3/0001.jpg").astype(int)
    exact = read(tmp_path / "b/cc/brightness/severity_3/0001.png").astype(int)
    assert 0 < np.abs(lossy - exact).mean() < 4


def test_interrupted_and_continued(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        assert total == 6
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_corrupted(Pictures(), tmp_path / "x", ["fog", "contrast"], [3], progress=stop)
    assert len(files(tmp_path / "x")) == 1 + 4

    seen: list[tuple[int, int]] = []
    dataset = Pictures()
    done = write_corrupted(
        dataset, tmp_path / "x", ["fog", "contrast"], [3], progress=lambda *counts: seen.append(counts)
    )
    assert (done.written, done.kept) == (2, 4)
    assert dataset.reads == 3 + 1  # all to identify them; images that are complete are not corrupted again
    assert seen == [(2, 6), (4, 6), (6, 6)]

    write_corrupted(Pictures(), tmp_path / "y", ["contrast", "fog"], [3])
    for name in files(tmp_path / "y"):
        assert (tmp_path / "x" / name).read_bytes() == (tmp_path / "y" / name).read_bytes()


def test_a_file_that_could_not_be_finished_does_not_appear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    write_corrupted(Pictures(["one"]), tmp_path, ["fog"], [1])
    with monkeypatch.context() as patch:
        patch.setattr("gauntlet.files.os.replace", broken)
        with pytest.raises(GauntletError, match=r"cannot write .*severity_2/one.png: No space left on device\."):
            write_corrupted(Pictures(["one"]), tmp_path, ["fog"], [2])
    assert files(tmp_path) == ["cc/fog/severity_1/one.png", "corrupted.json"]


def test_a_folder_holds_one_set_of_settings(tmp_path: Path) -> None:
    write_corrupted(Pictures(), tmp_path, ["fog"], [1])
    write_corrupted(Pictures(), tmp_path, ["contrast"], [1, 2])  # more of the same is fine
    with pytest.raises(GauntletError, match="holds a copy with seed 0, not 1; choose another folder"):
        write_corrupted(Pictures(), tmp_path, ["fog"], [1], seed=1)
    with pytest.raises(GauntletError, match="holds a copy with channels 'rgb', not 'bgr'"):
        write_corrupted(Pictures(), tmp_path, ["fog"], [1], channels="bgr")
    with pytest.raises(GauntletError, match="holds a copy with dataset"):
        write_corrupted(Pictures(["other"]), tmp_path, ["fog"], [1])
    (tmp_path / "corrupted.json").write_text("{")
    with pytest.raises(GauntletError, match="cannot be read; remove it or choose another folder"):
        write_corrupted(Pictures(), tmp_path, ["fog"], [1])


def test_a_copy_from_before_there_was_a_depth_rule_goes_on(tmp_path: Path) -> None:
    write_corrupted(Pictures(), tmp_path, ["fog"], [1])
    manifest = tmp_path / "corrupted.json"
    record = json.loads(manifest.read_text())
    assert record.pop("depth_rule") == "metric"
    manifest.write_text(json.dumps(record))
    assert write_corrupted(Pictures(), tmp_path, ["fog"], [1, 2]).kept == len(Pictures())
    with pytest.raises(GauntletError, match="holds a copy with depth_rule 'metric', not 'estimated'"):
        write_corrupted(Pictures(), tmp_path, ["fog"], [1], depth_rule="estimated")
    manifest.write_text("[]")
    with pytest.raises(GauntletError, match="cannot be read; remove it or choose another folder"):
        write_corrupted(Pictures(), tmp_path, ["fog"], [1])


def test_the_settings_are_on_record(tmp_path: Path) -> None:
    write_corrupted(Pictures(), tmp_path, ["fog"], [1], seed=4)
    record = json.loads((tmp_path / "corrupted.json").read_text())
    assert (record["seed"], record["format"], record["dataset"]["name"]) == (4, "png", "pictures")


def test_bad_input_is_told_before_anything_is_written(tmp_path: Path) -> None:
    root = tmp_path / "copy"
    with pytest.raises(UnknownNameError, match="'detecbench'"):
        write_corrupted(Pictures(), root, layout="detectbench")
    with pytest.raises(UnknownNameError, match="image format 'gif'"):
        write_corrupted(Pictures(), root, format="gif")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="'fog'"):
        write_corrupted(Pictures(), root, ["fogg"])
    with pytest.raises(GauntletError, match="not 7"):
        write_corrupted(Pictures(), root, ["fog"], [7])
    assert not root.exists()
    with pytest.raises(GauntletError, match=r"the image id '\.\./up' cannot be a file name"):
        write_corrupted(Pictures(["../up"]), root, ["fog"], [1])
    with pytest.raises(GauntletError, match="image 'small': an image to corrupt must be at least 32 pixels"):
        write_corrupted(Pictures(["small"], size=20), tmp_path / "other", ["fog"], [1])
    (tmp_path / "file").write_text("")
    with pytest.raises(GauntletError, match="cannot write"):
        write_corrupted(Pictures(), tmp_path / "file", ["fog"], [1])


def test_reference_textures_go_to_frost_only(tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match="has no frost"):
        write_corrupted(Pictures(["a"]), tmp_path / "x", ["fog", "frost"], [1], frost_textures=tmp_path / "none")
    assert (tmp_path / "x/cc/fog/severity_1/a.png").exists()

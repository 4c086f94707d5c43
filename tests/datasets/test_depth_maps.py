"""Depth for datasets without it: maps by hand, Cityscapes' disparity by its formula, and GAM of a detector."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import gauntlet
from gauntlet.analysis import gam
from gauntlet.datasets import depth_maps
from gauntlet.datasets.depth_maps import EstimatedDepth, WithDepth
from gauntlet.errors import GauntletError
from gauntlet.results import open_store
from gauntlet.samples import Sample
from gauntlet.threats import suites
from gauntlet.threats.build import ThreatLike
from gauntlet.threats.corruptions import write_corrupted
from tiny_detector import CLASSES, TinyBoxes, TinyDetector


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    """Three images in COCO's form, with a plane of depth for each: 2 m at the bottom, 30 m at the top."""
    source = TinyBoxes(3)
    (tmp_path / "images").mkdir()
    (tmp_path / "depth").mkdir()
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number in range(3):
        sample = source[number]
        height, width = sample.image.shape[:2]
        cv2.imwrite(str(tmp_path / f"images/{number}.png"), sample.image[..., ::-1])
        metres = np.repeat(np.linspace(30, 2, height)[:, None], width, axis=1)
        cv2.imwrite(str(tmp_path / f"depth/{number}.png"), (1000 * metres).astype(np.uint16))
        images.append({"id": number, "file_name": f"{number}.png", "height": height, "width": width})
        assert sample.boxes is not None
        for corners, kind in zip(sample.boxes.xyxy.tolist(), sample.boxes.classes.tolist(), strict=True):
            box = [corners[0], corners[1], corners[2] - corners[0], corners[3] - corners[1]]
            common = {"image_id": number, "iscrowd": 0, "area": box[2] * box[3]}
            annotations.append({"id": len(annotations) + 1, "category_id": kind, "bbox": box, **common})
    categories = [{"id": number, "name": name} for number, name in enumerate(CLASSES)]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (tmp_path / "instances.json").write_text(json.dumps(content))
    return tmp_path


MILLIMETRES = {"folder": "depth", "scale": 0.001}


def test_maps_beside_the_images(coco: Path) -> None:
    plain, deep = (gauntlet.load_dataset("coco", root=coco, depth=depth) for depth in (None, MILLIMETRES))
    assert (plain.has_depth, deep.has_depth) == (False, True)
    metres = deep[0].depth
    assert metres is not None
    assert metres[[0, -1], 0].tolist() == pytest.approx([30, 2])
    assert (deep[1].image == plain[1].image).all()
    assert plain.identity != deep.identity
    assert deep.identity == gauntlet.load_dataset("coco", root=coco, depth=MILLIMETRES).identity
    assert deep.origin is not None
    assert deep.origin["options"] == {"depth": MILLIMETRES}
    small = gauntlet.load_dataset("coco", root=coco, depth=MILLIMETRES, protocol="shorter=16")[0]
    assert small.depth is not None
    assert small.depth.shape == small.image.shape[:2]


def test_maps_of_one_shape_with_other_depths_are_other_data(coco: Path) -> None:
    identities = []
    for folder, metres in (("near", 2.0), ("far", 30.0), ("again", 2.0)):
        (coco / folder).mkdir()
        for number in range(3):
            np.save(coco / folder / f"{number}.npy", np.full((32, 48), metres))
        identities.append(gauntlet.load_dataset("coco", root=coco, depth=f"folder:{folder}").identity)
    near, far, again = identities
    assert near != far
    assert near == again


def test_pixels_without_depth_and_maps_of_floats(coco: Path) -> None:
    values = np.full((32, 48), 5.0)
    values[0, :4] = (0, -1, np.nan, 7)
    (coco / "depth/0.png").unlink()
    np.save(coco / "depth/0.npy", values)
    depth = gauntlet.load_dataset("coco", root=coco, depth=f"folder:{coco}/depth")[0].depth
    assert depth is not None
    assert depth[0, :5].tolist() == [np.inf, np.inf, np.inf, 7, 5]
    stored = np.full((32, 48), 2000, np.uint16)
    stored[0, :2] = (0, 65535)
    cv2.imwrite(str(coco / "depth/1.png"), stored)
    depth = gauntlet.load_dataset("coco", root=coco, depth=MILLIMETRES)[1].depth
    assert depth is not None
    assert depth[0, :3].tolist() == [np.inf, np.inf, 2]


@pytest.mark.parametrize(
    ("depth", "message"),
    [
        ({"folder": "none"}, "is not a folder"),
        ({"folder": "depth", "scale": 0}, "must be above 0"),
        ({"folder": "depth", "unit": 1}, "unknown setting of depth 'unit'"),
        ({"scale": 1}, "needs a folder of maps"),
        ("disparity", "disparity maps are Cityscapes' way to depth, not that of 'coco'"),
        ("midas", "unknown kind of depth 'midas'"),
    ],
)
def test_bad_settings_are_one_sentence(coco: Path, depth: Any, message: str) -> None:
    with pytest.raises(GauntletError, match=message):
        gauntlet.load_dataset("coco", root=coco, depth=depth)


def test_a_missing_map_is_told_before_anything_runs(coco: Path) -> None:
    (coco / "depth/2.png").unlink()
    with pytest.raises(GauntletError, match="there is no depth map of the image '2'"):
        gauntlet.load_dataset("coco", root=coco, depth=MILLIMETRES)
    cv2.imwrite(str(coco / "depth/2.png"), np.ones((4, 4), np.uint16))
    with pytest.raises(GauntletError, match="the depth of the image '2' is 4x4, the image 32x48"):
        gauntlet.load_dataset("coco", root=coco, depth=MILLIMETRES)[2]


def test_disparity_of_cityscapes(tmp_path: Path) -> None:
    """A stored 257 is a disparity of 1 pixel: baseline 0.2 m times fx 2000 px gives 400 m; 2561 gives 40 m."""
    name = "bonn_000000_000019"
    for folder in ("leftImg8bit", "gtFine", "disparity", "camera"):
        (tmp_path / folder / "val/bonn").mkdir(parents=True)
    cv2.imwrite(str(tmp_path / f"leftImg8bit/val/bonn/{name}_leftImg8bit.png"), np.zeros((2, 3, 3), np.uint8))
    cv2.imwrite(str(tmp_path / f"gtFine/val/bonn/{name}_gtFine_labelIds.png"), np.full((2, 3), 7, np.uint8))
    stored = np.array([[0, 1, 257], [2561, 257, 257]], np.uint16)
    cv2.imwrite(str(tmp_path / f"disparity/val/bonn/{name}_disparity.png"), stored)
    camera = tmp_path / f"camera/val/bonn/{name}_camera.json"
    camera.write_text(json.dumps({"extrinsic": {"baseline": 0.2}, "intrinsic": {"fx": 2000}}))
    data = gauntlet.load_dataset("cityscapes", root=tmp_path, depth="disparity")
    depth = data[0].depth
    assert depth is not None
    assert depth == pytest.approx(np.array([[np.inf, np.inf, 400], [40, 400, 400]]))
    camera.write_text("{}")
    with pytest.raises(GauntletError, match=r"must hold extrinsic\.baseline and intrinsic\.fx"):
        data[0]
    camera.unlink()
    with pytest.raises(GauntletError, match=r"unpack disparity_trainvaltest\.zip and camera_trainvaltest\.zip"):
        data[0]


class StandIn:
    """As much of transformers as an estimator uses: inverse depth is the brightness of the image."""

    def __init__(self, kind: str) -> None:
        self.config = type("Config", (), {"model_type": kind, "_commit_hash": "abc"})()

    def from_pretrained(self, model: str) -> StandIn:
        assert model == "owner/depth"
        return self

    def eval(self) -> StandIn:
        return self

    def requires_grad_(self, _: bool) -> StandIn:
        return self

    def __call__(self, images: Any = None, return_tensors: str = "", values: Any = None) -> Any:
        import torch

        if images is not None:
            return {"values": images}
        grey = torch.from_numpy(values.astype(np.float32).mean(axis=2))[None]
        if self.config.model_type == "zoedepth":
            grey = torch.nn.functional.pad(grey, (5, 5, 5, 5))
        return type("Output", (), {"predicted_depth": grey})()

    def post_process_depth_estimation(self, output: Any, source_sizes: list[tuple[int, int]]) -> list[dict[str, Any]]:
        (map_,), ((height, width),) = output.predicted_depth, source_sizes
        return [{"predicted_depth": map_[5 : 5 + height, 5 : 5 + width]}]


@pytest.mark.parametrize("kind", ["dpt", "zoedepth"])
def test_a_network_estimates_depth(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    library = StandIn(kind)
    library.AutoModelForDepthEstimation = library.AutoImageProcessor = library  # type: ignore[attr-defined]
    monkeypatch.setattr(depth_maps, "_require_transformers", lambda: library)
    image = np.repeat(np.array([[200, 100], [50, 0]], np.uint8)[..., None], 3, axis=2)
    depth = EstimatedDepth("owner/depth").read(Sample("one", image))
    # Inverse depth 1, 1/2, 1/4 and at least a thousandth; metres as they come, none where there are none.
    expected = [[1, 2], [4, 1000]] if kind == "dpt" else [[200, 100], [50, np.inf]]
    assert depth == pytest.approx(np.array(expected))
    data = depth_maps.with_depth(TinyBoxes(1), "hf:owner/depth", None)
    assert isinstance(data, WithDepth)
    assert data.protocol["depth"] == {"estimator": "owner/depth", "revision": "abc"}


def test_an_estimator_that_does_not_load_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: str) -> None:
        raise OSError("there is no such folder.")

    library = StandIn("dpt")
    library.from_pretrained = refuse  # type: ignore[assignment, method-assign]
    library.AutoModelForDepthEstimation = library  # type: ignore[attr-defined]
    monkeypatch.setattr(depth_maps, "_require_transformers", lambda: library)
    with pytest.raises(GauntletError, match="no depth estimator can be loaded from 'hf:nobody/none'"):
        depth_maps.with_depth(TinyBoxes(1), "hf:nobody/none", None)


def test_gam_of_a_detector_on_images_in_cocos_form_is_a_number(coco: Path) -> None:
    data = gauntlet.load_dataset("coco", root=coco, depth=MILLIMETRES, limit=2)
    threats: list[ThreatLike] = [each for each in suites.build("detecbench", "detection") if "corruption" in each]
    assert len(threats) == 23
    with open_store() as store:
        gauntlet.evaluate(TinyDetector(), data, threats, store=store)
        table = gam(store.frame())
        row = table[table["metric"].eq("mAP")].iloc[0]
        frame = store.frame()
    assert (row["summary"], row["missing"]) == ("GAM_3", "")
    values = frame[frame["metric"].eq("mAP") & frame["class_name"].eq("") & frame["view"].eq("all")]["value"]
    assert row["value"] == values.min()


def test_copies_are_read_back(coco: Path, tmp_path: Path) -> None:
    """What `gauntlet data corrupt` wrote gives the figures of the corruption itself, without depth."""
    deep = gauntlet.load_dataset("coco", root=coco, depth=MILLIMETRES)
    copies = tmp_path / "copies"
    write_corrupted(deep, copies, ["fog", "fog_3d"], [3], depth_rule="estimated")
    plain = gauntlet.load_dataset("coco", root=coco)
    for name, more in (("fog", {}), ("fog_3d", {"depth_rule": "estimated"})):
        here = gauntlet.evaluate(TinyDetector(), deep, {"corruption": {"name": name, **more}})
        threat = gauntlet.build_threat({"corruption": {"name": name, **more, "copies": str(copies)}})
        assert not threat.needs_depth
        read = gauntlet.evaluate(TinyDetector(), plain, threat)
        assert read.figures == pytest.approx(here.figures, nan_ok=True)
        assert read.key != here.key
    missing = {"corruption": {"name": "snow", "copies": str(copies)}}
    with pytest.raises(GauntletError, match="there is no copy of the image '0' under snow at severity 3"):
        gauntlet.evaluate(TinyDetector(), plain, missing)
    resized = gauntlet.load_dataset("coco", root=coco, protocol="size=40x48")
    with pytest.raises(GauntletError, match="is 32x48, the image 40x48; use the protocol"):
        gauntlet.evaluate(TinyDetector(), resized, {"corruption": {"name": "fog", "copies": str(copies)}})

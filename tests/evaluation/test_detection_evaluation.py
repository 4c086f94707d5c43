"""A detector through evaluate(), a store, a plan and the command line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.analysis import gam, leaderboard, rem
from gauntlet.cli import commands  # noqa: F401 - registers the commands
from gauntlet.datasets.protocols import Protocol, Resized
from gauntlet.errors import GauntletError
from gauntlet.evaluation.estimate import estimate
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.jobs import PlannedJob, Settings, make_job, plan_job
from gauntlet.evaluation.rereading import read_as_asked
from gauntlet.metrics.contract import Figure
from gauntlet.metrics.detection.figures import figures, image_f1
from gauntlet.models import GauntletModel
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.sources.contract import ModelSource
from gauntlet.pictures import box_colors, draw_boxes
from gauntlet.results import Store
from gauntlet.results.record import Job
from gauntlet.samples import Batch, Boxes, Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import Perturbed, Threat, build_threat
from gauntlet.threats.contract import Candidate, Clean
from program import Call
from tiny import TinyDataset
from tiny_detector import CLASSES, TinyBoxes, TinyDetector

ADDRESS = "python:tiny_detector:tiny_detector"


@pytest.fixture
def detector() -> TinyDetector:
    return TinyDetector()


class Darkening(Threat):
    """Makes the image black: everywhere, in the left half, or as one of two candidates."""

    needs_model = False

    def __init__(self, how: str) -> None:
        self.how = how

    @property
    def name(self) -> str:
        return f"darkening {self.how}"

    def describe(self) -> dict[str, Any]:
        return {"darkening": {"how": self.how}}

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        dark = torch.zeros_like(batch.images)
        if self.how == "everywhere":
            return Perturbed(dark)
        if self.how == "left":
            region = torch.zeros(batch.images.shape[0], *batch.images.shape[2:], dtype=torch.bool)
            region[..., : batch.images.shape[3] // 2] = True
            return Perturbed(torch.where(region[:, None], dark, batch.images), region=region)
        ran = torch.ones(len(batch), dtype=torch.bool)
        skipped = ran.clone()
        skipped[0] = False
        candidates = {"clean": Candidate(batch.images, ran), "dark": Candidate(dark, ran)}
        return Perturbed(dark, candidates={**candidates, "after": Candidate(batch.images, skipped)})


def by_hand(detector: TinyDetector, data: TinyBoxes) -> tuple[list[Boxes], list[Boxes]]:
    truths = [sample.boxes for sample in data if sample.boxes is not None]
    return truths, [detector.predict(collate([sample]).images)[0] for sample in data]


def test_clean_figures_are_those_of_a_plain_loop(detector: TinyDetector) -> None:
    data = TinyBoxes(8)
    result = gauntlet.evaluate(detector, data)
    truths, detected = by_hand(detector, data)
    for name, expected in figures(truths, detected, len(CLASSES)).items():
        np.testing.assert_equal(result.figures[name], expected)
    assert result.task == "detection"
    assert next(iter(result.figures)) == "mAP"
    assert result.figures["mAP50"] > 0.9
    assert result.intervals["mAP"][0] <= result.figures["mAP"] <= result.intervals["mAP"][1]
    assert list(result.per_class.index) == list(CLASSES)
    f1 = [image_f1(truth, each) for truth, each in zip(truths, detected, strict=True)]
    assert result.per_image["F1"].tolist() == pytest.approx(f1)


def test_every_figure_is_computed_again_from_the_store(detector: TinyDetector, tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    result = gauntlet.evaluate(detector, TinyBoxes(5), Darkening("left"), store=path)
    with gauntlet.open_store(path) as store:
        again, loaded = store.recompute(result.key), store.load(result.key)
        with pytest.raises(GauntletError, match="no per-image counts under the key 'abc'"):
            store.recompute("abc")
        with pytest.raises(GauntletError, match="no evaluation with the key 'abc'"):
            store.metric("abc")
    assert loaded is not None
    np.testing.assert_array_equal([f.value for f in again], [f.value for f in loaded.all_figures])
    detected = gauntlet.evaluate(detector, TinyBoxes(5), Darkening("left"), store=path)
    assert detected.from_store
    assert detected.per_image.equals(result.per_image)


def test_voc_2007_is_read_at_eleven_points_also_from_the_store(detector: TinyDetector) -> None:
    store, figures = Store(), {}
    for name in ("voc2007", "voc2012-detection"):
        result = gauntlet.evaluate(detector, TinyBoxes(6, name=name), Darkening("left"), store=store)
        figures[name] = {figure.metric: figure.value for figure in store.recompute(result.key) if not figure.class_name}
        np.testing.assert_equal(figures[name]["VOC_mAP75"], result.figures["VOC_mAP75"])
    assert figures["voc2007"]["mAP"] == figures["voc2012-detection"]["mAP"]
    assert figures["voc2007"]["VOC_mAP75"] != figures["voc2012-detection"]["VOC_mAP75"]


def test_results_of_an_older_metric_are_told_apart(detector: TinyDetector) -> None:
    store = Store()
    data = TinyBoxes(4, name="voc2007")
    planned = plan_job(detector, data, Clean(), Settings())
    result = gauntlet.evaluate(detector, data, store=store)
    options = store.metric_options(result.key)
    assert options["version"] == 2
    store.read_as(result.key, {name: value for name, value in options.items() if name != "version"})
    assert "version" not in store.metric_options(result.key)
    again = read_as_asked(store, planned)  # an evaluation of version 1 gets its figures from the same counts
    assert again is not None
    assert store.metric_options(result.key) == options
    assert read_as_asked(store, planned) is None
    # Counts of version 1 lack the sizes of the unresized image: where a protocol resizes, the key is another one.
    resized = Resized(data, Protocol(shorter=64))
    assert plan_job(detector, resized, Clean(), Settings()).job.settings == {"metric": 2}
    assert plan_job(detector, data, Clean(), Settings()).job.settings == {}


class TenfoldSquares(TinyBoxes):
    """The tiny boxes with annotated sizes on both sides of the limits 32² and 96²."""

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        assert sample.boxes is not None
        sizes = np.resize(np.array([500, 5000, 50000], np.float32), len(sample.boxes))
        return dataclasses.replace(sample, boxes=dataclasses.replace(sample.boxes, area=sizes))


def test_sizes_of_stored_counts_are_those_of_the_annotation(detector: TinyDetector) -> None:
    store, data = Store(), TenfoldSquares(8)
    full = gauntlet.evaluate(detector, data, store=store)
    doubled = gauntlet.evaluate(detector, Resized(data, Protocol(size=(64, 96))), store=store)
    assert doubled.key != full.key
    started, metric = store.started(doubled.key), store.metric(doubled.key)
    assert started is not None
    for row, sample in zip(store.image_rows(started), data, strict=True):
        truth = metric.decode(row.counts).truth
        assert truth.pixel_area == 0.25
        assert sample.boxes is not None
        np.testing.assert_array_equal(truth.area, sample.boxes.area)
    again = {figure.metric: figure.value for figure in store.recompute(doubled.key) if not figure.class_name}
    for name in ("mAP_small", "mAP_medium", "mAP_large"):
        np.testing.assert_equal(again[name], doubled.figures[name])


def test_a_threat_in_a_region(detector: TinyDetector) -> None:
    result = gauntlet.evaluate(detector, TinyBoxes(8), Darkening("left"))
    clean = gauntlet.evaluate(detector, TinyBoxes(8))
    assert result.figures["mAP_M"] == 0.0
    assert result.figures["mAP_Mbar"] == result.figures["mAP_Mbar_clean"] > 0
    assert 0 < result.figures["mAP"] < clean.figures["mAP"]
    assert result.figures["RCE_M"] == 1.0
    assert set(result.per_image["view"]) == {"inside", "outside", "clean inside", "clean outside"}


def test_a_battery_chooses_per_image_and_may_skip(detector: TinyDetector) -> None:
    result = gauntlet.evaluate(detector, TinyBoxes(8), Darkening("battery"))
    assert result.figures["mAP"] == 0.0
    views = {f.view: f.value for f in result.all_figures if f.metric == "mAP" and not f.class_name}
    assert set(views) == {"all", "clean", "dark"}  # "after" was skipped on an image
    assert views["clean"] > 0.5
    shares = {f.view: f.value for f in result.all_figures if f.metric == "chosen_by_F1"}
    assert shares["dark"] > 0.5
    assert sum(shares.values()) == pytest.approx(1)


PGD = {"attack": {"name": "pgd", "epsilon": "96/255", "alpha": "24/255", "steps": 6}}


def test_pgd_lowers_the_figures_and_its_battery_is_at_or_below_every_member(detector: TinyDetector) -> None:
    data = TinyBoxes(4)
    clean, attacked = gauntlet.evaluate(detector, data), gauntlet.evaluate(detector, data, PGD)
    assert attacked.figures["mAP"] < clean.figures["mAP"]
    assert attacked.figures["F1_images"] < clean.figures["F1_images"]
    battery = {"battery": {"name": "detectors", "epsilon": "96/255", "steps": 4, "skip": False}}
    worst = gauntlet.evaluate(detector, data, battery)
    members = {f.view: f.value for f in worst.all_figures if f.metric == "F1_images" and f.view != "all"}
    assert set(members) == {*worst.views}
    assert worst.figures["F1_images"] <= min(members.values())
    assert members["clean"] == clean.figures["F1_images"]


class Interrupted(Exception):
    """Raised in the middle of an evaluation."""


class Stopping(Silent):
    """Raises after two units."""

    units = 0

    def advance(self, count: int, figure: float = 0.0, name: str = "", text: str = "") -> None:
        self.units += 1
        if self.units == 2:
            raise Interrupted


def test_an_interrupted_evaluation_goes_on_and_ends_the_same(detector: TinyDetector, tmp_path: Path) -> None:
    data, store = TinyBoxes(7), Store(tmp_path / "results.db")
    with pytest.raises(Interrupted):
        gauntlet.evaluate(detector, data, Darkening("everywhere"), store=store, batch_size=2, progress=Stopping())
    started = store.started(store_key(detector, data))
    assert started is not None
    assert len(store.positions(started)) == 4
    result = gauntlet.evaluate(detector, data, Darkening("everywhere"), store=store, batch_size=2)
    fresh = gauntlet.evaluate(detector, TinyBoxes(7), Darkening("everywhere"), batch_size=2)
    np.testing.assert_array_equal([f.value for f in result.all_figures], [f.value for f in fresh.all_figures])
    assert result.key == fresh.key


def store_key(detector: TinyDetector, data: TinyBoxes) -> str:
    threat = Darkening("everywhere")
    return make_job(detector.identity, "detection", data.identity, threat, Settings()).key


def test_a_dataset_without_boxes_and_one_with_other_classes(detector: TinyDetector) -> None:
    with pytest.raises(GauntletError, match="the dataset 'tiny' has no boxes; a detector needs one with boxes"):
        gauntlet.evaluate(detector, TinyDataset(2))
    with pytest.raises(GauntletError, match="3 classes, the dataset 'streets' 4 classes of boxes"):
        gauntlet.evaluate(detector, "streets", limit=1)
    with pytest.raises(GauntletError, match="importance weighs pixels"):
        gauntlet.evaluate(detector, TinyBoxes(1), importance=lambda sample: np.ones(sample.image.shape[:2]))


class Mistaken(ModelSource):
    """A source of a detector that does not say so."""

    identity = ModelIdentity("mistaken", "0")

    def load(self) -> GauntletModel:
        return TinyDetector()


def test_a_source_that_names_the_wrong_task(detector: TinyDetector) -> None:
    with pytest.raises(GauntletError, match="is a detection model, but its source said segmentation"):
        gauntlet.evaluate(Mistaken(), TinyDataset(1))


class Silly(TinyDetector):
    """Returns one result for any number of images."""

    def predict(self, images: torch.Tensor) -> list[Boxes]:
        return super().predict(images)[:1]


def test_a_detector_that_forgets_images() -> None:
    with pytest.raises(GauntletError, match="Boxes for each of the 2 images from 'tiny-boxes/0' on"):
        gauntlet.evaluate(Silly(), TinyBoxes(2))


def test_bf16_is_another_evaluation_with_nearly_the_same_figures(detector: TinyDetector) -> None:
    data = TinyBoxes(4)
    exact, coarse = gauntlet.evaluate(detector, data), gauntlet.evaluate(detector, data, precision="bf16")
    assert exact.key != coarse.key
    assert coarse.figures["mAP50"] == pytest.approx(exact.figures["mAP50"], abs=0.1)


def test_the_time_of_a_detector_is_estimated(detector: TinyDetector) -> None:
    data = TinyBoxes(3)
    job = make_job(detector.identity, "detection", data.identity, Clean(), Settings())
    (seconds,) = estimate([PlannedJob(detector, data, Clean(), Settings(), job)])
    assert seconds > 0


# ReM and GAM -------------------------------------------------------------------------------------------------------


def stored(store: Store, description: dict[str, Any], value: float) -> None:
    kind = next(iter(description))
    data = {"name": "streets", "split": "val", "length": 1, "ids": "x", "protocol": {}}
    name = json.dumps(description)
    job = Job("detection", "net", "d", data, name, kind, description, 1, 0)
    started = store.begin(job, images=1, batch_size=1, metric={}, provenance={"started": "2026-01-01"})
    store.finish(started, [Figure("mAP", value), Figure("mAP50", value + 0.1)])


def test_rem_is_the_minimum_over_bim_and_pgd_and_gam_needs_every_corruption() -> None:
    from gauntlet.analysis.scoring.benchmark_sets import COMMON_3D, COMMON_CORRUPTIONS, DEPTH_CORRUPTIONS

    store = Store()
    budget = {"epsilon": 8 / 255, "alpha": 0.01, "steps": 20, "norm": "linf"}
    stored(store, {"attack": {"name": "bim", **budget}}, 0.12)
    assert rem(store.frame()).query("metric == 'mAP'")["value"].isna().all()  # PGD is missing
    stored(store, {"attack": {"name": "pgd", "target": 1, **budget}}, 0.01)
    assert rem(store.frame()).query("metric == 'mAP'")["value"].isna().all()  # a targeted one is another thing
    stored(store, {"attack": {"name": "pgd", "target": None, **budget}}, 0.05)
    row = rem(store.frame()).query("metric == 'mAP'").iloc[0]
    assert (row["summary"], row["value"], row["worst"]) == ("linf-ReM^8_20", 0.05, "pgd")
    for index, name in enumerate((*COMMON_CORRUPTIONS, *COMMON_3D)):
        if name == COMMON_3D[-1]:
            assert gam(store.frame()).query("metric == 'mAP'")["value"].isna().all()
        depth = {"depth_rule": "estimated"} if name in DEPTH_CORRUPTIONS else {}
        stored(store, {"corruption": {"name": name, "severity": 3, **depth}}, 0.3 + index / 100)
    row = gam(store.frame()).query("metric == 'mAP'").iloc[0]
    assert (row["summary"], row["value"], row["worst"]) == ("GAM_3", 0.3, COMMON_CORRUPTIONS[0])
    assert len(row["members"].split(", ")) == 23


def test_the_suite_detecbench_has_every_member_of_its_summaries() -> None:
    store = Store()
    threats = [build_threat(each) for each in gauntlet.suites.build("detecbench", task="detection")]
    for index, threat in enumerate(threats):
        stored(store, dict(threat.describe()), 0.5 - index / 100)
    board = leaderboard(store.frame())
    assert {"linf-ReM^8_20", "GAM_3", "mean of linf-ReM^8_20", "mean of GAM_3"} <= set(board)
    assert board[["linf-ReM^8_20", "GAM_3"]].notna().all(axis=None)
    detected = gam(store.frame()).query("metric == 'mAP' and summary == 'GAM_3'").iloc[0]
    assert (detected["missing"], detected["value"]) == ("", board["GAM_3"].iloc[0])
    boxes = leaderboard(store.frame(), "mAP50")  # any figure can be ranked by
    assert boxes["GAM_3"].iloc[0] == pytest.approx(board["GAM_3"].iloc[0] + 0.1)


# The command line --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """TinyBoxes as a small COCO folder."""
    data, root = TinyBoxes(4), tmp_path / "coco"
    (root / "images").mkdir(parents=True)
    annotations: list[dict[str, Any]] = []
    for index, sample in enumerate(data):
        cv2.imwrite(str(root / "images" / f"{index}.png"), sample.image[..., ::-1])
        assert sample.boxes is not None
        for (x0, y0, x1, y1), kind in zip(sample.boxes.xyxy.tolist(), sample.boxes.classes.tolist(), strict=True):
            row = {"id": len(annotations) + 1, "image_id": index, "category_id": kind + 1, "iscrowd": 0}
            annotations.append({**row, "bbox": [x0, y0, x1 - x0, y1 - y0], "area": (x1 - x0) * (y1 - y0)})
    content = {
        "images": [{"id": index, "file_name": f"{index}.png"} for index in range(len(data))],
        "categories": [{"id": index + 1, "name": name} for index, name in enumerate(CLASSES)],
        "annotations": annotations,
    }
    (root / "instances.json").write_text(json.dumps(content))
    return root


def test_run_evaluates_a_detector_and_finds_it_again(call: Call, folder: Path, detector: TinyDetector) -> None:
    arguments = ("run", "-m", ADDRESS, "-d", "coco", "--root", str(folder), "--device", "cpu")
    code, out, err = call(*arguments, "-t", "clean", "-t", "gaussian_noise")
    assert code == 0, err
    assert "mAP %" in out
    assert "2 computed, 0 found" in out
    code, out, _ = call(*arguments, "-t", "clean", "--json")
    document = json.loads(out)
    truths, detected = by_hand(detector, TinyBoxes(4))
    assert document["figures"]["mAP"] == figures(truths, detected, 3)["mAP"]
    assert document["from_store"] is True
    code, out, _ = call(*arguments, "-t", "clean")
    assert "boxes_per_image" in out
    assert "(not %)" in out
    assert call("run", "-m", ADDRESS, "-d", "coco", "--root", str(folder), "--dry-run")[0] == 0


def test_show_draws_truth_detections_and_what_a_threat_does(call: Call, folder: Path) -> None:
    arguments = ("show", "-d", "coco", "--root", str(folder))
    assert call(*arguments, "-o", "truth.png")[:2] == (0, "written to truth.png\n")
    assert call(*arguments, "-m", ADDRESS, "-t", "gaussian_noise", "-o", "noise.png")[0] == 0
    truth, noise = cv2.imread("truth.png"), cv2.imread("noise.png")
    assert truth.shape[1] == 2 * (96 + 6) + 6  # the image and its objects
    assert noise.shape[1] == 4 * (96 + 6) + 6  # truth, clean, corrupted, difference
    assert noise.shape[0] == truth.shape[0]


def test_boxes_are_drawn_in_the_colours_of_their_classes() -> None:
    data = TinyBoxes(1)
    colors = box_colors(data)
    assert colors.tolist() == [[255, 0, 0], [0, 255, 0], [0, 0, 255]]
    image = np.zeros((40, 60, 3), np.uint8)
    boxes = Boxes(np.array([[10, 20, 30, 38]], np.float32), np.array([1]), np.array([0.87], np.float32))
    drawn = draw_boxes(image, boxes, CLASSES, colors)
    assert drawn[37, 10:30].tolist() == [[0, 255, 0]] * 20  # the lower edge, its corner pixels included
    assert drawn[38].any() == False  # noqa: E712 - nothing below it
    assert drawn[25:36, 11:29].any() == False  # noqa: E712 - nor inside
    assert (drawn[8:19, 10:30] == [0, 255, 0]).all(axis=-1).any()  # the plate with the name above it
    large = draw_boxes(image, boxes, CLASSES, colors, scale=3)
    assert large.shape == (120, 180, 3)
    assert large[113, 30:90].tolist() == [[0, 255, 0]] * 60
    assert not image.any()  # the picture given is not drawn on
    plain = draw_boxes(image, boxes, None, colors)  # the score only: a shorter plate
    assert 0 < plain.any(axis=-1).sum() < drawn.any(axis=-1).sum()
    objects = Boxes(boxes.xyxy, boxes.classes)
    assert not draw_boxes(image, objects, None, colors)[:20].any()  # an object without a name has no plate


def test_colours_are_spread_where_the_dataset_has_none() -> None:
    class Plain(TinyBoxes):
        colors: Sequence[tuple[int, int, int]] = ()

    assert len({tuple(color) for color in box_colors(Plain(1)).tolist()}) == 3
    assert box_colors(gauntlet.load_dataset("streets", limit=1)).shape == (4, 3)


def test_dark_colours_are_brighter_around_boxes() -> None:
    class Dark(TinyBoxes):
        colors = ((64, 0, 128), (64, 64, 0), (0, 0, 0))

    assert box_colors(Dark(1)).tolist() == [[100, 0, 200], [200, 200, 0], [200, 200, 200]]

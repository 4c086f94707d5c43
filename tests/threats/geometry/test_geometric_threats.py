"""Threats that move the camera, as they are described, evaluated, stored and written: the truth moves along."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torch import nn

from gauntlet.datasets import load_dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation import evaluate
from gauntlet.evaluation.counting import build_counter, metric_options
from gauntlet.evaluation.execution.units import Unit, UnitComputer
from gauntlet.evaluation.kept_images import KeptImages
from gauntlet.evaluation.plan import parse_plan, plan_threats
from gauntlet.metrics.detection.figures import image_f1
from gauntlet.models import SegmentationModel, wrap_model
from gauntlet.results import open_store
from gauntlet.samples import Batch, collate
from gauntlet.seeding import ImageSeed
from gauntlet.tasks import DETECTION
from gauntlet.threats import Perturbed, Threat, build_threat, build_threats, rebuild_threat
from gauntlet.threats.geometry.catalogue import SERIES
from gauntlet.threats.geometry.moves import Translation
from gauntlet.threats.geometry.writing import write_moved
from gauntlet.threats.kinds.geometric import Moved
from gauntlet.threats.kinds.geometric_worst import GeometricWorstThreat
from tiny import TinyDataset
from tiny_detector import CELL, TinyBoxes, TinyDetector

TURN = {"geometric": {"name": "rotation", "degrees": 10}}
WORST = {"geometric_worst": {"draws": 3, "degrees": 10}}
MANY: list[dict[str, Any]] = [
    TURN,
    {"geometric": {"name": "translation", "dx": "10%", "dy": -2}},
    {"geometric": {"name": "radial", "k1": -0.15, "k2": 0.02, "fill": "mean"}},
    {"geometric": {"name": "shear", "slope": "1/10", "fill": 0.5}},
    {"geometric": {"name": "perspective", "turn": 0.2, "control": True}},
    *({"geometric": {"name": name, "severity": 2}} for name in SERIES),
    WORST,
    {"geometric_worst": {"search": "grid", "degrees": 5, "shift": "1/20", "fill": 1}},
]


def pointwise() -> SegmentationModel:
    """A model that looks at single pixels: wherever the camera is, it says the same of the same thing."""
    network = nn.Conv2d(3, 3, 1)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[-1.0, -1, -1], [0, 1, 1], [2, 0, 0]])[..., None, None])
        assert network.bias is not None
        network.bias.copy_(torch.tensor([1.4, -0.2, -0.9]))
    return wrap_model(network, num_classes=3, name="pointwise")


def batch_of(images: int = 3, **options: Any) -> Batch:
    data = TinyDataset(images, **options)
    return collate([data[index] for index in range(images)])


def seeds_of(batch: Batch) -> list[ImageSeed]:
    return [ImageSeed(0, sample.id) for sample in batch.samples]


def perturbed(threat: Threat, batch: Batch, model: Any) -> Perturbed:
    return threat.perturb(model, batch, seeds_of(batch))


@pytest.mark.parametrize("description", MANY, ids=lambda each: json.dumps(each))
def test_descriptions_rebuild_and_names_differ(description: dict[str, Any]) -> None:
    threat = build_threat(description)
    again = rebuild_threat(json.loads(json.dumps(threat.describe())))
    assert again.describe() == threat.describe()
    assert again.name == threat.name
    assert sum(build_threat(other).name == threat.name for other in MANY) == 1


def test_defaults_are_written_out_so_that_equal_work_has_one_key() -> None:
    short = build_threat({"geometric": {"name": "translation", "dx": 3}})
    long = build_threat({"geometric": {"name": "translation", "dx": 3.0, "dy": 0, "fill": 0}})
    assert short.describe() == long.describe() == {"geometric": {"name": "translation", "dx": 3.0, "dy": 0.0}}
    assert short.name == "translation dx 3"


def test_values_and_names_can_be_swept() -> None:
    turns = build_threats({"geometric": {"name": "rotation", "degrees": {"range": [-10, 10, 5]}}})
    assert [each.name for each in turns] == [f"rotation degrees {degrees}" for degrees in (-10, -5, 0, 5, 10)]
    plan = parse_plan({"models": ["x"], "threats": [{"geometric": {"name": ["barrel", "shear"], "severity": "1..3"}}]})
    assert [each.name for each in plan_threats(plan, "segmentation").named][-1] == "shear severity 3"
    assert len(build_threats({"geometric_worst": {"draws": [1, 5, 10]}})) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "rotatoin", "degrees": 1}, "rotation"),
        ({"name": "rotation"}, "needs 'degrees', or a severity"),
        ({"name": "rotation", "degrees": 5, "severity": 1}, "either"),
        ({"name": "rotation", "factor": 5}, "factor"),
        ({"name": "rotation", "severity": 6}, "from 1 to 5"),
        ({"name": "zoom_out", "severity": 3}, "from 1 to 2"),
        ({"name": "zoom_in", "factor": 2}, "severity"),
        ({"name": "scale", "severity": 2}, "zoom_in"),
        ({"name": "radial", "k1": -0.4}, "fold"),
        ({"name": "rotation", "degrees": 5, "fill": 2}, "fill"),
        ({"name": "rotation", "degrees": "much"}, "number"),
        ({"name": "rotation", "degrees": 5, "speed": 1}, "speed"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(GauntletError, match=words) as caught:
        build_threat({"geometric": options})
    assert "\n" not in str(caught.value)


def test_no_move_leaves_every_figure(tiny_model: SegmentationModel) -> None:
    data = TinyDataset(4)
    clean = evaluate(tiny_model, data)
    still = evaluate(tiny_model, data, {"geometric": {"name": "rotation", "degrees": 0}})
    assert still.figures == pytest.approx(clean.figures, nan_ok=True)
    assert still.key != clean.key


def test_a_model_of_single_pixels_is_judged_in_the_moved_frame() -> None:
    data, model = TinyDataset(4, sizes=((16, 16),)), pointwise()
    clean = evaluate(model, data)
    assert 0.2 < clean.figures["mIoU"] < 1
    for degrees in (90, 180):
        turned = evaluate(model, data, {"geometric": {"name": "rotation", "degrees": degrees}})
        assert turned.figures["mIoU"] == clean.figures["mIoU"]
        assert turned.per_image["valid"].tolist() == clean.per_image["valid"].tolist()
    shifted = evaluate(model, data, {"geometric": {"name": "translation", "dx": 4, "dy": 3}})
    images = np.stack([data[index].image for index in range(4)])[:, :-3, :-4]
    truth = np.stack([np.asarray(data[index].labels) for index in range(4)])[:, :-3, :-4]
    with torch.no_grad():
        said = model(torch.from_numpy(images).permute(0, 3, 1, 2) / 255).argmax(1).numpy()
    valid = truth != 255
    assert shifted.per_image["valid"].tolist() == valid.sum(axis=(1, 2)).tolist()
    assert shifted.figures["aAcc"] == pytest.approx((said == truth)[valid].mean())
    assert shifted.per_image["valid_share"].tolist() == pytest.approx([13 * 12 / 256] * 4)


@pytest.mark.parametrize("description", [MANY[6], {"geometric": {"name": "perspective", "severity": 5}}, WORST])
def test_a_batch_equals_its_images_one_by_one(description: dict[str, Any], tiny_model: SegmentationModel) -> None:
    threat, batch = build_threat(description), batch_of(3)
    together = perturbed(threat, batch, tiny_model)
    for index, sample in enumerate(batch.samples):
        alone = perturbed(threat, collate([sample]), tiny_model)
        assert torch.equal(alone.images[0], together.images[index])
        for one, other in zip(alone.samples or (), (together.samples or ())[index : index + 1], strict=True):
            assert np.array_equal(np.asarray(one.labels), np.asarray(other.labels))
        assert {name: values[index] for name, values in together.details.items()} == {
            name: values[0] for name, values in alone.details.items()
        }


def test_nothing_global_is_drawn_from_and_the_input_stays(tiny_model: SegmentationModel) -> None:
    batch = batch_of(2)
    before = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index] # noqa: NPY002
    image, labels = batch.samples[0].image.copy(), np.array(batch.samples[0].labels)
    perturbed(build_threat(WORST), batch, tiny_model)
    perturbed(build_threat({"geometric": {"name": "translation", "severity": 5}}), batch, tiny_model)
    after = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index] # noqa: NPY002
    assert before == after
    assert np.array_equal(image, batch.samples[0].image)
    assert np.array_equal(labels, np.asarray(batch.samples[0].labels))


def test_sides_are_drawn_per_image_and_kept_over_severities(tiny_model: SegmentationModel) -> None:
    batch = batch_of(12)
    turns = [
        perturbed(build_threat({"geometric": {"name": "rotation", "severity": level}}), batch, tiny_model).details
        for level in (1, 4)
    ]
    assert set(turns[0]["degrees"]) == {-2, 2}
    assert [10 * each for each in turns[0]["degrees"]] == turns[1]["degrees"]
    shifts = perturbed(build_threat({"geometric": {"name": "translation", "severity": 3}}), batch, tiny_model).details
    sizes = [(dx / 24) ** 2 + (dy / 16) ** 2 for dx, dy in zip(shifts["dx"], shifts["dy"], strict=True)]
    assert sizes == pytest.approx([0.01] * 12)


def test_the_worst_of_draws_is_the_worst_of_them(tiny_model: SegmentationModel) -> None:
    data = TinyDataset(3)
    threat = build_threat({"geometric_worst": {"draws": 5}})
    assert isinstance(threat, GeometricWorstThreat)
    result = evaluate(tiny_model, data, threat)
    batch = batch_of(3)
    accuracies = np.zeros((5, 3))
    for index, sample in enumerate(batch.samples):
        for number, view in enumerate(threat.views(ImageSeed(0, sample.id))):
            moved = Moved.of(collate([sample]), [threat.move(view, (16, 24))], 0.0)
            truth = np.asarray(moved.samples[0].labels)
            with torch.no_grad():
                said = tiny_model(moved.images).argmax(1)[0].numpy()
            accuracies[number, index] = (said == truth)[truth != 255].mean()
    frame = result.per_image[result.per_image["view"] == "by accuracy"]
    assert frame["accuracy"].tolist() == pytest.approx(accuracies.min(axis=0).tolist())
    assert frame["mean_accuracy"].tolist() == pytest.approx(accuracies.mean(axis=0).tolist())
    assert result.figures["aAcc_images"] == pytest.approx(accuracies.min(axis=0).mean())
    by_iou = result.per_image[result.per_image["view"] == "by mIoU"]
    assert (by_iou["mIoU"].to_numpy() <= frame["mIoU"].to_numpy()).all()
    assert (frame["degrees"].abs() <= 30).all()
    assert (frame["views"] == 5).all()


def test_more_draws_are_never_better(tiny_model: SegmentationModel) -> None:
    data = TinyDataset(3)
    figures = [evaluate(tiny_model, data, {"geometric_worst": {"draws": draws}}).figures for draws in (1, 3, 6)]
    for name in ("aAcc_images", "NmIoU"):
        values = [each[name] for each in figures]
        assert values == sorted(values, reverse=True)


def test_views_that_show_too_little_are_left_out(tiny_model: SegmentationModel) -> None:
    batch = batch_of(1)
    far = perturbed(build_threat({"geometric_worst": {"draws": 8, "degrees": 0, "shift": 0.7}}), batch, tiny_model)
    assert 0 < far.details["views"][0] < 8
    assert far.details["valid_share"][0] >= 0.5
    nowhere = perturbed(build_threat({"geometric_worst": {"draws": 4, "degrees": 0, "shift": 1}}), batch, tiny_model)
    if nowhere.details["views"][0] == 0:
        assert nowhere.details["mean_accuracy"] == [None]


def test_a_grid_has_775_views_about_the_middle() -> None:
    threat = build_threat({"geometric_worst": {"search": "grid"}})
    assert isinstance(threat, GeometricWorstThreat)
    views = threat.views(ImageSeed(0, "any"))
    assert len(views) == 5 * 5 * 31
    assert threat.passes().forward == 777
    middle = threat.move(views[len(views) // 2], (10, 20))
    x, y = middle.target(np.array([1.0]), np.array([2.0]), (10, 20))
    assert (x.tolist(), y.tolist()) == ([1], [2])


def test_the_control_agrees_where_the_model_looks_at_single_pixels() -> None:
    batch, model = batch_of(2), pointwise()
    shift = {"name": "translation", "dx": 2, "dy": -1}
    threat = build_threat({"geometric": {**shift, "control": True}})
    assert threat.needs_model
    assert perturbed(threat, batch, model).details["agreement"] == [1.0, 1.0]
    data = TinyDataset(3)
    control, moved = (evaluate(model, data, {"geometric": each}) for each in ({**shift, "control": True}, shift))
    assert control.figures["mIoU"] == moved.figures["mIoU"]


def test_objects_of_several_views_are_refused_in_one_sentence(tiny_model: SegmentationModel) -> None:
    data = TinyDataset(2)
    assert metric_options("segmentation", data, build_threat(TURN), objects=True)["objects"]
    with pytest.raises(GauntletError, match="objects"):
        evaluate(tiny_model, data, {"geometric_worst": {"draws": 4}}, objects=True)


def test_detectors_are_judged_by_moved_boxes() -> None:
    data, model = TinyBoxes(5), TinyDetector()
    threat = build_threat({"geometric": {"name": "translation", "dx": CELL, "dy": 0}})
    result = evaluate(model, data, threat)
    batch = collate([data[index] for index in range(5)])
    moved = perturbed(threat, batch, model)
    assert moved.samples is not None
    expected = []
    for before, after, said in zip(batch.samples, moved.samples, model.predict(moved.images), strict=True):
        assert before.boxes is not None
        assert after.boxes is not None
        inside = before.boxes.xyxy[:, 0] + CELL < 48
        assert after.boxes.classes.tolist() == before.boxes.classes[inside].tolist()
        expected.append(image_f1(after.boxes, said))
    assert result.figures["F1_images"] == pytest.approx(np.mean(expected))
    assert result.figures["F1_images"] > 0.9  # its cells move along with the boxes
    wrong_frame = [image_f1(s.boxes, d) for s, d in zip(batch.samples, model.predict(moved.images), strict=True)]  # type: ignore[arg-type]
    assert np.mean(wrong_frame) < np.mean(expected)


def test_the_worst_view_of_a_detector_is_one_view() -> None:
    data, model = TinyBoxes(3), TinyDetector()
    result = evaluate(model, data, WORST)
    clean = evaluate(model, data)
    assert result.figures["F1_images"] <= clean.figures["F1_images"]
    frame = result.per_image
    assert len(frame) == 3
    assert (frame["F1"] <= frame["mean_F1"] + 1e-9).all()


def test_the_control_of_a_detector_is_its_moved_detections() -> None:
    batch, model = collate([TinyBoxes(1)[0]], ignore_index=None), TinyDetector()
    still = perturbed(build_threat({"geometric": {"name": "scale", "factor": 1, "control": True}}), batch, model)
    assert still.details["agreement"] == [1.0]
    assert isinstance(still.predictions, list)
    assert np.allclose(still.predictions[0].xyxy, np.clip(model.predict(batch.images)[0].xyxy, 0, [48, 32, 48, 32]))


@pytest.mark.parametrize(
    "description",
    [
        {"geometric": {"name": "rotation", "degrees": -16}},
        {"geometric": {"name": "rotation", "severity": 4}},
        {"geometric_worst": {}},
    ],
)
def test_boxes_are_not_turned_too_far(description: dict[str, Any]) -> None:
    with pytest.raises(GauntletError, match="15 degrees"):
        build_threat(description).check_task(DETECTION)
    with pytest.raises(GauntletError, match="15 degrees"):
        evaluate(TinyDetector(), TinyBoxes(1), description)


def test_a_dataset_without_a_void_label_says_what_to_do() -> None:
    batch = replace(batch_of(1), ignore_index=None)
    with pytest.raises(GauntletError, match="ignore_index"):
        perturbed(build_threat(TURN), batch, pointwise())


def test_stored_counts_give_the_same_figures(tiny_model: SegmentationModel, tmp_path: Path) -> None:
    data = TinyDataset(3)
    for threat in (TURN, WORST):
        with open_store(tmp_path / "results.db") as store:
            made = evaluate(tiny_model, data, threat, store=store)
            stored = store.load(made.key)
        assert stored is not None
        assert stored.figures == pytest.approx(made.figures, nan_ok=True)
        assert stored.per_image["degrees"].tolist() == made.per_image["degrees"].tolist()


def test_kept_images_have_the_moved_truth_beside_them(tiny_model: SegmentationModel, tmp_path: Path) -> None:
    data, threat = TinyDataset(1), build_threat(TURN)
    counter = build_counter("segmentation", metric_options("segmentation", data, threat))
    kept = KeptImages(tmp_path)
    computer = UnitComputer(data, tiny_model, threat, 0, counter, torch.device("cpu"), kept=kept)
    computer.compute(computer.load(Unit(0, 1)))
    moved = perturbed(threat, batch_of(1), tiny_model)
    assert moved.samples is not None
    (file,) = tmp_path.glob("*-labels.png")
    assert np.array_equal(cv2.imread(str(file), cv2.IMREAD_UNCHANGED), np.asarray(moved.samples[0].labels))
    assert not list(tmp_path.glob("*-boxes.json"))


def test_a_moved_copy_is_read_as_a_folder_and_as_coco(tmp_path: Path) -> None:
    data = load_dataset("streets", split="val", limit=2, size=(32, 64))
    threat = build_threat({"geometric": {"name": "rotation", "severity": 2}})
    assert write_moved(data, tmp_path / "copy", threat, seed=3) == 2
    assert write_moved(data, tmp_path / "copy", threat, seed=3) == 2  # the same copy may be written again
    masks = load_dataset(f"folder:{tmp_path / 'copy'}")
    boxes = load_dataset("coco", root=str(tmp_path / "copy"))
    batch = collate([data[0], data[1]], ignore_index=data.ignore_index)
    moved = threat.perturb(None, batch, [ImageSeed(3, sample.id) for sample in batch.samples])  # type: ignore[arg-type]
    assert moved.samples is not None
    for index, expected in enumerate(moved.samples):
        assert np.array_equal(masks[index].image, expected.image)
        labels = np.asarray(expected.labels)
        assert np.array_equal(np.asarray(masks[index].labels), np.where(labels == data.ignore_index, 255, labels))
        found, wanted = boxes[index].boxes, expected.boxes
        assert found is not None
        assert wanted is not None
        assert found.xyxy == pytest.approx(wanted.xyxy, abs=1e-4)
        assert found.classes.tolist() == wanted.classes.tolist()
    assert tuple(masks.class_names) == tuple(data.class_names)
    with pytest.raises(GauntletError, match="another moved copy"):
        write_moved(data, tmp_path / "copy", threat, seed=4)
    with pytest.raises(GauntletError, match="data corrupt"):
        write_moved(data, tmp_path / "fog", build_threat("fog"))


def test_a_translation_in_per_cent_follows_the_size() -> None:
    threat = build_threat({"geometric": {"name": "translation", "dx": "10%", "dy": "-50%"}})
    assert threat.move((20, 30), ImageSeed(0, "a")) == Translation(3.0, -10.0)  # type: ignore[attr-defined]
    assert threat.name == "translation dx 10% dy -50%"

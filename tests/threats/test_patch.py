"""Patches: where they lie, what they leave alone, controls, both tasks, and the walls of streets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gauntlet.datasets import load_dataset
from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.streets import surfaces
from gauntlet.errors import GauntletError
from gauntlet.evaluation.evaluate import evaluate
from gauntlet.evaluation.fitted import apply_patch, ring_accuracy
from gauntlet.evaluation.jobs import Settings, make_job
from gauntlet.metrics import DetectionMetric
from gauntlet.metrics.detection.metric import mostly_inside
from gauntlet.models import SegmentationModel
from gauntlet.samples import Batch, Boxes, Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import Perturbed, build_threat, rebuild_threat
from gauntlet.threats.artifacts import Artifact
from gauntlet.threats.fitted import PatchRule, Placement, fit_patch
from gauntlet.threats.fitted.patch import usual_size
from gauntlet.threats.fitted.patch_losses import printability, read_colors, smoothness
from gauntlet.threats.fitted.placing import Laid, lay, paste
from gauntlet.threats.fitted.projecting import project
from gauntlet.threats.fitted.scene_places import scene_places
from tiny import TinyDataset
from tiny_detector import TinyBoxes, TinyDetector

EVERY_DRAW = {"rotation": 10, "perspective": 0.2, "brightness": 0.1, "contrast": 0.1}
placements = st.builds(
    Placement,
    move=st.floats(0, 3),
    scale=st.floats(0, 0.5),
    rotation=st.floats(0, 40),
    perspective=st.floats(0, 0.5),
    noise=st.floats(0, 0.5),
    brightness=st.floats(0, 0.5),
    contrast=st.floats(0, 0.5),
)


def patch_of(values: torch.Tensor, **placement: Any) -> Artifact:
    facts = {"placement": Placement(**placement).describe(), "fit_ids": ["fit/0"], "model": "m"}
    return Artifact("patch", {"patch": values, "crop": values.flip(2)}, facts)


def batch_of(dataset: Dataset, count: int) -> Batch:
    return collate([dataset[index] for index in range(count)], ignore_index=dataset.ignore_index)


def made(options: dict[str, Any], batch: Batch) -> Perturbed:
    seeds = [ImageSeed(0, sample.id) for sample in batch.samples]
    return build_threat({"patch": options}).perturb(None, batch, seeds)  # type: ignore[arg-type]


def noise_patch(height: int = 5, width: int = 8) -> torch.Tensor:
    return torch.rand(3, height, width, generator=torch.Generator().manual_seed(3))


@settings(max_examples=40, deadline=None)
@given(placements, st.integers(0, 2**31))
def test_pixels_outside_the_patch_stay_bit_by_bit(placement: Placement, seed: int) -> None:
    sample = TinyDataset(sizes=((32, 40),))[0]
    laid = lay(placement, sample, (5, 8), seed)
    assert laid is not None
    assert (laid.corners >= -1e-9).all()
    assert (laid.corners <= np.array([40, 32]) + 1e-9).all()
    image = sample.tensor()[None]
    changed, mask = paste(image, noise_patch(), [laid])
    assert torch.equal(changed[0][:, ~mask[0]], image[0][:, ~mask[0]])
    assert mask.any()
    assert changed.min() >= 0
    assert changed.max() <= 1


def test_a_patch_without_draws_is_shown_as_it_is() -> None:
    batch = batch_of(TinyDataset(), 2)
    values = noise_patch(4, 6)
    result = made({"artifact": patch_of(values), "eot": False}, batch)
    assert result.region is not None
    rows, columns = slice(6, 10), slice(9, 15)  # the middle of 16 x 24
    expected = torch.zeros(16, 24, dtype=torch.bool)
    expected[rows, columns] = True
    assert torch.equal(result.region, expected.expand(2, 16, 24))
    torch.testing.assert_close(result.images[:, :, rows, columns], values.expand(2, 3, 4, 6), atol=1e-6, rtol=0)
    assert result.details["patch_share"] == pytest.approx([24 / 384] * 2)


def test_a_quarter_turn_by_corners() -> None:
    """The corners of the patch, from its top left on, lie at the top right of a square and so on: turned clockwise."""
    values = noise_patch(4, 4).double()
    laid = Laid(np.array([(8.0, 2.0), (8, 6), (4, 6), (4, 2)]), None, np.zeros((3, 4, 4), np.float32), 0.0, 1.0)
    changed, mask = paste(torch.zeros(1, 3, 10, 12, dtype=torch.float64), values, [laid])
    assert int(mask.sum()) == 16
    torch.testing.assert_close(changed[0, :, 2:6, 4:8], values.rot90(-1, (1, 2)), atol=1e-9, rtol=0)


def test_the_gradient_goes_through_the_warp() -> None:
    sample = TinyDataset(sizes=((16, 24),))[0]
    laid = lay(Placement(**EVERY_DRAW, noise=0), sample, (3, 4), 5)  # type: ignore[arg-type]
    weights = torch.rand(3, 16, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    image = sample.tensor().double()[None]

    def value(patch: torch.Tensor) -> torch.Tensor:
        return (paste(image, patch, [laid])[0][0] * weights).sum()

    start = (0.3 + 0.4 * noise_patch(3, 4).double()).requires_grad_(True)
    assert torch.autograd.gradcheck(value, (start,))


def test_places_do_not_depend_on_batch_mates_or_on_what_is_shown() -> None:
    dataset = TinyDataset(4, sizes=((32, 40),))
    fitted = patch_of(noise_patch(), **EVERY_DRAW)
    together = made({"artifact": fitted}, batch_of(dataset, 4))
    assert together.region is not None
    for index in range(4):
        alone = made({"artifact": fitted}, collate([dataset[index]]))
        assert torch.equal(alone.images[0], together.images[index])
    for content in ("random", "grey", "crop"):
        control = made({"artifact": fitted, "content": content}, batch_of(dataset, 4))
        assert control.region is not None
        assert torch.equal(control.region, together.region)
        assert not torch.equal(control.images, together.images)
    assert len({tuple(torch.nonzero(each)[0].tolist()) for each in together.region}) > 1


def test_two_draws_of_the_random_patch_differ() -> None:
    batch = batch_of(TinyDataset(), 1)
    first, second = (
        made({"artifact": patch_of(noise_patch()), "content": "random", "draw": draw}, batch).images for draw in (0, 1)
    )
    assert not torch.equal(first, second)


def test_the_key_holds_the_digest(tiny_model: SegmentationModel, tmp_path: Path) -> None:
    data = TinyDataset()

    def key(**options: Any) -> str:
        threat = build_threat({"patch": options})
        return make_job(tiny_model.identity, tiny_model.task, data.identity, threat, Settings()).key

    first = patch_of(noise_patch()).save(tmp_path / "p.safetensors")
    moved = first.rename(tmp_path / "q.safetensors")
    assert (
        key(artifact=moved) == key(artifact=patch_of(noise_patch()).digest) == key(artifact=str(moved), place="image")
    )
    assert len({key(artifact=moved), key(artifact=patch_of(noise_patch() / 2)), key(artifact=moved, eot=False)}) == 3


def test_descriptions_and_names() -> None:
    fitted = patch_of(noise_patch())
    options: list[dict[str, Any]] = [
        {},
        {"content": "random"},
        {"content": "random", "draw": 1},
        {"content": "grey"},
        {"place": "facade"},
        {"eot": False},
        {"fit_images": True},
    ]
    threats = [build_threat({"patch": {"artifact": fitted, **each}}) for each in options]
    fitted.keep()
    assert len({threat.name for threat in threats}) == len(threats)
    assert all(rebuild_threat(threat.describe()).describe() == threat.describe() for threat in threats)
    assert [threat.needs_depth for threat in threats] == [False] * 4 + [True] + [False] * 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"content": "nothing"}, "content"),
        ({"draw": 2}, "random patch"),
        ({"place": "moon"}, "place of a patch"),
        ({"sice": 2}, "sice"),
    ],
)
def test_options_refuse_nonsense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(GauntletError, match=words):
        build_threat({"patch": {"artifact": patch_of(noise_patch()), **options}})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": (0, 1)}, "size"),
        ({"gamma": 2.0}, "gamma"),
        ({"gamma": "some"}, "gamma"),
        ({"goal": "win"}, "goal"),
        ({"smoothness": -1.0}, "weights"),
        ({"rate": 0}, "rate"),
    ],
)
def test_rules_refuse_nonsense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(GauntletError, match=words):
        PatchRule(**options)


def test_a_patch_that_is_too_large_is_refused() -> None:
    with pytest.raises(GauntletError, match="does not fit into an image of 16x24"):
        made({"artifact": patch_of(noise_patch(15, 23), rotation=40)}, batch_of(TinyDataset(), 6))


def test_the_usual_size() -> None:
    height, width = usual_size(128, 256)
    assert (height, width) == (26, 51)
    assert height * width == pytest.approx(0.04 * 128 * 256, rel=0.02)


def test_figures_leave_the_pixels_of_the_patch_out(tiny_model: SegmentationModel) -> None:
    """Counted by hand: the accuracy outside the patch, of patched and of clean images."""
    dataset = TinyDataset(3)
    fitted = patch_of(noise_patch(6, 9))
    evaluation = evaluate(tiny_model, dataset, {"patch": {"artifact": fitted}})
    batch = batch_of(dataset, 3)
    result = made({"artifact": fitted}, batch)
    assert result.region is not None
    assert batch.labels is not None
    counted = ~result.region & (batch.labels != 255)
    for images, figure in ((result.images, "A_Mbar"), (batch.images, "A_Mbar_clean")):
        right = (tiny_model(images).argmax(1) == batch.labels) & counted
        shares = right.flatten(1).sum(1) / counted.flatten(1).sum(1)
        assert evaluation.figures[figure] == pytest.approx(float(shares.mean()), abs=1e-6)


def test_rings_around_the_patch(tiny_model: SegmentationModel) -> None:
    threat = build_threat({"patch": {"artifact": patch_of(noise_patch(4, 4)), "eot": False}})
    rings = ring_accuracy(tiny_model, TinyDataset(1), threat)
    batch = batch_of(TinyDataset(1), 1)
    assert batch.labels is not None
    seen = tiny_model(threat.perturb(tiny_model, batch, [ImageSeed(0, "tiny/0")]).images).argmax(1)
    # The patch is rows 6-9, columns 10-13: up to 4 pixels around it are rows 2-13, columns 6-17; rows 0-1 are void.
    near = torch.zeros(16, 24, dtype=torch.bool)
    near[2:14, 6:18] = True
    near[6:10, 10:14] = False
    right = (seen == batch.labels)[0]
    assert rings["ring 0-1"] == pytest.approx(float(right[near].float().mean()))
    assert list(rings) == ["ring 0-1", "ring 1-2", "ring 2-4"]  # nothing is 16 pixels away


def test_objects_under_the_patch_are_left_out() -> None:
    region = np.zeros((20, 20), bool)
    region[:10, :10] = True
    boxes = Boxes(
        np.array([(0, 0, 8, 8), (0, 5, 10, 14), (0, 5, 10, 15), (12, 12, 18, 18)], np.float32), np.zeros(4, np.int64)
    )
    assert mostly_inside(boxes, region).tolist() == [True, True, False, False]  # 5 of 9 rows, 5 of 10 rows
    detected = Boxes(boxes.xyxy, boxes.classes, np.ones(4, np.float32))
    counts = DetectionMetric(["thing"]).update(detected, boxes, region, covers=True)
    inside, outside = counts.pair(0), counts.pair(1)
    assert inside is not None
    assert outside is not None
    assert [len(each) for each in (*inside, *outside)] == [2, 2, 2, 2]
    sample = Sample("s", np.zeros((20, 20, 3), np.uint8), boxes=boxes)
    placed = patch_of(noise_patch(10, 10), corners=((0, 0), (10, 0), (10, 10), (0, 10)), noise=0)
    assert made({"artifact": placed}, collate([sample])).details["ignored_by_patch"] == [2]


def test_a_fitted_patch_beats_its_start_and_is_repeatable(tiny_model: SegmentationModel) -> None:
    dataset = TinyDataset(4)
    told: list[float] = []
    rule = PatchRule(steps=25, batch=2, size=(5, 8), rate=0.1, placement=Placement(move=0.3, rotation=5, noise=0.05))
    fitted = fit_patch(tiny_model, dataset, rule, told.append)
    assert len(told) == 25
    assert fitted.digest == fit_patch(tiny_model, dataset, rule).digest
    values = fitted.tensors["patch"]
    assert values.shape == (3, 5, 8)
    assert values.min() >= 0
    assert values.max() <= 1
    with pytest.raises(GauntletError, match="fitted on"):
        evaluate(tiny_model, dataset, {"patch": {"artifact": fitted}})
    patched, grey = (
        evaluate(tiny_model, dataset, {"patch": {"artifact": fitted, "content": content, "fit_images": True}})
        for content in ("fitted", "grey")
    )
    assert patched.figures["A_Mbar"] < grey.figures["A_Mbar"]


def test_regularisers_do_what_they_say(tiny_model: SegmentationModel, tmp_path: Path) -> None:
    base = {"steps": 15, "batch": 2, "size": (5, 8), "rate": 0.1, "placement": Placement().fixed()}
    plain, smooth, printable = (
        fit_patch(tiny_model, TinyDataset(2), PatchRule(**base, **more)).tensors["patch"]  # type: ignore[arg-type]
        for more in ({}, {"smoothness": 3.0}, {"printability": 3.0, "colors": ((0.2, 0.4, 0.6),)})
    )
    assert smoothness(smooth) < smoothness(plain)
    colors = torch.tensor([[0.2, 0.4, 0.6]])
    assert printability(printable, colors) < printability(plain, colors)
    (tmp_path / "colors.txt").write_text("0.2 0.4 0.6\n1, 0, 0\n\n")
    assert read_colors(tmp_path / "colors.txt") == ((0.2, 0.4, 0.6), (1.0, 0.0, 0.0))
    (tmp_path / "colors.txt").write_text("0.2 0.4\n")
    with pytest.raises(GauntletError, match="three numbers"):
        read_colors(tmp_path / "colors.txt")


def test_a_target_is_approached(tiny_model: SegmentationModel) -> None:
    rule = PatchRule(steps=20, batch=2, size=(6, 9), rate=0.1, target="red", placement=Placement().fixed())
    fitted = fit_patch(tiny_model, TinyDataset(2), rule)
    batch = batch_of(TinyDataset(2), 2)
    shares = {}
    for content in ("fitted", "grey"):
        result = made({"artifact": fitted, "content": content, "fit_images": True}, batch)
        assert result.region is not None
        shares[content] = float((tiny_model(result.images).argmax(1) == 2)[~result.region].float().mean())
    assert shares["fitted"] > shares["grey"]


@pytest.mark.parametrize(
    "options", [{"goal": "untargeted"}, {"goal": "vanishing"}, {"goal": "fabrication"}, {"target": "blue"}]
)
def test_detectors(options: dict[str, Any]) -> None:
    model, dataset = TinyDetector(), TinyBoxes(3)
    place = Placement(corners=((16, 8), (32, 8), (32, 24), (16, 24)), noise=0)
    fitted = fit_patch(model, dataset, PatchRule(steps=10, rate="20/255", size=(16, 16), placement=place, **options))
    values = fitted.tensors["patch"]
    result = made({"artifact": fitted, "fit_images": True}, batch_of(dataset, 3))
    assert not torch.equal(values, torch.full_like(values, 0.5))
    if options.get("goal") == "fabrication":
        grey = made({"artifact": fitted, "content": "grey", "fit_images": True}, batch_of(dataset, 3))
        more, less = (model.candidates(each.images).objectness.sum() for each in (result, grey))
        assert more > less
    elif "target" in options:  # the detector takes blue cells for blue objects
        assert values[2].mean() > max(values[0].mean(), values[1].mean())
    assert len(result.details["ignored_by_patch"]) == 3


def test_an_application_has_every_control(tiny_model: SegmentationModel) -> None:
    fitted = patch_of(noise_patch())
    rows = apply_patch(tiny_model, TinyDataset(2), fitted, draws=2)
    assert [(row.threat, len(row.evaluations)) for row in rows] == [
        ("clean", 1), ("fitted", 1), ("random", 2), ("grey", 1), ("crop of an image", 1)
    ]  # fmt: skip
    assert rows[0].value == rows[1].evaluations[0].figures["mIoU_Mbar_clean"]
    assert rows[1].effects["unpatched"] == 0
    assert "ring 0-1" in rows[1].effects


SCENES = load_dataset("streets", split="val", size=(96, 192), length=4)
"""Rendered once per test that looks at them; geometry is the same at any size."""


@pytest.fixture(scope="module")
def scene() -> Sample:
    return SCENES[3]


@pytest.mark.parametrize("on", ["facade", "billboard", "surface"])
def test_places_in_a_scene(scene: Sample, on: str) -> None:
    assert scene.depth is not None
    places = scene_places(scene, on, (2.0, 4.0))
    assert places
    for place in places[:20]:
        assert (place.corners >= 0).all()
        assert (place.corners <= np.array([192, 96])).all()
        hidden = place.hidden(scene)
        laid = Laid(place.corners, hidden, np.zeros((3, 6, 12), np.float32), 0.0, 1.0)
        _, mask = paste(scene.tensor()[None], noise_patch(6, 12), [laid])
        seen = mask[0].numpy()
        assert seen.any()
        # Nothing that is nearer than the patch is painted over.
        assert (scene.depth[seen] >= 0.9 * place.depths.min()).all()
    if on == "facade":  # it lies on the wall: what was there has the depth of its plane
        assert scene.labels is not None
        laid = Laid(places[0].corners, places[0].hidden(scene), np.zeros((3, 6, 12), np.float32), 0.0, 1.0)
        seen = paste(scene.tensor()[None], noise_patch(6, 12), [laid])[1][0].numpy()
        low, high = places[0].depths.min(), places[0].depths.max()
        assert np.median(scene.depth[seen]) == pytest.approx((low + high) / 2, abs=(high - low) / 2 + 1.5)


def test_the_camera_of_a_scene_sees_the_ground_where_the_depth_says(scene: Sample) -> None:
    """A point of the road in the middle of the lower rows: its depth is that of the ground plane."""
    assert scene.depth is not None
    view = surfaces.view_of(scene.id, (96, 192))
    row, column = 88, 96
    depth = float(scene.depth[row, column])
    eye = view.extrinsic[1, 3]
    ground = (row + 0.5 - view.intrinsic[1, 2]) / view.intrinsic[1, 1]
    expected = eye / ground
    if abs(depth - expected) / expected > 0.1:  # the bonnet of the camera's own car
        assert depth < expected
    seen, distance = project(np.array([[0.0, 0.0, expected]]), view.extrinsic, view.intrinsic)
    np.testing.assert_allclose(seen[0], (96.0, row + 0.5), atol=1e-6)
    assert distance[0] == pytest.approx(expected)


def test_a_patch_in_a_scene_needs_the_scene() -> None:
    with pytest.raises(GauntletError, match="need the scenes of streets"):
        made({"artifact": patch_of(noise_patch(), place="facade")}, batch_of(TinyDataset(), 1))


def test_images_without_a_place_stay_clean_and_are_counted(monkeypatch: pytest.MonkeyPatch, scene: Sample) -> None:
    monkeypatch.setattr("gauntlet.threats.fitted.placing.scene_places", lambda *_: [])
    batch = collate([scene], ignore_index=11)
    result = made({"artifact": patch_of(noise_patch(), place="billboard")}, batch)
    assert result.details["unpatched"] == [True]
    assert torch.equal(result.images, batch.images)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["universal", "patch"])
def test_the_control_is_weaker_on_a_shipped_model(kind: str) -> None:
    from gauntlet.evaluation.fitted import apply_universal
    from gauntlet.models import load_model
    from gauntlet.threats.fitted import UniversalRule, fit_universal

    model = load_model("streets/enet").freeze()
    fit_set = load_dataset("streets", split="train", limit=8)
    held_out = load_dataset("streets", split="val", limit=4)
    if kind == "universal":
        fitted = fit_universal(model, fit_set, UniversalRule(passes=8, batch=4))
        rows = apply_universal(model, held_out, fitted, draws=1)
    else:
        fitted = fit_patch(model, fit_set, PatchRule(steps=60, batch=2))
        rows = apply_patch(model, held_out, fitted)
    values = {row.threat.split(",")[0]: row.value for row in rows}
    assert values["fitted"] < values["random" if kind == "patch" else "random signs"]

"""Galleries: worst images, run again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from torch import nn

import gauntlet
from gauntlet.datasets.contract import Dataset
from gauntlet.defences import SmoothedModel
from gauntlet.evaluation.reloading import Loaders
from gauntlet.metrics.detection.figures import image_f1
from gauntlet.models import GauntletModel, SegmentationModel, wrap_model
from gauntlet.report import Options, build_report, hidden_gradients, write_report
from gauntlet.report.charts import BoxChart, Panel
from gauntlet.report.document import Gallery, Text
from gauntlet.report.gallery import worst_images
from gauntlet.report.hidden_gradients import check_models
from gauntlet.report.image_figures import BoxImages, read_images
from gauntlet.report.tables import Interval, Table
from gauntlet.results import Store
from gauntlet.results.record import ImageRow
from gauntlet.results.store import Started
from gauntlet.samples import collate
from gauntlet.threats.attacks.checks import Suspicion, check_attack
from tiny import TinyDataset, tiny_network
from tiny_detector import TinyBoxes, TinyDetector

pytest_plugins = ("report_fixtures",)

PGD = {"attack": {"name": "pgd", "epsilon": "16/255", "alpha": "4/255", "steps": 3}}


@pytest.fixture
def dataset() -> Any:
    """Large enough for corruptions."""
    return TinyDataset(4, sizes=((32, 48),))


@pytest.fixture
def loaders(tiny_model: SegmentationModel, dataset: Any) -> Loaders:
    return Loaders(model=lambda address: tiny_model, dataset=lambda name, split: dataset)


def evaluated(model: GauntletModel, dataset: Dataset) -> Store:
    store = Store()
    noise = {"name": "gaussian_noise", "severity": 5}
    localized = {"localized": {"corruption": noise, "ratio": 0.5, "patch": 8}}
    gauntlet.evaluate(model, dataset, ["clean", PGD, {"corruption": noise}, localized], store=store, prepare="off")
    return store


@pytest.fixture(scope="module")
def store() -> Store:
    """Read only: all tests have the same one."""
    model = wrap_model(tiny_network(), num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name="tiny-net")
    return evaluated(model, TinyDataset(4, sizes=((32, 48),)))


def galleries(store: Store, options: Options) -> list[Gallery | Text]:
    sections = build_report(store, options).parts[0].sections
    section = next(each for each in sections if each.title == "Gallery")
    return [block for block in section.blocks[1:] if isinstance(block, (Gallery, Text))]


def test_worst_images_lose_most() -> None:
    def images(*f1: float) -> BoxImages:
        return BoxImages(list("abcd"), [{}] * 4, np.array(f1), "", 1, list)

    clean, attacked = images(0.9, 0.5, 0.6, np.nan), images(0.3, 0.1, 0.5, 0.0)
    assert worst_images(clean, attacked, 2) == ["a", "b"]
    assert worst_images(None, attacked, 3) == ["d", "b", "a"]


def test_a_moved_camera_is_drawn_with_the_moved_truth(
    tiny_model: SegmentationModel, dataset: Any, loaders: Loaders
) -> None:
    store = Store()
    for threat in ("clean", {"geometric": {"name": "rotation", "degrees": 20}}, {"geometric_worst": {"draws": 2}}):
        gauntlet.evaluate(tiny_model, dataset, threat, store=store)
    drawn = [each for each in galleries(store, Options(gallery=1, loaders=loaders)) if isinstance(each, Gallery)]
    assert [each.title for each in drawn] == [
        "tiny-net: worst move of the camera, rotation degrees 20",
        "tiny-net: worst view of many, worst of draws 2 degrees 30 shift 0.1",
    ]
    for gallery in drawn:
        (exhibit,) = gallery.exhibits
        captions = [picture.caption for picture in exhibit.pictures]
        assert captions[2:4] == ["moved ground truth", "ground truth"]
        assert captions[-1] == "moved prediction"
        assert "stored were" not in exhibit.detail  # what is right is counted in the moved frame here too


def test_the_worst_images_are_run_again_and_drawn(store: Store, loaders: Loaders, dataset: Any) -> None:
    actual = galleries(store, Options(gallery=2, loaders=loaders))
    assert [each.title for each in actual if isinstance(each, Gallery)] == [
        "tiny-net: worst corruption, gaussian_noise 5",
        "tiny-net: worst localized corruption, gaussian_noise 5 ratio 0.5 patch 8",
        "tiny-net: worst attack, pgd linf 16/255 x3 alpha 4/255",
    ]
    for gallery in actual:
        assert isinstance(gallery, Gallery)
        assert {name for name, _ in gallery.legend} == {"dark", "light", "red"}
        assert len(gallery.exhibits) == 2
        for exhibit in gallery.exhibits:
            assert "stored were" not in exhibit.detail  # the rerun is what was stored
            assert [picture.caption.split(" x ")[0] for picture in exhibit.pictures] == [
                "input",
                "what the model sees",
                "difference",
                "ground truth",
                "clean prediction",
                "attacked prediction" if "attack" in gallery.title else "corrupted prediction",
            ]
            for picture in exhibit.pictures:
                decoded = cv2.imdecode(np.frombuffer(picture.data, np.uint8), cv2.IMREAD_COLOR)
                assert decoded.shape == (picture.height, picture.width, 3) == (160, 240, 3)  # five times 32 x 48
    assert isinstance(actual[0], Gallery)
    exhibit = actual[0].exhibits[0]
    sample = next(sample for sample in dataset if sample.id == exhibit.title)
    truth = cv2.imdecode(np.frombuffer(exhibit.pictures[3].data, np.uint8), cv2.IMREAD_COLOR)[::5, ::5, ::-1]
    colors = {tuple(truth[sample.labels == label][0]) for label in np.unique(sample.labels)}
    assert len(colors) == len(np.unique(sample.labels))
    assert (truth[sample.labels == 255] == 0).all()


@pytest.fixture
def boxes() -> TinyBoxes:
    return TinyBoxes(5)


@pytest.fixture
def box_loaders(boxes: TinyBoxes) -> Loaders:
    detector = TinyDetector()
    return Loaders(model=lambda address: detector, dataset=lambda name, split: boxes)


@pytest.fixture(scope="module")
def box_store() -> Store:
    """Read only as well."""
    return evaluated(TinyDetector(), TinyBoxes(5))


def test_a_detector_is_shown_with_its_boxes(box_store: Store, box_loaders: Loaders, boxes: TinyBoxes) -> None:
    actual = galleries(box_store, Options(gallery=2, loaders=box_loaders))
    assert [each.title for each in actual if isinstance(each, Gallery)] == [
        "tiny-detector: worst corruption, gaussian_noise 5",
        "tiny-detector: worst localized corruption, gaussian_noise 5 ratio 0.5 patch 8",
        "tiny-detector: worst attack, pgd linf 16/255 x3 alpha 4/255",
    ]
    detector = TinyDetector()
    for gallery in actual:
        assert isinstance(gallery, Gallery)
        assert {name for name, _ in gallery.legend} <= {"red", "green", "blue"}
        for exhibit in gallery.exhibits:
            assert "stored were" not in exhibit.detail
            sample = next(sample for sample in boxes if sample.id == exhibit.title)
            assert sample.boxes is not None
            said = detector.predict(collate([sample]).images)[0]
            assert said.scores is not None
            count = int((said.scores >= 0.5).sum())
            f1 = image_f1(sample.boxes, said)
            assert exhibit.detail.startswith(f"F1 of the boxes (score and IoU of at least 0.5) {f1:.1%} clean, ")
            captions = [picture.caption for picture in exhibit.pictures]
            objects = len(sample.boxes)
            assert captions[3] == f"ground truth: {objects} object{'' if objects == 1 else 's'}"
            assert captions[4] == f"clean prediction: {count} box{'' if count == 1 else 'es'}"
            assert captions[5].startswith("attacked" if "attack" in gallery.title else "corrupted")
            for picture in exhibit.pictures[3:]:  # ten times 32 x 48, so that names can be read
                assert (picture.height, picture.width) == (320, 480)
            # A frame is drawn around every object, in the colour of its class; JPEG keeps it nearly.
            truth = cv2.imdecode(np.frombuffer(exhibit.pictures[3].data, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
            for corners, kind in zip(sample.boxes.xyxy, sample.boxes.classes, strict=True):
                right, bottom = (10 * corners[2:]).astype(int)
                assert int(truth[bottom - 1, right - 1].argmax()) == kind


def test_boxes_are_read_once(box_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []
    rows_of = box_store.image_rows

    def counted(started: Started) -> Iterator[ImageRow]:
        begun.append(started.key)
        return rows_of(started)

    monkeypatch.setattr(box_store, "image_rows", counted)
    key = box_store.frame()["key"].iloc[0]
    images = read_images(box_store, key)
    evaluation = box_store.load(key)
    assert images is not None
    assert evaluation is not None
    assert len(images.ids) == len(set(images.ids)) == evaluation.images
    assert begun == [key]


def test_large_pictures_of_boxes_are_made_smaller(box_loaders: Loaders) -> None:
    large = TinyBoxes(2, size=(96, 1024))
    store = Store()
    noise = {"corruption": {"name": "gaussian_noise", "severity": 5}}
    for threat in ("clean", noise):
        gauntlet.evaluate(TinyDetector(), large, threat, store=store)
    loaders = Loaders(model=box_loaders.model, dataset=lambda name, split: large)
    (gallery,) = galleries(store, Options(gallery=1, loaders=loaders))
    assert isinstance(gallery, Gallery)
    assert {(picture.height, picture.width) for picture in gallery.exhibits[0].pictures} == {(48, 512)}


def test_a_report_of_a_detector_tells_of_single_images_and_regions(box_store: Store) -> None:
    sections = {section.title: section for section in build_report(box_store).parts[0].sections}
    spread, worst = sections["Single images"].blocks
    assert isinstance(spread, Panel)
    assert isinstance(worst, Table)
    assert (spread.title, worst.title) == ("Image-wise F1", "Worst images")
    frame = box_store.frame()
    f1 = frame[frame["metric"].eq("F1_images") & frame["view"].eq("all")].set_index("threat")["value"]
    chart = spread.charts["model: tiny-detector"]
    assert isinstance(chart, BoxChart)
    assert {box.name: box.image_mean for box in chart.boxes} == pytest.approx(dict(f1))
    assert chart.marks == ("F1_images", "mAP")
    (table,) = sections["Boxes"].blocks
    assert isinstance(table, Table)
    shown = {column.name: index for index, column in enumerate(table.columns)}
    assert {"mAP50", "mAP_small", "AR_100", "VOC_mAP50", "boxes_per_image", "mislabel_rate"} <= set(shown)
    whole = frame[frame["class_name"].eq("") & frame["view"].eq("all")]
    expected = whole.set_index(["threat", "metric"])["value"].to_dict()
    for name, index in list(shown.items())[1:]:  # one model: no column for it
        for cells in table.rows:
            np.testing.assert_equal(cells[index], expected[cells[0], name])
    assert len(table.rows) == 4
    regions = sections["Localized corruptions"].blocks[1]
    assert isinstance(regions, Table)
    (row,) = regions.rows
    values = frame[frame["class_name"].eq("")].set_index(["kind", "metric"])["value"]
    names = ("mAP_M", "mAP_M_clean", "RCE_M", "mAP_Mbar", "mAP_Mbar_clean", "RCE_Mbar")
    shown_values = [cell.value if isinstance(cell, Interval) else math.nan for cell in row[2:]]
    np.testing.assert_equal(shown_values, [values["localized", name] for name in names])
    assert not np.isnan(shown_values).all()


def test_a_model_that_cannot_be_loaded_is_said_so(store: Store) -> None:
    actual = galleries(store, Options(gallery=1))
    assert all(isinstance(each, Text) for each in actual)
    assert isinstance(actual[0], Text)
    assert "no pictures, since" in actual[0].text


def test_other_weights_are_refused(store: Store, dataset: Any) -> None:
    other = gauntlet.wrap_model(nn.Conv2d(3, 3, 1), num_classes=3, name="tiny-net")
    loaders = Loaders(model=lambda address: other, dataset=lambda name, split: dataset)
    actual = galleries(store, Options(gallery=1, loaders=loaders))
    assert isinstance(actual[0], Text)
    assert "the weights of 'tiny-net' are not those that were evaluated" in actual[0].text


def test_images_in_another_protocol_are_refused(store: Store, loaders: Loaders, dataset: Any) -> None:
    dataset.protocol = {"scale": [16, 24]}
    actual = galleries(store, Options(gallery=1, loaders=loaders))
    assert all(isinstance(each, Text) and "have another protocol" in each.text for each in actual)
    assert actual


def test_pictures_are_inside_the_page(store: Store, loaders: Loaders, tmp_path: Path) -> None:
    path = write_report(store, tmp_path / "report.html", options=Options(gallery=1, loaders=loaders))
    assert path.read_text("utf-8").count('src="data:image/') == 3 * 6


def test_checks_of_models_become_findings(store: Store, loaders: Loaders) -> None:
    actual = check_models(store, 2, loaders)
    assert actual
    assert {each.subject for each in actual} == {"tiny-net"}
    assert {each.level for each in actual} <= {"good", "warning"}
    unloadable = check_models(store, 2)
    assert [each.level for each in unloadable] == ["note"]


def test_a_model_without_gradient_is_said_so_and_no_source(
    tiny_model: SegmentationModel, dataset: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = []

    def quick(*given: Any, **options: Any) -> list[Suspicion]:
        others.append(options["other_model"])
        return check_attack(*given, **options, steps=1, noises=1, whole_box_steps=0, queries=0)

    monkeypatch.setattr(hidden_gradients, "check_attack", quick)
    smoothed, store = SmoothedModel(tiny_model, n=2), Store()
    for model in (smoothed, tiny_model):
        gauntlet.evaluate(model, dataset, "clean", store=store, prepare="off")
    by_digest = {model.identity.digest: model for model in (smoothed, tiny_model)}
    found = check_models(store, 1, Loaders(dataset=lambda name, split: dataset, by_digest=by_digest))
    (note,) = [each for each in found if each.level == "note"]
    assert note.subject.startswith("smoothed:")
    assert "counts votes and has no gradient" in note.text
    assert {each.subject for each in found} == {note.subject, "tiny-net"}
    assert others == [None, tiny_model]  # by name: the smoothed model comes first


def test_detectors_are_said_not_to_be_checked(box_store: Store) -> None:
    (finding,) = check_models(box_store, 2)
    assert (finding.level, finding.subject) == ("note", "tiny-detector")

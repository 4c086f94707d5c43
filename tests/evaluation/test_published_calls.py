"""Every call form of the section "Interfaces" (docs/specs/studies.md, 6), typed as the papers print it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import gauntlet
from gauntlet.analysis.scoring.benchmark_sets import CORRUPTIONS
from gauntlet.datasets.contract import Dataset
from gauntlet.detecbench import attacks, corruptions
from gauntlet.detecbench import evaluate as evaluate_detector
from gauntlet.detecbench import load_model as load_detector
from gauntlet.errors import GauntletError
from gauntlet.evaluation import cases, detecbench_tasks, triple
from gauntlet.models import GauntletModel, SegmentationModel
from gauntlet.models.sources.contract import LoadedModel, ModelSource, sources
from gauntlet.results import Evaluation, published
from gauntlet.results.published import find
from gauntlet.semsegbench.evals import evaluate, load_model
from gauntlet.threats.corruptions import COMMON, COMMON_3D
from tiny import TinyDataset
from tiny_detector import TinyBoxes, TinyDetector

Result = tuple[GauntletModel | ModelSource, Evaluation]


def on_ade20k(threat_config: str, retrieve_existing: bool = True) -> Result:
    """SegFormer with MIT-B0 on ADE20K, under the threat of a file."""
    names = {"model_name": "SegFormer", "backbone": "MIT-B0", "dataset": "ADE20K"}
    asked: Any = evaluate
    result: Result = asked(**names, retrieve_existing=retrieve_existing, threat_config=threat_config)
    return result


def on_cityscapes(threat_config: str, retrieve_existing: bool = True) -> Result:
    """The same on Cityscapes, where two crop sizes were published."""
    names = {"model_name": "SegFormer", "backbone": "MIT-B0", "dataset": "Cityscapes", "crop_size": "512x1024"}
    asked: Any = evaluate
    result: Result = asked(**names, retrieve_existing=retrieve_existing, threat_config=threat_config)
    return result


def written(folder: Path, text: str, name: str = "threat.yml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def published_mean(dataset: str, threat: list[str], metric: str = "mIoU", **crop: str) -> float:
    rows = find("segformer", "mit-b0", dataset, **crop)
    return float(rows[rows["metric"].eq(metric) & rows["threat"].isin(threat)]["value"].mean())


# Segmentation --------------------------------------------------------------------------------------------------------


def test_load_model_takes_the_printed_triple(monkeypatch: pytest.MonkeyPatch, tiny_model: SegmentationModel) -> None:
    """'upernet', 'InterImage-H', 'ADE20k': an OpenMMLab checkpoint, for which a stand-in answers here."""
    asked: list[tuple[str, Mapping[str, Any]]] = []

    def stand_in(config: str, options: Mapping[str, Any]) -> GauntletModel:
        asked.append((config, options))
        return tiny_model

    monkeypatch.setitem(sources._entries, "mmseg", stand_in)
    assert load_model(model_name="upernet", backbone="InterImage-H", dataset="ADE20k") is tiny_model
    assert asked[0][0] == "upernet_internimage_h_896_160k_ade20k"
    assert asked[0][1]["checkpoint"].endswith("upernet_internimage_h_896_160k_ade20k.pth")


@pytest.mark.parametrize("backbone", ["InterImage-H", "InternImage-H", "internimage huge", "INTERNIMAGE_H"])
def test_the_printed_example_of_evaluate(tmp_path: Path, backbone: str) -> None:
    config = written(tmp_path, "threat_model: PGD\niterations: 20\nepsilon: 8\nalpha: 0.01\nlp_norm: Linf\n")
    model, results = evaluate(
        model_name="upernet", backbone=backbone, dataset="ADE20k", retrieve_existing=True, threat_config=config
    )
    rows = find("upernet", "internimage-h", "ade20k")
    row = rows[rows["threat"].eq("pgd linf 8/255 x20") & rows["metric"].eq("mIoU")]
    assert results.figures["mIoU"] == float(row["value"].iloc[0])
    assert isinstance(model, ModelSource)


PGD_TEXT = 'threat_model="PGD"\niterations="20"\nepsilon="8"\nalpha="0.01"\nlp_norm="Linf"\n'


@pytest.mark.parametrize(
    "text",
    [
        PGD_TEXT,
        PGD_TEXT.replace("\n", ", "),
        PGD_TEXT.replace('"', ""),
        PGD_TEXT.replace('="', ': "'),
        PGD_TEXT.replace('="', ' = "').replace("\n", "  # as printed\n"),
    ],
)
def test_a_threat_file_is_yaml_or_key_equals_value(tmp_path: Path, text: str) -> None:
    wanted = {"name": "pgd", "norm": "linf", "epsilon": 8 / 255, "alpha": 0.01, "steps": 20}
    described = gauntlet.build_threat(written(tmp_path, text)).describe()["attack"]
    assert wanted.items() <= described.items()
    if ":" not in text:
        assert gauntlet.build_threat(text).describe()["attack"] == described


@pytest.mark.parametrize(("name", "threat"), [("PGD", "pgd"), ("SegPGD", "segpgd"), ("CosPGD", "cospgd")])
@pytest.mark.parametrize(("norm", "epsilon", "alpha"), [("Linf", 8, 0.01), ("L2", 64, 0.1)])
def test_every_printed_attack_is_retrieved(
    tmp_path: Path, name: str, threat: str, norm: str, epsilon: int, alpha: float
) -> None:
    text = f"threat_model: {name}\niterations: 20\nepsilon: {epsilon}\nalpha: {alpha}\nlp_norm: '{norm}'\n"
    _, results = on_ade20k(retrieve_existing=True, threat_config=written(tmp_path, text))
    key = f"{threat} {norm.lower()} {epsilon}/255 x20"
    assert results.figures["mIoU"] == pytest.approx(published_mean("ade20k", [key]))


@pytest.mark.parametrize(
    "text", ['threat_model: "None"', "threat_model: None", "threat_model: null", 'threat_model="None"']
)
def test_none_is_clean(tmp_path: Path, text: str) -> None:
    _, results = on_ade20k(threat_config=written(tmp_path, text))
    assert results.figures["mIoU"] == pytest.approx(0.3741)


def test_fgsm_and_bim_are_threats_too(tmp_path: Path) -> None:
    for name in ("FGSM", "BIM"):
        assert next(iter(gauntlet.build_threat(written(tmp_path, f"threat_model: {name}")).describe())) == "attack"


@pytest.mark.parametrize("name", ["2DCommonCorruption", "2DCommonCorruptions"])
def test_corruptions_give_each_their_mean_and_their_minimum(tmp_path: Path, name: str) -> None:
    model, results = on_ade20k(threat_config=written(tmp_path, f"threat_model: {name}\nseverity: 3\n"))
    assert isinstance(model, ModelSource)
    assert list(results.members) == list(COMMON)
    values = [published_mean("ade20k", [f"{each} 3"]) for each in COMMON]
    assert [each.figures["mIoU"] for each in results.members.values()] == pytest.approx(values)
    assert results.figures["mIoU"] == pytest.approx(sum(values) / 15)
    assert results.minimum["mIoU"] == min(values)
    assert results.from_store
    printed = published.frame(source="semsegbench", dataset="ade20k", kind="summary", summaries=True)
    gam = printed[printed["model"].eq("segformer/mit-b0") & printed["metric"].eq("mIoU")]
    assert any(abs(float(value) - results.minimum["mIoU"]) < 1e-9 for value in gam["value"])


def test_acdc_gives_the_conditions_and_their_mean(tmp_path: Path) -> None:
    _, results = on_cityscapes(threat_config=written(tmp_path, "threat_model: ACDC\n"))
    assert list(results.members) == ["fog", "night", "rain", "snow"]
    names = [f"acdc {each}" for each in results.members]
    assert results.figures["mIoU"] == pytest.approx(published_mean("cityscapes", names, crop_size="512x1024"))
    _, pooled = on_cityscapes(threat_config=written(tmp_path, "threat_model: ACDC\ncondition: all\n"))
    assert pooled.figures["mIoU"] == pytest.approx(published_mean("cityscapes", ["acdc all"], crop_size="512x1024"))
    with pytest.raises(GauntletError, match="ACDC has the classes of Cityscapes, but the model is one of ADE20K"):
        on_ade20k(threat_config=written(tmp_path, "threat_model: ACDC\n"))


def test_without_retrieval_a_family_is_computed_with_one_model(
    monkeypatch: pytest.MonkeyPatch, tiny_model: SegmentationModel, tmp_path: Path
) -> None:
    loads: list[str] = []

    class Source(LoadedModel):
        def load(self) -> GauntletModel:
            loads.append("loaded")
            return super().load()

    def weather(name: str, **options: Any) -> Dataset:
        assert name == "acdc"
        return TinyDataset(1, ((32, 40),), name=f"acdc-{options['condition']}")

    monkeypatch.setattr(triple, "resolve_model", lambda **names: Source(tiny_model))
    monkeypatch.setattr(triple, "load_dataset", lambda name, *, root, limit: TinyDataset(1, ((32, 40),)))
    monkeypatch.setattr(cases, "load_dataset", weather)
    config = written(tmp_path, "threat_model: 2DCommonCorruptions\nseverity: 1\n")
    model, results = on_ade20k(retrieve_existing=False, threat_config=config)
    assert (model, loads) == (tiny_model, ["loaded"])
    assert len({each.key for each in results.members.values()}) == 15
    assert not results.from_store
    values = [each.figures["mIoU"] for each in results.members.values()]
    assert results.figures["mIoU"] == pytest.approx(np.mean(values))
    acdc = written(tmp_path, "threat_model: ACDC\n")
    _, weathers = on_cityscapes(retrieve_existing=False, threat_config=acdc)
    assert {each.dataset for each in weathers.members.values()} == {
        f"acdc-{c}" for c in ("fog", "night", "rain", "snow")
    }


def test_a_model_at_hand_takes_the_same_files(tiny_model: SegmentationModel, tmp_path: Path) -> None:
    data = TinyDataset(1, ((32, 40),))
    config = written(tmp_path, "threat_model: 2DCommonCorruptions\nseverity: 1\n")
    result = gauntlet.evaluate(tiny_model, data, config)
    assert list(result.members) == list(COMMON)
    assert result.as_dict()["members"]["fog"]["figures"]["mIoU"] == result.members["fog"].figures["mIoU"]
    listed = gauntlet.evaluate(tiny_model, data, ["clean", config])
    assert [len(each.members) for each in listed] == [0, 15]
    frame = gauntlet.evaluate([tiny_model], data, config)
    assert set(frame["threat"]) == {f"{name} 1" for name in COMMON}


# Detection -----------------------------------------------------------------------------------------------------------


class DeepBoxes(TinyBoxes):
    """With a plane of depth, near at the bottom."""

    has_depth = True

    def __getitem__(self, index: int) -> Any:
        from dataclasses import replace

        sample = super().__getitem__(index)
        height, width = sample.image.shape[:2]
        return replace(sample, depth=np.repeat(np.linspace(60, 2, height, dtype=np.float32)[:, None], width, axis=1))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """models/DINO_Swin-L with a configuration and weights, and a source `mmdet` that stands in for OpenMMLab's."""
    (path := tmp_path / "models" / "DINO_Swin-L").mkdir(parents=True)
    data = tmp_path / "data" / "coco"
    (path / "dino.py").write_text(f"dataset_type = 'CocoDataset'\ndata_root = '{data}/'\nraise SystemExit\n")
    (path / "dino.pth").write_bytes(b"")
    asked: list[tuple[str, Mapping[str, Any]]] = []

    def stand_in(config: str, options: Mapping[str, Any]) -> GauntletModel:
        asked.append((config, options))
        assert (config, options["weights"]) == (str(path / "dino.py"), str(path / "dino.pth"))
        return TinyDetector()

    monkeypatch.setitem(sources._entries, "mmdet", stand_in)
    monkeypatch.setattr(detecbench_tasks, "load_dataset", lambda name, root: DeepBoxes(2))
    return path


def test_load_model_takes_a_folder(folder: Path) -> None:
    assert load_detector(model_folder=folder).identity.name == "tiny-detector"
    assert load_detector(model_folder=str(folder)).task == "detection"
    with pytest.raises(GauntletError, match="give either the model folder"):
        gauntlet.load_model("streets/fcos", model_folder=folder)


def test_a_folder_that_holds_something_else_is_told(folder: Path) -> None:
    (folder / "second.pth").write_bytes(b"")
    with pytest.raises(
        GauntletError, match=r"one configuration \(\.py\) and its weights .* dino.pth, dino.py, second.pth"
    ):
        load_detector(model_folder=folder)
    with pytest.raises(GauntletError, match="is not a folder"):
        load_detector(model_folder=folder / "none")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dataset_type = 'VOCDataset'\ndata_root = 'data/VOCdevkit/'", ("voc2007", "data/VOCdevkit/")),
        ("test_dataloader = dict(dataset=dict(type='LVISV1Dataset', data_root='d/'))", ("lvis", "d/")),
        ("val_dataloader = {'dataset': {'type': 'CocoDataset'}}", ("coco", None)),
    ],
)
def test_the_dataset_stands_in_the_configuration(folder: Path, text: str, expected: tuple[str, str | None]) -> None:
    from gauntlet.models.sources.model_folder import find_model_folder

    (folder / "dino.py").write_text(text)
    assert find_model_folder(folder).dataset() == expected
    (folder / "dino.py").write_text("_base_ = '../other.py'")
    with pytest.raises(GauntletError, match="does not write out its dataset_type; say which dataset to use"):
        find_model_folder(folder).dataset()


def test_evaluate_takes_a_task_and_a_folder(folder: Path, tmp_path: Path) -> None:
    task = attacks.PGD(epsilon=8, alpha=2.55, steps=1, norm="inf", target=False, random_start=True)
    result = evaluate_detector(task=task, model_folder=folder, log_dir=tmp_path / "logs")
    assert result.threat == task.name
    with gauntlet.open_store(tmp_path / "logs" / "results.db") as store:
        assert store.keys() == [result.key]
    again = evaluate_detector(task=task, model_folder=folder, log_dir=tmp_path / "logs")
    assert again.from_store
    own = evaluate_detector(task="None", model_folder=folder, dataset=TinyBoxes(1))
    assert (own.threat, own.images) == ("clean", 1)


@pytest.mark.parametrize(("task", "name"), [("FGSM", "fgsm"), ("BIM", "bim"), ("PGD", "pgd"), ("None", "clean")])
def test_tasks_by_their_printed_name(task: str, name: str) -> None:
    (case,) = detecbench_tasks.task_cases(task).cases
    described = case.threat.describe()
    if name == "clean":
        assert described == {"clean": {}}
        return
    attack = described["attack"]
    assert (attack["name"], attack["epsilon"], attack["alpha"]) == (name, 8 / 255, 0.01)
    assert attack.get("random_start", False) == (name == "pgd")


@pytest.mark.parametrize("dataset", ["VOC", "voc2007", "voc0712"])
def test_published_detectors_of_voc_are_found_by_its_short_name(dataset: str) -> None:
    _, result = evaluate_detector(model_name="atss", backbone="r50", dataset=dataset, task="BIM")
    rows = find("ATSS", "R-50-FPN", "voc0712")
    row = rows[rows["threat"].eq("bim linf 8/255 x20") & rows["metric"].eq("mAP")]
    assert result.figures["mAP"] == float(row["value"].iloc[0])
    assert (result.task, result.dataset) == ("detection", "voc0712")


def test_a_segmentation_model_of_voc_stays_one_of_voc_2012() -> None:
    assert set(find("PSPNet", "ResNet50", "VOC")["dataset"]) == {"voc"}
    with pytest.raises(GauntletError, match="published model on voc 'yolo'"):
        find("yolo", "ResNet50", "VOC")


@pytest.mark.parametrize(
    ("task", "family", "members"),
    [
        ("CommonCorruptions", "2DCommonCorruptions", COMMON),
        ("2DCommonCorruptions", "2DCommonCorruptions", COMMON),
        ("3DCommonCorruptions", "3DCommonCorruptions", COMMON_3D),
        ("all", "2DCommonCorruptions", COMMON),
        ("cc3d_all", "3DCommonCorruptions", COMMON_3D),
        (corruptions.CommonCorruption(name="all", severity=3), "2DCommonCorruptions", COMMON),
        (corruptions.CommonCorruption3d(name="all", severity=3), "3DCommonCorruptions", COMMON_3D),
    ],
)
def test_all_runs_the_family(task: Any, family: str, members: tuple[str, ...]) -> None:
    found = detecbench_tasks.task_cases(task)
    assert (found.family, [case.name for case in found.cases]) == (family, list(members))


def test_a_family_of_a_detector_is_evaluated(folder: Path) -> None:
    result = evaluate_detector(task=corruptions.CommonCorruption3d(name="all"), model_folder=folder)
    assert set(result.members) == set(COMMON_3D) < set(CORRUPTIONS["detection"])
    values = [each.figures["mAP"] for each in result.members.values()]
    assert result.minimum["mAP"] == min(values)
    assert result.figures["mAP"] == pytest.approx(np.mean(values))


@pytest.mark.parametrize(
    ("printed", "ours"),
    [
        ("frosted_glass_blur", "glass_blur"),
        ("elastic", "elastic_transform"),
        ("jpeg", "jpeg_compression"),
        ("contrast",) * 2,
    ],
)
def test_printed_names_of_corruptions(printed: str, ours: str) -> None:
    assert corruptions.CommonCorruption(name=printed).describe() == {"corruption": {"name": ours, "severity": 3}}


@pytest.mark.parametrize("name", ["near_focus", "cc3d_near_focus"])
def test_the_prefix_of_3d_names_is_optional(name: str) -> None:
    expected = {"corruption": {"name": "near_focus", "severity": 3, "depth_rule": "estimated"}}
    assert corruptions.CommonCorruption3d(name=name).describe() == expected
    assert corruptions.CommonCorruption(name="cc3d_near_focus").describe() == expected


def test_a_task_may_be_a_name_with_the_prefix_of_3d() -> None:
    (case,) = detecbench_tasks.task_cases("cc3d_near_focus").cases
    assert case.threat.describe() == corruptions.CommonCorruption3d(name="near_focus").describe()
    with pytest.raises(GauntletError, match="unknown 3D common corruption 'none_such'"):
        detecbench_tasks.task_cases("cc3d_none_such")


def test_a_logger_is_told(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import logging

    caplog.set_level("INFO", "mine")
    evaluate_detector(task="None", model_folder=folder, logger=logging.getLogger("mine"))
    assert [text for text in caplog.messages if "tiny-detector" in text and "mAP" in text]
    with pytest.raises(GauntletError, match="needs a folder: log_dir='logs'"):
        evaluate_detector(task="None", model_folder=folder, logger="tensorboard")
    evaluate_detector(task="None", model_folder=folder, logger="tensorboard", log_dir=tmp_path / "logs")
    assert list((tmp_path / "logs" / "tensorboard").rglob("events*"))


def test_wandb_is_told_beside_a_logger(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import logging

    told: list[tuple[str, Path]] = []

    class Remembering:
        def log(self, figures: dict[str, float], step: int) -> None:
            assert any(name.endswith("/mAP") for name in figures)

        def close(self) -> None:
            told.append(("closed", Path()))

    def open_tracker(kind: str, name: str, config: dict[str, Any], folder: Path) -> Remembering:
        told.append((kind, folder))
        return Remembering()

    monkeypatch.setattr("gauntlet.evaluation.execution.listeners.open_tracker", open_tracker)
    caplog.set_level("INFO", "mine")
    own, logs = logging.getLogger("mine"), tmp_path / "logs"
    evaluate_detector(task="None", model_folder=folder, log_dir=logs, logger=own, wandb=True)
    assert told == [("wandb", logs), ("closed", Path())]
    assert [text for text in caplog.messages if "mAP" in text]
    evaluate_detector(task="None", model_folder=folder, log_dir=logs, logger="wandb", wandb=True)  # told once
    evaluate_detector(task="None", model_folder=folder, log_dir=logs, wandb=False)
    assert told == 2 * [("wandb", logs), ("closed", Path())]
    with pytest.raises(GauntletError, match="the logger 'wandb' needs a folder"):
        evaluate_detector(task="None", model_folder=folder, wandb=True)


def test_the_folder_of_the_configuration_is_used_where_it_exists(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A COCO-format set with one picture at the data_root of the configuration."""
    monkeypatch.setattr(detecbench_tasks, "load_dataset", gauntlet.load_dataset)
    root = folder.parents[1] / "data" / "coco"
    (root / "images").mkdir(parents=True)
    cv2.imwrite(str(root / "images/1.png"), np.zeros((40, 40, 3), np.uint8))
    categories = [{"id": k, "name": name} for k, name in enumerate(("red", "green", "blue"))]
    box = {"id": 1, "image_id": 1, "category_id": 0, "bbox": [0, 0, 8, 8], "area": 64, "iscrowd": 0}
    image = {"id": 1, "file_name": "1.png", "height": 40, "width": 40}
    import json

    (root / "instances.json").write_text(
        json.dumps({"images": [image], "annotations": [box], "categories": categories})
    )
    result = evaluate_detector(task="None", model_folder=folder)
    assert (result.dataset, result.images) == ("coco", 1)

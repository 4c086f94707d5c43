"""Benchmark triples: published figures are found without loading anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.evaluation import triple
from gauntlet.evaluation.retrieval import find_published, published_run
from gauntlet.models import GauntletModel, ModelIdentity, SegmentationModel
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results import Evaluation, published
from gauntlet.threats import build_threat
from tiny import TinyDataset


def test_a_published_result_is_returned_without_a_model(tmp_path: Path) -> None:
    config = tmp_path / "threat.yml"
    content = {"threat_model": "PGD", "iterations": 20, "epsilon": 8, "alpha": 0.01, "lp_norm": "Linf"}
    config.write_text(yaml.safe_dump(content))
    _, result = gauntlet.evaluate(
        model_name="SegFormer", backbone="mit-b0", dataset="ade20k", retrieve_existing=True, threat_config=config
    )
    assert result.figures["mIoU"] == pytest.approx(0.0046)
    assert result.provenance["published"] == "semsegbench"
    assert result.from_store
    assert result.key.startswith("published:")


def test_clean_and_corruptions_are_found_too() -> None:
    _, clean = gauntlet.evaluate(model_name="segformer", backbone="mit-b0", dataset="ade20k")
    assert clean.figures["mIoU"] == pytest.approx(0.3741)
    fog = {"corruption": {"name": "fog", "severity": 3}}
    _, corrupted = gauntlet.evaluate(model_name="segformer", backbone="mit-b0", dataset="ade20k", threat_config=fog)
    assert 0 < corrupted.figures["mIoU"] < clean.figures["mIoU"]


def test_known_faults_come_along() -> None:
    _, result = gauntlet.evaluate(
        model_name="deeplabv3", backbone="resnet101", dataset="ade20k", threat_config={"corruption": {"name": "fog"}}
    )
    assert result.provenance["flags"]


def test_several_crop_sizes_are_never_mixed_up() -> None:
    with pytest.raises(GauntletError, match="512x1024"):
        gauntlet.evaluate(model_name="segformer", backbone="mit-b0", dataset="cityscapes")
    _, small = gauntlet.evaluate(model_name="segformer", backbone="mit-b0", dataset="cityscapes", crop_size="512x1024")
    _, large = gauntlet.evaluate(model_name="segformer", backbone="mit-b0", dataset="cityscapes", crop_size="1024x1024")
    assert small.figures["mIoU"] != large.figures["mIoU"]


def test_another_budget_is_not_the_published_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 steps were never published, so the model is wanted, and its weights are not on this machine."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    attack = {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 5}}
    with pytest.raises(GauntletError):
        gauntlet.evaluate(model_name="segformer", backbone="mit-b0", dataset="ade20k", threat_config=attack)


def test_a_targeted_attack_is_not_the_published_one() -> None:
    threat = gauntlet.build_threat({"attack": {"name": "pgd", "epsilon": "8/255", "steps": 20, "target": 0}})
    assert find_published("segformer", "mit-b0", "ade20k", threat) is None


def test_a_misspelt_triple_gets_a_suggestion() -> None:
    with pytest.raises(GauntletError, match="segformer"):
        gauntlet.evaluate(model_name="segfomer", backbone="mit-b0", dataset="ade20k")
    with pytest.raises(GauntletError, match="give either a model or a triple"):
        gauntlet.evaluate()  # type: ignore[call-overload]
    with pytest.raises(GauntletError, match="a triple needs"):
        gauntlet.evaluate(model_name="segformer", dataset="ade20k")  # type: ignore[call-overload]


def test_a_triple_of_the_zoo_without_published_figures_is_computed(
    monkeypatch: pytest.MonkeyPatch, tiny_model: SegmentationModel
) -> None:
    clean = gauntlet.build_threat("clean")
    assert find_published("upernet", "convnext-t", "ade20k", clean) is None
    with pytest.raises(GauntletError, match="unknown backbone of the published upernet on ade20k 'convnext-q'"):
        find_published("upernet", "convnext-q", "ade20k", clean)
    monkeypatch.setattr(triple, "resolve_model", lambda **names: Counted(tiny_model))
    monkeypatch.setattr(triple, "load_dataset", lambda name, *, root, limit: TinyDataset(2))
    model, result = gauntlet.evaluate(model_name="upernet", backbone="convnext-t", dataset="ade20k")
    assert model is tiny_model
    assert (result.from_store, result.images) == (False, 2)


class Counted(ModelSource):
    """A source that counts how often it was loaded."""

    def __init__(self, model: GauntletModel) -> None:
        self.model, self.loads = model, 0

    @property
    def identity(self) -> ModelIdentity:
        return self.model.identity

    def load(self) -> GauntletModel:
        self.loads += 1
        return self.model


def test_a_triple_is_computed_once_and_then_found_in_the_store(
    monkeypatch: pytest.MonkeyPatch, tiny_model: SegmentationModel, tmp_path: Path
) -> None:
    source = Counted(tiny_model)
    asked: list[dict[str, str]] = []

    def resolve(**names: str) -> Counted:
        asked.append(names)
        return source

    monkeypatch.setattr(triple, "resolve_model", resolve)
    monkeypatch.setattr(triple, "load_dataset", lambda name, *, root, limit: TinyDataset(limit))

    def evaluate() -> tuple[GauntletModel | ModelSource, Evaluation]:
        return gauntlet.evaluate(
            model_name="segformer", backbone="mit-b0", dataset="ade20k", limit=3, store=tmp_path / "results.db"
        )

    model, first = evaluate()
    unloaded, second = evaluate()
    assert model is tiny_model
    assert (first.from_store, second.from_store, source.loads) == (False, True, 2)  # the second for the probe
    assert second.figures == first.figures
    assert isinstance(unloaded, ModelSource)
    assert unloaded.load() is tiny_model
    assert asked[0] == {"model_name": "segformer", "backbone": "mit-b0", "dataset": "ade20k", "crop_size": None}


def test_without_checkpoint_or_data_the_published_figures_are_taken_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def nothing(**names: object) -> ModelSource:
        raise GauntletError("no checkpoint here.")

    monkeypatch.setattr(triple, "resolve_model", nothing)
    caplog.set_level("INFO", "gauntlet")
    _, result = gauntlet.evaluate(
        model_name="segformer", backbone="mit-b0", dataset="ade20k", store=tmp_path / "results.db"
    )
    assert result.figures["mIoU"] == pytest.approx(0.3741)
    assert [text for text in caplog.messages if "is not looked up in the store: no checkpoint here." in text]


def attack_on_voc(name: str, **options: object) -> Evaluation:
    attack = {"attack": {"name": name, "epsilon": "8/255", **options}}
    return gauntlet.evaluate(model_name="ATSS", backbone="R-50", dataset="voc2007", threat_config=attack)[1]


def test_published_detectors_are_found_and_marked_as_interim() -> None:
    result = attack_on_voc("bim", steps=20)
    assert (result.task, result.figures["mAP"], result.figures["mAP50"]) == ("detection", 0.378, 0.614)
    assert result.provenance["published"] == "detecbench_interim"
    assert "not the final DetecBench figures" in result.provenance["note"]
    assert attack_on_voc("pgd", steps=20).provenance["flags"]  # without a random start


def test_runs_of_several_exports_are_not_put_together() -> None:
    """An older export has VOC's AP of the same budget, from another run: the figures of one run come alone."""
    assert "VOC_mAP50" not in attack_on_voc("pgd", steps=20).figures
    libra = {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 1}}
    _, result = gauntlet.evaluate(model_name="Libra R-CNN", backbone="R-101", dataset="coco", threat_config=libra)
    assert result.figures["mAP"] == 0.394  # a notebook of the same runs prints 0.395


def free_anchor(alpha: str) -> Evaluation:
    attack = {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 20, "alpha": alpha}}
    return gauntlet.evaluate(model_name="free_anchor", backbone="swin-b", dataset="voc2007", threat_config=attack)[1]


def test_the_step_size_tells_two_runs_of_one_budget_apart() -> None:
    large, small = free_anchor("2.55/255"), free_anchor("0.01/255")
    assert (large.figures["VOC_mAP50"], small.figures["VOC_mAP50"]) == (0.362, 0.709)
    assert large.key != small.key
    assert not any("step size" in flag for each in (large, small) for flag in each.provenance["flags"])


def test_figures_of_another_step_size_are_not_those_of_the_threat() -> None:
    """docs/specs/studies.md, 6: every setting must match, the step size too."""
    names = ("free_anchor", "swin-b", "voc2007")
    attack = {"name": "pgd", "epsilon": "8/255", "steps": 20, "alpha": "5/255"}
    assert find_published(*names, build_threat({"attack": attack})) is None
    assert find_published(*names, build_threat({"attack": {**attack, "alpha": "2.55/255"}})) is not None


def test_a_table_without_the_step_size_says_so() -> None:
    rows = published.find("free_anchor", "swin-b", "voc2007")
    threat = build_threat({"attack": {"name": "pgd", "epsilon": "8/255", "steps": 20, "alpha": "5/255"}}).describe()
    silent = [
        json.dumps({"attack": {k: v for k, v in json.loads(text)["attack"].items() if k != "alpha"}})
        if "attack" in json.loads(text)
        else text
        for text in rows["description"]
    ]
    assert published_run(rows, threat).empty
    assert not published_run(rows.assign(description=silent), threat).empty

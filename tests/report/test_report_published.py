"""Our figures of the benchmarks' models beside the published ones: in the report, and in the list of the zoo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from synthetic_store import METRIC

from gauntlet.metrics import Figure
from gauntlet.models import zoo
from gauntlet.report import build_report
from gauntlet.report.sections.published import published_figure
from gauntlet.report.tables import Table
from gauntlet.results import Job, Store, open_store
from program import Call

SEGFORMER = "mmseg:segformer_mit-b0_8xb2-160k_ade20k-512x512"
FOG = {"corruption": {"name": "fog", "severity": 3}}
PGD = {"attack": {"name": "pgd", "norm": "linf", "epsilon": 8 / 255, "alpha": 0.01, "steps": 20}}
BIM = {"attack": {"name": "bim", "norm": "linf", "epsilon": 8 / 255, "steps": 20}}


def put(store: Store, address: str, description: dict[str, Any], figure: float, dataset: str = "ade20k") -> None:
    """A stored evaluation of the model at an address."""
    identity = {"name": dataset, "split": "val", "length": 2000, "ids": "x", "protocol": {}}
    kind = next(iter(description))
    job = Job("segmentation", "net", "0", identity, kind, kind, description, 1, 0)
    provenance = {
        "started": "2026-01-01T00:00:00+00:00",
        "origin": {"model": {"address": address, "options": {}}, "dataset": None, "folder": ""},
    }
    started = store.begin(job, images=2000, batch_size=4, metric=METRIC, provenance=provenance)
    store.finish(started, [Figure("mIoU", figure)])


def section_of(store: Store) -> Any:
    sections = {each.title: each for each in build_report(store).parts[0].sections}
    return sections.get("Beside the published figures")


def test_differences_of_more_than_half_a_point_are_marked(tmp_path: Path) -> None:
    """SemSegBench has 37.41 clean, 34.90 in fog and 0.46 under PGD."""
    with open_store(str(tmp_path / "s.db")) as store:
        put(store, SEGFORMER, {"clean": {}}, 0.3740)
        put(store, SEGFORMER, FOG, 0.3400)
        put(store, SEGFORMER, PGD, 0.0046)
        section = section_of(store)
    text, table = section.blocks
    assert text.text.startswith("3 figures of models that others have published; 1 is more than half a point away.")
    assert isinstance(table, Table)
    rows = {row[1]: row[2:] for row in table.rows}
    assert rows["clean"] == pytest.approx([0.3740, 0.3741, -0.0001, *rows["clean"][3:]], abs=1e-9)
    assert rows["clean"][3:] == ["semsegbench", ""]
    assert rows["corruption"][2] == pytest.approx(-0.0090)
    assert rows["corruption"][4] == "differs"
    assert rows["attack"][4] == ""


@pytest.mark.parametrize(
    ("triple", "description", "figure"),
    [
        (("TOOD", "ResNet101", "coco"), {"clean": {}}, (0.493, "detecbench_interim")),
        (("TOOD", "ResNet101", "coco"), BIM, (0.459, "detecbench_notebook")),
        (("VarifocalNet", "ResNeXt101", "coco"), {"clean": {}}, (0.504, "detecbench_notebook")),
        (("TOOD", "ResNeXt101", "coco"), {"clean": {}}, (0.476, "OpenMMLab")),
        (("TOOD", "ResNeXt101", "coco"), BIM, None),
    ],
)
def test_the_benchmarks_figures_of_detectors_come_before_openmmlabs(
    triple: tuple[str, str, str], description: dict[str, Any], figure: tuple[float, str] | None
) -> None:
    found = published_figure(zoo.find(*triple), description, "mAP")
    assert (found and (round(found[0], 4), found[1])) == figure


@pytest.mark.parametrize(("address", "dataset"), [(SEGFORMER, "cityscapes"), ("streets/enet", "ade20k")])
def test_other_models_and_other_datasets_have_no_such_section(address: str, dataset: str, tmp_path: Path) -> None:
    with open_store(str(tmp_path / "s.db")) as store:
        put(store, address, {"clean": {}}, 0.3740, dataset)
        assert section_of(store) is None


def test_the_list_of_the_zoo_shows_how_rows_load_and_figures(call: Call, tmp_path: Path) -> None:
    with open_store(str(tmp_path / "s.db")) as store:
        put(store, SEGFORMER, FOG, 0.3400)
        put(store, SEGFORMER, {"clean": {}}, 0.3688)
        put(store, "mmdet:atss_r101_fpn_1x_coco", {"clean": {}}, 0.1, "ade20k")  # not what it was trained on
    _, output, _ = call("list", "models", "--zoo", "--json", "--store", tmp_path / "s.db")
    rows = {(row["model"], row["backbone"], row["dataset"]): row for row in json.loads(output)}
    row = rows["segformer", "mit-b0", "ade20k"]
    assert (row["loads"], row["published %"], row["ours %"]) == ("hf or mmseg", "37.4", "36.9")
    row = rows["atss", "resnet101", "coco"]
    assert (row["loads"], row["published %"], row["ours %"]) == ("mmdet", "41.5", "")
    code, output, _ = call("list", "models", "--zoo", "--json", "--store", tmp_path / "nowhere.db")
    assert code == 0
    assert all(row["ours %"] == "" for row in json.loads(output))


def test_a_zoo_without_anything_to_load_names_every_row(call: Call, tmp_path: Path) -> None:
    """The reasons differ with what is installed; here no file is there."""
    code, _, errors = call("run", "--zoo", "detecbench", "--dataset", "voc", "--checkpoints", tmp_path, "--trust")
    assert code == 2
    assert errors.count("left out: ") == 2
    assert "retinanet with resnet50 on voc: " in errors
    assert "none of the 2 models of detecbench can be loaded here" in errors
    code, _, errors = call("run", "--zoo", "detecbench", "--dataset", "coco", "--name", "mine")
    assert code == 2
    assert "--name is for one model" in errors

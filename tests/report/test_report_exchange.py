"""What other tools read: detections as COCO JSON, results for the Hub."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from synthetic_store import put

from detection_cases import random_case
from gauntlet.errors import GauntletError
from gauntlet.metrics import WHOLE, DetectionMetric
from gauntlet.report import write_report
from gauntlet.report.pages.eval_results import Benchmark, entries, read_benchmark, write_eval_results
from gauntlet.report.pages.model_card import card_data, front_matter, write_card
from gauntlet.results import Job, Store, open_store
from gauntlet.results.record import ImageRow
from gauntlet.samples import Boxes

CLASSES = ("car", "person", "rider", "sign")
THREATS: dict[str, dict[str, Any]] = {
    "clean": {"clean": {}},
    "pgd 8/255": {"attack": {"name": "pgd", "epsilon": 8 / 255}},
}


@pytest.fixture
def detector_store() -> Store:
    """A detector on six images, clean and under an attack after which it finds other things."""
    store = open_store()
    metric = DetectionMetric(CLASSES)
    options = {"class_names": list(CLASSES)}
    for number, (threat, description) in enumerate(THREATS.items()):
        truths, clean = random_case(3, difficult=0.2)
        detections = clean if number == 0 else random_case(4, difficult=0.2)[1]
        dataset = {"name": "roads", "split": "val", "length": len(truths), "ids": "x", "protocol": {}}
        kind = next(iter(description))
        job = Job("detection", "my/model: é", "0", dataset, threat, kind, description, 1, 0)
        provenance = {"started": "2026-03-01T10:00:00+00:00"}
        started = store.begin(job, images=len(truths), batch_size=4, metric=options, provenance=provenance)
        counts = [metric.update(found, truth) for truth, found in zip(truths, detections, strict=True)]
        rows = [ImageRow(index, f"scene {index}", each.to_bytes(), {}) for index, each in enumerate(counts)]
        store.add_images(started, rows, WHOLE, seconds=1.0)
        store.finish(started, metric.compute(counts, WHOLE))
    return store


def test_pycocotools_finds_the_stored_map(
    detector_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_report(detector_store, tmp_path / "coco", format="coco")
    index = json.loads((folder / "index.json").read_text("utf-8"))
    assert [each["threat"] for each in sorted(index, key=lambda each: -each["mAP"])] == ["clean", "pgd 8/255"]
    assert len({each["objects"] for each in index}) == 1
    assert len({each["detections"] for each in index}) == 2
    for each in index:
        objects = COCO(str(folder / each["objects"]))
        assert [image["file_name"] for image in objects.dataset["images"]] == [f"scene {n}" for n in range(6)]
        assert [category["name"] for category in objects.dataset["categories"]] == list(CLASSES)
        evaluation = COCOeval(objects, objects.loadRes(str(folder / each["detections"])), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
        stored = detector_store.load(each["key"])
        assert stored is not None
        assert stored.figures["mAP"] == each["mAP"]
        assert evaluation.stats[:3] == pytest.approx(
            [stored.figures[name] for name in ("mAP", "mAP50", "mAP75")], abs=1e-9
        )


def test_a_box_is_written_as_corner_and_sides(tmp_path: Path) -> None:
    from gauntlet.report.coco_export import objects_file
    from gauntlet.results.detections import StoredDetections

    truth = Boxes(np.array([[2, 3, 12, 8]], np.float32), np.array([1]), crowd=np.array([True]))
    with open_store() as store:
        put(store, "zoo/plain", "clean", {"clean": {}}, mIoU=0.5)
        evaluation = store.load(store.keys()[0])
    assert evaluation is not None
    written = objects_file(StoredDetections(evaluation, ("car", "person"), ["a.png"], [truth], [truth]))
    assert written["annotations"] == [
        {"image_id": 1, "category_id": 2, "bbox": [2.0, 3.0, 10.0, 5.0], "area": 50.0, "iscrowd": 1, "id": 1}
    ]


def test_a_store_without_detections_says_so(tmp_path: Path) -> None:
    with open_store() as store, pytest.raises(GauntletError, match="no detections"):
        write_report(store, tmp_path / "coco", format="coco")


BENCHMARK = {
    "id": "org/benchmark",
    "tasks": {"clean": "clean", "pgd_linf_8_255": "pgd 8/255"},
    "revision": "5503434ddd753f426f4b38109466949a1217c2bb",
    "source": {"url": "https://example.org/report", "name": "Gauntlet report", "org": "org"},
}
REQUIRED, OPTIONAL = {"dataset", "value"}, {"date", "source", "notes", "verifyToken"}


def test_eval_results_have_the_keys_of_the_hub_and_agree_with_the_card(detector_store: Store, tmp_path: Path) -> None:
    (tmp_path / "benchmark.yaml").write_text(yaml.safe_dump(BENCHMARK))
    data = card_data(detector_store, "my/model: é")
    path = write_eval_results(entries(data, read_benchmark(tmp_path / "benchmark.yaml")), tmp_path)
    assert path == tmp_path / ".eval_results" / "gauntlet.yaml"
    text = path.read_text("utf-8")
    assert "date: '2026-03-01'" in text
    read = yaml.safe_load(text)
    assert [each["dataset"]["task_id"] for each in read] == ["clean", "pgd_linf_8_255"]
    card, _ = write_card(detector_store, "my/model: é", tmp_path / "README.md")
    results = yaml.safe_load(card.read_text("utf-8").split("---\n")[1])["model-index"][0]["results"]
    by_threat = {each["metrics"][0]["name"].partition(", ")[2]: each["metrics"][0]["value"] for each in results}
    for each, threat in zip(read, THREATS, strict=True):
        assert REQUIRED <= set(each) <= REQUIRED | OPTIONAL
        assert each["dataset"] == {
            "id": "org/benchmark",
            "task_id": each["dataset"]["task_id"],
            "revision": BENCHMARK["revision"],
        }
        assert each["value"] == by_threat[threat]
        assert each["source"] == BENCHMARK["source"]
        assert "N=6" in each["notes"]
        assert "seed=0" in each["notes"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": {}}, "tasks"),
        ({"id": "benchmark"}, "id"),
        ({"source": {"name": "no url"}}, "source.url"),
        ({"date": "2026-11-16"}, "date"),
    ],
)
def test_benchmarks_that_the_hub_would_refuse_are_errors(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "benchmark.yaml"
    path.write_text(yaml.safe_dump({**BENCHMARK, **change}))
    with pytest.raises(GauntletError, match=f"not understood: {message}"):
        read_benchmark(path)


def test_tasks_without_a_figure_are_errors() -> None:
    with open_store() as store:
        put(store, "zoo/plain", "clean", {"clean": {}}, mIoU=math.nan)
        data = card_data(store, "zoo/plain")
    with pytest.raises(GauntletError, match="mIoU under 'clean' is undefined"):
        entries(data, Benchmark(id="org/benchmark", tasks={"clean": "clean"}))
    with pytest.raises(GauntletError, match="no evaluation under 'fog-3'; the store has: clean"):
        entries(data, Benchmark(id="org/benchmark", tasks={"fog": "fog-3"}))
    assert front_matter(data)["model-index"][0]["results"] == []  # no NaN, no result without a value


RESULT_KEYS = {
    "task": {"type", "name"},
    "dataset": {"type", "name", "config", "split", "revision", "args"},
    "metrics": {"type", "value", "name", "config", "args", "verifyToken"},
}


def test_the_model_index_has_the_keys_of_the_hub_alone(detector_store: Store) -> None:
    results = front_matter(card_data(detector_store, "my/model: é"))["model-index"][0]["results"]
    assert len(results) == 2
    for result in results:
        assert set(result) == set(RESULT_KEYS)
        for part, keys in RESULT_KEYS.items():
            for each in result[part] if part == "metrics" else [result[part]]:
                assert {"type"} <= set(each) <= keys
        assert result["task"]["type"] == "object-detection"
        assert result["dataset"]["name"]
        assert all(isinstance(metric["value"], float) for metric in result["metrics"])

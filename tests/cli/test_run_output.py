"""What `gauntlet run` prints about several evaluations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gauntlet.cli.evaluations import print_many
from gauntlet.metrics import Figure
from gauntlet.results import Evaluation, Job, Store


@pytest.fixture
def result() -> Evaluation:
    store = Store()
    dataset = {"name": "d", "split": "val", "length": 8, "ids": "x", "protocol": {}}
    job = Job("segmentation", "m", "digest", dataset, "clean", "clean", {"clean": {}}, 1, 0)
    started = store.begin(job, images=8, batch_size=4, metric={}, provenance={"started": "2026"})
    store.finish(started, [Figure("mIoU", 0.5)])
    actual = store.load(job.key)
    assert actual is not None
    return actual


@pytest.mark.parametrize("models", [1, 5])
def test_one_dataset_in_two_sizes_is_two_rows(
    result: Evaluation, models: int, capsys: pytest.CaptureFixture[str]
) -> None:
    larger = {**result.dataset_identity, "length": 64}
    results = [
        replace(each, model=f"m{index}")
        for index in range(models)
        for each in (
            result,
            replace(result, images=64, dataset_identity=larger, all_figures=[Figure("mIoU", 0.25)]),
        )
    ]
    print_many(results[:1], {})
    assert "images" not in capsys.readouterr().out
    print_many(results, {})
    lines = capsys.readouterr().out.splitlines()
    for each, value in ((results[0], "50"), (results[1], "25")):
        rows = [line for line in lines if f"d/val, {each.images} images [{each.dataset_digest[:8]}]" in line]
        assert len(rows) == models
        assert all(value in line.rpartition("clean")[2] for line in rows)

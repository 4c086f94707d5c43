"""What a person at a Python prompt sees: short texts, tables, pictures, charts, and frames of several models."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.runner import run_jobs
from gauntlet.evaluation.jobs import Settings
from gauntlet.evaluation.plan import plan_jobs, read_plan
from gauntlet.metrics.contract import Figure
from gauntlet.models import SegmentationModel, wrap_model
from gauntlet.pictures import amplified_difference, from_tensor
from gauntlet.results import Store
from gauntlet.results.record import Evaluation
from gauntlet.samples import Sample
from gauntlet.threats.attacks import Battery, build
from tiny import TinyDataset

EDGE, CAPTION = 6, 22
"""Pixels around a tile and above its picture."""


@pytest.fixture
def brightest() -> SegmentationModel:
    """The class of the brightest channel."""
    network = nn.Conv2d(3, 3, 1, bias=False)
    with torch.no_grad():
        network.weight.copy_(torch.eye(3).view(3, 3, 1, 1))
    return wrap_model(network, num_classes=3, mean=(0.0,) * 3, std=(1.0,) * 3, name="brightest")


def an_evaluation() -> Evaluation:
    figures = [
        Figure("mIoU", 0.5, low=0.25, high=0.75),
        Figure("aAcc", 0.625),
        Figure("IoU", 0.75, class_name="$road$"),
        Figure("IoU", 0.25, class_name="sky"),
        Figure("Acc", 0.125, class_name="$road$"),
        Figure("Acc", 1.0, class_name="sky"),
    ]
    return Evaluation(
        key="abc", task="segmentation", model="a<b", model_digest="d", dataset="streets", split="val", threat="fog 3",
        kind="corruption", description={}, seed=0, images=1, views=["all"], all_figures=figures, provenance={},
        duration=1.0, created="",
    )  # fmt: skip


def test_texts_are_one_short_line(tiny_model: SegmentationModel, tiny_dataset: TinyDataset) -> None:
    assert repr(tiny_dataset) == "<TinyDataset 'tiny' val: 6 images, 3 classes>"
    assert repr(tiny_dataset.subset(1)) == "<Subset 'tiny' val: 1 image, 3 classes>"
    # 3*8*9 + 8 and 8*3*9 + 3
    assert repr(tiny_model) == "<WrappedSegmentation 'tiny-net': segmentation, 3 classes, 443 parameters, cpu>"
    assert repr(gauntlet.build_threat({"corruption": {"name": "fog", "severity": 2}})) == "<CorruptionThreat: fog 2>"
    assert repr(an_evaluation()) == (
        "<Evaluation of a<b on streets/val (1 image) under fog 3: mIoU 50.0 % [25.0, 75.0]>"
    )


def test_tables_for_notebooks_are_escaped_and_have_the_facts(tiny_model: SegmentationModel) -> None:
    table = an_evaluation()._repr_html_()
    assert "<b>Evaluation of a&lt;b</b>" in table
    assert "<tr><th>mIoU</th><td>50.0 %</td></tr><tr><th>aAcc</th><td>62.5 %</td></tr>" in table
    assert "<tr><th>classes</th><td>dark, light, red</td></tr>" in TinyDataset()._repr_html_()
    assert "<tr><th>parameters</th><td>443</td></tr>" in tiny_model._repr_html_()
    assert (
        "<tr><th>severity</th><td>2</td></tr>"
        in gauntlet.build_threat({"corruption": {"name": "fog", "severity": 2}})._repr_html_()
    )


def test_a_store_says_what_it_holds_and_no_password(tmp_path: Path, tiny_model: SegmentationModel) -> None:
    with Store(tmp_path / "s.db") as store:
        assert repr(store) == f"<Store {tmp_path / 's.db'}: 0 evaluations, 0 models, 0 datasets, 0 threats>"
        gauntlet.evaluate(tiny_model, TinyDataset(2), ["clean", "fgsm"], store=store)
        assert repr(store).endswith(": 2 evaluations, 1 model, 1 dataset, 2 threats>")
        assert "<tr><th>threats</th><td>2</td></tr>" in store._repr_html_()
        pd.testing.assert_frame_equal(store.leaderboard(), gauntlet.analysis.leaderboard(store.frame()))
    gone = Store()
    gone.close()  # it was in memory
    gone.address = "postgresql://me:secret@host/results"
    assert repr(gone) == "<Store postgresql://me:***@host/results: cannot be read>"


def test_an_outcome_tells_only_what_is_known_without_asking_the_model(brightest: SegmentationModel) -> None:
    asked = []
    brightest.register_forward_pre_hook(lambda *_: asked.append(1))
    sample = TinyDataset()[0]
    assert sample.labels is not None
    outcome = gauntlet.attacks.pgd(
        brightest, sample.tensor()[None], torch.from_numpy(sample.labels).long()[None], steps=2
    )
    before = len(asked)
    assert repr(outcome) == "<Outcome of 1 image of 16 x 24: norm 0.0314, passes 4>"
    assert len(asked) == before
    share = float(outcome.share)
    assert repr(outcome) == f"<Outcome of 1 image of 16 x 24: norm 0.0314, passes 4, share won {share:.2f}>"


def tile(picture: np.ndarray, place: int, height: int = 16, width: int = 24) -> np.ndarray:
    """A tile of a row of small images, which are drawn twice as large."""
    left = EDGE + place * (2 * width + EDGE)
    return picture[EDGE + CAPTION : EDGE + CAPTION + 2 * height : 2, left : left + 2 * width : 2]


def test_an_outcome_shows_the_image_the_attacked_one_and_the_difference(brightest: SegmentationModel) -> None:
    sample = TinyDataset()[0]
    assert sample.labels is not None
    outcome = gauntlet.attacks.fgsm(brightest, sample.tensor()[None], torch.from_numpy(sample.labels).long()[None])
    picture = np.asarray(outcome.show(0))
    attacked = from_tensor(outcome.images[0])
    assert not np.array_equal(attacked, sample.image)
    assert np.array_equal(tile(picture, 0), sample.image)
    assert np.array_equal(tile(picture, 1), attacked)
    assert np.array_equal(tile(picture, 2), amplified_difference(sample.image, attacked)[0])
    with pytest.raises(GauntletError, match=r"^index must lie in 0 to 0, not 1\.$"):
        outcome.show(1)


def test_a_battery_shows_the_worst_case_of_every_metric(brightest: SegmentationModel) -> None:
    sample = TinyDataset()[0]
    assert sample.labels is not None
    battery = Battery("two", {"one": build("fgsm"), "two": build("fgsm", epsilon="64/255")})
    outcome = battery(brightest, sample.tensor()[None], torch.from_numpy(sample.labels).long()[None])
    picture = np.asarray(outcome.show(0))
    assert np.array_equal(tile(picture, 0), from_tensor(outcome.chosen_images["accuracy"][0]))
    assert np.array_equal(tile(picture, 1), from_tensor(outcome.chosen_images["miou"][0]))
    worst = ("clean", "one", "two")[int(outcome.choice["accuracy"]) + 1]
    assert repr(outcome) == f"<BatteryOutcome of 1 image of 16 x 24: worst by accuracy {worst} 1>"


def test_a_dataset_shows_a_sample_and_its_labels(tiny_dataset: TinyDataset) -> None:
    picture = np.asarray(tiny_dataset.show(-1))
    assert picture.shape == (16 * 2 + CAPTION + 2 * EDGE, 2 * (24 * 2 + EDGE) + EDGE, 3)
    assert np.array_equal(tile(picture, 0), tiny_dataset[5].image)
    labels = tile(picture, 1)
    assert (labels[:2] == 0).all()  # ignored
    given = tiny_dataset[5].labels
    assert given is not None
    assert len(np.unique(labels[2:].reshape(-1, 3), axis=0)) == len(np.unique(given[2:]))
    with pytest.raises(GauntletError, match=r"^index must lie in 0 to 5, not 6\.$"):
        tiny_dataset.show(6)


def test_the_tensor_of_a_sample_is_what_a_model_takes() -> None:
    image = np.zeros((2, 3, 3), np.uint8)
    image[1, 2] = 255, 51, 0
    tensor = Sample("a", image).tensor()
    assert (tensor.dtype, tensor.shape) == (torch.float32, (3, 2, 3))
    assert tensor[:, 1, 2].tolist() == pytest.approx([1, 0.2, 0])
    assert float(tensor.sum()) == pytest.approx(1.2)


def test_a_plot_has_a_bar_per_class(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = pytest.importorskip("matplotlib.figure")
    axes = figure.Figure().add_subplot()
    assert an_evaluation().plot(axes) is axes
    assert [bar.get_width() for bar in axes.patches] == [75, 25]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["$road$", "sky"]
    assert axes.get_xlabel() == "IoU in %"
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(GauntletError, match=r"^figures need Matplotlib; install it with: pip .*\[figures\]'\.$"):
        an_evaluation().plot()


def test_a_list_of_models_gives_the_frame_of_a_store(
    tiny_model: SegmentationModel, brightest: SegmentationModel, tmp_path: Path
) -> None:
    data = TinyDataset(2)
    with Store(tmp_path / "s.db") as store:
        frame = gauntlet.evaluate([tiny_model, brightest, tiny_model], data, ["clean", "fgsm"], store=store)
        pd.testing.assert_frame_equal(frame, store.frame())
        assert list(frame["model"].unique()) == ["tiny-net", "brightest"]
        again = gauntlet.evaluate((tiny_model,), data, "clean", store=store)
    clean = gauntlet.evaluate(brightest, data)
    row = frame.query("model == 'brightest' and threat == 'clean' and metric == 'mIoU' and class_name == ''")
    assert row["value"].tolist() == [clean.figures["mIoU"]]
    assert set(again["threat"]) == {"clean"}
    assert gauntlet.analysis.leaderboard(frame)["model"].nunique() == 2


def test_a_list_is_checked_before_anything_is_computed(tiny_model: SegmentationModel, tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        for models, words in (
            ([], "the list of models is empty"),
            ([tiny_model, nn.Identity()], "a Identity is no Gauntlet model yet"),
            ([tiny_model, "streets/no-such-net"], "no-such-net"),
        ):
            with pytest.raises(GauntletError, match=words):
                gauntlet.evaluate(models, TinyDataset(1), store=store)
        assert store.count() == 0


def test_importance_over_two_datasets_of_one_text_has_two_keys() -> None:
    """Reprs are for people; what a function closes over is told apart by its identity."""

    class Other(TinyDataset):
        def ids(self) -> list[str]:
            return [f"other/{each}" for each in range(len(self))]

    Other.__name__ = "TinyDataset"

    def weights(dataset: TinyDataset) -> Settings:
        return Settings(importance=lambda sample: np.full(sample.image.shape[:2], float(len(dataset))))

    assert repr(TinyDataset()) == repr(Other())
    assert weights(TinyDataset()).in_key == weights(TinyDataset()).in_key
    assert weights(TinyDataset()).in_key != weights(Other()).in_key


def test_a_plan_runs_from_python_as_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(
        "models: [streets/enet]\ndatasets: [{name: streets, limit: 1}]\nthreats: [clean, {corruption: {name: fog}}]\n"
    )
    plan = read_plan(tmp_path / "plan.yaml")
    with gauntlet.open_store(tmp_path / "results.db") as store:
        outcome = run_jobs(plan_jobs(plan, skip=["fog"]), store)
        assert [result.threat for result in outcome.computed] == ["clean"]
        assert run_jobs(plan_jobs(plan, only=["clean"]), store).stored == [outcome.computed[0].key]
        assert store.leaderboard()["model"].tolist() == ["streets/enet"]

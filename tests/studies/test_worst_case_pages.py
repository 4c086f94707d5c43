"""What pages say of the worst case: every verdict by hand, from counts made for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from gauntlet.analysis.size_bias import kept_recall
from gauntlet.evaluation.plan import DatasetEntry, open_dataset
from gauntlet.metrics.segmentation.counts import SCALARS, CountTable
from gauntlet.models.sources import shipped
from gauntlet.results import Store
from gauntlet.results.record import Evaluation
from gauntlet.studies.pages import camvid_trained, shipped_models
from gauntlet.studies.pages.blind import Blind
from gauntlet.studies.pages.contract import NETWORK, Runs
from gauntlet.studies.pages.markdown import cards_section, judged
from gauntlet.studies.pages.small_objects import pooling_section, size_section
from gauntlet.studies.pages.worst_case import BATTERY, CLEAN, FULL, HALF, battery_section, share_section
from gauntlet.studies.results import ACCURACY, MEAN_IOU

IMAGES = 16
PIXELS = 100
"""Of every class on every image."""
SCENES = open_dataset(DatasetEntry(name="streets", split="val", options={"size": [32, 64], "length": IMAGES}))
CLASSES = list(SCENES.class_names)
SHARES = {"0 % attacked": "streets/enet", HALF: "streets/enet-at50", FULL: "streets/enet-at"}
Cells = Mapping[tuple[str, str], CountTable]


def alike(right: float | Mapping[str, float], images: int = IMAGES) -> CountTable:
    """Images with the same counts: of each class's pixels so many per cent are right, which is its IoU; others none."""
    shares = dict.fromkeys(CLASSES, right) if isinstance(right, float | int) else right
    hits = np.tile([int(shares.get(name, 0)) for name in CLASSES], (images, 1))
    return CountTable(hits, np.full_like(hits, PIXELS), hits)


def runs_of(
    cells: Cells,
    views: Mapping[tuple[str, str, str], CountTable] | None = None,
    transformers: Collection[str] = (),
) -> Runs:
    """Runs whose counts are told: by model and threat, or by model, threat and view; who is no transformer is a CNN."""
    told = {**{(*cell, "all"): each for cell, each in cells.items()}, **(views or {})}
    evaluations = {
        (model, threat): cast(
            Evaluation,
            SimpleNamespace(
                images=IMAGES, model=model, model_digest="", task="segmentation",
                provenance={"model_facts": {
                    "backbone_type": "transformer" if model in transformers else "convolution"}},
                figures=dict.fromkeys(("aAcc", "mIoU", "NmIoU"), 0.5),
            ),
        )
        for model, threat, _ in told
    }  # fmt: skip
    models, threats = (list(dict.fromkeys(cell[index] for cell in told)) for index in (0, 1))
    runs = Runs(evaluations, SCENES, cast(Any, dict.fromkeys(models)), threats, Store())
    for (model, threat, view), each in told.items():
        for worst in (MEAN_IOU, ACCURACY):
            scalars = np.zeros((IMAGES, len(SCALARS)))
            runs.results._counted[model, NETWORK, threat, view, worst] = [(each, scalars)]
    return runs


def no_image(right: float, runs: Runs) -> Blind:
    return Blind(400, alike(right))


def shares_page(half: float, epsilon: str = "8/255") -> str:
    worst = runs_of(
        {(model, BATTERY): alike(right) for model, right in zip(SHARES.values(), (0, half, 40), strict=True)}
    )
    weak = runs_of({(model, "pgd"): alike(50) for model in SHARES.values()})
    return share_section(worst, weak, "pgd", SHARES, epsilon, no_image(20, worst))


def test_half_of_a_batch_is_judged_by_what_is_right_without_an_image() -> None:
    below = shares_page(half=15)
    assert "**Reproduces** (margin +5.0 (+5.0 to +5.0) points)" in below
    assert "+20.0 (+20.0 to +20.0) points compared with the map" in below  # what 100 % keep: 40 - 20
    assert "has -5.0 (-5.0 to -5.0) points compared with the map" in below
    assert "**Does not reproduce** (margin -2.0 (" in shares_page(half=22)
    row = "| battery: CmIoU | 0.0 (0.0 to 0.0) | 15.0 (15.0 to 15.0) | 40.0 (40.0 to 40.0) | 20.0 (20.0 to 20.0) |"
    assert row in below


def test_another_epsilon_than_the_paper_has_is_said() -> None:
    assert "The paper's epsilon" not in shares_page(half=15)
    assert "The paper's epsilon is 8/255, this battery's 4/255." in shares_page(half=15, epsilon="4/255")


def test_the_battery_is_set_beside_what_is_right_without_an_image() -> None:
    left = {"streets/enet": 1, "streets/enet-at": 50, "streets/fcn8s-at": 45}
    runs = runs_of({(model, threat): alike(right) for model, right in left.items() for threat in (CLEAN, BATTERY)})
    page = battery_section(runs, "8/255", no_image(48, runs))
    assert "the least robust keeps 45.0 (45.0 to 45.0) %, which is -3.0 (-3.0 to -3.0) points" in page
    assert "CmIoU of theirs is 45.0 (45.0 to 45.0) %, -3.0 (" in page
    assert "| no image at all | 48.0 | 48.0 | 48.0 | 48.0 (48.0 to 48.0) |" in page
    assert "in 400 label maps of the training split" in page


def pooling_page(small_clean: Mapping[str, float], small_worst: Mapping[str, float]) -> str:
    large_clean, large_worst = (dict.fromkeys(("sky", "building", "road"), right) for right in (80, 60))
    return pooling_section(
        runs_of({
            ("streets/enet-at", CLEAN): alike({**small_clean, **large_clean}),
            ("streets/enet-at", BATTERY): alike({**small_worst, **large_worst}),
        })
    )  # fmt: skip


def test_classes_that_were_not_learned_have_nothing_to_lose() -> None:
    # With all four the small classes would keep 30 of 88 instead of 30 of 70.
    page = pooling_page({"bicyclist": 50, "sign_symbol": 20, "pedestrian": 9, "pole": 9}, {"bicyclist": 30})
    assert "**Reproduces** (margin +32.1 (" in page  # 60 / 80 - 30 / 70
    assert "the verdict speaks of 1 of 1 of them" in page
    assert "| 35.0 > 15.0 (15.0 to 15.0), sign_symbol, bicyclist only | 80.0 > 60.0 (60.0 to 60.0) |" in page
    at_the_edge = pooling_page({"bicyclist": 50, "pole": 10}, {"bicyclist": 45, "pole": 9})
    assert "**Does not reproduce** (margin -15.0 (" in at_the_edge  # 60 / 80 - (45 + 9) / (50 + 10)


def test_one_small_class_tells_nothing_of_small_classes() -> None:
    page = pooling_page({"bicyclist": 50, "pole": 9}, {"bicyclist": 25})
    assert "**Cannot be told: no model trained on attacked images only has learned 2 small classes**" in page
    assert "| 50.0 > 25.0 (25.0 to 25.0), bicyclist only |" in page


def test_without_a_small_class_nothing_can_be_told() -> None:
    page = pooling_page({"bicyclist": 9}, {"bicyclist": 9})
    assert "**Cannot be told: no model trained on attacked images only has learned 2 small classes**" in page
    assert "the verdict speaks of 0 of 1 of them" in page
    assert "| none learned |" in page


def test_the_kept_share_of_recall_by_hand() -> None:
    objects = pd.DataFrame(
        [("a", 0.001, 0.8, 0.2), ("a", 0.002, 0.2, 0.3), ("a", 0.5, 1.0, 0.9), ("c", 0.009, 0.5, 0.5),
         ("c", 0.01, 0.7, 0.0)],
        columns=["image_id", "fraction", "clean_recall", "recall"],
    )  # fmt: skip
    weights = np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 2.0], [0.0, 3.0, 0.0]])
    small = kept_recall(objects, ["a", "b", "c"], weights, 0.0, 0.01)
    assert small[:2] == pytest.approx([1.0 / 1.5, 1.0])
    assert np.isnan(small[2])  # the image that is drawn has no object
    assert kept_recall(objects, ["a", "b", "c"], weights, 0.05, np.inf)[0] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("kept", "verdict"), [(1.0, "Does not reproduce** (margin -20.0 ("), (0.5, "Reproduces** (margin +30.0 (")]
)
def test_objects_are_judged_by_the_recall_that_is_kept(
    kept: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every image a small object keeps what is told of its recall, a large one 0.8; one between them is left out."""
    found = pd.DataFrame(
        [(name, 1, fraction, clean, worst) for name in SCENES.ids()
         for fraction, clean, worst in ((0.005, 0.4, 0.4 * kept), (0.02, 1.0, 0.0), (0.1, 1.0, 0.8))],
        columns=["image_id", "area", "fraction", "clean_recall", "recall"],
    )  # fmt: skip
    monkeypatch.setattr("gauntlet.studies.pages.small_objects.objects_of", lambda runs, model: found)
    page = size_section(runs_of({("streets/enet-at", threat): alike(50) for threat in (CLEAN, BATTERY)}))
    assert f"**{verdict}" in page
    assert "| 80.0 (80.0 to 80.0) |" in page


def localized_page(transformers: Mapping[str, float]) -> str:
    """The accuracy outside under noise is told, of the CNNs it is 60 %; of all models 80 % are right when clean."""
    outside = {**transformers, "streets/enet": 60, "streets/pspnet": 60}
    runs = [
        runs_of({}, {
            (model, threat, view): alike(right)
            for model, right in outside.items()
            for view, right in (("inside", 10), ("outside", right), ("clean outside", 80))
        }, transformers)
        for threat in (shipped_models.NOISE, shipped_models.FIRST)
    ]  # fmt: skip
    return shipped_models.localized_section(*runs)


def test_one_architecture_is_no_kind_of_network() -> None:
    page = localized_page({"streets/segformer": 70})
    assert page.count("**Cannot be told: 1 transformer**") == 2
    assert "(margin +12.5 (+12.5 to +12.5) points)" in page  # 60 and 70 left of 80: a quarter and an eighth are lost
    assert "they lose 12.5 (12.5 to 12.5) % of their accuracy there, the CNNs 25.0 (25.0 to 25.0) %" in page
    # As if DDRNet were a second transformer, whose loss counts in the mean.
    page = localized_page({"streets/segformer": 70, "streets/ddrnet": 74})
    assert "**Reproduces** (margin +15.0 (" in page
    assert "**Does not reproduce** (margin -15.0 (" in page


def test_further_rounds_are_measured_and_not_judged() -> None:
    left = {shipped_models.FIRST: 70, shipped_models.LAST: 64}
    page = shipped_models.rounds_section(
        runs_of({("streets/enet", threat): alike(right) for threat, right in left.items()})
    )
    assert "| `streets/enet` | 70.0 (70.0 to 70.0) | 64.0 (64.0 to 64.0) | +6.0 (+6.0 to +6.0) |" in page
    assert "eproduce" not in page


def test_what_a_verdict_lacks_comes_before_its_margin() -> None:
    assert judged(np.full(11, 0.1), 64, "1 CNN").startswith("**Cannot be told: 1 CNN** (margin +10.0 (")


def test_the_table_of_models_says_on_how_many_images_they_were_measured() -> None:
    page = cards_section("The models", ["streets/enet", "camvid/enet-at"], ["mIoU"])
    assert "| 76.6 | 64 |" in page
    assert "| 41.0 | 101 |" in page


def test_where_the_training_on_camvid_starts_is_told_as_in_the_cards() -> None:
    recipes = {model: shipped.find(model).card["recipe"] for model in camvid_trained.MODELS}
    for model, recipe in recipes.items():
        family = model.removeprefix("camvid/").partition("-")[0]
        start, steps = recipe["model"]["initial_weights"], recipe["steps"]
        assert recipe["batch_size"] == 8
        if shipped.find(model).card["kind"] == "clean":
            own = model.removeprefix("camvid/").removesuffix("-clean")
            assert (start, steps) == (f"streets/{own}", 900 if family == "enet" else 600)
        elif model == "camvid/enet-sea":
            assert (start, steps) == ("streets/enet-at", 350)
        else:
            assert (start, steps) == (f"trained/camvid-{family}", 350)


def test_models_that_were_not_run_are_named() -> None:
    some = runs_of({(model, CLEAN): alike(50) for model in camvid_trained.MODELS if model != "camvid/enet-ddc"})
    assert "but not run yet: `camvid/enet-ddc`." in camvid_trained.introduction(some, "the command")
    every = runs_of({(model, CLEAN): alike(50) for model in camvid_trained.MODELS})
    assert "not run yet" not in camvid_trained.introduction(every, "the command")

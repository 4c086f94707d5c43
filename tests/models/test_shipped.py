"""The models that come with the package: what their cards say is what they do."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
import torch

import gauntlet
from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.sample_cache import SampleCache
from gauntlet.models.sources import shipped

HERE = [name for name in shipped.names() if shipped.find(name).has_weights]
"""A source distribution has no weights of CamVid."""
HEADLINE = {"segmentation": "mIoU", "detection": "mAP"}
DETECTORS = [name for name in shipped.names() if shipped.find(name).task == "detection"]
PAPERS = ("streets/bisenetv2", "streets/ddrnet", "streets/fcn8s", "streets/pidnet")
"""Narrow forms of published networks."""
NORMAL = ("streets/enet", "streets/pspnet", "streets/segformer", "streets/segformer-small", *PAPERS)
NORMAL_DETECTORS = ("streets/fcos", "streets/detr", "streets/faster-rcnn")
"""Dense, sparse and two-stage."""
STRONG = {"attack": {"name": "pgd", "norm": "linf", "epsilon": "8/255", "alpha": 0.01, "steps": 20}}


@cache
def scenes(images: int) -> Dataset:
    """The first ones to validate on, rendered once for all models."""
    return SampleCache(gauntlet.load_dataset("streets", split="val", limit=images))


def megabytes(names: Iterable[str]) -> float:
    return sum(shipped.find(name).weights.stat().st_size for name in names) / 1e6


def test_weights_of_the_street_scenes_stay_below_thirty_five_megabytes() -> None:
    # 21.1 of before and of the two-stage detector, 12 of the papers' networks, 1.9 of a second SegFormer
    assert megabytes(shipped.names("streets")) <= 35


def test_weights_of_camvid_stay_below_two_megabytes_each() -> None:
    assert all(megabytes([name]) < 2 for name in HERE if name.startswith("camvid/"))


def test_the_narrow_networks_of_the_papers_stay_below_twelve_megabytes() -> None:
    assert megabytes(name for name in shipped.names() if name.removesuffix("-at") in PAPERS) <= 12


@pytest.mark.slow
@pytest.mark.parametrize("name", NORMAL)
def test_normal_networks_see_the_scenes(name: str) -> None:
    assert gauntlet.evaluate(name, scenes(64), "clean", store=None).figures["mIoU"] >= 0.72


def test_two_networks_of_the_papers_have_robust_twins() -> None:
    twins = [name for name in shipped.names() if name.endswith("-at") and name.removesuffix("-at") in PAPERS]
    assert len(twins) == 2
    assert all(shipped.find(name).card["kind"].startswith("pgd-at 100 %") for name in twins)


@pytest.mark.parametrize("name", HERE)
def test_a_card_describes_the_model_beside_it(name: str) -> None:
    card, model = shipped.find(name).card, gauntlet.load_model(name)
    assert card["name"] == name.split("/")[1]
    assert sum(parameter.numel() for parameter in model.parameters()) == card["model"]["parameters"]
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}, "half precision is for the file"
    assert not any(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("streets/enet", "streets/fcos") else pytest.mark.slow)
        for name in shipped.names("streets")
    ],
)
def test_the_clean_figure_of_a_card_is_met(name: str) -> None:
    model = shipped.find(name)
    quick = model.card["figures"]["quick"]
    result = gauntlet.evaluate(name, scenes(quick["images"]), "clean", store=None)
    # Processors round differently; a detection more or less moves the mAP of a few images by some thousandths.
    assert result.figures[quick["metric"]] == pytest.approx(quick["threats"]["clean"], abs=0.01)
    assert quick["metric"] == HEADLINE[model.task]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in HERE if name.startswith("camvid/")])
def test_the_clean_figure_of_a_card_is_met_on_photographs(name: str, shared: Path) -> None:
    quick = shipped.find(name).card["figures"]["quick"]
    data = gauntlet.load_dataset(
        "camvid", root=shared / "realdata" / "camvid", split="val", limit=quick["images"], protocol={"size": [180, 240]}
    )
    result = gauntlet.evaluate(name, data, "clean", store=None)
    assert result.figures["mIoU"] == pytest.approx(quick["threats"]["clean"], abs=0.01)


def test_normal_detectors_of_every_proposal_type_and_a_robust_twin_are_shipped() -> None:
    kinds = {name: shipped.find(name).card["kind"] for name in DETECTORS}
    assert {kinds.pop(name) for name in NORMAL_DETECTORS} == {"clean"}
    assert list(kinds) == ["streets/fcos-at"]
    assert kinds["streets/fcos-at"].startswith("pgd-at 100 %")
    for name in NORMAL_DETECTORS:
        assert shipped.find(name).card["figures"]["clean"]["mAP50"] >= 0.7


@pytest.mark.parametrize(
    ("name", "images"),
    [("streets/fcos", 1), *(pytest.param(name, 4, marks=pytest.mark.slow) for name in NORMAL_DETECTORS)],
)
def test_pgd_leaves_less_than_a_tenth_of_a_normal_detector(name: str, images: int) -> None:
    clean = gauntlet.evaluate(name, scenes(images), "clean", store=None).figures["mAP"]
    attacked = gauntlet.evaluate(name, scenes(images), STRONG, store=None, prepare="off").figures["mAP"]
    assert attacked < clean / 10

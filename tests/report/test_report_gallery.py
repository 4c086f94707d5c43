"""Galleries: worst images, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pandas as pd
import pytest
from torch import nn

import gauntlet
from gauntlet.models import SegmentationModel
from gauntlet.report import Options, build_report, write_report
from gauntlet.report.checks import check_models
from gauntlet.report.document import Gallery, Text
from gauntlet.report.gallery import Loaders, worst_images
from gauntlet.results import Store

pytest_plugins = ("report_fixtures",)

PGD = {"attack": {"name": "pgd", "epsilon": "16/255", "alpha": "4/255", "steps": 3}}


@pytest.fixture
def dataset(tiny_dataset: Any) -> Any:
    """Large enough for corruptions."""
    return type(tiny_dataset)(4, sizes=((32, 48),))


@pytest.fixture
def loaders(tiny_model: SegmentationModel, dataset: Any) -> Loaders:
    return Loaders(model=lambda address: tiny_model, dataset=lambda name, split: dataset)


@pytest.fixture
def store(tiny_model: SegmentationModel, dataset: Any) -> Store:
    store = Store()
    localized = {"localized": {"corruption": {"name": "gaussian_noise", "severity": 5}, "ratio": 0.5, "patch": 8}}
    for threat in ("clean", PGD, {"corruption": {"name": "gaussian_noise", "severity": 5}}, localized):
        gauntlet.evaluate(tiny_model, dataset, threat, store=store)
    return store


def galleries(store: Store, options: Options) -> list[Gallery | Text]:
    sections = build_report(store, options).parts[0].sections
    section = next(each for each in sections if each.title == "Gallery")
    return [block for block in section.blocks[1:] if isinstance(block, (Gallery, Text))]


def test_worst_images_lose_most() -> None:
    clean = pd.DataFrame({"image_id": ["a", "b", "c", "d"], "mIoU": [0.9, 0.5, 0.6, np.nan]})
    attacked = pd.DataFrame({"image_id": ["a", "b", "c", "d"], "mIoU": [0.3, 0.1, 0.5, 0.0]})
    assert worst_images(clean, attacked, 2) == ["a", "b"]
    assert worst_images(None, attacked, 3) == ["d", "b", "a"]


def test_the_worst_images_are_run_again_and_drawn(store: Store, loaders: Loaders, dataset: Any) -> None:
    found = galleries(store, Options(gallery=2, loaders=loaders))
    assert [each.title for each in found if isinstance(each, Gallery)] == [
        "tiny-net: worst corruption, gaussian_noise 5",
        "tiny-net: worst localized corruption, gaussian_noise 5 ratio 0.5 patch 8",
        "tiny-net: worst attack, pgd linf 16/255 x3 alpha 4/255",
    ]
    for gallery in found:
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
    exhibit = found[0].exhibits[0]  # type: ignore[union-attr]
    sample = next(sample for sample in dataset if sample.id == exhibit.title)
    truth = cv2.imdecode(np.frombuffer(exhibit.pictures[3].data, np.uint8), cv2.IMREAD_COLOR)[::5, ::5, ::-1]
    colors = {tuple(truth[sample.labels == label][0]) for label in np.unique(sample.labels)}
    assert len(colors) == len(np.unique(sample.labels))
    assert (truth[sample.labels == 255] == 0).all()


def test_a_model_that_cannot_be_loaded_is_said_so(store: Store) -> None:
    found = galleries(store, Options(gallery=1))
    assert all(isinstance(each, Text) for each in found)
    assert "no pictures, since" in found[0].text  # type: ignore[union-attr]


def test_other_weights_are_refused(store: Store, dataset: Any) -> None:
    other = gauntlet.wrap_model(nn.Conv2d(3, 3, 1), num_classes=3, name="tiny-net")
    loaders = Loaders(model=lambda address: other, dataset=lambda name, split: dataset)
    found = galleries(store, Options(gallery=1, loaders=loaders))
    assert "the weights of 'tiny-net' are not those that were evaluated" in found[0].text  # type: ignore[union-attr]


def test_pictures_are_inside_the_page(store: Store, loaders: Loaders, tmp_path: Path) -> None:
    path = write_report(store, tmp_path / "report.html", options=Options(gallery=1, loaders=loaders))
    assert path.read_text("utf-8").count('src="data:image/') == 3 * 6


def test_checks_of_models_become_findings(store: Store, loaders: Loaders) -> None:
    found = check_models(store, 2, loaders)
    assert found
    assert {each.subject for each in found} == {"tiny-net"}
    assert {each.level for each in found} <= {"good", "warning"}
    unloadable = check_models(store, 2)
    assert [each.level for each in unloadable] == ["note"]

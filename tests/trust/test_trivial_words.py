"""Words for what a threat leaves count from the trivial answer: half an mIoU may be nothing at all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

import gauntlet
from gauntlet.analysis import trivial_figures
from gauntlet.cli.evaluations import print_many, print_one
from gauntlet.datasets import Dataset
from gauntlet.report import build_report
from gauntlet.report.document import Bullets, Verdicts, of_type
from gauntlet.report.pages.model_card import card_data, card_text
from gauntlet.report.sections.summary import grade, kept_share
from gauntlet.results import Store
from gauntlet.samples import Sample

SIDE = 40


class Vessels(Dataset):
    """Bright lines on a dark ground: a tenth of the pixels."""

    name, split, class_names = "vessels", "all", ("background", "vessel")

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Sample:
        labels = np.zeros((SIDE, SIDE), np.uint8)
        labels[index :: SIDE // 4] = 1
        return Sample(str(index), np.repeat((60 + 140 * labels)[..., None], 3, axis=2), labels)

    def ids(self) -> list[str]:
        return ["0", "1", "2"]


class Bright(nn.Module):
    """One output per pixel: how bright it is."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return 30 * (images.mean(dim=1, keepdim=True) - 0.6)


DARK = {"corruption": {"name": "contrast", "severity": 5}}


@pytest.fixture(scope="module")
def evaluated() -> Iterator[tuple[Store, float, float, float]]:
    """A store, the clean mIoU, that under a corruption that makes every pixel background, and the trivial one."""
    with Store() as store:
        model = gauntlet.wrap_model(Bright(), binary=True, name="lines")
        clean, dark = gauntlet.evaluate(model, Vessels(), ["clean", DARK], store=store, device="cpu")
        yield store, clean.figures["mIoU"], dark.figures["mIoU"], trivial_figures(store, clean.key)["mIoU"]


def test_a_share_of_the_clean_figure_would_call_a_blind_model_hurt(
    evaluated: tuple[Store, float, float, float],
) -> None:
    _, clean, dark, trivial = evaluated
    assert (clean, dark, trivial) == pytest.approx((1.0, 0.45, 0.45))
    assert grade(dark / clean) == "is badly hurt by"
    assert grade(kept_share(dark, clean, trivial)) == "collapses under"


def test_report_and_card_count_from_the_trivial_answer(evaluated: tuple[Store, float, float, float]) -> None:
    store = evaluated[0]
    (verdicts,) = of_type(build_report(store), Verdicts)
    assert [bar.kept for bar in verdicts.items[0].bars] == [0.0]
    assert verdicts.items[0].text.startswith("Clean mIoU 100.0 % ('background' everywhere has 45.0 %); it collapses")
    card = card_text(store, "lines", card_data(store, "lines"))
    assert "it collapses under its worst corruption" in card
    assert "| trivial answer: 'background' | 45.0 |" in card


@pytest.mark.parametrize(
    ("figure", "clean", "trivial", "kept"),
    [(0.5, 0.8, 0.4, 0.25), (0.3, 0.8, 0.4, 0.0), (0.8, 0.8, 0.4, 1.0), (0.2, 0.8, 0.0, 0.25), (0.3, 0.4, 0.4, np.nan)],
)
def test_the_kept_share(figure: float, clean: float, trivial: float, kept: float) -> None:
    assert kept_share(figure, clean, trivial) == pytest.approx(kept, nan_ok=True)


def test_vessels_from_70_8_to_14_3_mostly_break() -> None:
    # The IoU of a rare class, of which the trivial answer has none; the mIoU with the background hides it.
    vessel, background = (0.708, 0.143), (0.96, 0.90)
    clean, worst = ((a + b) / 2 for a, b in zip(vessel, background, strict=True))
    assert grade(worst / clean) == "is badly hurt by"
    assert grade(kept_share(worst, clean, 0.902 / 2)) == "mostly breaks under"


def test_a_class_that_is_only_predicted_is_named() -> None:
    class NoVessels(Vessels):
        """The same lines, drawn by nobody."""

        def __getitem__(self, index: int) -> Sample:
            sample = super().__getitem__(index)
            return Sample(sample.id, sample.image, np.zeros((SIDE, SIDE), np.uint8))

    with Store() as store:
        evaluation = gauntlet.evaluate(
            gauntlet.wrap_model(Bright(), binary=True), NoVessels(), store=store, device="cpu"
        )
        sentences = [item for block in of_type(build_report(store), Bullets) for item in block.items]
        assert evaluation.figures["mIoU"] == pytest.approx(0.45)
    assert any("'vessel' (by Bright)" in each and "no label map" in each for each in sentences)


def test_run_shows_the_trivial_answer_and_classes_that_are_only_predicted(
    evaluated: tuple[Store, float, float, float], capsys: pytest.CaptureFixture[str]
) -> None:
    store = evaluated[0]
    stored = store.keys()
    results = [found for key in stored if (found := store.load(key)) is not None]
    print_many(results, {}, store)
    table = capsys.readouterr().out
    assert "trivial answer" in table
    assert [line.split()[-2] for line in table.splitlines() if "vessels/all" in line] == ["45.0", "45.0"]
    print_one(next(each for each in results if each.threat == "clean"), {}, store)
    one = capsys.readouterr().out
    assert "'background' everywhere" in one
    assert [line.split()[-2] for line in one.splitlines() if "mIoU " in line and "NmIoU" not in line] == ["45.0"]
    print_one(results[0], {}, Store())  # an evaluation that this store does not have
    assert "everywhere" not in capsys.readouterr().out

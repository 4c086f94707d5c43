"""The studies of Marchiori Pietrosanti et al.: what is printed, claims by hand, rounds in pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gauntlet.errors import GauntletError
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
from gauntlet.report.document import Gallery
from gauntlet.report.painters import LabelPainter
from gauntlet.results import Store
from gauntlet.samples import Sample
from gauntlet.studies import run_study, studies
from gauntlet.studies.figures import interval
from gauntlet.studies.page import published_page, study_page
from gauntlet.studies.papers import localized, spatial
from gauntlet.studies.papers.localized import INSIDE, NETWORK, OUTSIDE, attacked, corrupted
from gauntlet.studies.picturing import aimed_at, picture_page, with_classes
from gauntlet.studies.printed import Printed
from gauntlet.studies.running import study_jobs
from gauntlet.studies.verdicts import printed_words
from gauntlet.threats.suites import rounds_in_square
from tiny import TinyDataset

NET = ModelEntry(address="python:nets:street_network", options={"num_classes": 11, "mean": [0.5] * 3})
SMALL = DatasetEntry(name="streets", options={"size": [32, 64], "length": 16})
ITEMS = ("table-1", "figure-1", "figure-2a", "figure-2b", "figure-3", "figure-4", "figure-4a", "figure-5", "figure-7",
         "figure-8", "figure-8a", "figure-8b", "figure-9", "figure-11", "text-7")  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))


def made_up(values: dict[tuple[str, str, str], float]) -> Printed:
    """Figures by model, threat and view."""
    return Printed("here", {}, accuracies={((model, NETWORK, threat), view): value
                                           for (model, threat, view), value in values.items()})  # fmt: skip


def test_every_figure_and_table_is_a_study() -> None:
    for item in ITEMS:
        assert studies[f"spatial/{item}"].name.startswith("spatial/")
    assert studies["spatial/figure-4a"] is studies["spatial/figure-4"]


def test_threats_are_those_of_the_paper_and_in_the_suite() -> None:
    jobs = study_jobs(studies["spatial/figure-8"], ["streets/enet"], "streets")
    described = [planned.job.description for planned in jobs.values()]
    rounds = {(each["region_aware"]["rounds"], each["region_aware"]["attack"]["steps"]) for each in described[1:]}
    assert rounds == {
        *((number, 50) for number in range(1, 6)),
        *((3, steps) for steps in (10, 25, 100, 150, 200, 250)),
    }
    assert {each["region_aware"]["region"]["square"]["size"] for each in described[1:]} == {"200/1024"}
    ratios = [planned.job.description["localized"]["ratio"] for planned in
              list(study_jobs(studies["spatial/figure-4"], ["streets/enet"], "streets").values())[1:11]]  # fmt: skip
    assert ratios == [step / 10 for step in range(1, 11)]


def test_printed_figures_of_table_1() -> None:
    printed = localized.printed_severities()
    assert len(printed.models) == 14
    noise = {model: float(localized.accuracy(printed, corrupted("gaussian_noise", 5), INSIDE, model)[0])
             for model in printed.models}  # fmt: skip
    assert sorted(noise.values())[-3:] == [0.224, 0.348, 0.422]
    assert noise["Segformer-b1"] == 0.422
    outside = {model: float(localized.accuracy(printed, corrupted("snow", 5), OUTSIDE, model)[0])
               for model in printed.models}  # fmt: skip
    assert max(outside, key=lambda model: outside[model]) == "Segformer-b1"
    words = [printed_words(claim, printed) for claim in studies["spatial/table-1"].claims]
    assert all(each.startswith("holds") for each in words), words
    assert published_page(studies["spatial/table-1"], "gauntlet").parts[0].sections


def test_claims_by_hand() -> None:
    """Two networks: the transformer loses less inside and more to attacks, and the centre is worse for the other."""
    values: dict[tuple[str, str, str], float] = {}
    for model, severe, centre, corner in (("segformer", 0.4, 0.2, 0.2), ("cnn", 0.2, 0.5, 0.7)):
        values[model, "clean", "all"] = 0.8
        for name in ("brightness", "snow", "gaussian_noise"):
            values |= {(model, corrupted(name, level), INSIDE): severe for level in (1, 3, 5)}
            values |= {(model, corrupted(name, level), OUTSIDE): severe + 0.1 * level / 5 for level in (1, 3, 5)}
        values[model, attacked(), OUTSIDE], values[model, localized.CORNER, OUTSIDE] = centre, corner
        values[model, attacked("100"), OUTSIDE] = centre
    figures = made_up(values)
    assert localized.noise_lead(figures) == pytest.approx([0.2])
    assert localized.no_winner(figures) == pytest.approx([-0.15])
    behind = {("cnn" if key[0] == "segformer" else "segformer", *key[1:]): value for key, value in values.items()}
    assert localized.no_winner(made_up(behind)) == pytest.approx([-0.15])
    assert localized.outside_lead(figures, 5) == pytest.approx([0.2])
    assert localized.spreads(figures) == pytest.approx([0.3])
    assert localized.turned_round(figures) == pytest.approx([0.75 - 0.375])
    assert localized.position_difference(figures, "cnn") == pytest.approx([0.2 / 0.8])
    assert localized.position_matters_less(figures) == pytest.approx([0.25])
    only = made_up({key: value for key, value in values.items() if key[0] == "cnn"})
    assert np.isnan(localized.turned_round(only)).all()


def test_a_claim_about_transformers_takes_two_of_each_kind() -> None:
    for models, words in (
        (("segformer", "swin"), "no network of a kind"),
        (("segformer", "pspnet", "enet"), "one network of a kind"),
        (("segformer", "swin", "pspnet"), "one network of a kind"),
        (("segformer", "swin", "pspnet", "enet"), ""),
        (("streets/segformer", "streets/segformer-at", "pspnet", "enet"), "one network of a kind"),
        (("streets/segformer", "streets/segformer-small", "pspnet", "enet"), ""),
    ):
        figures = made_up({(model, "clean", "all"): 0.8 for model in models})
        assert localized.one_of_a_kind(figures) == words
    about = [
        claim
        for item in ITEMS
        for claim in getattr(studies[f"spatial/{item}"], "claims", ())
        if "transformer" in claim.text or "kind" in claim.text
    ]
    assert len(about) >= 11
    assert all(localized.TWO_OF_A_KIND in claim.conditions for claim in about)


def test_an_attack_that_hardly_acts_shows_nothing() -> None:
    values: dict[tuple[str, str, str], float] = {}
    for model, left in (("segformer", 0.78), ("cnn", 0.77)):
        values |= {
            (model, "clean", "all"): 0.8,
            (model, attacked(), OUTSIDE): left,
            (model, attacked("100"), OUTSIDE): left,
        }
    condition = localized.acting(attacked(), attacked("100"))
    words = "the attack hardly acts on these models (RCE outside 0.038 at most)"
    assert condition.lacking(made_up(values)) == words
    assert condition.lacking(made_up({**values, ("cnn", attacked(), OUTSIDE): 0.75})) == ""
    assert condition.lacking(made_up({("cnn", "clean", "all"): 0.8})) == ""  # not run: a figure is missing
    (claim,) = studies["spatial/figure-5"].claims
    assert [each.rule for each in claim.conditions] == [localized.TWO_OF_A_KIND.rule, condition.rule]


def test_rounds_must_add_more_than_they_do_by_construction() -> None:
    claim = studies["spatial/figure-8a"].claims[0]
    for after, margin in ((0.2, 0.15), (0.4, -0.1)):
        values = {("cnn", "clean", "all"): 0.8, ("cnn", attacked(rounds=1), OUTSIDE): 0.4}
        figures = made_up({**values, ("cnn", attacked(rounds=5), OUTSIDE): after})
        assert claim.margin(figures.of("cnn")) == pytest.approx([margin])


def test_the_type_of_a_backbone_counts_before_its_name() -> None:
    class Known(Printed):
        def backbone_type(self, model: str) -> str:
            return {"my-net": "transformer", "vit-killer": "convolution"}.get(model, "")

    known = Known("here", {})
    names = ("my-net", "vit-killer", "streets/segformer", "PSPnet")
    assert [localized.is_transformer(known, name) for name in names] == [True, False, True, False]


def test_relative_errors_here_are_those_of_the_evaluation() -> None:
    study = studies["spatial/table-1"]
    label = corrupted("snow", 3)
    study = replace(study, threats={name: study.threats[name] for name in ("clean", label)}, together=None, claims=[])
    results = run_study(study, [NET], SMALL, Store(), prepare="off", batch_size=8)
    stored = results.evaluation(NETWORK, label)
    for view, name in ((INSIDE, "RCE_M"), (OUTSIDE, "RCE_Mbar")):
        found = interval(localized.relative_error(results, [label], view))
        assert found.value == pytest.approx(stored.figures[name])
        assert found.low == pytest.approx(stored.intervals[name][0], abs=0.05)
    assert study_page(study, results, "gauntlet").parts[0].sections


def test_pictures_of_regions_rounds_and_classes(tmp_path: Path) -> None:
    few = {"rounds": rounds_in_square("quarter", rounds=2, steps=2)}
    study = replace(studies["spatial/figure-7"], threats={"snow": studies["spatial/figure-1"].threats["snow 3"], **few})
    page = picture_page(study, [NET], SMALL, "gauntlet")
    (gallery,) = [block for section in page.parts[0].sections for block in section.blocks if isinstance(block, Gallery)]
    captions = [panel.caption for panel in gallery.exhibits[0].pictures]
    assert "snow: where" in captions
    assert [each for each in captions if each.startswith("round 2")] == [
        "round 2", "round 2: aims at", "round 2: prediction", "round 2: newly wrong"
    ]  # fmt: skip
    assert captions[-1] == "cumulative output"


def test_classes_by_name() -> None:
    described = {"attack": {"name": "bim", "target": "@class:sky"}}
    assert with_classes(described, ("road", "sky")) == {"attack": {"name": "bim", "target": 1}}
    with pytest.raises(GauntletError, match="unknown class 'sky'"):
        with_classes(described, ("road",))
    data = TinyDataset(1)
    painter = LabelPainter(data, None)
    labels = data[0].labels
    assert labels is not None
    name = data.class_names[int(labels[labels != 255][0])]
    aimed: Sample = aimed_at(data[0], name, painter)
    assert aimed.labels is not None
    assert ((aimed.labels != 255) == (labels == list(data.class_names).index(name))).all()


class Accuracies:
    """Figures of two networks and their ensemble of equal weights, as a study reads them."""

    def __init__(self, first: float, second: float, mixed: float) -> None:
        self._values = {spatial.member(0.0): first, spatial.member(1.0): second, spatial.member(0.5): mixed}

    def image_accuracy(self, model: str, threat: str, *, view: str) -> Any:
        assert view == ("outside" if threat == spatial.ATTACKED else "inside")
        return np.array([self._values[model]])

    def accuracy(self, model: str, threat: str) -> Any:
        assert threat == "clean"
        return np.array([self._values[model]])


@pytest.mark.parametrize(
    ("error", "first", "second", "mixed", "expected"),
    [
        (spatial.natural_error, 0.9, 0.60, 0.57, 0.05),
        (spatial.adversarial_error, 0.50, 0.9, 0.55, -0.1),
        (spatial.clean_error, 0.5, 0.6, 0.66, -0.1),
        (spatial.natural_error, 0.9, 0.0, 0.57, np.nan),
        (spatial.adversarial_error, 0.0, 0.9, 0.55, np.nan),
    ],
)
def test_errors_of_ensembles_by_hand(error: Any, first: float, second: float, mixed: float, expected: float) -> None:
    """docs/specs/defences.md, 4."""
    assert error(Accuracies(first, second, mixed), 0.5) == pytest.approx([expected], nan_ok=True)

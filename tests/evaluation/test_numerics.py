"""Figures hang on nothing but what they are figures of: batch sizes, precision, and no random numbers of others."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import gauntlet
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.prediction import describe_logits
from gauntlet.metrics.segmentation.confidence_counts import count_confidence
from gauntlet.models import GauntletModel, SegmentationModel, load_model, wrap_model
from gauntlet.models.contract import Candidates
from gauntlet.threats import attacks, corruptions
from gauntlet.threats import threats as threat_kinds
from gauntlet.threats.artifacts import Artifact
from gauntlet.threats.fitted import PatchRule, UniversalRule, fit_patch, fit_universal
from tiny import TinyDataset, tiny_network
from tiny_detector import TinyBoxes, TinyDetector, tiny_detector

SIZES = ((32, 40),)
FEW = {"steps": 2}
PLAIN = {"epsilon": "8/255"}


ALGORITHMS = ("pgd", "segpgd", "cospgd", "apgd", "square", "label-only", "alma-prox", "dag", "fmn", "pdpgd")
"""One attack of every algorithm; the others differ from one of these by a part, and are slow only by their number."""


def attack_threats(task: str) -> dict[str, Any]:
    """Every registered attack on models of a task, with few steps; region-aware is a kind of threat of its own."""
    asking = {"square": {"queries": 6}, "label-only": {"queries": 6}}
    return {
        name: {"attack": {"name": name, **asking.get(name, FEW)}}
        for name in attacks.names(task)
        if name != "region-aware"
    }


def threats() -> dict[str, Any]:
    """One threat of every kind that needs no file, with few steps."""
    named: dict[str, Any] = {"clean": "clean"}
    named["restarts"] = {"attack": {"name": "pgd", **PLAIN, **FEW, "restarts": 2, "random_start": True}}
    named["targeted"] = {"attack": {"name": "pgd", **PLAIN, **FEW, "target": 1}}
    named["battery"] = {"battery": {"name": "semsegbench", **PLAIN, **FEW}}
    named["region_aware"] = {"region_aware": {"attack": {"name": "bim", **PLAIN, **FEW}, "rounds": 2,
                                              "region": {"square": {"size": 8, "position": "centre"}}}}  # fmt: skip
    for name in ("gaussian_noise", "frost", "elastic_transform"):
        named[name] = {"corruption": {"name": name, "severity": 3}}
    named["localized"] = {"localized": {"corruption": {"name": "contrast", "severity": 5}, "ratio": 0.5, "patch": 8}}
    named["geometric"] = {"geometric": {"name": "rotation", "degrees": 10}}
    named["geometric_worst"] = {"geometric_worst": {"draws": 3, "degrees": 10, "shift": 0.1}}
    named["certify"] = {"certify": {"sigma": 0.25, "n0": 2, "n": 40, "tau": 0.6}}
    named["transfer"] = {"transfer": {"source_model": SOURCE, "attack": {"name": "pgd", **PLAIN, **FEW}}}
    return named


SOURCE: dict[str, Any] = {
    "address": "python:tiny:tiny_network",
    "options": {"num_classes": 3, "mean": [0.5] * 3, "std": [0.25] * 3},
}
OBJECT_THREATS: dict[str, Any] = {
    "clean": "clean",
    "fog": {"corruption": {"name": "fog", "severity": 3}},
    "geometric": {"geometric": {"name": "rotation", "degrees": 10}},
}
SEGMENTATION = {**threats(), **attack_threats("segmentation")}
DETECTION = {**OBJECT_THREATS, **attack_threats("detection")}
FITTED = ("universal", "patch")


def parameters(names: Mapping[str, Any]) -> list[Any]:
    """Names of threats; attacks that are a part away from another are tried by the slow tests."""
    plain = {*threats(), *OBJECT_THREATS, *ALGORITHMS, "tog-vanishing", *FITTED}
    return [name if name in plain else pytest.param(name, marks=pytest.mark.slow) for name in names]


def test_every_kind_of_threat_is_tried() -> None:
    tried = {next(iter(each)) for each in threats().values() if isinstance(each, dict)} | {"clean", *FITTED}
    assert tried == set(threat_kinds.names())
    assert {name for each in SEGMENTATION.values() if isinstance(each, dict) for name in _attacks_in(each)} >= {
        *attacks.names("segmentation")
    } - {"region-aware"}


def _attacks_in(threat: Mapping[str, Any]) -> list[str]:
    return [options["name"] for kind, options in threat.items() if kind == "attack"]


def fitted(kind: str, model: SegmentationModel, data: TinyDataset) -> Artifact:
    """A perturbation or a patch, fitted a little."""
    if kind == "universal":
        return fit_universal(model, data, UniversalRule(passes=1, epsilon="8/255"))
    return fit_patch(model, data, PatchRule(steps=2, batch=2, size=(5, 8)))


def same_figures(model: GauntletModel, data: Dataset, threat: Any) -> None:
    """Raises unless batches of 1 and of 4 images give the same figures within 0.1 points."""
    one, four = (gauntlet.evaluate(model, data, threat, batch_size=size) for size in (1, 4))
    for figure, value in one.figures.items():
        assert four.figures[figure] == pytest.approx(value, abs=1e-3, nan_ok=True), figure


@pytest.mark.parametrize("name", parameters(SEGMENTATION))
def test_batch_sizes_change_no_figure_of_a_segmentation_model(name: str, tiny_model: SegmentationModel) -> None:
    same_figures(tiny_model, TinyDataset(4, sizes=SIZES), SEGMENTATION[name])


@pytest.mark.parametrize("kind", FITTED)
def test_batch_sizes_change_no_figure_under_what_was_fitted(kind: str, tiny_model: SegmentationModel) -> None:
    data = TinyDataset(4, sizes=SIZES)
    same_figures(tiny_model, data, {kind: {"artifact": fitted(kind, tiny_model, data), "fit_images": True}})


@pytest.mark.parametrize("name", parameters(DETECTION))
def test_batch_sizes_change_no_figure_of_a_detector(name: str) -> None:
    same_figures(tiny_detector(), TinyBoxes(4), DETECTION[name])


GLOBAL_DRAWS = {
    random: (
        "random",
        "randint",
        "choice",
        "shuffle",
        "uniform",
        "gauss",
        "sample",
        "randrange",
        "getrandbits",
        "seed",
    ),
    np.random: ("rand", "randn", "randint", "random", "choice", "shuffle", "permutation", "uniform", "normal", "seed"),
}


def _states() -> tuple[Any, Any, torch.Tensor]:
    return random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 - the ones nobody may use


@contextmanager
def nobody_draws(monkeypatch: pytest.MonkeyPatch, what: str) -> Iterator[None]:
    """Inside, the generators that programs share raise when Python or NumPy asks them, and must end as they began."""

    def refuse(name: str) -> Callable[..., Any]:
        def draw(*_: Any, **__: Any) -> Any:
            raise AssertionError(f"{name} draws from the generator that everybody shares")

        return draw

    with monkeypatch.context() as patch:
        before = _states()
        for module, names in GLOBAL_DRAWS.items():
            for name in names:
                patch.setattr(module, name, refuse(f"{module.__name__}.{name}"))
        yield
        after = _states()
    assert before[0] == after[0], what
    assert all(np.array_equal(first, second) for first, second in zip(before[1], after[1], strict=True)), what
    assert torch.equal(before[2], after[2]), what  # torch has no door to close; who drew has moved its state


def test_no_threat_reads_or_changes_the_generators_of_others(
    tiny_model: SegmentationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = TinyDataset(2, sizes=SIZES)
    source = load_model(SOURCE["address"], **SOURCE["options"])  # making layers draws their first weights
    transfer = {"transfer": {"source_model": source, "attack": {"name": "pgd", **PLAIN, **FEW}}}
    for name in (*threats(), "square", "alma-prox"):  # every attack has a slow test below
        with nobody_draws(monkeypatch, name):
            threat = transfer if name == "transfer" else SEGMENTATION[name]
            assert gauntlet.evaluate(tiny_model, data, threat, batch_size=2).images == 2
    for kind in FITTED:
        with nobody_draws(monkeypatch, kind):
            threat = {kind: {"artifact": fitted(kind, tiny_model, data), "fit_images": True}}
            assert gauntlet.evaluate(tiny_model, data, threat, batch_size=2).images == 2
    detector = tiny_detector()
    for name in (*OBJECT_THREATS, "pgd", "tog-vanishing"):
        with nobody_draws(monkeypatch, name):
            assert gauntlet.evaluate(detector, TinyBoxes(2), DETECTION[name], batch_size=2).images == 2


@pytest.mark.slow
def test_no_attack_reads_or_changes_the_generators_of_others(
    tiny_model: SegmentationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = tiny_detector()
    for name, threat in attack_threats("segmentation").items():
        with nobody_draws(monkeypatch, name):
            gauntlet.evaluate(tiny_model, TinyDataset(1, sizes=SIZES), threat)
    for name, threat in attack_threats("detection").items():
        with nobody_draws(monkeypatch, name):
            gauntlet.evaluate(detector, TinyBoxes(1), threat)


@pytest.mark.slow
def test_no_corruption_reads_or_changes_the_generators_of_others(
    tiny_model: SegmentationModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in corruptions.names():
        if not corruptions.registry[name].needs_depth:
            with nobody_draws(monkeypatch, name):
                threat = {"corruption": {"name": name, "severity": 3}}
                assert gauntlet.evaluate(tiny_model, TinyDataset(1, sizes=((32, 40),)), threat).images == 1


@pytest.mark.parametrize(
    "settings", ["noise:sigma=0.1", "transform:kind=jpeg", "smoothed:sigma=0.25,n0=2,n=30,tau=0.6"]
)
def test_no_defence_reads_or_changes_the_generators_of_others(settings: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = gauntlet.load_model(f"{settings}:python:tiny:tiny_network", num_classes=3)
    with nobody_draws(monkeypatch, settings):
        gauntlet.evaluate(model, TinyDataset(2), "clean", batch_size=2)


class Breaking(nn.Module):
    """A network that gives NaN or infinity at one layer, from one pass on, for images that are bright in a corner."""

    def __init__(self, layer: int, after: int, value: float) -> None:
        super().__init__()
        self.network, self.layer, self.after, self.value = tiny_network(), layer, after, value
        self.passes = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.passes += 1
        made = images
        marked = images[:, :, -1, -1].amin(1) > 0.9  # (N,)
        for number, layer in enumerate(self.network):
            made = layer(made)
            if number == self.layer and self.passes > self.after:
                made = torch.where(marked.view(-1, 1, 1, 1), made + self.value, made)
        return made


class Marked(TinyDataset):
    """The third image has a white corner."""

    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        sample.image[-4:, -4:] = 255 if index == 2 else 0
        return sample


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("layer", [0, 2])
def test_numbers_that_are_none_are_told_with_image_and_pass(layer: int, value: float) -> None:
    if layer == 0 and value == float("inf"):
        pytest.skip("tanh makes 1 of infinity, which is a number")
    data = Marked(4)

    def model(after: int) -> SegmentationModel:
        return wrap_model(Breaking(layer, after, value), num_classes=3, mean=(0.0,) * 3, std=(1.0,) * 3)

    told = "NaN" if value != value else "infinite logits"
    with pytest.raises(GauntletError, match=f"returned {told} for image 'tiny/2'"):
        gauntlet.evaluate(model(0), data, batch_size=2)
    attack = {"attack": {"name": "pgd", "epsilon": "1/255", "steps": 3}}
    with pytest.raises(GauntletError, match=r"image 'tiny/2': pass \d of the attack: the model returned NaN"):
        gauntlet.evaluate(model(2), data, attack, batch_size=2)


def test_a_pixel_without_any_class_is_told_and_a_class_ruled_out_is_not() -> None:
    logits = torch.zeros(3, 4, 4)
    logits[1] = -torch.inf
    assert describe_logits(logits).confidence == pytest.approx(0.5)
    logits[:, 2, 2] = -torch.inf
    with pytest.raises(GauntletError, match="returned infinite logits for image 'image'"):
        describe_logits(logits)


def test_confidence_that_is_no_number_stays_within_the_histogram() -> None:
    bad = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    ones, labels = np.ones(4, np.float32), np.zeros(4, np.uint8)
    counts = count_confidence(labels, labels, bad, bad, (ones, ones), 255)
    assert counts.bins.sum() == counts.log_odds.sum() == 4


class BreakingDetector(TinyDetector):
    """A detector that gives NaN or infinity from one pass on, for images that are bright in a corner."""

    def __init__(self, after: int, value: float) -> None:
        super().__init__()
        self.after, self.value, self.passes = after, value, 0

    def candidates(self, images: torch.Tensor) -> Candidates:
        self.passes += 1
        found = super().candidates(images)
        if self.passes <= self.after:
            return found
        marked = images[:, :, -1, -1].amin(1) > 0.9  # (N,)
        scores = torch.where(marked.view(-1, 1, 1), found.scores + self.value, found.scores)
        return replace(found, scores=scores, objectness=scores.amax(dim=2))


class MarkedBoxes(TinyBoxes):
    """The third image has a white corner."""

    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        sample.image[-1, -1] = 255 if index == 2 else 0
        return sample


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["pgd", "tog-vanishing"])
def test_numbers_of_a_detector_that_are_none_are_told_with_image_and_pass(name: str, value: float) -> None:
    attack = {"attack": {"name": name, "epsilon": "1/255", "steps": 3}}
    with pytest.raises(
        GauntletError, match=r"image 'tiny-boxes/2': pass \d of the attack: the detector's loss is NaN or"
    ):
        gauntlet.evaluate(BreakingDetector(2, value), MarkedBoxes(4), attack, batch_size=2)


def test_a_detector_whose_scores_are_nan_is_not_taken_for_one_that_sees_nothing() -> None:
    model = gauntlet.load_model("streets/fcos")
    data = gauntlet.load_dataset("streets", size=[64, 96], length=3)
    means = [float(data[index].image.mean()) / 255 for index in range(3)]
    brightest = int(np.argmax(means))

    def breaking(_: object, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        marked = given[0].mean((1, 2, 3)) > max(means) - 1e-4
        return (torch.where(marked.view(-1, 1, 1, 1), torch.full_like(given[0], float("nan")), given[0]),)

    model.get_submodule("normalisation").register_forward_pre_hook(breaking)
    with pytest.raises(GauntletError, match=f"returned NaN or infinity for image '{data[brightest].id}'"):
        gauntlet.evaluate(model, data, batch_size=3)


def test_float32_is_within_its_bounds_of_float64() -> None:
    """Logits within 1e-5 of their range, an attacked image within a step, its figure within half a point."""
    double = tiny_network().double()
    single = tiny_network()
    data = TinyDataset(4)
    images = torch.stack([torch.from_numpy(data[index].image) for index in range(4)]).permute(0, 3, 1, 2) / 255
    labels = torch.stack([torch.from_numpy(np.asarray(data[index].labels)) for index in range(4)]).long()
    with torch.no_grad():
        exact, rounded = double(images.double()), single(images)
    assert float((exact - rounded).abs().max()) < 1e-5 * float(exact.max() - exact.min())
    attack = attacks.build("pgd", epsilon="8/255", alpha="2/255", steps=5)
    outcomes = [
        attack(network, pictures, labels) for network, pictures in ((double, images.double()), (single, images))
    ]
    moved = [outcome.images.double() for outcome in outcomes]
    assert float((moved[0] - moved[1]).abs().max()) <= 16 / 255 + 1e-6
    accuracy = [
        float((network(outcome.images).argmax(1) == labels)[labels != 255].double().mean())
        for network, outcome in zip((double, single), outcomes, strict=True)
    ]
    assert accuracy[0] == pytest.approx(accuracy[1], abs=5e-3)

"""Figures hang on nothing but what they are figures of: batch sizes, precision, and no random numbers of others."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import SegmentationModel, wrap_model
from gauntlet.threats import attacks, corruptions
from tiny import TinyDataset, tiny_network
from tiny_detector import TinyBoxes, tiny_detector

SIZES = ((32, 40),)
FEW = {"steps": 2}
PLAIN = {"epsilon": "8/255"}


def threats() -> dict[str, Any]:
    """One threat of every kind, with few steps; of attacks one of every algorithm."""
    named: dict[str, Any] = {"clean": "clean"}
    for name in (
        "pgd",
        "segpgd",
        "cospgd",
        "apgd",
        "square",
        "label-only",
        "alma-prox",
        "dag",
        "fmn",
        "pdpgd",
        "certain",
    ):
        if name in attacks.names():
            options = {"queries": 6} if name in ("square", "label-only") else FEW
            named[name] = {"attack": {"name": name, **options}}
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
    return named


SEGMENTATION = threats()
DETECTION: dict[str, Any] = {
    "clean": "clean",
    "pgd": {"attack": {"name": "pgd", **PLAIN, **FEW}},
    "tog-vanishing": {"attack": {"name": "tog-vanishing", **PLAIN, **FEW}},
    "fog": {"corruption": {"name": "fog", "severity": 3}},
    "geometric": {"geometric": {"name": "rotation", "degrees": 10}},
}


@pytest.mark.parametrize("name", SEGMENTATION)
def test_batch_sizes_change_no_figure_of_a_segmentation_model(name: str, tiny_model: SegmentationModel) -> None:
    data = TinyDataset(4, sizes=SIZES)
    one, four = (gauntlet.evaluate(tiny_model, data, SEGMENTATION[name], batch_size=size) for size in (1, 4))
    for figure, value in one.figures.items():
        assert four.figures[figure] == pytest.approx(value, abs=1e-3, nan_ok=True), figure


@pytest.mark.parametrize("name", DETECTION)
def test_batch_sizes_change_no_figure_of_a_detector(name: str) -> None:
    data = TinyBoxes(4)
    one, four = (gauntlet.evaluate(tiny_detector(), data, DETECTION[name], batch_size=size) for size in (1, 4))
    for figure, value in one.figures.items():
        assert four.figures[figure] == pytest.approx(value, abs=1e-3, nan_ok=True), figure


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
    data = TinyDataset(2, sizes=((32, 40),))
    for name, threat in SEGMENTATION.items():
        with nobody_draws(monkeypatch, name):
            assert gauntlet.evaluate(tiny_model, data, threat, batch_size=2).images == 2
    detector = tiny_detector()  # making layers draws their first weights
    for name, threat in DETECTION.items():
        with nobody_draws(monkeypatch, name):
            assert gauntlet.evaluate(detector, TinyBoxes(2), threat, batch_size=2).images == 2


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

    if value != value:
        with pytest.raises(GauntletError, match="returned NaN for image 'tiny/2'"):
            gauntlet.evaluate(model(0), data, batch_size=2)
    attack = {"attack": {"name": "pgd", "epsilon": "1/255", "steps": 3}}
    with pytest.raises(GauntletError, match=r"image 'tiny/2': pass \d of the attack: the model returned NaN"):
        gauntlet.evaluate(model(2), data, attack, batch_size=2)


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

"""Certification through the pipeline: votes in the store, figures from votes, what a certificate promises."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gauntlet import certify
from gauntlet.datasets import load_dataset
from gauntlet.datasets.contract import Dataset
from gauntlet.defences import MultiscaleModel, NoisyModel, TransformedModel
from gauntlet.errors import GauntletError
from gauntlet.evaluation import evaluate
from gauntlet.evaluation.execution.runner import run_jobs
from gauntlet.evaluation.jobs import Settings, plan_job
from gauntlet.evaluation.plan import parse_plan, plan_jobs
from gauntlet.metrics import CertificationMetric
from gauntlet.metrics.certification import Votes, certified_radius
from gauntlet.models import SegmentationModel, wrap_model
from gauntlet.results import Evaluation, Store
from gauntlet.samples import Batch, Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import attacks, build_threat, rebuild_threat
from gauntlet.threats.kinds.certify import CertifyThreat
from program import Call
from tiny import TinyDataset, tiny_network


class Constant(nn.Module):
    """Says class 1 everywhere."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(len(images), 3, *images.shape[-2:])
        logits[:, 1] = 1
        return logits + 0 * images.mean()


def tiny() -> SegmentationModel:
    return wrap_model(tiny_network(), num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name="tiny-net")


def values(evaluation: Evaluation, view: str = "all") -> dict[str, float]:
    return {each.metric: each.value for each in evaluation.all_figures if each.view == view and not each.class_name}


@pytest.mark.parametrize(("n", "possible"), [(41, False), (42, True)])
def test_a_constant_model_is_certified_where_tau_to_the_n_is_small_enough(n: int, possible: bool) -> None:
    # 16 x 24 = 384 pixels: 0.75^n <= 0.001 / 384 from n = 45 on; the void pixels count as well.
    n += 3
    model = wrap_model(Constant(), num_classes=3, name="constant")
    data = TinyDataset(2)
    if not possible:
        with pytest.raises(GauntletError, match=f"with n = {n} no pixel of an image of 384 can be certified.* n = 45"):
            certify(model, data, n=n)
        return
    result = values(certify(model, data, n=n))
    labels = np.concatenate([data[index].labels.reshape(-1) for index in range(2)])  # type: ignore[union-attr]
    assert result["abstention"] == 0
    assert result["certified_accuracy"] == pytest.approx((labels == 1).sum() / (labels != 255).sum())
    assert result["radius"] == pytest.approx(0.25 * 0.6744897501960817)


def test_votes_are_taken_once_and_any_tau_is_read_from_them() -> None:
    store, data, model = Store(), TinyDataset(3), tiny()
    first = certify(model, data, n=60, sigma=0.05, store=store)
    calls = []
    images = data[0].image.shape[:2]  # those of the probe are larger
    model.register_forward_pre_hook(lambda _, given: calls.append(1) if given[0].shape[-2:] == images else None)
    second = certify(model, data, n=60, sigma=0.05, tau=[0.6, 0.7], alpha=0.01, correction="bonferroni", store=store)
    assert not calls
    assert second.key == first.key
    assert values(second)["radius"] == pytest.approx(certified_radius(0.05, 0.6))
    assert values(second, "tau 0.7")["abstention"] >= values(second, "tau 0.6")["abstention"]
    # The same question again is answered alike.
    assert certify(model, data, n=60, sigma=0.05, store=store).all_figures == first.all_figures


def test_another_tau_of_the_same_votes_gives_its_own_figures_through_evaluations_and_plans() -> None:
    store, data, model = Store(), TinyDataset(2), tiny()

    def asked(tau: float | list[float], **more: Any) -> dict[str, Any]:
        return {"certify": {"sigma": 0.05, "n": 60, "tau": tau, **more}}

    def fresh(threat: dict[str, Any]) -> dict[str, float]:
        return evaluate(model, data, threat, store=Store()).figures

    def radii() -> dict[str, float]:
        frame = store.frame()
        rows = frame[frame["metric"].eq("radius") & frame["view"].ne("all")]
        return dict(zip(rows["view"], rows["value"], strict=True))

    evaluate(model, data, asked(0.75), store=store)
    second = evaluate(model, data, asked(0.6), store=store)
    assert second.from_store
    assert second.figures == fresh(asked(0.6)) != fresh(asked(0.75))
    assert list(radii()) == ["tau 0.6", "tau 0.75"]  # what was there stays
    # Another alpha is another test: figures of the first would stand beside it unmarked.
    third = evaluate(model, data, asked(0.6, alpha=0.01), store=store)
    assert third.figures == fresh(asked(0.6, alpha=0.01))
    assert list(radii()) == ["tau 0.6"]
    planned = plan_job(model, data, build_threat(asked([0.7, 0.65])), Settings())
    assert run_jobs([planned], store).stored == [planned.job.key]
    again = store.load(planned.job.key)
    assert again is not None
    assert again.figures == fresh(asked([0.7, 0.65]))


def test_a_tau_that_can_certify_nothing_beside_one_that_can_is_told(caplog: pytest.LogCaptureFixture) -> None:
    certify(tiny(), TinyDataset(2), n=60, sigma=0.05, tau=[0.75, 0.95])
    told = [record.getMessage() for record in caplog.records if "abstains at tau 0.95" in record.getMessage()]
    assert len(told) == 1
    assert not any("abstains at tau 0.75" in record.getMessage() for record in caplog.records)


def test_the_figures_do_not_depend_on_the_batch_and_go_through_workers() -> None:
    data, model = TinyDataset(4), tiny()
    one = certify(model, data, n=60, sigma=0.05, batch_size=1)
    assert certify(model, data, n=60, sigma=0.05, batch_size=4).all_figures == one.all_figures


@pytest.mark.slow
def test_two_workers_give_the_same_votes() -> None:
    data = load_dataset("streets", split="val", size=(32, 64), length=2)
    one, two = (certify("streets/enet", data, sigma=0.1, n=75, batch_size=1, workers=workers) for workers in (1, 2))
    assert two.all_figures == one.all_figures


def test_what_is_kept_of_an_interrupted_evaluation_is_not_voted_on_again() -> None:
    store, data = Store(), TinyDataset(4)

    class Stops(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network, self.passes = tiny_network(), 0

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            self.passes += 1
            if self.passes == 200:
                raise KeyboardInterrupt
            logits: torch.Tensor = self.network(images)
            return logits

    network = Stops()
    model = wrap_model(network, num_classes=3, name="stops")

    def passes_of(store: Store) -> tuple[Evaluation, int]:
        network.passes = 1000  # never stops again
        return certify(model, data, n=60, batch_size=1, store=store), network.passes - 1000

    with pytest.raises(KeyboardInterrupt):
        certify(model, data, n=60, batch_size=1, store=store)
    resumed, passes = passes_of(store)
    fresh, passes_of_all = passes_of(Store())
    assert resumed.all_figures == fresh.all_figures
    # A clean image and 10 + 60 noisy ones each: of four images, two were done in 199 passes.
    assert passes_of_all - passes == 2 * 71
    assert passes_of_all >= 4 * 71


class LinearData(Dataset):
    """Grey images; the class is whether a linear function of the pixel's colour is above 0."""

    class_names = ("below", "above")
    ignore_index = None

    def __init__(self, values: list[float]) -> None:
        self.name, self.split, self._values = "linear", "val", values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> Sample:
        image = np.full((8, 8, 3), round(255 * self._values[index]), np.uint8)
        labels = np.full((8, 8), int(image[0, 0, 0] > 127), np.uint8)
        return Sample(f"linear/{index}", image, labels)

    def ids(self) -> list[str]:
        return [f"linear/{index}" for index in range(len(self._values))]


def linear_model() -> SegmentationModel:
    """Says "above" where the sum of the channels is above 1.5; under noise of sigma the probability is known."""
    network = nn.Conv2d(3, 2, 1)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[-1.0] * 3, [1.0] * 3])[:, :, None, None])
        network.bias.copy_(torch.tensor([1.5, -1.5]))  # type: ignore[union-attr]
    return wrap_model(network, num_classes=2, name="linear")


def test_certificates_of_a_model_whose_smoothed_class_is_known_hold_as_often_as_promised() -> None:
    """A wrong certificate is one whose true probability is not above tau: over 200 seeds a few at alpha 0.05."""
    sigma, tau, alpha = 0.25, 0.75, 0.05
    grey = 0.5 + 0.09  # margin 0.27 against sigma * sqrt(3): true probability 0.733, just below tau
    margin = 3 * (round(255 * grey) / 255) - 1.5
    truth = NormalDist().cdf(margin / (sigma * np.sqrt(3)))
    assert truth < tau
    threat = CertifyThreat({"sigma": sigma, "n0": 5, "n": 100, "tau": tau, "alpha": alpha})
    data = LinearData([grey])
    model, batch = linear_model(), collate([data[0]] * 200, ignore_index=None)
    metric = CertificationMetric(data.class_names, None, sigma=sigma, tau=(tau,), alpha=alpha)
    drawn: Any = threat.perturb(model, batch, [ImageSeed(seed, "linear/0") for seed in range(200)]).predictions
    wrong = sum(bool(metric.certified(votes, tau)[votes.top == 1].any()) for votes in drawn)
    assert wrong <= 18  # 200 * 0.05 = 10 on average at most; 18 is exceeded with a probability of 0.5 % there


def test_an_attack_inside_the_radius_flips_no_certified_pixel() -> None:
    """The worst l2 perturbation of the linear model is known: all of it along the weights, on one pixel."""
    sigma, tau = 0.25, 0.75
    # The last one has a true probability of 0.84, just enough to be certified by 800 votes.
    data = LinearData([0.5 + 0.25, 0.5 - 0.25, 0.5 + 0.143])
    model = linear_model()
    radius = values(certify(model, data, sigma=sigma, tau=tau, n=50))["radius"]
    metric = CertificationMetric(data.class_names, None, sigma=sigma, tau=(tau,))
    batch = collate([data[index] for index in range(len(data))], ignore_index=None)

    def smoothed_class(index: int, reach: float) -> int:
        """The sign of the margin is what the smoothed linear model says, also where it is pushed to the other side."""
        margin = 3 * float(data[index].image[0, 0, 0]) / 255 - 1.5
        return int(margin - np.sign(margin) * reach * np.sqrt(3) > 0)  # the weights have the norm sqrt(3)

    for index, votes in enumerate(said(CertifyThreat({"sigma": sigma, "n": 800}), model, batch)):
        certified = metric.certified(votes, tau)
        assert certified.mean() > 0.8
        assert (votes.top[certified] == smoothed_class(index, radius)).all()
    assert (votes.top[certified] != smoothed_class(2, 1.5 * radius)).all()  # the bound is no more careful than it says


class Listed(nn.Module):
    """Says the classes of a list, one in each pass, and the last one from then on."""

    def __init__(self, classes: list[int]) -> None:
        super().__init__()
        self.classes = classes

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        said = self.classes.pop(0) if len(self.classes) > 1 else self.classes[0]
        logits = torch.zeros(len(images), 3, *images.shape[-2:])
        logits[:, said] = 1
        return logits


@pytest.mark.parametrize("choosing", [[2, 1], [1, 2]])
def test_the_lower_class_of_a_tie_is_the_one_that_is_voted_on(choosing: list[int]) -> None:
    data, model = TinyDataset(1), wrap_model(Listed([0, *choosing, 2, 1]), num_classes=3, name="listed")
    batch = collate([data[0]], ignore_index=255)
    (votes,) = said(CertifyThreat({"n0": 2, "n": 60}), model, batch)
    assert (votes.clean == 0).all()  # the first pass is that of the clean image
    assert (votes.top == 1).all()
    assert (votes.hits == 59).all()


def said(threat: CertifyThreat, model: SegmentationModel, batch: Batch, seed: int = 0) -> list[Votes]:
    """The votes on the images of a batch."""
    votes: Any = threat.perturb(model, batch, [ImageSeed(seed, sample.id) for sample in batch.samples]).predictions
    return list(votes)


@pytest.mark.parametrize(("reach", "flips"), [(1.0, False), (40.0, True)])
def test_an_l2_attack_on_the_noisy_model_flips_certified_pixels_outside_the_radius_only(
    reach: float, flips: bool
) -> None:
    """The attack knows of the smoothing: its gradient is averaged over noise; what it makes is voted on anew."""
    sigma, tau, data, model = 0.05, 0.75, TinyDataset(2), tiny()
    threat = CertifyThreat({"sigma": sigma, "n": 60, "tau": tau})
    metric = CertificationMetric(data.class_names, 255, sigma=sigma, tau=(tau,))
    batch = collate([data[0]], ignore_index=255)
    (votes,) = said(threat, model, batch)
    certified = metric.certified(votes, tau)
    assert 0.05 < certified.mean() < 1
    leave = torch.from_numpy(np.where(certified, votes.top, 255))[None]  # nothing else is attacked
    noisy, epsilon = NoisyModel(model, sigma=sigma), reach * certified_radius(sigma, tau)
    made = attacks.bim(
        noisy, batch.images, leave, ignore_index=255, norm="l2", epsilon=epsilon, alpha=0.02, steps=20, samples=8
    ).images
    assert not torch.equal(made, batch.images)
    many = CertifyThreat({"sigma": sigma, "n0": 200, "n": 60})  # what the smoothed model says, from 200 votes
    (after,) = said(many, model, replace(batch, images=made), seed=1)
    assert bool((after.top != votes.top)[certified].any()) is flips


def test_descriptions() -> None:
    threat = build_threat({"certify": {"sigma": "1/4", "n": 100, "tau": [0.75, 0.9]}})
    assert threat.describe() == {"certify": {"sigma": 0.25, "n0": 10, "n": 100}}
    assert threat.name == "certify sigma 0.25 n 100"
    assert rebuild_threat(threat.written()).metric() == threat.metric()
    assert threat.passes().forward == 111
    assert len({build_threat({"certify": {"n0": n0}}).name for n0 in (10, 20)}) == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sigma": 0}, "sigma"),
        ({"n": 0}, "'n'"),
        ({"n0": 0}, "'n0'"),
        ({"tau": 0.5}, "tau must be above 0.5"),
        ({"alpha": 1}, "alpha must be between"),
        ({"correction": "fdr"}, "correction"),
        ({"norm": "linf"}, "norm"),
        ({"tau": []}, "at least one tau"),
        ({"tau": [0.75, "3/4"]}, "a tau is given twice"),
        ({"correction": "none", "tolerated": 3}, "every pixel is tested alone"),
    ],
)
def test_bad_options_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        build_threat({"certify": options})


def test_what_is_smoothed_already_is_refused() -> None:
    from gauntlet.defences import SmoothedModel

    with pytest.raises(GauntletError, match="is smoothed already; certify the model inside it"):
        certify(SmoothedModel(tiny(), sigma=0.1, n=5, n0=2), TinyDataset(1), n=60)


@pytest.mark.parametrize("wrapped", [{"kind": "blur"}, {"kind": "jpeg", "fixed": 75}])
def test_what_takes_no_noise_is_told_before_anything_is_computed(wrapped: dict[str, Any]) -> None:
    model = MultiscaleModel(TransformedModel(tiny(), **wrapped), scales=(0.5, 1))
    threat = build_threat({"certify": {"n": 60}})
    with pytest.raises(GauntletError, match=r"not clipped, and 'transform:' in .* takes images in"):
        plan_job(model, TinyDataset(1), threat, Settings())
    plan_job(TransformedModel(tiny(), kind="none"), TinyDataset(1), threat, Settings())


def test_too_few_votes_are_told_when_a_plan_is_made() -> None:
    plan = {"models": ["streets/enet"], "datasets": [{"name": "streets", "options": {"size": [64, 128], "length": 1}}]}
    with pytest.raises(GauntletError, match="with n = 20 no pixel of an image of 8192 can be certified"):
        plan_jobs(parse_plan({**plan, "threats": [{"certify": {"n": 20}}]}))
    with pytest.raises(GauntletError, match="is smoothed already"):
        plan_jobs(parse_plan({**plan, "models": ["smoothed:n=2:streets/enet"], "threats": [{"certify": {"n": 100}}]}))


def test_labels_that_are_no_classes_are_told() -> None:
    class Strange(TinyDataset):
        def __getitem__(self, index: int) -> Sample:
            sample = super().__getitem__(index)
            return Sample(sample.id, sample.image, np.full(sample.image.shape[:2], 7, np.uint8))

    with pytest.raises(GauntletError, match="a label is 7, outside 0 to 2"):
        certify(tiny(), Strange(1), n=60)


def test_detectors_have_no_certificates() -> None:
    with pytest.raises(GauntletError, match="certificates are of pixels, and detection has none"):
        evaluate("streets/fcos", "streets", {"certify": {}}, limit=1)


def test_the_command_certifies_and_says_how_sure_it_is(call: Call) -> None:
    asked = ("certify", "-m", "python:nets:street_network", "--num-classes", "11", "--limit", "1")
    code, out, err = call(*asked, "--n", "64", "--workers", "1")
    assert code == 0, err
    for words in ("tau 0.75: certified accuracy", "abstained", "l2 radius 0.169", "vote without abstention"):
        assert words in out
    code, _, err = call(*asked, "--n", "20")
    assert (code, "it takes n = 61 at least" in err) == (2, True), err

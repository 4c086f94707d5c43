"""Random models under attack and in evaluations: draws by image, trials, workers, preparation, files."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from defence_cases import images, labels, model
from gauntlet.defences import EnsembleModel, MultiscaleModel, NoisyModel, SmoothedModel, TransformedModel
from gauntlet.errors import GauntletError
from gauntlet.evaluation import evaluate
from gauntlet.evaluation.estimate import estimate
from gauntlet.evaluation.execution.local import LocalExecutor
from gauntlet.evaluation.execution.runner import run_jobs
from gauntlet.evaluation.jobs import Settings, plan_job
from gauntlet.evaluation.plan import parse_plan, plan_jobs
from gauntlet.evaluation.prediction import predict_dense
from gauntlet.metrics import Views
from gauntlet.models import SegmentationModel, load_model, resolve_model, wrap_model
from gauntlet.models.preparation import prepare, same_function
from gauntlet.models.randomness import AttackDraws, EvaluationDraws, drawing, flat_modules, random_parts
from gauntlet.models.tiling import TiledModel
from gauntlet.results import Store
from gauntlet.samples import Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import attacks, build_threat
from gauntlet.threats.kinds.attack import RegionAwareThreat
from tiny import TinyDataset, tiny_network

GREY = "transform:kind=grey,trials=3:python:nets:street_network"
OPTIONS = {"num_classes": 11, "ignore_index": 11}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choices of preparations stay here."""
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))


def _tiny(**settings: Any) -> TransformedModel:
    return TransformedModel(wrap_model(tiny_network(), num_classes=3), **settings)


def test_an_averaged_gradient_is_the_mean_over_the_next_draws() -> None:
    made = TransformedModel(model(), kind="grey")
    attack = attacks.build("bim", epsilon=1, alpha=1e-4, steps=1, samples=3, rule="raw")
    outcome = attack(made, images(), labels(), seed=[11, 12])
    inputs = images().requires_grad_(True)
    total = torch.zeros((), dtype=torch.float64)
    for index in range(3):
        with drawing(random_parts(made), AttackDraws([11, 12], [index, index])):
            total = total + functional.cross_entropy(made(inputs), labels(), reduction="sum")
    (gradient,) = torch.autograd.grad(total / 3, inputs)
    assert torch.allclose(outcome.images, images() + 1e-4 * gradient, rtol=0, atol=1e-12)
    assert attacks.build("bim", eot=3) == attacks.build("bim", samples=3)


@pytest.mark.parametrize("kind", ["jpeg", "hsv"])
def test_an_attack_on_a_random_model_does_not_depend_on_batch_mates(kind: str) -> None:
    made = TransformedModel(model(), kind=kind)
    attack = attacks.build("pgd", epsilon="4/255", steps=3, samples=2, restarts=2)
    both = attack(made, images(), labels(), seed=[1, 2]).images
    swapped = attack(made, images().flip(0), labels().flip(0), seed=[2, 1]).images.flip(0)
    alone = attack(made, images()[1:], labels()[1:], seed=[2]).images
    assert torch.allclose(both, swapped, rtol=0, atol=1e-9)
    assert torch.allclose(both[1:], alone, rtol=0, atol=1e-9)


def test_dropped_images_change_no_draw_of_the_others() -> None:
    made = TransformedModel(model(), kind="grey")
    attack = attacks.build("pgd", epsilon="8/255", steps=4, returns="best")
    void = labels().clone()
    void[0] = 255  # nothing to attack: the image leaves the batch
    alone = attack(made, images()[1:], labels()[1:], seed=[2]).images
    assert torch.allclose(attack(made, images(), void, seed=[1, 2]).images[1:], alone, rtol=0, atol=1e-9)


def test_knowing_the_transformation_is_at_least_as_strong() -> None:
    """A check, not a theorem: on blur, an attack that averages over ten draws against one on the plain model."""
    inner = model()
    made = TransformedModel(inner, kind="blur")
    options: dict[str, Any] = {"epsilon": "8/255", "steps": 5}

    def right(points: torch.Tensor) -> float:
        seeds = [ImageSeed(0, "a"), ImageSeed(0, "b")]
        found = [predict_dense(made, points, "ab", seeds=seeds, trial=trial) for trial in range(9)]
        truth = labels().numpy()
        return float(np.mean([[(each.labels == truth[row]).mean() for row, each in enumerate(pair)] for pair in found]))

    unaware = attacks.build("bim", **options)(inner, images(), labels()).images
    aware = attacks.build("bim", **options, samples=10)(made, images(), labels()).images
    assert right(aware) <= right(unaware) < right(images())


def test_trials_are_views_of_one_evaluation() -> None:
    made, data, store = _tiny(kind="grey", trials=3), TinyDataset(length=4), Store()
    evaluation = evaluate(made, data, "clean", store=store, batch_size=2)
    assert list(evaluation.views) == ["trial 0", "trial 1", "trial 2"]
    by_trial = [each.value for each in evaluation.all_figures if each.metric == "mIoU" and each.view != "all"]
    assert len(set(by_trial)) == 3
    assert evaluation.figures["mIoU"] == pytest.approx(np.mean(by_trial))
    assert evaluation.figures["mIoU_trials_sd"] == pytest.approx(np.std(by_trial, ddof=1))
    frame = evaluation.per_image
    assert list(frame["view"].unique()) == ["all", "trial 0", "trial 1", "trial 2"]
    one = frame[frame["image_id"] == "tiny/2"].set_index("view")["accuracy"]
    assert one["all"] == pytest.approx(one[1:].mean())
    again = store.load(evaluation.key)
    assert again is not None
    assert again.figures == evaluation.figures


def test_a_trial_is_what_the_model_says_with_the_draws_of_that_trial() -> None:
    made, data = _tiny(kind="grey", trials=2), TinyDataset(length=1)
    evaluation = evaluate(made, data, "clean", seed=5)
    sample = data[0]
    points = torch.from_numpy(sample.image).permute(2, 0, 1)[None].float() / 255
    for trial in range(2):
        with drawing(random_parts(made), EvaluationDraws([ImageSeed(5, sample.id)], trial)):
            choice = made(points).argmax(1)[0].numpy()
        counted = sample.labels != 255
        found = evaluation.per_image.set_index("view")["accuracy"][f"trial {trial}"]
        assert found == pytest.approx((choice == sample.labels)[counted].mean())


def test_one_trial_is_an_ordinary_evaluation_and_the_seed_of_the_run_counts() -> None:
    made, data = _tiny(kind="grey", trials=1), TinyDataset(length=3)
    first, again, other = (evaluate(made, data, "clean", seed=seed).figures["mIoU"] for seed in (0, 0, 1))
    assert list(evaluate(made, data, "clean").views) == ["all"]
    assert first == again != other


def test_an_attack_without_strength_has_the_clean_figures() -> None:
    made, data = _tiny(kind="hsv", trials=2), TinyDataset(length=3)
    nothing = evaluate(made, data, {"attack": {"name": "bim", "epsilon": 0, "steps": 2}})
    assert nothing.figures["mIoU"] == evaluate(made, data, "clean").figures["mIoU"]


@pytest.mark.parametrize(
    "threat",
    [
        {"attack": {"name": "bim", "epsilon": "4/255", "steps": 2, "region": {"square": {"size": 8}}}},
        {"battery": {"name": "sea", "epsilon": "4/255", "budget": 0.01}},
        {"region_aware": {"attack": {"name": "bim", "epsilon": "4/255", "steps": 2}, "rounds": 2}},
        {"corruption": {"name": "gaussian_noise", "severity": 3}},
    ],
)
def test_every_kind_of_threat_runs_on_a_random_model(threat: dict[str, Any]) -> None:
    made, data = _tiny(kind="blur", trials=2), TinyDataset(length=2, sizes=((32, 40),))
    first = evaluate(made, data, threat, batch_size=2)
    second = evaluate(made, data, threat, batch_size=1)
    assert 0 <= first.figures["mIoU"] <= 1
    assert first.figures["mIoU"] == pytest.approx(second.figures["mIoU"], abs=1e-6)


def test_region_aware_rounds_are_judged_on_draws_that_the_attack_did_not_see() -> None:
    made, seeds = TransformedModel(model(), kind="hsv"), [ImageSeed(0, "a"), ImageSeed(0, "b")]
    samples = [
        Sample(seed.image_id, (image * 255).byte().permute(1, 2, 0).numpy(), truth.numpy())
        for seed, image, truth in zip(seeds, images(), labels(), strict=True)
    ]
    batch = replace(collate(samples, ignore_index=None), images=images())
    attack = {"name": "bim", "epsilon": "8/255", "steps": 2}
    threat = build_threat({"region_aware": {"attack": attack, "rounds": 2, "region": {"square": {"size": 12}}}})
    assert isinstance(threat, RegionAwareThreat)
    outcome = threat.outcome(made, batch, seeds)
    worst: Any = None
    for points in (images(), *(each.images for each in outcome.rounds)):
        with drawing(random_parts(made), EvaluationDraws(seeds)), torch.no_grad():
            said = made(points).argmax(1)
        worst = said if worst is None else torch.where(worst == labels(), said, worst)
    judged: Any = threat.perturb(made, batch, seeds).predictions
    assert len(outcome.rounds) == 2
    assert outcome.predictions is not None
    assert torch.equal(judged, worst)
    assert not torch.equal(judged, outcome.predictions)  # what the attack saw


@pytest.mark.slow
def test_two_workers_give_the_same_bytes() -> None:
    data = {"name": "streets", "options": {"size": [32, 64], "length": 4}}
    pgd = {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 2, "samples": 2}}
    addresses = [GREY, "multiscale:scales=0.5+1:python:nets:street_network"]
    models = [{"address": each, "options": OPTIONS} for each in addresses]
    plan = parse_plan({"models": models, "datasets": [data], "threats": [pgd], "batch_size": 2})
    found = []
    for workers in (1, 2):
        store = Store()
        outcome = run_jobs(plan_jobs(plan), store, executor=LocalExecutor(workers))
        assert outcome.failures == []
        rows = {}
        for key in list(store.keys()):
            started = store.started(key)
            assert started is not None
            rows.update({(key, row.position): row.counts for row in store.image_rows(started)})
        found.append(rows)
    assert len(found[0]) == 8
    assert found[0] == found[1]


@pytest.mark.parametrize("steps", [("fold",), ("fold", "channels-last")])
def test_preparation_sees_the_models_inside(steps: tuple[str, ...]) -> None:
    inner = load_model("streets/enet")
    assert isinstance(inner, SegmentationModel)
    made = TransformedModel(MultiscaleModel(inner, scales="0.5+1"), kind="grey")
    prepared = prepare(made, steps)
    assert same_function(made, prepared, (32, 48))
    assert prepared.identity == made.identity
    assert [type(each) for each in prepared.modules()].count(torch.nn.BatchNorm2d) == 0
    assert [type(each) for each in made.modules()].count(torch.nn.BatchNorm2d) > 0


def test_defended_models_are_files_like_others() -> None:
    made = EnsembleModel([TransformedModel(model(), kind="jpeg"), NoisyModel(model("second"))], gamma=0.4)
    stream = io.BytesIO()
    torch.save(made, stream)
    stream.seek(0)
    again = torch.load(stream, weights_only=False)
    assert again.identity == made.identity
    draws = EvaluationDraws([ImageSeed(0, "a"), ImageSeed(0, "b")])
    answers = []
    for each in (made, again):
        with drawing(random_parts(each), draws):
            answers.append(each(images()))
    assert torch.equal(*answers)


def test_other_wrappers_hand_the_draws_through() -> None:
    made = TiledModel(TransformedModel(model(), kind="grey"), 12)
    assert made.random
    assert predict_dense(made, images(), "ab")[0].labels.shape == (24, 32)


def test_the_time_of_a_random_model_can_be_estimated() -> None:
    for made in (_tiny(kind="grey"), SmoothedModel(_tiny(kind="none"), n=2)):
        planned = plan_job(made, TinyDataset(length=2), build_threat("clean"), Settings())
        assert estimate([planned])[0] > 0


def test_noise_is_not_clipped_and_none_is_the_model() -> None:
    inner = model()
    assert torch.equal(NoisyModel(inner, sigma=0)(images()), inner(images()))
    made = NoisyModel(inner, sigma=0.5)
    numbers = EvaluationDraws([ImageSeed(0, "a"), ImageSeed(0, "b")], 3)
    drawn = [
        np.random.Generator(np.random.PCG64(each)).standard_normal((24, 32, 3)) for each in numbers.numbers("noise")
    ]
    noise = torch.from_numpy(np.stack(drawn)).permute(0, 3, 1, 2)
    with drawing(random_parts(made), numbers):
        assert torch.equal(made(images()), inner(images() + 0.5 * noise))


def test_smoothed_logits_are_votes() -> None:
    inner = model()
    made = SmoothedModel(inner, sigma=0.25, n0=2, n=5)
    seeds = [ImageSeed(0, "a"), ImageSeed(0, "b")]
    votes = torch.zeros(2, 4, 24, 32, dtype=torch.float64)
    for sample in range(2, 7):
        drawn = [np.random.Generator(np.random.PCG64(each.stream(f"smoothing|{sample}"))) for each in seeds]
        noise = np.stack([each.standard_normal((24, 32, 3)) for each in drawn])
        choice = inner(images() + 0.25 * torch.from_numpy(noise).permute(0, 3, 1, 2)).argmax(1)
        votes += functional.one_hot(choice, 4).permute(0, 3, 1, 2)
    with drawing(random_parts(made), EvaluationDraws(seeds)):
        logits = made(images())
    assert torch.allclose(logits, ((votes + 0.5) / (5 + 2)).log(), rtol=0, atol=1e-12)


def test_smoothed_has_no_gradient_and_says_what_to_attack() -> None:
    with pytest.raises(GauntletError, match="attack 'noise:'"):
        attacks.build("pgd", steps=1)(SmoothedModel(model(), n=2), images(), labels())


_BIM = {"name": "bim", "epsilon": "4/255", "steps": 2}


@pytest.mark.parametrize(
    ("threat", "where"),
    [
        ({"attack": _BIM}, "smoothed:n=2:streets/enet"),
        ({"attack": _BIM}, "multiscale:scales=0.5+1:smoothed:n=2:streets/enet"),
        ({"battery": {"name": "sea", "epsilon": "4/255"}}, "smoothed:n=2:streets/enet"),
        ({"region_aware": {"attack": _BIM}}, "smoothed:n=2:streets/enet"),
        ({"transfer": {"source_model": "smoothed:n=2:streets/enet", "attack": _BIM}}, "streets/enet"),
        ({"transfer": {"source_model": "inner", "attack": _BIM}}, "crf:smoothed:n=2:streets/enet"),
    ],
)
def test_a_gradient_of_votes_is_refused_when_a_plan_is_made(threat: dict[str, Any], where: str) -> None:
    plan = {"models": [where], "datasets": [{"name": "streets", "options": {"size": [32, 64], "length": 1}}]}
    with pytest.raises(GauntletError, match=r"counts votes and has no gradient for .*; make the attack on 'noise:'"):
        plan_jobs(parse_plan({**plan, "threats": ["clean", threat]}))


def test_what_needs_no_gradient_of_votes_is_planned() -> None:
    noise = {"transfer": {"source_model": "noise:streets/enet", "attack": {**_BIM, "samples": 4}}}
    threats = [{"attack": {"name": "square", "epsilon": "4/255"}}, noise]
    data = [{"name": "streets", "options": {"size": [32, 64], "length": 1}}]
    plan = parse_plan({"models": ["smoothed:n=2:streets/enet"], "datasets": data, "threats": threats})
    assert len(plan_jobs(plan)) == 2


def test_settings_that_only_choose_figures_are_no_part_of_the_identity() -> None:
    def identity(settings: str) -> str:
        return resolve_model(f"smoothed:{settings}:streets/enet").identity.digest

    assert identity("sigma=0.25") == identity("sigma=1/4,tau=0.9,alpha=0.01,n=100")
    assert len({identity(each) for each in ("sigma=0.25", "sigma=0.5", "n=200", "n0=20")}) == 4


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("smoothed:sigma=0:streets/enet", "greater than 0"),
        ("smoothed:tau=0.5:streets/enet", "between 1/2 and 1"),
        ("smoothed:tau=1:streets/enet", "between 1/2 and 1"),
        ("smoothed:alpha=0:streets/enet", "between 0 and 1"),
        ("smoothed:n=0:streets/enet", "at least 1"),
        ("smoothed:n0=1.5:streets/enet", "whole number"),
        ("noise:sigma=-1:streets/enet", "at least 0"),
        ("noise:streets/fcos", "segmentation models only"),
        ("noise:crf:streets/enet", "not clipped, and 'crf:' inside it takes images in"),
        ("smoothed:noise:streets/enet", "draws at random; 'smoothed:' takes a model that does not"),
        ("smoothed:multiscale:scales=0.5+1:smoothed:n=2:streets/enet", "draws at random; 'smoothed:' takes a model"),
        ("smoothed:multiscale:scales=0.5+1:transform:kind=jpeg:streets/enet", "put 'transform:' around 'smoothed:'"),
    ],
)
def test_bad_settings_are_one_sentence(address: str, sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        resolve_model(address)


def test_noise_goes_around_what_changes_nothing_and_votes_around_what_does_not_draw() -> None:
    resolve_model("noise:transform:kind=none:streets/enet")
    resolve_model("noise:sigma=0:crf:streets/enet")
    with pytest.raises(GauntletError, match="draws at random; 'smoothed:' takes a model that does not"):
        SmoothedModel(NoisyModel(model()), n=2)


def test_views_of_trials_come_back_from_a_store() -> None:
    assert Views.from_json(Views.of_trials(3).to_json()) == Views.of_trials(3)
    assert Views.from_json(["clean", "pgd"]) == Views.of_candidates(["clean", "pgd"])


def test_modules_come_in_the_order_of_torch_each_once() -> None:
    shared = nn.ReLU()
    last = nn.Sequential(nn.Identity(), shared)
    last.register_module("absent", None)
    network = nn.Sequential(nn.Sequential(nn.Conv2d(3, 3, 1), shared), shared, last)
    assert flat_modules(network) == list(network.modules())

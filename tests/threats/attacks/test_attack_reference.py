"""Every value of tests/data/attack_reference.json that segmentation attacks can be held to, within its tolerance."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from attack_fixture import (
    CLASSES,
    EPSILON,
    FORMULA_START,
    IMAGES,
    LABELS,
    REFERENCE,
    VOID_LABELS,
    Recorder,
    at_class,
    check_images,
    close,
    correct,
    mean_cross_entropy,
    network,
)

from gauntlet.threats.attacks import PixelLoss, build, losses
from gauntlet.threats.attacks.algorithms.alma import AlmaProx, AlmaState
from gauntlet.threats.attacks.algorithms.gradient import GradientAttack, ProjectedAdam
from gauntlet.threats.attacks.algorithms.minimum_norm import Smallest
from gauntlet.threats.attacks.engine.losses import logit_cosine
from gauntlet.threats.attacks.engine.outcome import Outcome
from gauntlet.threats.attacks.engine.posing import pose_pixels
from gauntlet.threats.attacks.engine.problem import Problem
from gauntlet.threats.attacks.engine.request import Request


def section(name: str) -> dict[str, Any]:
    section: dict[str, Any] = REFERENCE[name]
    return section


def labels_of(name: str) -> torch.Tensor:
    return VOID_LABELS if "ignore" in name else LABELS


@cache
def attacked(attack: str, both: bool, **options: Any) -> Outcome:
    """An attack on the two images with all their labels (rows 0 and 1) and, if `both`, with void ones (rows 2 and 3).

    A step on four images takes hardly longer than on two, and an image does not depend on its batch (T09).
    """
    copies = 2 if both else 1
    images, labels = torch.cat([IMAGES] * copies), torch.cat([LABELS, VOID_LABELS][:copies])
    outcome: Outcome = build(attack, **options)(network, images, labels)
    return outcome


def rows_of(name: str) -> slice:
    """The rows of `attacked` that an entry of the reference speaks of."""
    return slice(2, 4) if "ignore" in name else slice(0, 2)


def has_void_twin(name: str, entries: dict[str, Any]) -> bool:
    return f"{name.removesuffix('|ignore')}|ignore" in entries


def test_fixture() -> None:
    clean = section("clean")
    logits = network(IMAGES)
    close(logits.flatten(1).sum(1), clean["logits_sum"], absolute=1e-8)
    close(logits.abs().flatten(1).sum(1), clean["logits_abs_sum"], absolute=1e-5)
    close(logits[0, :, 5, 7], clean["logit_0_0_5_7"], absolute=1e-9)
    assert correct(IMAGES) == clean["correct_pixels"]
    assert correct(IMAGES, VOID_LABELS) == clean["masked"]["correct_pixels"]
    rows = ["".join(str(int(each)) for each in row) for row in LABELS[0]]
    assert rows == section("fixture")["label_rows"][0]


@pytest.mark.parametrize("name", section("sign_family"))
def test_sign_family(name: str) -> None:
    expected = section("sign_family")[name]
    attack, norm = name.split("_")[0], "l2" if "_l2" in name else "linf"
    target = 1 if "targeted_class1" in name and "untargeted" not in name else None
    labels = labels_of(name)
    recorder = Recorder()
    options = {"epsilon": expected["eps"], "steps": expected["T"], "alpha": expected["alpha"], "norm": norm}
    start = FORMULA_START if "formula" in name else None
    made = build(attack, random_start=False, **options)(recorder, IMAGES, labels, target=target, start=start).images
    check_images(made, expected, labels)
    if target is not None:
        assert at_class(made, target) == expected["target_pixels"]
        labels = torch.full_like(labels, target)
    trajectory = [mean_cross_entropy(points, labels) for points in [*recorder.seen, made]]
    for actual, wanted in zip(trajectory, expected["loss_trajectory_per_image"], strict=True):
        close(torch.tensor(actual), wanted, absolute=1e-6)


ARNAB: dict[str, tuple[str, dict[str, Any]]] = {
    "fgsm": ("fgsm", {"labels": "prediction"}),
    "fgsm_ll": ("fgsm-ll", {}),
    "fgsm_2nd": ("fgsm-nth", {"rank": 2}),
    "ifgsm": ("ifgsm", {}),
    "ifgsm_ll": ("ifgsm-ll", {}),
}


@pytest.mark.parametrize("levels", section("arnab_no_box_clip"))
@pytest.mark.parametrize("name", ARNAB)
def test_arnab(levels: str, name: str) -> None:
    expected = section("arnab_no_box_clip")[levels][name]
    attack, own = ARNAB[name]
    made = build(attack, epsilon=expected["eps_255"] / 255, box=False, **own)
    assert made.steps == expected["T"]
    check_images(made(network, IMAGES, LABELS).images, expected)


def test_padam_ce() -> None:
    expected = section("padam_200_lr2_255_clean_start")["padam_ce"]
    check_images(build("padam-ce", random_start=False)(network, IMAGES, LABELS).images, expected)


def test_padam_cos() -> None:
    expected = section("padam_200_lr2_255_clean_start")["padam_cos"]
    # The reference takes the mean over the batch of two as well, which Adam's constant feels.
    losses.add("halved-cosine", PixelLoss(lambda pixels: logit_cosine(pixels) / 2))
    made = ProjectedAdam(name="x", rule="amsgrad", steps=200, loss="halved-cosine", reduction="mean")
    check_images(made(network, IMAGES, LABELS).images, expected)
    # As we define it, per image and summed over pixels, the outcome is the same in pixels.
    assert correct(build("padam-cos", random_start=False)(network, IMAGES, LABELS).images) == expected["correct_pixels"]


LOSS_NAMES = {
    "ce-avg": "ce",
    "mask-ce-avg": "mce",
    "segpgd-loss": "segpgd",
    "js-avg": "jsd",
    "mask-norm-corrlog-avg": "msl",
}


@pytest.mark.parametrize("name", section("apgd_fixed_radius_clean_start"))
def test_apgd(name: str) -> None:
    expected = section("apgd_fixed_radius_clean_start")[name]
    loss = LOSS_NAMES[name.split("|")[0]]
    outcome = attacked("apgd", True, loss=loss, steps=expected["n_iter"], random_start=False)
    labels, rows = labels_of(name), rows_of(name)
    check_images(outcome.images[rows], expected, labels)
    counted = (labels != 255).flatten(1).sum(1)
    assert (counted - outcome.fooled[rows]).tolist() == expected["correct_pixels"]


@pytest.mark.parametrize(("returns", "point"), [("best", "best_acc_point"), ("best-loss", "best_loss_point")])
def test_apgd_l2(returns: str, point: str) -> None:
    expected = section("sea_radius_reduction_clean_start")["L2_eps0.5_mask-ce-avg_fixed_radius"][point]
    attack = build("apgd", norm="l2", epsilon=0.5, loss="mce", random_start=False, returns=returns)
    check_images(attack(network, IMAGES, LABELS).images, expected)


@pytest.mark.parametrize("loss", ["ce", "msl"])
def test_apgd_trace(loss: str) -> None:
    expected = section("apgd_trace")[loss]
    recorder = Recorder()
    attack = build("apgd", loss=loss, random_start=False)
    outcome = attack(recorder, IMAGES, LABELS)
    wanted = expected["tracked_loss_after_step_per_image"]
    for step, points in enumerate(recorder.seen[1 : len(wanted[0]) + 1]):
        if loss == "ce":
            actual = torch.tensor(mean_cross_entropy(points, LABELS))
        else:
            logits = network(points)
            own = logits.gather(1, LABELS.unsqueeze(1)).squeeze(1)
            sphere = own / torch.linalg.vector_norm(logits, dim=1) * (logits.argmax(1) == LABELS)
            actual = -sphere.flatten(1).mean(1)
        close(actual, [each[step] for each in wanted], absolute=1e-6)
    halvings = [sum(each[1][image] for each in expected["checks_[iteration, halved per image]"]) for image in range(2)]
    assert outcome.details["halvings"] == halvings


SEA_NAMES = {"mask-ce-bal": "sea-mce-bal", "mask-ce-avg": "sea-mce", "js-avg": "sea-jsd"}


def test_sea() -> None:
    accuracies = []
    for name, attack in SEA_NAMES.items():
        own = {"class_weights": [(1 + c) / 15 for c in range(CLASSES)]} if name == "mask-ce-bal" else {}
        made = build(attack, steps=100, random_start=False, **own)(network, IMAGES, LABELS).images
        check_images(made, section("sea_radius_reduction_clean_start")[name])
        accuracies.append(torch.tensor(correct(made)) / 256)
    table = torch.stack(accuracies)
    assert table.tolist() == section("sea_aggregate")["acc_matrix_attack_by_image"]
    assert float(table.amin(0).mean()) == section("sea_aggregate")["worst_case_aAcc"]


def min_norm_options(name: str) -> tuple[str, dict[str, Any]]:
    parts = name.split("|")[0].split("_")
    options: dict[str, Any] = {"threshold": float(next(each for each in parts if each.startswith("thr"))[3:])}
    if parts[0] == "dag":
        # The reference returns the clean image where it fails.
        return "dag", {**options, "gamma": float(parts[1][5:]), "on_fail": "clean"}
    if parts[0] == "alma":
        return "alma-prox", {**options, "penalty_grad": "exact" if "exact" in parts else "reference"}
    return parts[0], options


# What differs from an entry that stays is the share alone, which the closed forms are asked with too.
RARE = ("dag_gamma0.001_thr0.99_200it", "pdpgd_linf_primal0.01_thr0.99_500it")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=pytest.mark.slow if each in RARE else ())
        for each in section("min_norm")
        if not each.startswith("alma")
    ],
)
def test_minimum_norm(name: str) -> None:
    entries = section("min_norm")
    expected = entries[name]
    attack, options = min_norm_options(name)
    labels, rows, both = labels_of(name), rows_of(name), has_void_twin(name, entries)
    outcome = attacked(attack, both, **options)
    images, norms, share = (each[rows] for each in (outcome.images, outcome.norms, outcome.share))
    if attack == "dag":
        check_images(images, expected, labels)
    else:
        norm = "l2" if attack == "pdgd" else "linf"
        close(norms, expected[norm], relative=1e-4)
        close(torch.tensor(correct(images, labels)).double(), expected["correct_pixels"], absolute=1 + 1e-9)
    close(share, expected["adv_fraction"], absolute=1.001 / 232)
    assert outcome.success[rows].tolist() == [share >= options["threshold"] for share in expected["adv_fraction"]]
    if attack == "dag":
        for clip, key in (("elementwise", "elementwise_clip"), ("rescale", "rescale")):
            clipped = attacked(attack, both, epsilon=EPSILON, clip=clip, **options)
            assert correct(clipped.images[rows], labels) == expected[f"after_{key}_8_255_correct"]
            assert torch.equal(clipped.norms[rows], norms)


ALMA_TOLERANCES = {0.5: {"exact": 0.03, "reference": 0.10}, 0.9: {"exact": 0.15, "reference": 0.15}}


@pytest.mark.slow
@pytest.mark.parametrize("name", [each for each in section("min_norm") if each.startswith("alma")])
def test_alma_prox(name: str) -> None:
    entries = section("min_norm")
    expected = entries[name]
    attack, options = min_norm_options(name)
    outcome = attacked(attack, has_void_twin(name, entries), **options)
    rows, threshold = rows_of(name), options["threshold"]
    if threshold in ALMA_TOLERANCES:
        close(outcome.norms[rows], expected["linf"], relative=ALMA_TOLERANCES[threshold][options["penalty_grad"]])
    close(outcome.share[rows], expected["adv_fraction"], absolute=0.05 if threshold == 0.99 else 0.03)


def problem_of(images: torch.Tensor, labels: torch.Tensor) -> Problem:
    return pose_pixels(network, images, labels, Request())


@pytest.mark.parametrize("image", [0, 1])
def test_alma_trace(image: int) -> None:
    expected = section("alma_trace_thr0.9_T500")
    wanted = expected["per_image"][image]
    part = slice(image, image + 1)
    problem = problem_of(IMAGES[part], LABELS[part])
    attack = AlmaProx(name="alma-prox", threshold=0.9, penalty_grad="reference")
    state = AlmaState.initial(problem, torch.zeros_like(problem.images), attack.steps)
    kept = Smallest(problem, "linf", 0.9)
    for step in range(50):
        before = float(state.shift.abs().max())
        attack.iterate(problem, state, kept, step)
        if step not in expected["iterations_0based"]:
            continue
        actual = {
            "mean_constraint": float(state.constraint.mean()),
            "mean_mu": float(state.multiplier.mean()),
            "mean_rho": float(state.rho.mean()),
            "w": float(state.weight),
            "mean_H": float(state.metric.mean()),
            "lambda": float(state.rate),
            "linf_before_step": before,
        }
        index = expected["iterations_0based"].index(step)
        for key, value in actual.items():
            assert value == pytest.approx(wanted[key][index], rel=1e-3, abs=1e-3), (step, key)


RONY: dict[str, dict[str, Any]] = {
    "pgd_linf_ce_40it_rel0.0333": {"loss": "ce", "epsilon": EPSILON},
    "pgd_linf_dlr_40it_rel0.0333": {"loss": "dlr", "epsilon": EPSILON},
    "pgd_l2_ce_eps0.5_40it": {"norm": "l2", "epsilon": 0.5},
}


@pytest.mark.parametrize("name", RONY)
def test_rony_pgd(name: str) -> None:
    options = RONY[name]
    attack = GradientAttack(
        name="bim", alpha=options["epsilon"] * 0.1 / 3, steps=40, returns="best", evaluate_last=False, **options
    )
    check_images(attack(network, IMAGES, LABELS).images, section("rony_pgd_best_fraction")[name])


def test_mifgsm() -> None:
    expected = section("rony_pgd_best_fraction")["mifgsm_mu1_20it"]
    check_images(build("mifgsm", evaluate_last=False)(network, IMAGES, LABELS).images, expected)


@pytest.mark.parametrize("threshold", [0.9, 0.5])
def test_minimal_pgd(threshold: float) -> None:
    expected = section("rony_pgd_best_fraction")[f"minimal_pgd_linf_ce_13x40_thr{threshold}"]
    outcome = build("minimal-pgd", threshold=threshold)(network, IMAGES, LABELS)
    check_images(outcome.images, expected)
    assert outcome.success.all()


def test_curves() -> None:
    curves = section("sanity_curves")
    for key, expected in curves["bim_linf_8_255_alpha0.01_vs_steps_correct_pixels"].items():
        attack = build("bim", steps=int(key[2:]))
        assert correct(attack(network, IMAGES, LABELS).images) == expected
    for key, expected in curves["bim_linf_40steps_alpha_2.5eps_over_T_vs_eps_correct_pixels"].items():
        levels = float(key[4:].split("/")[0])
        attack = build("bim", epsilon=levels / 255, steps=40, alpha=2.5 * levels / 255 / 40 or 1)
        assert correct(attack(network, IMAGES, LABELS).images) == expected


def test_region_aware() -> None:
    expected = section("region_multi_attack_spec_run")
    region = {"box": [5, 5, 11, 11]}
    options = {"epsilon": expected["eps"], "alpha": expected["alpha"], "steps": expected["T"], "region": region}
    outcome = build("region-aware", rounds=expected["N_att"], **options)(network, IMAGES, LABELS)
    inside = torch.zeros(16, 16, dtype=torch.bool)
    inside[5:11, 5:11] = True
    log = expected["log"]
    assert outcome.details["fooling_pixels"] == [[each["fooling_pixels"][n] for each in log] for n in range(2)]
    assert outcome.details["newly_fooled"] == [[each["newly_fooled"][n] for each in log] for n in range(2)]
    for each, entry in zip(outcome.rounds, log, strict=True):
        assert [256 - actual for actual in correct(each.images)] == entry["single_attack_wrong"]
        assert torch.equal(each.images[:, :, ~inside], IMAGES[:, :, ~inside])
    assert outcome.predictions is not None
    wrong = outcome.predictions != LABELS
    assert wrong.flatten(1).sum(1).tolist() == expected["cumulative_wrong"] == outcome.fooled.tolist()
    right = ~wrong
    close(right[:, ~inside].double().mean(1), expected["A_outside_adv"], relative=1e-6)
    close(right[:, inside].double().mean(1), expected["A_inside_adv"], absolute=1e-9)
    clean = (network(IMAGES).argmax(1) == LABELS)[:, ~inside].double().mean()
    error = float((clean - right[:, ~inside].double().mean()) / clean)
    assert error == pytest.approx(expected["RCE_outside"], rel=1e-6)
    literal = build("region-aware", rounds=3, literal=True, **options)(network, IMAGES, LABELS)
    assert literal.fooled.tolist() == expected["literal_line14_cumulative_wrong"]


@pytest.mark.parametrize("name", ["bim", "segpgd", "cospgd", "fgsm", "padam-ce", "apgd"])
def test_single_precision(name: str) -> None:
    """In float32 the same attacks land within two pixels per image."""
    attack = build(name, random_start=False, **({} if name == "fgsm" else {"steps": 20}))
    actual = correct(attack(network, IMAGES.float(), LABELS).images.double())
    wanted = correct(attack(network, IMAGES, LABELS).images)
    assert all(abs(one - other) <= 2 for one, other in zip(actual, wanted, strict=True))

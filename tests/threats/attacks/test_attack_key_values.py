"""The table of docs/specs/attacks.md, section 17, written out: correct pixels of 256 per image (clean 235, 236)."""

from __future__ import annotations

from typing import Any

import pytest
from attack_fixture import (
    EPSILON,
    FORMULA_START,
    IMAGES,
    LABELS,
    REFERENCE,
    VOID_LABELS,
    at_class,
    correct,
    network,
)

from gauntlet.threats.attacks import build


def run(name: str, **options: Any) -> list[int]:
    options.setdefault("random_start", False)
    return correct(build(name, **options)(network, IMAGES, LABELS).images)


def test_clean() -> None:
    assert correct(IMAGES) == [235, 236]


@pytest.mark.parametrize(
    ("name", "linf", "void", "l2", "targeted"),
    [
        ("bim", [144, 141], [129, 126], [197, 199], [72, 69]),
        ("segpgd", [144, 133], [130, 115], [198, 198], [74, 72]),
        ("cospgd", [142, 135], [128, 110], [199, 200], [62, 66]),
    ],
)
def test_sign_family(name: str, linf: list[int], void: list[int], l2: list[int], targeted: list[int]) -> None:
    attack = build(name, epsilon="8/255", alpha=0.01, steps=20, random_start=False)
    assert correct(attack(network, IMAGES, LABELS).images) == linf
    assert correct(attack(network, IMAGES, VOID_LABELS).images, VOID_LABELS) == void
    assert at_class(attack(network, IMAGES, LABELS, target=1).images, 1) == targeted
    assert run(name, norm="l2", epsilon="64/255", alpha=0.1) == l2


def test_fgsm_and_formula_start() -> None:
    assert run("fgsm") == [148, 141]
    attack = build("pgd", epsilon=EPSILON)
    assert correct(attack(network, IMAGES, LABELS, start=FORMULA_START).images) == [146, 139]


def test_arnab() -> None:
    options: dict[str, Any] = {"epsilon": "4/255", "box": False}
    assert run("fgsm", labels="prediction", **options) == [185, 180]
    assert run("fgsm-ll", **options) == [224, 218]
    assert run("fgsm-nth", rank=2, **options) == [186, 194]
    assert run("ifgsm", **options) == [185, 180]
    assert run("ifgsm-ll", **options) == [224, 220]
    assert build("ifgsm", epsilon="4/255").steps == 20
    assert build("ifgsm", epsilon="4/255").alpha == 1 / 255


def test_dag() -> None:
    outcome = build("dag", gamma=0.003)(network, IMAGES, LABELS)
    assert (outcome.norms * 255).tolist() == pytest.approx([54.910, 43.699], abs=1e-3)
    assert outcome.success.all()
    failing = build("dag", gamma=0.001, on_fail="clean")(network, IMAGES, LABELS)
    assert correct(failing.images) == [235, 236]
    assert not failing.success.any()
    assert failing.norms.tolist() == [0, 0]
    for clip, expected in (("elementwise", [194, 187]), ("rescale", [225, 214])):
        assert (
            correct(build("dag", gamma=0.003, epsilon="8/255", clip=clip)(network, IMAGES, LABELS).images) == expected
        )


def test_dag_returns_its_last_point_by_default() -> None:
    outcome = build("dag", gamma=0.001)(network, IMAGES, LABELS)
    assert not outcome.success.any()
    assert all(actual < clean for actual, clean in zip(correct(outcome.images), [235, 236], strict=True))
    assert (outcome.norms > 0.05).all()
    assert (256 - outcome.fooled).tolist() == correct(outcome.images)


def test_region_aware() -> None:
    options: dict[str, Any] = {"epsilon": "32/255", "steps": 50, "rounds": 3, "region": {"square": {"size": 6}}}
    outcome = build("region-aware", **options)(network, IMAGES, LABELS)
    assert outcome.predictions is not None
    assert (outcome.predictions != LABELS).flatten(1).sum(1).tolist() == [86, 86]
    literal = build("region-aware", literal=True, **options)(network, IMAGES, LABELS)
    assert literal.fooled.tolist() == [80, 81]


def test_epsilon_curve() -> None:
    accuracies = [
        run("bim", epsilon=levels / 255, steps=40, alpha=2.5 * levels / 255 / 40)[0]
        for levels in (1, 2, 4, 8, 16, 32, 64, 128, 255)
    ]
    assert accuracies == [215, 204, 189, 148, 99, 53, 27, 15, 13]


def test_the_long_runs_of_the_table_are_those_of_the_reference_file() -> None:
    """test_attack_reference.py runs each of them and compares it with the file."""

    def pixels(section: str, *names: str) -> list[list[int]]:
        return [REFERENCE[section][name]["correct_pixels"] for name in names]

    def grey_levels(section: str, name: str) -> list[float]:
        return [255 * value for value in REFERENCE[section][name]["linf"]]

    assert pixels("padam_200_lr2_255_clean_start", "padam_ce", "padam_cos") == [[146, 141], [151, 138]]
    losses = ("ce-avg", "mask-ce-avg", "segpgd-loss", "js-avg", "mask-norm-corrlog-avg")
    assert pixels("apgd_fixed_radius_clean_start", *losses) == [
        [144, 138],
        [138, 140],
        [135, 127],
        [144, 132],
        [144, 146],
    ]
    sea = pixels("sea_radius_reduction_clean_start", "mask-ce-bal", "mask-ce-avg", "js-avg")
    assert sea == [[143, 140], [141, 149], [133, 129]]
    assert sum(min(column) for column in zip(*sea, strict=True)) / 512 == pytest.approx(0.511719, abs=1e-6)
    l2 = REFERENCE["sea_radius_reduction_clean_start"]["L2_eps0.5_mask-ce-avg_fixed_radius"]
    assert [l2[point]["correct_pixels"] for point in ("best_acc_point", "best_loss_point")] == [[158, 159], [164, 165]]
    for name, expected in (
        ("pdpgd_linf_primal0.01_thr0.99_500it", [50.528, 43.170]),
        ("pdpgd_linf_primal0.01_thr0.9_500it", [32.229, 24.184]),
        ("alma_prox_lr0.001_thr0.5_500it_exact_penalty_derivative", [9.989, 9.865]),
        ("alma_prox_lr0.001_thr0.5_500it", [14.85, 11.64]),
    ):
        assert grey_levels("min_norm", name) == pytest.approx(expected, rel=1e-3)
    assert REFERENCE["min_norm"]["pdgd_l2_primal0.01_thr0.9_500it"]["l2"] == pytest.approx([2.4913, 2.1885], rel=1e-4)
    minimal = grey_levels("rony_pgd_best_fraction", "minimal_pgd_linf_ce_13x40_thr0.5")
    assert minimal == pytest.approx([10.085, 9.525], abs=1e-3)

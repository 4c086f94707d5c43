"""A value that only makes sense on the other scale of pixels is refused, with both readings in the sentence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models.wrapping import WrappedSegmentation
from gauntlet.threats import build_threat
from gauntlet.threats.compat.detecbench import attacks
from gauntlet.threats.fitted.patch import PatchRule
from gauntlet.threats.fitted.universal import UniversalRule


def semsegbench(**options: Any) -> dict[str, Any]:
    return {"threat_model": "PGD", "iterations": 1, **options}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epsilon": "8/255"}, r"epsilon '8/255' has two readings .*0\.0314 grey levels, .* written 8 there"),
        ({"epsilon": 8 / 255}, "two readings .* written 8 there"),
        ({"epsilon": 0.03}, r"two readings .* written 7\.65 there"),
        ({"epsilon": 0.251, "lp_norm": "L2"}, r"two readings .* written 64\.005 there"),
        ({"epsilon": 300}, r"must lie in \[0, 255\]"),
        ({"alpha": 2.55}, r"alpha 2\.55 .* would be 650\.25 grey levels; as grey levels it is 0\.01"),
        ({"alpha": 1}, "alpha 1 .* would be 255 grey levels"),
        ({"alpha": 25.5, "lp_norm": "L2", "epsilon": 64}, "as grey levels it is 0.1"),
    ],
)
def test_a_semsegbench_file_on_the_other_scale_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(GauntletError, match=said):
        build_threat(semsegbench(**options))


def test_a_semsegbench_file_as_published_is_taken() -> None:
    linf = build_threat(semsegbench(epsilon=8, alpha=0.01)).describe()["attack"]
    assert (linf["epsilon"], linf["alpha"]) == (8 / 255, 0.01)
    assert build_threat(semsegbench(epsilon="8", alpha="2.55/255")).describe()["attack"]["alpha"] == 2.55 / 255
    l2 = build_threat(semsegbench(epsilon=64, alpha=0.1, lp_norm="L2")).describe()["attack"]
    assert (l2["epsilon"], l2["alpha"]) == (64 / 255, 0.1)
    for levels in (0, 0.25, 0.5, 32):
        assert build_threat(semsegbench(epsilon=levels)).describe()["attack"]["epsilon"] == levels / 255


@pytest.mark.parametrize(
    "options",
    [{"epsilon": "8/255"}, {"epsilon": 0.0314}, {"alpha": 0.01}, {"alpha": "2.55/255"}, {"alpha": 0.1, "norm": "two"}],
)
def test_detecbench_calls_on_the_other_scale_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(GauntletError, match=r"two readings in DetecBench's call: .* grey levels"):
        attacks.PGD(**options)


def test_detecbench_calls_as_published_are_taken() -> None:
    described = attacks.PGD(epsilon=8, alpha=2.55).describe()["attack"]
    assert (described["epsilon"], described["alpha"]) == (8 / 255, 0.01)


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        ({"epsilon": 8}, r"epsilon must lie in \[0, 1\], it is 8: .* as grey levels it is '8/255' \(0\.03137\)"),
        ({"epsilon": 0.1, "alpha": 2.55}, r"alpha must lie in .* '2\.55/255' \(0\.01\)"),
        ({"epsilon": 64, "norm": "l2"}, r"epsilon 64 has two readings in l2: .*'64/255' \(0\.251\).* written 64\.0"),
        ({"epsilon": "128", "norm": "l2"}, "two readings in l2"),
        ({"epsilon": 0.5, "alpha": 26, "norm": "l2"}, "alpha 26 has two readings"),
    ],
)
def test_attacks_on_the_other_scale_are_refused(attack: dict[str, Any], said: str) -> None:
    with pytest.raises(GauntletError, match=said):
        build_threat({"attack": {"name": "pgd", **attack}})


def test_a_long_l2_budget_is_taken_as_it_is_described() -> None:
    threat = build_threat({"attack": {"name": "pgd", "norm": "l2", "epsilon": 64.0, "alpha": 20.0}})
    assert build_threat(threat.describe()).describe() == threat.describe()


@given(levels=st.integers(2, 255), norm=st.sampled_from(["linf", "l2"]))
def test_whole_grey_levels_are_never_taken_for_a_share(levels: int, norm: str) -> None:
    if norm == "linf" or levels >= 16:
        with pytest.raises(GauntletError, match=f"'{levels}/255'"):
            build_threat({"attack": {"name": "fgsm", "norm": norm, "epsilon": levels}})
    written = build_threat({"attack": {"name": "fgsm", "norm": norm, "epsilon": f"{levels}/255"}})
    assert written.describe()["attack"]["epsilon"] == levels / 255
    filed = build_threat({"threat_model": "FGSM", "epsilon": levels, "lp_norm": norm})
    assert filed.describe()["attack"]["epsilon"] == levels / 255


def test_fitted_threats_on_the_other_scale_are_refused() -> None:
    with pytest.raises(GauntletError, match="'10/255'"):
        UniversalRule(epsilon=10)
    with pytest.raises(GauntletError, match="'2/255'"):
        UniversalRule(alpha=2)
    with pytest.raises(GauntletError, match="'2/255'"):
        PatchRule(rate=2)


@pytest.mark.parametrize("severity", [0.6, 0.2])
def test_a_share_is_no_severity(severity: float) -> None:
    said = f"not {severity}; as a share of the strongest it would be severity {round(5 * severity)}"
    with pytest.raises(GauntletError, match=said):
        build_threat({"corruption": {"name": "fog", "severity": severity}})
    with pytest.raises(GauntletError, match=said):
        build_threat({"threat_model": "2DCommonCorruptions", "severity": severity})


def test_a_percentage_is_no_ratio() -> None:
    corruption = {"name": "fog", "severity": 1}
    with pytest.raises(GauntletError, match=r"ratio must lie in \[0, 1\], not 50.0; for 50 % write 0\.5"):
        build_threat({"localized": {"corruption": corruption, "ratio": 50, "patch": 32}})


@pytest.mark.parametrize(
    ("mean", "std", "said"),
    [
        ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375), r"write mean=\(0\.485, 0\.456, 0\.406\), std=\(0\.229"),
        ((127.5,) * 3, (0.5,) * 3, "are of grey levels"),
        ((0.0,) * 3, (255.0,) * 3, r"write std=\(1, 1, 1\)"),
    ],
)
def test_a_normalisation_of_grey_levels_is_refused(mean: tuple[float, ...], std: tuple[float, ...], said: str) -> None:
    with pytest.raises(GauntletError, match=said):
        gauntlet.wrap_model(nn.Conv2d(3, 2, 1), num_classes=2, mean=mean, std=std)


def test_published_normalisations_of_images_in_zero_to_one_are_taken() -> None:
    for mean, std in [((0.485,) * 3, (0.229,) * 3), ((0.41,) * 3, (1 / 255,) * 3), ((0.43,) * 3, (72.1,) * 3)]:
        model = gauntlet.wrap_model(nn.Conv2d(3, 2, 1), num_classes=2, mean=mean, std=std)
        assert isinstance(model, WrappedSegmentation)
        assert model.normalisation.std.flatten().tolist() == pytest.approx(list(std))

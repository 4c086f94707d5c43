"""Certified segmentation: tests, corrections, figures (docs/specs/defences.md, 6)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauntlet.errors import GauntletError
from gauntlet.metrics import WHOLE, CertificationMetric
from gauntlet.metrics.certification import Votes, certified_radius, needed_samples, p_values, rejected
from paths import DATA

REFERENCE: dict[str, Any] = json.loads((DATA / "defence_reference.json").read_text())["smoothing"]
ALPHA = 0.001
NAMES = {
    "bonferroni": ("bonferroni", 0),
    "holm": ("holm", 0),
    "k_fwer_5_lehmann_romano": ("holm", 4),
    "none": ("none", 0),
}


Whole = npt.NDArray[np.int64]


def fixture_votes(samples: int) -> tuple[Whole, Whole, Whole]:
    """Votes (768, 4) of both stages and labels (768) of the 24 x 32 fixture, by the formula in the reference file."""
    p = np.arange(24 * 32)
    a = (p // 5) % 4
    t = np.where(p % 11 == 0, 60 + (37 * p) % 31, 92 + (37 * p) % 9)
    first = np.zeros((len(p), 4), np.int64)
    b = np.where(p % 29 == 0, a + 1, a) % 4
    for pixel in p:
        if pixel % 31 == 0:
            first[pixel, a[pixel]] += 5
            first[pixel, (a[pixel] + 3) % 4] += 5
        else:
            first[pixel, b[pixel]] += 8
            first[pixel, (b[pixel] + 1) % 4] += 2
    t = t if samples == 100 else np.minimum(5 * t + p % 5, 500)
    second = np.zeros((len(p), 4), np.int64)
    for pixel in p:
        rest = samples - t[pixel]
        second[pixel, a[pixel]] += t[pixel]
        second[pixel, (a[pixel] + 1) % 4] += 2 * rest // 3
        second[pixel, (a[pixel] + 2) % 4] += rest - 2 * rest // 3
    labels = np.where(p % 53 == 0, 255, np.where(p % 7 == 0, (a + 2) % 4, a))
    return first, second, labels


def fixture(samples: int) -> tuple[Whole, Whole, Whole]:
    """Chosen classes, votes for them and labels of the fixture, (24, 32) each."""
    first, second, labels = fixture_votes(samples)
    top = first.argmax(axis=1)
    return top.reshape(24, 32), second[np.arange(768), top].reshape(24, 32), labels.reshape(24, 32)


def checksum(top: npt.NDArray[np.int64], certified: npt.NDArray[np.bool_]) -> int:
    """The sum of (class + 1) * (p mod 97 + 1) over certified pixels p."""
    weights = np.arange(top.size) % 97 + 1
    return int(((top.reshape(-1) + 1) * weights)[certified.reshape(-1)].sum())


def test_votes_of_the_fixture() -> None:
    first, second, labels = fixture_votes(100)
    found = {
        "stage1_class_counts": np.bincount(first.argmax(axis=1), minlength=4).tolist(),
        "stage2_sum_per_class": second.sum(axis=0).tolist(),
        "label_counts": np.bincount(labels[labels != 255], minlength=4).tolist(),
        "void": int((labels == 255).sum()),
    }
    assert found == REFERENCE["votes"]


CASES = [(samples, tau, name) for samples in (100, 500) for tau in (0.75, 0.9, 0.95) for name in NAMES]


@pytest.mark.parametrize(("samples", "tau", "name"), CASES)
def test_reference_values(samples: int, tau: float, name: str) -> None:
    expected = REFERENCE[f"n {samples}/tau {tau}"]
    correction, tolerated = NAMES[name]
    top, hits, labels = fixture(samples)
    p = p_values(hits, samples, tau)
    assert p.min() == pytest.approx(expected["smallest_p"], rel=1e-9)
    assert p.sum() == pytest.approx(expected["sum_p"], rel=1e-9)
    assert certified_radius(1.0, tau) == pytest.approx(expected["radius_over_sigma"], rel=1e-9)
    certified = rejected(p, ALPHA, correction, tolerated)
    wanted = expected[name]
    assert int(certified.sum()) == wanted["certified_pixels"]
    assert checksum(top, certified) == wanted["checksum"]
    smallest = int(hits[certified].min()) if certified.any() else None
    assert smallest == wanted["smallest_certified_count"]
    metric = CertificationMetric(
        list("abcd"), sigma=0.25, tau=(tau,), alpha=ALPHA, correction=correction, tolerated=tolerated
    )
    votes = metric.update(Votes(top, hits, top, samples), labels)
    figures = {each.metric: each.value for each in metric.compute([votes], WHOLE) if each.view == "all"}
    assert figures["certified_accuracy"] == pytest.approx(wanted["certified_accuracy"], rel=1e-9)
    assert figures["abstention"] == pytest.approx(wanted["abstention"], rel=1e-9)
    assert figures["certified_mIoU"] == pytest.approx(wanted["certified_miou"], rel=1e-9)
    by_class = [
        each.value for each in metric.compute([votes], WHOLE) if each.view == "all" and each.metric == "certified_IoU"
    ]
    assert by_class == pytest.approx(wanted["certified_iou"], rel=1e-9)
    table = metric.tables([votes])[f"tau {tau:g}"]
    found = [int(each.sum()) for each in (table.predicted, table.true_positives, table.ground_truth)]
    assert found == [wanted["certified_valid"], wanted["certified_correct"], wanted["valid"]]
    # Public code counts abstention as one more class, whose IoU is 0.
    assert wanted["miou_with_abstain_class"] == pytest.approx(figures["certified_mIoU"] * 4 / 5, rel=1e-9)


@pytest.mark.parametrize("samples", [100, 500])
@pytest.mark.parametrize("tau", [0.75, 0.9, 0.95])
@pytest.mark.parametrize("correction", ["bonferroni", "holm"])
def test_a_family_of_32_pixels(samples: int, tau: float, correction: str) -> None:
    top, hits, _ = fixture(samples)
    expected = REFERENCE[f"n {samples}/tau {tau}"]["first_32_pixels"][correction]
    certified = rejected(p_values(hits.reshape(-1)[:32], samples, tau), ALPHA, correction)
    assert {"certified": int(certified.sum()), "checksum": checksum(top.reshape(-1)[:32], certified)} == expected


def public_code_rejects(p: npt.NDArray[np.float64], alpha: float, k: int) -> list[bool]:
    """What the public k-FWER code rejects: its bound is k alpha / (N - i + 1), the theorem's k alpha / (N + k - i)."""
    count, ranks = len(p), np.arange(1, len(p) + 1)
    bounds = k * alpha / np.where(ranks <= k, count, count - ranks + 1)
    order = np.argsort(p, kind="stable")
    kept = np.minimum.accumulate(p[order] <= bounds)  # until the first failure
    found = np.zeros(count, np.bool_)
    found[order[kept]] = True
    return list(map(bool, found))


@pytest.mark.parametrize("samples", [100, 500])
@pytest.mark.parametrize("tau", [0.75, 0.9, 0.95])
def test_the_public_codes_larger_bound_certifies_no_other_pixel_here(samples: int, tau: float) -> None:
    top, hits, _ = fixture(samples)
    p = p_values(hits, samples, tau).reshape(-1)
    expected = REFERENCE[f"n {samples}/tau {tau}"]
    public = public_code_rejects(p, ALPHA, 5)
    assert sum(public) == expected["k_fwer_5_as_published_code"]["certified_pixels"]
    assert checksum(top, np.array(public)) == expected["k_fwer_5_as_published_code"]["checksum"]
    assert rejected(p, ALPHA, "holm", 4).tolist() == public
    assert expected["k_fwer_5_as_published_code"] == expected["k_fwer_5_lehmann_romano"]


def test_corrections_by_hand() -> None:
    hand = REFERENCE["hand"]
    p, alpha = np.array(hand["p_values"]), hand["alpha"]
    expected = hand["rejected"]
    assert rejected(p, alpha, "bonferroni").tolist() == list(map(bool, expected["bonferroni"]))
    assert rejected(p, alpha, "holm").tolist() == list(map(bool, expected["holm"]))
    assert rejected(p, alpha, "holm", 1).tolist() == list(map(bool, expected["k2_lehmann_romano"]))
    assert rejected(p, alpha, "holm", 3).tolist() == list(map(bool, expected["k4_lehmann_romano"]))
    for k in (2, 4):  # the public code's bound is larger than the theorem's
        assert public_code_rejects(p, alpha, k) == list(map(bool, expected[f"k{k}_as_published_code"]))
        assert expected[f"k{k}_lehmann_romano"] != expected[f"k{k}_as_published_code"]


@pytest.mark.parametrize(
    ("pixels", "needed"),
    [(768, (48, 129, 265, 1349)), (512 * 1024, (70, 191, 392, 1998)), (1024 * 2048, (75, 204, 419, 2136))],
)
def test_votes_that_it_takes_to_certify_anything(pixels: int, needed: tuple[int, ...]) -> None:
    assert tuple(needed_samples(tau, ALPHA, pixels) for tau in (0.75, 0.9, 0.95, 0.99)) == needed


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0.001, 0.5), st.randoms())
def test_holm_rejects_all_that_bonferroni_does_in_any_order(values: list[float], alpha: float, random: Any) -> None:
    p = np.array(values)
    holm = rejected(p, alpha, "holm")
    assert np.all(holm >= rejected(p, alpha, "bonferroni"))
    order = list(range(len(p)))
    random.shuffle(order)
    assert np.array_equal(rejected(p[order], alpha, "holm"), holm[order])
    assert np.array_equal(rejected(p.reshape(1, -1), alpha, "holm")[0], holm)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60))
def test_a_larger_tau_certifies_less(hits: list[int]) -> None:
    sets = [rejected(p_values(np.array(hits), 100, tau), ALPHA) for tau in (0.6, 0.75, 0.9)]
    assert np.all(sets[0] >= sets[1])
    assert np.all(sets[1] >= sets[2])


def test_no_votes_at_all_prove_nothing() -> None:
    assert p_values(np.array([0]), 100, 0.75)[0] == 1.0


@pytest.mark.parametrize("classes", [4, 300])
def test_votes_survive_the_store(classes: int) -> None:
    generator = np.random.default_rng(0)
    maps = [generator.integers(0, bound, (5, 7)) for bound in (classes, 1001, classes, classes)]
    votes = Votes(maps[0], maps[1], maps[2], 1000, maps[3])
    again = Votes.from_bytes(votes.to_bytes())
    assert again.samples == 1000
    for name in ("top", "hits", "clean", "labels"):
        assert np.array_equal(getattr(again, name), getattr(votes, name))
    with pytest.raises(GauntletError, match="not written by Gauntlet"):
        Votes.from_bytes(b"nothing of ours, but long enough")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tau": (0.5,)}, "tau must be above 0.5"),
        ({"tau": (1.0,)}, "tau must be above 0.5"),
        ({"tau": ()}, "at least one tau"),
        ({"alpha": 0.0}, "alpha must be between 0 and 1"),
        ({"correction": "fdr"}, "correction must be one of"),
        ({"tolerated": -1}, "must not be negative"),
    ],
)
def test_bad_tests_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        CertificationMetric(list("ab"), sigma=0.25, **options)


def test_more_tolerated_pixels_than_there_are() -> None:
    with pytest.raises(GauntletError, match="only 3"):
        rejected(np.array([0.1, 0.2, 0.3]), 0.01, "holm", 3)

"""Calibration and failure detection against the reference values of docs/specs/beyond.md, section 1."""

from __future__ import annotations

import json
import math
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gauntlet.analysis.bravo import bravo_index, harmonic_mean
from gauntlet.evaluation.prediction import describe_logits, predict_dense
from gauntlet.metrics import REGION, WHOLE, DensePrediction, SegmentationMetric, Views
from gauntlet.metrics.segmentation import calibration
from gauntlet.metrics.segmentation.confidence_counts import ConfidenceCounts
from gauntlet.metrics.segmentation.counts import ImageCounts
from gauntlet.models import SegmentationModel, wrap_model
from gauntlet.results.record import Evaluation
from paths import DATA

REFERENCE = json.loads((DATA / "beyond_reference_1_to_4.json").read_text())["calibration"]
EXACT = 1e-9
FLOAT32 = 2e-6
VOID = 255
METRIC = SegmentationMetric(list("abcd"))
FloatArray = npt.NDArray[np.float64]


def fixture() -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Logits (3, 4, 6, 8) and labels (3, 6, 8) of the specification."""
    n, k, r, q = np.indices((3, 4, 6, 8)).astype(float)
    logits = 3 * np.sin(0.9 * k + 0.35 * r * (1 + 0.1 * n) + 0.5 * q) + 1.5 * np.cos(0.21 * r * q + 1.3 * k + 0.4 * n)
    probabilities = softmax(logits)
    confidence = probabilities.max(axis=1)
    n, r, q = np.indices((3, 6, 8))
    wrong = (((2 * r + 3 * q + n) % 3 == 0) & (confidence < 0.8)) | ((r * q + 2 * n) % 13 == 5)
    labels = (logits.argmax(axis=1) + wrong) % 4
    return logits, np.where((r + q + n) % 9 == 0, VOID, labels)


def softmax(logits: FloatArray) -> FloatArray:
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


LOGITS, LABELS = fixture()
PROBABILITIES = softmax(LOGITS)


def prediction(logits: FloatArray) -> DensePrediction:
    """What a model with logits (K, H, W) says, computed in float64."""
    probabilities = softmax(logits[None])[0]
    confidence = probabilities.max(axis=0)

    def scores(labels: npt.NDArray[np.integer]) -> tuple[Any, Any]:
        known = np.where(labels == VOID, 0, labels)
        truth = np.take_along_axis(probabilities, known[None], 0)[0]
        return -np.log(truth), (probabilities**2).sum(axis=0) - 2 * truth + 1

    with np.errstate(divide="ignore"):
        odds = np.log(confidence) - np.log(np.sort(probabilities, axis=0)[:-1].sum(axis=0))
    return DensePrediction(logits.argmax(axis=0), confidence, None, odds, scores)


def counts(region: npt.NDArray[np.bool_] | None = None, scale: float = 1.0) -> list[ImageCounts]:
    return [METRIC.update(prediction(scale * z), y, region) for z, y in zip(LOGITS, LABELS, strict=True)]


def stored_with_256_bins(images: list[ImageCounts]) -> list[ImageCounts]:
    """The counts as versions with 256 bins wrote them, read by this one."""
    return [ImageCounts.from_bytes(_old_bytes(each)) for each in images]


def _old_bytes(counts: ImageCounts) -> bytes:
    bare = ImageCounts(counts.confusion, counts.scalars).to_bytes()
    parts = counts.confidence
    assert parts is not None
    views = len(parts.bins)
    fine = parts.log_odds[..., :1024].reshape(views, 2, 256, 4).sum(axis=-1)
    fine[..., -1] += parts.log_odds[..., 1024:].sum(axis=-1)
    flat = np.concatenate([parts.bins.reshape(views, -1), fine.reshape(views, -1)], axis=1).reshape(-1)
    cells = np.flatnonzero(flat)
    section = struct.pack("<II", views, len(cells)) + np.diff(cells, prepend=0).astype("<u2").tobytes()
    section += flat[cells].astype("<u4").view(np.uint8).reshape(-1, 4).T.tobytes()
    section += parts.scores.astype("<f8").tobytes() + parts.confidence[parts.bins.any(axis=1)].tobytes()
    head = struct.calcsize("<4sIIII")
    payload = zlib.decompress(bare[head:]) + struct.pack("<4sI", b"CONF", len(section)) + section
    return bare[:head] + zlib.compress(payload)


def pooled(images: list[ImageCounts]) -> calibration.PooledConfidence:
    return calibration.pool([calibration.flat_row(each.confidence, 0) for each in images])


def headline(images: list[ImageCounts], views: Views = WHOLE) -> dict[str, float]:
    return {f.metric: f.value for f in METRIC.compute(images, views) if f.view == "all" and not f.class_name}


def unbinned() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Right and wrong pixels and the confidence at every confidence that occurs, rising."""
    valid = LABELS != VOID
    confidence = PROBABILITIES.max(axis=1)[valid]
    right = (LOGITS.argmax(axis=1) == LABELS)[valid]
    order = np.argsort(confidence)
    return right[order].astype(float), (~right[order]).astype(float), confidence[order]


def test_the_fixture_is_that_of_the_specification() -> None:
    valid = LABELS != VOID
    assert int(valid.sum()) == REFERENCE["pixels_valid"]
    assert int((LOGITS.argmax(axis=1) == LABELS)[valid].sum()) == REFERENCE["correct"]
    np.testing.assert_allclose(PROBABILITIES[0].max(axis=0)[0], REFERENCE["conf_first_image_row0"], atol=1e-11)
    rows = ["".join("." if value == VOID else str(value) for value in row) for row in LABELS[0]]
    assert rows == REFERENCE["labels_image0"]


def test_bins_are_those_of_the_reference() -> None:
    of_all, expected = pooled(stored_with_256_bins(counts())), REFERENCE["bins15_all_images"]
    assert (of_all.right + of_all.wrong)[0].tolist() == expected["count"]
    assert of_all.right[0].tolist() == expected["correct"]
    np.testing.assert_allclose(of_all.confidence[0], expected["sum_confidence"], atol=EXACT)
    occupied = np.flatnonzero((of_all.right_odds + of_all.wrong_odds)[0])
    found = [[int(j) // 4, int(of_all.right_odds[0, j]), int(of_all.wrong_odds[0, j])] for j in occupied]
    assert found == REFERENCE["gauntlet_bins256"]["nonzero_bins"]


def test_calibration_errors_are_those_of_the_references() -> None:
    of_all = pooled(counts()).figures()
    assert of_all["ECE"][0] == pytest.approx(REFERENCE["bravo_ece_reference_15"], abs=EXACT)
    peer = REFERENCE["torchmetrics_multiclass_calibration_error"]
    assert of_all["ECE"][0] == pytest.approx(peer["l1"], abs=1e-6)
    assert of_all["ECE_rms"][0] == pytest.approx(peer["l2"], abs=1e-6)
    assert of_all["ECE_max"][0] == pytest.approx(peer["max"], abs=1e-6)
    assert of_all["Brier"][0] == pytest.approx(REFERENCE["brier_multiclass_sum_over_classes"], abs=EXACT)
    assert of_all["NLL"][0] == pytest.approx(REFERENCE["nll_nats"], abs=EXACT)
    assert of_all["NLL"][0] == pytest.approx(REFERENCE["sklearn_log_loss"], abs=EXACT)
    single = [pooled([each]).figures()["ECE"][0] for each in counts()]
    np.testing.assert_allclose(single, REFERENCE["torchmetrics_l1_per_image"], atol=1e-6)


def test_other_bins_groups_and_classes() -> None:
    right, wrong, confidence = unbinned()
    assert calibration.adaptive_error(right, wrong, confidence) == pytest.approx(
        REFERENCE["adaptive_ece_equal_mass_15"], abs=EXACT
    )
    place = np.minimum((10 * confidence).astype(int), 9)
    of_ten = [np.bincount(place, each, 10) for each in (right, wrong, confidence)]
    assert calibration.calibration_errors(*of_ten)["ECE"] == pytest.approx(
        REFERENCE["torchmetrics_l1_10_bins"], abs=1e-6
    )
    valid = LABELS != VOID
    probabilities = np.moveaxis(PROBABILITIES, 1, -1)[valid]
    assert calibration.classwise_error(probabilities, LABELS[valid]) == pytest.approx(
        REFERENCE["classwise_ece"], abs=EXACT
    )
    for index, expected in enumerate(REFERENCE["classwise_ece_per_class"]):
        one = np.stack([probabilities[:, index]], axis=1)
        of_class = calibration.classwise_error(one, np.where(LABELS[valid] == index, 0, 1))
        assert of_class == pytest.approx(expected, abs=EXACT)


def test_curves_of_unbinned_pixels_are_those_of_sklearn_and_bravo() -> None:
    right, wrong, _ = unbinned()
    exact, bravo = REFERENCE["sklearn_exact"], REFERENCE["bravo_from_65536_levels"]
    assert calibration.auroc(right, wrong) == pytest.approx(exact["auroc"], abs=EXACT)
    assert calibration.auroc(right, wrong) == pytest.approx(bravo["auroc"], abs=2e-5)
    success = calibration.aupr(right, wrong, even=False)
    error = calibration.aupr(wrong[::-1], right[::-1], even=False)
    assert success == pytest.approx(exact["aupr_success"], abs=EXACT)
    assert error == pytest.approx(exact["aupr_error"], abs=EXACT)
    assert success == pytest.approx(bravo["auprc_success"], abs=2e-5)
    assert error == pytest.approx(bravo["auprc_error"], abs=2e-5)
    assert calibration.fpr_at_95(right, wrong) == pytest.approx(REFERENCE["fpr95_exact"], abs=EXACT)
    assert calibration.fpr_at_95(right, wrong) == pytest.approx(bravo["fpr95"], abs=2e-5)
    assert pooled(counts()).figures()["ECE"][0] == pytest.approx(bravo["ece15"], abs=2e-5)


def test_the_even_rule_is_near_the_exact_areas_on_many_pixels() -> None:
    """Confidences piled up near 1, as networks have them; exact is the mean precision at the positives, unbinned."""
    generator = np.random.default_rng(0)
    odds = generator.normal(4, 2.5, 200_000).clip(min=0)
    right = generator.random(len(odds)) < 1 / (1 + np.exp(-0.6 * odds))
    nothing = np.zeros(len(odds))
    said = DensePrediction(1 - right, 1 / (1 + np.exp(-odds)), None, odds, lambda labels: (nothing, nothing))
    of_image = SegmentationMetric(["a", "b"]).update(said, np.zeros(len(odds), int))
    found = pooled([of_image]).figures()
    for name, positive, order in (("AUPR_success", right, -odds), ("AUPR_error", ~right, odds)):
        ranked = positive[np.argsort(order, kind="stable")]
        exact = (np.cumsum(ranked) / np.arange(1, len(ranked) + 1))[ranked].mean()
        assert found[name][0] == pytest.approx(exact, abs=5e-4), name


def test_a_model_that_is_as_often_right_as_it_says_has_no_calibration_error() -> None:
    """Of the pixels with confidence k/20, k of 20 are right; with one right pixel more in each group it is 1/20."""
    levels = np.repeat(np.arange(11, 20) / 20, 20)
    place = np.tile(np.arange(20), 9)
    nothing = np.zeros(len(levels))
    for more, expected in ((0, 0.0), (1, 0.05)):
        right = place < np.round(20 * levels) + more
        said = DensePrediction(1 - right, levels, None, nothing, lambda labels: (nothing, nothing))
        errors = pooled([SegmentationMetric(["a", "b"]).update(said, np.zeros(len(levels), int))]).figures()
        assert [errors[name][0] for name in ("ECE", "ECE_max")] == pytest.approx([expected] * 2, abs=EXACT)
        assert errors["overconfidence"][0] == pytest.approx(0, abs=EXACT)


def test_figures_from_bins_are_those_of_the_specification() -> None:
    kept = stored_with_256_bins(counts())
    values, expected = headline(kept), REFERENCE["gauntlet_bins256"]
    for name in ("AUROC", "AUPR_success", "AUPR_error", "FPR95", "ECE", "overconfidence"):
        assert values[name] == pytest.approx(expected[name], abs=EXACT), name
    of_all = pooled(kept)
    right, wrong = of_all.right_odds[0], of_all.wrong_odds[0]
    assert calibration.aupr(right, wrong, even=False) == pytest.approx(expected["AUPR_success_step"], abs=EXACT)
    step = calibration.aupr(wrong[::-1], right[::-1], even=False)
    assert step == pytest.approx(expected["AUPR_error_step"], abs=EXACT)


@pytest.mark.parametrize("case", REFERENCE["bravo_test_cases"]["auroc"])
def test_areas_of_bravo(case: dict[str, Any]) -> None:
    assert calibration.auroc(case["right"], case["wrong"]) == pytest.approx(case["value"], abs=EXACT)


@pytest.mark.parametrize("case", REFERENCE["bravo_test_cases"]["aupr_success"])
def test_precision_recall_areas_of_bravo(case: dict[str, Any]) -> None:
    value = calibration.aupr(case["right"], case["wrong"], even=False)
    if not any(case["right"]):  # nothing to find: BRAVO says 0, which would look like a failure
        assert np.isnan(value)
    else:
        assert value == pytest.approx(case["value"], abs=EXACT)


@pytest.mark.parametrize("name", ["edge_case_confidences", "edge_case_one_has_its_own_bin"])
def test_certain_pixels_share_the_last_bin(name: str) -> None:
    case = REFERENCE[name]
    confidence, right = np.array(case["confidence"]), np.array(case["correct"])
    edges = np.round(15 * confidence) / 15  # the file gives 1/15 and 14/15 in twelve digits
    confidence = np.where(np.abs(confidence - edges) < 1e-9, edges, confidence)
    nothing = np.zeros(len(right))
    said = DensePrediction(1 - right, confidence, None, nothing, lambda labels: (nothing, nothing))
    of_image = SegmentationMetric(["a", "b"]).update(said, np.zeros(len(right), int))
    error = pooled([of_image]).figures()["ECE"][0]
    assert error == pytest.approx(case["bravo_reference"], abs=EXACT)
    assert abs(error - case["torchmetrics"]) > 0.01


REGION_OF_T1 = np.zeros((6, 8), bool)
REGION_OF_T1[:2, :3] = True


def frame_of_t1_and_t2() -> Any:
    import pandas as pd

    inside = stored_with_256_bins([METRIC.stack([each, each]) for each in counts(REGION_OF_T1)])
    figures = {"T1": METRIC.compute(inside, REGION), "T2": METRIC.compute(stored_with_256_bins(counts())[:2], WHOLE)}
    rows = [
        {"task": "segmentation", "model": "m", "dataset": "d", "threat": threat, "view": f.view, "metric": f.metric}
        | {"class_name": f.class_name, "value": f.value}
        for threat, each in figures.items()
        for f in each
    ]
    return pd.DataFrame(rows)


def test_the_index_from_bins_is_that_of_the_specification() -> None:
    frame, expected = frame_of_t1_and_t2(), REFERENCE["gauntlet_bins256"]["summary"]
    values = frame[frame["view"].eq("all") & frame["class_name"].eq("")].set_index(["threat", "metric"])["value"]
    names = ("mIoU", "ECE", "AUROC", "FPR95", "AUPR_success", "AUPR_error")
    for threat, suffix in (("T1", "_Mbar"), ("T2", "")):
        found = [values[threat, name + suffix] for name in names]
        found[1], found[3] = 1 - found[1], 1 - found[3]
        np.testing.assert_allclose(found, expected[f"{threat}_semantic"], atol=EXACT)
    region = [values["T1", f"{name}_region"] for name in ("AUROC", "AUPR", "FPR95")]
    np.testing.assert_allclose([region[0], region[1], 1 - region[2]], expected["T1_region"], atol=EXACT)
    row = bravo_index(frame).iloc[0]
    assert row["semantic_hmean"] == expected["semantic_hmean"] == 0
    assert row["ood_hmean"] == pytest.approx(expected["ood_hmean"], abs=EXACT)
    assert row["bravo_index"] == expected["bravo_index"] == 0
    assert row["zero"] == "FPR95 under T2"
    assert row["threats"] == "T1, T2"


def test_the_index_from_unbinned_figures_is_that_of_bravo() -> None:
    values = REFERENCE["bravo_summary_T1_region_split_T2_first_images"]
    names = ("miou", "auroc", "auprc_success", "auprc_error")
    semantic = {
        threat: [values[f"{threat}_{name}_valid"] for name in names]
        + [1 - values[f"{threat}_{name}_valid"] for name in ("ece", "fpr95")]
        for threat in ("T1", "T2")
    }
    region = [values["T1_auroc_ood"], values["T1_auprc_ood"], 1 - values["T1_fpr95_ood"]]
    assert harmonic_mean(semantic["T1"] + region) == pytest.approx(values["T1_hmean"], abs=EXACT)
    assert harmonic_mean(semantic["T2"]) == pytest.approx(values["T2_hmean"], abs=EXACT)
    whole = harmonic_mean(semantic["T1"] + semantic["T2"])
    assert whole == pytest.approx(values["semantic_hmean"], abs=EXACT)
    ood = harmonic_mean(region)
    assert ood == pytest.approx(values["ood_hmean"], abs=EXACT)
    assert harmonic_mean([whole, ood]) == pytest.approx(values["bravo_index"], abs=EXACT)


def test_unbinned_figures_outside_and_of_the_region_are_those_of_bravo() -> None:
    values = REFERENCE["bravo_summary_T1_region_split_T2_first_images"]
    right_map, confidence = LOGITS.argmax(axis=1) == LABELS, PROBABILITIES.max(axis=1)
    for threat, chosen in (
        ("T1", (LABELS != VOID) & ~REGION_OF_T1),
        ("T2", (LABELS != VOID) & (np.arange(3) < 2)[:, None, None]),
    ):
        order = np.argsort(confidence[chosen])
        right = right_map[chosen][order].astype(float)
        assert calibration.auroc(right, 1 - right) == pytest.approx(values[f"{threat}_auroc_valid"], abs=EXACT)
        assert calibration.fpr_at_95(right, 1 - right) == pytest.approx(values[f"{threat}_fpr95_valid"], abs=EXACT)
        success, error = (
            calibration.aupr(right, 1 - right, even=False),
            calibration.aupr(1 - right[::-1], right[::-1], even=False),
        )
        assert success == pytest.approx(values[f"{threat}_auprc_success_valid"], abs=EXACT)
        assert error == pytest.approx(values[f"{threat}_auprc_error_valid"], abs=EXACT)
    rows = [calibration.flat_row(each.confidence, 1) for each in counts(REGION_OF_T1)]
    assert calibration.pool(rows).figures()["ECE"][0] == pytest.approx(values["T1_ece_valid"], abs=2e-5)
    assert pooled(counts()[:2]).figures()["ECE"][0] == pytest.approx(values["T2_ece_valid"], abs=2e-5)
    valid = LABELS != VOID
    order = np.argsort(-confidence[valid])
    inside = np.broadcast_to(REGION_OF_T1, LABELS.shape)[valid][order].astype(float)
    ood = REFERENCE["bravo_ood_with_region_rows_0_1_columns_0_2"]
    assert calibration.auroc(inside, 1 - inside) == pytest.approx(ood["auroc"], abs=EXACT)
    assert calibration.fpr_at_95(inside, 1 - inside) == pytest.approx(ood["fpr95"], abs=EXACT)
    assert calibration.aupr(inside, 1 - inside, even=False) == pytest.approx(ood["auprc"], abs=EXACT)


@pytest.mark.parametrize(("threat", "view"), [("T1", "outside"), ("T2", "all")])
def test_iou_outside_the_region_is_that_of_bravo(threat: str, view: str) -> None:
    frame = frame_of_t1_and_t2()
    rows = frame[frame["threat"].eq(threat) & frame["metric"].eq("IoU") & frame["view"].eq(view)]
    expected = REFERENCE["bravo_summary_T1_region_split_T2_first_images"]
    known = [np.nan if value is None else value for value in expected[f"{threat}_iou_valid"]]
    np.testing.assert_allclose(rows["value"], known, atol=EXACT)
    mean = frame[frame["threat"].eq(threat) & frame["metric"].eq("mIoU_Mbar" if view == "outside" else "mIoU")]
    assert mean["value"].item() == pytest.approx(expected[f"{threat}_miou_valid"], abs=EXACT)


class Given(torch.nn.Module):
    """Says the same logits whatever it sees."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.logits[: len(images)]


def model_of(logits: FloatArray) -> SegmentationModel:
    return wrap_model(Given(torch.from_numpy(logits).float()), num_classes=logits.shape[1])


def said(logits: FloatArray) -> list[DensePrediction]:
    count, _, height, width = logits.shape
    return predict_dense(model_of(logits), torch.zeros(count, 3, height, width), [str(n) for n in range(count)])


def test_brier_of_two_classes_is_twice_that_of_the_top_label() -> None:
    """A model of two classes that gives the first the confidence of the fixture; it is right where the fixture is."""
    right, _, confidence = unbinned()
    logits = np.log(np.stack([confidence, 1 - confidence]))[None, :, None]  # (1, 2, 1, pixels)
    (of_image,) = said(logits)
    value = pooled([SegmentationMetric(["a", "b"]).update(of_image, 1 - right.astype(int)[None])]).figures()["Brier"]
    assert value[0] == pytest.approx(2 * REFERENCE["brier_top_label"], abs=FLOAT32)


def test_what_a_model_says_in_float32_has_the_same_histograms() -> None:
    expected = counts()  # before the model's answers have seen the labels
    ours = [METRIC.update(each, labels) for each, labels in zip(said(LOGITS), LABELS, strict=True)]
    assert np.array_equal(LABELS, fixture()[1])
    for one, other in zip(ours, expected, strict=True):
        assert one.confidence is not None
        assert other.confidence is not None
        assert np.array_equal(one.confidence.bins, other.confidence.bins)
        assert np.array_equal(one.confidence.log_odds, other.confidence.log_odds)
        np.testing.assert_allclose(one.confidence.confidence, other.confidence.confidence, rtol=FLOAT32, atol=FLOAT32)
        np.testing.assert_allclose(one.confidence.scores, other.confidence.scores, rtol=FLOAT32)


def test_predictions_are_what_torch_says() -> None:
    logits = LOGITS.copy()
    logits[0, 2] = -np.inf  # a class that the model rules out
    logits[1, :, 0, 0] = 1.0  # a tie: the first class
    tensor = torch.from_numpy(logits).float()
    for each, z in zip(said(logits), tensor, strict=True):
        assert np.array_equal(each.labels, z.max(dim=0).indices.numpy())
        p = z.softmax(dim=0)
        assert each.confidence is not None
        assert each.entropy is not None
        np.testing.assert_allclose(each.confidence, p.amax(dim=0), rtol=1e-6)
        np.testing.assert_allclose(each.entropy, torch.special.entr(p).sum(dim=0), atol=2e-6)
    assert said(logits)[1].log_odds[0, 0] == pytest.approx(-np.log(3), abs=1e-6)  # type: ignore[index]


def test_log_odds_do_not_saturate() -> None:
    logits = np.zeros((1, 2, 1, 3))
    logits[0, 0, 0] = [15.0, 16.5, 40.0]
    (each,) = said(logits)
    assert each.confidence is not None
    assert each.log_odds is not None
    assert each.confidence[0, 2] == 1
    np.testing.assert_allclose(each.log_odds[0], [15.0, 16.5, 40.0], atol=1e-5)
    of_image = METRIC.update(each, np.zeros((1, 3), int)).confidence
    assert of_image is not None
    assert np.flatnonzero(of_image.log_odds[0, 0]).tolist() == [934, 1001, 1070]


def test_one_class_is_always_sure() -> None:
    metric = SegmentationMetric(["only"])
    of_image = metric.update(describe_logits(torch.zeros(1, 2, 2)), np.array([[0, 0], [0, VOID]]))
    values = {f.metric: f.value for f in metric.compute([of_image], WHOLE)}
    assert (values["ECE"], values["NLL"], values["Brier"]) == (0, 0, 0)
    assert np.isnan(values["AUROC"])


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(3)), st.integers(0, 3))
def test_any_order_and_split_of_images_gives_the_same_counts(order: list[int], cut: int) -> None:
    images = [ImageCounts.from_bytes(counts()[index].to_bytes()) for index in order]
    rows = [calibration.flat_row(each.confidence, 0) for each in images]
    both = sum(np.array(part).reshape(-1, 2447).sum(axis=0) for part in (rows[:cut], rows[cut:]))
    whole = np.array([calibration.flat_row(each.confidence, 0) for each in counts()]).sum(axis=0)
    integers = np.r_[0:30, 45:2445]
    assert np.array_equal(both[integers], whole[integers])
    np.testing.assert_allclose(both, whole, rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3), st.integers(0, 2**32 - 1), st.booleans())
def test_histograms_come_back_from_bytes_as_they_were(views: int, seed: int, measured: bool) -> None:
    generator = np.random.default_rng(seed)
    bins = generator.integers(0, 3, (views, 2, 15)) * generator.integers(0, 2**20, (views, 2, 15))
    sums = np.where(bins.any(axis=1), generator.random((views, 15)), 0.0)
    odds = generator.integers(0, 2, (views, 2, 1200)) * generator.integers(0, 2**20, (views, 2, 1200))
    full = ConfidenceCounts(bins, odds, sums, generator.random((views, 2)))
    whole = full if measured else ConfidenceCounts.stack([full, ConfidenceCounts.empty(1, np.nan)])
    again = ConfidenceCounts.from_bytes(whole.to_bytes())
    for name in ("bins", "log_odds", "confidence", "scores"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))


def test_counts_without_histograms_give_no_figure_and_some_without_give_nan() -> None:
    bare = [ImageCounts(each.confusion, each.scalars) for each in counts()]
    assert ImageCounts.from_bytes(bare[0].to_bytes()).confidence is None
    assert "ECE" not in headline(bare)
    mixed = headline([bare[0], *counts()[1:]])
    assert all(np.isnan(mixed[name]) for name in calibration.FIGURES)
    assert mixed["mIoU"] == headline(counts())["mIoU"]


def test_undefined_figures_are_nan() -> None:
    labels = LOGITS.argmax(axis=1)
    right = headline([METRIC.update(prediction(z), y) for z, y in zip(LOGITS, labels, strict=True)])
    assert all(np.isnan(right[name]) for name in ("AUROC", "AUPR_error", "FPR95"))
    assert right["AUPR_success"] == pytest.approx(1, abs=EXACT)
    wrong = headline([METRIC.update(prediction(z), (y + 1) % 4) for z, y in zip(LOGITS, labels, strict=True)])
    assert all(np.isnan(wrong[name]) for name in ("AUROC", "AUPR_success", "FPR95"))
    assert wrong["AUPR_error"] == pytest.approx(1, abs=EXACT)
    assert wrong["ECE"] == pytest.approx(wrong["overconfidence"], abs=EXACT)
    nothing = headline([METRIC.update(prediction(LOGITS[0]), np.full((6, 8), VOID))])
    assert all(np.isnan(nothing[name]) for name in calibration.FIGURES)


def test_sharper_logits_are_surer_and_no_better() -> None:
    plain, sharp = headline(counts()), headline(counts(scale=10.0))
    assert sharp["mIoU"] == plain["mIoU"]
    assert sharp["overconfidence"] > plain["overconfidence"]
    assert sharp["NLL"] > plain["NLL"]


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_a_temperature_never_changes_the_order_of_two_classes(temperature: float) -> None:
    right, wrong, _ = unbinned()
    two = np.stack([np.linspace(0.1, 3, len(right)), np.zeros(len(right))])  # (2, pixels), confidence rises
    labels = np.where(right > 0, 0, 1)[None]
    metric = SegmentationMetric(["a", "b"])
    figures = [
        pooled([metric.update(prediction(two[:, None] * factor), labels)]).figures() for factor in (1.0, temperature)
    ]
    assert figures[0]["ECE"][0] != pytest.approx(figures[1]["ECE"][0], abs=1e-3)
    exact = calibration.auroc(right, wrong)
    for each in figures:  # bins blur a little
        assert each["AUROC"][0] == pytest.approx(exact, abs=0.02)


def test_a_battery_has_the_figures_of_the_images_it_chose() -> None:
    worse = [METRIC.update(prediction(-z), y) for z, y in zip(LOGITS, LABELS, strict=True)]
    stacked = [METRIC.stack(pair) for pair in zip(counts(), worse, strict=True)]
    figures = {(f.metric, f.view): f.value for f in METRIC.compute(stacked, Views.of_candidates(["clean", "negated"]))}
    assert figures["ECE", "clean"] == pytest.approx(headline(counts())["ECE"], abs=EXACT)
    assert figures["ECE", "all"] == figures["ECE", "negated"] == pytest.approx(headline(worse)["ECE"], abs=EXACT)


def test_intervals_are_the_jackknifes_of_pooled_histograms() -> None:
    images = counts() * 3
    figures = {f.metric: f for f in METRIC.compute(images, WHOLE) if not f.class_name}
    for name in ("ECE", "overconfidence", "AUROC", "NLL", "Brier"):
        without = [pooled([*images[:index], *images[index + 1 :]]).figures()[name][0] for index in range(9)]
        spread = math.sqrt(8 / 9 * np.sum((without - np.mean(without)) ** 2))
        bias = 8 * (np.mean(without) - figures[name].value)
        low = figures[name].value - stats.t.ppf(0.975, 8) * spread - max(bias, 0)
        high = figures[name].value + stats.t.ppf(0.975, 8) * spread - min(bias, 0)
        assert figures[name].low == pytest.approx(max(low, 0), abs=EXACT), name
        assert figures[name].high == pytest.approx(high, abs=EXACT), name
    same = [counts()[0]] * 8  # nothing changes without one of equal images
    of_same = {f.metric: f for f in METRIC.compute(same, WHOLE) if not f.class_name}
    assert of_same["ECE"].low == pytest.approx(of_same["ECE"].value, abs=EXACT)
    assert of_same["AUROC"].high == pytest.approx(of_same["AUROC"].value, abs=EXACT)
    seven = {f.metric: f for f in METRIC.compute(same[:7], WHOLE) if not f.class_name}
    assert math.isnan(seven["ECE"].low)


def pixel_figures(right: FloatArray, wrong: FloatArray) -> dict[str, float]:
    """AUROC and FPR95 of single pixels from their log-odds, by their definitions."""
    pairs = (right[:, None] > wrong).mean() + (right[:, None] == wrong).mean() / 2
    threshold = np.sort(right)[::-1][np.flatnonzero(np.arange(1, len(right) + 1) >= 0.95 * len(right))[0]]
    return {"AUROC": float(pairs), "FPR95": float((wrong >= threshold).mean())}


def ranked(odds: FloatArray, is_right: npt.NDArray[np.bool_]) -> ImageCounts:
    """Counts of one image of two classes with these log-odds."""
    nothing = np.zeros(odds.shape)
    confidence = 1 / (1 + np.exp(-odds))
    said = DensePrediction(1 - is_right.astype(int), confidence, None, odds, lambda labels: (nothing, nothing))
    return SegmentationMetric(["a", "b"]).update(said, np.zeros(odds.shape, int))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 1.0, 10.0, 40.0]), st.booleans())
def test_the_figures_of_single_pixels_lie_within_the_bounds(seed: int, spread: float, ties: bool) -> None:
    generator = np.random.default_rng(seed)
    odds = generator.normal(generator.uniform(-8, 40), spread, (4, 60))
    odds = np.round(odds) if ties else odds
    odds[generator.random(odds.shape) < 0.1] = np.inf
    is_right = generator.random(odds.shape) < 1 / (1 + np.exp(-(odds - np.median(odds)) / spread - 1))
    is_right[0, 0], is_right[0, 1] = True, False
    exact = pixel_figures(odds[is_right], odds[~is_right])
    image = ranked(odds, is_right)
    for kept in ([image], stored_with_256_bins([image])):
        values = {f.metric: f.value for f in SegmentationMetric(["a", "b"]).compute(kept, WHOLE)}
        for name in ("AUROC", "FPR95"):
            assert values[f"{name}_low"] - 1e-12 <= exact[name] <= values[f"{name}_high"] + 1e-12, name
            assert values[f"{name}_low"] <= values[name] <= values[f"{name}_high"]


def test_sure_pixels_are_ranked_beyond_17() -> None:
    odds = np.linspace(18, 60, 400).reshape(20, 20)
    is_right = (np.arange(400) % 3 > 0).reshape(20, 20)
    is_right[:3] = False
    exact = pixel_figures(odds[is_right], odds[~is_right])
    image = ranked(odds, is_right)
    now, before = (
        {f.metric: f.value for f in SegmentationMetric(["a", "b"]).compute(kept, WHOLE)}
        for kept in ([image], stored_with_256_bins([image]))
    )
    assert before["FPR95"] == 1.0  # all in the last of 256 bins
    assert (before["FPR95_low"], before["FPR95_high"], before["AUROC"]) == (0.0, 1.0, 0.5)
    assert now["FPR95"] == pytest.approx(exact["FPR95"], abs=0.02)
    assert now["AUROC"] == pytest.approx(exact["AUROC"], abs=0.005)


def test_images_of_256_bins_and_of_more_are_pooled_in_256() -> None:
    first, second, third = counts()
    mixed = headline([first, *stored_with_256_bins([second]), third])
    assert mixed == pytest.approx(headline(stored_with_256_bins(counts())), nan_ok=True)


def test_an_impossible_truth_gives_json_that_can_be_read() -> None:
    logits = np.zeros((1, 3, 2, 2))
    logits[0, 0] = -np.inf
    metric = SegmentationMetric(["a", "b", "c"])
    image = metric.update(said(logits)[0], np.array([[0, 1], [1, 2]]))
    figures = metric.compute([ImageCounts.from_bytes(image.to_bytes())], WHOLE)
    facts: dict[str, Any] = dict.fromkeys(
        ("key", "model", "model_digest", "dataset", "split", "threat", "kind", "created"), ""
    )
    evaluation = Evaluation(
        **facts,
        task="segmentation",
        description={},
        seed=0,
        images=1,
        views=("all",),
        all_figures=figures,
        provenance={},
        duration=0.0,
    )
    assert evaluation.figures["NLL"] == np.inf
    text = json.dumps(evaluation.as_dict(), allow_nan=False)  # raised: inf is no JSON
    assert float(json.loads(text)["figures"]["NLL"]) == np.inf

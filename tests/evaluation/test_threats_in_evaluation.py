"""Threats as they are evaluated: batteries, regions, rounds, memory that runs out, trackers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.listeners import TrackerListener
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.metrics.segmentation import figures as segmentation
from gauntlet.metrics.segmentation.confusion import confusion
from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.models import GauntletModel, SegmentationModel
from gauntlet.samples import Batch, Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import Perturbed, Threat, build_threat
from tiny import TinyDataset

STRONG = {"name": "semsegbench", "epsilon": "64/255", "steps": 10}


def headline(result: Any) -> dict[str, float]:
    return {name: value for name, value in result.figures.items() if not name.startswith("credit")}


def test_a_battery_that_skips_has_the_figures_of_one_that_does_not(tiny_model: SegmentationModel) -> None:
    data = TinyDataset(5)
    skipping = gauntlet.evaluate(tiny_model, data, {"battery": STRONG}, batch_size=2)
    full = gauntlet.evaluate(tiny_model, data, {"battery": {**STRONG, "skip": False}}, batch_size=2)
    assert headline(skipping) == headline(full)
    assert skipping.key != full.key
    members = {f.view for f in full.all_figures if f.metric == "mIoU" and f.view != "all"}
    assert members == {"clean", "pgd", "segpgd", "cospgd"}


def test_a_battery_is_at_or_below_each_of_its_members(tiny_model: SegmentationModel, tiny_dataset: TinyDataset) -> None:
    result = gauntlet.evaluate(
        tiny_model, tiny_dataset, {"battery": {"name": "semsegbench", "steps": 4, "skip": False}}
    )
    for name in ("aAcc_images", "NmIoU"):
        of_members = [f.value for f in result.all_figures if f.metric == name and f.view != "all"]
        assert len(of_members) == 4
        assert result.figures[name] <= min(of_members)
    shares = [f.value for f in result.all_figures if f.metric == "chosen_by_accuracy"]
    assert sum(shares) == pytest.approx(1)
    assert result.per_image["view"].nunique() == 4


def test_the_halmosi_battery_records_norms_for_the_distribution(tiny_model: SegmentationModel) -> None:
    result = gauntlet.evaluate(tiny_model, TinyDataset(2), {"battery": {"name": "halmosi", "budget": 0.02}})
    frame = result.per_image[result.per_image["view"] == "clean"]
    for attack in ("alma-prox", "dag-0.001", "dag-0.003", "pdpgd"):
        assert f"norm {attack}" in frame
        assert f"share {attack}" in frame
    assert result.views == ("clean", "alma-prox", "padam-ce", "padam-cos", "dag-0.001", "dag-0.003", "pdpgd",
                            "sea-jsd", "sea-mce", "sea-msl", "sea-bce")  # fmt: skip


def test_a_localized_corruption_is_counted_inside_and_outside(
    tiny_model: SegmentationModel, tiny_dataset: TinyDataset
) -> None:
    threat = build_threat({"localized": {"corruption": {"name": "contrast", "severity": 5}, "ratio": 0.5, "patch": 8}})
    result = gauntlet.evaluate(tiny_model, TinyDataset(6, sizes=((32, 40),)), threat, seed=3)
    inside: list[float] = []
    outside: list[float] = []
    for sample in TinyDataset(6, sizes=((32, 40),)):
        batch = collate([sample])
        perturbed = threat.perturb(tiny_model, batch, [ImageSeed(3, sample.id)])
        prediction = tiny_model(perturbed.images).argmax(1)[0].numpy()
        assert perturbed.region is not None
        region = perturbed.region[0].numpy()
        assert torch.equal(perturbed.images[0][:, ~region], batch.images[0][:, ~region])
        valid = sample.labels != 255
        for where, actual in ((region & valid, inside), (~region & valid, outside)):
            actual.append(float(np.mean((prediction == sample.labels)[where])) if where.any() else np.nan)
    assert result.figures["A_M"] == pytest.approx(np.nanmean(inside))
    assert result.figures["A_Mbar"] == pytest.approx(np.nanmean(outside))
    clean = result.figures["A_M_clean"]
    assert result.figures["RCE_M"] == pytest.approx((clean - result.figures["A_M"]) / clean)


def test_importance_sees_the_mask_of_a_localized_threat(tiny_model: SegmentationModel) -> None:
    """Weights of 1 inside the mask give A_M, the same of the complement A_Mbar; on clean images the mask is all."""
    threat = build_threat({"localized": {"corruption": {"name": "contrast", "severity": 5}, "ratio": 0.5, "patch": 8}})
    data = TinyDataset(6, sizes=((32, 40),))

    def inside(sample: Sample, mask: np.ndarray) -> np.ndarray:
        return mask.astype(float)

    def outside(sample: Sample, mask: np.ndarray) -> np.ndarray:
        return 1.0 - mask

    def same(sample: Sample, scale: float = 2.0) -> np.ndarray:  # an argument with a default is no mask
        return np.full(sample.image.shape[:2], scale)

    figures = {each.__name__: gauntlet.evaluate(tiny_model, data, threat, importance=each).figures
               for each in (inside, outside, same)}  # fmt: skip
    for weights, region in (("inside", "M"), ("outside", "Mbar")):
        for name in ("A_{}", "A_{}_clean", "RCE_{}"):
            expected = figures[weights][name.format(region)]
            assert figures[weights][name.format("P")] == pytest.approx(expected), (weights, name)
    assert figures["same"]["A_P"] == pytest.approx(figures["same"]["aAcc_images"])
    clean = gauntlet.evaluate(tiny_model, data, importance=inside).figures
    assert clean["A_P"] == pytest.approx(clean["aAcc_images"])


def test_region_aware_rounds_only_ever_add(tiny_model: SegmentationModel, tiny_dataset: TinyDataset) -> None:
    def run(rounds: int) -> Any:
        region = {"square": {"size": 8, "position": "centre"}}
        attack = {"name": "bim", "epsilon": "64/255", "steps": 5}
        description = {"region_aware": {"attack": attack, "rounds": rounds, "region": region}}
        return gauntlet.evaluate(tiny_model, tiny_dataset, description)

    one, three = run(1), run(3)
    assert three.figures["aAcc"] <= one.figures["aAcc"]
    assert three.figures["A_Mbar"] <= one.figures["A_Mbar"] <= one.figures["A_Mbar_clean"]
    assert one.figures["region_share"] == pytest.approx(64 / (14 * 24))  # of the valid pixels


class Forgetful(Threat):
    """Clean, but out of memory for more than `most` images at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.sizes: list[int] = []

    @property
    def name(self) -> str:
        return "forgetful"

    def describe(self) -> dict[str, Any]:
        return {"forgetful": {"most": self.most}}

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        if len(batch) > self.most:
            raise torch.cuda.OutOfMemoryError
        self.sizes.append(len(batch))
        return Perturbed(batch.images)


class Noting(Silent):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note_once(self, text: str) -> None:
        self.notes.append(text)


def test_out_of_memory_halves_the_batch(tiny_model: SegmentationModel) -> None:
    data, threat, progress = TinyDataset(9), Forgetful(2), Noting()
    result = gauntlet.evaluate(tiny_model, data, threat, batch_size=8, progress=progress)
    assert threat.sizes == [2, 2, 2, 2, 1]
    assert set(progress.notes) == {"out of memory: batches are halved where they do not fit."}
    assert result.figures == gauntlet.evaluate(tiny_model, data, batch_size=8).figures
    with pytest.raises(GauntletError, match="image 'tiny/0' alone does not fit into the memory"):
        gauntlet.evaluate(tiny_model, data, Forgetful(0))


def test_corrupted_figures_are_those_of_the_corrupted_images(
    tiny_model: SegmentationModel, tiny_dataset: TinyDataset
) -> None:
    data = TinyDataset(3, sizes=((32, 32),))
    result = gauntlet.evaluate(tiny_model, data, {"corruption": {"name": "shot_noise", "severity": 4}}, seed=5)
    matrices = []
    for sample in data:
        seed = ImageSeed(5, sample.id).stream("corruption|shot_noise|4")
        image = gauntlet.corruptions.corrupt(sample.image, "shot_noise", severity=4, seed=seed)
        assert sample.labels is not None
        prediction = tiny_model(torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255).argmax(1)[0].numpy()
        matrices.append(confusion(prediction, sample.labels, 3)[0])
    assert result.figures["mIoU"] == pytest.approx(segmentation.cmiou(CountTable.of(matrices, 3)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tensorboard", "wandb", "mlflow"])
def test_trackers_work_offline(
    kind: str, tiny_model: SegmentationModel, tiny_dataset: TinyDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(kind, reason="the extra 'tracking' is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    listener = TrackerListener(kind, tmp_path)
    for threat in ("clean", "pixelate"):
        listener.finished(gauntlet.evaluate(tiny_model, TinyDataset(2, sizes=((32, 32),)), threat))
    listener.close()
    if kind == "tensorboard":
        (events,) = tmp_path.glob("tensorboard/*/events*")
        assert b"pixelate_3/mIoU" in events.read_bytes()
    if kind == "wandb":
        assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    if kind == "mlflow":
        import mlflow

        client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
        (run,) = client.search_runs([client.get_experiment_by_name("gauntlet").experiment_id])
        assert "clean/mIoU" in run.data.metrics
        assert json.loads(json.dumps(run.data.params))["model"] == "tiny-net"

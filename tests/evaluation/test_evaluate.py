"""evaluate(): figures, storing, going on, and what is said when something is wrong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.metrics.segmentation import figures as segmentation
from gauntlet.metrics.segmentation.confusion import confusion
from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.models import SegmentationModel
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results import Store
from gauntlet.samples import Sample, collate
from tiny import TinyDataset, tiny_network

PGD = {"attack": {"name": "pgd", "epsilon": "16/255", "alpha": "4/255", "steps": 3}}


def by_hand(model: SegmentationModel, dataset: TinyDataset) -> CountTable:
    matrices = []
    for sample in dataset:
        assert sample.labels is not None
        logits = model(collate([sample]).images)
        matrices.append(confusion(logits.argmax(1)[0].numpy(), sample.labels, 3, 255)[0])
    return CountTable.of(matrices, 3)


def test_clean_figures_are_those_of_a_plain_loop(tiny_model: SegmentationModel, tiny_dataset: TinyDataset) -> None:
    result = gauntlet.evaluate(tiny_model, tiny_dataset)
    table = by_hand(tiny_model, tiny_dataset)
    assert result.figures["mIoU"] == pytest.approx(segmentation.cmiou(table), abs=1e-12)
    assert result.figures["aAcc"] == pytest.approx(segmentation.pixel_accuracy(table), abs=1e-12)
    assert result.figures["NmIoU"] == pytest.approx(segmentation.nmiou(table), abs=1e-12)
    assert result.per_image["accuracy"].tolist() == pytest.approx(segmentation.image_accuracy(table).tolist())
    assert list(result.per_class.index) == ["dark", "light", "red"]
    assert list(result.figures)[:3] == ["mIoU", "mAcc", "aAcc"]
    assert not result.from_store


def test_confidence_and_entropy_are_those_of_the_softmax(
    tiny_model: SegmentationModel, tiny_dataset: TinyDataset
) -> None:
    result = gauntlet.evaluate(tiny_model, tiny_dataset, limit=1)
    sample = tiny_dataset[0]
    probabilities = tiny_model(collate([sample]).images)[0].softmax(0)
    valid = torch.from_numpy(sample.labels != 255)
    assert result.figures["confidence"] == pytest.approx(float(probabilities.amax(0)[valid].mean()), abs=1e-5)
    entropy = -(probabilities * probabilities.log()).sum(0)[valid].mean()
    assert result.figures["entropy"] == pytest.approx(float(entropy), abs=1e-5)


def test_images_of_different_sizes_share_a_batch(tiny_model: SegmentationModel) -> None:
    mixed = TinyDataset(7, sizes=((16, 24), (20, 12), (8, 8)))
    together = gauntlet.evaluate(tiny_model, mixed, batch_size=4)
    alone = gauntlet.evaluate(tiny_model, mixed, batch_size=1)
    assert together.per_image["image_id"].tolist() == mixed.ids()
    assert together.figures["mIoU"] == pytest.approx(alone.figures["mIoU"], abs=1e-12)


class CountingSource(ModelSource):
    """A source that remembers how often it was loaded."""

    def __init__(self, model: SegmentationModel) -> None:
        self.model, self.loads = model, 0

    @property
    def identity(self) -> ModelIdentity:
        return self.model.identity

    def load(self) -> SegmentationModel:
        self.loads += 1
        return self.model


def test_a_stored_result_is_returned_once_its_model_has_shown_that_it_is_the_same(
    tiny_model: SegmentationModel, tiny_dataset: TinyDataset, tmp_path: Path
) -> None:
    source, store = CountingSource(tiny_model), tmp_path / "results.db"
    first = gauntlet.evaluate(source, tiny_dataset, store=store)
    second = gauntlet.evaluate(source, tiny_dataset, store=store)
    assert source.loads == 2  # the second time for the probe
    assert second.from_store
    assert second.figures == first.figures
    again = gauntlet.evaluate(source, tiny_dataset, store=store, retrieve_existing=False)
    assert source.loads == 3
    assert not again.from_store


def test_another_seed_limit_threat_or_model_is_another_evaluation(
    tiny_model: SegmentationModel, tiny_dataset: TinyDataset
) -> None:
    other = gauntlet.wrap_model(tiny_network(), num_classes=3, name="tiny-net")  # other normalisation
    store = Store()
    keys = {
        gauntlet.evaluate(tiny_model, tiny_dataset, store=store).key,
        gauntlet.evaluate(tiny_model, tiny_dataset, seed=1, store=store).key,
        gauntlet.evaluate(tiny_model, tiny_dataset, limit=3, store=store).key,
        gauntlet.evaluate(tiny_model, tiny_dataset, PGD, store=store).key,
        gauntlet.evaluate(other, tiny_dataset, store=store).key,
    }
    assert len(keys) == 5
    assert store.count() == 5


class Stopping(Silent):
    """Raises after some units, and counts the images of those that it was told of."""

    def __init__(self, units: int | None = None) -> None:
        self.units, self.images = units, 0

    def advance(self, count: int, figure: float = math.nan, name: str = "mIoU", text: str = "") -> None:
        self.images += count
        self.units = None if self.units is None else self.units - 1
        if self.units == 0:
            raise OSError("disk gone")


def test_an_interrupted_evaluation_goes_on_where_it_was(tiny_model: SegmentationModel) -> None:
    store, data, second = Store(), TinyDataset(9), Stopping()
    with pytest.raises(OSError, match="disk gone"):
        gauntlet.evaluate(tiny_model, data, PGD, store=store, batch_size=2, prepare="off", progress=Stopping(3))
    resumed = gauntlet.evaluate(tiny_model, data, PGD, store=store, batch_size=3, prepare="off", progress=second)
    assert second.images == 3  # units of 2 as the first run began them; 0 to 5 were committed
    whole = gauntlet.evaluate(tiny_model, TinyDataset(9), PGD, batch_size=2, prepare="off")
    assert resumed.figures == whole.figures
    assert resumed.per_image["mIoU"].tolist() == whole.per_image["mIoU"].tolist()


def test_an_attack_lowers_the_figure_and_records_its_norm(
    tiny_model: SegmentationModel, tiny_dataset: TinyDataset
) -> None:
    clean, attacked = (gauntlet.evaluate(tiny_model, tiny_dataset, threat) for threat in ("clean", PGD))
    assert attacked.figures["aAcc"] < clean.figures["aAcc"] - 0.05
    assert (attacked.per_image["norm"] <= 16 / 255).all()
    assert (attacked.per_image["backwards"] == 3).all()


def test_the_dataset_decides_what_is_ignored(tiny_dataset: TinyDataset) -> None:
    """A model that believes in another ignore index is attacked with the dataset's."""
    results = []
    for ignore_index in (255, 11, None):
        model = gauntlet.wrap_model(tiny_network(), num_classes=3, name="m", ignore_index=ignore_index)
        results.append(gauntlet.evaluate(model, tiny_dataset, PGD).figures["mIoU"])
    assert results[0] == results[1] == results[2]


def test_importance_weights_give_a_weighted_accuracy(tiny_model: SegmentationModel, tiny_dataset: TinyDataset) -> None:
    def lower_half(sample: Sample) -> np.ndarray:
        height, width, _ = sample.image.shape
        weights = np.zeros((height, width))
        weights[height // 2 :] = 1
        return weights

    result = gauntlet.evaluate(tiny_model, tiny_dataset, importance=lower_half)
    expected = []
    for sample in tiny_dataset:
        prediction = tiny_model(collate([sample]).images).argmax(1)[0].numpy()
        expected.append((prediction == sample.labels)[8:].mean())
    assert result.figures["A_P"] == pytest.approx(np.mean(expected))


class Misbehaving(SegmentationModel):
    """Returns something wrong for an image whose first pixel says so."""

    def __init__(self, wrong: str) -> None:
        super().__init__(num_classes=3, identity=ModelIdentity("misbehaving", wrong))
        self.wrong = wrong

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(len(images), 3, *images.shape[-2:])
        if self.wrong == "nan":
            logits[-1, 1, 5, 5] = torch.nan
        if self.wrong == "shape":
            logits = logits[..., ::2]
        if self.wrong == "type":
            return [logits]  # type: ignore[return-value]
        return logits


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("nan", "the model 'misbehaving' returned NaN for image 'tiny/3'"),
        ("shape", r"returned the shape \(4, 3, 16, 12\) for image 'tiny/0'; expected \(4, 3, 16, 24\)"),
        ("type", "returned a list for image 'tiny/0'"),
    ],
)
def test_a_misbehaving_model_is_named_with_the_image(wrong: str, sentence: str, tiny_dataset: TinyDataset) -> None:
    with pytest.raises(GauntletError, match=sentence):
        gauntlet.evaluate(Misbehaving(wrong), tiny_dataset)


def test_a_label_outside_the_classes_is_named_with_the_image(tiny_model: SegmentationModel) -> None:
    class Wrong(TinyDataset):
        def __getitem__(self, index: int) -> Sample:
            sample = super().__getitem__(index)
            assert sample.labels is not None
            if index == 2:
                sample.labels[5, 5] = 9
            return sample

    with pytest.raises(GauntletError, match="image 'tiny/2': a label is 9; expected 0 to 2 or 255"):
        gauntlet.evaluate(tiny_model, Wrong())


def test_bad_settings_are_one_sentence(tiny_model: SegmentationModel, tiny_dataset: TinyDataset) -> None:
    with pytest.raises(GauntletError, match="batch_size must be a whole number of at least 1"):
        gauntlet.evaluate(tiny_model, tiny_dataset, batch_size=0)
    with pytest.raises(GauntletError, match="precision must be one of fp32, bf16"):
        gauntlet.evaluate(tiny_model, tiny_dataset, precision="fp8")
    with pytest.raises(GauntletError, match="limit must be a whole number of at least 1"):
        gauntlet.evaluate(tiny_model, tiny_dataset, limit=0)
    with pytest.raises(GauntletError, match="has 5 classes, the dataset 'tiny' 3"):
        gauntlet.evaluate(gauntlet.wrap_model(tiny_network(5), num_classes=5), tiny_dataset)
    with pytest.raises(GauntletError, match=r"unknown threat 'pdg'; did you mean .*'pgd'"):
        gauntlet.evaluate(tiny_model, tiny_dataset, "pdg")


def test_bf16_is_recorded_and_close(tiny_model: SegmentationModel, tiny_dataset: TinyDataset) -> None:
    exact = gauntlet.evaluate(tiny_model, tiny_dataset)
    rough = gauntlet.evaluate(tiny_model, tiny_dataset, precision="bf16")
    assert rough.key != exact.key
    assert rough.provenance["precision"] == "bf16"
    assert rough.figures["aAcc"] == pytest.approx(exact.figures["aAcc"], abs=0.02)


def test_two_importance_functions_are_two_evaluations(tiny_model: SegmentationModel, tiny_dataset: TinyDataset) -> None:
    store = Store()
    results = [
        gauntlet.evaluate(tiny_model, tiny_dataset, importance=function, store=store)
        for function in (lambda sample: np.ones((16, 24)), lambda sample: np.tri(16, 24))
    ]
    assert results[0].key != results[1].key
    assert results[0].figures["A_P"] != results[1].figures["A_P"]


def test_a_fault_does_not_cost_the_old_result(tiny_model: SegmentationModel, tiny_dataset: TinyDataset) -> None:
    store = Store()
    old = gauntlet.evaluate(tiny_model, tiny_dataset, store=store)

    class Gone(CountingSource):
        def load(self) -> SegmentationModel:
            raise GauntletError("the weights are gone.")

    with pytest.raises(GauntletError, match="the weights are gone"):
        gauntlet.evaluate(Gone(tiny_model), tiny_dataset, store=store, retrieve_existing=False)
    kept = store.load(old.key)
    assert kept is not None
    assert kept.figures == old.figures

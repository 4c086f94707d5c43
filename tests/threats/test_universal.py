"""Universal perturbations: artifacts and their digests, the ball, held-out images, both tasks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gauntlet.datasets.contract import Dataset
from gauntlet.defences import NoisyModel
from gauntlet.errors import GauntletError
from gauntlet.evaluation.fitted import apply_universal, target_effects
from gauntlet.evaluation.jobs import Settings, make_job
from gauntlet.models import SegmentationModel
from gauntlet.models.contract import GauntletModel
from gauntlet.samples import Batch, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import Threat, build_threat, build_threats, rebuild_threat
from gauntlet.threats.artifacts import Artifact, load_artifact
from gauntlet.threats.attacks import build
from gauntlet.threats.fitted import UniversalRule, fit_universal
from gauntlet.threats.fitted.tiles import folded, tiled
from gauntlet.threats.fitted.universal_targets import without_class
from tiny import TinyDataset
from tiny_detector import TinyBoxes, TinyDetector


class Reversed(TinyDataset):
    """The same images, the last one first."""

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(len(self) - 1 - index)

    def ids(self) -> list[str]:
        return super().ids()[::-1]


class Others(TinyDataset):
    """Images behind those of a fit set of three."""

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index + 3)

    def ids(self) -> list[str]:
        return [f"tiny/{index + 3}" for index in range(len(self))]


def perturbation(values: torch.Tensor, norm: str = "linf", epsilon: float = 10 / 255) -> Artifact:
    facts = {"epsilon": epsilon, "norm": norm, "aim": "untargeted", "fit_ids": ["fit/0"], "model": "m"}
    return Artifact("universal", {"perturbation": values}, facts)


def batch_of(dataset: Dataset, count: int) -> Batch:
    return collate([dataset[index] for index in range(count)], ignore_index=dataset.ignore_index)


def shown(threat: Threat, batch: Batch, model: GauntletModel | None = None) -> torch.Tensor:
    seeds = [ImageSeed(0, sample.id) for sample in batch.samples]
    return threat.perturb(model, batch, seeds).images  # type: ignore[arg-type]


@settings(max_examples=20, deadline=None)
@given(
    norm=st.sampled_from(["linf", "l2"]),
    epsilon=st.floats(1e-3, 0.5),
    tile=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    seed=st.integers(0, 99),
)
def test_the_ball_and_the_box_are_kept_exactly(norm: str, epsilon: float, tile: tuple[int, int], seed: int) -> None:
    values = torch.randn(3, *tile, generator=torch.Generator().manual_seed(seed))
    batch = batch_of(TinyDataset(), 2)
    made = shown(build_threat({"universal": {"artifact": perturbation(values, norm, epsilon)}}), batch)
    difference = (made.double() - batch.images.double()).flatten(1)
    size = difference.abs().amax(1) if norm == "linf" else torch.linalg.vector_norm(difference, dim=1)
    assert (size <= epsilon).all()
    assert made.min() >= 0
    assert made.max() <= 1


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 20), st.integers(1, 20))
@settings(max_examples=25, deadline=None)
def test_folding_is_the_adjoint_of_tiling(h: int, w: int, height: int, width: int) -> None:
    draws = torch.Generator().manual_seed(h * 1000 + w)
    tile = torch.rand(3, h, w, generator=draws, dtype=torch.float64)
    gradient = torch.rand(2, 3, height, width, generator=draws, dtype=torch.float64)
    whole = tiled(tile, height, width)
    assert whole.shape == (3, height, width)
    assert float((whole * gradient).sum()) == pytest.approx(float((tile * folded(gradient, (h, w))).sum()))


def nearest_by_hand(labels: np.ndarray, hidden: int) -> np.ndarray:
    rows, columns = np.nonzero(labels != hidden)  # by row, then by column
    filled = labels.copy()
    for row, column in zip(*np.nonzero(labels == hidden), strict=True):
        nearest = ((rows - row) ** 2 + (columns - column) ** 2).argmin()
        filled[row, column] = labels[rows[nearest], columns[nearest]]
    return filled


@given(st.integers(0, 500))
@settings(max_examples=40, deadline=None)
def test_a_hidden_class_takes_the_nearest_label(seed: int) -> None:
    draws = np.random.default_rng(seed)
    labels = draws.choice(3, draws.integers(1, 12, 2), p=[0.7, 0.2, 0.1])
    filled = without_class(labels, 0)
    if (labels == 0).all():
        assert filled is None
    else:
        np.testing.assert_array_equal(filled, nearest_by_hand(labels, 0))


def test_one_image_is_the_attack_bim(tiny_model: SegmentationModel) -> None:
    """On an image that no step drives to the border of the box."""

    class Middle(TinyDataset):
        def __getitem__(self, index: int) -> Any:
            sample = super().__getitem__(index)
            return type(sample)(sample.id, (64 + sample.image // 2).astype(np.uint8), sample.labels)

    dataset = Middle(1)
    batch = batch_of(dataset, 1)
    fitted = fit_universal(tiny_model, dataset, UniversalRule(passes=6, epsilon="4/255"))
    attack = build("bim", epsilon="4/255", alpha="1/255", steps=6)
    attacked = attack(tiny_model, batch.images, batch.labels).images
    threat = build_threat({"universal": {"artifact": fitted, "fit_images": True}})
    torch.testing.assert_close(shown(threat, batch), attacked, atol=1e-6, rtol=0)


def test_the_order_of_the_fit_images_changes_nothing(tiny_model: SegmentationModel) -> None:
    rule = UniversalRule(passes=3)
    first, second = (fit_universal(tiny_model, data(5), rule) for data in (TinyDataset, Reversed))
    assert first.digest == second.digest


def test_a_fit_is_repeatable_and_another_seed_of_nothing_random_too(tiny_model: SegmentationModel) -> None:
    told: list[float] = []
    rule = UniversalRule(passes=4, batch=2, tile=(4, 6))
    first = fit_universal(tiny_model, TinyDataset(3), rule, told.append)
    assert first.digest == fit_universal(tiny_model, TinyDataset(3), rule).digest
    assert len(told) == 4
    assert told[-1] > told[0]
    assert first.tensors["perturbation"].shape == (3, 4, 6)
    assert float(first.tensors["perturbation"].abs().max()) <= 10 / 255


def test_l2_is_that_of_the_tiles_together(tiny_model: SegmentationModel) -> None:
    fitted = fit_universal(tiny_model, TinyDataset(2), UniversalRule(passes=4, norm="l2", epsilon=0.5, tile=(4, 6)))
    whole = tiled(fitted.tensors["perturbation"].double(), 16, 24)
    assert 0.4 < float(whole.norm()) <= 0.5


def test_the_key_holds_the_digest_and_not_the_path(tiny_model: SegmentationModel, tmp_path: Path) -> None:
    data = TinyDataset()

    def key(reference: object) -> str:
        threat = build_threat({"universal": {"artifact": str(reference)}})
        return make_job(tiny_model.identity, tiny_model.task, data.identity, threat, Settings()).key

    values = torch.full((3, 4, 4), 0.01)
    first = perturbation(values).save(tmp_path / "first")
    assert first.name == "first.safetensors"
    moved = tmp_path / "elsewhere" / "moved.safetensors"
    moved.parent.mkdir()
    shutil.copy(first, moved)
    other = perturbation(values + 0.001).save(tmp_path / "other.safetensors")
    facts = perturbation(values, epsilon=9 / 255).save(tmp_path / "facts.safetensors")
    assert key(first) == key(moved) == key(perturbation(values).digest)
    assert len({key(first), key(other), key(facts)}) == 3


def test_a_stored_description_finds_its_artifact_again(tmp_path: Path) -> None:
    path = perturbation(torch.full((3, 2, 2), 0.01)).save(tmp_path / "u.safetensors")
    threat = build_threat({"universal": {"artifact": str(path), "control": "linf", "draw": 2}})
    assert rebuild_threat(threat.written()).describe() == threat.describe()
    assert threat.written()["universal"]["artifact"] == str(path)
    path.unlink()
    assert rebuild_threat(threat.describe()).name == threat.name


@pytest.mark.parametrize("control", ["linf", "l2"])
def test_controls_have_the_norm_of_what_was_fitted(control: str) -> None:
    fitted = perturbation(torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(1)) / 50)
    made = {}
    for draw in (0, 1):
        threat: Any = build_threat({"universal": {"artifact": fitted, "control": control, "draw": draw}})
        made[draw] = threat.perturbation()
    fit = fitted.tensors["perturbation"]
    assert not torch.equal(made[0], made[1])
    measure = (lambda x: x.abs().max()) if control == "linf" else torch.linalg.vector_norm
    assert float(measure(made[0])) == pytest.approx(float(measure(fit)), rel=1e-5)
    assert len(made[0].abs().unique()) == 1


def test_images_of_the_fit_are_refused(tiny_model: SegmentationModel) -> None:
    fitted = fit_universal(tiny_model, TinyDataset(3), UniversalRule(passes=1))
    batch = batch_of(TinyDataset(), 4)
    with pytest.raises(GauntletError, match="'tiny/0' is one of those that this was fitted on"):
        shown(build_threat({"universal": {"artifact": fitted}}), batch)
    assert len(shown(build_threat({"universal": {"artifact": fitted, "fit_images": True}}), batch)) == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"artifact": "missing.safetensors"}, "there is no file missing.safetensors"),
        ({"artifact": "0123456789abcdef"}, "no copy of the artifact"),
        ({"artifact": perturbation(torch.zeros(3, 1, 1)), "epsilon": "8/255"}, "was fitted for epsilon 10/255, not"),
        ({"artifact": perturbation(torch.zeros(3, 1, 1)), "draw": 1}, "random control"),
        ({"artifact": Artifact("patch", {}, {})}, "is a fitted 'patch', not a 'universal'"),
        ({}, "needs the option 'artifact'"),
    ],
)
def test_errors_are_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(GauntletError, match=words):
        build_threat({"universal": options})


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = perturbation(torch.full((3, 8, 8), 0.01)).save(tmp_path / "u.safetensors")
    content = bytearray(path.read_bytes())
    content[-1] ^= 255
    path.write_bytes(content)
    with pytest.raises(GauntletError, match="does not fit its own digest"):
        load_artifact(path, "universal")
    path.write_bytes(b"no tensors")
    with pytest.raises(GauntletError, match="is no artifact"):
        load_artifact(path, "universal")


def test_sweeps_of_artifacts_and_draws(tmp_path: Path) -> None:
    paths = [str(perturbation(torch.full((3, 1, 1), 0.01 * n)).save(tmp_path / f"{n}.safetensors")) for n in (1, 2)]
    swept = build_threats({"universal": {"artifact": paths, "control": "linf", "draw": "0..2"}})
    assert len({threat.name for threat in swept}) == 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"norm": "l7"}, "norm"),
        ({"epsilon": 0}, "above 0"),
        ({"aim": "hide"}, "belong together"),
        ({"tile": (0, 3)}, "tile"),
        ({"sure": 0}, "up to 1"),
    ],
)
def test_rules_refuse_nonsense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(GauntletError, match=words):
        UniversalRule(**options)


def test_an_application_compares_with_clean_images_controls_and_the_fit_set(tiny_model: SegmentationModel) -> None:
    fitted = fit_universal(tiny_model, TinyDataset(3), UniversalRule(passes=12))
    rows = apply_universal(tiny_model, Others(3), fitted, fit_dataset=TinyDataset(3), draws=2)
    assert [(row.images, row.threat, len(row.evaluations)) for row in rows] == [
        ("held out", "clean", 1),
        ("held out", "fitted", 1),
        ("held out", "random signs, same linf", 2),
        ("fit", "clean", 1),
        ("fit", "fitted", 1),
    ]
    assert rows[4].value < rows[3].value
    control = rows[2]
    assert control.value == pytest.approx(np.mean([each.figures["mIoU"] for each in control.evaluations]))


def test_a_random_model_can_hide_a_class(tiny_model: SegmentationModel) -> None:
    rule = UniversalRule(passes=1, aim="hide", hide="red")
    noisy = NoisyModel(tiny_model, sigma=0.05)
    first, again = (fit_universal(noisy, TinyDataset(2), rule).tensors["perturbation"] for _ in range(2))
    assert torch.equal(first, again)


def test_how_well_targets_are_reached(tiny_model: SegmentationModel) -> None:
    def effects(**options: Any) -> dict[str, float]:
        fitted = fit_universal(tiny_model, TinyDataset(3), UniversalRule(passes=12, epsilon="40/255", **options))
        threat = build_threat({"universal": {"artifact": fitted, "fit_images": True}})
        return target_effects(tiny_model, TinyDataset(3), threat, fitted)

    static = effects(aim="static", scene=1)
    assert static["target_share"] > static["target_share_clean"]
    hidden = effects(aim="hide", hide="red")
    assert hidden["hidden"] > 0.2
    assert 0.2 < hidden["background_kept"] <= 1


@pytest.mark.parametrize("aim", ["untargeted", "vanishing", "fabrication", "hide"])
def test_detectors(aim: str) -> None:
    model = TinyDetector()
    rule = UniversalRule(passes=6, epsilon="60/255", alpha="12/255", aim=aim, hide="red" if aim == "hide" else None)
    fitted = fit_universal(model, TinyBoxes(4), rule)
    batch = batch_of(TinyBoxes(4), 4)
    threat = build_threat({"universal": {"artifact": fitted, "fit_images": True}})

    def boxes(images: torch.Tensor, kind: int | None = None) -> int:
        return sum(len(each) if kind is None else int((each.classes == kind).sum()) for each in model.predict(images))

    made = shown(threat, batch, model)
    assert float((made - batch.images).abs().max()) <= 60 / 255
    if aim == "vanishing":
        before, after = (model.candidates(each).objectness for each in (batch.images, made))
        assert torch.nn.functional.softplus(after).sum() < 0.6 * torch.nn.functional.softplus(before).sum()
    elif aim == "fabrication":
        assert boxes(made) > boxes(batch.images)
    elif aim == "hide":
        assert boxes(made, 0) < boxes(batch.images, 0)
    else:
        assert float(model.losses(made, batch.boxes).sum()) > float(model.losses(batch.images, batch.boxes).sum())


def test_an_aim_of_another_task_is_refused(tiny_model: SegmentationModel) -> None:
    with pytest.raises(GauntletError, match="aim of a universal perturbation of a segmentation model"):
        fit_universal(tiny_model, TinyDataset(1), UniversalRule(aim="vanishing"))

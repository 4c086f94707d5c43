"""Attacks made on one model and shown to another (docs/specs/defences.md, 3)."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from gauntlet.analysis import transfer_matrix
from gauntlet.errors import GauntletError
from gauntlet.evaluation import evaluate
from gauntlet.evaluation.execution.local import LocalExecutor
from gauntlet.evaluation.execution.runner import run_jobs
from gauntlet.evaluation.jobs import Settings, plan_job
from gauntlet.evaluation.plan import parse_plan, plan_jobs
from gauntlet.models import SegmentationModel, wrap_model
from gauntlet.models.sources.shipped import ShippedModel
from gauntlet.results import Evaluation, Store
from gauntlet.samples import Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import build_threat, build_threats, rebuild_threat
from gauntlet.threats.image_cache import ImageCache, MadeImage, content_key
from tiny import TinyDataset, tiny_network

PGD = {"name": "pgd", "epsilon": "8/255", "steps": 3}
SCENES = {"name": "streets", "options": {"size": [64, 128], "length": 3}}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images that one test makes are not there for the next."""
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))


def tiny(seed: int, name: str = "", classes: int = 3) -> SegmentationModel:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = tiny_network()
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return wrap_model(network, num_classes=classes, name=name or f"tiny-{seed}")


def transfer(source: object, **attack: Any) -> dict[str, Any]:
    return {"transfer": {"source_model": source, "attack": {**PGD, **attack}}}


def rows(store: Store, evaluation: Evaluation) -> list[tuple[bytes, dict[str, Any]]]:
    started = store.started(evaluation.key)
    assert started is not None
    return [(row.counts, dict(row.details)) for row in store.image_rows(started)]


class CountingPasses:
    """Counts the images that a model sees."""

    def __init__(self, model: SegmentationModel) -> None:
        self.images = 0
        model.register_forward_pre_hook(self._count)

    def _count(self, _: object, inputs: tuple[torch.Tensor, ...]) -> None:
        self.images += len(inputs[0])


@pytest.mark.parametrize("prepare", ["auto", "off"])
def test_transfer_to_itself_is_the_white_box_attack_bit_for_bit(prepare: str) -> None:
    store, data, model = Store(), TinyDataset(), tiny(0)
    white = evaluate(model, data, {"attack": PGD}, store=store, prepare=prepare)
    own = evaluate(model, data, transfer(model), store=store, prepare=prepare)
    assert [counts for counts, _ in rows(store, own)] == [counts for counts, _ in rows(store, white)]
    assert own.figures == white.figures
    assert own.key != white.key
    assert all(details["source_is_target"] for _, details in rows(store, own))


def test_the_images_of_one_source_are_made_once_for_all_targets() -> None:
    store, data, source = Store(), TinyDataset(), tiny(0)
    threat = transfer(source)
    first = evaluate(tiny(1), data, threat, store=store, prepare="off")
    passes = CountingPasses(source)
    second = evaluate(tiny(2), data, threat, store=store, prepare="off")
    assert passes.images == 0
    norms = [[details["norm"] for _, details in rows(store, each)] for each in (first, second)]
    assert norms[0] == norms[1]
    # The cached images are those that a cold cache gives.
    cold = evaluate(tiny(2), data, threat, store=Store(), prepare="off")
    assert cold.figures == second.figures


def test_the_source_really_is_fooled_and_its_counts_say_so() -> None:
    store, data, source = Store(), TinyDataset(), tiny(0)
    evaluation = evaluate(tiny(1), data, transfer(source), store=store)
    white = evaluate(source, data, {"attack": PGD}, store=store)
    details = [each for _, each in rows(store, evaluation)]
    correct, pixels = (np.sum([each[name] for each in details]) for name in ("source_correct", "source_pixels"))
    assert correct / pixels == pytest.approx(white.figures["aAcc"])
    assert all(sum(each["source_predicted"]) == sum(each["source_pixels"]) for each in details)


class Inverted(torch.nn.Sequential):
    """The layers of a network with the negative answer."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        for layer in self:
            images = layer(images)
        return -images


def inverted(model: SegmentationModel) -> SegmentationModel:
    """A model of the same name and weights that says the opposite."""
    changed = copy.deepcopy(model)
    for module in changed.modules():
        if type(module) is torch.nn.Sequential:
            module.__class__ = Inverted
    assert changed.identity == model.identity
    return changed


@pytest.mark.parametrize("change", ["network", "weights", "epsilon", "seed", "images", "labels"])
def test_whatever_changes_the_images_makes_them_anew(change: str) -> None:
    data, target = TinyDataset(), tiny(9)
    source = tiny(0)
    evaluate(target, data, transfer(source), prepare="off")
    other = {"weights": tiny(1, "tiny-0"), "network": inverted(source)}.get(change, source)
    changed: Any = data
    if change in ("images", "labels"):
        changed = ChangedDataset(change)
    passes = CountingPasses(other)
    epsilon = "4/255" if change == "epsilon" else "8/255"
    evaluate(target, changed, transfer(other, epsilon=epsilon), seed=int(change == "seed"), prepare="off")
    assert passes.images > 0


class ChangedDataset(TinyDataset):
    """One pixel, or one label, is another one."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def __getitem__(self, index: int) -> Any:
        sample = super().__getitem__(index)
        name = "image" if self._what == "images" else "labels"
        values = getattr(sample, name).copy()
        values[0, 0] = 1 - values[0, 0] // 255
        return replace(sample, **{name: values})


def test_a_plan_runs_a_matrix_and_analysis_reads_it() -> None:
    threats: list[object] = ["clean", {"attack": PGD}, transfer(["streets/enet", "streets/pspnet"])]
    plan = {"models": ["streets/enet", "streets/pspnet"], "datasets": [SCENES], "threats": threats, "batch_size": 3}
    store = Store()
    outcome = run_jobs(plan_jobs(parse_plan({**plan, "prepare": "off"})), store)
    assert not outcome.failures
    frame = store.frame()
    crossed = frame[~frame["description"].str.contains('"source_model"') | frame["threat"].ne("")]
    matrix = transfer_matrix(crossed, "pgd linf 8/255 x3")
    assert list(matrix.index) == list(matrix.columns) == ["streets/enet", "streets/pspnet"]
    for model in matrix.index:
        own = frame[frame["model"].eq(model) & frame["metric"].eq("mIoU") & frame["class_name"].eq("")]
        values = own.groupby("kind")["value"].first()
        assert matrix.loc[model, model] == pytest.approx(values["attack"] / values["clean"])
        assert matrix.loc[model, model] < matrix.loc[model].max()  # a white-box attack is the strongest here


@pytest.mark.slow
def test_two_workers_and_one_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = {"models": ["streets/enet"], "datasets": [SCENES], "threats": [transfer("streets/pspnet")], "batch_size": 1}
    stores = [Store(), Store()]
    for workers, store in enumerate(stores, start=1):
        monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / f"cache-{workers}"))
        outcome = run_jobs(plan_jobs(parse_plan({**plan, "prepare": "off"})), store, executor=LocalExecutor(workers))
        assert not outcome.failures
    first, second = (store.frame().sort_values(["view", "metric", "class_name"])["value"].tolist() for store in stores)
    assert np.array_equal(first, second, equal_nan=True)


def test_the_orientation_of_the_matrix() -> None:
    """Only B is fooled by what was made on A; A keeps everything of what was made on B."""
    figures = {("A", None): 0.1, ("B", None): 0.2, ("A", "B"): 0.8, ("B", "A"): 0.3}
    shared = {"task": "segmentation", "metric": "mIoU"}
    clean = {"threat": "clean", "kind": "clean", "description": "{}", "value": 0.8}
    rows: list[dict[str, object]] = [{**shared, **clean, "model": model} for model in "AB"]
    for (target, source), value in figures.items():
        white_box = {"threat": "pgd", "kind": "attack", "description": "{}"}
        description = f'{{"transfer": {{"source_model": "{source}"}}}}'
        other = {"threat": f"pgd from {source}", "kind": "transfer", "description": description}
        rows.append({**shared, **(white_box if source is None else other), "model": target, "value": value})
    matrix = transfer_matrix(pd.DataFrame(rows), "pgd")
    assert matrix.loc["A", "B"] == pytest.approx(1.0)
    assert matrix.loc["B", "A"] == pytest.approx(0.375)
    assert matrix.loc["A", "A"] == pytest.approx(0.125)


def test_descriptions() -> None:
    threat = build_threat(transfer("streets/enet"))
    description = threat.describe()
    inner = description["transfer"]
    assert (inner["source_model"], len(inner["source_digest"])) == ("streets/enet", 16)
    assert threat.name == "pgd linf 8/255 x3 from streets/enet"
    again = rebuild_threat(description)
    assert (again.describe(), again.name) == (description, threat.name)
    assert rebuild_threat(threat.written()).describe() == description
    assert build_threat(transfer({"address": "streets/enet"})).describe() == description
    assert [each.name for each in build_threats(transfer(["streets/enet", "streets/pspnet"]))] == [
        "pgd linf 8/255 x3 from streets/enet",
        "pgd linf 8/255 x3 from streets/pspnet",
    ]


def test_a_source_with_other_weights_than_the_stored_one_is_refused() -> None:
    description = build_threat(transfer("streets/enet")).describe()
    description["transfer"]["source_digest"] = "0" * 16
    with pytest.raises(GauntletError, match="has other weights"):
        evaluate(tiny(1), TinyDataset(), rebuild_threat(description))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"attack": PGD}, "needs the option 'source_model'"),
        ({"source_model": "streets/enet"}, "needs the option 'attack'"),
        ({"source_model": {"adress": "streets/enet"}, "attack": PGD}, "a source_model is an address or"),
        ({"source_model": "streets/enet", "attack": {"name": "halmosi"}}, "is described by {battery"),
        ({"source_model": "streets/enet", "attack": PGD, "sorce": 1}, "unknown option"),
    ],
)
def test_bad_descriptions_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        build_threat({"transfer": options})


def test_an_unknown_source_is_told_before_anything_is_computed() -> None:
    plan = parse_plan({"models": ["streets/enet"], "datasets": [SCENES], "threats": [transfer("streets/ent")]})
    with pytest.raises(GauntletError, match="unknown model 'streets/ent'; did you mean 'streets/enet'"):
        plan_jobs(plan)


def test_other_classes_need_an_attack_on_the_sources_own_prediction() -> None:
    network = torch.nn.Conv2d(3, 5, 1)
    torch.nn.init.normal_(network.weight, generator=torch.Generator().manual_seed(0))
    source = wrap_model(network, num_classes=5, name="five")
    data, target = TinyDataset(), tiny(1)
    with pytest.raises(GauntletError, match="has other classes than 'tiny-1'"):
        evaluate(target, data, transfer(source))
    store = Store()
    own = evaluate(target, data, transfer(source, name="ifgsm"), store=store)
    details = [each for _, each in rows(store, own)]
    assert all(len(each["source_correct"]) == 5 for each in details)
    assert sum(map(sum, (each["source_correct"] for each in details))) < sum(
        map(sum, (each["source_pixels"] for each in details))
    )


@pytest.fixture
def unread(tmp_path: Path) -> str:
    """The address of a model whose card names other classes than those of streets; its weights cannot be loaded."""
    card = ShippedModel("streets/pspnet").card
    described = {**card["model"], "class_names": [f"thing {index}" for index in range(11)]}
    folder = tmp_path / "unread"
    folder.mkdir()
    (folder / "card.json").write_text(json.dumps({**card, "model": described}))
    (folder / "model.safetensors").write_bytes(b"never read")
    return str(folder)


@pytest.mark.parametrize("around", ["", "tiled:size=32:", "crf:iterations=1:"])
def test_other_classes_are_told_when_a_plan_is_made(unread: str, around: str) -> None:
    def plan(source: str, **attack: Any) -> int:
        threats = [transfer(source, **attack)]
        return len(plan_jobs(parse_plan({"models": ["streets/enet"], "datasets": [SCENES], "threats": threats})))

    with pytest.raises(GauntletError, match=r"the source '.*' has other classes than 'streets/enet'; only an untarg"):
        plan(around + unread)
    with pytest.raises(GauntletError, match="has other classes than 'streets/enet'"):
        plan(around + unread, name="ifgsm", target=1)
    assert plan(around + unread, name="ifgsm") == 1  # away from the source's own prediction
    assert plan(f"{around}streets/pspnet") == 1


def test_classes_that_are_known_with_the_model_only_are_not_looked_at_when_a_plan_is_made(
    tmp_path: Path, unread: str
) -> None:
    torch.jit.script(torch.nn.Conv2d(3, 11, 1)).save(str(tmp_path / "net.pt"))  # type: ignore[no-untyped-call]
    for model, source in ((f"script:{tmp_path}/net.pt", unread), (unread, f"script:{tmp_path}/net.pt")):
        jobs = plan_jobs(parse_plan({"models": [model], "datasets": [SCENES], "threats": [transfer(source)]}))
        assert len(jobs) == 1


def test_the_same_weights_are_the_target_itself_whatever_their_classes_are_called() -> None:
    network, data = tiny_network(), TinyDataset(1)
    model, renamed, other = (
        wrap_model(each, num_classes=3, class_names=names, name=name)
        for each, names, name in (
            (network, None, "plain"),
            (network, "abc", "renamed"),
            (torch.nn.Conv2d(3, 3, 1), "abc", "other"),
        )
    )
    with pytest.raises(GauntletError, match="the source 'other' has other classes than 'plain'"):
        plan_job(model, data, build_threat(transfer(other)), Settings())
    own = build_threat(transfer(renamed))
    plan_job(model, data, own, Settings())
    made = own.perturb(model, collate([data[0]], ignore_index=data.ignore_index), [ImageSeed(0, data.ids()[0])])
    assert made.details["source_is_target"] == [True]


@pytest.mark.parametrize(
    ("model", "count"), [("streets/enet", "no"), ("ensemble:gamma=0.5:[streets/enet]+[streets/pspnet]", "2")]
)
def test_inner_is_told_when_a_plan_is_made(model: str, count: str) -> None:
    plan = parse_plan({"models": [model], "datasets": [SCENES], "threats": [transfer("inner")]})
    with pytest.raises(GauntletError, match=f"has {count} models inside it, and 'inner' needs one"):
        plan_jobs(plan)


def test_inner_needs_a_model_inside() -> None:
    with pytest.raises(GauntletError, match="has no models inside it"):
        evaluate(tiny(1), TinyDataset(), transfer("inner"))


def test_a_region_is_kept() -> None:
    store = Store()
    region = {"square": {"size": 4, "position": "centre"}}
    evaluation = evaluate(tiny(1), TinyDataset(), transfer(tiny(0), region=region), store=store)
    assert {figure.view for figure in evaluation.all_figures} >= {"inside", "outside"}


def test_images_keep_changes_below_a_grey_level_and_the_oldest_go() -> None:
    cache = ImageCache("made", limit=3 * 13_000)
    image = np.full((3, 32, 32), 0.25, np.float32) + np.float32(0.25 / 255)
    keys = [content_key("entry", index) for index in range(200)]
    for key in keys:
        cache.write(key, MadeImage(image, {"norm": 0.1}))
    kept = [key for key in keys if cache.read(key) is not None]
    assert keys[-1] in kept
    assert keys[0] not in kept
    entry = cache.read(keys[-1])
    assert entry is not None
    assert np.array_equal(entry.image, image)
    assert entry.details == {"norm": 0.1}


def test_a_damaged_entry_is_made_again() -> None:
    data, source = TinyDataset(), tiny(0)
    before = evaluate(tiny(1), data, transfer(source))
    cache = ImageCache("transfer")
    entries = list(cache.folder.glob("*/*.npz"))
    assert len(entries) == len(data)
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:100])
    assert evaluate(tiny(1), data, transfer(source)).figures == before.figures


def test_a_source_is_prepared_once_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[str] = []

    def counting(model: SegmentationModel, dataset: object, steps: object) -> SegmentationModel:
        prepared.append(model.identity.name)
        return model

    monkeypatch.setattr("gauntlet.evaluation.jobs.prepare_for", counting)
    evaluate(tiny(2), TinyDataset(4), transfer(tiny(1)), batch_size=1, prepare="channels-last")
    assert prepared.count("tiny-1") == 1


class OneSize(torch.nn.Module):
    """Logits of a 1x1 convolution, for images of 8x12 pixels only."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 3, 1, bias=False)
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([[4.0, 1, -2], [1, 3, 1], [-1, -2, 5]])[:, :, None, None])

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        assert images.shape[-2:] == (8, 12)
        logits: torch.Tensor = self.layer(images)
        return logits


def test_a_source_of_another_size_is_attacked_at_it() -> None:
    """Every pixel is pushed away from the class of its block: the change is that of the small image, made larger."""
    source = wrap_model(OneSize(), num_classes=3, name="one size")
    samples = [
        Sample("one", np.full((16, 24, 3), 128, np.uint8), labels=np.zeros((16, 24), np.int64)),
    ]
    batch, seeds = collate(samples), [ImageSeed(0, "one")]
    step = {"name": "fgsm", "epsilon": "8/255", "labels": "truth"}
    threat = build_threat({"transfer": {"source_model": source, "source_size": "8x12", "attack": step}})
    made = threat.perturb(tiny(1), batch, seeds)
    small = collate([Sample("one", np.full((8, 12, 3), 128, np.uint8), labels=np.zeros((8, 12), np.int64))])
    alone = build_threat({"attack": step}).perturb(source, small, seeds)
    change = alone.images[0, :, 0, 0] - small.images[0, :, 0, 0]  # the same for every pixel
    assert change.abs().tolist() == pytest.approx([8 / 255] * 3)
    expected = batch.images + change.view(1, 3, 1, 1)
    torch.testing.assert_close(made.images, expected, rtol=0, atol=1e-6)
    assert made.details["norm"][0] == pytest.approx(8 / 255)
    assert made.details["source_pixels"] == [[96, 0, 0]]


@pytest.mark.parametrize(("norm", "epsilon"), [("linf", "8/255"), ("l2", "0.5")])
def test_a_resized_perturbation_keeps_to_the_budget(norm: str, epsilon: str) -> None:
    data = TinyDataset(2)
    batch = collate([data[0], data[1]], ignore_index=data.ignore_index)
    options = {"source_model": tiny(2), "source_size": [10, 14], "attack": {**PGD, "norm": norm, "epsilon": epsilon}}
    made = build_threat({"transfer": options}).perturb(tiny(1), batch, [ImageSeed(0, each) for each in data.ids()])
    change = (made.images.double() - batch.images.double()).flatten(1)
    size = change.abs().amax(dim=1) if norm == "linf" else change.norm(dim=1)
    radius = 8 / 255 if norm == "linf" else 0.5
    assert (size <= radius).all()
    assert (size > 0.2 * radius).all()
    assert made.images.min() >= 0
    assert made.images.max() <= 1


def test_the_size_of_a_source_is_part_of_what_is_evaluated() -> None:
    plain, sized = (
        build_threat({"transfer": {"source_model": tiny(2), "attack": PGD, **more}})
        for more in ({}, {"source_size": "10x14"})
    )
    assert sized.name == "pgd linf 8/255 x3 at 10x14 from tiny-2"
    assert sized.describe()["transfer"]["source_size"] == [10, 14]
    assert "source_size" not in plain.describe()["transfer"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"source_size": "10"}, "a source_size is HEIGHTxWIDTH in pixels, as in 512x1024, not '10'"),
        ({"source_size": [0, 4]}, "not \\[0, 4\\]"),
        (
            {"source_size": "8x8", "attack": {**PGD, "region": {"square": {"size": 4, "position": "centre"}}}},
            "an attack with a region is made at the size of the images",
        ),
    ],
)
def test_sizes_of_sources_that_cannot_be(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        build_threat({"transfer": {"source_model": "streets/enet", "attack": PGD, **more}})


def test_an_attack_at_another_size_is_a_source_of_its_own_in_the_matrix() -> None:
    store, data, target, source = Store(), TinyDataset(2), tiny(1), tiny(2)
    figures = {}
    for label, more in (("tiny-2", {}), ("tiny-2 at 10x14", {"source_size": "10x14"})):
        threat = {"transfer": {"source_model": source, "attack": PGD, **more}}
        figures[label] = evaluate(target, data, threat, store=store, prepare="off").figures["mIoU"]
    clean = evaluate(target, data, "clean", store=store).figures["mIoU"]
    matrix = transfer_matrix(store.frame(), "pgd linf 8/255 x3")
    assert {name: matrix.loc["tiny-1", name] for name in matrix.columns} == pytest.approx(
        {label: figure / clean for label, figure in figures.items()}
    )


def test_a_size_of_the_source_is_for_segmentation() -> None:
    threat = build_threat({"transfer": {"source_model": "streets/fcos", "source_size": "64x64", "attack": PGD}})
    with pytest.raises(GauntletError, match="source_size is for segmentation models"):
        threat.check_task("detection")

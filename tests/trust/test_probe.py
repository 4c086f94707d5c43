"""What is stored of a model is returned only while the model answers as it did (issue 38, 2)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import gauntlet
from fresh_python import FreshPython
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.local import LocalExecutor
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.execution.runner import run_jobs
from gauntlet.evaluation.plan import parse_plan, plan_jobs
from gauntlet.models import SegmentationModel, load_model, wrap_model
from gauntlet.models.probe import LABELS, NONE, PROBE, Probe, probe_images, probe_model
from gauntlet.report.assembly import build_report
from gauntlet.report.document import Findings
from gauntlet.results import Store
from gauntlet.samples import collate
from gauntlet.threats.attacks import check_attack
from paths import TESTS
from tiny import TinyDataset, tiny_network
from tiny_detector import TinyBoxes, TinyDetector


class Notes(Silent):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note_once(self, text: str) -> None:
        self.texts.append(text)


class OwnDraws(nn.Module):
    """A random network as strangers write them: with a generator of its own, seeded once."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = tiny_network()
        self.generator = torch.Generator().manual_seed(0)
        self.calls = 0
        self.register_buffer("seen", torch.zeros(1))

    seen: torch.Tensor

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen += 1
        noise = torch.randn(images.shape, generator=self.generator) + np.random.normal() + random.random()  # noqa: NPY002
        logits: torch.Tensor = self.layers(images + noise) + torch.rand(1)
        return logits


SWITCH = {"sign": 1.0}


class Switched(nn.Module):
    """A network that reads what no digest sees."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = tiny_network()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(images) * SWITCH["sign"]
        return logits


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setitem(SWITCH, "sign", 1.0)
    return monkeypatch


def wrapped(network: nn.Module, **options: Any) -> SegmentationModel:
    return wrap_model(network, num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, **options)


def test_the_images_of_the_probe_are_known_numbers() -> None:
    images = probe_images(32, 64)
    assert images.shape == (2, 3, 32, 64)
    assert (images[0, 0, :2, :3] * 255).round().tolist() == [[0, 3, 6], [5, 8, 11]]
    assert int((images.double() * 255).round().sum()) == 1553370


def test_a_probe_is_the_same_each_time_and_survives_json(tiny_model: SegmentationModel) -> None:
    first, second = probe_model(tiny_model), probe_model(tiny_model)
    assert first == second
    assert Probe.from_dict(json.loads(json.dumps(first.as_dict()))) == first
    assert not first.random


def moved(probe: Probe, amount: float) -> Probe:
    values = {
        name: tuple(None if each is None else each + amount * (-1) ** index for index, each in enumerate(numbers))
        for name, numbers in probe.values.items()
    }
    return Probe(probe.kind, probe.size, values, probe.random)


def test_float_noise_agrees_and_a_hundredth_of_the_range_does_not(tiny_model: SegmentationModel) -> None:
    probe = probe_model(tiny_model)
    every = [float(each or 0) for numbers in probe.values.values() for each in numbers]
    spread = max(every) - min(every)
    assert probe.agrees(moved(probe, 1e-5 * spread))
    assert not probe.agrees(moved(probe, 1e-2 * spread))
    assert probe.agrees(moved(probe, 1e-2 * spread), tolerance=0.2)


@pytest.mark.parametrize(
    "change",
    [
        lambda logits: -logits,
        lambda logits: logits.flip(1),
        lambda logits: logits.flip(-1),
        lambda logits: logits[:, :2],
    ],
    ids=["negated", "classes turned", "mirrored", "a class less"],
)
def test_a_changed_answer_does_not_agree(change: Any, tiny_model: SegmentationModel) -> None:
    changed = wrap_model(nn.Identity(), num_classes=2)
    changed.module = nn.Sequential(tiny_model)
    changed.module.register_forward_hook(lambda module, inputs, output: change(output))
    assert not probe_model(changed).agrees(probe_model(tiny_model))


def test_a_detector_is_known_by_its_candidates_and_by_its_boxes() -> None:
    probe = probe_model(TinyDetector())
    assert probe.agrees(probe_model(TinyDetector()))
    assert not probe.agrees(probe_model(TinyDetector(threshold=0.9)))
    negated = TinyDetector()
    negated.get_parameter("classify.weight").data.neg_()
    assert not probe.agrees(probe_model(negated))


def test_a_model_that_gives_labels_is_known_by_them() -> None:
    def asked(threshold: float) -> Probe:
        ask = lambda images: (images.mean(dim=1) > threshold).long()  # noqa: E731
        return probe_model(wrap_model(ask, num_classes=2, gives="labels"))

    assert asked(0.5).kind == LABELS
    assert asked(0.5).agrees(asked(0.5))
    assert not asked(0.5).agrees(asked(0.4))


def test_a_model_that_takes_one_size_only_is_asked_at_it() -> None:
    class OneSize(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            if images.shape[-1] != 224:
                raise RuntimeError("224 only")
            return images

    class NoSize(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("never")

    assert probe_model(wrapped(OneSize())).size == (224, 224)
    assert probe_model(wrapped(NoSize())).kind == NONE


def test_the_probe_changes_nothing() -> None:
    network = OwnDraws()
    model = wrapped(network)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index] # noqa: NPY002
    generator, seen = network.generator.get_state(), network.seen
    assert probe_model(model).random
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()  # type: ignore[index] # noqa: NPY002
    assert before[2] == random.getstate()
    assert torch.equal(generator, network.generator.get_state())
    assert network.calls == 0
    assert network.seen is seen
    assert network.seen.item() == 0
    assert not any(part.training for part in model.modules())


def test_declared_draws_are_not_the_model_s_own() -> None:
    model = load_model("noise:streets/enet")
    assert model.random
    assert not probe_model(model).random
    assert probe_model(model) == probe_model(model)


def test_a_model_that_differs_from_itself_is_found_said_stored_and_never_good(tmp_path: Path) -> None:
    data, notes, store = TinyDataset(2), Notes(), Store()
    model = wrapped(OwnDraws(), name="own draws")
    result = gauntlet.evaluate(model, data, store=store, progress=notes)
    assert result.provenance[PROBE]["random"] is True
    assert any("'own draws' differs from itself" in text for text in notes.texts)
    batch = collate([data[0]])
    assert batch.labels is not None
    found = check_attack(model, batch.images, batch.labels, steps=1, noises=1, whole_box_steps=0, queries=0)
    assert ("differs-from-itself", "error") in {(each.code, each.severity) for each in found}
    blocks = [block for part in build_report(store).parts for section in part.sections for block in section.blocks]
    told = [finding for block in blocks if isinstance(block, Findings) for finding in block.items]
    assert [finding.subject for finding in told if "differs from itself" in finding.text] == ["own draws"]
    assert "good" not in {finding.level for finding in told}


def test_a_stored_result_of_a_model_that_answers_otherwise_is_refused(switch: pytest.MonkeyPatch) -> None:
    store, data = Store(), TinyDataset(2)
    first = gauntlet.evaluate(wrapped(Switched(), name="switched"), data, store=store)
    assert gauntlet.evaluate(wrapped(Switched(), name="switched"), data, store=store).from_store
    switch.setitem(SWITCH, "sign", -1.0)
    with pytest.raises(GauntletError, match=r"'switched' answers otherwise than when 'clean' was stored \(stored.*now"):
        gauntlet.evaluate(wrapped(Switched(), name="switched"), data, store=store)
    again = gauntlet.evaluate(wrapped(Switched(), name="switched"), data, store=store, retrieve_existing=False)
    assert (again.key, again.from_store) == (first.key, False)
    assert again.figures != first.figures


def test_a_model_that_changes_after_it_was_wrapped_is_refused() -> None:
    store, data, network = Store(), TinyDataset(2), tiny_network()
    model = wrapped(network)
    gauntlet.evaluate(model, data, store=store)
    network.register_forward_hook(lambda module, inputs, output: -output)
    with pytest.raises(GauntletError, match="answers otherwise"):
        gauntlet.evaluate(model, data, store=store)


class Stop(Silent):
    """Interrupts after the first unit."""

    def advance(self, count: int, figure: float = 0, name: str = "", text: str = "") -> None:
        raise KeyboardInterrupt


def test_an_interrupted_evaluation_is_not_continued_by_another_model(switch: pytest.MonkeyPatch) -> None:
    store, data = Store(), TinyDataset(6)
    with pytest.raises(KeyboardInterrupt):
        gauntlet.evaluate(wrapped(Switched()), data, store=store, batch_size=2, progress=Stop())
    switch.setitem(SWITCH, "sign", -1.0)
    with pytest.raises(GauntletError, match="answers otherwise"):
        gauntlet.evaluate(wrapped(Switched()), data, store=store, batch_size=2)
    switch.setitem(SWITCH, "sign", 1.0)
    assert gauntlet.evaluate(wrapped(Switched()), data, store=store, batch_size=2).images == 6


SMALL = {"name": "streets", "options": {"size": [32, 64], "length": 2}}


def run(store: Store, model: str = "streets/enet", threats: tuple[str, ...] = ("clean",), workers: int = 1) -> Any:
    plan = parse_plan({"models": [model], "datasets": [SMALL], "threats": list(threats)})
    return run_jobs(plan_jobs(plan), store, executor=LocalExecutor(workers), progress=Silent())


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_run_records_the_probe_and_a_shipped_model_is_not_loaded_again_for_it(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store()
    first = run(store, threats=("clean", "fog"), workers=workers)
    assert not first.failures
    probes = [store.load(key).provenance[PROBE] for key in list(store.keys())]  # type: ignore[union-attr]
    assert [Probe.from_dict(each).agrees(probe_model(load_model("streets/enet"))) for each in probes] == [True, True]
    with monkeypatch.context() as patch:
        patch.setattr(nn.Module, "load_state_dict", None)
        second = run(store, threats=("clean", "fog"))
    assert (len(second.stored), second.failures) == (2, [])


def test_a_run_says_which_stored_evaluations_are_of_another_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = Store()
    run(store)
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path))
    monkeypatch.setattr(
        "gauntlet.models.architectures.enet.ENet.forward", lambda self, images: images.mean(1, True).repeat(1, 11, 1, 1)
    )
    outcome = run(store)
    assert outcome.stored == []
    (failure,) = outcome.failures
    assert "'streets/enet' answers otherwise than when 'clean' was stored" in failure.error


def test_evaluations_of_earlier_versions_have_no_probe_and_are_returned(
    monkeypatch: pytest.MonkeyPatch, switch: pytest.MonkeyPatch
) -> None:
    store, data = Store(), TinyDataset(2)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "probes", lambda self, keys: {})
        gauntlet.evaluate(wrapped(Switched()), data, store=store)
        switch.setitem(SWITCH, "sign", -1.0)
        assert gauntlet.evaluate(wrapped(Switched()), data, store=store).from_store


PROGRAM = """
import sys
import gauntlet
from tiny import TinyDataset
from gauntlet.models import load_model
model = load_model("python:nets:build", num_classes=3)
result = gauntlet.evaluate(model, TinyDataset(2), store="results.db")
print(result.figures["mIoU"], result.key)
"""
READS_A_FILE = """
from pathlib import Path
from torch import nn
from tiny import tiny_network

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = tiny_network()

    def forward(self, images):
        return self.layers(images) * float(Path("sign.txt").read_text())

def build():
    return Net()
"""


def test_a_file_that_a_model_reads_when_it_is_asked_is_noticed_in_another_process(
    tmp_path: Path, fresh_python: FreshPython
) -> None:
    (tmp_path / "nets.py").write_text(READS_A_FILE)
    (tmp_path / "sign.txt").write_text("1")
    first = fresh_python.run(PROGRAM, folder=tmp_path, path=(TESTS,))
    assert first.returncode == 0, first.stderr
    assert fresh_python.run(PROGRAM, folder=tmp_path, path=(TESTS,)).stdout == first.stdout
    (tmp_path / "sign.txt").write_text("-1")
    refused = fresh_python.run(PROGRAM, folder=tmp_path, path=(TESTS,))
    assert refused.returncode == 1
    assert "answers otherwise than when 'clean' was stored" in refused.stderr


class Changing(nn.Module):
    """A network with much that can be changed about it."""

    offset: torch.Tensor
    layers: nn.Sequential

    def __init__(self) -> None:
        super().__init__()
        self.layers = tiny_network()
        self.scale = 1.0
        self.order = [0, 1, 2]
        self.settings: dict[str, Any] = {"shift": (0.0, 0.0), "flip": False}
        self.table = np.zeros(3, np.float32)
        self.unused: Any = None
        self.register_buffer("offset", torch.zeros(3, 1, 1), persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits = self.layers(images)[:, self.order] * self.scale * SWITCH["sign"]
        first, second = self.settings["shift"]
        logits = logits + self.offset + torch.from_numpy(self.table).view(3, 1, 1)
        logits = torch.cat([logits[:, :1] + first, logits[:, 1:2] + second, logits[:, 2:]], 1)
        return logits.flip(1) if self.settings["flip"] else logits


NUMBERS = st.integers(-16, 16).map(lambda number: number / 8)  # what is smaller than the tolerance may pass
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("scale"), NUMBERS),
        st.tuples(st.just("order"), st.permutations([0, 1, 2])),
        st.tuples(st.just("shift"), st.tuples(NUMBERS, NUMBERS)),
        st.tuples(st.just("flip"), st.booleans()),
        st.tuples(st.just("table"), NUMBERS),
        st.tuples(st.just("unused"), st.one_of(st.none(), st.text(max_size=3), st.integers())),
        st.tuples(st.just("offset"), NUMBERS),
        st.tuples(st.just("weight"), NUMBERS),
        st.tuples(st.just("hook"), NUMBERS),
        st.tuples(st.just("forward"), NUMBERS),
        st.tuples(st.just("sign"), NUMBERS),
        st.tuples(st.just("mean"), NUMBERS),
        st.tuples(st.just("stride"), st.sampled_from([1, 2, 8])),
    ),
    max_size=3,
)


def apply(network: Changing, options: dict[str, Any], change: tuple[str, Any], patch: pytest.MonkeyPatch) -> None:
    what, value = change
    if what in ("shift", "flip"):
        network.settings[what] = value
    elif what == "table":
        network.table[1] = value
    elif what == "offset":
        network.offset[2] = value
    elif what == "weight":
        network.get_parameter("layers.0.weight").data[0, 0, 0, 0] += value
    elif what == "hook":
        network.register_forward_hook(lambda module, inputs, output: output + value * output.roll(1, 1))
    elif what == "forward":
        plain = network.forward
        network.forward = lambda images: plain(images * value)  # type: ignore[method-assign]
    elif what == "sign":
        patch.setitem(SWITCH, "sign", value)
    elif what == "mean":
        options["mean"] = (0.5, 0.5 + value, 0.5)
    elif what == "stride":
        options["stride"] = value
    else:
        setattr(network, what, value)


@settings(max_examples=30, deadline=None)
@given(changes=CHANGES)
def test_any_change_gives_another_key_or_is_refused_or_gives_the_same_figures(changes: list[tuple[str, Any]]) -> None:
    options: dict[str, Any] = {"num_classes": 3, "mean": (0.5,) * 3, "std": (0.25,) * 3}
    store, data, network = Store(), TinyDataset(2), Changing()
    before = gauntlet.evaluate(wrap_model(Changing(), **options), data, store=store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SWITCH, "sign", 1.0)
        for change in changes:
            apply(network, options, change, patch)
        model = wrap_model(network, **options)
        try:
            found = gauntlet.evaluate(model, data, store=store)
        except GauntletError:
            return
        if found.key == before.key:
            fresh = gauntlet.evaluate(model, data)
            assert found.figures == pytest.approx(fresh.figures, abs=1e-12, nan_ok=True)


def test_boxes_are_probed_with_every_evaluation() -> None:
    result = gauntlet.evaluate(TinyDetector(), TinyBoxes(2))
    assert result.provenance[PROBE]["kind"] == "boxes"

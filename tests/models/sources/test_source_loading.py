"""resolve_model: addresses, benchmark triples, options that a source does not take, the user's own callables."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import gauntlet
from fresh_python import FreshPython
from gauntlet.errors import GauntletError
from gauntlet.models import loading, resolve_model, zoo
from gauntlet.models.sources.contract import sources
from tiny import tiny_network


class Evil:
    """Pickled, it creates a file when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def scaled_network(weights: str, scale: float = 1.0) -> nn.Module:
    """What a user's own function may look like: it reads its weights itself."""
    network = tiny_network()
    network.load_state_dict(torch.load(weights, weights_only=True))
    with torch.no_grad():
        network.get_parameter("2.weight").mul_(scale)
    return network


def test_every_prefix_of_the_issue_is_known() -> None:
    assert {"hf", "smp", "torchvision", "script", "onnx", "python", "mmseg", "tiled"} <= set(sources.names())


def test_a_benchmark_triple_becomes_the_address_of_its_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def spy(rest: str, options: Any) -> Any:
        asked.append((rest, dict(options)))
        raise GauntletError("enough")

    monkeypatch.setitem(sources._entries, "hf", spy)
    monkeypatch.setitem(sources._entries, "mmseg", spy)
    cases: list[tuple[tuple[str, str, str], dict[str, Any]]] = [
        (("SegFormer", "MiT-B0", "ADE20K"), {}),
        (("deeplabv3", "resnet101", "ade20k"), {"trust": True}),
    ]
    for triple, options in cases:
        with pytest.raises(GauntletError, match="enough"):
            gauntlet.load_model(model_name=triple[0], backbone=triple[1], dataset=triple[2], **options)
    assert asked[0] == ("nvidia/segformer-b0-finetuned-ade-512-512", {})
    entry = zoo.find("deeplabv3", "resnet101", "ade20k")
    assert asked[1] == (entry.openmmlab_config, {"checkpoint": entry.openmmlab_weights, "trust": True})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "say which model to load"),
        ({"model_name": "segformer"}, "named by three things, model_name, backbone and dataset"),
        ({"address": "streets/enet", "dataset": "ade20k"}, "give either the address 'streets/enet' or model_name"),
        ({"model_name": "segformr", "backbone": "mit-b0", "dataset": "ade20k"}, "did you mean 'segformer'"),
        ({"model_name": "mask2former", "backbone": "swin-t", "dataset": "voc"}, "no public checkpoint of mask2former"),
        ({"model_name": "deeplabv3", "backbone": "resnet101", "dataset": "ade20k"}, "pass trust=True"),
        ({"address": "streets/enet", "mean": [0, 0, 0]}, "'streets/enet' takes no options, but got mean"),
        ({"address": "python:tiny:tiny_network", "num_classes": 3, "sttride": 8}, "did you mean 'stride'"),
        ({"address": "hff:x"}, "unknown model source 'hff'; did you mean 'hf'"),
    ],
)  # fmt: skip
def test_bad_requests_are_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        gauntlet.load_model(**arguments)


def test_trusting_a_shipped_model_is_allowed() -> None:
    assert resolve_model("streets/enet", trust=True).identity == resolve_model("streets/enet").identity


def test_a_callable_gets_the_options_it_names(tmp_path: Path) -> None:
    torch.save(tiny_network().state_dict(), tmp_path / "net.pth")
    images = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    weights = str(tmp_path / "net.pth")
    options: dict[str, Any] = {"weights": weights, "num_classes": 3, "trust": True, "mean": (0.5,) * 3}
    model = gauntlet.load_model("python:test_source_loading:scaled_network", scale=2.0, **options)
    expected = scaled_network(weights, 2.0)(images - 0.5)
    torch.testing.assert_close(model(images), expected)


def test_script_models_refuse_what_they_do_not_take_and_ignore_trust(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.jit.trace(tiny_network(), torch.rand(1, 3, 8, 8)).save(str(path))  # type: ignore[no-untyped-call]
    with pytest.raises(GauntletError, match=r"unknown option of the model 'script:.*' 'weights'"):
        gauntlet.load_model(f"script:{path}", num_classes=3, weights="x")
    plain = gauntlet.load_model(f"script:{path}", num_classes=3)
    trusted = gauntlet.load_model(f"script:{path}", num_classes=3, trust=True)
    assert plain.identity == trusted.identity


def test_an_exported_program_runs_only_when_trusted(tmp_path: Path) -> None:
    """Torch unpickles the sample inputs in the archive without restrictions where its restricted way fails."""
    mark, path = tmp_path / "ran", tmp_path / "net.pt2"
    torch.export.save(torch.export.export(tiny_network().eval(), (torch.rand(1, 3, 8, 8),)), tmp_path / "good.pt2")
    evil = io.BytesIO()
    torch.save(((Evil(mark),), {}), evil)
    with zipfile.ZipFile(tmp_path / "good.pt2") as good, zipfile.ZipFile(path, "w") as changed:
        for name in good.namelist():
            changed.writestr(name, evil.getvalue() if "sample_inputs" in name else good.read(name))
    with pytest.raises(GauntletError, match=r"loading one can run code from the file; pass trust=True"):
        gauntlet.load_model(f"script:{path}", num_classes=3)
    assert not mark.exists()


def test_a_missing_package_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from gauntlet.models.sources import adapting

    def missing(name: str) -> Any:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr("gauntlet.models.sources.adapting.importlib.import_module", missing)
    with pytest.raises(GauntletError, match=r"models with 'smp:' need the package 'x'.*pip install .*\[zoo\]'"):
        adapting.require("x", "smp")


def test_the_function_that_loads_is_the_public_one() -> None:
    assert gauntlet.load_model is loading.load_model


def test_a_source_may_return_the_model_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(rest: str, options: Any) -> Any:
        made = gauntlet.wrap_model(tiny_network(int(rest)), num_classes=int(rest), name=f"small:{rest}", **options)
        return made.train()

    monkeypatch.setitem(sources._entries, "small", build)
    source = resolve_model("small:5", mean=(0.5,) * 3)
    model = source.load()
    assert (source.identity.name, source.task, model.num_classes) == ("small:5", "segmentation", 5)
    assert source.identity == model.identity != resolve_model("small:5").identity
    assert not model.training


def test_a_source_that_returns_something_else_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sources._entries, "small", lambda rest, options: tiny_network())
    with pytest.raises(
        GauntletError, match=r"source 'small' returned a Sequential; expected a ModelSource or what wrap"
    ):
        resolve_model("small:5")


def test_sources_and_networks_are_imported_when_asked_for(fresh_python: FreshPython, tmp_path: Path) -> None:
    code = (
        "import sys, gauntlet.models; from gauntlet.models.architectures import architectures, detectors; "
        "architectures.names(), detectors.names(), architectures['enet']; "
        "watched = {'transformers', 'torchvision', 'onnx', 'enet', 'cgnet', 'detr'}; "
        "print(watched & ({*sys.modules} | {name.rpartition('.')[2] for name in sys.modules}))"
    )
    done = fresh_python.run(code, folder=tmp_path)
    assert done.stdout.strip() == "{'enet'}"

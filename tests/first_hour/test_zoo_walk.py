"""Optional packages that are missing or broken, as on a machine with the CPU build of torch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gauntlet import extras
from gauntlet.own_code import find_callable
from program import Call
from stranger import bring_weights
from subprocesses import environment

HIDDEN = """
import importlib.util, sys

class NoTorchvision:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torchvision":
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name.partition(".")[0] == "torchvision" else found(name, *rest)
sys.meta_path.insert(0, NoTorchvision())
"""

SEGFORMER = """
from transformers import SegformerConfig, SegformerForSemanticSegmentation

sizes = dict(hidden_sizes=[8, 8, 16, 16], depths=[1] * 4, num_attention_heads=[1, 1, 2, 2], decoder_hidden_size=16)
SegformerForSemanticSegmentation(SegformerConfig(num_labels=3, **sizes)).save_pretrained("segformer")
import gauntlet

result = gauntlet.evaluate("hf:segformer", gauntlet.load_dataset("folder:photos", split="val"))
print("NmIoU" in result.figures, "torchvision" in sys.modules)
"""


@pytest.fixture
def broken_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A torchvision that is installed and fails as PyPI's does beside the CPU build of torch."""
    package = tmp_path / "site/torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    monkeypatch.syspath_prepend(str(package.parent))
    extras.torchvision_fault.cache_clear()
    yield
    extras.torchvision_fault.cache_clear()


@pytest.mark.usefixtures("broken_torchvision")
def test_a_broken_torchvision_is_said_in_one_sentence_with_two_ways_out(call: Call, home: Path) -> None:
    for address, other in (("hf:photos", "pip uninstall torchvision"), ("onnx:recipe.yaml", "use script:")):
        code, _, err = call("run", "--model", address, "--num-classes", "3", "--dataset", "folder:photos")
        assert code == 2
        assert "does not work with torch" in err
        assert "operator torchvision::nms does not exist" in err
        assert extras.FITTING_TORCHVISION in err
        assert other in err
        assert len(err.splitlines()) == 1


@pytest.mark.usefixtures("broken_torchvision")
def test_the_doctor_imports_what_it_lists(call: Call) -> None:
    code, out, _ = call("doctor", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["optional"]["torchvision models"]["broken"] == "operator torchvision::nms does not exist"
    assert facts["optional"]["Parquet export"]["broken"] is None
    assert "pip uninstall torchvision" in facts["torchvision"]
    assert "Broken: torchvision models: operator torchvision::nms does not exist." in call("doctor")[1]


def test_hints_fit_a_cloned_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    repository = Path(extras.__file__).resolve().parents[2]
    monkeypatch.chdir(repository)
    assert extras.install_command("zoo") == "pip install -e '.[zoo]'"
    monkeypatch.chdir(tmp_path)
    assert extras.install_command("zoo") == f"pip install -e '{repository}[zoo]'"
    monkeypatch.setattr(extras, "__file__", str(tmp_path / "site-packages/gauntlet/extras.py"))
    assert extras.install_command("zoo") == "pip install 'vision-gauntlet[zoo]'"


@pytest.mark.zoo
def test_segmentation_models_of_hugging_face_work_without_torchvision(home: Path) -> None:
    pytest.importorskip("transformers", reason="the extra zoo is not installed")
    program = [sys.executable, "-c", HIDDEN + SEGFORMER]
    done = subprocess.run(program, cwd=home, env=environment(), capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "True False", done.stderr


@pytest.mark.zoo
def test_an_exported_network_and_one_of_hugging_face_run_from_the_command_line(call: Call, home: Path) -> None:
    pytest.importorskip("onnx2torch", reason="the extra zoo is not installed")
    import torch
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    bring_weights()
    network = find_callable("unet:UNet")(3).eval()
    axes = {"image": {0: "n", 2: "h", 3: "w"}, "logits": {0: "n", 2: "h", 3: "w"}}
    torch.onnx.export(
        network, (torch.rand(1, 3, 32, 32),), "net.onnx", opset_version=17, dynamo=False, dynamic_axes=axes,
        input_names=["image"], output_names=["logits"],
    )  # fmt: skip
    sizes = {"hidden_sizes": [8, 8, 16, 16], "num_attention_heads": [1, 1, 2, 2], "decoder_hidden_size": 16}
    config = SegformerConfig(num_labels=3, depths=[1] * 4, **sizes)
    SegformerForSemanticSegmentation(config).save_pretrained("segformer")
    photos = ("--dataset", "folder:photos", "--split", "val", "--threat", "clean", "--threat", "fgsm")
    for address in ("onnx:net.onnx", "hf:segformer"):
        code, out, err = call("run", "--model", address, "--num-classes", "3", "--stride", "32", *photos)
        if code == 2 and "num_classes" in err:  # a model of Hugging Face knows its own
            code, out, err = call("run", "--model", address, *photos)
        assert code == 0, err
        assert "2 computed" in out

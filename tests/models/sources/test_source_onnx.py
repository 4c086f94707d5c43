"""onnx: logits equal onnx's own interpreter, gradients reach the input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import resolve_model
from tiny import tiny_network

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx2torch")
pytestmark = pytest.mark.zoo

IMAGES = torch.rand(2, 3, 16, 24, generator=torch.Generator().manual_seed(0))


def save(path: Path, batch: Any = "n", height: Any = "h", width: Any = "w", external: str | None = None) -> Path:
    """The tiny network of the tests as ONNX: convolution, tanh, strided convolution, written node by node."""
    network = tiny_network()
    helper = onnx.helper
    tensors = {name: value.numpy() for name, value in network.state_dict().items()}
    nodes = [
        helper.make_node("Conv", ["image", "0.weight", "0.bias"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "2.weight", "2.bias"], ["logits"], pads=[1, 1, 1, 1], strides=[2, 2]),
    ]
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("image", kind, [batch, 3, height, width])],
        [helper.make_tensor_value_info("logits", kind, [batch, 3, None, None])],
        [onnx.numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    if external is not None:
        onnx.save_model(model, path, save_as_external_data=True, location=external, size_threshold=0)
    else:
        onnx.save_model(model, path)
    return path


def interpreted(path: Path, images: torch.Tensor) -> torch.Tensor:
    """What onnx's reference interpreter says."""
    session = onnx.reference.ReferenceEvaluator(str(path))
    return torch.from_numpy(np.asarray(session.run(None, {"image": images.numpy()})[0]))


def test_logits_equal_the_interpreters_and_carry_gradients(tmp_path: Path) -> None:
    import onnx.reference  # noqa: F401 - not imported with onnx

    path = save(tmp_path / "tiny.onnx")
    source = resolve_model(f"onnx:{path}", mean=[0.5] * 3, std=[0.25] * 3)
    model = source.load()
    assert source.identity == model.identity
    assert model.num_classes == 3
    low = interpreted(path, (IMAGES - 0.5) / 0.25)
    expected = torch.nn.functional.interpolate(low, size=(16, 24), mode="bilinear", align_corners=False)
    images = IMAGES.clone().requires_grad_()
    logits = model(images)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    (gradient,) = torch.autograd.grad(logits.square().sum(), images)
    assert (gradient.abs().sum(1) > 0).float().mean() > 0.99


def test_fixed_sizes_are_respected(tmp_path: Path) -> None:
    path = save(tmp_path / "fixed.onnx", batch=1, height=16, width=16)
    model = gauntlet.load_model(f"onnx:{path}")
    logits = model(IMAGES)
    assert logits.shape == (2, 3, 16, 24)
    # A batch of two is seen one by one, each image resized to 16x16.
    torch.testing.assert_close(logits[1:], model(IMAGES[1:]))
    small = torch.nn.functional.interpolate(IMAGES, (16, 16), mode="bilinear", align_corners=False, antialias=True)
    network = tiny_network()
    last = network[2]
    assert isinstance(last, torch.nn.Conv2d)
    last.stride = (2, 2)
    expected = torch.nn.functional.interpolate(network(small), (16, 24), mode="bilinear", align_corners=False)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


def test_weights_beside_the_file_belong_to_its_identity_and_may_not_lie_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    path = save(folder / "tiny.onnx", external="tiny.bin")
    before = resolve_model(f"onnx:{path}").identity
    torch.testing.assert_close(
        gauntlet.load_model(f"onnx:{path}")(IMAGES), gauntlet.load_model(f"onnx:{save(tmp_path / 'one.onnx')}")(IMAGES)
    )
    weights = folder / "tiny.bin"
    weights.write_bytes(bytes(weights.stat().st_size))
    assert resolve_model(f"onnx:{path}").identity.digest != before.digest
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../outside.bin"
    onnx.save_model(model, path)
    with pytest.raises(GauntletError, match=r"wants the file '\.\./outside\.bin', which lies outside its folder"):
        gauntlet.load_model(f"onnx:{path}")


def test_bad_files_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match=r"there is no file nowhere\.onnx"):
        gauntlet.load_model("onnx:nowhere.onnx")
    (tmp_path / "text.onnx").write_text("a network, honestly")
    with pytest.raises(GauntletError, match=r"text.onnx is not an ONNX file"):
        gauntlet.load_model(f"onnx:{tmp_path / 'text.onnx'}")
    flat = onnx.helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, [1, 10])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Tanh", ["image"], ["out"])], "flat", [flat], [flat])
    onnx.save_model(onnx.helper.make_model(graph), tmp_path / "flat.onnx")
    with pytest.raises(GauntletError, match=r"takes 1 inputs, the first of shape \[1, 10\]; expected one image"):
        gauntlet.load_model(f"onnx:{tmp_path / 'flat.onnx'}", num_classes=3)


def one_node(path: Path, operator: str, opset: int, output: list[Any]) -> Path:
    """A file of a single node, in an opset."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node(operator, ["image"], ["output"])],
        "one",
        [helper.make_tensor_value_info("image", kind, [1, 3, 16, 24])],
        [helper.make_tensor_value_info("output", kind, output)],
    )
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    return path


def test_a_newer_opset_is_named_with_the_one_that_works(tmp_path: Path) -> None:
    path = one_node(tmp_path / "new.onnx", "Gelu", 20, [1, 3, 16, 24])
    with pytest.raises(GauntletError, match=r"the file has opset 20: export it with opset_version=17"):
        resolve_model(f"onnx:{path}", num_classes=3).load()


def test_boxes_without_a_rule_name_the_rules(tmp_path: Path) -> None:
    path = one_node(tmp_path / "boxes.onnx", "Tanh", 13, [1, 84, 100])
    with pytest.raises(GauntletError, match=r"say how it writes boxes with decode \(--decode\): .*yolov8"):
        resolve_model(f"onnx:{path}").load()

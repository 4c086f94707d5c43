"""onnx: with runtime=onnxruntime: the same logits without a gradient, attacked by asking."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_source_onnx import IMAGES, interpreted, save

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import SegmentationModel, resolve_model
from gauntlet.models.asked import has_gradient
from gauntlet.threats.attacks import build

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.zoo


def with_labels(path: Path) -> Path:
    """The tiny network of the tests with its argmax inside, at its own stride."""
    model = onnx.load(save(path))
    model.graph.node.append(onnx.helper.make_node("ArgMax", ["logits"], ["labels"], axis=1, keepdims=1))
    model.graph.output.pop()
    model.graph.output.append(onnx.helper.make_tensor_value_info("labels", onnx.TensorProto.INT64, ["n", 1, "h", "w"]))
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "strides":
                attribute.ints[:] = [1, 1]
    onnx.save_model(model, path)
    return path


def test_logits_equal_the_interpreters_and_carry_no_gradient(tmp_path: Path) -> None:
    import onnx.reference  # noqa: F401 - not imported with onnx

    path = save(tmp_path / "tiny.onnx")
    source = resolve_model(f"onnx:{path}", runtime="onnxruntime")
    model = source.load()
    assert isinstance(model, SegmentationModel)
    low = interpreted(path, IMAGES)
    expected = torch.nn.functional.interpolate(low, size=(16, 24), mode="bilinear", align_corners=False)
    torch.testing.assert_close(model(IMAGES), expected, rtol=1e-4, atol=1e-4)
    assert not has_gradient(model)
    assert source.identity.digest != resolve_model(f"onnx:{path}").identity.digest
    labels = model(IMAGES).argmax(1)
    for name in ("square", "label-only"):
        outcome = build(name, epsilon=0.1, queries=10)(model, IMAGES, labels)
        assert outcome.queries.forward.tolist() == [11, 11]
        assert outcome.queries.backward.tolist() == [0, 0]
        assert outcome.fooled.sum() > 0
    with pytest.raises(GauntletError, match="needs the gradient of the model, and this one can only be asked"):
        build("pgd")(model, IMAGES, labels)


def test_fixed_batches_and_label_maps(tmp_path: Path) -> None:
    fixed = gauntlet.load_model(f"onnx:{save(tmp_path / 'fixed.onnx', batch=1)}", runtime="onnxruntime")
    free = gauntlet.load_model(f"onnx:{save(tmp_path / 'free.onnx')}", runtime="onnxruntime")
    torch.testing.assert_close(fixed(IMAGES), free(IMAGES))
    path = with_labels(tmp_path / "labels.onnx")
    model = gauntlet.load_model(f"onnx:{path}", runtime="onnxruntime", gives="labels", num_classes=3)
    scores = model(IMAGES)
    assert scores.shape == (2, 3, 16, 24)
    assert torch.equal(scores.sum(1), torch.ones(2, 16, 24))
    with pytest.raises(GauntletError, match="needs the gradient"):
        build("pgd")(model, IMAGES, scores.argmax(1))


def test_bad_options_are_one_sentence(tmp_path: Path) -> None:
    path = save(tmp_path / "tiny.onnx")
    with pytest.raises(GauntletError, match="runtime must be one of onnx2torch, onnxruntime, not 'tensorrt'"):
        gauntlet.load_model(f"onnx:{path}", runtime="tensorrt")

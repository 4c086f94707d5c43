"""onnx: detectors: decode rules by hand, the loss made from them, and a real COCO detector, clean and attacked."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.metrics.detection.figures import figures
from gauntlet.models import DetectionModel, resolve_model
from gauntlet.models.sources.decoding import build_rule, decoded_loss
from gauntlet.samples import Boxes, Sample, images_to_tensor

REAL = Path(__file__).resolve().parents[3] / "../shared/realdata"
FILE = REAL / "checkpoints/fastestdet_coco.onnx"
needs_real_data = pytest.mark.skipif(not FILE.is_file(), reason="../shared/realdata is not here")


def test_fastestdet_by_hand() -> None:
    # Two classes on a grid of 1 row and 2 columns; the right cell has an object.
    output = torch.zeros(1, 7, 1, 2)
    output[0, :, 0, 1] = torch.tensor([0.5, math.atanh(0.5), 0.0, 0.0, math.log(3), 0.25, 0.75])
    detected = build_rule("fastestdet").decode(output, (32, 64))
    # Centre (1 + 0.5) / 2 and 0, sides sigmoid(0) and sigmoid(ln 3).
    torch.testing.assert_close(detected.boxes[0, 1], torch.tensor([0.75 - 0.25, -0.375, 0.75 + 0.25, 0.375]))
    expected = torch.tensor([0.5**0.6 * 0.25**0.4, 0.5**0.6 * 0.75**0.4])
    torch.testing.assert_close(detected.confidences[0, 1], expected)
    assert detected.objectness is not None
    assert detected.objectness[0].tolist() == [0.0, 0.5]


@pytest.mark.parametrize("name", ["yolov5", "yolov8"])
def test_yolo_by_hand(name: str) -> None:
    # Centre (32, 8), sides 16 x 8 in an input of 32 rows and 64 columns; two classes.
    box, classes = [32.0, 8, 16, 8], [0.2, 0.6]
    values = torch.tensor([[box + ([0.5] if name == "yolov5" else []) + classes]])
    detected = build_rule(name).decode(values if name == "yolov5" else values.transpose(1, 2), (32, 64))
    torch.testing.assert_close(detected.boxes[0, 0], torch.tensor([24 / 64, 4 / 32, 40 / 64, 12 / 32]))
    torch.testing.assert_close(detected.confidences[0, 0], torch.tensor(classes) * (0.5 if name == "yolov5" else 1))


def test_detections_are_suppressed_inside_a_class() -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 9], [0, 0, 10, 8], [50, 50, 60, 60]])
    confidences = torch.tensor([[0.9, 0.1], [0.8, 0.0], [0.0, 0.7], [0.0005, 0.0]])
    detected = build_rule("yolov8").select(boxes, confidences)
    # The second goes (IoU 0.9 with the first), so does the first's other class: the third, better, overlaps it by 0.8.
    assert detected.classes.tolist() == [0, 1]
    assert detected.scores is not None
    np.testing.assert_allclose(detected.scores, [0.9, 0.7])
    one = build_rule({"name": "yolov8", "one_class": True, "suppression": 0.95, "most": 2}).select(boxes, confidences)
    assert one.scores is not None
    np.testing.assert_allclose(one.scores, [0.9, 0.8])


def test_the_loss_by_hand() -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [20, 20, 30, 30]])
    confidences = torch.tensor([[0.8, 0.1], [0.2, 0.3]])
    objects, classes = torch.tensor([[0.0, 0, 10, 5]]), torch.tensor([0])
    # IoU = GIoU = 0.5 for the first box, which belongs to the object; everything else is background.
    background = -0.75 * sum(p**2 * math.log(1 - p) for p in (0.1, 0.2, 0.3))
    expected = -math.log(0.8) + background + 0.5
    assert float(decoded_loss(boxes, confidences, objects, classes)) == pytest.approx(expected, rel=1e-5)
    # An object that no box overlaps still has its nearest one (here the first of equals).
    far = decoded_loss(boxes, confidences, torch.tensor([[100.0, 100, 110, 110]]), torch.tensor([1]))
    background = -0.75 * sum(p**2 * math.log(1 - p) for p in (0.8, 0.2, 0.3))
    generalised = -(110 * 110 - 200) / (110 * 110)
    assert float(far) == pytest.approx(-math.log(0.1) + background + 1 - generalised, rel=1e-5)
    empty = decoded_loss(boxes, confidences, torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))
    assert float(empty) == pytest.approx(-0.75 * sum(p**2 * math.log(1 - p) for p in (0.8, 0.1, 0.2, 0.3)), rel=1e-5)


def test_rules_are_declared_by_name() -> None:
    assert build_rule({"name": "fastestdet", "suppression": 0.6}).suppression == 0.6
    with pytest.raises(GauntletError, match="yolov8"):
        build_rule("yolo8")
    with pytest.raises(GauntletError, match="setting of the decode rule 'yolov8'"):
        build_rule({"name": "yolov8", "iou": 0.5})
    with pytest.raises(GauntletError, match="decode must be the name of a rule"):
        build_rule(3)


def fastestdet(**options: Any) -> DetectionModel:
    pytest.importorskip("onnx2torch")
    source = resolve_model(f"onnx:{FILE}", decode="fastestdet", channel_order="BGR", **options)
    assert source.task == "detection"
    model = source.load()
    assert isinstance(model, DetectionModel)
    assert model.identity == source.identity
    return model


def detections(model: DetectionModel, samples: list[Sample]) -> dict[str, float]:
    detected = [model.predict(images_to_tensor([sample.image]))[0] for sample in samples]
    return figures([sample.boxes for sample in samples if sample.boxes is not None], detected, model.num_classes)


@pytest.mark.zoo
@pytest.mark.slow
@needs_real_data
def test_fastestdet_reaches_its_published_figures() -> None:
    model = fastestdet()
    assert model.num_classes == 80
    dataset = gauntlet.load_dataset("coco", root=REAL / "coco_val")
    reached = detections(model, [dataset[index] for index in range(len(dataset))])
    # 18.2 and 34.1 in the README of the data.
    assert reached["mAP"] == pytest.approx(0.182, abs=0.005)
    assert reached["mAP50"] == pytest.approx(0.341, abs=0.005)


@pytest.mark.zoo
@needs_real_data
def test_fastestdet_is_attacked_for_real() -> None:
    model = fastestdet()
    dataset = gauntlet.load_dataset("coco", root=REAL / "coco_val", limit=8)
    samples = [dataset[index] for index in range(8)]
    attack = gauntlet.attacks.build("pgd", epsilon="8/255", alpha="2/255", steps=10)
    attacked = []
    for sample in samples:
        assert sample.boxes is not None
        images = images_to_tensor([sample.image])
        changed = attack(model, images, [sample.boxes]).images
        assert float((changed - images).abs().max()) <= 8 / 255 + 1e-6
        assert model.losses(changed, [sample.boxes])[0] > model.losses(images, [sample.boxes])[0]
        pixels = (changed[0].permute(1, 2, 0) * 255).round().byte().numpy()
        attacked.append(Sample(sample.id, pixels, boxes=sample.boxes))
    before, after = detections(model, samples), detections(model, attacked)
    assert before["mAP50"] > 0.3
    assert after["mAP50"] < before["mAP50"] / 10


@pytest.mark.zoo
@needs_real_data
def test_labels_are_chosen_and_candidates_have_gradients() -> None:
    model = fastestdet(outputs=[2, 0], class_names=["car", "person"])
    assert model.class_names == ("car", "person")
    images = torch.rand(2, 3, 90, 120, generator=torch.Generator().manual_seed(0)).requires_grad_()
    detected = model.candidates(images)
    assert detected.scores.shape == (2, 22 * 22, 2)
    (gradient,) = torch.autograd.grad(detected.objectness.sum(), images)
    assert (gradient.abs().amax(dim=(1, 2, 3)) > 0).all()
    truth = Boxes(np.array([[10, 10, 60, 70]], np.float32), np.array([1]))
    together = model.losses(images, [truth, truth])
    torch.testing.assert_close(model.losses(images[1:], [truth])[0], together[1], rtol=1e-4, atol=1e-5)
    with pytest.raises(GauntletError, match="has 80 classes, not 3"):
        fastestdet(num_classes=3)
    with pytest.raises(GauntletError, match="stride"):
        fastestdet(stride=32)

"""hf: detectors: detections equal the library's own pipeline, losses its training loss image by image."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import DetectionModel
from gauntlet.models.sources.hf_detection import SOFTMAX, QueryDetector, Resizing
from gauntlet.samples import Boxes

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.zoo

# 64 x 80, the size that the processors below resize to: no resampling stands between the two pipelines.
PIXELS = np.random.default_rng(1).integers(0, 256, (2, 64, 80, 3), dtype=np.uint8)
IMAGES = torch.from_numpy(PIXELS).permute(0, 3, 1, 2).float() / 255
TARGETS = [
    Boxes(np.array([[4, 8, 44, 56], [20, 30, 60, 50]], np.float32), np.array([1, 3])),
    Boxes(np.zeros((0, 4), np.float32), np.zeros(0, np.int64)),
]
# So many that pairs of a query and a class are more than the 100 detections that post-processing leaves of some.
QUERIES = 30
NAMES = {0: "N/A", 1: "person", 2: "car", 3: "N/A", 4: "dog", 5: "kite"}


def backbone(*stages: str, kind: str = "ResNetConfig") -> Any:
    return getattr(transformers, kind)(
        embedding_size=8,
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=list(stages),
    )


def family(name: str, width: str = "d_model", **more: Any) -> Any:
    """A DETR of a few thousand weights."""
    settings = {
        width: 32,
        "use_timm_backbone": False,
        "use_pretrained_backbone": False,
        "backbone": None,
        "backbone_config": backbone("stage4"),
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "num_queries": QUERIES,
        "id2label": NAMES,
        **more,
    }
    config = getattr(transformers, f"{name}Config")(**settings)
    return getattr(transformers, f"{name}ForObjectDetection")(config)


def yolos() -> Any:
    config = transformers.YolosConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=[64, 80],
        patch_size=16,
        num_detection_tokens=QUERIES,
        id2label=NAMES,
    )
    return transformers.YolosForObjectDetection(config)


def real_time(name: str = "RTDetr", **more: Any) -> Any:
    settings = {
        "backbone_config": backbone("stage2", "stage3", "stage4", kind="RTDetrResNetConfig"),
        "encoder_hidden_dim": 16,
        "encoder_in_channels": [8, 16, 16],
        "encoder_ffn_dim": 16,
        "encoder_attention_heads": 2,
        "d_model": 16,
        "num_queries": QUERIES,
        "decoder_in_channels": [16, 16, 16],
        "decoder_ffn_dim": 16,
        "decoder_layers": 2,
        "decoder_attention_heads": 2,
        "num_denoising": 4,
        "id2label": NAMES,
        **more,
    }
    config = getattr(transformers, f"{name}Config")(**settings)
    return getattr(transformers, f"{name}ForObjectDetection")(config)


BY_SIDES = {"size": {"shortest_edge": 64, "longest_edge": 96}}
ONE_SIZE = {"size": {"height": 64, "width": 96}}
DETECTORS: dict[str, tuple[Callable[[], Any], str, dict[str, Any]]] = {
    "detr": (lambda: family("Detr"), "Detr", BY_SIDES),
    "conditional": (lambda: family("ConditionalDetr"), "ConditionalDetr", BY_SIDES),
    "deformable": (
        lambda: family("DeformableDetr", backbone_config=backbone("stage2", "stage3", "stage4"), num_feature_levels=3),
        "DeformableDetr",
        BY_SIDES,
    ),
    "dab": (lambda: family("DabDetr", width="hidden_size"), "ConditionalDetr", BY_SIDES),
    "rt": (real_time, "RTDetr", ONE_SIZE),
    "rt-v2": (lambda: real_time("RTDetrV2"), "RTDetr", ONE_SIZE),
    "d-fine": (lambda: real_time("DFine"), "RTDetr", ONE_SIZE),
    "yolos": (yolos, "Yolos", BY_SIDES),
    "table": (lambda: family("TableTransformer"), "Detr", BY_SIDES),
}


@pytest.fixture(scope="module", params=DETECTORS)
def detector(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Any]:
    """A network of the library, its image processor, and the model that `load_model` makes of their folder."""
    build, processor_name, settings = DETECTORS[request.param]
    torch.manual_seed(0)
    network = build().eval()
    # Clear margins between labels and between boxes, and little chance for labels that are no classes, as a trained
    # network has it.
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, torch.nn.Linear) and layer.out_features == 4:
                layer.weight.normal_()
            if isinstance(layer, torch.nn.Linear) and layer.out_features in (len(NAMES), len(NAMES) + 1):
                layer.weight.normal_(std=0.5)
                layer.bias[[label for label, name in NAMES.items() if name == "N/A"]] = -50
    folder = tmp_path_factory.mktemp("checkpoint")
    network.save_pretrained(folder)
    processor = getattr(transformers, f"{processor_name}ImageProcessor")(**settings)
    processor.save_pretrained(folder)
    model = gauntlet.load_model(f"hf:{folder}")
    assert isinstance(model, DetectionModel)
    return network, processor, model


def expected_boxes(network: Any, processor: Any, pixel_values: torch.Tensor, size: tuple[int, int]) -> list[Boxes]:
    """What the library detects, without the labels that are no classes, best first."""
    with torch.no_grad():
        outputs = network(pixel_values=pixel_values)
    classes = {label: index for index, label in enumerate(label for label, name in NAMES.items() if name != "N/A")}
    boxes = []
    for detected in processor.post_process_object_detection(outputs, threshold=0.0, target_sizes=[size] * 2):
        kept = [index for index, label in enumerate(detected["labels"].tolist()) if label in classes]
        kept.sort(key=lambda index: -float(detected["scores"][index]))
        labels = [classes[label] for label in detected["labels"][kept].tolist()]
        boxes.append(Boxes(detected["boxes"][kept].numpy(), np.array(labels), detected["scores"][kept].numpy()))
    return boxes


def test_detections_equal_the_librarys_pipeline(detector: tuple[Any, Any, Any]) -> None:
    network, processor, model = detector
    assert model.class_names == ("person", "car", "dog", "kite")
    prepared = processor(images=list(PIXELS), return_tensors="pt")["pixel_values"]
    ours = model.prepare(IMAGES)
    assert ours.shape == prepared.shape
    # Where a processor resamples, it rounds to whole grey levels.
    resampled = tuple(ours.shape[-2:]) != (64, 80)
    torch.testing.assert_close(ours, prepared, rtol=0, atol=0.51 / 255 if resampled else 1e-5)
    check_boxes(model.predict(IMAGES), expected_boxes(network, processor, ours, (64, 80)))


def check_boxes(detected: list[Boxes], expected: list[Boxes]) -> None:
    for mine, library in zip(detected, expected, strict=True):
        assert len(mine) == len(library) >= QUERIES - 1
        assert mine.scores is not None
        assert (np.diff(mine.scores) <= 0).all()
        # By class and place: scores that differ in the last digit may change their order.
        mine, library = (each.select(np.lexsort((each.xyxy[:, 0], each.classes))) for each in (mine, library))
        assert mine.scores is not None
        assert library.scores is not None
        np.testing.assert_allclose(mine.scores, library.scores, atol=1e-5)
        np.testing.assert_allclose(mine.xyxy, library.xyxy, atol=1e-3)
        assert mine.classes.tolist() == library.classes.tolist()


def test_images_of_other_sizes_are_resized_inside_and_boxes_come_back(detector: tuple[Any, Any, Any]) -> None:
    network, processor, model = detector
    pixels = np.random.default_rng(2).integers(0, 256, (2, 48, 100, 3), dtype=np.uint8)
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    prepared = processor(images=list(pixels), return_tensors="pt")["pixel_values"]
    ours = model.prepare(images)
    # The longer side decides: 46 x 96; patches of 16 pixels leave 32 x 96 of it; other processors have one size.
    expected = {"yolos": (32, 96), **dict.fromkeys(("rt_detr", "rt_detr_v2", "d_fine"), (64, 96))}
    assert tuple(ours.shape[-2:]) == tuple(prepared.shape[-2:]) == expected.get(model.kind, (46, 96))
    # Processors resample in whole grey levels; a deviation of 0.224 is the smallest that they divide by.
    torch.testing.assert_close(ours, prepared, rtol=0, atol=1.01 / 255 / 0.224)
    check_boxes(model.predict(images), expected_boxes(network, processor, ours, (48, 100)))


def test_gradients_go_through_resizing_and_normalisation(detector: tuple[Any, Any, Any]) -> None:
    network, _, model = detector
    images = torch.rand(1, 3, 48, 100, generator=torch.Generator().manual_seed(3)).requires_grad_()
    (gradient,) = torch.autograd.grad(model.losses(images, TARGETS[:1])[0], images)
    pixels = model.prepare(images).detach().requires_grad_()
    corners = torch.from_numpy(TARGETS[0].xyxy).clamp(max=torch.tensor([100.0, 48, 100, 48]))
    corners = corners / torch.tensor([100, 48, 100, 48])
    boxes = torch.cat([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], dim=1)
    labels = [{"class_labels": torch.tensor([2, 5]), "boxes": boxes}]
    (inner,) = torch.autograd.grad(network(pixel_values=pixels, labels=labels).loss.sum(), pixels)
    # What stands before the network is linear up to a constant: a change of the image is one of its pixels there.
    change = gradient.sign() / 10
    with torch.no_grad():
        there = model.prepare(images + change) - model.prepare(images)
    assert float((gradient * change).sum()) == pytest.approx(float((inner * there).sum()), rel=1e-3)


def test_an_image_has_the_same_result_in_any_batch(detector: tuple[Any, Any, Any]) -> None:
    _, _, model = detector
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert not any(module.training for module in model.modules())
    both = model.candidates(IMAGES)
    alone = model.candidates(IMAGES[1:])
    torch.testing.assert_close(both.boxes[1:], alone.boxes, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(both.scores[1:], alone.scores, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(model.predict(IMAGES)[1].scores, model.predict(IMAGES[1:])[0].scores, atol=1e-4)
    losses = model.losses(IMAGES, TARGETS)
    torch.rand(3)
    assert torch.equal(model.losses(IMAGES, TARGETS), losses)
    # Nothing learns from what it sees: batch statistics stay as they are.
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_losses_are_the_librarys_one_image_at_a_time(detector: tuple[Any, Any, Any]) -> None:
    network, _, model = detector
    images = IMAGES.clone().requires_grad_()
    losses = model.losses(images, TARGETS)
    assert losses.shape == (2,)
    corners = torch.tensor([[4, 8, 44, 56], [20, 30, 60, 50.0]]) / torch.tensor([80, 64, 80, 64])
    boxes = torch.cat([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], dim=1)
    # Classes 1 and 3 are the network's labels 2 and 5.
    labels = [{"class_labels": torch.tensor([2, 5]), "boxes": boxes}]
    library = network(pixel_values=model.prepare(IMAGES[:1]), labels=labels).loss
    torch.testing.assert_close(losses[0], library.reshape(()), rtol=1e-4, atol=1e-5)
    (gradient,) = torch.autograd.grad(losses.sum(), images)
    assert (gradient.abs().amax(dim=(1, 2, 3)) > 0).all()
    torch.testing.assert_close(model.losses(IMAGES[1:], TARGETS[1:])[0], losses[1].detach(), rtol=1e-4, atol=1e-5)
    crowd = Boxes(
        np.concatenate([TARGETS[0].xyxy, [[0, 0, 80, 64]], [[5, 5, 5, 9]]]).astype(np.float32),
        np.array([1, 3, 0, 0]),
        crowd=np.array([False, False, True, False]),
    )
    torch.testing.assert_close(model.losses(IMAGES[:1], [crowd])[0], losses[0].detach(), rtol=1e-4, atol=1e-5)


def test_candidates_are_the_queries(detector: tuple[Any, Any, Any]) -> None:
    _, _, model = detector
    images = IMAGES.clone().requires_grad_()
    detected = model.candidates(images)
    assert detected.scores.shape == (2, QUERIES, 4)
    assert detected.boxes.shape == (2, QUERIES, 4)
    assert (torch.autograd.grad(detected.objectness.sum(), images)[0].abs().amax(dim=(1, 2, 3)) > 0).all()
    if model.kind in SOFTMAX:
        chances = torch.cat([detected.scores, torch.zeros(2, QUERIES, 1)], dim=2).softmax(dim=2)
        torch.testing.assert_close(detected.objectness.sigmoid(), 1 - chances[..., -1])
    best = detected.scores.flatten(1).argmax(dim=1)
    for row, each in enumerate(model.predict(IMAGES)):
        if model.kind not in SOFTMAX:
            assert each.classes[0] == int(best[row]) % 4
            np.testing.assert_allclose(each.xyxy[0], detected.boxes[row, int(best[row]) // 4].detach(), atol=1e-3)


@pytest.mark.parametrize(
    ("sides", "size", "expected"),
    [
        ((800, 1333), (480, 640), (800, 1066)),
        ((800, 1333), (640, 427), (1199, 800)),
        ((800, 1333), (300, 900), (444, 1333)),
        ((800, 1333), (800, 1000), (800, 1000)),
    ],
)
def test_sizes_are_those_of_the_processors(sides: tuple[int, int], size: Any, expected: Any) -> None:
    assert Resizing(shorter=sides[0], longer=sides[1])(*size) == expected
    image = np.zeros((*size, 3), np.uint8)
    edges = {"shortest_edge": sides[0], "longest_edge": sides[1]}
    prepared = transformers.DetrImageProcessor(size=edges)(images=image, return_tensors="pt")["pixel_values"]
    assert tuple(prepared.shape[-2:]) == expected


def test_a_user_overrules_size_labels_and_names(tmp_path: Path) -> None:
    torch.manual_seed(0)
    yolos().save_pretrained(tmp_path)
    model = gauntlet.load_model(f"hf:{tmp_path}", outputs=[4, 1], class_names=["b", "a"], input_size=[32, 48], name="y")
    assert model.class_names == ("b", "a")
    assert model.identity.name == "y"
    assert isinstance(model, QueryDetector)
    assert model.prepare(IMAGES).shape[-2:] == (32, 48)
    assert model.candidates(IMAGES).scores.shape == (2, QUERIES, 2)
    # Patches of 16 pixels cover the whole image.
    given = gauntlet.load_model(f"hf:{tmp_path}", input_size="image")
    assert isinstance(given, QueryDetector)
    assert given.prepare(torch.zeros(1, 3, 50, 64)).shape[-2:] == (64, 64)
    with pytest.raises(GauntletError, match="has 4 classes, not 7"):
        gauntlet.load_model(f"hf:{tmp_path}", num_classes=7)
    with pytest.raises(GauntletError, match=r"option of the model .* 'stride'"):
        gauntlet.load_model(f"hf:{tmp_path}", stride=32)
    with pytest.raises(GauntletError, match="must be a height and a width in pixels"):
        gauntlet.load_model(f"hf:{tmp_path}", input_size=5)

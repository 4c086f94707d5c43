"""torchvision: detectors: detections and losses equal torchvision's own, for random weights and small images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import resolve_model
from gauntlet.models.sources.detecting import Labels, ObjectDetector
from gauntlet.samples import Boxes

torchvision = pytest.importorskip("torchvision")
pytestmark = pytest.mark.zoo

IMAGES = torch.rand(2, 3, 64, 80, generator=torch.Generator().manual_seed(2))
TARGETS = [
    Boxes(np.array([[4, 8, 44, 56], [20, 30, 60, 50]], np.float32), np.array([1, 2])),
    Boxes(np.zeros((0, 4), np.float32), np.zeros(0, np.int64)),
]
SMALL = {"min_size": 96, "max_size": 160}
FEW = {f"rpn_{when}_nms_top_n_{mode}": 60 for when in ("pre", "post") for mode in ("train", "test")}
DETECTORS: dict[str, dict[str, Any]] = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": SMALL | FEW,
    "maskrcnn_resnet50_fpn": SMALL | FEW,
    "retinanet_resnet50_fpn": SMALL | {"score_thresh": 0.0},
    "fcos_resnet50_fpn": SMALL | {"score_thresh": 0.0},
    "ssdlite320_mobilenet_v3_large": {},
}


@pytest.fixture(scope="module", params=DETECTORS)
def detector(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ObjectDetector]:
    """A network of torchvision with three classes and a background, and the model made of its file."""
    name, settings = request.param, DETECTORS[request.param]
    torch.manual_seed(0)
    network = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=4, **settings)
    path = tmp_path_factory.mktemp("weights") / "own.pth"
    torch.save({"model": network.state_dict()}, path)
    source = resolve_model(f"torchvision:{name}", weights=path, architecture=settings)
    assert source.task == "detection"
    model = source.load()
    assert isinstance(model, ObjectDetector)
    assert model.identity == source.identity
    return network.eval(), model


def test_detections_equal_the_librarys(detector: tuple[Any, ObjectDetector]) -> None:
    network, model = detector
    assert model.num_classes == 3
    with torch.no_grad():
        library = network(list(IMAGES))
    for mine, theirs in zip(model.predict(IMAGES), library, strict=True):
        order = theirs["scores"].argsort(descending=True, stable=True)
        order = order[theirs["labels"][order] > 0]  # one-stage networks have an output for label 0, which is no class
        assert len(mine) == len(order)
        np.testing.assert_allclose(mine.xyxy, theirs["boxes"][order].numpy(), atol=1e-3)
        assert mine.scores is not None
        np.testing.assert_allclose(mine.scores, theirs["scores"][order].numpy(), atol=1e-5)
        assert mine.classes.tolist() == (theirs["labels"][order] - 1).tolist()


def test_losses_are_those_of_training_with_layers_in_eval_mode(detector: tuple[Any, ObjectDetector]) -> None:
    network, model = detector
    before = {name: value.clone() for name, value in model.state_dict().items()}
    images = IMAGES.clone().requires_grad_()
    losses = model.losses(images, TARGETS)
    assert losses.shape == (2,)
    # Nothing learns from what it sees: batch statistics stay as they are.
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    # Neither the order of the calls nor what was drawn before changes the samples that the loss is made of.
    torch.rand(3)
    torch.testing.assert_close(model.losses(IMAGES[:1], TARGETS[:1])[0], losses[0].detach(), rtol=1e-4, atol=1e-5)
    assert not any(module.training for module in model.modules())
    (gradient,) = torch.autograd.grad(losses[0], images)
    assert gradient[0].abs().sum() > 0
    assert gradient[1].abs().sum() == 0
    crowd = Boxes(
        np.concatenate([TARGETS[0].xyxy, [[0, 0, 80, 64]], [[5, 5, 5, 9]]]).astype(np.float32),
        np.array([1, 2, 0, 0]),
        crowd=np.array([False, False, True, False]),
    )
    torch.testing.assert_close(model.losses(IMAGES[:1], [crowd])[0], losses[0].detach(), rtol=1e-4, atol=1e-5)
    if hasattr(network, "roi_heads"):
        for part in ("mask_roi_pool", "mask_head", "mask_predictor"):  # no boxes come from masks
            setattr(network.roi_heads, part, None)
    # torchvision's training mode, with the one thing undone that it does to layers.
    network.train()
    network.transform.eval()
    for module in network.modules():
        if isinstance(module, (torch.nn.BatchNorm2d, torch.nn.Dropout)):
            module.eval()
    torch.manual_seed(0)
    target = {"boxes": torch.from_numpy(TARGETS[0].xyxy), "labels": torch.from_numpy(TARGETS[0].classes + 1)}
    with torch.no_grad():
        library = sum(network([IMAGES[0]], [target]).values())
    network.eval()
    torch.testing.assert_close(losses[0].detach(), library, rtol=1e-4, atol=1e-5)


def test_candidates_hold_the_detections(detector: tuple[Any, ObjectDetector]) -> None:
    _, model = detector
    images = IMAGES.clone().requires_grad_()
    detected = model.candidates(images)
    count = detected.scores.shape[1]
    assert detected.scores.shape == (2, count, 3)
    assert detected.boxes.shape == (2, count, 4)
    assert detected.objectness.shape == (2, count)
    real = torch.isfinite(detected.objectness.detach())
    assert real.any(dim=1).all()
    (gradient,) = torch.autograd.grad(detected.scores[real].sum(), images)
    assert gradient.abs().sum() > 0
    # The best detection of an image is one of its candidates, cut off at the border.
    limits = torch.tensor([80.0, 64, 80, 64])
    for row, best in enumerate(model.predict(IMAGES)):
        if len(best):
            boxes = detected.boxes[row].detach().clamp(min=0).minimum(limits)
            assert (boxes - torch.from_numpy(best.xyxy[0])).abs().amax(dim=1).min() < 0.05


def test_an_image_has_the_same_candidates_in_any_batch(detector: tuple[Any, ObjectDetector]) -> None:
    _, model = detector
    with torch.no_grad():
        both, alone = model.candidates(IMAGES), model.candidates(IMAGES[1:])
    mine, other = (each.objectness[-1][torch.isfinite(each.objectness[-1])].sort().values for each in (both, alone))
    torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)


def test_gradients_go_through_resizing_and_padding(detector: tuple[Any, ObjectDetector]) -> None:
    _, model = detector
    transform = model.network.transform
    seen: list[torch.Tensor] = []

    def keep(_: Any, __: Any, output: Any) -> None:
        output[0].tensors.retain_grad()
        seen.append(output[0].tensors)

    image = IMAGES[0].clone().requires_grad_()
    hook = transform.register_forward_hook(keep)
    try:
        model.losses(image[None], TARGETS[:1]).sum().backward()  # type: ignore[no-untyped-call]
    finally:
        hook.remove()
    # What stands before the network is linear up to a constant: a change of the image is one of its input there.
    assert image.grad is not None
    change = image.grad.sign() / 10
    with torch.no_grad():
        there = transform([image + change])[0].tensors - transform([image])[0].tensors
    assert there.shape == seen[0].shape
    assert seen[0].grad is not None
    assert float((image.grad * change).sum()) == pytest.approx(float((seen[0].grad * there).sum()), rel=1e-3)


def test_the_labels_of_vgg16s_ssd_and_of_keypoint_r_cnn(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = torchvision.models.get_model("ssd300_vgg16", weights=None, weights_backbone=None, num_classes=4)
    torch.save(network.state_dict(), tmp_path / "own.pth")
    model = gauntlet.load_model("torchvision:ssd300_vgg16", weights=tmp_path / "own.pth")
    assert isinstance(model, ObjectDetector)
    assert model.outputs.tolist() == [1, 2, 3]
    names = torchvision.models.get_model_weights("keypointrcnn_resnet50_fpn").DEFAULT.meta["categories"]
    assert Labels.of("keypointrcnn", names, {}) == Labels((1,), ("person",))


def test_published_weights_bring_cocos_80_classes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = "ssdlite320_mobilenet_v3_large"
    network = torchvision.models.get_model(name, weights=None, weights_backbone=None)
    asked: list[dict[str, object]] = []

    def fetch(url: str, **options: object) -> dict[str, torch.Tensor]:
        asked.append(options)
        state: dict[str, torch.Tensor] = network.state_dict()
        return state

    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", fetch)
    model = gauntlet.load_model(f"torchvision:{name}")
    # The first look at the file unpickles nothing but tensors.
    assert asked[0]["weights_only"] is True
    assert all(options["check_hash"] for options in asked)
    assert model.num_classes == 80
    assert model.class_names[:12] == (
        "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
        "fire hydrant", "stop sign",
    )  # fmt: skip
    assert model.class_names[-1] == "toothbrush"
    assert isinstance(model, ObjectDetector)
    # Label 12 is one of COCO's gaps.
    assert model.outputs[10:12].tolist() == [11, 13]
    # The same file in one's own hands.
    torch.save(network.state_dict(), tmp_path / "fetched.pth")
    fetched = gauntlet.load_model(f"torchvision:{name}", weights=tmp_path / "fetched.pth")
    assert isinstance(fetched, ObjectDetector)
    assert fetched.class_names == model.class_names
    assert fetched.outputs.tolist() == model.outputs.tolist()
    with pytest.raises(GauntletError, match="must be different labels"):
        gauntlet.load_model(f"torchvision:{name}", weights=tmp_path / "fetched.pth", outputs=[1, 1])
    wrong = Boxes(np.array([[0, 0, 9, 9]], np.float32), np.array([-1]))
    with pytest.raises(GauntletError, match="a box has the class -1; expected 0 to 79"):
        fetched.losses(IMAGES[:1], [wrong])


def test_wrong_names_options_and_files_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match="fcos_resnet50_fpn"):
        resolve_model("torchvision:fcos_resnet50_fpm")
    torch.save({"x": torch.zeros(1)}, tmp_path / "x.pth")
    with pytest.raises(GauntletError, match="unknown option of the detector"):
        resolve_model("torchvision:fcos_resnet50_fpn", weights=tmp_path / "x.pth", stride=32)
    with pytest.raises(GauntletError, match="they have no outputs for classes"):
        gauntlet.load_model("torchvision:fcos_resnet50_fpn", weights=tmp_path / "x.pth")

"""mmdet: equals the library's own pipeline, for real configurations with random weights."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import DetectionModel
from gauntlet.samples import Boxes
from gauntlet.threats import attacks
from mm_networks import Saved, as_images, build, picture, read_config, save

pytest.importorskip("mmdet", exc_type=ImportError)
pytestmark = pytest.mark.mm

# A ResNet of 18 layers, few proposals, few layers and queries, small images: the heads are as they are.
RESNET = {"model.backbone.depth": 18}
PYRAMID = {**RESNET, "model.neck.in_channels": [64, 128, 256, 512]}
FEW = {"model.test_cfg.rpn.max_per_img": 30, "model.train_cfg.rpn_proposal.max_per_img": 40}
TWO_STAGES = {**PYRAMID, **FEW, "model.roi_head.bbox_head.fc_out_channels": 64}
STAGES = {f"model.roi_head.bbox_head.{stage}.fc_out_channels": 64 for stage in range(3)}
TRANSFORMER = {"model.encoder.num_layers": 1, "model.decoder.num_layers": 2}
DEFORMABLE = {**RESNET, **TRANSFORMER, "model.neck.in_channels": [128, 256, 512], "model.num_queries": 20}
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "faster": ("faster-rcnn_r50_fpn_1x_coco", TWO_STAGES),
    "cascade": ("cascade-rcnn_r50_fpn_1x_coco", {**PYRAMID, **FEW, **STAGES}),
    "mask": ("mask-rcnn_r50_fpn_1x_coco", TWO_STAGES),
    "guided": ("ga-faster-rcnn_r50-caffe_fpn_1x_coco", TWO_STAGES),  # whose proposals take one image at a time
    "sparse": ("sparse-rcnn_r50_fpn_1x_coco", {**PYRAMID, "model.rpn_head.num_proposals": 20}),
    "retinanet": ("retinanet_r50_fpn_1x_coco", PYRAMID),
    "fcos": ("fcos_r50-caffe_fpn_gn-head_1x_coco", PYRAMID),
    "atss": ("atss_r50_fpn_1x_coco", PYRAMID),
    "tood": ("tood_r50_fpn_1x_coco", PYRAMID),
    "vfnet": ("vfnet_r50_fpn_1x_coco", PYRAMID),
    "reppoints": ("reppoints-moment_r50_fpn_1x_coco", PYRAMID),
    "foveabox": ("fovea_r50_fpn_4xb4-1x_coco", PYRAMID),
    "centernet": ("centernet_r18_8xb16-crop512-140e_coco", {}),
    "detr": ("detr_r50_8xb2-150e_coco",
             {**RESNET, **TRANSFORMER, "model.neck.in_channels": [512], "model.num_queries": 20,
              "model.test_cfg.max_per_img": 20}),
    "deformable": ("deformable-detr-refine-twostage_r50_16xb2-50e_coco", DEFORMABLE),
    "dino": ("dino-4scale_r50_8xb2-12e_coco", {**DEFORMABLE, "model.dn_cfg.group_cfg.num_dn_queries": 10}),
    "ddq": ("ddq-detr-4scale_r50_8xb2-12e_coco", {**DEFORMABLE, "model.dense_topk_ratio": 1.5,
                                                  "model.dn_cfg.group_cfg.num_dn_queries": 10}),
}  # fmt: skip
SIZE = (72, 110)
SCALE = (96, 64)
OBJECTS = Boxes(np.array([[10, 8, 60, 50], [50, 20, 100, 70.0]], np.float32), np.array([3, 17]))
NONE = Boxes(np.zeros((0, 4), np.float32), np.zeros(0, np.int64))


def sharpen(name: str, value: torch.Tensor) -> None:
    """Makes a fresh network sure of some classes, so that something passes its thresholds."""
    if any(part in name for part in ("fc_cls.weight", "heatmap_head.2.weight", "cls_branches.1.2.weight")):
        value *= 20


def resized(steps: list[Any], scale: tuple[int, int] = SCALE) -> list[Any]:
    """A test pipeline for small images; one that keeps the images' sizes is left so."""
    return [
        {**step, "scale": scale} if step["type"] in ("Resize", "FixScaleResize") and "scale" in step else step
        for step in steps
    ]


def make(folder: Path, name: str, *, scale: tuple[int, int] = SCALE, **meta: Any) -> Saved:
    network, changes = NETWORKS[name]
    config = read_config("mmdet", network, changes)
    if name == "sparse":  # two of its six stages, each of twelve million weights
        roi_head = config.model.roi_head
        roi_head.update(num_stages=2, stage_loss_weights=[1, 1], bbox_head=roi_head.bbox_head[:2])
    config.test_pipeline = resized(config.get("test_pipeline") or config.test_dataloader.dataset.pipeline, scale)
    return save(folder, config, build(config, "mmdet", change=sharpen), meta)


def load(saved: Saved, **options: Any) -> DetectionModel:
    model = gauntlet.load_model(f"mmdet:{saved.path}", **saved.options(**options))
    assert isinstance(model, DetectionModel)
    return model


class Library:
    """The same network in mmdet's own hands, which reads images with numbers behind the point."""

    def __init__(self, saved: Saved) -> None:
        from mmengine.registry import MODELS, init_default_scope

        from gauntlet.models.sources.openmmlab import read_checkpoint

        init_default_scope("mmdet")
        self.network = MODELS.build(saved.config.model)
        self.network.load_state_dict(read_checkpoint(saved.weights)["state_dict"])
        if getattr(self.network, "roi_head", None) is not None:
            self.network.roi_head.mask_head = None
        self.steps = saved.config.test_pipeline

    def data(self, pixels: np.ndarray, objects: Boxes, *, floating: bool = True) -> dict[str, Any]:
        """An image and its objects after the pipeline."""
        from mmcv.transforms import Compose

        steps = [step for step in self.steps if not step["type"].startswith(("Load", "Pack"))]
        pack = next(step for step in self.steps if step["type"].startswith("Pack"))
        pipeline = Compose(
            [
                {"type": "mmdet.LoadImageFromNDArray", "to_float32": floating},
                {"type": "LoadAnnotations", "with_bbox": True},
                *steps,
                pack,
            ]
        )
        instances = [
            {"bbox": box.tolist(), "bbox_label": int(label), "ignore_flag": 0}
            for box, label in zip(objects.xyxy, objects.classes, strict=True)
        ]
        image = np.ascontiguousarray(pixels[..., ::-1])
        done = pipeline({"img": image, "img_path": "", "img_id": 0, "instances": instances})
        sample = done["data_samples"]
        if "border" in sample.metainfo:  # this step moves boxes in training only
            top, _, left, _ = sample.metainfo["border"]
            boxes = sample.gt_instances.bboxes.tensor
            boxes += torch.tensor([left, top, left, top])
        return {"inputs": [done["inputs"]], "data_samples": [sample]}

    @torch.no_grad()
    def detections(self, pixels: np.ndarray, *, floating: bool = True) -> Boxes:
        """Best first."""
        self.network.eval()
        found = self.network.test_step(self.data(pixels, NONE, floating=floating))[0].pred_instances
        scores, order = found.scores.sort(descending=True, stable=True)
        return Boxes(found.bboxes[order].numpy(), found.labels[order].numpy(), scores.numpy())

    def loss(self, pixels: np.ndarray, objects: Boxes) -> torch.Tensor:
        """The sum of the training losses, with batch norm and dropout in eval mode."""
        from mmengine.logging import MessageHub

        self.network.train()
        for part in self.network.modules():
            if isinstance(part, (torch.nn.BatchNorm2d, torch.nn.SyncBatchNorm, torch.nn.MultiheadAttention)):
                part.training = False
            if "Drop" in type(part).__name__:
                part.training = False
        MessageHub.get_current_instance().update_info("epoch", 12)
        data = self.network.data_preprocessor(self.data(pixels, objects), training=True)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            loss: torch.Tensor = self.network.parse_losses(self.network.loss(data["inputs"], data["data_samples"]))[0]
        return loss.detach()


def assert_same(ours: Boxes, theirs: Boxes, pixels: float = 0.02, score: float = 1e-4) -> None:
    """That two lists of detections are the same: scores in order, and every box of ours among theirs."""
    assert ours.scores is not None
    assert theirs.scores is not None
    assert len(ours) == len(theirs) > 0
    assert np.isfinite(theirs.xyxy).all()
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=score)
    near = np.abs(ours.xyxy[:, None] - theirs.xyxy[None]).max(axis=-1) < pixels
    alike = np.abs(ours.scores[:, None] - theirs.scores[None]) < score
    same = ours.classes[:, None] == theirs.classes[None]
    assert (near & alike & same).any(axis=1).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_detections_and_losses_equal_the_librarys(name: str, tmp_path: Path) -> None:
    saved = make(tmp_path, name)
    model, library = load(saved), Library(saved)
    first, second = picture(*SIZE), picture(*SIZE, seed=1)
    images = as_images(first, second)

    found = model.predict(images)
    assert_same(found[0], library.detections(first))
    assert_same(model.predict(images[1:])[0], found[1])

    points = images.clone().requires_grad_()
    losses = model.losses(points, [OBJECTS, OBJECTS])
    torch.testing.assert_close(losses[0].detach(), library.loss(first, OBJECTS), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(losses.detach()[1:], model.losses(images[1:], [OBJECTS]), rtol=1e-4, atol=1e-4)
    (slope,) = torch.autograd.grad(losses[0], points)
    assert slope.isfinite().all()
    assert slope[0].abs().sum() > 0
    assert not slope[1].any()
    assert not any(part.training for part in model.modules())

    proposed = model.candidates(points)
    assert proposed.scores.shape[::2] == (2, 80)
    assert proposed.boxes.shape == (*proposed.scores.shape[:2], 4)
    assert proposed.objectness.shape == proposed.scores.shape[:2]
    (slope,) = torch.autograd.grad(proposed.scores[0].clamp(min=-20).sum(), points)
    assert slope[0].abs().sum() > 0
    alone = model.candidates(images[1:])
    count = alone.scores.shape[1]  # fewer than in a batch where an image with more fills it up
    torch.testing.assert_close(proposed.scores[1:, :count].detach(), alone.scores, rtol=1e-3, atol=1e-3)
    assert torch.isneginf(proposed.objectness[1, count:]).all()
    # The best detection is one of the candidates; some heads cut boxes off at the border only afterwards.
    corners = proposed.boxes[0].detach()
    inside = corners.clamp(min=0).minimum(torch.tensor([SIZE[1], SIZE[0]] * 2))
    best = torch.from_numpy(found[0].xyxy[0])
    assert min((each - best).abs().amax(dim=1).min().item() for each in (corners, inside)) < 0.05


@pytest.fixture(scope="module")
def atss(tmp_path_factory: pytest.TempPathFactory) -> DetectionModel:
    return load(make(tmp_path_factory.mktemp("atss"), "atss"))


@pytest.mark.parametrize("attack", ["pgd", "tog-vanishing", "tog-mislabeling", "dag"])
def test_attacks_change_images(attack: str, atss: DetectionModel) -> None:
    images = as_images(picture(*SIZE))
    found = atss.predict(images)[0].select(np.arange(3))  # DAG starts from proposals that are right
    objects = Boxes(found.xyxy, found.classes)
    result = attacks.build(attack, steps=2)(atss, images, [objects])
    assert (result.images - images).abs().amax() > 1e-4


def test_boxes_come_from_resized_and_rounded_images_too(tmp_path: Path) -> None:
    """The library's usual loading rounds resized images to whole grey levels; ours does not."""
    saved = make(tmp_path, "faster")
    pixels = picture(*SIZE)
    theirs = Library(saved).detections(pixels, floating=False)
    ours = load(saved).predict(as_images(pixels))[0]
    assert ours.scores is not None
    assert theirs.scores is not None
    np.testing.assert_allclose(ours.scores[:5], theirs.scores[:5], atol=0.02)
    assert len(ours) == pytest.approx(len(theirs), rel=0.2)


def test_an_image_without_objects_has_a_loss(tmp_path: Path) -> None:
    saved = make(tmp_path, "retinanet")
    model, pixels = load(saved), picture(*SIZE)
    loss = model.losses(as_images(pixels), [NONE])[0]
    torch.testing.assert_close(loss, Library(saved).loss(pixels, NONE), rtol=1e-4, atol=1e-4)


def test_classes_are_named_by_the_checkpoint_else_by_the_configuration(tmp_path: Path) -> None:
    saved = make(tmp_path, "retinanet")
    assert load(saved).class_names[:3] == ("person", "bicycle", "car")
    names = [f"thing {k}" for k in range(80)]
    content = torch.load(saved.weights, weights_only=True)
    torch.save({**content, "meta": {"dataset_meta": {"CLASSES": names}}}, saved.weights)
    model = load(saved, outputs=[2, 0])
    assert model.class_names == ("thing 2", "thing 0")
    assert set(model.predict(as_images(picture(*SIZE)))[0].classes) <= {0, 1}
    assert model.candidates(as_images(picture(*SIZE))).scores.shape[-1] == 2


def test_padding_steps_are_followed(tmp_path: Path) -> None:
    """RTMDet fills images up with grey, left of and above nothing; the box of an image is not moved by it."""
    network = "rtmdet_tiny_8xb32-300e_coco"
    config = read_config("mmdet", network)
    steps = resized(config.test_pipeline)
    config.test_pipeline = [{**step, "size": (96, 96)} if step["type"] == "Pad" else step for step in steps]
    saved = save(tmp_path, config, build(config, "mmdet", change=sharpen))
    pixels = picture(*SIZE)
    assert_same(load(saved).predict(as_images(pixels))[0], Library(saved).detections(pixels))


def test_nothing_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """DDOD's deformable layers tell mmengine's logger, which writes to the standard output, that they are loaded."""
    from mmengine.logging import MMLogger

    config = read_config("mmdet", "ddod_r50_fpn_1x_coco", PYRAMID)
    config.test_pipeline = resized(config.test_dataloader.dataset.pipeline)
    saved = save(tmp_path, config, build(config, "mmdet"))
    monkeypatch.setattr(MMLogger, "_instance_dict", OrderedDict())  # a logger is made when it is first needed
    capsys.readouterr()
    model = load(saved)
    assert model.losses(as_images(picture(*SIZE)), [OBJECTS]).isfinite().all()
    assert capsys.readouterr().out == ""
    assert MMLogger._instance_dict


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    (tmp_path / "w.pth").write_bytes(b"")
    options: dict[str, Any] = {"weights": tmp_path / "w.pth", "trust": True}
    with pytest.raises(GauntletError, match="is told its classes as text"):
        gauntlet.load_model("mmdet:glip_atss_swin-t_a_fpn_dyhead_pretrain_obj365", **options)
    with pytest.raises(GauntletError, match=r"w\.pth: No module named 'mmpretrain'\.$"):
        gauntlet.load_model("mmdet:rtmdet_l_convnext_b_4xb32-100e_coco", **options)
    config = read_config("mmdet", "gfl_r50_fpn_1x_coco", PYRAMID)
    config.test_pipeline = resized(config.test_dataloader.dataset.pipeline)
    model = load(save(tmp_path, config, build(config, "mmdet")))
    with pytest.raises(
        GauntletError, match=r"candidates of mmdet's GFLHead are not known here.*attacks on the loss can"
    ):
        model.candidates(as_images(picture(*SIZE)))
    config.test_pipeline = [*config.test_pipeline[:1], {"type": "RandomFlip", "prob": 1.0}, *config.test_pipeline[1:]]
    with pytest.raises(GauntletError, match="has the step RandomFlip, which is not known"):
        load(save(tmp_path, config, build(config, "mmdet")))


def test_the_loss_of_dynamic_rcnn_does_not_remember(tmp_path: Path) -> None:
    config = read_config("mmdet", "dynamic-rcnn_r50_fpn_1x_coco", TWO_STAGES)
    config.model.train_cfg.rcnn.dynamic_rcnn.update_iter_interval = 2
    config.test_pipeline = resized(config.test_dataloader.dataset.pipeline)
    model = load(save(tmp_path, config, build(config, "mmdet", change=sharpen)))
    images = as_images(picture(*SIZE))
    first = [model.losses(images, [OBJECTS]).item() for _ in range(4)]
    assert first == [first[0]] * 4

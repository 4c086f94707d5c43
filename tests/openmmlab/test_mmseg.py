"""mmseg: equals the library's own pipeline, for real configurations with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import resolve_model
from mm_networks import Saved, as_images, build, picture, read_config, save

pytest.importorskip("mmseg", exc_type=ImportError)
pytest.importorskip("mmdet", exc_type=ImportError)  # Mask2Former of mmseg is mmdet's
pytestmark = pytest.mark.mm

SEGFORMER = "segformer_mit-b0_8xb2-160k_ade20k-512x512"
NETWORKS = {
    "pspnet": "pspnet_r18-d8_4xb2-80k_cityscapes-512x1024",
    "deeplabv3": "deeplabv3_r18-d8_4xb2-80k_cityscapes-512x1024",
    "deeplabv3plus": "deeplabv3plus_r18-d8_4xb2-80k_cityscapes-512x1024",
    "segformer": SEGFORMER,
    "upernet": "upernet_r18_4xb2-40k_cityscapes-512x1024",
    "upernet-swin": "swin-tiny-patch4-window7-in1k-pre_upernet_8xb2-160k_ade20k-512x512",
    "unet": "unet-s5-d16_fcn_4xb4-160k_cityscapes-512x1024",
    "mask2former-r50": "mask2former_r50_8xb2-90k_cityscapes-512x1024",
    "mask2former-swin": "mask2former_swin-t_8xb2-90k_cityscapes-512x1024",
}
# Fewer channels and layers in front of and behind the same code.
NARROW = {"model.decode_head.channels": 32, "model.auxiliary_head.channels": 16}
SHALLOW = {
    "model.decode_head.num_queries": 12,
    "model.decode_head.num_transformer_feat_level": 3,
    "model.decode_head.transformer_decoder.num_layers": 3,
    "model.decode_head.pixel_decoder.encoder.num_layers": 2,
}
SWIN = {"model.backbone.depths": [1, 1, 2, 1]}
SMALLER: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("pspnet", "deeplabv3", "deeplabv3plus", "upernet"), NARROW),
    "upernet-swin": NARROW | SWIN,
    "mask2former-r50": SHALLOW,
    "mask2former-swin": SHALLOW | SWIN,
    "unet": {"model.backbone.base_channels": 16, "model.decode_head.in_channels": 16,
             "model.decode_head.channels": 16, "model.auxiliary_head.in_channels": 32},
}  # fmt: skip
EVEN, ODD = (64, 96), (75, 90)
"""Multiples of 32, and not."""
SIZES = {"unet": (EVEN, (80, 112))}  # mmseg refuses others than multiples of 16 for it
SLIDING = {"mode": "slide", "crop_size": (64, 64), "stride": (43, 43)}


def own_network(saved: Saved) -> Any:
    """The network in mmseg's own hands, which reads images as they are."""
    from mmseg.apis import init_model

    network = init_model(saved.config, str(saved.weights), device="cpu")
    network.cfg.test_pipeline = [{"type": "LoadImageFromNDArray"}, {"type": "PackSegInputs"}]
    return network


def own_result(network: Any, pixels: np.ndarray) -> Any:
    """What mmseg says of an image: its loading, its data preprocessor, its inference."""
    from mmseg.apis import inference_model

    return inference_model(network, np.ascontiguousarray(pixels[..., ::-1]))


def make(folder: Path, name: str, changes: dict[str, Any] | None = None, **meta: Any) -> Saved:
    config = read_config("mmseg", NETWORKS[name], SMALLER.get(name, {}) | (changes or {}))
    return save(folder, config, build(config, "mmseg"), meta or {"dataset_meta": {}})


def load(saved: Saved, **options: Any) -> Any:
    return gauntlet.load_model(f"mmseg:{saved.path}", **saved.options(**options))


def check(saved: Saved, *sizes: tuple[int, int]) -> None:
    """That our logits are the library's."""
    model, network = load(saved), own_network(saved)
    for size in sizes:
        pixels = picture(*size)
        logits = model(as_images(pixels))
        assert logits.shape[-2:] == size
        theirs = own_result(network, pixels).seg_logits.data  # (K, H, W)
        torch.testing.assert_close(logits[0], theirs, rtol=1e-5, atol=1e-5 * max(1.0, theirs.abs().max().item()))


@pytest.mark.parametrize("name", NETWORKS)
def test_logits_equal_the_librarys(name: str, tmp_path: Path) -> None:
    """Of whole images and of sliding windows."""
    sizes = SIZES.get(name, (EVEN, ODD))
    saved = make(tmp_path, name)
    check(saved, *sizes)
    saved.config.model.test_cfg = SLIDING
    if name.startswith("mask2former"):
        # mmseg's cannot be padded and slide: it gives every window the size of the padded image.
        saved.config.model.data_preprocessor.test_cfg = None
    saved.write()
    check(saved, *sizes)


@pytest.mark.parametrize("padding", [{"size": (80, 128)}, {"size_divisor": 48}, {"size": (64, 64)}])
def test_images_are_padded_as_the_data_preprocessor_says(padding: dict[str, Any], tmp_path: Path) -> None:
    settings = {"model.data_preprocessor.test_cfg": padding, "model.data_preprocessor.pad_val": 1.5}
    check(make(tmp_path, "segformer", settings), ODD)


def test_the_gradient_reaches_padded_images(tmp_path: Path) -> None:
    model = load(make(tmp_path, "mask2former-r50"))
    images = as_images(picture(*ODD)).requires_grad_()
    model(images).square().sum().backward()
    assert images.grad is not None
    assert images.grad.isfinite().all()
    assert (images.grad.flatten(1).abs() > 0).float().mean() > 0.9


def test_an_image_is_the_same_in_every_batch(tmp_path: Path) -> None:
    model = load(make(tmp_path, "mask2former-r50"))
    images = as_images(picture(*ODD), picture(*ODD, seed=1))
    torch.testing.assert_close(model(images)[1:], model(images[1:]), rtol=1e-5, atol=1e-5)


def test_sizes_that_the_network_refuses_are_said(tmp_path: Path) -> None:
    saved = make(tmp_path, "unet")
    with pytest.raises(GauntletError, match=r"does not take images of 75x90: The input image size .* stride"):
        load(saved)(as_images(picture(*ODD)))
    assert load(saved, stride=16)(as_images(picture(*ODD))).shape == (1, 19, *ODD)


@pytest.mark.parametrize("classes", [1, 2])
def test_a_head_with_one_output_predicts_as_the_library(classes: int, tmp_path: Path) -> None:
    head = {"num_classes": classes, "out_channels": 1, "threshold": 0.45}
    saved = make(tmp_path, "segformer", {f"model.decode_head.{key}": value for key, value in head.items()})
    pixels = picture(*ODD)
    logits = load(saved)(as_images(pixels))
    theirs = own_result(own_network(saved), pixels).pred_sem_seg.data
    assert logits.shape == (1, 2, *ODD)
    assert torch.equal(logits.argmax(dim=1), theirs.long())
    assert 0 < theirs.float().mean() < 1


def test_checkpoints_of_a_training_loop_load(tmp_path: Path) -> None:
    """The library itself reads tensors only since torch does by default, and fails on these."""
    from mmengine.logging import HistoryBuffer, MessageHub

    hub = MessageHub("mm-test")
    hub.update_scalar("loss", 0.5)
    saved = make(tmp_path, "segformer")
    content = torch.load(saved.weights, weights_only=True)
    content |= {"message_hub": hub.state_dict(), "buffer": HistoryBuffer([1.0], [1]), "best": np.float64(0.7)}
    content["meta"] = {"dataset_meta": {"classes": tuple("abc"), "palette": np.zeros((3, 3))}, "seed": np.int64(3)}
    torch.save(content, saved.weights)
    assert load(saved).num_classes == 150


def test_class_names_come_from_the_checkpoint_else_from_the_configuration(tmp_path: Path) -> None:
    names = [f"thing {k}" for k in range(150)]
    for meta in ({"dataset_meta": {"classes": names}}, {"CLASSES": names, "PALETTE": []}):
        assert load(make(tmp_path, "segformer", **meta)).class_names == tuple(names)
    saved = make(tmp_path, "segformer")
    content = torch.load(saved.weights, weights_only=True)
    del content["meta"]
    for without in (content, content["state_dict"]):
        torch.save(without, saved.weights)
        assert load(saved).class_names[:3] == ("wall", "building", "sky")


def test_a_name_with_dots_is_whole(tmp_path: Path) -> None:
    source = resolve_model("mmseg:net_r1.5_lr0.01", weights=tmp_path / "w.pth", trust=True)
    assert source.identity.name == "net_r1.5_lr0.01"
    with pytest.raises(GauntletError, match=r"no configuration file net_r1\.5_lr0\.01"):
        source.load()
    saved = make(tmp_path, "segformer")
    dotted = saved.path.rename(tmp_path / "segformer_v1.5.py")
    model = gauntlet.load_model(f"mmseg:{dotted}", **saved.options())
    assert model.identity.name == "segformer_v1.5"


def test_nothing_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = make(tmp_path, "segformer")
    capsys.readouterr()
    gauntlet.load_model(f"mmseg:{SEGFORMER}", **saved.options())
    assert capsys.readouterr() == ("", "")


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    saved = make(tmp_path, "segformer")
    with pytest.raises(GauntletError, match=r"is not of segformer_mit-b1.*: size mismatch for \S+: copying a param"):
        gauntlet.load_model("mmseg:segformer_mit-b1_8xb2-160k_ade20k-512x512", **saved.options())
    state = torch.load(saved.weights, weights_only=True)["state_dict"]
    torch.save({name: value for name, value in state.items() if "decode_head" not in name}, saved.weights)
    with pytest.raises(GauntletError, match=r": \d+ tensors are missing, 'decode_head\..*' for one\."):
        load(saved)
    (tmp_path / "broken.pth").write_bytes(b"no checkpoint")
    with pytest.raises(GauntletError, match=r"the checkpoint .*broken\.pth cannot be read"):
        gauntlet.load_model(f"mmseg:{SEGFORMER}", weights=tmp_path / "broken.pth", trust=True)
    with pytest.raises(GauntletError, match="there is no file nowhere"):
        gauntlet.load_model(f"mmseg:{SEGFORMER}", weights="nowhere.pth", trust=True)


def test_the_identity_is_that_of_the_files(tmp_path: Path) -> None:
    saved = make(tmp_path, "segformer")
    first = resolve_model(f"mmseg:{SEGFORMER}", **saved.options()).identity
    torch.save({"state_dict": {}, "meta": {}}, saved.weights)
    second = resolve_model(f"mmseg:{SEGFORMER}", **saved.options()).identity
    assert first.name == second.name == SEGFORMER
    assert first.digest != second.digest

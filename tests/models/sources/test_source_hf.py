"""hf: logits equal transformers' own pipeline, for tiny networks with random weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import resolve_model
from gauntlet.models.wrapping import Normalisation, WrappedSegmentation

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.zoo

CLASSES = 5
NAMES = {index: f"thing {index}" for index in range(CLASSES)}
SWIN = {"image_size": 64, "embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 2, 2], "window_size": 4}
STAGES = ["stage1", "stage2", "stage3", "stage4"]


def segformer() -> Any:
    config = transformers.SegformerConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 8, 16, 16], num_attention_heads=[1, 1, 2, 2], decoder_hidden_size=16
    )
    return named(transformers.SegformerForSemanticSegmentation, config)


def upernet(backbone: Any) -> Any:
    config = transformers.UperNetConfig(
        backbone_config=backbone, hidden_size=16, pool_scales=[1, 2], use_auxiliary_head=False
    )
    return named(transformers.UperNetForSemanticSegmentation, config)


def upernet_convnext() -> Any:
    backbone = transformers.ConvNextConfig(depths=[1, 1, 1, 1], hidden_sizes=[8, 8, 16, 16], out_features=STAGES)
    return upernet(backbone)


def upernet_swin() -> Any:
    return upernet(transformers.SwinConfig(**SWIN, out_features=STAGES))


def beit() -> Any:
    config = transformers.BeitConfig(
        image_size=64,
        hidden_size=16,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=16,
        use_relative_position_bias=True,
        out_indices=[1, 2, 3, 4],
        use_auxiliary_head=False,
    )
    return named(transformers.BeitForSemanticSegmentation, config)


def dpt() -> Any:
    config = transformers.DPTConfig(
        image_size=64,
        hidden_size=16,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=16,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=16,
        use_auxiliary_head=False,
    )
    return named(transformers.DPTForSemanticSegmentation, config)


def mobilenet_v2() -> Any:
    config = transformers.MobileNetV2Config(depth_multiplier=0.25, finegrained_output=False)
    return named(transformers.MobileNetV2ForSemanticSegmentation, config)


def mobilevit() -> Any:
    config = transformers.MobileViTConfig(
        image_size=64, hidden_sizes=[16, 16, 24], neck_hidden_sizes=[8, 8, 16, 16, 16, 16, 32], aspp_out_channels=16
    )
    return named(transformers.MobileViTForSemanticSegmentation, config)


def maskformer() -> Any:
    config = transformers.MaskFormerConfig(
        fpn_feature_size=32,
        mask_feature_size=32,
        backbone_config=transformers.SwinConfig(**SWIN, out_features=STAGES),
        decoder_config=transformers.DetrConfig(
            d_model=16,
            encoder_layers=1,
            decoder_layers=2,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=16,
            decoder_ffn_dim=16,
            num_queries=6,
            # Else the configuration asks for an encoder of timm.
            use_timm_backbone=False,
            backbone=None,
            backbone_config=transformers.ResNetConfig(),
        ),
    )
    return named(transformers.MaskFormerForInstanceSegmentation, config)


def mask2former() -> Any:
    config = transformers.Mask2FormerConfig(
        backbone_config=transformers.SwinConfig(**SWIN, out_features=STAGES),
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=16,
        dim_feedforward=16,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=2,
        num_queries=6,
    )
    return named(transformers.Mask2FormerForUniversalSegmentation, config)


def named(kind: Any, config: Any) -> Any:
    """A network with fresh, lively weights: the library's own initialisation is nearly constant in its output."""
    config.id2label = NAMES
    config.label2id = {name: index for index, name in NAMES.items()}
    torch.manual_seed(0)
    network = kind(config)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                parameter.copy_(torch.randn(parameter.shape) / parameter[0].numel() ** 0.5)
        norms = [module for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d)]
        for norm in norms:
            norm.momentum = 1.0
        if norms:
            network.train()(torch.randn(2, 3, 64, 64))
    return network.eval()


def processor(name: str, **settings: Any) -> Any:
    """The library's image processor; its version for Pillow where torchvision is missing."""
    kind = getattr(transformers, f"{name}ImageProcessorPil", None) or getattr(transformers, f"{name}ImageProcessor")
    return kind(**settings)


def image(height: int = 64, width: int = 96) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (height, width, 3), dtype=np.uint8)


def tensor(pixels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255


def save(folder: Path, network: Any, prepare: Any) -> str:
    network.save_pretrained(folder)
    if prepare is not None:
        prepare.save_pretrained(folder)
    return f"hf:{folder}"


def upsampled(network: Any, prepare: Any, pixels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and label map of the library's own pipeline at the size of the image."""
    with torch.no_grad():
        output = network(**prepare(images=pixels, return_tensors="pt"))
    size = pixels.shape[:2]
    labels = prepare.post_process_semantic_segmentation(output, target_sizes=[size])[0]
    return torch.nn.functional.interpolate(output.logits, size=size, mode="bilinear", align_corners=False), labels


ANY_SIZE = {"do_resize": False, "do_center_crop": False}


@pytest.mark.parametrize(
    ("build", "prepare"),
    [
        (segformer, lambda: processor("Segformer", do_resize=False)),
        (upernet_convnext, lambda: processor("Segformer", do_resize=False)),
        (upernet_swin, lambda: processor("Segformer", do_resize=False, do_reduce_labels=True)),
        (mobilenet_v2, lambda: processor("MobileNetV2", **ANY_SIZE)),
        (mobilevit, lambda: processor("MobileViT", **ANY_SIZE)),
        (beit, lambda: processor("Beit", size={"height": 64, "width": 64}, do_center_crop=False)),
        (dpt, lambda: processor("DPT", size={"height": 64, "width": 64})),
    ],
    ids=lambda value: value.__name__ if value.__name__ != "<lambda>" else "",
)
def test_logits_equal_the_librarys_pipeline(
    build: Callable[[], Any], prepare: Callable[[], Any], tmp_path: Path
) -> None:
    network, preparing = build(), prepare()
    # Networks of one size get an image of it here, so that no resizing blurs the comparison.
    pixels = image(64, 64) if build in (beit, dpt) else image()
    expected, labels = upsampled(network, preparing, pixels)
    model = gauntlet.load_model(save(tmp_path / "net", network, preparing))
    assert model.num_classes == CLASSES
    assert model.class_names == tuple(NAMES.values())
    assert expected.std() > 1e-3
    images = tensor(pixels).requires_grad_()
    logits = model(images)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
    assert (logits.argmax(1)[0] == labels).float().mean() > 0.999
    (gradient,) = torch.autograd.grad(logits.square().sum(), images)
    assert (gradient.abs().sum(1) > 0).float().mean() > 0.9
    assert not any(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize(("build", "name"), [(beit, "Beit"), (dpt, "DPT")])
def test_networks_of_one_size_get_the_image_resized_as_the_library_does(
    build: Callable[[], Any], name: str, tmp_path: Path
) -> None:
    """The library rounds the resized image to whole grey levels, which we, being differentiable, do not."""
    cropping = {"do_center_crop": False} if name == "Beit" else {}
    network, preparing = build(), processor(name, size={"height": 64, "width": 64}, **cropping)
    smooth = np.kron(image(10, 14), np.ones((10, 10, 1))).astype(np.uint8)
    expected, _ = upsampled(network, preparing, smooth)
    logits = gauntlet.load_model(save(tmp_path / "net", network, preparing))(tensor(smooth))
    assert logits.shape == (1, CLASSES, 100, 140)
    assert (logits - expected).abs().mean() < 0.02 * expected.std()


@pytest.mark.parametrize(
    ("build", "name", "size"), [(maskformer, "MaskFormer", (64, 96)), (mask2former, "Mask2Former", (96, 64))]
)
def test_mask_classification_gives_the_librarys_class_scores(
    build: Callable[[], Any], name: str, size: tuple[int, int], tmp_path: Path
) -> None:
    network, preparing = build(), processor(name, do_resize=False)
    pixels = image(*size)
    with torch.no_grad():
        output = network(**preparing(images=pixels, return_tensors="pt"))
    labels = preparing.post_process_semantic_segmentation(output, target_sizes=[size])[0]
    images = tensor(pixels).requires_grad_()
    scores = gauntlet.load_model(save(tmp_path / "net", network, preparing))(images)
    assert scores.shape == (1, CLASSES, *size)
    assert (scores.argmax(1)[0] == labels).float().mean() > 0.999
    # The formula, query by query, at the resolution of the masks.
    classes = output.class_queries_logits[0].softmax(-1)
    assert classes.shape[-1] == CLASSES + 1
    masks = output.masks_queries_logits
    if name == "Mask2Former":
        masks = torch.nn.functional.interpolate(masks, size=(384, 384), mode="bilinear", align_corners=False)
    by_hand = sum(classes[query, :CLASSES, None, None] * masks[0, query].sigmoid() for query in range(6))
    by_hand = torch.nn.functional.interpolate(by_hand[None], size=size, mode="bilinear", align_corners=False)
    torch.testing.assert_close(scores, by_hand, rtol=1e-4, atol=1e-5)
    (gradient,) = torch.autograd.grad(scores.square().sum(), images)
    assert (gradient.abs().sum(1) > 0).float().mean() > 0.9


def test_masks_can_be_enlarged_before_the_sum_as_in_the_authors_code(tmp_path: Path) -> None:
    network = maskformer()
    address = save(tmp_path / "net", network, processor("MaskFormer", do_resize=False))
    images = tensor(image())
    model = gauntlet.load_model(address, mask_resolution="input")
    assert isinstance(model, WrappedSegmentation)
    with torch.no_grad():
        output = network(model.normalisation(images))
        masks = torch.nn.functional.interpolate(
            output.masks_queries_logits, size=(64, 96), mode="bilinear", align_corners=False
        )
        classes = output.class_queries_logits.softmax(-1)[..., :-1]
    torch.testing.assert_close(model(images), torch.einsum("nqk,nqhw->nkhw", classes, masks.sigmoid()))
    assert model.identity.digest != gauntlet.load_model(address).identity.digest
    with pytest.raises(GauntletError, match="unknown mask_resolution 'inputs'; did you mean 'input'"):
        gauntlet.load_model(address, mask_resolution="inputs")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SegFormer with its processor."""
    path = tmp_path_factory.mktemp("models") / "my-segformer"
    save(path, segformer(), processor("Segformer", do_resize=False))
    return path


def test_a_network_with_an_output_for_the_zero_label_loses_it(folder: Path) -> None:
    images = tensor(image())
    every = gauntlet.load_model(f"hf:{folder}")
    reduced = gauntlet.load_model(f"hf:{folder}", reduce_zero_label=True)
    assert reduced.class_names == tuple(NAMES[index] for index in range(1, CLASSES))
    torch.testing.assert_close(reduced(images), every(images)[:, 1:])
    reordered = gauntlet.load_model(f"hf:{folder}", outputs=[4, 0, 2])
    assert reordered.class_names == ("thing 4", "thing 0", "thing 2")
    torch.testing.assert_close(reordered(images), every(images)[:, [4, 0, 2]])
    assert len({model.identity.digest for model in (every, reduced, reordered)}) == 3


def normalisation(address: str, **options: Any) -> Normalisation:
    """The normalisation of the model at an address."""
    model = gauntlet.load_model(address, **options)
    assert isinstance(model, WrappedSegmentation)
    return model.normalisation


def test_the_processors_file_decides_on_normalisation_and_the_user_over_it(folder: Path, tmp_path: Path) -> None:
    odd = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6], "do_normalize": True, "rescale_factor": 2 / 255}
    path = tmp_path / "odd"
    segformer().save_pretrained(path)
    (path / "preprocessor_config.json").write_text(
        json.dumps({**odd, "image_processor_type": "SegformerImageProcessor"})
    )
    actual = normalisation(f"hf:{path}")
    # (2 x - mean) / std = (x - mean / 2) / (std / 2)
    torch.testing.assert_close(actual.mean.flatten(), torch.tensor([0.05, 0.1, 0.15]))
    torch.testing.assert_close(actual.std.flatten(), torch.tensor([0.2, 0.25, 0.3]))
    given = normalisation(f"hf:{path}", mean=(0.5,) * 3, channel_order="BGR")
    assert given.mean.flatten().tolist() == [0.5] * 3
    assert given.channel_order == "BGR"
    torch.testing.assert_close(given.std, actual.std)


def test_without_a_processors_file_the_usual_normalisation_of_the_kind_is_taken(tmp_path: Path) -> None:
    segformer().save_pretrained(tmp_path / "a")
    mean = normalisation(f"hf:{tmp_path / 'a'}").mean.flatten()
    torch.testing.assert_close(mean, torch.tensor([0.485, 0.456, 0.406]))
    mobilevit().save_pretrained(tmp_path / "b")
    swapped = normalisation(f"hf:{tmp_path / 'b'}")
    assert swapped.is_identity
    assert swapped.channel_order == "BGR"


def test_identity_is_that_of_the_files_and_known_without_loading(folder: Path, tmp_path: Path) -> None:
    source = resolve_model(f"hf:{folder}")
    assert source.identity.name == "my-segformer"
    assert source.identity == source.load().identity
    assert resolve_model(f"hf:{folder}", trust=True, name="mine").identity.digest == source.identity.digest
    assert resolve_model(f"hf:{folder}", mean=[0.5] * 3).identity.digest != source.identity.digest
    network = segformer()
    with torch.no_grad():
        network.decode_head.classifier.bias[0] += 1e-3
    save(tmp_path / "my-segformer", network, processor("Segformer", do_resize=False))
    assert resolve_model(f"hf:{tmp_path / 'my-segformer'}").identity.digest != source.identity.digest


@pytest.mark.parametrize("options", [{}, {"outputs": [4, 0, 2]}, {"num_classes": 3, "ignore_index": None}])
def test_classes_are_known_without_loading(folder: Path, options: dict[str, Any]) -> None:
    source = resolve_model(f"hf:{folder}", **options)
    assert source.label_space == source.load().label_space


def test_an_ensemble_of_other_classes_is_told_without_loading_it(folder: Path) -> None:
    with pytest.raises(GauntletError, match="cannot be an ensemble: they have 5 and 11 classes"):
        resolve_model(f"ensemble:[hf:{folder}]+[streets/enet]")


def test_what_is_not_there_is_said_in_one_sentence(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GauntletError, match="there is no folder nowhere/at/all"):
        gauntlet.load_model("hf:./nowhere/at/all")
    with pytest.raises(GauntletError, match=r"unknown option of the model 'hf:.*' 'revison'; did you mean 'revision'"):
        gauntlet.load_model(f"hf:{folder}", revison="x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(GauntletError, match=r"the folder .*empty holds no model that transformers can load"):
        gauntlet.load_model(f"hf:{tmp_path / 'empty'}")
    classifier = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8], depths=[1])
    transformers.ResNetForImageClassification(classifier).save_pretrained(tmp_path / "classifier")
    with pytest.raises(GauntletError, match="is a 'resnet' model, which is neither one for semantic segmentation"):
        gauntlet.load_model(f"hf:{tmp_path / 'classifier'}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(GauntletError) as caught:
        gauntlet.load_model("hf:nvidia/segformer-b0-finetuned-ade-512-512")
    assert "neither a folder here nor in the Hugging Face cache" in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_a_pickle_in_a_folder_is_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "ran",)

    network = segformer()
    network.save_pretrained(tmp_path / "net")
    (tmp_path / "net" / "model.safetensors").unlink()
    torch.save({**network.state_dict(), "evil": Evil()}, tmp_path / "net" / "pytorch_model.bin")
    # Older versions of the library do not say why.
    with pytest.raises(GauntletError, match=r"pass trust=True|Unable to load weights"):
        gauntlet.load_model(f"hf:{tmp_path / 'net'}")
    assert not (tmp_path / "ran").exists()

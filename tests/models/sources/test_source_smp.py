"""smp: logits equal the library's own pipeline, for random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import resolve_model

smp = pytest.importorskip("segmentation_models_pytorch")
pytestmark = pytest.mark.zoo

CLASSES = 4
PIXELS = np.random.default_rng(3).integers(0, 256, (64, 96, 3), dtype=np.uint8)
IMAGES = torch.from_numpy(PIXELS).permute(2, 0, 1)[None].float() / 255
ENCODER = "mobilenet_v2"


# What the hub says of the encoders here, each unlike the others so that a mix-up shows.
SETTINGS = {
    "mobilenet_v2": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
    "vgg11": {"mean": [103.9, 116.8, 123.7], "std": [1.0, 2.0, 3.0], "input_range": [0, 255], "input_space": "BGR"},
}


@pytest.fixture(autouse=True)
def hub(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library asks the hub for the preprocessing of its encoders; here it gets it from a folder."""
    folder = tmp_path_factory.mktemp("hub")

    def download(repository: str, filename: str, revision: str) -> str:
        encoder = repository.partition("/")[2].partition(".")[0]
        path = folder / f"{encoder}.{filename}"
        path.write_text(json.dumps(SETTINGS[encoder]))
        return str(path)

    monkeypatch.setattr("segmentation_models_pytorch.encoders.hf_hub_download", download)


def network(architecture: str, encoder: str = ENCODER, **options: Any) -> Any:
    torch.manual_seed(0)
    built = smp.create_model(architecture, encoder, encoder_weights=None, classes=CLASSES, **options)
    return built.eval()


def expected(built: Any, encoder: str) -> torch.Tensor:
    """The library's own way: its preprocessing function on the image, then the network."""
    prepared = smp.encoders.get_preprocessing_fn(encoder)(PIXELS)
    with torch.no_grad():
        logits: torch.Tensor = built(torch.from_numpy(prepared).permute(2, 0, 1)[None].float())
    return logits


@pytest.mark.parametrize(
    ("architecture", "encoder"),
    [
        ("unet", "mobilenet_v2"),
        ("pspnet", "mobilenet_v2"),
        ("deeplabv3", "mobilenet_v2"),
        ("deeplabv3plus", "mobilenet_v2"),
        ("fpn", "mobilenet_v2"),
        ("upernet", "mobilenet_v2"),
        ("segformer", "mobilenet_v2"),
        # Any encoder of timm, and one that takes grey levels, blue first.
        ("unet", "tu-mobilenetv3_small_050"),
        ("unet", "vgg11"),
    ],
)
def test_logits_equal_the_librarys_pipeline(architecture: str, encoder: str, tmp_path: Path) -> None:
    built = network(architecture, encoder)
    torch.save(
        {"state_dict": {f"model.{key}": value for key, value in built.state_dict().items()}}, tmp_path / "n.ckpt"
    )
    source = resolve_model(f"smp:{architecture}/{encoder}", weights=tmp_path / "n.ckpt", num_classes=CLASSES)
    model = source.load()
    assert source.identity == model.identity
    wanted = expected(built, encoder)
    images = IMAGES.clone().requires_grad_()
    logits = model(images)
    torch.testing.assert_close(logits, wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))
    (gradient,) = torch.autograd.grad(logits.square().sum(), images)
    assert gradient.abs().sum() > 0


def test_other_sizes_are_padded_and_cropped_back(tmp_path: Path) -> None:
    torch.save(network("unet").state_dict(), tmp_path / "n.pth")
    model = gauntlet.load_model(f"smp:unet/{ENCODER}", weights=tmp_path / "n.pth", num_classes=CLASSES)
    images = torch.rand(1, 3, 61, 83, generator=torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(images, (0, 13, 0, 3), mode="replicate")
    assert padded.shape[-2:] == (64, 96)
    torch.testing.assert_close(model(images), model(padded)[..., :61, :83])


def test_timms_encoders_may_be_written_without_the_librarys_prefix(tmp_path: Path) -> None:
    torch.save(network("unet", "tu-mobilenetv3_small_050").state_dict(), tmp_path / "n.pth")
    plain, prefixed = (
        resolve_model(f"smp:unet/{name}", weights=tmp_path / "n.pth", num_classes=CLASSES)
        for name in ("mobilenetv3_small_050", "tu-mobilenetv3_small_050")
    )
    assert plain.identity == prefixed.identity
    assert plain.load().num_classes == CLASSES


def test_a_folder_of_save_pretrained_needs_nothing_else(tmp_path: Path) -> None:
    built = network("fpn")
    built.save_pretrained(tmp_path / "my-fpn")
    source = resolve_model(f"smp:{tmp_path / 'my-fpn'}")
    model = source.load()
    assert source.identity == model.identity
    assert model.identity.name == "my-fpn"
    assert model.num_classes == CLASSES
    wanted = expected(built, ENCODER)
    torch.testing.assert_close(model(IMAGES), wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))


def test_options_of_the_constructor_are_passed_on(tmp_path: Path) -> None:
    options: dict[str, Any] = {"decoder_channels": (64, 32, 16, 8, 8)}
    built = network("unet", **options)
    torch.save(built.state_dict(), tmp_path / "n.pth")
    model = gauntlet.load_model(
        f"smp:unet/{ENCODER}", weights=tmp_path / "n.pth", num_classes=CLASSES, architecture=options
    )
    torch.testing.assert_close(model(IMAGES), expected(built, ENCODER), rtol=1e-4, atol=1e-4)
    with pytest.raises(GauntletError, match="do not fit Unet"):
        gauntlet.load_model(f"smp:unet/{ENCODER}", weights=tmp_path / "n.pth", num_classes=CLASSES)


def test_what_is_not_there_is_said_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(network("unet").state_dict(), tmp_path / "n.pth")
    with pytest.raises(GauntletError, match="needs num_classes"):
        gauntlet.load_model(f"smp:unet/{ENCODER}", weights=tmp_path / "n.pth")
    with pytest.raises(GauntletError, match="needs its weights"):
        gauntlet.load_model(f"smp:unet/{ENCODER}", num_classes=CLASSES)
    with pytest.raises(GauntletError, match="must also name an encoder"):
        gauntlet.load_model("smp:unet", num_classes=CLASSES)
    with pytest.raises(GauntletError, match=r"must be ARCHITECTURE/ENCODER.*unet"):
        gauntlet.load_model("smp:ynet/resnet34", weights=tmp_path / "n.pth", num_classes=CLASSES)
    with pytest.raises(GauntletError, match="smp:unet/tu-nothing cannot be built"):
        gauntlet.load_model("smp:unet/nothing", weights=tmp_path / "n.pth", num_classes=CLASSES)
    torch.save(network("unet", "resnet18").state_dict(), tmp_path / "resnet.pth")
    with pytest.raises(GauntletError, match=r"how images are normalised for the encoder 'resnet18'.*give mean and std"):
        gauntlet.load_model("smp:unet/resnet18", weights=tmp_path / "resnet.pth", num_classes=CLASSES)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(GauntletError, match="could not be fetched from the Hugging Face hub"):
        gauntlet.load_model("smp:smp-hub/upernet-convnext-tiny")

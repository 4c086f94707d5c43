"""torchvision: logits equal torchvision's own pipeline, for random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import resolve_model, zoo
from gauntlet.models.wrapping import WrappedSegmentation

torchvision = pytest.importorskip("torchvision")
pytestmark = pytest.mark.zoo

PIXELS = np.random.default_rng(3).integers(0, 256, (64, 97, 3), dtype=np.uint8)
IMAGES = torch.from_numpy(PIXELS).permute(2, 0, 1)[None].float() / 255


@pytest.mark.parametrize("name", ["lraspp_mobilenet_v3_large", "deeplabv3_mobilenet_v3_large", "fcn_resnet50"])
def test_logits_equal_the_librarys_pipeline(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=5).eval()
    torch.save({"epoch": 3, "model": network.state_dict()}, tmp_path / "mine.pth")
    # The library's own preparation, without its resizing, which is the dataset's business here.
    prepare = torchvision.models.get_model_weights(name).DEFAULT.transforms(resize_size=None)
    with torch.no_grad():
        expected = network(prepare(torch.from_numpy(PIXELS).permute(2, 0, 1))[None])["out"]
    source = resolve_model(f"torchvision:{name}", weights=tmp_path / "mine.pth")
    model = source.load()
    assert source.identity == model.identity
    assert model.num_classes == 5
    images = IMAGES.clone().requires_grad_()
    logits = model(images)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
    (gradient,) = torch.autograd.grad(logits.square().sum(), images)
    assert gradient.abs().sum() > 0


def test_published_weights_bring_their_classes_and_normalisation(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "lraspp_mobilenet_v3_large"
    weights = torchvision.models.get_model_weights(name).DEFAULT
    network = torchvision.models.get_model(name, weights=None, weights_backbone=None)
    asked: list[dict[str, object]] = []

    def fetch(url: str, **options: object) -> dict[str, torch.Tensor]:
        asked.append({"url": url, **options})
        state: dict[str, torch.Tensor] = network.state_dict()
        return state

    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", fetch)
    model = gauntlet.load_model(f"torchvision:{name}")
    assert asked[0]["url"] == weights.url
    # Nothing but tensors is unpickled, and the file must have the digest in its name.
    assert asked[0]["weights_only"] is True
    assert asked[0]["check_hash"] is True
    assert isinstance(model, WrappedSegmentation)
    assert model.class_names[0] == "__background__"
    assert model.num_classes == 21
    torch.testing.assert_close(model.normalisation.mean.flatten(), torch.tensor([0.485, 0.456, 0.406]))
    assert resolve_model(f"torchvision:{name}", weights="COCO_WITH_VOC_LABELS_V1").identity == model.identity


def test_every_segmentation_address_of_the_zoo_is_a_model_of_the_library() -> None:
    addresses = [entry.source for entry in zoo.entries() if entry.source.startswith("torchvision:")]
    names = [address.partition(":")[2] for address in addresses]
    segmentation = [entry for entry in zoo.entries() if entry.task == "segmentation"]
    for name in names:
        if any(entry.source == f"torchvision:{name}" for entry in segmentation):
            assert resolve_model(f"torchvision:{name}").identity.name == name


def test_what_is_not_there_is_said_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(url: str, **options: object) -> None:
        raise OSError("no network here")

    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", offline)
    with pytest.raises(GauntletError, match=r"could not be fetched from https://.*no network here.*give it as weights"):
        gauntlet.load_model("torchvision:fcn_resnet50")
    with pytest.raises(GauntletError, match="did you mean 'fcn_resnet50'"):
        gauntlet.load_model("torchvision:fcn_resnet5")
    with pytest.raises(GauntletError, match=r"there is no file nowhere\.pth"):
        gauntlet.load_model("torchvision:fcn_resnet50", weights="nowhere.pth")
    torch.save({"weight": torch.zeros(3)}, tmp_path / "other.pth")
    with pytest.raises(GauntletError, match="are not of a torchvision segmentation model"):
        gauntlet.load_model("torchvision:fcn_resnet50", weights=tmp_path / "other.pth")

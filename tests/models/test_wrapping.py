"""wrap_model and the model contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import SegmentationModel
from gauntlet.models.contract import weights_digest
from tiny import tiny_network

IMAGES = torch.rand(2, 3, 11, 13, generator=torch.Generator().manual_seed(0))


class Strided(nn.Module):
    """Logits at half the resolution; only accepts multiples of four."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3, stride=2, padding=1)

    def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        assert images.shape[-1] % 4 == images.shape[-2] % 4 == 0
        return {"out": self.layer(images)}


def test_normalisation_happens_inside() -> None:
    network = tiny_network()
    mean, std = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
    model = gauntlet.wrap_model(network, num_classes=3, mean=mean, std=std)
    normal = (IMAGES - torch.tensor(mean).view(1, 3, 1, 1)) / torch.tensor(std).view(1, 3, 1, 1)
    torch.testing.assert_close(model(IMAGES), network(normal))


def test_channels_are_swapped_for_bgr_networks() -> None:
    network = tiny_network()
    mean = (0.1, 0.2, 0.3)
    model = gauntlet.wrap_model(network, num_classes=3, mean=mean, channel_order="BGR")
    torch.testing.assert_close(model(IMAGES), network(IMAGES[:, [2, 1, 0]] - torch.tensor(mean).view(1, 3, 1, 1)))


def test_logits_come_back_at_the_resolution_of_the_input_and_carry_gradients() -> None:
    model = gauntlet.wrap_model(Strided(), num_classes=4, stride=4)
    images = IMAGES.clone().requires_grad_()
    logits = model(images)
    assert logits.shape == (2, 4, 11, 13)
    (gradient,) = torch.autograd.grad(logits.square().sum(), images)
    assert (gradient.abs().sum(dim=(1, 2, 3)) > 0).all()


def test_a_surplus_logit_for_void_is_dropped() -> None:
    network = tiny_network(5)
    model = gauntlet.wrap_model(network, num_classes=4)
    torch.testing.assert_close(model(IMAGES), network(IMAGES)[:, :4])


def test_the_model_is_frozen_and_in_eval_mode() -> None:
    network = nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 2, 1)).train()
    model = gauntlet.wrap_model(network, num_classes=2)
    assert not model.training
    assert not network[0].training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert model.device.type == "cpu"
    assert model.dtype == torch.float32


def test_identity_follows_weights_and_settings() -> None:
    def identity(**options: Any) -> str:
        return gauntlet.wrap_model(tiny_network(), num_classes=3, **options).identity.digest

    assert identity() == identity()
    assert identity(mean=(0.5,) * 3) != identity()
    changed = tiny_network()
    with torch.no_grad():
        changed.get_parameter("0.weight")[0, 0, 0, 0] += 1e-6
    assert weights_digest(changed) != weights_digest(tiny_network())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"num_classes": 0}, "num_classes must be at least 1"),
        ({"num_classes": 3, "std": (1, 0, 1)}, "std must be positive"),
        ({"num_classes": 3, "mean": (1, 0)}, "mean and std need three values"),
        ({"num_classes": 3, "channel_order": "GBR"}, "channel_order must be 'RGB' or 'BGR'"),
        ({"num_classes": 3, "class_names": ["a"]}, "1 class names were given for 3 classes"),
        ({"num_classes": 3, "task": "depth"}, "task must be one of segmentation, detection"),
        ({"num_classes": 3, "task": "detection"}, "implement gauntlet.models.DetectionModel"),
    ],
)
def test_bad_settings_are_one_sentence(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        gauntlet.wrap_model(tiny_network(), **options)  # type: ignore[arg-type]


def test_too_few_logits_are_said() -> None:
    with pytest.raises(GauntletError, match=r"returned a tensor of shape \(2, 3, 11, 13\).*expected \(2, 7, h, w\)"):
        gauntlet.wrap_model(tiny_network(3), num_classes=7)(IMAGES)


def test_script_models_load_and_keep_their_gradient(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.jit.trace(tiny_network(), IMAGES).save(str(path))  # type: ignore[no-untyped-call]
    model = gauntlet.load_model(f"script:{path}", num_classes=3)
    torch.testing.assert_close(model(IMAGES), tiny_network()(IMAGES))
    images = IMAGES.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(images).square().sum(), images)
    assert gradient.abs().sum() > 0
    assert model.identity.name == "net"


def test_exported_programs_load(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(tiny_network().eval(), (IMAGES,)), path)
    model = gauntlet.load_model(f"script:{path}", num_classes=3, trust=True)
    torch.testing.assert_close(model(IMAGES), tiny_network()(IMAGES))


def test_python_models_load() -> None:
    model = gauntlet.load_model("python:tiny:tiny_network", num_classes=3)
    assert isinstance(model, SegmentationModel)
    torch.testing.assert_close(model(IMAGES), tiny_network()(IMAGES))


@pytest.mark.parametrize(
    ("address", "options", "sentence"),
    [
        ("streets/enett", {}, "unknown model 'streets/enett'; did you mean 'streets/enet'"),
        ("scrip:x", {}, "unknown model source 'scrip'; did you mean 'script'"),
        ("script:/nowhere.pt", {}, "there is no file /nowhere.pt"),
        ("python:tiny", {}, "must name a callable"),
        ("python:no_such_module:f", {}, "cannot be imported"),
        ("python:tiny:nothing", {}, "the module tiny has no 'nothing'"),
        ("python:tiny:tiny_network", {}, "needs num_classes"),
        ("python:builtins:dict", {}, "returned a dict; expected a torch module"),
    ],
)
def test_bad_addresses_are_one_sentence(address: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        gauntlet.load_model(address, **options)


def test_a_pickle_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "evil.pt"
    torch.save(tiny_network(), path)
    with pytest.raises(GauntletError, match="is not a TorchScript archive or exported program"):
        gauntlet.load_model(f"script:{path}", num_classes=3)


def test_options_of_a_python_model_are_part_of_its_identity() -> None:
    few, many = (gauntlet.load_model("python:tiny:tiny_network", num_classes=2, classes=k) for k in (2, 3))
    same = gauntlet.load_model("python:tiny:tiny_network", num_classes=2, classes=2)
    assert few.identity == same.identity != many.identity

"""mmseg: with a stand-in for the library, and with the library itself where it is installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import resolve_model

IMAGES = torch.rand(2, 3, 12, 16, generator=torch.Generator().manual_seed(0))
MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]


class Segmentor(nn.Module):
    """What of OpenMMLab's EncoderDecoder is used: a preprocessor, class names, `inference`."""

    def __init__(self, swaps: bool = True) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 1)
        self.num_classes = 4
        self.data_preprocessor = SimpleNamespace(
            mean=torch.tensor(MEAN).view(3, 1, 1), std=torch.tensor(STD).view(3, 1, 1), channel_conversion=swaps
        )
        self.dataset_meta = {"classes": ("a", "b", "c", "d")}
        self.seen: list[dict[str, Any]] = []

    def inference(self, images: torch.Tensor, facts: list[dict[str, Any]]) -> torch.Tensor:
        assert len(facts) == len(images)
        self.seen = facts
        logits: torch.Tensor = self.layer(images)
        return logits


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """A module `mmseg` whose init_model returns the stand-in, with one configuration in the package."""
    known: dict[str, Any] = {"network": Segmentor(), "asked": []}
    configs = tmp_path / "mmseg" / ".mim" / "configs" / "fcn"
    configs.mkdir(parents=True)
    (configs / "fcn_r50.py").write_text("model = dict()")

    def init_model(config: str, checkpoint: str, device: str) -> nn.Module:
        known["asked"].append((config, checkpoint, device))
        network: nn.Module = known["network"]
        return network

    package, apis = ModuleType("mmseg"), ModuleType("mmseg.apis")
    package.__file__ = str(tmp_path / "mmseg" / "__init__.py")
    apis.init_model = init_model  # type: ignore[attr-defined]
    package.apis = apis  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mmseg", package)
    monkeypatch.setitem(sys.modules, "mmseg.apis", apis)
    return known


def test_grey_levels_are_normalised_as_the_preprocessor_says(library: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "w.pth").write_bytes(b"weights")
    model = gauntlet.load_model("mmseg:fcn_r50", weights=tmp_path / "w.pth", trust=True)
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
    torch.testing.assert_close(model(IMAGES), library["network"].layer((255 * IMAGES - mean) / std))
    assert model.class_names == ("a", "b", "c", "d")
    assert library["network"].seen[0]["ori_shape"] == (12, 16)
    (config, checkpoint, device), *_ = library["asked"]
    assert config.endswith("configs/fcn/fcn_r50.py")
    assert (checkpoint, device) == (str(tmp_path / "w.pth"), "cpu")


def test_a_network_that_is_not_swapped_to_rgb_gets_blue_first(library: dict[str, Any], tmp_path: Path) -> None:
    library["network"] = Segmentor(swaps=False)
    model = gauntlet.load_model("mmseg:fcn_r50", weights=tmp_path / "w.pth", trust=True)
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
    torch.testing.assert_close(model(IMAGES), library["network"].layer((255 * IMAGES.flip(1) - mean) / std))


def test_identity_is_that_of_the_checkpoint(library: dict[str, Any], tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.pth").write_bytes(name.encode())
    a, b = (resolve_model("mmseg:fcn_r50", weights=tmp_path / f"{name}.pth", trust=True).identity for name in "ab")
    assert a.name == b.name == "fcn_r50"
    assert a.digest != b.digest
    assert not library["asked"]


def test_code_runs_only_when_trusted(library: dict[str, Any]) -> None:
    with pytest.raises(GauntletError, match=r"is Python code and its checkpoint a pickle.*pass trust=True"):
        gauntlet.load_model("mmseg:fcn_r50", weights="w.pth")
    with pytest.raises(GauntletError, match="needs its checkpoint"):
        gauntlet.load_model("mmseg:fcn_r50", trust=True)
    with pytest.raises(GauntletError, match="no configuration file nothing"):
        gauntlet.load_model("mmseg:nothing", weights="w.pth", trust=True)
    assert not library["asked"]


@pytest.mark.skipif(importlib.util.find_spec("mmseg") is not None, reason="mmseg is installed here")
def test_without_the_library_one_sentence_says_so() -> None:
    with pytest.raises(GauntletError, match="runs in an OpenMMLab environment of yours, but mmseg cannot be imported"):
        gauntlet.load_model("mmseg:fcn_r50", weights="w.pth", trust=True)


def test_logits_equal_the_librarys_pipeline(tmp_path: Path) -> None:
    """Sliding windows and all, with a U-Net of random weights."""
    mmseg = pytest.importorskip("mmseg", exc_type=ImportError)
    apis = pytest.importorskip("mmseg.apis", exc_type=ImportError)
    from mmengine.config import Config

    name = "unet-s5-d16_fcn_4xb4-40k_hrf-256x256"
    config = Config.fromfile(next((Path(mmseg.__file__).parent / ".mim/configs").rglob(f"{name}.py")))
    network = apis.init_model(config, None, device="cpu")
    for parameter in network.parameters():
        nn.init.normal_(parameter, 0, 0.1)
    meta = {"dataset_meta": {"classes": ("background", "vessel"), "palette": [[0, 0, 0], [1, 1, 1]]}}
    torch.save({"state_dict": network.state_dict(), "meta": meta}, tmp_path / "unet.pth")
    pixels = np.random.default_rng(0).integers(0, 256, (300, 280, 3), dtype=np.uint8)
    theirs = apis.init_model(config, str(tmp_path / "unet.pth"), device="cpu")
    theirs.cfg.test_pipeline = [{"type": "LoadImageFromNDArray"}, {"type": "PackSegInputs"}]
    actual = apis.inference_model(theirs, np.ascontiguousarray(pixels[..., ::-1]))
    model = gauntlet.load_model(f"mmseg:{name}", weights=tmp_path / "unet.pth", trust=True)
    logits = model(torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255)
    torch.testing.assert_close(logits[0], actual.seg_logits.data, rtol=1e-4, atol=1e-6)

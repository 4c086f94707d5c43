"""Networks with one output per pixel as models of two classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import gauntlet
from gauntlet.errors import GauntletError


class Brightness(nn.Module):
    """One output per pixel: how much brighter than a grey the red channel is."""

    def __init__(self, steepness: float = 20.0, ending: nn.Module | None = None) -> None:
        super().__init__()
        self.steepness = nn.Parameter(torch.tensor(steepness))
        self.ending = ending or nn.Identity()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.ending(self.steepness * (images[:, :1] - 0.5))
        return result


@pytest.fixture
def images() -> torch.Tensor:
    return torch.rand(2, 3, 6, 8, generator=torch.Generator().manual_seed(3))


def test_softmax_of_the_two_logits_is_the_sigmoid(images: torch.Tensor) -> None:
    module = Brightness()
    model = gauntlet.wrap_model(module, binary=True)
    logits = model(images)
    assert (model.num_classes, tuple(logits.shape)) == (2, (2, 2, 6, 8))
    assert torch.allclose(logits.softmax(dim=1)[:, 1:], module(images).sigmoid())
    assert torch.equal(logits.argmax(dim=1), (module(images).sigmoid() > 0.5)[:, 0].long())


def test_cross_entropy_is_that_of_the_sigmoid(images: torch.Tensor) -> None:
    module, labels = Brightness(), torch.arange(48).reshape(1, 6, 8).expand(2, -1, -1) % 2
    own = nn.functional.cross_entropy(gauntlet.wrap_model(module, binary=True)(images), labels)
    reference = nn.functional.binary_cross_entropy_with_logits(module(images)[:, 0], labels.float())
    assert torch.allclose(own, reference)


def test_probabilities_are_asked_about_and_taken(images: torch.Tensor) -> None:
    module = Brightness(ending=nn.Sigmoid())
    with pytest.raises(GauntletError, match=r"as after a sigmoid.*binary='probabilities'.*binary='logits'"):
        gauntlet.wrap_model(module, binary=True)(images)
    logits = gauntlet.wrap_model(module, binary="probabilities")(images)
    assert torch.allclose(logits[:, 1:], Brightness()(images), atol=1e-3)
    assert torch.equal(gauntlet.wrap_model(module, binary="logits")(images)[:, 1:], module(images))


@pytest.mark.parametrize("num_classes", [1, 2])
def test_one_output_without_the_option_names_it(num_classes: int, images: torch.Tensor) -> None:
    with pytest.raises(GauntletError, match=r"one output per pixel.*binary=True \(--binary\)"):
        gauntlet.wrap_model(Brightness(), num_classes=num_classes)(images)


def test_what_cannot_be_meant_is_refused(images: torch.Tensor) -> None:
    with pytest.raises(GauntletError, match="one output and two classes, not 3"):
        gauntlet.wrap_model(Brightness(), binary=True, num_classes=3)
    with pytest.raises(GauntletError, match="not for one that gives label maps"):
        gauntlet.wrap_model(Brightness(), binary=True, gives="labels")
    with pytest.raises(GauntletError, match="binary must be True, 'logits' or 'probabilities'"):
        gauntlet.wrap_model(Brightness(), binary="sigmoid")
    with pytest.raises(GauntletError, match="needs num_classes"):
        gauntlet.wrap_model(Brightness())
    with pytest.raises(GauntletError, match=r"shape \(2, 3, 6, 8\); binary is for one output"):
        gauntlet.wrap_model(nn.Identity(), binary=True)(images)


def test_the_option_is_part_of_the_identity() -> None:
    digests = {
        gauntlet.wrap_model(Brightness(), num_classes=2, binary=b).identity.digest for b in (False, True, "logits")
    }
    assert len(digests) == 3


def test_script_and_python_take_it(tmp_path: Path, images: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    module = Brightness()
    path = tmp_path / "net.pt"
    torch.jit.trace(module, images).save(path)  # type: ignore[no-untyped-call]
    (tmp_path / "one_output.py").write_text(
        "from torch import nn\n\ndef build(num_classes=1):\n    return nn.Conv2d(3, num_classes, 1)\n"
    )
    monkeypatch.chdir(tmp_path)
    expected = gauntlet.wrap_model(module, binary=True)(images)
    assert torch.equal(gauntlet.load_model(f"script:{path}", binary=True)(images), expected)
    given: list[dict[str, Any]] = [{}, {"num_classes": 1}]
    for options in given:
        model = gauntlet.load_model("python:one_output:build", binary="logits", **options)
        assert (model.num_classes, tuple(model(images).shape)) == (2, (2, 2, 6, 8))

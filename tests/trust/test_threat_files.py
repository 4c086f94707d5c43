"""A threat is also the code and the files that its description only names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import gauntlet
from gauntlet.datasets import load_dataset
from gauntlet.evaluation.execution.workers.proof import Expected, UnfitError, check_threat_files
from gauntlet.evaluation.jobs import Settings, plan_job
from gauntlet.models import GauntletModel, load_model
from gauntlet.results.record import Job
from gauntlet.threats import build_threat
from gauntlet.threats.attacks import PixelLoss, losses
from gauntlet.threats.corruptions.catalogue import from_function, registry

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, num_classes=11):
        super().__init__()
        self.conv = nn.Conv2d(3, num_classes, 3, padding=1)
        with torch.no_grad():
            self.conv.weight.copy_(torch.linspace(-1, 1, self.conv.weight.numel()).reshape_as(self.conv.weight))
            self.conv.bias.zero_()

    def forward(self, images):
        return self.conv(images)
"""


def job(threat: Any, **settings: Any) -> Job:
    data = load_dataset("streets", limit=2)
    return plan_job(load_model("streets/enet"), data, build_threat(threat), Settings(**settings)).job


def transferred(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Job:
    (folder / "surrogate.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    sys.modules.pop("surrogate", None)
    source = {"address": "python:surrogate:Net", "options": {"num_classes": 11}}
    return job({"transfer": {"source_model": source, "attack": {"name": "fgsm", "epsilon": "8/255"}}})


def test_a_transfer_from_edited_code_is_another_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = transferred(tmp_path, monkeypatch, NET)
    after = transferred(tmp_path, monkeypatch, NET.replace("return self", "return -self"))
    assert before.description == after.description
    assert before.key != after.key
    assert before.family != after.family
    assert before.unrecorded.key == after.unrecorded.key


def test_a_stored_transfer_is_read_without_its_source() -> None:
    source = {"source_model": "camvid/enet-clean transform kind=grey,trials=9", "source_digest": "0123"}
    stored = build_threat({"transfer": {**source, "attack": {"name": "fgsm", "epsilon": "8/255"}}})
    assert stored.uses() == ""


class Plain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 11, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.conv(images)
        return answer


class Hidden(Plain):
    """The same weights and the same answers, and no gradient."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images.detach())


def wrapped(kind: type[Plain], weights: dict[str, torch.Tensor]) -> GauntletModel:
    module = kind()
    module.load_state_dict(weights)
    return gauntlet.wrap_model(module, num_classes=11)


def test_a_source_with_the_weights_of_the_target_and_other_code_is_not_the_target() -> None:
    weights = Plain().state_dict()
    target, source = wrapped(Hidden, weights), wrapped(Plain, weights)
    attack = {"name": "fgsm", "epsilon": "8/255"}
    result = gauntlet.evaluate(
        target, load_dataset("streets", limit=1), {"transfer": {"source_model": source, "attack": attack}}
    )
    assert not result.per_image["source_is_target"].any()
    assert result.per_image["backwards"].gt(0).all()


def put_picture(path: Path, value: int, size: tuple[int, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*size, 3), value, np.uint8)).save(path)


@pytest.mark.parametrize("kind", ["corruption", "localized"])
def test_other_textures_of_frost_are_another_evaluation(tmp_path: Path, kind: str) -> None:
    for number in range(1, 6):
        put_picture(tmp_path / f"frost{number}.png", 100, (40, 60))
    corruption = {"name": "frost", "severity": 3, "frost_textures": str(tmp_path)}
    threat = {"corruption": corruption} if kind == "corruption" else {"localized": {"corruption": corruption}}
    before = job(threat)
    put_picture(tmp_path / "frost3.png", 200, (40, 60))
    assert before.key != job(threat).key


def test_other_copies_of_corrupted_images_are_another_evaluation(tmp_path: Path) -> None:
    threat = {"corruption": {"name": "fog", "severity": 2, "copies": str(tmp_path)}}
    put_picture(tmp_path / "fog" / "2" / "a.png", 100, (4, 6))
    before = job(threat)
    assert before.key == job(threat).key
    put_picture(tmp_path / "fog" / "2" / "a.png", 101, (4, 6))
    assert before.key != job(threat).key


def test_what_only_names_its_options_has_no_files() -> None:
    for threat in ("clean", "fog", "pgd", {"battery": {"name": "sea", "epsilon": "4/255"}}):
        assert build_threat(threat).uses() == ""


def test_a_worker_with_other_files_of_a_threat_is_refused(tmp_path: Path) -> None:
    put_picture(tmp_path / "fog" / "2" / "a.png", 100, (4, 6))
    threat = build_threat({"corruption": {"name": "fog", "severity": 2, "copies": str(tmp_path)}})
    expected = Expected(("", ""), None, threat.uses(), "", ())
    check_threat_files(expected, threat)
    put_picture(tmp_path / "fog" / "2" / "a.png", 101, (4, 6))
    with pytest.raises(UnfitError, match="fog"):
        check_threat_files(expected, threat)


def shifted(by: int) -> Any:
    def shift(image: Any, severity: int, draws: Any) -> Any:
        return np.roll(image, by * severity, axis=1)

    return shift


def test_a_corruption_of_ones_own_is_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for by in (1, 2, 2):
        monkeypatch.setitem(registry._entries, "shift", from_function(shifted(by)))
        keys.add(job({"corruption": {"name": "shift", "severity": 1}}).key)
    assert len(keys) == 2


def weighing(by: float) -> Any:
    return lambda pixels, progress: torch.full_like(pixels.cross_entropy, by)


def test_a_loss_of_ones_own_is_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for by in (1.0, 2.0, 2.0):
        loss = PixelLoss(base=losses["ce"].base, weight=weighing(by))
        monkeypatch.setitem(losses._entries, "weighed", loss)
        keys.add(job({"attack": {"name": "pgd", "epsilon": "8/255", "loss": "weighed"}}).key)
    assert len(keys) == 2


WEIGHT = 1.0


def test_importance_with_another_default_or_global_is_another_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    def importance(sample: Any, scale: float = 1.0) -> Any:
        return np.full(sample.image.shape[:2], scale * WEIGHT)

    before = job("clean", importance=importance)
    assert before.key == job("clean", importance=importance).key
    importance.__defaults__ = (2.0,)
    assert before.key != job("clean", importance=importance).key

"""What a report says about defended models, transferred attacks and certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import gauntlet
from gauntlet.defences import MultiscaleModel, TransformedModel
from gauntlet.models import SegmentationModel, wrap_model
from gauntlet.report.assembly import build_report
from gauntlet.report.document import Bullets, Document, Findings, of_type
from gauntlet.report.sections.defended import defences_of
from gauntlet.report.tables import Table
from gauntlet.results import Store
from tiny import TinyDataset, tiny_network

ATTACK: dict[str, Any] = {"name": "pgd", "epsilon": "8/255", "steps": 2}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))


def model(name: str = "tiny") -> SegmentationModel:
    return wrap_model(tiny_network(), num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name=name)


def sentences(document: Document) -> list[str]:
    return [finding.text for block in of_type(document, Findings) for finding in block.items]


def summary(document: Document) -> str:
    return " ".join(item for block in of_type(document, Bullets) for item in block.items)


def test_the_defences_in_a_name() -> None:
    assert defences_of("streets/enet") == []
    assert defences_of("my noise model") == []
    assert defences_of("streets/enet noise sigma=0.25,trials=9") == ["noise"]


def test_a_random_defence_needs_an_attack_that_averages() -> None:
    store, data = Store(), TinyDataset(2)
    defended = TransformedModel(model(), kind="blur", trials=2)
    for threat in ("clean", {"attack": ATTACK}):
        gauntlet.evaluate(defended, data, threat, store=store, prepare="off")
    before = build_report(store)
    assert any("never attacked with gradients averaged over draws" in text for text in sentences(before))
    assert "Never attacked adaptively, so not to be called robust: tiny transform" in summary(before)
    gauntlet.evaluate(defended, data, {"attack": {**ATTACK, "samples": 3}}, store=store, prepare="off")
    after = build_report(store)
    assert not any("averaged over draws" in text for text in sentences(after))
    assert "Never attacked adaptively" not in summary(after)


def test_a_defence_needs_an_attack_of_its_own() -> None:
    store, data = Store(), TinyDataset(2)
    inner = model()
    defended = MultiscaleModel(inner, scales=(0.5, 1))
    transfer = {"transfer": {"source_model": "inner", "attack": ATTACK}}
    for threat in ("clean", transfer):
        gauntlet.evaluate(defended, data, threat, store=store, prepare="off")
    assert any("was never attacked itself" in text for text in sentences(build_report(store)))
    gauntlet.evaluate(defended, data, {"attack": ATTACK}, store=store, prepare="off")
    assert not any("was never attacked itself" in text for text in sentences(build_report(store)))


class Saturated(torch.nn.Module):
    """The same decisions with logits so large that the loss of every right pixel has no gradient left."""

    def __init__(self) -> None:
        super().__init__()
        self.network = tiny_network()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.network(images)
        return logits.double().mul(1e6).float()


def test_images_of_another_model_that_are_stronger_show_a_hidden_gradient() -> None:
    store, data, open_one = Store(), TinyDataset(4), model("open")
    hidden = wrap_model(Saturated(), num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name="hidden")
    attack = {**ATTACK, "epsilon": "32/255", "steps": 10}
    transfer = {"transfer": {"source_model": open_one, "attack": attack}}
    for threat in ("clean", {"attack": attack}, transfer):
        gauntlet.evaluate(hidden, data, threat, store=store, prepare="off")
    found = sentences(build_report(store))
    assert any(
        "made on open is stronger than made on the model itself: its gradient is hidden" in text for text in found
    )


def test_certificates_have_a_section() -> None:
    store, data = Store(), TinyDataset(2)
    gauntlet.evaluate(model(), data, "clean", store=store)
    gauntlet.evaluate(model(), data, {"certify": {"sigma": 0.05, "n": 60, "tau": [0.6, 0.75]}}, store=store)
    document = build_report(store)
    (table,) = [each for each in of_type(document, Table) if each.id.startswith("certificates-")]
    assert [row[1] for row in table.rows] == ["certify sigma 0.05 n 60, tau 0.6", "certify sigma 0.05 n 60, tau 0.75"]
    assert table.rows[1][2] == pytest.approx(0.05 * 0.6744897501960817)

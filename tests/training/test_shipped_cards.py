"""The cards of shipped models that people read are those that machines read."""

from __future__ import annotations

import pytest

from gauntlet.models.sources import shipped
from gauntlet.training.outputs import readme


@pytest.mark.parametrize("name", [name for name in shipped.names() if shipped.find(name).has_weights])
def test_a_card_is_written_from_its_data(name: str) -> None:
    model = shipped.find(name)
    text = model.weights.with_suffix(".md").read_text(encoding="utf-8")
    assert text == readme(model.card)
    started = model.card["recipe"]["model"]["initial_weights"]
    assert (f"| starts from | {started} |" in text) == bool(started)
    assert ("they are yours to fetch" in text) == name.startswith("camvid/")
    assert f"| licence | weights: {model.licence('weights')}; data: {model.licence('data')} |" in text

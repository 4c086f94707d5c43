"""Every recipe of CONTRIBUTING.md is run, and what it adds is used by its name."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from fresh_python import FreshPython
from paths import ROOT

pytestmark = pytest.mark.slow

RECIPES = ("An attack", "A corruption", "A model or a wrapper", "A dataset", "A metric", "A section of the report")

# What comes after the recipes, in the same process; `section` is what the last one defines.
USE = """
import json

import torch

import gauntlet
from gauntlet.metrics import WHOLE
from gauntlet.report.document import Document, Part
from gauntlet.report.render import markdown
from gauntlet.report.scope import scopes
from gauntlet.results import open_store

streets = gauntlet.load_dataset("streets", split="val", limit=1)
halves = gauntlet.load_dataset("halves", length=2)
image = halves[1].image
plain, mirrored = gauntlet.load_model("streets/enet"), gauntlet.load_model("mirrored:streets/enet")
pixels = torch.from_numpy(streets[0].image).permute(2, 0, 1)[None].float() / 255
metric = metrics["perfect"](halves.class_names)
right, wrong = halves[0].labels, halves[0].labels * 0
verdicts = [metric.update(right, right), metric.update(wrong, right)]
with open_store("results.db") as store:
    for address in ("streets/enet", "mirrored:streets/enet"):
        for threat in ("clean", {"corruption": {"name": "mottle", "severity": 5, "size": 8}}):
            gauntlet.evaluate(address, streets, threat, store=store)
    attacked = gauntlet.evaluate("streets/enet", streets, {"attack": {"name": "sure-pgd", "steps": 2}}).figures["mIoU"]
    scope = scopes(store.frame())[0]
    figures = {
        (row.model, row.threat): row.value
        for row in store.frame().itertuples()
        if row.metric == "mIoU" and row.view == "all"
    }
    made = section(scope, Ranking(scope))
    page = markdown.write(Document("t", "s", [Part(scope.id, scope.title, "", [made])], ""))

noisy = gauntlet.corruptions.corrupt(image, "mottle", 1, seed=3, size=24).astype(int)
print(json.dumps({
    "classes": [int((sample.labels == 1).sum()) for sample in halves],
    "mottle": sorted({int(value) for value in (noisy - image).ravel()}),
    "mirrored": bool(torch.allclose(mirrored(pixels), mirrored(pixels.flip(-1)).flip(-1), atol=1e-4)),
    "plain": bool(torch.allclose(plain(pixels), plain(pixels.flip(-1)).flip(-1), atol=1e-4)),
    "perfect": metric.compute([metric.decode(each.to_bytes()) for each in verdicts], WHOLE)[0].value,
    "attacked": attacked,
    "figures": [[*key, value] for key, value in figures.items()],
    "spread": made.blocks[0].rows,
    "page": page,
}))
"""


def blocks() -> dict[str, str]:
    """The Python code of CONTRIBUTING.md by the heading above it."""
    parts = re.split(r"^## (.+)$", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)
    code = {
        heading: re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    return {heading: examples[0] for heading, examples in code.items() if examples}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory, fresh_python: FreshPython) -> dict[str, Any]:
    """What the recipes give, in a fresh process, so that no other test sees their names."""
    folder = tmp_path_factory.mktemp("recipes")
    (folder / "program.py").write_text("\n".join([*blocks().values(), USE]))
    done = fresh_python.run(folder / "program.py", folder=folder)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_there_are_six_recipes_and_each_names_its_tests() -> None:
    assert tuple(blocks()) == RECIPES
    assert (ROOT / "CONTRIBUTING.md").read_text().count("\nTests: ") == len(RECIPES)


def test_the_attack_hurts(outcome: dict[str, Any]) -> None:
    clean = next(value for model, threat, value in outcome["figures"] if (model, threat) == ("streets/enet", "clean"))
    assert outcome["attacked"] < clean - 0.1


def test_the_corruption_takes_its_option_and_keeps_to_its_strength(outcome: dict[str, Any]) -> None:
    """An image of 32 x 48 has four squares of 24 pixels, whole or cut off; severity 1 is eight grey levels."""
    assert 1 < len(outcome["mottle"]) <= 4
    assert max(map(abs, outcome["mottle"])) <= 8
    assert ("streets/enet", "mottle 5 size 8") in [(model, threat) for model, threat, _ in outcome["figures"]]


def test_the_wrapper_makes_a_model_blind_to_mirrors(outcome: dict[str, Any]) -> None:
    assert (outcome["mirrored"], outcome["plain"]) == (True, False)


def test_the_dataset_is_half_and_half(outcome: dict[str, Any]) -> None:
    assert outcome["classes"] == [32 * 24, 32 * 24]


def test_the_metric_counts_images_without_a_mistake(outcome: dict[str, Any]) -> None:
    assert outcome["perfect"] == 0.5


def test_the_section_says_how_far_models_are_apart(outcome: dict[str, Any]) -> None:
    spread = dict(outcome["spread"])
    assert set(spread) == {"clean", "mottle 5 size 8"}
    for threat, points in spread.items():
        values = [value for _, other, value in outcome["figures"] if other == threat]
        assert len(values) == 2
        assert points == pytest.approx(max(values) - min(values))
    assert "Spread" in outcome["page"]
    assert "mottle 5 size 8" in outcome["page"]

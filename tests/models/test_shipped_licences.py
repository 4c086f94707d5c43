"""Weights state their data and licence, and those of CamVid lie outside the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models.sources import shipped
from gauntlet.models.sources.contract import file_digest
from paths import ROOT
from program import Call

ENET = "camvid/enet-clean"
HERE = [name for name in shipped.names() if shipped.find(name).has_weights]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An installed package without a clone; the user's empty cache."""
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shipped, "CLONE", tmp_path / "no clone")
    return tmp_path / "cache" / "weights"


def test_the_package_holds_weights_of_generated_scenes_only() -> None:
    packaged = {path.relative_to(shipped.CARDS).parts[0] for path in shipped.CARDS.rglob("*.safetensors")}
    assert packaged == {"streets"}
    assert {shipped.find(name).licence("weights") for name in shipped.names("streets")} == {"MIT"}
    assert {shipped.find(name).licence("weights") for name in shipped.names("camvid")} == {"CC BY-NC 4.0"}
    assert len(shipped.names("camvid")) == 14


def test_the_licences_of_the_wheel_name_all_weights_in_it() -> None:
    lines = (shipped.CARDS / "LICENCES.md").read_text(encoding="utf-8").splitlines()
    stated = {line.split("|")[1].strip() for line in lines if line.startswith("| streets/")}
    assert stated == set(shipped.names("streets"))


@pytest.mark.parametrize("name", HERE)
def test_a_card_has_the_identity_of_its_weights(name: str) -> None:
    model = shipped.find(name)
    assert model.identity.digest == model.card["digest"] == file_digest([model.weights], model.card["model"])


def test_identities_are_those_of_stored_results() -> None:
    assert shipped.find("streets/enet").card["digest"] == "3c23ddb5b0117337"
    assert shipped.find(ENET).card["digest"] == "32339448c1d22238"


def test_weights_that_are_not_here_say_how_to_get_them(elsewhere: Path) -> None:
    with pytest.raises(GauntletError, match=r"not in the package \(CC BY-NC 4.0\); run 'gauntlet fetch-weights"):
        gauntlet.load_model(ENET)


def test_fetched_weights_are_found(elsewhere: Path, call: Call) -> None:
    if not (ROOT / "weights").is_dir():
        pytest.skip("this is no clone of the repository")
    _, printed, _ = call("fetch-weights", ROOT)
    assert "camvid/enet-clean: CC BY-NC 4.0, trained on camvid (CC BY-NC 4.0)" in printed
    model = gauntlet.load_model(ENET)
    assert (model.identity.digest, shipped.find(ENET).weights.parent) == ("32339448c1d22238", elsewhere / "camvid")


def test_other_weights_under_the_name_are_refused(elsewhere: Path, tmp_path: Path) -> None:
    other = tmp_path / "clone" / "weights" / f"{ENET}.safetensors"
    other.parent.mkdir(parents=True)
    other.write_bytes(shipped.find("streets/enet").weights.read_bytes())
    with pytest.raises(GauntletError, match="are not those of the card"):
        shipped.fetch(tmp_path / "clone")
    with pytest.raises(GauntletError, match="no weights in"):
        shipped.fetch(tmp_path / "nowhere")


def test_the_list_of_models_states_data_and_licence(elsewhere: Path, call: Call) -> None:
    rows = {row["model"]: row for row in json.loads(call("list", "models", "--json")[1])}
    assert rows["streets/enet"]["licence"] == "MIT"
    assert rows[ENET]["data"] == "camvid (CC BY-NC 4.0)"
    assert rows[ENET]["licence"] == "CC BY-NC 4.0; gauntlet fetch-weights"

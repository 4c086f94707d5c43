"""Mutated input ends in success or in one sentence: a slice of `scripts/fuzz.py`, and what it found once."""

from __future__ import annotations

from pathlib import Path

import pytest

import fuzzing
from gauntlet.errors import GauntletError, as_sentence
from gauntlet.yaml_files import LARGEST, parse_yaml
from paths import DATA

FOUND = sorted((DATA / "fuzz").glob("*.bin"))
FOUND_STORES = (61, 133, 197, 517, 781, 853)
SLICE = 12
SEED = 24


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", fuzzing.KINDS)
def test_mutated_input_is_taken_or_refused_in_one_sentence(kind: str, tmp_path: Path) -> None:
    for number in range(SLICE):
        fuzzing.read(kind, fuzzing.made(kind, number, SEED), tmp_path / str(number))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_once_stays_mended(path: Path, tmp_path: Path) -> None:
    fuzzing.read(path.stem.partition("-")[0], path.read_bytes(), tmp_path)


def test_damaged_stores_that_were_found_stay_mended(tmp_path: Path) -> None:
    for number in FOUND_STORES:
        fuzzing.read("store", fuzzing.made("store", number), tmp_path / str(number))


def test_what_is_unbroken_is_taken(tmp_path: Path) -> None:
    assert fuzzing.read("picture", fuzzing.pictures()[1], tmp_path / "picture")
    assert fuzzing.read("store", fuzzing.store_content(), tmp_path / "store")
    assert fuzzing.read("voc", fuzzing.XML, tmp_path / "voc")
    assert fuzzing.read("safetensors", fuzzing.safetensors_content(), tmp_path / "safetensors")


def test_a_small_file_cannot_stand_for_a_large_one() -> None:
    bomb = "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))])
    for text in (bomb, "&a [*a]", "[" * 3000):
        with pytest.raises(GauntletError, match=f"more than {LARGEST} values|nested too deeply"):
            parse_yaml(text)
    assert parse_yaml("a: &x {b: 1}\nc: *x") == {"a": {"b": 1}, "c": {"b": 1}}


def test_a_message_is_one_line_whatever_it_names() -> None:
    said = as_sentence(GauntletError("unknown 'a\n\x1b[31m\u202e" + "b" * 9000 + "'; known: c."))
    assert said.startswith("unknown 'a ?[31m?bbb")
    assert said.endswith("bbb'; known: c.")
    assert len(said) < 2000

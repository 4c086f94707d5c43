"""Every example runs, in a process of its own, and shows what it says it shows."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fresh_python import FreshPython
from paths import ROOT, TESTS
from subprocesses import environment

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"


Run = Callable[[str], str]
"""From the name of an example to what it prints."""


@pytest.fixture
def run(fresh_python: FreshPython, tmp_path: Path) -> Run:
    def example(name: str) -> str:
        done = fresh_python.run(EXAMPLES / name, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return example


def figures(output: str) -> dict[str, float]:
    """MIoU in percent by what stands before the colon."""
    return {name: float(value) for name, value in re.findall(r"^(.+): mIoU ([\d.]+) %$", output, re.MULTILINE)}


def test_every_example_is_tested() -> None:
    tested = {"own_model.py", "own_dataset.py", "hugging_face_model.py", "own_attack.py", "own_corruption.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


def test_own_model(run: Run) -> None:
    shown = figures(run("own_model.py"))
    assert list(shown) == ["my-network | clean", "my-network | pgd linf 2/255 x3", "my-network | fog 3"]
    assert shown["my-network | pgd linf 2/255 x3"] < shown["my-network | clean"]


def test_own_dataset(run: Run) -> None:
    shown = figures(run("own_dataset.py"))
    for name in ("folder:my_photos", "scenes"):
        clean, bright = (value for key, value in shown.items() if key.startswith(f"{name} | "))
        assert clean == 100
        assert bright < 90
    assert len(set(shown.values())) == 2


@pytest.mark.zoo
@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs transformers")
def test_hugging_face_model() -> None:
    # `make zoo-test` has a plugin that lets torchvision be imported beside any torch; a process of its own needs it.
    through = ["-m", "zoo_environment"] if "zoo_environment" in sys.modules else []
    done = subprocess.run(
        [sys.executable, *through, str(EXAMPLES / "hugging_face_model.py")],
        capture_output=True,
        text=True,
        env=environment(TESTS, HF_HUB_OFFLINE="1"),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    output = done.stdout
    assert "tiny-segformer: 3 classes, road, building, sky" in output
    assert float(re.findall(r"([\d.]+) % of the pixels", output)[0]) > 5


def test_own_attack(run: Run) -> None:
    shown = figures(run("own_attack.py"))
    assert shown["focal-pgd linf 2/255 x4"] < shown["clean"]
    assert shown["pgd linf 2/255 x4"] < shown["clean"]


def test_own_corruption(run: Run) -> None:
    output = run("own_corruption.py")
    before, after = (json.loads(text) for text in re.findall(r"(\[\d+, \d+, \d+\])", output)[:2])
    # At a corner the distance is 1: a fifth is left at severity 5.
    assert after == [int(value * (1 - 0.8)) for value in before]
    assert len(figures(output)) == 3

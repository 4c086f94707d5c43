"""The examples in docstrings: each one runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import re

import pytest

from paths import ROOT

SOURCE = ROOT / "src"
PROMPT = re.compile(r"^\s*>>> ", re.MULTILINE)


def modules_with_examples() -> dict[str, int]:
    """How many prompts each module's file holds, by the module's name."""
    prompts = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        prompts[name] = len(PROMPT.findall(path.read_text(encoding="utf-8")))
    return {name: count for name, count in prompts.items() if count}


MODULES = modules_with_examples()


def test_the_docstrings_have_examples() -> None:
    assert len(MODULES) > 20


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome == (0, MODULES[name]), "an example fails, or stands where doctest does not look"

"""The Python in the documentation: what it imports and names exists, and the pages that need no data run."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fresh_python import FreshPython
from paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```python[ \t]*$\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)

# Pages whose blocks run one after the other, and what the text takes for granted.
RUN = {
    "docs/corruptions.md": """
import numpy as np
import gauntlet
image = np.full((64, 96, 3), 128, np.uint8)
dataset = gauntlet.load_dataset("streets", limit=1)
""",
    "docs/analysis.md": """
import gauntlet
frame = gauntlet.published.frame("segmentation", source="semsegbench")
""",
}


def blocks(page: Path) -> list[tuple[str, str]]:
    """Every fenced block of Python as (place, code)."""
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    return [(f"{name}:{text.count(chr(10), 0, match.start()) + 1}", match[1]) for match in FENCE.finditer(text)]


BLOCKS = [block for page in PAGES for block in blocks(page)]


def test_the_pages_have_examples() -> None:
    assert len(BLOCKS) > 20
    assert {place.split(":")[0] for place, _ in BLOCKS} >= {"README.md", *RUN}


def imported(tree: ast.Module) -> dict[str, Any]:
    """What the import statements of a block bind; a name that does not exist is an error."""
    names: dict[str, Any] = {"gauntlet": importlib.import_module("gauntlet")}  # later blocks of a page do not repeat it
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = importlib.import_module(alias.name)
                names[alias.asname or alias.name.split(".")[0]] = (
                    module if alias.asname else importlib.import_module(alias.name.split(".")[0])
                )
        elif isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                names[alias.asname or alias.name] = getattr(module, alias.name)
    return names


def resolve(node: ast.expr, names: dict[str, Any]) -> Any:
    """The object that a dotted name stands for, as far as it is made of modules; None for anything else."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = resolve(node.value, names)
        if isinstance(owner, ModuleType):
            assert hasattr(owner, node.attr), f"{owner.__name__} has no '{node.attr}'"
            return getattr(owner, node.attr)
    return None


def unknown_keywords(tree: ast.Module, names: dict[str, Any]) -> Iterator[str]:
    """Keyword arguments that a function or class of the package does not take."""
    for node in ast.walk(tree):
        function = resolve(node.func, names) if isinstance(node, ast.Call) else None
        if not callable(function):
            continue
        try:
            parameters = inspect.signature(function).parameters
        except ValueError:  # compiled functions, such as torch.exp, tell none
            continue
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            continue
        assert isinstance(node, ast.Call)
        for keyword in node.keywords:
            if keyword.arg is not None and keyword.arg not in parameters:
                yield f"{ast.unparse(node.func)}({keyword.arg}=)"


@pytest.mark.parametrize(("place", "code"), BLOCKS, ids=[place for place, _ in BLOCKS])
def test_names_in_an_example_exist(place: str, code: str) -> None:
    tree = ast.parse(code, place)
    rebound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names = {name: value for name, value in imported(tree).items() if name not in rebound}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            resolve(node, names)
    assert list(unknown_keywords(tree, names)) == []


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_the_examples_of_a_page_run(page: str, tmp_path: Path, fresh_python: FreshPython) -> None:
    done = fresh_python.run("\n".join([RUN[page], *(code for _, code in blocks(ROOT / page))]), folder=tmp_path)
    assert done.returncode == 0, done.stderr


LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_definition_that_is_referred_to_exists() -> None:
    """Code, tests and pages say "docs/specs/attacks.md, 9.4" or "(..., section 6)": the section must be there."""
    reference = re.compile(r"docs/specs/([a-z]+)\.md,?\s+(?:#\s+)?(?:section\s+)?(\d+(?:\.\d+)?)")
    missing = []
    for folder in ("src", "tests", "docs", "scripts", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")) + sorted((ROOT / folder).rglob("*.md")):
            for page, section in reference.findall(path.read_text(encoding="utf-8")):
                text = (ROOT / "docs" / "specs" / f"{page}.md").read_text(encoding="utf-8")
                chapter, _, part = section.partition(".")
                heading = re.search(rf"^#+ {chapter}[. ].*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
                there = heading and (not part or re.search(rf"^(### {chapter}\.)?{part}[. ]", heading[0], re.MULTILINE))
                if not there:
                    missing.append(f"{path.relative_to(ROOT)}: {page}.md, {section}")
    assert missing == []

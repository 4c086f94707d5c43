"""Code of a configuration of OpenMMLab's: the files that it inherits from and the user's modules that it imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from gauntlet.models.code_identity import code_of_files, code_of_target, joined_codes


def code_of_config(path: Path) -> str:
    """Digest of a configuration and of all that it is made from; nothing is imported or run."""
    files: dict[Path, None] = {}
    modules: dict[str, None] = {}
    waiting = [path.resolve()]
    while waiting:
        file = waiting.pop(0)
        if file in files or not file.is_file():
            continue
        files[file] = None
        tree = _tree(file)
        waiting += [(file.parent / base).resolve() for base in _bases(tree)]
        modules.update(dict.fromkeys(_imports(tree)))
    own = [code_of_target(name, [str(path.resolve().parent)]) for name in sorted(modules)]
    return joined_codes([code_of_files(files), *own])


def _tree(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes()) if file.suffix == ".py" else ast.Module([], [])
    except (SyntaxError, ValueError):  # mmengine says so when it reads the file
        return ast.Module([], [])


def _bases(tree: ast.Module) -> Iterator[str]:
    """Paths of the files that a configuration inherits from, relative to its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _names(node) == ["_base_"]:
            yield from _strings(node.value)
        elif isinstance(node, ast.ImportFrom) and node.level:  # `with read_base(): from .base import *`
            inside = (node.module or "").replace(".", "/")
            folder = "../" * (node.level - 1) + inside
            yield f"{folder}.py"
            yield from (f"{folder}/{each.name}.py" for each in node.names)


def _imports(tree: ast.Module) -> Iterator[str]:
    """Modules that a configuration imports, or has imported with custom_imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""
        elif isinstance(node, ast.Assign) and _names(node) == ["custom_imports"]:
            yield from _strings(node.value)


def _names(node: ast.Assign) -> list[str]:
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


def _strings(node: ast.AST) -> Iterator[str]:
    yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str))

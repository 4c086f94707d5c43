"""A folder with a configuration and its weights, as DetecBench names a detector: load_model(model_folder=...)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gauntlet.errors import GauntletError

DATASETS = {
    "CocoDataset": "coco",
    "VOCDataset": "voc2007",
    "LVISV05Dataset": "lvis",
    "LVISV1Dataset": "lvis",
    "LVISDataset": "lvis",
}
"""Datasets of OpenMMLab's framework by the name of their class."""


@dataclass(frozen=True)
class ModelFolder:
    """A detector of OpenMMLab's framework in a folder of its own.

    Attributes:
        config: the configuration, the folder's one .py file.
        weights: the checkpoint, its one .pth file.
    """

    config: Path
    weights: Path

    @property
    def address(self) -> str:
        """What `load_model` takes, with `options`."""
        return f"mmdet:{self.config}"

    @property
    def options(self) -> dict[str, str]:
        """The options that go with the address."""
        return {"weights": str(self.weights)}

    def dataset(self) -> tuple[str, str | None]:
        """Name of the dataset that the configuration evaluates on, and its folder where it names one.

        The file is read, not run: what it writes out counts, what it inherits from another file is not seen.
        """
        settings = _settings(self.config)
        kind, root = settings.get("dataset_type"), settings.get("data_root")
        if kind not in DATASETS:
            said = f"names the dataset '{kind}'" if kind else "does not write out its dataset_type"
            raise GauntletError(
                f"the configuration {self.config} {said}; say which dataset to use, for example dataset='coco'."
            )
        return DATASETS[kind], root


def find_model_folder(folder: str | Path) -> ModelFolder:
    """The detector of a folder; an error that says what is there when it has not one .py and one .pth file."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise GauntletError(f"the model folder '{folder}' is not a folder.")
    files = sorted(each.name for each in path.iterdir() if each.is_file())
    configs, weights = ([name for name in files if name.endswith(ending)] for ending in (".py", ".pth"))
    if len(configs) != 1 or len(weights) != 1:
        raise GauntletError(
            f"the model folder '{folder}' must hold one configuration (.py) and its weights (.pth), but it holds "
            f"{', '.join(files) or 'nothing'}."
        )
    return ModelFolder(path / configs[0], path / weights[0])


def _settings(config: Path) -> dict[str, Any]:
    """dataset_type and data_root of a configuration: its own variables, else what its test data set says."""
    try:
        module = ast.parse(config.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise GauntletError(f"the configuration {config} cannot be read: {error}.") from None
    values: dict[str, ast.expr] = {}
    for statement in module.body:
        if isinstance(statement, ast.Assign):
            values.update({each.id: statement.value for each in statement.targets if isinstance(each, ast.Name)})
    loader = values.get("test_dataloader") or values.get("val_dataloader")
    found: dict[str, Any] = {}
    for name, inner in (("dataset_type", "type"), ("data_root", "data_root")):
        candidates = [values[name]] if name in values else _inside(loader, inner)
        texts = [each.value for each in candidates if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        known = texts if name == "data_root" else [each for each in texts if each in DATASETS] or texts
        if known:
            found[name] = known[0]
    return found


def _inside(node: ast.expr | None, name: str) -> Iterator[ast.expr]:
    """The values of a name in the dictionaries of an expression, written dict(name=...) or {"name": ...}."""
    for each in ast.walk(node) if node is not None else ():
        if isinstance(each, ast.keyword) and each.arg == name:
            yield each.value
        elif isinstance(each, ast.Dict):
            for key, value in zip(each.keys, each.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    yield value

"""Pages of the reference, made of the registries and docstrings when the site is built: a hook of MkDocs (mkdocs.yml).

What is registered is on the site, with the defaults that the code has; nothing is written down twice.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import gauntlet
from gauntlet.cli import (
    commands,  # noqa: F401 - registers the commands
    listing,
)
from gauntlet.cli.app import app
from gauntlet.datasets import datasets
from gauntlet.metrics import WHOLE, DetectionMetric, SegmentationMetric, metrics
from gauntlet.metrics.segmentation.metric import DensePrediction
from gauntlet.models.sources.contract import sources
from gauntlet.numbers import format_number
from gauntlet.registry import Registry
from gauntlet.samples import Boxes
from gauntlet.threats import attacks, build_threat, corruptions, suites
from gauntlet.threats.attacks import functions, losses
from gauntlet.threats.attacks.combined.members import battery_members
from gauntlet.threats.attacks.engine.step_rules import step_rules
from gauntlet.threats.masks import masks

PYTHON_NAMES = [name for name in gauntlet.__all__ if name != "__version__"]
Command = Any
"""A command of click, which typer has a copy of."""
MODULES = ("analysis", "attacks", "corruptions", "published", "suites")
"""Of the public names those that are modules; their functions stand on the page, not every class behind them."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages to those in docs/."""
    for name, make in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=make()))
    return files


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    head = list(header)
    lines = [head, ["---"] * len(head), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def first_line(thing: object) -> str:
    """The first sentence of a docstring."""
    return (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")


def written(value: object) -> str:
    """A default as a plan would say it; of an attack inside another one, its name."""
    if isinstance(value, dict):
        return f"`{value.get('name', '...')}`"
    return f"`{format_number(value)}`" if isinstance(value, float) else f"`{value}`"


def attack_page() -> str:
    """Every attack and battery: what it is, its paper, its options with their defaults."""
    parts = [
        "# Attacks and batteries\n",
        "What each option means: [the typed functions](python.md), [how attacks are built](../attacks.md). "
        "Definitions with equations: [specs](../specs/attacks.md).\n",
    ]
    for name in [*attacks.attacks, *battery_members]:
        function = getattr(functions, name.replace("-", "_"), None)
        parts += [f"## {name}\n", f"{_with_link(first_line(function or attacks.attacks[name]))}\n"]
        if name in battery_members:
            parts.append(f"A battery of {', '.join(f'`{member}`' for member in battery_members[name])}.\n")
        parts.append(table(["option", "default"], _defaults(attacks.build(name))))
    parts += [
        "## Losses and step rules\n",
        "What the options `loss` and `rule` take.\n",
        "Losses: " + ", ".join(f"`{name}`" for name in losses) + ".\n",
        table(
            ["rule", "what it does"], ([f"`{name}`", _with_link(first_line(rule))] for name, rule in step_rules.items())
        ),
    ]
    return "\n".join(parts)


def _with_link(text: str) -> str:
    return re.sub(r"docs/specs/([a-z]+)\.md", r"[definition](../specs/\1.md)", text)


def _defaults(attack: Any) -> Iterator[tuple[str, str]]:
    """Options and defaults; of an attack that is made of others, what it says of itself."""
    if dataclasses.is_dataclass(attack):
        options = {field.name: getattr(attack, field.name) for field in dataclasses.fields(attack) if field.init}
    else:
        options = attack.describe()
    yield from ((f"`{name}`", written(value)) for name, value in options.items() if name not in ("name", "members"))


CORRUPTION_SETS = {
    "common": "The fifteen of Hendrycks and Dietterich 2019, [definitions](../specs/corruptions.md), 2.",
    "extra": "Four more of Hendrycks and Dietterich 2019, [definitions](../specs/corruptions.md), 2.",
    "3d": "In three dimensions, Kar et al. 2022, [definitions](../specs/corruptions.md), 4.",
    "video": "Compression of video, Kar et al. 2022, [definitions](../specs/corruptions.md), 4.",
    "c-bar": "ImageNet-C-bar, Mintun et al. 2021, [definitions](../specs/beyond.md), 9.",
}
"""Paper and specification of every set."""


def corruption_page() -> str:
    """Every corruption by its set with its paper: whether it is random, what it needs, its own options."""
    parts = ["# Corruptions\n", "Severities 1 to 5. [More about them](../corruptions.md).\n"]
    for kind, text in CORRUPTION_SETS.items():
        rows = [
            [f"`{name}`", first_line(each.function), ", ".join(_facts(each))]
            for name, each in corruptions.registry.items()
            if kind == ("common" if name in corruptions.COMMON else each.group)
        ]
        parts += [f"## {kind}\n", f"{text}\n", table(["corruption", "what it does", "facts and options"], rows)]
    moves = listing._moves()
    parts += [
        "## Regions\n",
        f"Where localized corruptions and attacks act: {', '.join(f'`{name}`' for name in masks)}.\n",
        "## Moves of the camera\n",
        "[How labels and boxes move along](../geometry.md).\n",
        table(moves[0], (row.values() for row in moves)),
    ]
    return "\n".join(parts)


def _facts(corruption: Any) -> Iterator[str]:
    if corruption.random:
        yield "random"
    if corruption.needs_depth:
        yield "needs depth"
    parameters = inspect.signature(corruption.function).parameters
    yield from (f"`{option}={parameters[option].default}`" for option in corruption.options)


def suite_page() -> str:
    """Every suite with its threats."""
    parts = ["# Suites\n", "`gauntlet run --suite NAME`. [Plans and sweeps](../running.md).\n"]
    for name, suite in suites.suites.items():
        names = [build_threat(description).name for description in suites.build(name)]
        parts += [f"## {name}\n", f"{first_line(suite)}\n", "\n".join(f"- {each}" for each in names) + "\n"]
    return "\n".join(parts)


def registry_page() -> str:
    """Metrics, datasets and sources of models."""
    parts = ["# Metrics, datasets and sources of models\n"]
    chapters: dict[str, tuple[Registry[Any], str]] = {
        "Metrics": (metrics, "Figures and their definitions: [metrics](../metrics.md)."),
        "Datasets": (datasets, "Layouts and protocols: [datasets](../datasets.md)."),
        "Sources of models": (sources, "What stands before the colon of an address: [models](../models.md)."),
    }
    for title, (registry, text) in chapters.items():
        rows = [[f"`{name}`", first_line(entry)] for name, entry in registry.items()]
        parts += [f"## {title}\n", f"{text}\n", table(["name", "what it is"], rows)]
        if title == "Metrics":
            parts.append(table(["task", "figures", "per class"], _figure_names()))
    return "\n".join(parts)


def _figure_names() -> Iterator[tuple[str, str, str]]:
    """The names of all figures of a whole image, as the metrics give them for one."""
    labels = np.array([[0, 1], [1, 1]])
    confidence = np.full((2, 2), 0.5)
    dense = SegmentationMetric(("a", "b"), background_index=0)
    box = np.array([[0, 0, 8, 8]], np.float32)
    boxes = DetectionMetric(("a",))
    found = boxes.update(Boxes(box, np.zeros(1, np.int64), np.ones(1, np.float32)), Boxes(box, np.zeros(1, np.int64)))
    prediction = DensePrediction(labels, confidence, confidence, np.zeros((2, 2)), _even_scores)
    for task, figures in (
        ("segmentation", dense.compute([dense.update(prediction, labels)], WHOLE)),
        ("detection", boxes.compute([found], WHOLE)),
    ):
        whole, of_classes = (
            ", ".join(
                f"`{name}`" for name in dict.fromkeys(each.metric for each in figures if bool(each.class_name) == by)
            )
            for by in (False, True)
        )
        yield task, whole, of_classes


def _even_scores(target: Any) -> Any:
    """-ln p_y and the Brier score of a prediction that is undecided between two classes."""
    return np.full(target.shape, np.log(2)), np.full(target.shape, 0.5)


def command_page() -> str:
    """Every command with its options, as `--help` says."""
    parts = ["# Commands\n"]
    for path, command in _walk("gauntlet", typer.main.get_command(app)):
        parts += [f"## {path}\n", f"{first_line_of_help(command)}\n"]
        if command.epilog:
            parts.append(f"{command.epilog}\n")
        rows = [
            [
                f"`{', '.join(option.opts)}`" if option.param_type_name == "option" else f"`{option.name}`",
                _default(option),
                _help(option),
            ]
            for option in command.params
            if option.name != "help"
        ]
        if rows:
            parts.append(table(["option", "default", "what it does"], rows))
    return "\n".join(parts)


def first_line_of_help(command: Command) -> str:
    return (command.help or "").split("\n\n")[0].replace("\n", " ")


def _help(option: Any) -> str:
    return (getattr(option, "help", None) or "").replace("\n", " ")


def _default(option: Any) -> str:
    """What an option is where nobody gives it; "" for nothing and for switches that are off."""
    if option.required:
        return "required"
    return "" if option.default in (None, False, "") else f"`{option.default}`"


def _walk(path: str, command: Command) -> Iterator[tuple[str, Command]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, each in inner.items():
        if not each.hidden:
            yield from _walk(f"{path} {name}", each)


def python_page() -> str:
    """The public names, and the typed functions of the attacks."""
    plain = [name for name in PYTHON_NAMES if name not in MODULES]
    parts = ["# Python\n", "The names of `import gauntlet`. They stay; everything else may move.\n"]
    parts += [f"::: {target(name)}\n" for name in plain]
    modules = [
        "gauntlet.threats.attacks.functions",
        "gauntlet.threats.attacks.call_arguments",
        "gauntlet.results.store",
    ]
    parts += [f"::: {module}\n" for module in modules]
    return "\n".join(parts)


def target(name: str) -> str:
    """Where a public name is defined."""
    value = getattr(gauntlet, name)
    return f"{value.__module__}.{value.__qualname__}"


PAGES: dict[str, Callable[[], str]] = {
    "attacks": attack_page,
    "commands": command_page,
    "corruptions": corruption_page,
    "python": python_page,
    "registries": registry_page,
    "suites": suite_page,
}

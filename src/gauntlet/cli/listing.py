"""`gauntlet list`: what there is."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json, print_table
from gauntlet.cli.shared_options import JsonOption
from gauntlet.numbers import format_percent
from gauntlet.tasks import SEGMENTATION

Row = dict[str, Any]


class What(str, Enum):
    """What can be listed."""

    models = "models"
    datasets = "datasets"
    attacks = "attacks"
    batteries = "batteries"
    corruptions = "corruptions"
    suites = "suites"


@app.command("list", epilog="Example: gauntlet list attacks")
def list_command(
    what: Annotated[What, typer.Argument(help="What to list.")],
    zoo: Annotated[
        bool, typer.Option("--zoo", help="Models: those of the published benchmarks and where their weights are.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List models, datasets, attacks, batteries, corruptions or suites."""
    rows = _zoo() if zoo and what is What.models else _LISTS[what]()
    if as_json:
        print_json(rows)
        return
    columns = list(dict.fromkeys(key for row in rows for key in row))
    print_table("", columns, [[row.get(key, "") for key in columns] for row in rows], numbers_from=len(columns))


def _models() -> list[Row]:
    from gauntlet.models.sources import shipped

    rows = []
    for name in shipped.names():
        card = shipped.find(name).card
        clean = card["figures"]["clean"]
        figures = [figure for figure in ("mIoU", "mAP", "mAP50") if figure in clean]
        rows.append(
            {
                "model": name,
                "task": card["model"].get("task", SEGMENTATION),
                "architecture": card["model"]["architecture"],
                "parameters": card["model"]["parameters"],
                "training": card["kind"],
                **{f"clean {figure} %": format_percent(clean[figure]) for figure in figures},
            }
        )
    return [*rows, *_wrappers()]


def _wrappers() -> list[Row]:
    """Addresses of models around other models, with their default settings."""
    from gauntlet.models.loading import DEFENCES
    from gauntlet.models.sources.contract import sources

    return [
        {"model": getattr(sources[name], "example", f"{name}:ADDRESS"), "task": SEGMENTATION, "architecture": "wrapper"}
        for name in DEFENCES
    ]


def _zoo() -> list[Row]:
    from gauntlet.models import zoo

    return [
        {
            "model": entry.model_name,
            "backbone": entry.backbone,
            "dataset": entry.dataset,
            "crop": entry.crop_size,
            "benchmark": entry.benchmark,
            "address": entry.address or "none known",
        }
        for entry in zoo.entries()
    ]


def _datasets() -> list[Row]:
    from gauntlet import datasets

    return [{"dataset": name} for name in datasets.names()]


def _attacks() -> list[Row]:
    from gauntlet.numbers import format_number
    from gauntlet.threats import attacks

    rows = []
    for name, make in attacks.attacks.items():
        described = make().describe()
        described = {**described.get("attack", {}), **described} if name == "region-aware" else described
        defaults = {key: described[key] for key in ("norm", "epsilon", "alpha", "steps", "loss") if described.get(key)}
        words = [
            f"{key} {format_number(value) if isinstance(value, float) else value}" for key, value in defaults.items()
        ]
        rows.append({"attack": name, "defaults": ", ".join(words)})
    return rows


def _batteries() -> list[Row]:
    from gauntlet.threats.attacks.combined.members import battery_members

    return [{"battery": name, "attacks": ", ".join(members)} for name, members in battery_members.items()]


def _corruptions() -> list[Row]:
    from gauntlet.threats import corruptions

    return [
        {
            "corruption": name,
            "set": "common" if name in corruptions.COMMON else corruption.group,
            "needs": "depth" if corruption.needs_depth else "",
        }
        for name, corruption in corruptions.registry.items()
    ]


def _suites() -> list[Row]:
    from gauntlet.threats import suites

    return [
        {"suite": name, "threats": len(suites.build(name)), "what": (suite.__doc__ or "").splitlines()[0]}
        for name, suite in suites.suites.items()
    ]


_LISTS: dict[What, Callable[[], list[Row]]] = {
    What.models: _models,
    What.datasets: _datasets,
    What.attacks: _attacks,
    What.batteries: _batteries,
    What.corruptions: _corruptions,
    What.suites: _suites,
}

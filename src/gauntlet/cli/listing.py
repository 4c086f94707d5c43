"""`gauntlet list`: what there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json, print_table
from gauntlet.cli.shared_options import DEFAULT_STORE, JsonOption, StoreOption
from gauntlet.numbers import format_percent
from gauntlet.tasks import SEGMENTATION

if TYPE_CHECKING:
    from gauntlet.models.zoo import ZooEntry

Row = dict[str, Any]


class What(str, Enum):
    """What can be listed."""

    models = "models"
    datasets = "datasets"
    attacks = "attacks"
    batteries = "batteries"
    corruptions = "corruptions"
    moves = "moves"
    suites = "suites"


@app.command("list", epilog="Example: gauntlet list attacks")
def list_command(
    what: Annotated[What, typer.Argument(help="What to list.")],
    zoo: Annotated[
        bool, typer.Option("--zoo", help="Models: those of the published benchmarks and where their weights are.")
    ] = False,
    architectures: Annotated[
        bool, typer.Option("--architectures", help="Models: networks of the papers for net:NAME, and what they cost.")
    ] = False,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """List models, datasets, attacks, batteries, corruptions, moves of the camera or suites."""
    make = _LISTS[what]
    if what is What.models:
        make = partial(_zoo, store) if zoo else _architectures if architectures else make
    rows = make()
    if as_json:
        print_json(rows)
        return
    columns = list(dict.fromkeys(key for row in rows for key in row))
    print_table("", columns, [[row.get(key, "") for key in columns] for row in rows], numbers_from=len(columns))


def _models() -> list[Row]:
    from gauntlet.models.sources import shipped, trained

    ours = {name: shipped.find(name) for name in shipped.names()}
    models = {name: model.card for name, model in ours.items()}
    models |= {name: own.card for name in trained.names() if (own := trained.find(name, {})) is not None}
    rows = []
    for name, card in models.items():
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
                **_licences(card, name not in ours or ours[name].has_weights),
            }
        )
    return [*rows, *_wrappers()]


def _licences(card: Mapping[str, Any], here: bool) -> Row:
    """Data and licences that a card states, and how to get weights that are not on this machine."""
    data, stated = card["data"]["training"]["name"], card.get("licence")
    if stated is None:
        return {"data": data}
    missing = "" if here else "; gauntlet fetch-weights"
    return {"data": f"{data} ({stated['data']})", "licence": f"{stated['weights']}{missing}"}


def _wrappers() -> list[Row]:
    """Addresses of models around other models, with their default settings."""
    from gauntlet.models.loading import DEFENCES
    from gauntlet.models.sources.contract import sources

    return [
        {"model": getattr(sources[name], "example", f"{name}:ADDRESS"), "task": SEGMENTATION, "architecture": "wrapper"}
        for name in DEFENCES
    ]


def _zoo(store: str) -> list[Row]:
    from gauntlet.models import zoo

    ours = _stored_figures(store)
    return [
        {
            "model": entry.model_name,
            "backbone": entry.backbone,
            "dataset": entry.dataset,
            "crop": entry.crop_size,
            "benchmark": entry.benchmark,
            "loads": entry.loads,
            "published %": "" if entry.published_figure is None else format_percent(entry.published_figure),
            "ours %": format_percent(ours[entry]) if entry in ours else "",
            "address": entry.address or "none known",
        }
        for entry in zoo.entries()
    ]


def _stored_figures(address: str) -> dict[ZooEntry, float]:
    """The clean figure of every model of the zoo in a store, on the dataset it was trained on; the latest."""
    from pathlib import Path

    from gauntlet.models import zoo
    from gauntlet.models.zoo.spelling import canonical_dataset
    from gauntlet.results import open_store
    from gauntlet.results.origin import read_origin
    from gauntlet.tasks import get_task

    if "://" not in address and not Path(address).is_file():
        return {}
    figures = {}
    with open_store(address) as store:
        keys = store.keys()
        for evaluation in map(store.load, keys):
            model = None if evaluation is None else read_origin(evaluation.provenance).model
            entry = None if model is None else zoo.entry_of(str(model["address"]))
            if evaluation is None or entry is None or evaluation.kind != "clean":
                continue
            if canonical_dataset(evaluation.dataset).removesuffix("0712") == entry.dataset:
                figures[entry] = evaluation.figures[get_task(evaluation.task).main_figure]
    return figures


def _architectures() -> list[Row]:
    from gauntlet.models.architectures.published.catalogue import ALIASES, NETWORKS
    from gauntlet.models.architectures.published.cost import HEIGHT, WIDTH, cost

    short = {name: alias for alias, name in ALIASES.items()}
    rows = []
    for name, row in NETWORKS.items():
        needs = cost(name)
        rows.append(
            {
                "network": name,
                "alias": short.get(name, ""),
                "classes": row.classes,
                "parameters": needs.parameters,
                f"GMACs {HEIGHT}x{WIDTH}": f"{needs.giga_multiplications:.1f}",
                "MiB": f"{needs.mebibytes:.1f}",
                "MiB (Arnab)": "" if row.arnab_mib is None else f"{row.arnab_mib:.1f}",
                "paper": row.paper,
                "form of": row.origin,
            }
        )
    return rows


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
        shown = ("norm", "epsilon", "alpha", "steps", "queries", "loss")
        defaults = {key: described[key] for key in shown if described.get(key)}
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


def _moves() -> list[Row]:
    from dataclasses import fields

    from gauntlet.threats.geometry.catalogue import MOVES, SERIES, names

    rows = []
    for name in names():
        series = SERIES.get(name)
        severities = "" if series is None else f"{', '.join(f'{value:g}' for value in series.values)} {series.unit}"
        own = ", ".join(each.name for each in fields(MOVES[name])) if name in MOVES else ""
        rows.append({"move": name, "parameters": own, "severities from 1 on": severities})
    return rows


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
    What.moves: _moves,
    What.suites: _suites,
}

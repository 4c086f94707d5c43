"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_STORE = "gauntlet-results.db"

StoreOption = Annotated[
    str, typer.Option("--store", help="SQLite file or postgresql+psycopg:// URL.", envvar="GAUNTLET_STORE")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
DeviceOption = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, mps or auto.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of all randomness.")]
DepthRuleOption = Annotated[
    str,
    typer.Option(
        "--depth-rule",
        metavar="metric|estimated",
        help="How corruptions in 3D read depth; DetecBench's own copies are 'estimated'.",
    ),
]

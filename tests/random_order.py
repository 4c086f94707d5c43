"""A plugin that runs tests in a random order, to find those that depend on others (CONTRIBUTING.md has the command).

Modules change places, and so do the tests inside a module; a module's tests stay together, so that what it builds once
is built once. The seed in the environment repeats an order; without it nothing moves.
"""

from __future__ import annotations

import os
import random

import pytest

SEED = "GAUNTLET_TEST_ORDER"
"""The variable of the environment that holds the seed, a whole number."""


def shuffled(places: list[str], seed: int) -> list[int]:
    """The positions of tests in their new order.

    Args:
        places: the module of every test.
        seed: of the order.

    >>> shuffled(["a", "a", "b"], 1) == shuffled(["a", "a", "b"], 1)
    True
    """
    draws = random.Random(seed)
    modules: dict[str, list[int]] = {}
    for position, place in enumerate(places):
        modules.setdefault(place, []).append(position)
    order = sorted(modules)
    draws.shuffle(order)
    for place in order:
        draws.shuffle(modules[place])
    return [position for place in order for position in modules[place]]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if SEED in os.environ:
        places = [item.nodeid.partition("::")[0] for item in items]
        items[:] = [items[position] for position in shuffled(places, int(os.environ[SEED]))]


def pytest_report_header() -> str | None:
    return f"random order: {SEED}={os.environ[SEED]}" if SEED in os.environ else None

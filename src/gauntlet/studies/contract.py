"""What a study is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from gauntlet.registry import Registry, instance_of
from gauntlet.report.document import Block
from gauntlet.studies.results import FloatArray, Results

Drawing = Callable[[Results], Sequence[Block]]
"""Tables and charts of results."""
Kind = Literal["measure", "relate", "picture", "list"]


@dataclass(frozen=True)
class Claim:
    """What a paper says, as a number that is above 0 where it holds.

    Attributes:
        text: the claim in our words, with the printed figures.
        margin: (R,) by how much it holds in R resamples of the images, from `Results`, a difference of fractions; NaN
            where it cannot be computed.
        models: how many models of one's own it takes.
    """

    text: str
    margin: Callable[[Results], FloatArray]
    models: int = 1


@dataclass(frozen=True)
class Study:
    """A table or a figure of a paper.

    Attributes:
        name: "arnab/table-1".
        title: what it is about.
        question: what it asks.
        setting: the paper's models, data and parameters, as printed.
        finding: what the paper prints, in our words with its numbers.
        unknown: what the paper does not say, or says twice and differently; "" for nothing.
        kind: "measure" runs threats on models, "relate" sets figures of several models against each other, "picture"
            draws single images, "list" tables models.
        members: by label, the addresses that are made of each model: {"plain": "{model}", "blur":
            "transform:kind=blur:{model}"}.
        threats: by label, descriptions; "@plain" in the place of a source_model stands for that member of the same
            model.
        drawing: tables and charts of the results.
        claims: what is tested.
        published: rows of the published figures that belong to it, or None.
        least_models: how many models it needs.
        needs: what it needs that nobody can ship, in one sentence; "" for nothing.
        also: other names of it.
        objects: whether evaluations keep every connected object (`Settings.objects`).
    """

    name: str
    title: str
    question: str
    setting: str
    finding: str
    members: Mapping[str, str]
    threats: Mapping[str, Mapping[str, Any] | str]
    drawing: Drawing
    claims: Sequence[Claim] = ()
    unknown: str = ""
    kind: Kind = "measure"
    published: Callable[[], pd.DataFrame] | None = None
    least_models: int = 1
    needs: str = ""
    also: Sequence[str] = ()
    objects: bool = False


studies: Registry[Study] = Registry("study", "gauntlet.studies", check=instance_of(Study, "a gauntlet.studies.Study"))
"""Studies by name; entry points of the group `gauntlet.studies` add to them."""

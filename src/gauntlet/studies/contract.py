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
Kind = Literal["measure", "relate", "picture", "list", "page"]
"""measure: threats on models. relate: figures of several models against each other. picture: single images. list: a
table of models. page: a page of the documentation, on models of its own."""


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


@dataclass(frozen=True, kw_only=True)
class AnyStudy:
    """What every study says about itself.

    Attributes:
        name: "arnab/table-1".
        title: what it is about.
        question: what it asks.
        kind: one of Kind.
        setting: the paper's models, data and parameters, as printed.
        finding: what the paper prints, in our words with its numbers.
        unknown: what the paper does not say, or says twice and differently; "" for nothing.
        least_models: how many models it needs.
        needs: what it needs that nobody can ship, in one sentence; "" for nothing.
        also: other names of it.
    """

    name: str
    title: str
    question: str
    kind: Kind
    setting: str = ""
    finding: str = ""
    unknown: str = ""
    least_models: int = 1
    needs: str = ""
    also: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Study(AnyStudy):
    """A table or a figure of a paper that is measured on models of one's own.

    Attributes:
        members: by label, the addresses that are made of each model: {"plain": "{model}", "blur":
            "transform:kind=blur:{model}"}.
        threats: by label, descriptions; "@plain" in the place of a source_model stands for that member of the same
            model.
        drawing: tables and charts of the results.
        claims: what is tested.
        published: rows of the published figures that belong to it, or None.
    """

    members: Mapping[str, str]
    threats: Mapping[str, Mapping[str, Any] | str]
    drawing: Drawing
    claims: Sequence[Claim] = ()
    kind: Kind = "measure"
    published: Callable[[], pd.DataFrame] | None = None


studies: Registry[Any] = Registry("study", "gauntlet.studies", check=instance_of(AnyStudy, "a gauntlet.studies.Study"))
"""Studies of every kind by name (`AnyStudy`); entry points of the group `gauntlet.studies` add to them."""

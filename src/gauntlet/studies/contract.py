"""What a study is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gauntlet.registry import Registry, instance_of
from gauntlet.report.document import Block
from gauntlet.studies.figures import Figures, FloatArray
from gauntlet.studies.printed import Printed

Drawing = Callable[[Figures], Sequence[Block]]
"""Tables and charts of figures, those of one's own and those that a paper prints."""
Description = Mapping[str, Any] | str
"""Of a threat, as a plan has it."""
Kind = Literal["measure", "relate", "picture", "list"]


@dataclass(frozen=True)
class Claim:
    """What a paper says, as a number that is above 0 where it holds.

    Attributes:
        text: the claim in our words, with the printed figures.
        margin: (R,) by how much it holds in R resamples of the images, from `Figures`, a difference of fractions; NaN
            where it cannot be computed.
        models: how many models of one's own it takes.
    """

    text: str
    margin: Callable[[Figures], FloatArray]
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
            "transform:kind=blur:{model}"}; "{second}" stands for the second model.
        threats: by label, descriptions; "@plain" in the place of a source_model stands for that member of the same
            model.
        drawing: tables and charts of one model, or None.
        together: tables and charts of all models, or None.
        claims: what is tested.
        printed: the paper's own figures, or None where it prints none.
        exceptions: by labels of member and threat, what is run in the place of the threat; None for nothing.
        second_model: address of the model in the place of "{second}" where the user names none.
        least_models: how many models it needs.
        needs: what it needs that nobody can ship, in one sentence; "" for nothing.
        aim: of a picture, the class whose pixels attacks aim at; "" for all.
        also: other names of it.
        objects: whether evaluations keep every connected object (`Settings.objects`).
    """

    name: str
    title: str
    question: str
    setting: str
    finding: str
    members: Mapping[str, str]
    threats: Mapping[str, Description]
    drawing: Drawing | None = None
    together: Drawing | None = None
    claims: Sequence[Claim] = ()
    unknown: str = ""
    kind: Kind = "measure"
    printed: Callable[[], Printed] | None = None
    exceptions: Mapping[tuple[str, str], Description | None] = field(default_factory=dict)
    second_model: str = ""
    least_models: int = 1
    needs: str = ""
    aim: str = ""
    also: Sequence[str] = ()
    objects: bool = False


studies: Registry[Study] = Registry("study", "gauntlet.studies", check=instance_of(Study, "a gauntlet.studies.Study"))
"""Studies by name; entry points of the group `gauntlet.studies` add to them."""

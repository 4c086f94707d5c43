"""What a study is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gauntlet.registry import Registry, instance_of
from gauntlet.report.document import Block
from gauntlet.studies.figures import Figures, FloatArray
from gauntlet.studies.printed import Printed

Drawing = Callable[[Figures], Sequence[Block]]
"""Tables and charts of figures, those of one's own and those that a paper prints."""
Description = Mapping[str, Any] | str
"""Of a threat, as a plan has it."""
Kind = Literal["measure", "relate", "picture", "list", "page"]
"""measure: threats on models. relate: figures of several models against each other. picture: single images. list: a
table of models. page: a page of the documentation, on models of its own."""


@dataclass(frozen=True)
class Condition:
    """What a verdict takes beside enough images.

    Attributes:
        rule: "a verdict on ... takes ...", for the page.
        lacking: why figures do not meet it, in a few words; "" where they do.
    """

    rule: str
    lacking: Callable[[Figures], str]


@dataclass(frozen=True)
class Claim:
    """What a paper says, as a number that is above 0 where it holds.

    Attributes:
        text: the claim in our words, with the printed figures.
        margin: (R,) by how much it holds in R resamples of the images, from `Figures`, a difference of fractions; NaN
            where it cannot be computed.
        models: how many models of one's own its margin takes.
        on: whether it is made of a dataset of this name; None for every dataset.
        of: whether a claim that takes one model is made of a model of this name; None for every model.
        conditions: what a verdict takes more; the margin is told without them too.
        unit: of the margin: "points" (a difference of fractions, printed times 100) or "rho" (a rank correlation).
    """

    text: str
    margin: Callable[[Figures], FloatArray]
    models: int = 1
    on: Callable[[str], bool] | None = None
    of: Callable[[str], bool] | None = None
    conditions: Sequence[Condition] = ()
    unit: Literal["points", "rho"] = "points"


def on_objects(dataset: str) -> bool:
    """Whether a dataset is VOC, of which a paper says other things than of street scenes."""
    return dataset.startswith("voc")


def on_streets(dataset: str) -> bool:
    """Whether what a paper says of Cityscapes may be asked of a dataset: of all but VOC."""
    return not on_objects(dataset)


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
            "transform:kind=blur:{model}"}; "{second}" stands for the second model.
        threats: by label, descriptions; "@plain" in the place of a source_model stands for that member of the same
            model.
        drawing: tables and charts of one model, or None.
        together: tables and charts of all models, or None.
        claims: what is tested.
        printed: the paper's own figures, or None where it prints none.
        exceptions: by labels of member and threat, what is run in the place of the threat; None for nothing.
        least_classes: by label of a threat, the number of classes below which a dataset has no such threat.
        second_model: address of the model in the place of "{second}" where the user names none.
        aims: of a picture, by label of the threat, the class whose pixels it aims at; all of them by default.
        objects: whether evaluations keep every connected object (`Settings.objects`).
        background: whether its figures leave the background out, so that the dataset must have one.
        parts: by other name of it, the threats or members that belong to this part of the figure (as `--only`).
        about: by other name of it, what this figure is of.
    """

    members: Mapping[str, str]
    threats: Mapping[str, Description]
    drawing: Drawing | None = None
    together: Drawing | None = None
    claims: Sequence[Claim] = ()
    kind: Kind = "measure"
    printed: Callable[[], Printed] | None = None
    exceptions: Mapping[tuple[str, str], Description | None] = field(default_factory=dict)
    least_classes: Mapping[str, int] = field(default_factory=dict)
    second_model: str = ""
    aims: Mapping[str, str] = field(default_factory=dict)
    objects: bool = False
    background: bool = False
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)

    def named(self, name: str) -> Study:
        """The study under one of its other names, which its page then has, with what this figure is of."""
        own = self.about.get(name, "")
        return self if name not in self.also else replace(self, name=name, setting=f"{own} {self.setting}".strip())


studies: Registry[Any] = Registry("study", "gauntlet.studies", check=instance_of(AnyStudy, "a gauntlet.studies.Study"))
"""Studies of every kind by name (`AnyStudy`); entry points of the group `gauntlet.studies` add to them."""

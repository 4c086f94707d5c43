"""What is known about an option of a threat besides its value, stated once: as metadata of its field.

An attack is a dataclass, and its fields hold an `Option.metadata`; the options of a corruption or a localized threat
are a pydantic model, and its annotations say it: `severity: Annotated[int, Option(swept=True)] = 3`. Names of threats,
sweeps and curves read it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel

from gauntlet.numbers import format_number, parse_number

Named = Literal["always", "unusual", "never"]
_KEY = "option"


def value_text(value: Any) -> str:
    """A value in a name: numbers as short as they can be read, "8/255"."""
    return format_number(value) if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Option:
    """What the names of threats, sweeps and curves need to know about an option.

    Attributes:
        named: whether it is part of the threat's name "always", where its value is "unusual", or "never".
        place: where it stands in the name; smaller comes first, equal ones in the order of declaration.
        written: how the name says it, from {name} and {value}.
        text: the value as a text, for the name.
        swept: whether a list or a range stands for one threat per value.
        rectangle: whether a mapping may also be a value, {height: 32, width: 64}.
        mapping: whether any other mapping may be a value too.
        axis: title of the x axis of curves along it; "" where no curve is drawn.
        grey_levels: whether it is a difference of pixel values on the [0, 1] scale, which people read in grey levels.
        follows: options that its default is computed from.
        from_clean: whether 0 of it is the clean image, so that curves along it start there.
    """

    named: Named = "unusual"
    place: int = 10
    written: str = "{name} {value}"
    text: Callable[[Any], str] = value_text
    swept: bool = False
    rectangle: bool = False
    mapping: bool = False
    axis: str = ""
    grey_levels: bool = False
    follows: tuple[str, ...] = ()
    from_clean: bool = True

    @property
    def metadata(self) -> dict[str, Option]:
        """For the field of a dataclass: `steps: int = field(default=20, metadata=STEPS.metadata)`."""
        return {_KEY: self}

    def word(self, name: str, value: Any) -> str:
        """What the option adds to the name of a threat."""
        return self.written.format(name=name, value=self.text(value))

    def label(self, name: str, value: Any) -> str:
        """The option and its value in the name of a curve, "epsilon 8/255"."""
        if self.grey_levels:
            return f"{name} {format_number(parse_number(value, name))}"
        return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"


PLAIN = Option()
"""What is known about an option whose field says nothing: it is in the name where it is unusual, and that is all."""


@cache
def options_of(schema: type[Any]) -> dict[str, Option]:
    """The options of a dataclass or a pydantic model, by name, in the order of declaration.

    A subclass that only gives an option another default keeps what its base says about it.
    """
    if issubclass(schema, BaseModel):
        return {
            name: next((each for each in field.metadata if isinstance(each, Option)), PLAIN)
            for name, field in schema.model_fields.items()
        }
    return {each.name: _of_field(schema, each.name) for each in fields(schema)}


def _of_field(schema: type, name: str) -> Option:
    for base in schema.__mro__:
        declared = base.__dict__.get("__dataclass_fields__", {}).get(name)
        if declared is not None and _KEY in declared.metadata:
            option: Option = declared.metadata[_KEY]
            return option
    return PLAIN


def merged(parts: Iterable[Mapping[str, Option]]) -> dict[str, Option]:
    """The options of several schemas; of two with one name the one declared `always`, else the first."""
    together: dict[str, Option] = {}
    for part in parts:
        for name, option in part.items():
            known = together.setdefault(name, option)
            if known is not option and (known is PLAIN or (option.named == "always" and known.named != "always")):
                together[name] = option
    return together


def in_name_order(options: Mapping[str, Option]) -> list[tuple[str, Option]]:
    """The options in the order in which a name says them."""
    return sorted(options.items(), key=lambda item: item[1].place)


# Options that several kinds of threats have.
NAME = Option("always", place=-9, written="{value}", swept=True)
EPSILON = Option(
    "always", place=-2, written="{value}", swept=True, axis="epsilon (grey levels of 255)", grey_levels=True
)
STEPS = Option("always", place=-1, written="x{value}", swept=True, axis="steps of the attack")
QUERIES = Option("always", place=-1, written="{value} queries", swept=True, axis="queries to the model")
ALPHA = Option(place=1, swept=True, grey_levels=True, follows=("epsilon", "steps"))
LOSS = Option(place=4)
RATIO = Option("always", swept=True, axis="share of patches hit")
PATCH = Option("always", swept=True, rectangle=True)
MODE = Option(swept=True)
ROUNDS = Option("always", written="in {value} rounds", swept=True, axis="rounds")
RANK = Option(swept=True, axis="rank of the target class", from_clean=False)

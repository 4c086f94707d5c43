"""What a visitor of the playground chose, as the page's address holds it, and the threat that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gauntlet.errors import GauntletError
from gauntlet.threats import attacks
from gauntlet.threats.attacks import Attack
from gauntlet.threats.build import describe_name
from gauntlet.threats.masks import masks
from gauntlet.threats.options import options_of

MOST_STEPS = 1000
"""Steps or queries of an attack that a page may ask for."""


class State(BaseModel):
    """One choice.

    Attributes:
        model: the address of an offered model.
        image: the number of an image of the dataset, or the name of an upload.
        threat: "clean", an attack or a corruption.
        norm: "linf" or "l2"; the attack's own by default.
        epsilon: radius in grey levels of 255; the attack's own by default.
        steps, queries: of an attack; its own by default.
        severity: of a corruption, 1 to 5.
        region: where the threat acts: "" for everywhere, "square:SIZE:POSITION" or "box:TOP,LEFT,BOTTOM,RIGHT".
        seed: of the threat's random numbers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    image: str = "0"
    threat: str = "clean"
    norm: str | None = None
    epsilon: float | None = Field(None, ge=0, allow_inf_nan=False)
    steps: int | None = Field(None, ge=1, le=MOST_STEPS)
    queries: int | None = Field(None, ge=1, le=MOST_STEPS)
    severity: int = 3
    region: str = ""
    seed: int = Field(0, ge=0, lt=2**63)

    def description(self) -> dict[str, Any]:
        """The threat, as `build_threat` and `--threat` take it; options that the threat does not have are left out."""
        ((kind, options),) = describe_name(self.threat).items()
        place = parse_region(self.region)
        if kind == "attack":
            given = {
                "norm": self.norm,
                "epsilon": None if self.epsilon is None else f"{self.epsilon:g}/255",
                "steps": self.steps,
                "queries": self.queries,
            }
            known = options_of(type(build_attack(self.threat)))
            chosen = {name: value for name, value in given.items() if name in known and value is not None}
            return {kind: {**options, **chosen, **({} if place is None else {"region": place})}}
        if kind == "corruption":
            corruption = {kind: {**options, "severity": self.severity}}
            return corruption if place is None else {"localized": {**corruption, "region": place}}
        if kind == "clean":
            return {kind: {}}
        raise GauntletError(f"the playground shows single attacks and corruptions, and '{self.threat}' is a {kind}.")


def parse_state(query: Mapping[str, str]) -> State:
    """The state of an address; one sentence for the first fault."""
    try:
        return State.model_validate(dict(query))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in fault["loc"])
        raise GauntletError(f"'{name}' is {str(fault['input'])[:80]!r} in this address, but: {fault['msg']}.") from None


def build_attack(name: str) -> Attack:
    """An attack with its own options; an error where several attacks stand behind the name."""
    attack = attacks.build(name)
    if not isinstance(attack, Attack):
        raise GauntletError(f"the playground shows single attacks, and '{name}' is made of several.")
    return attack


def parse_region(text: str) -> dict[str, Any] | None:
    """The description of a mask (see `gauntlet.threats.masks`); None for everywhere."""
    if not text:
        return None
    kind, _, rest = text.partition(":")
    if kind == "box":
        try:
            description: dict[str, Any] = {"box": [int(part) for part in rest.split(",")]}
        except ValueError:
            raise GauntletError(
                f"a rectangle is box:top,left,bottom,right in whole pixels, not '{text[:80]}'."
            ) from None
    elif kind == "square":
        size, _, position = rest.partition(":")
        description = {"square": {"size": int(size) if size.isdecimal() else size, "position": position or "centre"}}
    else:
        raise GauntletError(f"a region is box:... or square:..., not '{text[:80]}'.")
    masks[kind](description[kind])  # raises for every fault that does not depend on the image
    return description

"""ensemble: the mixture of several models (Marchiori Pietrosanti et al., Eq. 11; docs/specs/defences.md, 4)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch

from gauntlet.defences.contract import Addressed, Defence, DefenceSettings, DefendedSource, parse_choice, parse_numbers
from gauntlet.defences.multiscale import LOGITS, OUTPUTS, PROBABILITIES
from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel, SegmentationModel
from gauntlet.models.sources.contract import ModelSource
from gauntlet.numbers import Number

_EXAMPLE = "ensemble:gamma=0.4:[A]+[B]"


@dataclass(frozen=True)
class EnsembleSettings(DefenceSettings):
    """How members are mixed.

    Attributes:
        gamma: the weight of the first of two members, as Eq. 11 has it (the paper's text and figure mean the weight of
            the second); or one weight per member, which sum to 1.
        of: "probabilities", or "logits" (where the member with the larger logits decides alone).
    """

    gamma: Number | Sequence[Number] = 0.5
    of: str = PROBABILITIES

    def __post_init__(self) -> None:
        weights = parse_numbers(self.gamma, "the gamma of ensemble:")
        if not weights or min(weights) < 0 or max(weights) > 1:
            raise GauntletError(f"the gamma of ensemble: must lie in [0, 1], not {self.gamma}.")
        if len(weights) > 1 and abs(math.fsum(weights) - 1) > 1e-9:
            raise GauntletError(f"the weights in the gamma of ensemble: must sum to 1, not {math.fsum(weights):g}.")
        parse_choice(self.of, "output to mix (of=) of ensemble:", OUTPUTS)
        self._set(gamma=weights[:1] if len(weights) == 2 else weights)  # of two, the second follows from the first

    @property
    def neutral(self) -> bool:
        """Whether one member has all the weight."""
        return sum(weight > 0 for weight in self._weights) == 1

    @property
    def _weights(self) -> tuple[float, ...]:
        """One weight per member, of however many there are."""
        assert isinstance(self.gamma, tuple)
        given = tuple(float(each) for each in self.gamma)
        return (given[0], 1 - given[0]) if len(given) == 1 else given

    def weights(self, members: int) -> tuple[float, ...]:
        """One weight per member; an error where their numbers differ."""
        weights = self._weights
        if members < 2:
            raise GauntletError(f"ensemble: needs at least two members, as in {_EXAMPLE}, not {members}.")
        if len(weights) != members:
            raise GauntletError(f"ensemble: has {members} members, but {len(weights)} weights in gamma.")
        return weights


class EnsembleModel(Defence):
    """g = sum of weight times softmax over the members, as logarithms.

    Args:
        members: models of the same classes.
        settings: those of `EnsembleSettings`.

    Attributes:
        weights: one per member.
    """

    prefix = "ensemble"
    settings_type = EnsembleSettings
    settings: EnsembleSettings

    def __init__(self, members: Sequence[GauntletModel], **settings: Any) -> None:
        checked = EnsembleSettings(**settings)
        weights = checked.weights(len(members))
        first, *others = members
        for other in others:
            _check_same_labels(first, other)
        super().__init__(members, checked)
        self.weights = weights

    @classmethod
    def around(cls, inner: Sequence[GauntletModel], settings: DefenceSettings) -> EnsembleModel:
        return cls(inner, **{each.name: getattr(settings, each.name) for each in fields(settings)})

    @property
    def undefended(self) -> SegmentationModel:
        """The member that has all the weight."""
        member = self.inner[self.weights.index(max(self.weights))]
        assert isinstance(member, SegmentationModel)
        return member

    def defend(self, images: torch.Tensor) -> torch.Tensor:
        # A member without weight is not asked.
        asked = [(weight, member) for weight, member in zip(self.weights, self.inner, strict=True) if weight > 0]
        if self.settings.of == LOGITS:
            return torch.stack([weight * member(images) for weight, member in asked]).sum(dim=0)
        mixed: torch.Tensor | None = None
        for weight, member in asked:
            log_probabilities = member(images).log_softmax(dim=1)
            # A class that is ruled out (-inf) in every member would have a gradient of inf - inf.
            floor = torch.finfo(log_probabilities.dtype).min / 4
            part = log_probabilities.clamp(min=floor) + math.log(weight)
            mixed = part if mixed is None else torch.logaddexp(mixed, part)
        assert mixed is not None
        return mixed


@dataclass(frozen=True)
class AddressedEnsemble(Addressed):
    """ensemble:SETTINGS:[A]+[B], with options that every member takes."""

    @property
    def example(self) -> str:
        return f"{self.defence.prefix}:{self.defence.settings_type().words}:[ADDRESS]+[ADDRESS]"

    def __call__(self, rest: str, options: Mapping[str, Any]) -> ModelSource:
        made = super().__call__(rest, options)
        assert isinstance(made, DefendedSource)
        assert isinstance(made.settings, EnsembleSettings)
        made.settings.weights(len(made.inner))
        for first, other in itertools.combinations(made.inner, 2):
            _check_same_labels(first, other)
        return made

    def inner(self, address: str, options: Mapping[str, Any]) -> Sequence[ModelSource]:
        found: list[ModelSource] = []
        for member in split_members(address):
            try:
                found += super().inner(member, options)
            except GauntletError as error:  # noqa: PERF203 - the sentence needs the member
                if not options:
                    raise
                raise GauntletError(
                    f"the options {', '.join(options)} go to every member of ensemble:, but '{member}' does not take "
                    f"them ({str(error).rstrip('.')}); load the members in Python and give them to "
                    "gauntlet.defences.EnsembleModel."
                ) from None
        return found


def split_members(text: str) -> list[str]:
    """The addresses of "[A]+[B]", or of "A+B" where none contains a plus or a bracket.

    >>> split_members("[multiscale:scales=0.5+1:streets/enet]+[streets/segformer]")
    ['multiscale:scales=0.5+1:streets/enet', 'streets/segformer']
    >>> split_members("streets/enet+streets/segformer")
    ['streets/enet', 'streets/segformer']
    """
    if "[" not in text and all(text.split("+")):
        return text.split("+")
    members, depth, begin = [], 0, 0
    for position, letter in enumerate(text):
        if depth == 0 and letter not in ("[", "+"):
            break
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "[" and depth == 1:
            begin = position + 1
        elif letter == "]" and depth == 0:
            members.append(text[begin:position])
    if depth or text != "+".join(f"[{member}]" for member in members):
        raise GauntletError(f"the members of ensemble: must be addresses in brackets, as in {_EXAMPLE}, not '{text}'.")
    return members


def _check_same_labels(first: GauntletModel | ModelSource, other: GauntletModel | ModelSource) -> None:
    """An error where the labels of two models, or of two sources that know them, differ."""
    one, two = first.label_space, other.label_space
    if one is None or two is None or one == two:
        return
    if len(one.names) != len(two.names):
        why = f"they have {len(one.names)} and {len(two.names)} classes"
    elif one.names != two.names:
        differing = next(pair for pair in zip(one.names, two.names, strict=True) if pair[0] != pair[1])
        why = "a class is '{}' in one and '{}' in the other".format(*differing)
    else:
        why = f"their ignore indices are {one.ignore_index} and {two.ignore_index}"
    raise GauntletError(f"'{first.identity.name}' and '{other.identity.name}' cannot be an ensemble: {why}.")


source = AddressedEnsemble(EnsembleModel)

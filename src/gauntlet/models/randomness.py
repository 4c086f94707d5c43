"""Models that draw: every part that is random takes its numbers from whoever asks the model, image by image.

A number depends on the seed of an image and on a purpose, never on batch mates or on torch's global generator. The
purposes of attacks and of evaluations differ, so that no attack knows the draw that is used at inference
(docs/specs/defences.md, 0).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from gauntlet.errors import GauntletError
from gauntlet.seeding import ImageSeed


class Draws(Protocol):
    """The numbers of one forward pass."""

    def numbers(self, name: str, sample: int | None = None) -> list[int]:
        """63 bits for every image of the batch.

        Args:
            name: of the part that draws.
            sample: which of the samples that the part draws in one pass; None for a part that draws once.
        """


@dataclass(frozen=True)
class EvaluationDraws:
    """What an evaluation draws from.

    Attributes:
        seeds: one per image of the batch.
        trial: which repetition of the inference.
    """

    seeds: Sequence[ImageSeed]
    trial: int = 0

    def numbers(self, name: str, sample: int | None = None) -> list[int]:
        purpose = f"transform|{name}|trial|{self.trial}" if sample is None else f"{name}|{sample}"
        return [seed.stream(purpose) for seed in self.seeds]


@dataclass(frozen=True)
class AttackDraws:
    """What an attack draws from.

    Attributes:
        seeds: of the attack, one per image of the batch.
        passes: how often each image was shown to the model before.
    """

    seeds: Sequence[int]
    passes: Sequence[int]

    def numbers(self, name: str, sample: int | None = None) -> list[int]:
        part = name if sample is None else f"{name}|{sample}"
        return [
            _number(f"{seed}|draw|attack|{part}|{index}") for seed, index in zip(self.seeds, self.passes, strict=True)
        ]


@dataclass(frozen=True)
class EqualDraws:
    """The same numbers in every pass, for comparing and timing models."""

    images: int

    def numbers(self, name: str, sample: int | None = None) -> list[int]:
        return [_number(f"{image}|{name}|{sample}") for image in range(self.images)]


class RandomPart(nn.Module):
    """A module that draws in its forward pass; `drawing` hands the numbers over.

    Attributes:
        draw_name: what its draws are named by.
        is_random: whether it draws with its settings; one of strength 0 does not.
        trials: how often an evaluation repeats the inference.
    """

    draw_name: str
    is_random: bool = True
    trials: int = 1
    _draws: tuple[Draws, str] | None = None

    def numbers(self, sample: int | None = None) -> list[int]:
        """One number per image of the batch; an error where nobody handed any over."""
        if self._draws is None:
            raise GauntletError(
                f"'{self.draw_name}' draws at random and was asked without seeds; ask it inside "
                "gauntlet.models.randomness.drawing(model, draws), as attacks and evaluations do."
            )
        draws, name = self._draws
        return draws.numbers(name, sample)


def random_parts(model: object) -> list[RandomPart]:
    """The parts of a model that draw in this configuration, the outermost first."""
    if not isinstance(model, nn.Module):
        return []
    return [part for part in flat_modules(model) if isinstance(part, RandomPart) and part.is_random]


def flat_modules(model: nn.Module) -> list[nn.Module]:
    """What `model.modules()` gives, in its order; several times faster, since every batch asks for it."""
    found: dict[nn.Module, None] = {}
    left = [model]
    while left:
        module = left.pop()
        if module not in found:
            found[module] = None
            left += [child for child in reversed(module._modules.values()) if child is not None]
    return list(found)


@contextmanager
def drawing(parts: Sequence[RandomPart], draws: Draws) -> Iterator[None]:
    """Hands numbers to the random parts of a model for one forward pass.

    Args:
        parts: what `random_parts` gave.
        draws: where the numbers come from. Parts of the same name are told apart by their order.
    """
    names: Counter[str] = Counter()
    for part in parts:
        names[part.draw_name] += 1
        count = names[part.draw_name]
        part._draws = (draws, part.draw_name if count == 1 else f"{part.draw_name} {count}")
    try:
        yield
    finally:
        for part in parts:
            part._draws = None


def ask_equally(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Logits of a model that, if it draws, draws the same each time and the same as its copies."""
    with drawing(random_parts(model), EqualDraws(len(images))):
        logits: torch.Tensor = model(images)
    return logits


def _number(text: str) -> int:
    """63 bits of SHA-256."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") & (2**63 - 1)

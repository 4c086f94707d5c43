"""Random draws of an attack: every image draws from streams of its own, named by their purpose."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch

from gauntlet.errors import GauntletError
from gauntlet.seeding import torch_generator


def expand_seeds(seed: int | Sequence[int], count: int) -> list[int]:
    """One seed per image; a single one is used for every image, so that it does not matter where an image stands."""
    if isinstance(seed, int):
        return [seed] * count
    seeds = [int(each) for each in seed]
    if len(seeds) != count:
        raise GauntletError(f"{len(seeds)} seeds were given for {count} images; give one per image or a single one.")
    return seeds


def image_seed(seed: int, purpose: str) -> int:
    """63 bits for one purpose ("start|0") from an image's seed."""
    digest = hashlib.sha256(f"{seed}|{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "little") & (2**63 - 1)


def uniform_draws(like: torch.Tensor, seeds: Sequence[int], purpose: str, *, normal: bool = False) -> torch.Tensor:
    """One draw per image from its own generator, float64: uniform in [-1, 1], or standard normal."""
    draws = []
    for seed in seeds:
        generator = torch_generator(image_seed(seed, purpose))
        if normal:
            draws.append(torch.randn(like.shape[1:], generator=generator, dtype=torch.float64))
        else:
            draws.append(torch.rand(like.shape[1:], generator=generator, dtype=torch.float64).mul_(2).sub_(1))
    return torch.stack(draws).to(like.device)

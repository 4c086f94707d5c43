"""Seeds that depend on what is computed, never on who computes it or in which order."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class ImageSeed:
    """The source of all randomness for one image in one run.

    A stream is named by its purpose ("mask", "corruption|fog|3", "attack|pgd"), so that two things drawn for one
    image are independent and the same thing is equal on every machine, for any batch size or worker count.
    """

    run_seed: int
    image_id: str

    def stream(self, purpose: str) -> int:
        """63 bits of SHA-256("run_seed|image_id|purpose"): 8 bytes, little-endian (docs/specs/corruptions.md, 6)."""
        digest = hashlib.sha256(f"{self.run_seed}|{self.image_id}|{purpose}".encode()).digest()
        return int.from_bytes(digest[:8], "little") & (2**63 - 1)


def numpy_generator(seed: int) -> np.random.Generator:
    """A NumPy generator of its own; the global state is never touched."""
    return np.random.Generator(np.random.PCG64(seed))


def torch_generator(seed: int) -> torch.Generator:
    """A CPU torch generator of its own: draws are made on the CPU and moved, so that devices agree."""
    return torch.Generator(device="cpu").manual_seed(seed)

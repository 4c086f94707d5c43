"""What a smoothed model said about one image: votes, kept so that any tau, alpha and correction can be tested later."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError

_HEADER = struct.Struct("<4sIIII")
_MAGIC = b"GVT1"


@dataclass(frozen=True)
class Votes:
    """The votes of one image.

    Attributes:
        top: (H, W) class with the most votes of the first stage, the lowest of a tie.
        hits: (H, W) votes of the second stage for it.
        clean: (H, W) what the base model says without noise.
        labels: (H, W) ground truth, the number of classes where it is void; None before the metric has seen it.
        samples: votes of the second stage, n.
    """

    top: npt.NDArray[np.integer]
    hits: npt.NDArray[np.integer]
    clean: npt.NDArray[np.integer]
    samples: int
    labels: npt.NDArray[np.integer] | None = None

    def to_bytes(self) -> bytes:
        """A compact, exact form for the store."""
        assert self.labels is not None
        parts: tuple[npt.NDArray[Any], ...] = (self.top, self.hits, self.clean, self.labels)
        width = 1 if max(int(each.max(initial=0)) for each in parts) < 256 else 4
        height, columns = self.top.shape
        payload = b"".join(np.ascontiguousarray(each, dtype=f"<u{width}").tobytes() for each in parts)
        return _HEADER.pack(_MAGIC, height, columns, width, self.samples) + zlib.compress(payload, 6)

    @classmethod
    def from_bytes(cls, data: bytes) -> Votes:
        """The votes that `to_bytes` wrote."""
        magic, height, columns, width, samples = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise GauntletError("these votes were not written by Gauntlet, or by a newer version; upgrade the package.")
        maps = np.frombuffer(zlib.decompress(data[_HEADER.size :]), f"<u{width}").reshape(4, height, columns)
        top, hits, clean, labels = maps.astype(np.int64)
        return cls(top, hits, clean, samples, labels)

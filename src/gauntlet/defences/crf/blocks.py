"""Work in blocks on as many threads as torch may use; where blocks begin does not depend on the number of threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import torch

Block = tuple[int, int]


def balanced(costs: npt.NDArray[np.int64], count: int) -> list[Block]:
    """At most `count` blocks of neighbouring things, none empty, with about the same sum of costs each."""
    total = np.cumsum(costs, dtype=np.float64)
    ends = np.searchsorted(total, total[-1] * np.arange(1, count) / count) + 1
    edges = np.unique(np.clip(np.concatenate([[0], ends, [len(costs)]]), 0, len(costs)))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def run(work: Callable[[Block], object], blocks: Sequence[Block]) -> None:
    """Does the work of every block; the work has to release the interpreter lock to gain from threads."""
    threads = min(torch.get_num_threads(), len(blocks))
    if threads == 1:
        for block in blocks:
            work(block)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, blocks))

"""One process or several: who am I, and sums over all of us (torch.distributed, started by torchrun)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import distributed

from gauntlet.evaluation.provenance import choose_device

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """One process among all.

    Attributes:
        rank: number of this process, 0 writes files.
        count: number of processes.
        device: where this process computes.
    """

    rank: int
    count: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over all processes, on the CPU."""
        if self.count == 1:
            return values.cpu()
        summed = values.to(self.device, copy=True)
        distributed.all_reduce(summed)
        return summed.cpu()

    def gathered(self, values: list[T]) -> list[T]:
        """The values of all processes, those of the first process first."""
        if self.count == 1:
            return values
        parts: list[list[T]] = [[] for _ in range(self.count)]
        distributed.all_gather_object(parts, values)
        return [value for part in parts for value in part]

    def agree(self, decision: bool) -> bool:
        """The first process's decision, so that all do the same thing."""
        if self.count == 1:
            return decision
        flag = torch.tensor([int(decision)], device=self.device)
        distributed.broadcast(flag, src=0)
        return bool(flag.item())

    def wait(self) -> None:
        """Until every process is here."""
        if self.count > 1:
            distributed.barrier()


@contextmanager
def joined_processes(device: str) -> Iterator[Processes]:
    """Joins the group that torchrun announced in the environment, or is alone.

    Args:
        device: "auto" takes a GPU when there is one; "cuda" gives each process its own.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    chosen = choose_device(device)
    if chosen == torch.device("cuda"):
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    if count == 1:
        yield Processes(0, 1, chosen)
        return
    started_here = not distributed.is_initialized()
    if started_here:
        distributed.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield Processes(rank, count, chosen)
    finally:
        if started_here:
            distributed.destroy_process_group()

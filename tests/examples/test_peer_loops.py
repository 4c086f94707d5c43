"""The peers' side of the benchmark runs without this package and says what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from paths import ROOT

SCRIPT = ROOT / "benchmarks" / "peer_loops.py"
RSE = """
import torch

def padam(model, x, y, loss_fn, eps, step_size, num_steps):
    for _ in range(num_steps):
        x = x.detach().requires_grad_(True)
        x = x + step_size * torch.autograd.grad(loss_fn(model(x), y).mean(), x)[0].sign()
    return x

def apgd(model, x, y, eps, n_iter, n_restarts, use_rs, loss, track_loss):
    for _ in range(n_iter + 1):
        model(x)
"""
SEA = """
from autoattack.other_utils import L1_norm, L2_norm

def apgd_train(model, x, y, norm, eps, n_iter, use_rs, loss, track_loss):
    for _ in range(n_iter + 1):
        model(x)
"""


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A network as TorchScript and a batch of two images."""
    images = torch.rand(2, 3, 6, 8)
    torch.jit.trace(nn.Conv2d(3, 4, 1), images).save(tmp_path / "model.pt")  # type: ignore[no-untyped-call]
    np.savez(tmp_path / "batch.npz", images=images.numpy(), labels=np.zeros((2, 6, 8), np.int64))
    return tmp_path


def answers(folder: Path, paths: list[Path], *orders: list[Any]) -> list[dict[str, Any]]:
    """What a fresh, isolated Python prints: which loops there are, then one answer per order."""
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), *map(str, paths)],
        input="".join(json.dumps(order) + "\n" for order in orders),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_a_loop_is_run_for_as_many_passes_as_it_has_steps_and_the_missing_are_named(exported: Path) -> None:
    (exported / "rse").mkdir()
    (exported / "rse" / "attacks.py").write_text(RSE)
    orders = [["RSE padam-ce", 3], ["RSE padam-cos", 5], ["RSE sea-msl", 4]]
    hello, *done = answers(exported, [exported], *orders)
    assert {loop for loop, _ in orders} <= set(hello["loops"])
    assert hello["missing"]["SEA"] == "ModuleNotFoundError: No module named 'semseg'"
    assert [each["passes"] for each in done] == [3, 5, 5]
    assert done[0]["seconds"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("place", ["semseg", "semseg/utils"])
def test_the_file_of_sea_is_read_without_the_package_around_it(exported: Path, place: str) -> None:
    (exported / place).mkdir(parents=True)
    (exported / "semseg" / "__init__.py").write_text("import tabulate_and_much_else")
    (exported / place / "attacker.py").write_text(SEA)
    hello, done = answers(exported, [exported], ["SEA sea-jsd", 3])
    assert [loop for loop in hello["loops"] if loop.startswith("SEA")] == ["SEA sea-jsd", "SEA sea-mce"]
    assert done["passes"] == 4

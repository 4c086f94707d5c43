"""The networks, images and records of `tests/data/defence_reference.json` (its key "fixture" has the formulas)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from gauntlet.models import SegmentationModel, wrap_model

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "data/defence_reference.json").read_text())
CLOSE = 1e-9


def images() -> torch.Tensor:
    """(2, 3, 24, 32) in float64."""
    n, c, i, j = torch.meshgrid(*(torch.arange(size, dtype=torch.float64) for size in (2, 3, 24, 32)), indexing="ij")
    return 0.5 + 0.35 * torch.sin(0.3 * i + 0.45 * j + 0.8 * c + 1.1 * n) * torch.cos(0.12 * i * (n + 1) - 0.2 * j)


def odd_images() -> torch.Tensor:
    """(2, 3, 23, 31)."""
    return images()[..., :-1, :-1].contiguous()


def labels() -> torch.Tensor:
    """(2, 24, 32)."""
    n, i, j = torch.meshgrid(torch.arange(2), torch.arange(24), torch.arange(32), indexing="ij")
    return (i // 6 + j // 8 + n) % 4


def network(which: str = "first") -> nn.Module:
    """The three-layer network in float64."""
    a, b, c = (1.0, 0.4, 0.2) if which == "first" else (2.1, 1.3, 0.9)
    o, k, u, v = torch.meshgrid(*(torch.arange(size, dtype=torch.float64) for size in (6, 6, 3, 3)), indexing="ij")
    first, second = nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.Conv2d(6, 6, 3, padding=1, bias=False)
    last = nn.Conv2d(6, 4, 1)
    out = torch.arange(4, dtype=torch.float64)[:, None]
    norms = (nn.BatchNorm2d(6), nn.BatchNorm2d(6))
    made = nn.Sequential(first, norms[0], nn.ReLU(), second, norms[1], nn.ReLU(), last).double()
    channel = torch.arange(6, dtype=torch.float64)
    with torch.no_grad():
        first.weight.copy_((0.6 * torch.sin(a + 0.7 * o + 1.3 * k + 0.9 * u + 0.5 * v))[:, :3])
        second.weight.copy_(0.35 * torch.cos(b + 0.5 * o + 0.8 * k + 1.1 * u + 0.6 * v))
        last.weight.copy_((0.9 * torch.sin(c + 1.1 * out + 0.6 * channel))[:, :, None, None])
        assert last.bias is not None
        last.bias.copy_(torch.tensor(REFERENCE["fixture"]["bias_w3"][which], dtype=torch.float64))
        for norm in norms:
            assert norm.running_mean is not None
            assert norm.running_var is not None
            norm.weight.copy_(1 + 0.1 * torch.sin(channel))
            norm.bias.copy_(0.1 * torch.cos(channel))
            norm.running_mean.copy_(0.05 * channel - 0.1)
            norm.running_var.copy_(0.5 + 0.1 * channel)
    return made


def model(which: str = "first") -> SegmentationModel:
    """A network of the fixture as a model."""
    return wrap_model(network(which), num_classes=4, name=which)


def weighted_sum(values: torch.Tensor) -> float:
    flat = values.detach().reshape(-1).double()
    return float((flat * torch.cos(0.1 * torch.arange(len(flat), dtype=torch.float64))).sum())


def logit_record(logits: torch.Tensor) -> dict[str, Any]:
    """What the reference records of logits (N, K, H, W)."""
    choice = logits.argmax(1)
    flat = choice.reshape(-1)
    return {
        "sum_per_class": logits.sum((0, 2, 3)).tolist(),
        "weighted_sum": weighted_sum(logits),
        "l2": float(logits.norm()),
        "image0_row11_col19": logits[0, :, 11, 19].tolist(),
        "argmax_counts": torch.bincount(flat, minlength=4).tolist(),
        "argmax_checksum": int((flat * (torch.arange(len(flat)) % 97 + 1)).sum()),
    }


def image_record(values: torch.Tensor) -> dict[str, Any]:
    """What the reference records of transformed images."""
    return {
        "sum_per_channel": values.sum((0, 2, 3)).tolist(),
        "weighted_sum": weighted_sum(values),
        "image0_row11_col19": values[0, :, 11, 19].tolist(),
    }


def gradient_record(made: Any, points: torch.Tensor | None = None) -> dict[str, Any]:
    """Loss and gradient of the cross-entropy, summed over all pixels."""
    inputs = (images() if points is None else points).requires_grad_(True)
    loss = functional.cross_entropy(made(inputs), labels(), reduction="sum")
    (gradient,) = torch.autograd.grad(loss, inputs)
    return {
        "loss": float(loss.detach()),
        "grad_l2": float(gradient.norm()),
        "grad_weighted_sum": weighted_sum(gradient),
        "image0_row11_col19": gradient[0, :, 11, 19].tolist(),
    }


def assert_record(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal to 1e-9, counts exactly; only what is expected is compared."""
    for name in found:
        scale = float(np.max(np.abs(np.array(expected[name], dtype=np.float64))))
        # Sums of many terms cancel: their error is measured against the terms, of order one, too.
        assert found[name] == pytest.approx(expected[name], rel=CLOSE, abs=CLOSE * max(1.0, scale)), name

"""The number formats that a model can compute in."""

from __future__ import annotations

import torch

PRECISIONS = ("fp32", "bf16")
"""Single precision, and bfloat16 under autocast."""


def model_precision(precision: str, device: torch.device) -> torch.autocast:
    """bfloat16 when asked for; else full precision, even inside somebody's autocast (docs/specs/attacks.md, 16)."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")

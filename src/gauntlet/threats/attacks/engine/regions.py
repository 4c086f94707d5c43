"""Where an attack may act and where it aims: a mask, the description of one (see `threats.masks`), or a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gauntlet.errors import GauntletError
from gauntlet.samples import own_array
from gauntlet.threats.masks import canonical_mask, mask_text, masks, parse_mask

Region = torch.Tensor | np.ndarray[Any, Any] | Mapping[str, Any] | int | None


def describe_region(region: Region, name: str) -> dict[str, Any] | int | None:
    """A region given as an option, checked, in its JSON-able form; masks are given when the attack is called."""
    if region is None or (isinstance(region, int) and not isinstance(region, bool)):
        return region
    if not isinstance(region, Mapping):
        raise GauntletError(
            f"{name} as an option is a class or a description by one of {', '.join(masks.names())}, such as "
            "{'square': {'size': 100}}; give a mask when calling the attack."
        )
    return dict(region) if set(region) == {"class"} else canonical_mask(region)


def region_text(region: dict[str, Any] | int) -> str:
    """A described region in the name of a threat: "square 100", "class 3", or the class alone where it was given so."""
    if isinstance(region, int):
        return str(region)
    return f"class {region['class']}" if "class" in region else mask_text(region)


def region_mask(
    region: Region, labels: torch.Tensor, name: str, seeds: Sequence[int] | None = None
) -> torch.Tensor | None:
    """A region as a mask, bool (N, H, W), on the labels' device; None stays None (everywhere).

    Args:
        region: a mask (H, W) or (N, H, W); the description of one, such as {"square": {"size": 100}}; a class index
            or {"class": 3} for the pixels with this label.
        labels: int64 (N, H, W).
        name: of the argument, for messages.
        seeds: one per image, for masks that are drawn at random.
    """
    if region is None:
        return None
    if isinstance(region, (Mapping, int)):
        description = describe_region(region, name)
        if isinstance(description, int):
            return labels.eq(description)
        assert description is not None
        if "class" in description:
            return labels.eq(int(description["class"]))
        build = parse_mask(description)
        height, width = labels.shape[-2:]
        drawn = [torch.from_numpy(build(height, width, seed)) for seed in seeds or [0] * len(labels)]
        return torch.stack(drawn).to(labels.device)
    if isinstance(region, np.ndarray):
        region = torch.from_numpy(own_array(region, name))
    mask = torch.as_tensor(region, device=labels.device)
    if mask.ndim == 4 and mask.shape[1] == 1:
        mask = mask.squeeze(1)
    if mask.shape not in (labels.shape, labels.shape[1:]):
        raise GauntletError(
            f"{name} has the shape {tuple(mask.shape)}; expected {tuple(labels.shape[1:])} or {tuple(labels.shape)}."
        )
    if mask.dtype != torch.bool:
        if not ((mask == 0) | (mask == 1)).all():
            raise GauntletError(f"{name} must hold booleans, or zeros and ones.")
        mask = mask == 1
    return mask.expand(labels.shape)

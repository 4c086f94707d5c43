"""Networks of OpenMMLab's own configurations with random weights, saved as its training loop saves them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Saved:
    """A configuration and a checkpoint as files; `config` is mmengine's Config."""

    path: Path
    weights: Path
    config: Any

    def write(self) -> None:
        """The configuration as a file; mmengine would spend seconds on its layout."""
        settings = self.config.to_dict()
        self.path.write_text("".join(f"{name} = {value!r}\n" for name, value in settings.items()))

    def options(self, **more: Any) -> dict[str, Any]:
        return {"weights": self.weights, "trust": True, **more}


def read_config(library: str, name: str, changes: Mapping[str, Any] | None = None) -> Any:
    """A configuration of the library's wheel, with dotted settings changed."""
    from mmengine.config import Config

    from gauntlet.models.sources.openmmlab import config_file

    config = Config.fromfile(str(config_file(library, name)))
    config.merge_from_dict(dict(changes or {}))
    return config


def build(config: Any, library: str, *, change: Callable[[str, torch.Tensor], None] | None = None) -> Any:
    """The network with weights that are drawn from one seed, in eval mode.

    Args:
        config: of the network.
        library: the scope of its registry.
        change: takes the name of a parameter or buffer and its value, which it may change in place.
    """
    from mmengine.registry import MODELS, init_default_scope

    init_default_scope(library)
    torch.manual_seed(0)
    network = MODELS.build(copy.deepcopy(config.model))  # building changes a configuration
    with torch.no_grad():
        for name, value in network.state_dict().items():
            if name.endswith("running_var"):
                value.uniform_(0.5, 1.5)
            elif name.endswith(("running_mean", "level_embed")):  # the latter is left as the memory was
                value.normal_(0, 0.1)
            if change is not None:
                change(name, value)
    return network.eval()


def save(folder: Path, config: Any, network: Any, meta: Mapping[str, Any] | None = None) -> Saved:
    """The configuration and the weights as files of a folder."""
    saved = Saved(folder / "network.py", folder / "network.pth", config)
    saved.write()
    torch.save({"state_dict": network.state_dict(), "meta": dict(meta or {})}, saved.weights)
    return saved


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    """An image uint8 (H, W, 3), RGB, of smooth colours and some edges."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / rng.uniform(3, 9) + y / rng.uniform(3, 9) + rng.uniform(0, 6)) for _ in range(3)]
    image = np.stack(waves, axis=-1) * 60 + 128 + rng.normal(0, 12, (height, width, 3))
    image[height // 4 : height // 2, width // 3 : width // 2] = rng.uniform(0, 255, 3)
    return np.clip(image, 0, 255).astype(np.uint8)


def as_images(*pixels: np.ndarray) -> torch.Tensor:
    """Images (N, 3, H, W) in [0, 1] from pixels (H, W, 3) of 0 to 255."""
    return torch.stack([torch.from_numpy(each).permute(2, 0, 1).float() / 255 for each in pixels])

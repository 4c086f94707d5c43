"""Gauntlet: how reliable is a segmentation or detection model?

import gauntlet

model = gauntlet.load_model("streets/enet")
dataset = gauntlet.load_dataset("streets", split="val", limit=32)
result = gauntlet.evaluate(model, dataset, {"attack": {"name": "pgd", "epsilon": "8/255"}})
print(result.figures["mIoU"])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gauntlet._version import __version__

if TYPE_CHECKING:
    from gauntlet import analysis
    from gauntlet.datasets import load_dataset
    from gauntlet.errors import GauntletError
    from gauntlet.evaluation import certify, evaluate
    from gauntlet.models import load_model, wrap_model
    from gauntlet.results import open_store, published
    from gauntlet.threats import attacks, build_threat, corruptions, suites

# Loaded when first asked for, so that `import gauntlet` costs no more than importing torch.
_LAZY = {
    "GauntletError": "gauntlet.errors:GauntletError",
    "analysis": "gauntlet.analysis",
    "attacks": "gauntlet.threats.attacks",
    "build_threat": "gauntlet.threats:build_threat",
    "certify": "gauntlet.evaluation:certify",
    "corruptions": "gauntlet.threats.corruptions",
    "evaluate": "gauntlet.evaluation:evaluate",
    "load_dataset": "gauntlet.datasets:load_dataset",
    "load_model": "gauntlet.models:load_model",
    "open_store": "gauntlet.results:open_store",
    "published": "gauntlet.results.published",
    "suites": "gauntlet.threats.suites",
    "wrap_model": "gauntlet.models:wrap_model",
}

__all__ = [
    "GauntletError",
    "__version__",
    "analysis",
    "attacks",
    "build_threat",
    "certify",
    "corruptions",
    "evaluate",
    "load_dataset",
    "load_model",
    "open_store",
    "published",
    "suites",
    "wrap_model",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'gauntlet' has no attribute '{name}'")
    module, _, attribute = _LAZY[name].partition(":")
    loaded = importlib.import_module(module)
    value = getattr(loaded, attribute) if attribute else loaded
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

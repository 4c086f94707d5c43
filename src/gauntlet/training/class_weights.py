"""Class weights of the cross-entropy, from the frequencies of the classes in the training data."""

from __future__ import annotations

import numpy as np
import torch

from gauntlet.errors import GauntletError
from gauntlet.training.config import LossConfig
from gauntlet.training.sample_feed import Preparation


def class_weights(config: LossConfig, preparation: Preparation) -> torch.Tensor | None:
    """Weights (K,) float32, or None when every class counts the same."""
    num_classes = preparation.dataset.num_classes
    if config.class_weights is None:
        return None
    if not isinstance(config.class_weights, str):
        if len(config.class_weights) != num_classes:
            raise GauntletError(f"loss.class_weights has {len(config.class_weights)} values for {num_classes} classes.")
        return torch.tensor(config.class_weights, dtype=torch.float32)
    counts = np.zeros(num_classes, dtype=np.int64)
    for index in range(min(config.frequency_samples, len(preparation.dataset))):
        _, labels = preparation.load(index)
        counts += np.bincount(labels[labels != preparation.augmentation.ignore_index], minlength=num_classes)
    weights = weights_from_counts(counts, config.class_weights)
    return torch.from_numpy(weights.astype(np.float32))


def weights_from_counts(
    counts: np.ndarray[tuple[int], np.dtype[np.int64]], kind: str
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Weights from pixel counts per class; a class that was not seen weighs 1.

    "log": 1 / ln(1.02 + p) with p the share of the pixels (Paszke et al. 2016, section 5.1). "median": the median of
    the shares over the share (after Eigen & Fergus 2015, with shares of all pixels). "root": its square root.
    """
    shares = counts / max(1, counts.sum())
    seen = counts > 0
    weights = np.ones(len(counts))
    if kind == "log":
        weights[seen] = 1.0 / np.log(1.02 + shares[seen])
    else:
        weights[seen] = (np.median(shares[seen]) / shares[seen]) ** (0.5 if kind == "root" else 1.0)
    return weights

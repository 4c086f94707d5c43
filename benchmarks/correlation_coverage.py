"""Measured coverage of the 95 % intervals of correlations, by number of models and true correlation.

python benchmarks/correlation_coverage.py [--samples 500]
"""

from __future__ import annotations

import argparse

import numpy as np

from gauntlet.analysis import correlate
from gauntlet.analysis.correlation import COEFFICIENTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=500)
    samples = parser.parse_args().samples
    print(f"| models | true Pearson | {' | '.join(COEFFICIENTS)} |\n|---|---|---|---|---|")
    for models in (6, 8, 12, 24):
        for rho in (0.0, 0.5, 0.9, 0.98):
            shares = coverage(models, rho, samples)
            print(f"| {models} | {rho:g} | " + " | ".join(f"{100 * share:.0f} %" for share in shares) + " |")


def coverage(models: int, rho: float, samples: int) -> list[float]:
    """The share of samples of a normal pair whose interval holds the true coefficient, by coefficient."""
    generator = np.random.default_rng(models)
    true = np.array([rho, 6 / np.pi * np.arcsin(rho / 2), 2 / np.pi * np.arcsin(rho)])
    covered = np.zeros(len(COEFFICIENTS))
    for _ in range(samples):
        x, y = generator.multivariate_normal([0, 0], [[1, rho], [rho, 1]], models).T
        found = correlate(x, y, resamples=300)
        covered += (found["low"].to_numpy() <= true + 1e-9) & (true <= found["high"].to_numpy() + 1e-9)
    return [float(share) for share in covered / samples]


if __name__ == "__main__":
    main()

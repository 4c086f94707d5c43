"""Certificates of a model on a dataset; votes are taken once, any tau and alpha are read from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gauntlet.datasets import load_dataset
from gauntlet.datasets.contract import Dataset
from gauntlet.evaluation.evaluate import evaluate
from gauntlet.models import GauntletModel
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store, open_store
from gauntlet.threats.kinds.certify import CertifyThreat


def certify(
    model: GauntletModel | ModelSource | str,
    dataset: Dataset | str = "streets",
    *,
    sigma: float = 0.25,
    n0: int = 10,
    n: int = 100,
    tau: float | Sequence[float] = 0.75,
    alpha: float = 0.001,
    correction: str = "holm",
    tolerated: int = 0,
    limit: int | None = None,
    store: Store | str | Path | None = None,
    **options: Any,
) -> Evaluation:
    """Certified figures of the smoothed model: what no perturbation of l2 norm up to the radius can change.

    Votes are looked up in the store and taken where they are missing; tau, alpha, correction and tolerated only choose
    what is computed from them.

    Args:
        model: the base model, or its address; one trained on noise of the same sigma, else most pixels abstain.
        dataset: as for `evaluate`.
        sigma, n0, n: of the votes; see `CertifyOptions`.
        tau, alpha, correction, tolerated: of the tests.
        limit: only the first so many images.
        store: as for `evaluate`.
        options: the other options of `evaluate`: seed=, batch_size=, device=, workers=, progress=, ...
    """
    chosen = {"tau": tau, "alpha": alpha, "correction": correction, "tolerated": tolerated}
    threat = CertifyThreat({"sigma": sigma, "n0": n0, "n": n, **chosen})
    data = load_dataset(dataset) if isinstance(dataset, str) else dataset
    data = data if limit is None else data.subset(limit)
    if len(data):
        height, width = data[0].image.shape[:2]
        threat.check_feasible(height * width)
    if store is not None and not isinstance(store, Store):
        with open_store(store) as opened:
            return _certified(model, data, threat, opened, options)
    return _certified(model, data, threat, store or Store(), options)


def _certified(
    model: GauntletModel | ModelSource | str,
    data: Dataset,
    threat: CertifyThreat,
    store: Store,
    options: dict[str, Any],
) -> Evaluation:
    evaluation = evaluate(model, data, threat, store=store, **options)
    asked = {f"tau {tau:g}" for tau in threat.options.tau}
    shown = [each for each in evaluation.all_figures if not each.view.startswith("tau ") or each.view in asked]
    return replace(evaluation, all_figures=shown)

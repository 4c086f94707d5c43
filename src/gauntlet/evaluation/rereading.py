"""Stored counts read with other options: certificates at another tau or alpha, figures of an older metric."""

from __future__ import annotations

from gauntlet.evaluation.counting import metric_options
from gauntlet.evaluation.jobs import PlannedJob
from gauntlet.metrics import REGION, VERSION
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store

TAU = "tau"


def stored_as_asked(store: Store, planned: PlannedJob) -> Evaluation | None:
    """The stored evaluation of a job, with the figures that the job asks for; None where there is none."""
    stored = store.load(planned.job.key)
    return None if stored is None else read_as_asked(store, planned) or stored


def read_as_asked(store: Store, planned: PlannedJob) -> Evaluation | None:
    """Computes the figures of a stored evaluation anew where its threat asks for others of the same counts, else None.

    Keys of certificates hold what decides the votes; tau, alpha and correction only choose figures. Figures at the taus
    that were there stay, as long as the rest is the same.
    """
    if planned.threat.metric() is None:
        return _read_anew(store, planned)
    asked = metric_options(planned.job.task, planned.dataset, planned.threat)
    stored = store.metric_options(planned.job.key)
    more = [tau for tau in stored.get(TAU, []) if tau not in asked[TAU]]
    if {**stored, TAU: None} == {**asked, TAU: None}:
        if list(stored[TAU][: len(asked[TAU])]) == list(asked[TAU]):
            return None
        asked[TAU] = [*asked[TAU], *more]
    return store.read_as(planned.job.key, asked)


def _read_anew(store: Store, planned: PlannedJob) -> Evaluation | None:
    """Computes VOC 2007's figures of version 1 of the detection metric anew from the same counts, else None.

    Counts of regions that version 1 kept lack the detector's order of equal scores: their figures stay as they are.
    """
    key = planned.job.key
    asked = metric_options(planned.job.task, planned.dataset, planned.threat)
    if not asked.get("eleven_points") or store.metric_options(key).get(VERSION) == asked.get(VERSION):
        return None
    started = store.started(key)
    return None if started is None or started.views == REGION else store.read_as(key, asked)

"""Stored counts read with other options: certificates at another tau or alpha, figures and intervals of older ways."""

from __future__ import annotations

from collections.abc import Sequence

from gauntlet.evaluation.counting import metric_options
from gauntlet.evaluation.jobs import PlannedJob
from gauntlet.metrics import REGION, VERSION
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store
from gauntlet.tasks import DETECTION

TAU = "tau"


def stored_as_asked(store: Store, planned: PlannedJob) -> Evaluation | None:
    """The stored evaluation of a job, with the figures that the job asks for; None where there is none."""
    stored = store.load(planned.job.key)
    return None if stored is None else read_as_asked(store, planned) or stored


def read_all_as_asked(store: Store, jobs: Sequence[PlannedJob]) -> None:
    """`read_as_asked` for all stored jobs of a run; the store is asked once for those that may need it."""
    outdated = set(store.outdated())
    for planned in jobs:
        other_figures = planned.threat.metric() is not None or planned.job.task == DETECTION
        if other_figures or planned.job.key in outdated:
            read_as_asked(store, planned)


def read_as_asked(store: Store, planned: PlannedJob) -> Evaluation | None:
    """Computes the figures of a stored evaluation anew where its threat asks for others of the same counts, else None.

    Keys of certificates hold what decides the votes; tau, alpha and correction only choose figures. Figures at the taus
    that were there stay, as long as the rest is the same. Intervals that an older method made are made anew.
    """
    if planned.threat.metric() is None:
        return _read_anew(store, planned)
    asked = metric_options(planned.job.task, planned.dataset, planned.threat)
    stored = store.metric_options(planned.job.key)
    more = [tau for tau in stored.get(TAU, []) if tau not in asked[TAU]]
    if {**stored, TAU: None} == {**asked, TAU: None}:
        if list(stored[TAU][: len(asked[TAU])]) == list(asked[TAU]) and not store.outdated(planned.job.key):
            return None
        asked[TAU] = [*asked[TAU], *more]
    return store.read_as(planned.job.key, asked)


def _read_anew(store: Store, planned: PlannedJob) -> Evaluation | None:
    """Computes figures anew from the same counts, else None: VOC 2007's of version 1 of the detection metric, and those
    whose intervals an older method made.

    Counts of regions that version 1 kept lack the detector's order of equal scores: their figures stay as they are,
    without intervals.
    """
    key = planned.job.key
    asked, stored = metric_options(planned.job.task, planned.dataset, planned.threat), store.metric_options(key)
    another = stored.get(VERSION) != asked.get(VERSION)
    if not store.outdated(key) and not (asked.get("eleven_points") and another):
        return None
    started = store.started(key)
    if started is None or started.views is None:
        return None
    if planned.job.task == DETECTION and another and started.views == REGION:
        return None
    return store.read_as(key, {**stored, **({VERSION: asked[VERSION]} if VERSION in asked else {})})

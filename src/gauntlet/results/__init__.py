"""Results: the record, the store, the published figures."""

from gauntlet.results.record import Evaluation, Job
from gauntlet.results.store import Store, open_store

__all__ = ["Evaluation", "Job", "Store", "open_store"]

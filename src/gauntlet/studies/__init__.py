"""Studies: one table or figure of a paper as one command, on models and data of one's own.

A study is a plan with places for models, what is drawn from its results, and what the paper claims about them. Start
with `contract`; `papers` has one module per paper, `pages` one per page of the documentation.
"""

from gauntlet.studies.contract import AnyStudy, Claim, Condition, Study, studies
from gauntlet.studies.findings import page as _findings  # noqa: F401 - these register themselves
from gauntlet.studies.pages import attack_strength as _attack_strength  # noqa: F401
from gauntlet.studies.pages import camvid as _camvid  # noqa: F401
from gauntlet.studies.pages import camvid_trained as _camvid_trained  # noqa: F401
from gauntlet.studies.pages import shipped_detectors as _shipped_detectors  # noqa: F401
from gauntlet.studies.pages import shipped_models as _shipped_models  # noqa: F401
from gauntlet.studies.papers import arnab as _arnab  # noqa: F401
from gauntlet.studies.papers import benchmark_runs as _benchmark_runs  # noqa: F401
from gauntlet.studies.papers import fischer as _fischer  # noqa: F401
from gauntlet.studies.papers import halmosi as _halmosi  # noqa: F401
from gauntlet.studies.papers import halmosi_pictures as _halmosi_pictures  # noqa: F401
from gauntlet.studies.papers import halmosi_tables as _halmosi_tables  # noqa: F401
from gauntlet.studies.papers import localized as _localized  # noqa: F401
from gauntlet.studies.papers import localized_pictures as _localized_pictures  # noqa: F401
from gauntlet.studies.papers import semsegbench as _semsegbench  # noqa: F401
from gauntlet.studies.papers import spatial as _spatial  # noqa: F401
from gauntlet.studies.running import run_study

__all__ = ["AnyStudy", "Claim", "Condition", "Study", "run_study", "studies"]

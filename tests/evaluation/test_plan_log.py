"""What planning leaves out is told: to the display where there is one, else to the log."""

from __future__ import annotations

import pytest

from gauntlet.evaluation import plan
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.plan import parse_plan, plan_jobs
from gauntlet.models.sources.contract import LoadedModel
from tiny_detector import TinyBoxes, TinyDetector

SUITE = {"models": ["tiny"], "datasets": ["given"], "suites": ["detecbench"]}


@pytest.fixture(autouse=True)
def tiny_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """A detector and a dataset without depth, whatever the plan names."""
    monkeypatch.setattr(plan, "open_dataset", lambda entry: TinyBoxes(2))
    monkeypatch.setattr(plan, "resolve_model", lambda address, **options: LoadedModel(TinyDetector()))


def test_threats_that_need_depth_are_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    jobs = plan_jobs(parse_plan(SUITE))
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("gauntlet.evaluation.plan", "WARNING")
    assert record.getMessage().startswith("left out, since the dataset 'tiny-boxes' has no depth: ")
    named = record.getMessage().partition("depth: ")[2].rstrip(".").split(", ")
    assert len(named) == 5
    assert not {planned.job.threat for planned in jobs} & set(named)


def test_a_display_is_told_instead_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Notes(Silent):
        def __init__(self) -> None:
            self.texts: list[str] = []

        def note_once(self, text: str) -> None:
            self.texts.append(text)

    notes = Notes()
    plan_jobs(parse_plan(SUITE), progress=notes)
    assert len(notes.texts) == 1
    assert not caplog.records


def test_attacks_on_pixels_that_a_suite_loses_on_detectors_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "gauntlet")
    plan_jobs(parse_plan({**SUITE, "suites": ["semsegbench"]}))
    (message,) = [each for each in caplog.messages if "left out of the suite" in each]
    assert message.count("'name': 'segpgd'") == 2
    assert message.count("'name': 'cospgd'") == 2
    assert "'name': 'pgd'" not in message

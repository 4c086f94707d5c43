"""The study of certificates: figures of the table are those of the certificates, with intervals over images."""

from __future__ import annotations

import numpy as np
import pytest

from gauntlet.errors import GauntletError
from gauntlet.evaluation.plan import DatasetEntry
from gauntlet.report.document import of_type
from gauntlet.report.tables import Interval, Table
from gauntlet.results import Store
from gauntlet.studies import run_study, studies
from gauntlet.studies.page import study_page
from gauntlet.studies.papers.fischer import CERTIFICATES, NETWORK
from gauntlet.studies.verdicts import judge

SMALL = DatasetEntry(name="streets", options={"size": [32, 64], "length": 3})


def test_the_rows_are_those_of_the_specification() -> None:
    rows = [(row.sigma, row.tau, row.n) for row in CERTIFICATES]
    assert rows == [(sigma, tau, n) for tau, n in ((0.75, 100), (0.95, 500)) for sigma in (0.25, 0.33, 0.5)]
    # docs/specs/defences.md, 6: the radius is 0.6745 sigma and 1.6449 sigma.
    assert [row.radius / row.sigma for row in CERTIFICATES[::3]] == pytest.approx([0.6745, 1.6449], abs=5e-5)
    assert len({row.label for row in CERTIFICATES}) == 6  # each can be run alone with --only


@pytest.mark.slow
def test_figures_are_those_of_the_certificates() -> None:
    study, row = studies["fischer/certified"], CERTIFICATES[0]
    results = run_study(study, ["streets/enet-noise"], SMALL, Store(), only=[row.label], prepare="off")
    evaluation = results.evaluation(NETWORK, row.label)
    stored = {(each.view, each.metric): each.value for each in evaluation.all_figures if not each.class_name}
    certified = results.accuracy(NETWORK, row.label, view=row.view)
    abstained = results.abstention(NETWORK, row.label, view=row.view)
    assert certified[0] == pytest.approx(stored[row.view, "certified_accuracy"])
    assert abstained[0] == pytest.approx(stored[row.view, "abstention"])
    assert results.miou(NETWORK, row.label, view=row.view)[0] == pytest.approx(stored[row.view, "certified_mIoU"])
    assert results.accuracy(NETWORK, row.label, view="majority")[0] == pytest.approx(stored["majority", "aAcc"])
    assert results.accuracy(NETWORK, row.label, view="clean")[0] == pytest.approx(results.accuracy(NETWORK, "clean")[0])
    assert np.all(certified + abstained <= 1 + 1e-12)  # in every resample
    with pytest.raises(GauntletError, match=r"no view 'tau 0\.95', only tau 0\.75, majority, clean"):
        results.accuracy(NETWORK, row.label, view="tau 0.95")
    tables = {table.title: table for table in of_type(study_page(study, results, ""), Table)}
    first, second = tables["Certified by randomised smoothing"].rows[:2]
    assert isinstance(first[3], Interval)
    assert isinstance(second[3], Interval)
    assert first[3].value == pytest.approx(certified[0])
    assert np.isnan(second[3].value)  # was not run
    assert judge(study, results)[2].verdict == "cannot be told: a figure is missing"

"""Results of version 0.1.0 are still found: their keys as literals, and a store that 0.1.0 wrote.

`tests/data/store-0.1.0.db.gz` was written by version 0.1.0 (commit 8e69b26) from the two plans beside it. A key that
changes means that everybody's results are computed again; then the threat's `version` must say so, not its spelling.
"""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gauntlet.cli import commands  # noqa: F401 - registers the commands
from gauntlet.cli.app import app
from gauntlet.datasets import load_dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation import evaluate
from gauntlet.evaluation.execution.runner import run_jobs
from gauntlet.evaluation.plan import plan_jobs, read_plan
from gauntlet.results import open_store

DATA = Path(__file__).resolve().parents[1] / "data"
PLANS = [DATA / "plan-0.1.0.yaml", DATA / "plan-0.1.0-segmentation.yaml"]

# Key, model, name of the threat in version 0.1.0, headline figure.
STORED = [
    ("96f2738ecaf8d80ad561b86fad5d64c8", "streets/enet", "clean", 0.741179364674111),
    ("eb22e95d578df250342c495f285bfa3f", "streets/enet", "pgd linf 8/255 x2", 0.33655949345237723),
    ("05bbf2837d94627e39f6d4031c313a77", "streets/enet", "fgsm linf 4/255 x1", 0.4964012069840065),
    ("be429cec6ce0d96d1f9bea81a2de42a6", "streets/enet", "fgsm linf 8/255 x1", 0.3252375935509596),
    ("8984fa54431389b8d214f76757b317c8", "streets/enet", "bim l2 0.5 x2 in square quarter centre", 0.7326862370949854),
    ("af89e5a207c70704d352ccf419cbd73d", "streets/enet", "pgd linf 8/255 x2 to 1", 0.5030511619693696),
    ("ec262e000b8fabff775b14a909a191da", "streets/enet", "fog 3", 0.5122925152637615),
    ("71e96d7f8986577b2871b4db7ec13608", "streets/enet", "gaussian_noise 5 legacy bgr", 0.03291422822930459),
    ("ccff7537c67a58eabf5f78c1925c352a", "streets/enet", "fog_3d 3 estimated", 0.44637338045049807),
    ("1feef113826ecd01a4fa52ca7f09e071", "streets/enet", "snow 1 ratio 0.5 patch 32", 0.6186727619306353),
    ("808884bea8ac6d8629a3fb57d2685346", "streets/fcos", "clean", 0.5895212556969984),
    ("b0aee08e536c6276c7fecafe1cb2f4f4", "streets/fcos", "pgd linf 8/255 x2", 0.07065904561542445),
    ("578564aded19a0f9379c8bbccf29382d", "streets/fcos", "fgsm linf 4/255 x1", 0.20020656574117482),
    ("9c8639f3dbe2faf0fd1d47348160112f", "streets/fcos", "fgsm linf 8/255 x1", 0.12245563389761653),
    ("e782d9ed63b6761a2eea112442823203", "streets/fcos", "bim l2 0.5 x2 in square quarter centre", 0.5510486743057322),
    ("9b6b2e30af8d0435c16f9fc3c7ee23d8", "streets/fcos", "pgd linf 8/255 x2 to 1", 0.5416679678062086),
    ("1c5daaf631cdf3ec4539a508b428f2ba", "streets/fcos", "fog 3", 0.3406187664592972),
    ("3095a51d585d49e727b1f165f8d931ea", "streets/fcos", "gaussian_noise 5 legacy bgr", 0.0),
    ("cdfcfeef89cfb8a2af083b40f3932322", "streets/fcos", "fog_3d 3 estimated", 0.3396040327716982),
    ("0043c93268e6a8100dd939592b23adb0", "streets/fcos", "snow 1 ratio 0.5 patch 32", 0.4637384316058436),
    ("265bf9b48d29a317d36022593807ab60", "streets/enet", "segpgd linf 8/255 x2", 0.2545646880222037),
    ("d52c6868a745ff566c1e24abff7a3c52", "streets/enet", "cospgd linf 8/255 x2 restarts 2", 0.270059136872793),
    ("c21e8f3fb3690ad4a80acaf576a3b7c8", "streets/enet", "apgd linf 8/255 x3", 0.09789899231166523),
    ("8de5f6b4ebe262ac6919105b6922f20f", "streets/enet", "battery sea 8/255 budget 0.01", 0.05339913514688039),
    (
        "a56cb7820aa96306cc1fdfb157ee9199",
        "streets/enet",
        "bim linf 16/255 x2 alpha 20/255 in 2 rounds in square [32, 64] top-left",
        0.6642085391332473,
    ),
    ("ffde37e37ad30ee386dcaecdc88c5985", "streets/enet", "alma-prox linf 8/255 x3", 0.6602069628426184),
]


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    path.write_bytes(gzip.decompress((DATA / "store-0.1.0.db.gz").read_bytes()))
    return path


def test_plans_of_version_0_1_0_have_the_keys_they_had() -> None:
    planned = [job.job for path in PLANS for job in plan_jobs(read_plan(path))]
    assert [(job.unrecorded.key, job.model) for job in planned] == [(key, model) for key, model, _, _ in STORED]


def test_figures_of_version_0_1_0_are_read_as_they_were_written(old_store: Path) -> None:
    with open_store(old_store) as store:
        for key, model, threat, figure in STORED:
            stored = store.load(key)
            assert stored is not None
            assert (stored.model, stored.threat) == (model, threat)
            assert stored.figures["mIoU" if stored.task == "segmentation" else "mAP"] == figure


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: path.stem)
def test_gauntlet_run_finds_the_results_of_version_0_1_0(plan: Path, old_store: Path) -> None:
    outcome = CliRunner().invoke(app, ["run", str(plan), "--store", str(old_store)])
    assert outcome.exit_code == 0, outcome.output
    assert "0 computed" in outcome.output


def test_figures_computed_again_from_old_counts_are_the_old_ones(old_store: Path) -> None:
    with open_store(old_store) as store:
        for key, _, _, figure in STORED:
            again = {(each.metric, each.view, each.class_name): each.value for each in store.recompute(key)}
            headline = again.get(("mIoU", "all", ""), again.get(("mAP", "all", "")))
            assert headline == pytest.approx(figure, abs=1e-12)


@pytest.mark.slow
def test_a_store_of_version_0_1_0_is_reported(old_store: Path, tmp_path: Path) -> None:
    before = old_store.read_bytes()
    for arguments in (["report", "-o", str(tmp_path / "report.md"), "--format", "md"], ["leaderboard"], ["runs"]):
        outcome = CliRunner().invoke(app, [*arguments, "--store", str(old_store)])
        assert outcome.exit_code == 0, outcome.output
    page = (tmp_path / "report.md").read_text("utf-8")
    assert "streets/enet" in page
    assert "33.7" in page  # PGD's mIoU, as above
    assert old_store.read_bytes() == before  # reading changes nothing


def test_a_store_of_version_0_1_0_goes_on(old_store: Path) -> None:
    with open_store(old_store) as store:
        known = store.count()
        evaluate("python:nets:street_network", load_dataset("streets", size=[32, 64], length=2), "clean", store=store)
        assert store.count() == known + 1
        assert store.load(STORED[0][0]) is not None


def test_an_unfinished_evaluation_of_version_0_1_0_is_finished(old_store: Path) -> None:
    """Half of the counts of an evaluation and all of its figures are taken away, as if 0.1.0 had been killed."""
    key, _, _, figure = STORED[0]
    with sqlite3.connect(old_store) as connection:
        number, images = connection.execute("SELECT id, images FROM evaluations WHERE key = ?", (key,)).fetchone()
        connection.execute("DELETE FROM figures WHERE evaluation_id = ?", (number,))
        connection.execute("UPDATE evaluations SET state = 'running' WHERE id = ?", (number,))
        connection.execute("DELETE FROM image_counts WHERE evaluation_id = ? AND position >= ?", (number, images // 2))
    (job,) = [job for job in plan_jobs(read_plan(PLANS[0]), "cpu") if job.job.unrecorded.key == key]
    with open_store(old_store) as store:
        outcome = run_jobs([job], store)
        assert outcome.failures == []
        stored = store.load(key)
    assert stored is not None
    assert stored.figures["mIoU"] == pytest.approx(figure, abs=1e-6)


def test_a_newer_store_is_refused_untouched_by_every_command(old_store: Path) -> None:
    with sqlite3.connect(old_store) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    before = old_store.read_bytes()
    for arguments in (["run", str(PLANS[0])], ["report"], ["leaderboard"], ["runs"], ["card", "streets/enet"]):
        outcome = CliRunner().invoke(app, [*arguments, "--store", str(old_store)])
        assert isinstance(outcome.exception, GauntletError), arguments
        assert "written by a newer Gauntlet (schema 99" in str(outcome.exception)
    assert old_store.read_bytes() == before

"""Who needs depth, who has it, and what is said where it is missing."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import cv2
import numpy as np
import pytest
import torch
from corruption_patterns import depth_of, waves

from gauntlet.analysis.scoring.benchmark_sets import CORRUPTIONS
from gauntlet.cli.show import _corruption_sheet
from gauntlet.datasets import load_dataset
from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.depth_maps import DepthFolder
from gauntlet.datasets.protocols import Protocol, Resized
from gauntlet.errors import GauntletError
from gauntlet.evaluation import evaluate, plan
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.jobs import PlannedJob
from gauntlet.evaluation.plan import parse_plan, plan_jobs
from gauntlet.models.sources.contract import LoadedModel
from gauntlet.samples import Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import build_threat, suites
from gauntlet.threats.compat.detecbench import corruptions as detecbench
from gauntlet.threats.corruptions import (
    COMMON,
    COMMON_3D,
    VIDEO,
    contact_sheet,
    corrupt,
    names,
    registry,
    write_corrupted,
)
from gauntlet.threats.corruptions.settings import DepthRule
from tiny_detector import TinyBoxes, TinyDetector

ROOT = Path(__file__).resolve().parents[3]
IMAGE, DEPTH = waves()[:48, :64], depth_of(48, 64)
NEED_DEPTH = [name for name in names() if registry[name].needs_depth]


class DeepBoxes(TinyBoxes):
    """TinyBoxes with depth."""

    has_depth = True

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        return Sample(sample.id, sample.image, boxes=sample.boxes, depth=depth_of(*sample.image.shape[:2]))


class Notes(Silent):
    """Progress that remembers what it was told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note_once(self, text: str) -> None:
        self.texts.append(text)


# The function --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["README.md", "CHANGELOG.md"])
def test_what_is_said_about_depth_is_so(file: str) -> None:
    in_3d = names("3d")
    assert (len(in_3d), sum(name in NEED_DEPTH for name in in_3d)) == (9, 6)
    assert "nine in 3D (six follow the depth of the scene)" in (ROOT / file).read_text()


@pytest.mark.parametrize("name", NEED_DEPTH)
def test_missing_depth(name: str) -> None:
    with pytest.raises(GauntletError) as caught:
        corrupt(IMAGE, name)
    assert str(caught.value) == (
        f"the corruption '{name}' needs depth; pass depth=, the distance of every pixel in metres (H, W), or use a "
        "dataset with depth, such as streets."
    )


def test_wrong_depth() -> None:
    with pytest.raises(GauntletError, match=r"the depth of an image of 48x64 must have the same size, not \(64, 48\)"):
        corrupt(IMAGE, "fog_3d", depth=DEPTH.T)
    for value in (0.0, -1.0, np.nan):
        broken = DEPTH.copy()
        broken[3, 4] = value
        with pytest.raises(GauntletError, match="depth must be positive everywhere, in metres"):
            corrupt(IMAGE, "fog_3d", depth=broken)


def test_others_ignore_depth() -> None:
    for name in ("fog", "iso_noise", "low_light", "color_quant"):
        assert (corrupt(IMAGE, name, 2, 5, depth=DEPTH) == corrupt(IMAGE, name, 2, 5)).all()


def test_a_contact_sheet_shows_depth() -> None:
    sheet = contact_sheet(IMAGE, ["fog_3d"], [1, 5], depth=DEPTH)
    left = 4 + 2 * (64 + 4)
    assert (sheet[4 + 18 : 4 + 18 + 48, left : left + 64] == corrupt(IMAGE, "fog_3d", 5, depth=DEPTH)).all()
    with pytest.raises(GauntletError, match="'fog_3d' needs depth"):
        contact_sheet(IMAGE, ["fog_3d"], [1])


def test_a_sheet_of_all_has_what_the_sample_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[list[str]] = []
    monkeypatch.setattr(
        "gauntlet.threats.corruptions.contact_sheet", lambda image, wanted, *rest, **more: shown.append(wanted)
    )
    for depth in (None, DEPTH):
        _corruption_sheet(Sample("one", IMAGE, depth=depth), ["all"], [3], 0, "metric")
    unable = set() if importlib.util.find_spec("av") else set(VIDEO)
    assert set(names()) - set(shown[0]) == {*NEED_DEPTH, *unable}
    assert shown[1] == [name for name in names() if name not in unable]


# The benchmark -------------------------------------------------------------------------------------------------------


@pytest.fixture
def benchmark_script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/corruptions.py, whose import sets numbers of threads."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    spec = importlib.util.spec_from_file_location("corruption_benchmark", ROOT / "benchmarks" / "corruptions.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.mark.parametrize(
    ("other", "said"),
    [(["--names", "fog"], "not allowed with argument"), (["--peer-python", "python"], "leave out --peer-python")],
)
def test_the_benchmark_in_3d_chooses_its_corruptions(
    benchmark_script: ModuleType,
    other: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["corruptions.py", "--three-d", *other])
    with pytest.raises(SystemExit) as caught:
        benchmark_script.main()
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


# Threats -------------------------------------------------------------------------------------------------------------


def test_threats_pass_the_depth_of_the_sample() -> None:
    sample = Sample("one", IMAGE, depth=DEPTH)
    seeds = [ImageSeed(3, "one")]
    whole = build_threat({"corruption": {"name": "near_focus", "severity": 4}})
    part = build_threat({"localized": {"corruption": {"name": "near_focus", "severity": 4}, "ratio": 1.0}})
    assert whole.needs_depth
    assert part.needs_depth
    assert not build_threat("fog").needs_depth
    assert not build_threat("pgd").needs_depth
    expected = torch.from_numpy(corrupt(IMAGE, "near_focus", 4, depth=DEPTH)).permute(2, 0, 1) / 255
    for threat in (whole, part):
        perturbed = threat.perturb(None, collate([sample]), seeds)  # type: ignore[arg-type]
        assert torch.equal(perturbed.images[0], expected)


def test_the_suite_has_every_member_of_gam() -> None:
    corrupted = [each["corruption"]["name"] for each in suites.build("detecbench", "detection") if "corruption" in each]
    assert corrupted == [*COMMON, *COMMON_3D]
    assert set(corrupted) == set(CORRUPTIONS["detection"])


def test_detecbenchs_names() -> None:
    assert [each.options.name for each in detecbench.AllCommonCorruptions3d(severity=1)] == list(COMMON_3D)
    foggy, noisy = detecbench.CommonCorruption3d("fog_3d", 2), detecbench.CommonCorruption3d("iso_noise", 2)
    assert foggy.describe() == {"corruption": {"name": "fog_3d", "severity": 2, "depth_rule": "estimated"}}
    assert foggy.name == "fog_3d 2 estimated"
    assert noisy.describe() == {"corruption": {"name": "iso_noise", "severity": 2}}
    with pytest.raises(GauntletError, match="3D common corruption 'fog'"):
        detecbench.CommonCorruption3d("fog")


# Datasets ------------------------------------------------------------------------------------------------------------


def test_streets_has_depth_at_any_size() -> None:
    streets = load_dataset("streets", size=(48, 96), length=2)
    small = Resized(streets.subset(1), Protocol(shorter=32))
    assert streets.has_depth
    assert small.has_depth
    depth, original = small[0].depth, streets[0].depth
    assert depth is not None
    assert original is not None
    assert depth.shape == small[0].image.shape[:2] == (32, 64)
    assert set(depth.ravel()) <= set(original.ravel())
    assert not TinyBoxes().has_depth
    assert not TinyBoxes().subset(1).has_depth


# Evaluations ---------------------------------------------------------------------------------------------------------


def planned(monkeypatch: pytest.MonkeyPatch, dataset: Dataset, **content: object) -> tuple[list[PlannedJob], list[str]]:
    """The jobs of a plan for the tiny detector on a dataset, and what was said."""
    monkeypatch.setattr(plan, "open_dataset", lambda entry: dataset)
    monkeypatch.setattr(plan, "resolve_model", lambda address, **options: LoadedModel(TinyDetector()))
    notes = Notes()
    jobs = plan_jobs(parse_plan({"models": ["tiny"], "datasets": ["given"], **content}), progress=notes)
    return jobs, notes.texts


def test_a_suite_leaves_out_what_needs_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, said = planned(monkeypatch, TinyBoxes(2), suites=["detecbench"])
    assert len(jobs) == 1 + 2 + 15 + 3
    assert not any(job.threat.needs_depth for job in jobs)
    assert said == [
        "left out, since the dataset 'tiny-boxes' has no depth: far_focus 3 estimated, fog_3d 3 estimated, "
        "near_focus 3 estimated, xy_motion_blur 3 estimated, z_motion_blur 3 estimated."
    ]
    jobs, said = planned(monkeypatch, DeepBoxes(2), suites=["detecbench"])
    assert len(jobs) == 1 + 2 + 15 + 8
    assert said == []


def test_a_named_threat_without_depth_is_an_error_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        "the threat 'fog_3d 3' needs depth, which the dataset 'tiny-boxes' does not have; leave it out, use a "
        "dataset with depth such as streets, or set has_depth = True on it if its samples have depth."
    )
    with pytest.raises(GauntletError) as caught:
        planned(monkeypatch, TinyBoxes(2), suites=["detecbench"], threats=["clean", "fog_3d"])
    assert str(caught.value) == said
    with pytest.raises(GauntletError) as caught:
        evaluate(TinyDetector(), TinyBoxes(2), "fog_3d")
    assert str(caught.value) == said


def test_a_detector_is_evaluated_in_fog() -> None:
    clean = evaluate(TinyDetector(), DeepBoxes(3), "clean").figures["mAP50"]
    assert evaluate(TinyDetector(), DeepBoxes(3), "fog_3d").figures["mAP50"] < clean


# Copies on disk ------------------------------------------------------------------------------------------------------


def test_copies_in_3d_have_the_layout_of_the_3d_reference(tmp_path: Path) -> None:
    data = DeepBoxes(1)
    write_corrupted(data, tmp_path, ["fog", "fog_3d"], [2])
    assert (tmp_path / "cc/fog/severity_2/tiny-boxes/0.png").is_file()
    written = cv2.imread(str(tmp_path / "fog_3d/2/tiny-boxes/0.png"))[..., ::-1]
    assert (written == corrupt(data[0].image, "fog_3d", 2, depth=data[0].depth)).all()


def test_a_copy_with_depth_as_detecbench_has_it(tmp_path: Path) -> None:
    data = DeepBoxes(1)
    write_corrupted(data, tmp_path, ["fog_3d"], [2], depth_rule="estimated")
    written = cv2.imread(str(tmp_path / "fog_3d/2/tiny-boxes/0.png"))[..., ::-1]
    expected = corrupt(data[0].image, "fog_3d", 2, depth=data[0].depth, depth_rule="estimated")
    assert (written == expected).all()
    sheet = contact_sheet(data[0].image, ["fog_3d"], [2], depth=data[0].depth, depth_rule="estimated")
    assert (sheet[22 : 22 + 32, 56 : 56 + 48] == expected).all()
    with pytest.raises(GauntletError, match="holds a copy with depth_rule 'estimated', not 'metric'"):
        write_corrupted(data, tmp_path, ["fog_3d"], [3])


def test_no_copy_is_begun_that_needs_depth(tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match="'fog_3d' needs depth, which the dataset 'tiny-boxes' does not have"):
        write_corrupted(TinyBoxes(1), tmp_path / "copy", ["fog", "fog_3d"], [2])
    assert not (tmp_path / "copy").exists()


REAL = ("3dcc_point_0_view_0", "nyu_raw_0", "redwood_0", "sun3d_0", "tum_0")


@pytest.mark.parametrize("rule", ["metric", "estimated"])
@pytest.mark.parametrize("name", sorted(name for name in COMMON_3D if registry[name].needs_depth))
def test_corruptions_grow_on_photographs_with_measured_depth(shared: Path, name: str, rule: DepthRule) -> None:
    """Measured maps have holes, and borders that no made-up map has."""
    folder, changes = shared / "realdata" / "depth", []
    for each in REAL:
        image = cv2.resize(cv2.imread(str(folder / "rgb" / f"{each}.jpg")), (96, 72), interpolation=cv2.INTER_AREA)
        depth = DepthFolder(folder / "depth_mm", 0.001, [each]).read(Sample(each, image))
        depth = cv2.resize(depth, (96, 72), interpolation=cv2.INTER_NEAREST)
        seen = [corrupt(image, name, severity, depth=depth, depth_rule=rule) for severity in (1, 3, 5)]
        changes.append([np.abs(one.astype(float) - image).mean() for one in seen])
    first, third, fifth = np.mean(changes, axis=0)
    assert 0 < first < third < fifth

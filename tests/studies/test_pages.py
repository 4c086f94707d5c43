"""Pages of the documentation as studies: what they take, that they are written from their runs, who they refuse."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np
import pytest

from gauntlet.errors import GauntletError
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry, open_dataset
from gauntlet.models.sources import shipped
from gauntlet.results import Store
from gauntlet.studies import studies
from gauntlet.studies.figures import FloatArray
from gauntlet.studies.pages import attack_strength, shipped_models, small_objects, worst_case
from gauntlet.studies.pages.attack_strength import ATTACK_STRENGTH, BATTERY
from gauntlet.studies.pages.attack_strength import label as label_of
from gauntlet.studies.pages.camvid import CAMVID, IN_THE_SQUARE, NETWORKS, OURS, spread
from gauntlet.studies.pages.camvid_trained import CAMVID_TRAINED, MODELS, SHARES
from gauntlet.studies.pages.contract import PageRuns, PageStudy, Part, plan_page, write_markdown
from gauntlet.studies.pages.markdown import judged
from gauntlet.studies.pages.shipped import addresses, localized_noise
from gauntlet.tasks import DETECTION, SEGMENTATION
from program import Call

NETWORK = ModelEntry(address="python:nets:street_network", options={"num_classes": 11, "mean": [0.5] * 3})
SMALL = DatasetEntry(name="streets", options={"size": [32, 64], "length": 4})


def entries(addresses: Sequence[str]) -> list[ModelEntry]:
    return [ModelEntry(address=each) for each in addresses]


def little_page() -> PageStudy:
    def write(runs: PageRuns, command: str) -> str:
        few, some = runs["few"], runs["some"]
        counts = f"{len(few.dataset)} and {len(some.dataset)}"
        return f"{command}: {counts}, {few.models}, {few.row('fog')[0].threat}, {some.threats}"

    def draw(runs: PageRuns, folder: Path) -> None:
        (folder / "drawn.txt").write_text(str(len(runs)))

    return PageStudy(
        name="little/page",
        title="Little",
        question="Is it?",
        file="little.md",
        models=lambda options: [NETWORK],
        dataset=SMALL,
        parts=lambda: {
            "few": Part({"clean": "clean", "fog": {"corruption": {"name": "fog", "severity": 2}}}, 1),
            "some": Part({"clean": "clean"}, 3),
        },
        write=write,
        draw=draw,
    )


def test_a_page_is_written_from_the_runs_of_its_parts(tmp_path: Path) -> None:
    plan = plan_page(little_page(), limit=2, prepare="off")
    assert [(part, threat, len(job.dataset)) for (part, _, threat), job in plan.jobs.items()] == [
        ("few", "clean", 1),
        ("few", "fog", 1),
        ("some", "clean", 2),
    ]
    paths = write_markdown(little_page(), plan.run(Store()), tmp_path / "docs", "the command")
    assert [path.name for path in paths] == ["little.md", "images"]
    assert paths[0].read_text() == f"the command: 1 and 2, ['{NETWORK.address}'], fog 2, ['clean']"
    assert (tmp_path / "docs/images/drawn.txt").read_text() == "2"


def test_the_page_of_strength_says_where_an_attack_is_weaker_than_it_should_be() -> None:
    stronger = {"attack": {"name": "fgsm", "epsilon": "8/255"}}

    def cheap(changed: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Part]:
        """The same labels under clean images: nothing is weaker than anything else but what is changed."""
        whole = ATTACK_STRENGTH.parts()["all"]
        members = {name: {"name": "fgsm", "epsilon": "1/255"} for name in ("pgd", "segpgd")}
        battery = {"battery": {"name": BATTERY, "members": members, "skip": False}}
        return {"all": Part({**dict.fromkeys(whole.threats, "clean"), BATTERY: battery, **changed}, 1)}

    page = replace(ATTACK_STRENGTH, models=lambda options: [NETWORK], dataset=SMALL, parts=cheap)
    text = page.write(plan_page(page, prepare="off").run(Store()), "made so")
    assert "Made by\n\n    made so\n" in text
    assert f"## {NETWORK.address}:" in text
    assert text.count("| yes |") == 5
    assert "NOT at" not in text
    page = replace(page, parts=partial(cheap, {label_of("pgd", "2/255"): stronger}))
    runs = plan_page(page, prepare="off").run(Store())
    clean, attacked = (
        runs["all"](NETWORK.address, each).figures["mIoU"] for each in ("clean", label_of("pgd", "2/255"))
    )
    excess = f"not certain at 2/255 ({100 * (clean - attacked):+.1f})"  # one image has no interval
    text = page.write(runs, "made so")
    for what in ("SegPGD at or below PGD", "CosPGD at or below PGD", "40 steps at or below 20"):
        assert f"| {what} | {excess}" in text
    assert text.count("| yes |") == 2


def test_what_may_be_chance_is_not_called_weaker() -> None:
    def rows(value: float, half: float) -> FloatArray:
        """A figure of 16 images with an interval of so much on either side: 2.1314 standard errors."""
        return value + np.append(0, half / 2.1314 / np.sqrt(15) * np.tile([1.0, -1.0], 8))

    excess = {
        "2/255": rows(0.01, 0.006),
        "4/255": rows(0.01, 0.013),
        "8/255": rows(0.001, 0.0005),  # within what is allowed
    }
    not_certain = "not certain at 4/255 (+1.0 (-0.3 to +2.3))"
    assert attack_strength.holds({"2/255": excess["2/255"][:7]}) == "not certain at 2/255 (+1.0)"  # six images
    assert attack_strength.holds(excess) == f"NOT at 2/255 (+1.0 (+0.4 to +1.6)); {not_certain}"
    assert attack_strength.holds({"8/255": excess["8/255"]}) == "yes"
    assert attack_strength.holds({"2/255": np.asarray([0.01])}) == "NOT at 2/255 (+1.0)"


def test_intervals_of_a_page_are_around_the_figures_of_its_evaluations() -> None:
    page = replace(little_page(), parts=lambda: {"all": Part({"noise": localized_noise(5), "clean": "clean"}, 3)})
    runs = plan_page(page, prepare="off").run(Store())["all"]
    model = runs.models[0]
    figures, iou = runs(model, "noise").figures, runs(model, "clean").per_class["IoU"]
    for view, name in (("inside", "A_M"), ("outside", "A_Mbar"), ("clean outside", "A_Mbar_clean")):
        values = shipped_models.part_accuracy(runs, "noise", model, view)
        assert values.shape == (runs.results.images + 1,)
        assert values[0] == pytest.approx(figures[name])
    assert worst_case.accuracy(runs, "clean", model)[0] == pytest.approx(runs(model, "clean").figures["aAcc"])
    road = small_objects.class_iou(runs, "clean", model, ["road", "sky"])
    assert road[0] == pytest.approx((iou["road"] + iou["sky"]) / 2)


def test_a_verdict_needs_sixteen_images_and_an_interval_on_one_side_of_zero() -> None:
    spread = np.linspace(-0.001, 0.001, 16)
    above, around = np.append(0.01, 0.01 + spread), np.append(0.0, spread)
    assert judged(above, 16).startswith("**Reproduces** (margin +1.0 (")
    assert judged(-above, 16).startswith("**Does not reproduce** (margin -1.0 (")
    assert judged(above, 15).startswith("**Cannot be told with 15 images**")
    assert judged(around, 64).startswith("**Cannot be told with 64 images**")


@pytest.mark.parametrize(
    ("name", "task", "for_each", "for_some"),
    [
        ("shipped/models", SEGMENTATION, 15, 3),  # PGD on three E-Nets only
        ("shipped/detectors", DETECTION, 38, 0),
        ("shipped/attack-strength", SEGMENTATION, 14, 0),
    ],
)
def test_pages_take_every_shipped_model_of_their_task(name: str, task: str, for_each: int, for_some: int) -> None:
    models = addresses(task)
    jobs = plan_page(studies[name], limit=1).jobs
    assert len(jobs) == for_each * len(models) + for_some
    assert {model for _, model, _ in jobs} == set(models)


def test_the_pages_know_seven_families_and_both_kinds_of_training() -> None:
    models = addresses(SEGMENTATION)
    assert {"streets/ddrnet", "streets/fcn8s", "streets/fcn8s-at", "streets/pspnet"} <= set(models)
    assert "streets/enet-noise" not in models
    assert "streets/faster-rcnn" in addresses(DETECTION)


def test_images_at_equal_distances() -> None:
    whole = open_dataset(SMALL)
    assert list(spread(whole, 2).ids()) == [whole.ids()[0], whole.ids()[2]]


@pytest.mark.slow
def test_the_page_of_networks_trained_on_camvid_has_every_model_and_its_figures(tmp_path: Path) -> None:
    """On small scenes and under one step in place of the attacks."""
    step = {"attack": {"name": "fgsm", "epsilon": "2/255"}}
    steps: dict[str, Any] = {
        "clean": "clean",
        "battery": {"battery": {"name": "semsegbench", "epsilon": "2/255", "steps": 1}},
    }
    parts = {
        label: Part({name: steps.get(name, step) for name in part.threats}, 2, objects=part.objects)
        for label, part in CAMVID_TRAINED.parts().items()
    }
    few = [*SHARES.values(), "camvid/segformer-at"]
    own = replace(CAMVID_TRAINED, dataset=SMALL, parts=lambda: parts, models=lambda options: entries(few))
    plan = plan_page(own, prepare="off")
    runs = plan.run(Store())
    page = CAMVID_TRAINED.write(runs, "the command")
    for model in few:
        figures = runs["worst"](model, "battery").figures
        assert f"| `{model}` |" in page
        assert re.search(rf"\| `{model}` \| .* \| {100 * figures['aAcc']:.1f} \|", page)  # two images: no interval
    assert "## Half of the batch attacked" in page
    assert "in 4 label maps of the training split" in page
    assert page.count("\n| no image at all |") == 3  # under the battery, twice, and under PGD
    half, full = (runs["paper"](SHARES[share], "battery").figures["aAcc"] for share in ("50 %", "100 %"))
    assert f" and {100 * (full - half):+.1f} " in page.partition("## Half or all of it, at 8/255")[2]
    assert "`camvid/enet-sea`, `camvid/bisenetv2`" in page.partition("but not run yet: ")[2]
    assert sorted(MODELS) == sorted(shipped.names("camvid"))
    assert list(runs["worst"].dataset.ids()) == [open_dataset(SMALL).ids()[index] for index in (0, 2)]
    winners, sizes = (
        page.partition(title)[2] for title in ("## Which attack wins", "## Recall by the size of objects")
    )
    for model in few:
        row = re.search(rf"\| `{model}` \|(.*)\|", winners)
        assert row is not None
        assert sum(map(float, row[1].split("|"))) == 100
    counted = [int(each) for each in re.findall(r"% \((\d+)\)", sizes)]
    labels = [sample.labels for sample in runs["worst"].dataset]
    assert sum(counted) == sum(cv2.connectedComponents(np.uint8(each == name), connectivity=8)[0] - 1
                               for each in labels for name in range(11))  # fmt: skip


def test_the_page_of_public_networks_sets_inside_beside_outside() -> None:
    threats = CAMVID.parts()
    step = {"attack": {"name": "fgsm", "epsilon": "2/255"}}
    square = threats["square"].threats["16/255"]
    assert isinstance(square, dict)
    attack = {**square["region_aware"]["attack"], "steps": 2}
    parts = {
        "clean": Part({"clean": "clean"}, None),
        "attacks": Part({"clean": "clean", "step": step}, 2),
        "corruptions": Part({"noise": {"corruption": {"name": "gaussian_noise", "severity": 3}}}, 3),
        "natural": Part({"snow 3": threats["natural"].threats["snow 3"]}, 3),
        "square": Part({"16/255": {"region_aware": {**square["region_aware"], "rounds": 1, "attack": attack}}}, 2),
    }
    plan = plan_page(replace(CAMVID, dataset=SMALL, parts=lambda: parts, models=lambda options: [NETWORK]))
    found = plan.run(Store())
    public = [each.address for each in NETWORKS]
    named = {}
    for label, runs in found.items():
        addresses = threats[label].models or [*public, *OURS]
        evaluations = {(each, threat): result for (_, threat), result in runs.evaluations.items() for each in addresses}
        sources = dict.fromkeys(addresses, runs.sources[NETWORK.address])
        named[label] = replace(runs, evaluations=evaluations, sources=sources)
    page = CAMVID.write(named, "the command")
    assert "    the command" in page
    assert "## The suite `quick`: attacks on 2 images, corruptions on 3 images" in page
    assert "## Parts of the image corrupted: 3 images" in page
    assert "## A part of the image attacked: 2 images" in page
    for name, row, label, threat, networks in (
        ("mIoU", "step", "attacks", "step", 3 + len(OURS)),
        ("mIoU", "noise", "corruptions", "noise", 3 + len(OURS)),
        ("A_M", "snow 3", "natural", "snow 3", 3 + len(OURS)),
        ("RCE_Mbar", "snow 3", "natural", "snow 3", 3 + len(OURS)),
        ("A_M", "16/255", "square", "16/255", 3 + len(IN_THE_SQUARE)),
        ("RCE_Mbar", "16/255", "square", "16/255", 3 + len(IN_THE_SQUARE)),
    ):
        result = found[label](NETWORK.address, threat)
        assert name not in result.intervals  # of three images
        cell = f"{100 * result.figures[name]:.1f}"
        assert f"\n| {row} |{f' {cell} |' * networks}\n" in page


def test_what_pages_refuse(tmp_path: Path, call: Call) -> None:
    with pytest.raises(GauntletError, match="say with --weights in which folder"):
        plan_page(CAMVID)
    with pytest.raises(GauntletError, match=r"has no file enet_camvid\.pth"):
        plan_page(CAMVID, options={"weights": str(tmp_path)})
    with pytest.raises(GauntletError, match="takes no weights: its models are its own"):
        plan_page(ATTACK_STRENGTH, options={"weights": "file.pth"})
    code, _, err = call("study", "run", "shipped/models", "--published")
    assert (code, "made of runs" in err) == (2, True)
    code, _, err = call("study", "run", "shipped/models", "--model", "streets/enet")
    assert (code, "models and images of its own" in " ".join(err.split())) == (2, True), err

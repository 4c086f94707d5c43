"""Studies of Arnab et al.: every item is there, and claims hold in the published tables where the paper is right."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gauntlet.errors import GauntletError
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
from gauntlet.report.document import Gallery, of_type
from gauntlet.report.tables import Table
from gauntlet.results import Store
from gauntlet.studies import Study, run_study, studies
from gauntlet.studies.figures import FloatArray
from gauntlet.studies.page import published_page, study_page
from gauntlet.studies.papers.arnab import fields, model_list, transformations
from gauntlet.studies.papers.arnab.networks import NETWORK
from gauntlet.studies.picturing import picture_page
from gauntlet.studies.printed import Printed
from gauntlet.studies.running import study_jobs
from gauntlet.studies.verdicts import lacks, parts_of, printed_words
from program import Call

SMALL_NETWORK = ModelEntry(address="python:nets:street_network", options={"num_classes": 11, "mean": [0.5] * 3})
STREETS_CLASSES = 11
SMALL = DatasetEntry(name="streets", options={"size": [32, 64], "length": 2})
EVERY_ITEM = [
    *(f"figure-{number}" for number in range(1, 26)),
    *(f"table-{number}" for number in range(1, 21)),
    "text-5.3",
    "text-5.4",
]
ARNAB = [studies[name] for name in studies.names() if name.startswith("arnab/")]
PRINTED = [study for study in ARNAB if study.printed is not None]
# docs/specs/studies.md, 5: DeepLab v2 multiscale loses 2.2 % only; and what the tables say against the general claim.
WHITE_BOX = (
    "ifgsm made on the multiscale network leaves no single scale 5 points (bound ours) more than its own attack."
)
DENIED = {
    ("arnab/text-5.4", "ifgsm-ll at 0.25/255 costs every network 3 % of its mIoU at least."): "does not hold (-0.8)",
    ("arnab/figure-14", "Iterative FGSM is stronger than FGSM ll at 4 and 8/255."): "holds for 8 of 9 networks",
    (
        "arnab/text-5.3",
        "FGSM at 32/255 leaves less than a tenth of the mIoU (bound ours), as on Cityscapes.",
    ): "holds for 6 of 6 networks",
    (
        "arnab/text-5.3",
        "FGSM at 32/255 leaves more than a tenth of the mIoU (bound ours), as on VOC.",
    ): "holds for 8 of 9 networks",
    ("arnab/table-18", WHITE_BOX): "does not hold (-12.9)",
    ("arnab/table-20", WHITE_BOX): "does not hold (-9.5)",
    **{
        (f"arnab/figure-{number}", f"{kind} costs at most 2 points of clean mIoU (bound ours)."): "not printed"
        for number in (6, 7)
        for kind in transformations.KINDS
    },
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("item", EVERY_ITEM)
def test_every_item_of_the_paper_is_a_study(item: str) -> None:
    study = studies[f"arnab/{item}"]
    assert study.name == f"arnab/{item}" or f"arnab/{item}" in study.also


@pytest.mark.parametrize("study", PRINTED, ids=lambda study: study.name)
def test_claims_hold_in_the_published_tables_where_the_paper_is_right(study: Study) -> None:
    assert study.printed is not None
    printed = study.printed()
    for claim in study.claims:
        margins = [float(claim.margin(part)[0]) for _, part in parts_of(claim, printed)]
        if (study.name, claim.text) in DENIED:
            assert printed_words(claim, printed) == DENIED[study.name, claim.text]
        else:
            assert min(margins) > 0, claim.text  # NaN would fail as well


def test_published_figures_are_read_where_the_paper_has_them() -> None:
    table_1 = studies["arnab/table-1"].printed
    assert table_1 is not None
    # Rows are evaluated, columns made on (docs/specs/defences.md, 1).
    assert table_1().ratio("50 %", "fgsm 8/255 from 75 %")[0] == pytest.approx(0.705)
    assert table_1().ratio("multiscale", "ifgsm-ll 8/255 from multiscale")[0] == pytest.approx(0.215)
    assert table_1().miou("multiscale", "clean")[0] == pytest.approx(0.739)
    average = studies["arnab/table-17"].printed
    assert average is not None
    assert average().miou("multiscale", "clean")[0] == pytest.approx(0.734)
    assert average().ratio("multiscale", "ifgsm-ll 8/255 from 100 %")[0] == pytest.approx(0.875)
    assert transformations.printed_matrix()["jpeg", "blur"] == pytest.approx(0.309)
    networks = studies["arnab/figure-3"].printed
    assert networks is not None
    assert networks().ratio(NETWORK, "fgsm 8/255", "PSPNet (ResNet)")[0] == pytest.approx(0.215, abs=5e-4)
    sizes = model_list.printed_list().sizes
    assert {round(4 * sizes[name] / 2**20, 1) for name in ("ENet, Cityscapes", "CRF-RNN (VGG), VOC")} == {1.5, 513.0}


@pytest.mark.parametrize("study", PRINTED, ids=lambda study: study.name)
def test_pages_of_published_figures_are_drawn_with_names_that_differ(study: Study) -> None:
    document = published_page(study, "gauntlet study run")
    tables = [table.id for table in of_type(document, Table)]
    assert tables
    assert len(tables) == len(set(tables))


def test_what_was_never_published_is_told() -> None:
    with pytest.raises(GauntletError, match="nothing is published for the study 'arnab/figure-9'"):
        published_page(studies["arnab/figure-9"], "")


@pytest.mark.parametrize("study", [each for each in ARNAB if each.kind != "picture"], ids=lambda study: study.name)
def test_every_plan_can_be_made(study: Study) -> None:
    least = max(study.least_models, 1)
    names = ["streets/enet", "streets/pspnet", "streets/segformer"][:least]
    jobs = study_jobs(study, names, "streets")
    skipped = sum(threat is None for threat in study.exceptions.values())
    skipped += sum(classes > STREETS_CLASSES for classes in study.least_classes.values())
    assert len(jobs) == least * (len(study.members) * len(study.threats) - skipped)


def test_the_plain_network_is_attacked_with_one_gradient_where_it_draws_nothing() -> None:
    jobs = study_jobs(studies["arnab/figure-7"], ["streets/enet"], "streets")
    attacks = {
        member: jobs["streets/enet", member, "8/255"].job.description["transfer"]["attack"].get("samples", 1)
        for member in ("none", "blur")
    }
    assert attacks == {"none": 1, "blur": 10}
    matrix = study_jobs(studies["arnab/table-2"], ["streets/enet"], "streets")
    for member in ("none", "blur"):  # the diagonal of Table 2 is Figure 7 at 8/255: computed once
        diagonal = matrix["streets/enet", member, f"made for {member}"].job
        assert diagonal.key == jobs["streets/enet", member, "8/255"].job.key


planned = cache(lambda study: study_jobs(studies[study], ["streets/enet"], "streets"))


def described(study: str, cell: tuple[str, str]) -> dict[str, object]:
    """The attack of a cell (member, threat), on streets/enet."""
    description = planned(study)[("streets/enet", *cell)].job.description
    return dict(description.get("transfer", description)["attack"])


def test_attacks_are_those_of_the_paper() -> None:
    # docs/specs/attacks.md, 2: own prediction, alpha min(1, epsilon), iterations by the rule of the table.
    for level, steps in ((0.25, 5), (1, 5), (8, 40), (32, 160)):
        found = described("arnab/figure-14", (NETWORK, f"ifgsm {level:g}/255"))
        assert (found["labels"], found["steps"], found["alpha"]) == ("prediction", steps, min(1, level) / 255)
        assert described("arnab/figure-2", (NETWORK, f"ifgsm-ll {level:g}/255"))["steps"] == steps
        single = described("arnab/figure-2", (NETWORK, f"fgsm {level:g}/255"))
        assert (single["labels"], single["steps"], single["alpha"]) == ("prediction", 1, level / 255)
    transferred = described("arnab/table-1", ("50 %", "fgsm 8/255 from 75 %"))
    assert transferred["labels"] == "prediction"
    # defences.md, 1: the transfer tables fit min(epsilon + 4, 1.25 epsilon) steps.
    for level, steps in ((0.25, 1), (2, 3), (8, 10), (32, 36)):
        found = described("arnab/figure-18", ("multiscale", f"ifgsm-ll {level:g}/255 from 75 %"))
        assert (found["steps"], found["moving_target"]) == (steps, True)
        assert described("arnab/figure-6", ("jpeg", f"{level:g}/255"))["steps"] == steps


@pytest.mark.parametrize(("name", "part"), [("arnab/figure-6", "8/255"), ("arnab/table-2", "made for none")])
def test_a_level_or_a_source_can_be_run_alone(name: str, part: str) -> None:
    study, only = studies[name], ["none", "grey", part]
    results = run_study(study, [SMALL_NETWORK], SMALL, Store(), only=only, prepare="off", batch_size=2)
    assert results.threats == ["clean", part]
    document = study_page(study, results, "gauntlet study run")
    assert any(table.id.startswith("table-here") for table in of_type(document, Table))


FIELD = fields.PARTIAL
SWEPT = {
    fields.member(theta_gamma=width, w_spatial=weight): 0.3 + 0.01 * weight
    for width in fields.SPATIAL_WIDTHS
    for weight in fields.SPATIAL_WEIGHTS
}


@pytest.mark.parametrize(
    ("name", "ratios", "margins"),
    [
        (
            "arnab/figure-9",
            {
                ("plain", "fgsm"): 0.30, (FIELD, "fgsm"): 0.50, (FIELD, "fgsm from plain"): 0.32,
                ("plain", "ifgsm-ll"): 0.10, (FIELD, "ifgsm-ll"): 0.12,
            },
            [0.20, 0.18, 0.03],
        ),
        ("arnab/figure-21", {("theta_alpha 1", "fgsm 8/255"): 0.4, ("theta_alpha 160", "fgsm 8/255"): 0.3}, [0.1]),
        ("arnab/figure-22", {("theta_beta 1", "fgsm 8/255"): 0.3, ("theta_beta 160", "fgsm 8/255"): 0.4}, [-0.1]),
        ("arnab/figure-23", {(member, "fgsm 8/255"): ratio for member, ratio in SWEPT.items()}, [0.09, 0.01]),
        (
            "arnab/figure-16",
            {(NETWORK, "rank 2"): 0.5, (NETWORK, "rank 3"): 0.45, (NETWORK, "least likely"): 0.3},
            [-0.2, 0.05],
        ),
    ],
)  # fmt: skip
def test_margins_of_claims_by_hand(name: str, ratios: dict[tuple[str, str], float], margins: list[float]) -> None:
    figures = Printed("by hand", {}, {("model", *place): value for place, value in ratios.items()}).of("model")
    found = [float(claim.margin(figures)[0]) for claim in studies[name].claims]
    assert found == pytest.approx(margins)


def test_size_does_not_decide_where_neither_network_is_ahead() -> None:
    claim = studies["arnab/figure-3"].claims[0]
    for small, margin in ((0.5, 0.1), (0.42, 0.02), (0.3, -0.1), (0.7, -0.1)):  # the small one ahead decides as well
        ratios = {("small", NETWORK, "fgsm 1/255"): small, ("large", NETWORK, "fgsm 1/255"): 0.5}
        figures = Printed("by hand", {}, ratios, sizes={"small": 1e5, "large": 1e8})
        assert claim.margin(figures) == pytest.approx([margin])


def test_confidence_explains_robustness_where_both_rise() -> None:
    @dataclass(frozen=True)
    class Sure(Printed):
        def certainty(self, name: str, member: str, threat: str, model: str | None = None) -> FloatArray:
            place = list(fields.EVERY_MEMBER).index(member)
            return np.array([place if name == "confidence" else -place], float)

    ratios = {("model", each, "fgsm 8/255"): 0.01 * place for place, each in enumerate(fields.EVERY_MEMBER)}
    figures = Sure("by hand", {}, ratios).of("model")
    for name in ("arnab/figure-24", "arnab/figure-25"):
        (claim,) = studies[name].claims
        assert claim.margin(figures)[0] == pytest.approx(1)
        table, _ = studies[name].drawing(figures)  # only at 8/255: the other levels were left out
        assert table.title == f"IoU ratio under FGSM at 8/255 against {table.title.split()[-1]}"
        assert "n = 18" in table.caption


def test_targets_are_swept_over_the_ranks_that_the_dataset_has() -> None:
    study = studies["arnab/figure-16"]
    assert [label for label in study.threats if label.startswith("rank")] == [f"rank {n}" for n in range(2, 22)]
    results = run_study(study, [SMALL_NETWORK], SMALL, Store(), prepare="off", batch_size=2)
    assert results.threats == ["clean", *(f"rank {n}" for n in range(2, STREETS_CLASSES + 1)), "least likely"]
    # The class of the last rank is the least likely one.
    assert results.ratio(NETWORK, "rank 11") == pytest.approx(results.ratio(NETWORK, "least likely"))
    drawn = {table.title: table for table in of_type(study_page(study, results, ""), Table)}
    columns = drawn["IoU ratio over the rank of the target"].columns
    assert [column.name for column in columns[1:]] == [str(n) for n in range(2, STREETS_CLASSES + 1)]


def test_the_share_of_zero_gradients_is_that_of_the_images() -> None:
    study = studies["arnab/figure-22"]
    results = run_study(study, [SMALL_NETWORK], SMALL, Store(), prepare="off", only=["plain"], batch_size=2)
    rows = results.store.per_image(results.evaluation("plain", "fgsm 8/255").key)
    assert results.zero_gradients("plain", "fgsm 8/255")[0] == pytest.approx(rows["zero_gradient_share"].mean())
    assert all(np.isnan(results.zero_gradients(*cell)[0]) for cell in (("plain", "clean"), ("theta_beta 1", "clean")))
    (table,) = [each for each in of_type(study_page(study, results, ""), Table) if "smoothing" in each.title]
    assert table.columns[-1].name == fields.ZERO


def test_no_field_counts_twice_in_a_correlation() -> None:
    jobs = study_jobs(studies["arnab/figure-24"], ["streets/enet"], "streets")
    digests = [planned.job.model_digest for (_, _, threat), planned in jobs.items() if threat == "clean"]
    assert len(digests) == len(set(digests)) == len(fields.EVERY_MEMBER) == 18


@pytest.mark.parametrize("name", ["arnab/table-3", "arnab/text-5.4"])
def test_studies_draw_from_real_runs(name: str) -> None:
    study = studies[name]
    results = run_study(study, [SMALL_NETWORK], SMALL, Store(), prepare="off", batch_size=2)
    document = study_page(study, results, "gauntlet study run")
    titles = [section.title for section in document.parts[0].sections]
    assert "What the paper found" in titles
    assert len([table.id for table in of_type(document, Table)]) == len(
        {table.id for table in of_type(document, Table)}
    )
    if name == "arnab/table-3":
        table = next(each for each in of_type(document, Table) if each.id.startswith("table-here"))
        network, clean, size, count = table.rows[0]
        assert network == SMALL_NETWORK.address
        assert clean.value == pytest.approx(results.miou(NETWORK, "clean")[0])  # type: ignore[union-attr]
        assert size == pytest.approx(4 * count / 2**20)  # type: ignore[operator]


def test_a_relation_is_drawn_from_real_runs_with_its_coefficient() -> None:
    study = studies["arnab/figure-4"]
    names = [("streets/enet", {}), ("python:nets:street_network", SMALL_NETWORK.options)]
    models = [ModelEntry(address=name, options=options) for name, options in names]
    with pytest.raises(GauntletError, match="needs 3 at least, not 2"):
        run_study(study, models, SMALL, Store())
    models.append(ModelEntry(address="streets/pspnet"))
    results = run_study(study, models, SMALL, Store(), prepare="off", batch_size=2)
    table = next(of_type(study_page(study, results, ""), Table))
    assert table.id == "verdicts"
    drawn = [each for each in of_type(study_page(study, results, ""), Table) if each.title == "Accuracy and robustness"]
    assert "n = 3" in drawn[0].caption
    assert "n = 9" in drawn[1].caption


def test_an_attack_that_leaves_nothing_says_nothing_of_who_is_more_robust() -> None:
    claim = next(each for each in studies["arnab/figure-14"].claims if "not the most robust" in each.text)

    def figures(*left: float) -> Printed:
        names = [f"network {index}" for index in range(len(left))]
        clean = {(name, NETWORK, "clean"): 0.8 for name in names}
        return Printed(
            "", {**clean, **{(n, NETWORK, "ifgsm 8/255"): 0.8 * v for n, v in zip(names, left, strict=True)}}
        )

    assert lacks(claim, figures(0.041, 0.012, 0.039)) == "the attack leaves no network more than 4.1% of its mIoU"
    assert lacks(claim, figures(0.041, 0.11, 0.039)) == ""


def test_pictures_of_an_image_of_the_dataset(tmp_path: Path) -> None:
    study = studies["arnab/figure-5"]
    document = picture_page(study, [SMALL_NETWORK], SMALL, "", image="1")
    galleries = list(of_type(document, Gallery))
    assert [each.title for each in galleries] == list(study.members)
    captions = [picture.caption for picture in galleries[0].exhibits[0].pictures]
    assert captions[:3] == ["input", "ground truth", "clean prediction"]
    assert len(captions) == 3 + 3 * len(study.threats)
    assert "pixel accuracy" in galleries[0].exhibits[0].detail
    with pytest.raises(GauntletError, match="neither an image file nor an image of 'streets'"):
        picture_page(study, [SMALL_NETWORK], SMALL, "", image="7")


def test_pictures_of_a_detector() -> None:
    study = studies["detecbench/figure-25"]
    quick = {"attack": {"name": "fgsm", "epsilon": "8/255"}}
    study = replace(study, threats={"FGSM": quick, "fog_3d": study.threats["fog_3d"]})
    data = DatasetEntry(name="streets", options={"size": [64, 128], "length": 1})
    (gallery,) = of_type(picture_page(study, ["streets/fcos"], data, ""), Gallery)
    captions = [picture.caption for picture in gallery.exhibits[0].pictures]
    assert captions[1].startswith("ground truth: ")
    assert captions[2].startswith("clean prediction: ")
    assert [each.partition(": ")[0] for each in captions[3:]] == ["FGSM"] * 3 + ["fog_3d"] * 3
    assert "F1 of the boxes" in gallery.exhibits[0].detail
    with pytest.raises(GauntletError, match="a detector has none"):
        picture_page(studies["spatial/figure-7"], ["streets/fcos"], data, "")


def test_the_command_draws_a_picture_of_a_file_and_published_figures(call: Call, tmp_path: Path) -> None:
    import cv2

    path = tmp_path / "street.png"
    assert cv2.imwrite(str(path), np.full((32, 64, 3), 120, np.uint8))
    code, _, err = call(
        "study", "run", "arnab/figure-1", "--model", "streets/enet", "--image", str(path), "--output", str(tmp_path)
    )
    assert code == 0, err
    assert "ground truth" not in (tmp_path / "arnab-figure-1.html").read_text()
    linked = re.findall(r"!\[[^]]*\]\((.+?)\)", (tmp_path / "arnab-figure-1.md").read_text())
    shapes = [cv2.imread(str(tmp_path / each)).shape for each in linked]
    assert len(linked) == len(set(linked)) >= 3
    assert {shape[1] / shape[0] for shape in shapes} == {2}
    code, _, err = call("study", "run", "arnab/text-5.3", "--published", "--output", str(tmp_path))
    assert code == 0, err
    assert "holds for 6 of 6 networks" in (tmp_path / "arnab-text-5.3.md").read_text()

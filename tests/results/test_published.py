"""The packaged figures against what is known about them, and cell by cell against copies of their sources."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
from importlib import resources

import numpy as np
import pandas as pd
import pytest

from gauntlet import analysis
from gauntlet.errors import GauntletError
from gauntlet.results import published
from gauntlet.results.descriptions import read_description, threat_settings
from paths import DATA, ROOT

COPIES = DATA / "published"
ROWS = {
    "semsegbench": 5988,
    "semsegbench_rerun": 720,
    "detecbench_interim": 774,
    "detecbench_voc_ap50": 102,
    "detecbench_notebook": 76,
    "detecbench_corruptions": 6,
    "adversarially_trained": 32,
    "halmosi": 1920,
    "arnab": 806,
    "spatial": 266,
    "michaelis": 6816,
}


def figure(rows: pd.DataFrame, threat: str, metric: str = "mIoU") -> float:
    actual = rows[rows["threat"].eq(threat) & rows["metric"].eq(metric)]["value"]
    assert len(actual) == 1
    return float(actual.iloc[0])


def test_every_source_has_the_rows_of_its_copy() -> None:
    assert dict(published.sources().set_index("source")["figures"]) == ROWS


def test_the_packaged_file_is_small() -> None:
    packed = resources.files("gauntlet.results.published").joinpath("figures.csv.gz").read_bytes()
    assert len(packed) < 400_000


def test_counts_of_semsegbench() -> None:
    rows = published.frame(source="semsegbench", summaries=True)
    assert len(rows[["model", "dataset"]].drop_duplicates()) == 76
    assert rows["kind"].value_counts().to_dict() == {
        "corruption": 3420,
        "attack": 1074,
        "summary": 786,
        "weather": 480,
        "clean": 228,
    }
    assert set(rows.loc[rows["kind"].eq("weather"), "dataset"]) == {"cityscapes"}


def test_values_are_fractions_with_the_printed_digits() -> None:
    rows = published.frame()
    assert rows["value"].min() >= 0
    assert rows.loc[rows["metric"].ne("IoU ratio"), "value"].max() <= 1
    assert rows["value"].max() == 1.002  # Arnab et al. print an IoU ratio of 100.2
    unet = published.find("UNet", "UNet Convolutions", "Cityscapes")
    assert [figure(unet, "clean", metric) for metric in ("aAcc", "mIoU", "mAcc")] == [0.9491, 0.6910, 0.7676]


def test_second_runs_and_printed_summaries_come_only_when_asked_for() -> None:
    rows = published.frame()
    assert "semsegbench_rerun" not in set(rows["source"])
    assert "summary" not in set(rows["kind"])
    assert len(published.frame(source="semsegbench_rerun")) == 720
    assert len(published.frame(kind="summary")) == 786


def test_filters() -> None:
    rows = published.frame("segmentation", "ade20k", kind=["clean", "attack"], metric="mIoU")
    assert set(rows["dataset"]) == {"ade20k"}
    assert set(rows["kind"]) == {"clean", "attack"}
    assert rows["kind"].eq("clean").sum() == 26
    with pytest.raises(GauntletError, match="did you mean 'ade20k'"):
        published.frame(dataset="ade20")


def test_find_understands_the_spellings_of_the_benchmark() -> None:
    rows = published.find("DeepLabV3+", "ResNet-101", "VOC2012")
    assert set(rows["model"]) == {"deeplabv3plus/resnet101"}
    assert figure(rows, "clean") == 0.7862
    assert figure(published.find("upernet", "InternImage-XLarge", "ade20k"), "clean") == 0.5391


def test_find_covers_detectors() -> None:
    rows = published.find("ATSS", "ResNet101", "coco")
    interim = rows[rows["source"].eq("detecbench_interim")]
    assert figure(interim, "clean", "mAP") == 0.415
    assert figure(interim, "clean", "mAP50") == 0.599  # under the names of the store
    names = set(published.frame("detection")["metric"])
    ours = {"mAP", "mAP50", "mAP75", "mAP_small", "mAP_medium", "mAP_large", "VOC_mAP50"}
    assert names == ours | {"pascal_voc_mAP", "mask_mAP", "mask_mAP50"}
    # Triples say less than the tables do: which TOOD, which ResNeXt.
    assert set(published.find("TOOD", "ResNet101", "coco")["model"]) == {"TOOD_R-101-dcnv2"}
    assert set(published.find("FreeAnchor", "ResNeXt101", "coco")["model"]) == {"FreeAnchor_X-101-32x4d-FPN"}
    assert set(published.find("FreeAnchor", "R-101", "voc2007")["model"]) == {"free_anchor_r101_voc0712"}


def test_two_crop_sizes_are_an_error_not_a_guess() -> None:
    with pytest.raises(GauntletError, match="512x1024 and 1024x1024"):
        published.find("segformer", "mit-b0", "cityscapes")
    small = published.find("segformer", "mit-b0", "cityscapes", crop_size="512x1024")
    large = published.find("segformer", "mit-b0", "cityscapes", crop_size="1024x1024")
    assert (figure(small, "clean"), figure(large, "clean")) == (0.6906, 0.7654)
    with pytest.raises(GauntletError, match="crop size"):
        published.find("segformer", "mit-b0", "cityscapes", crop_size="768x768")
    assert len(published.find("mask2former", "swin-b", "ade20k", crop_size="640x640")) == 54


def test_seven_triples_exist_at_two_crop_sizes() -> None:
    models = published.models(source="semsegbench")
    crops = models.groupby(["architecture", "backbone", "dataset"])["crop_size"].nunique()
    ambiguous = crops[crops > 1]
    assert set(ambiguous.index) == {("segformer", f"mit-b{size}", "cityscapes") for size in range(6)} | {
        ("mask2former", "swin-b", "ade20k")
    }


@pytest.mark.parametrize(
    ("triple", "words"),
    [
        (("segfromer", "mit-b0", "ade20k"), "did you mean 'segformer'"),
        (("segformer", "mit-b9", "ade20k"), "backbone of the published segformer on ade20k"),
        (("segformer", "mit-b0", "kitti"), "dataset of the published models"),
    ],
)
def test_unknown_names_say_what_there_is(triple: tuple[str, str, str], words: str) -> None:
    with pytest.raises(GauntletError, match=words):
        published.find(*triple)


def test_figures_of_a_threat_are_found_by_its_budget() -> None:
    rows = published.find("segformer", "mit-b0", "ade20k")
    pgd = {"name": "pgd", "epsilon": "8/255", "alpha": 0.01, "norm": "linf", "steps": 20, "random_start": True}
    assert figure(published.of_threat(rows, {"attack": pgd}), "pgd linf 8/255 x20") == 0.0046
    assert published.of_threat(rows, {"attack": {**pgd, "steps": 40}}).empty
    assert published.of_threat(rows, {"attack": {**pgd, "norm": "l2"}}).empty
    fog = published.of_threat(rows, {"corruption": {"name": "fog", "severity": 3}})
    assert fog["value"].tolist() == rows[rows["threat"].eq("fog 3")]["value"].tolist()
    assert len(fog) == 3
    assert set(published.of_threat(rows, {"clean": {}})["metric"]) == {"mIoU", "mAcc", "aAcc"}
    street = published.find("unet", "custom", "cityscapes")
    assert len(published.of_threat(street, {"weather": {"condition": "night"}})) == 3


@pytest.mark.parametrize(
    "aim", [{"target": 0}, {"region": {"square": {"size": "quarter"}}}, {"fooling_region": {"classes": [0]}}]
)
def test_targeted_attacks_and_attacks_on_a_part_were_not_published(aim: dict[str, object]) -> None:
    rows = published.find("segformer", "mit-b0", "ade20k")
    pgd = {"name": "pgd", "epsilon": "8/255", "norm": "linf", "steps": 20}
    assert len(published.of_threat(rows, {"attack": {**pgd, **dict.fromkeys(aim)}})) == 3
    assert published.of_threat(rows, {"attack": {**pgd, **aim}}).empty


def printed_and_computed(summary: str, computed: pd.DataFrame) -> pd.DataFrame:
    printed = published.frame(source="semsegbench", kind="summary")
    keys = ["model", "dataset", "metric"]
    return computed[computed["summary"].eq(summary)].merge(
        printed[printed["threat"].eq(summary)], on=keys, suffixes=("_computed", "_printed")
    )


def test_printed_gam_is_wrong_in_exactly_the_twelve_flagged_cells() -> None:
    both = printed_and_computed("GAM_3", analysis.gam(published.frame(source="semsegbench")))
    assert len(both) == 228
    wrong = both[~np.isclose(both["value_computed"], both["value_printed"], atol=1e-9)]
    assert set(zip(wrong["model"], wrong["metric"], strict=True)) == {
        (f"segformer/mit-b{size}@512x1024", metric) for size in range(4) for metric in ("mIoU", "mAcc", "aAcc")
    }
    flagged = both["flag_printed"].str.contains("gam_not_minimum")
    assert set(wrong.index) == set(both.index[flagged])


def test_printed_rem_and_means_are_right() -> None:
    rows = published.frame(source="semsegbench")
    for summary in ("linf-ReM^8_20", "l2-ReM^64_20"):
        both = printed_and_computed(summary, analysis.rem(rows).dropna(subset="value"))
        assert len(both) == 165
        np.testing.assert_allclose(both["value_computed"], both["value_printed"], atol=1e-9)
    means = published.frame(source="semsegbench", kind="summary")
    means = means[means["threat"].eq("mean of corruptions 3")]
    both = analysis.gam(rows).merge(means, on=["model", "dataset", "metric"])
    assert len(both) == 228
    np.testing.assert_allclose(both["mean"], both["value_y"], atol=1e-4)


def test_rem_needs_every_attack_and_names_what_is_missing() -> None:
    rem = analysis.rem(published.frame(source="semsegbench"))
    mask2former = rem[rem["model"].str.startswith("mask2former")]
    assert len(mask2former) > 0
    assert mask2former["value"].isna().all()
    assert mask2former["mean"].isna().all()
    assert set(mask2former["members"]) == {"pgd"}
    assert set(mask2former["missing"]) == {"segpgd, cospgd"}
    assert set(rem.dropna(subset="value")["missing"]) == {""}


def test_gam_of_one_model_by_hand() -> None:
    gam = analysis.gam(published.frame(source="semsegbench", dataset="ade20k", metric="mIoU"))
    row = gam[gam["model"].eq("segformer/mit-b0")].iloc[0]
    assert (row["value"], row["worst"], row["summary"]) == (0.1773, "zoom_blur", "GAM_3")


def test_gam_of_detection_asks_for_three_dimensional_corruptions_too() -> None:
    gam = analysis.gam(published.frame(source="detecbench_corruptions", metric="mAP"))
    assert gam["value"].isna().all()
    assert set(gam["members"]) == {"far_focus"}
    assert len(gam["missing"].iloc[0].split(", ")) == 22


def test_failed_and_repeated_runs_carry_flags_and_reasons() -> None:
    rows = published.frame(source="semsegbench")
    repeated = rows[rows["flag"].str.contains("repeated_run")]
    assert set(repeated["model"]) == {"deeplabv3/resnet101"}
    assert len(repeated) == 45
    twin = rows[rows["model"].eq("deeplabv3/resnet50") & rows["dataset"].eq("ade20k") & rows["kind"].eq("corruption")]
    both = repeated.merge(twin, on=["threat", "metric"])
    assert (both["value_x"] == both["value_y"]).all()
    assert twin["flag"].eq("failed_run").all()
    broken = rows[rows["model"].eq("deeplabv3plus/resnet18") & rows["kind"].eq("corruption")]
    assert broken["flag"].eq("failed_run").all()
    constant = broken[broken["metric"].eq("mIoU") & broken["value"].eq(0.0198)]
    assert len(constant) == 11
    assert rows.loc[rows["flag"].ne(""), "reason"].ne("").all()
    assert rows.loc[rows["flag"].eq(""), "reason"].eq("").all()


def test_the_overwritten_run_is_kept_as_a_second_run() -> None:
    rows = published.frame(source="semsegbench_rerun", dataset="ade20k")
    rows = rows[rows["model"].eq("deeplabv3/resnet101")]
    assert figure(rows, "gaussian_noise 3") == 0.255


def test_the_runs_flagged_for_brightness_are_those_that_lose_much() -> None:
    rows = published.frame(source="semsegbench", metric="mIoU")
    keys = ["model", "dataset"]
    bright = rows[rows["threat"].eq("brightness 3")].merge(rows[rows["threat"].eq("clean")], on=keys)
    loss = 1 - bright["value_x"] / bright["value_y"]
    flagged = bright["flag_x"].eq("brightness_loss")
    assert flagged.sum() == 6
    assert loss[flagged].between(0.155, 0.255).all()
    assert loss[bright["flag_x"].eq("")].max() < 0.05


def test_swapped_parameter_counts_are_a_matter_of_the_model() -> None:
    models = published.models(source="semsegbench")
    doubtful = models[models["model_flag"].ne("")]
    assert set(zip(doubtful["backbone"], doubtful["dataset"], strict=True)) == {
        ("internimage-b", "ade20k"),
        ("internimage-l", "ade20k"),
    }
    rows = published.unflagged(published.frame(source="semsegbench", dataset="ade20k"))
    assert rows.loc[rows["backbone"].eq("internimage-b"), "parameters"].isna().all()
    assert rows["backbone"].eq("internimage-b").any()


def test_unflagged_drops_what_its_levels_say() -> None:
    rows = published.frame(source="semsegbench")
    assert len(rows) - len(published.unflagged(rows)) == 405
    assert len(rows) - len(published.unflagged(rows, levels=["fault"])) == 135
    assert len(published.unflagged(published.frame(source="spatial"))) == 266
    assert len(published.unflagged(published.frame(source="spatial"), levels=["note"])) == 14
    with pytest.raises(GauntletError, match="level of a flag"):
        published.unflagged(rows, levels=["bad"])


def test_descriptions_say_the_settings_on_the_unit_scale() -> None:
    rows = published.frame(source="semsegbench", dataset="ade20k", metric="mIoU")
    row = rows[rows["threat"].eq("pgd l2 64/255 x20")].iloc[0]
    assert json.loads(row["description"]) == {
        "attack": {"name": "pgd", "norm": "l2", "epsilon": 64 / 255, "alpha": 0.1, "steps": 20}
    }
    settings = threat_settings(rows)
    assert settings.index.equals(rows.index)
    assert set(settings.loc[rows["kind"].eq("corruption"), "severity"]) == {3.0}
    assert settings.loc[rows["kind"].eq("clean"), "epsilon"].isna().all()


def test_descriptions_of_nested_threats() -> None:
    text = '{"region_aware": {"attack": {"name": "bim", "epsilon": "16/255", "steps": 50}, "rounds": 3}}'
    assert read_description(text) == {"attack": "bim", "epsilon": 16 / 255, "steps": 50.0, "rounds": 3.0}
    assert read_description("") == {}


def test_halmosi_labels_are_resolved_and_say_so() -> None:
    rows = published.frame(source="halmosi")
    inferred = rows["flag"].str.contains("label_inferred")
    assert inferred.sum() == 1260
    # DAG with the smaller step is never the stronger attack once the labels are put right (README of the copies).
    keys = ["table", "model", "dataset", "view", "metric"]
    small = rows[rows["threat"].str.startswith("dag-0.001")]
    large = rows[rows["threat"].str.startswith("dag-0.003")]
    both = small.merge(large, on=keys, suffixes=("_small", "_large"))
    both = both[both["table"].isin(["4", "5", "6", "7"])]
    assert len(both) == 132
    assert (both["value_small"] >= both["value_large"]).all()


def test_swapped_columns_of_table_three_are_flagged() -> None:
    rows = published.frame(source="adversarially_trained")
    assert set(rows.loc[rows["flag"].eq("columns_swapped"), "threat"]) == {"segapgd linf 8/255 x10"}


def test_detectors_know_their_kind_and_date() -> None:
    models = published.models("detection")
    assert models.loc[models["source"].ne("michaelis"), "date"].notna().all()
    kinds = models.set_index("architecture")["proposal_type"].to_dict()
    assert (kinds["RetinaNet"], kinds["Faster R-CNN"], kinds["DINO"]) == ("dense", "two-stage", "sparse")


def test_a_returned_frame_is_the_callers_own() -> None:
    rows = published.frame(source="spatial")
    rows["value"] = 0.0
    assert published.frame(source="spatial")["value"].max() > 0.5


def test_every_semsegbench_cell_equals_its_copy() -> None:
    copy = pd.read_csv(COPIES / "semsegbench.csv.gz", dtype=str, keep_default_na=False)
    rows = published.frame(source="semsegbench", summaries=True)
    keys = ["architecture", "backbone", "dataset", "crop_size", "metric", "printed", "norm"]
    settings = threat_settings(rows)
    norm = rows["threat"].str.extract("^(linf|l2)-ReM", expand=False).fillna("")
    rows = rows.assign(norm=settings["norm"].where(settings["norm"].ne(""), norm))
    weather = copy["threat"].eq("acdc").map({True: "weather", False: ""})
    both = copy.assign(printed=copy["name"], weather=weather).merge(
        rows.assign(weather=rows["kind"].where(rows["kind"].eq("weather"), "")),
        on=[*keys, "weather"],
        how="outer",
        validate="1:1",
        suffixes=("_copy", ""),
    )
    assert len(both) == 5988
    assert np.allclose(both["value_copy"].astype(float) / 100, both["value"], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("source", "name", "column", "scale"),
    [
        ("semsegbench_rerun", "semsegbench_corruptions_rerun.csv", "value_rerun", 100),
        ("detecbench_interim", "detecbench_interim.csv", "value", 1),
        ("detecbench_voc_ap50", "detecbench_voc_ap50_interim.csv", "value", 1),
        ("detecbench_notebook", "detecbench_notebook_interim.csv", "value", 1),
        ("halmosi", "halmosi_tables.csv", "value", 100),
        ("arnab", "arnab_tables.csv", "value", 100),
        ("spatial", "spatial_table1.csv", "accuracy", 100),
        ("adversarially_trained", "adversarially_trained_table3.csv", "value", 100),
    ],
)
def test_the_values_of_every_other_source_equal_its_copy(source: str, name: str, column: str, scale: float) -> None:
    copy = pd.read_csv(COPIES / f"{name}.gz")
    np.testing.assert_allclose(published.frame(source=source)["value"], copy[column] / scale, rtol=0, atol=1e-12)


def test_the_values_of_michaelis_equal_their_copy() -> None:
    copy = pd.read_csv(COPIES / "michaelis_detection.csv.gz")
    rows = published.frame(source="michaelis")
    assert len(rows[["dataset", "model"]].drop_duplicates()) == 27
    for column, names in (("AP", ["mAP", "mask_mAP"]), ("AP50", ["mAP50", "mask_mAP50", "VOC_mAP50"])):
        expected = copy[column].dropna().to_numpy()
        np.testing.assert_allclose(rows.loc[rows["metric"].isin(names), "value"], expected, rtol=0, atol=1e-12)
    styled = rows[rows["model"].eq("faster_rcnn_r50_fpn_1x_cocoscoco")].iloc[0]
    assert tuple(styled[["architecture", "backbone", "training"]]) == (
        *("Faster R-CNN", "R-50-FPN", "clean and stylized data"),
    )


def test_the_packaged_table_is_what_the_script_builds() -> None:
    spec = importlib.util.spec_from_file_location("build_published", ROOT / "scripts" / "build_published.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    packed = resources.files("gauntlet.results.published").joinpath("figures.csv.gz").read_bytes()
    packaged = pd.read_csv(io.BytesIO(gzip.decompress(packed)), dtype=str, keep_default_na=False)
    built = script.build(COPIES).reset_index(drop=True)
    script.check(built)
    pd.testing.assert_frame_equal(built, packaged, check_dtype=False)

"""Turns the CSV copies of published figures into the compact table that the package ships.

    python scripts/build_published.py [--input ../shared/published] [--output FILE]

The result is committed; this script is only needed when the copies change. The tests have compressed copies in
`tests/data/published`, which it reads as well.
"""

from __future__ import annotations

import argparse
import gzip
import io
import re
from decimal import Decimal
from pathlib import Path

import pandas as pd

from gauntlet.models.zoo.spelling import canonical_architecture
from gauntlet.results.published.flags import FLAGS
from gauntlet.results.published.reading import STORED_COLUMNS
from gauntlet.results.published.sources import SOURCES

ROOT = Path(__file__).resolve().parents[1]
MODEL = ["architecture", "backbone", "dataset", "crop_size"]
TWO_STAGE = (
    "cascade mask r-cnn, cascade r-cnn, double heads, dynamic r-cnn, faster r-cnn, ga-faster r-cnn, grid r-cnn, "
    "libra r-cnn, sabl cascade r-cnn, sabl faster r-cnn"
)
SPARSE = (
    "co-dino, conditional detr, dab-detr, ddq detr-4scale, ddq detr-5scale, detr, dino, sparse r-cnn, "
    "two-stage deformable detr, deformable detr"
)
# Names of the exports whose date stands under another name in the paper's Table 4.
DATED_AS = {
    "co-dino": "co-detr",
    "ddq detr-4scale": "ddq detr",
    "ddq detr-5scale": "ddq detr",
    "two-stage deformable detr": "deformable detr",
}
# Table 6 of Arnab et al. spells some networks differently from Tables 7 to 14.
ARNAB_PARAMETERS = {
    "E-Net": "ENet",
    "ICNet": "ICNet",
    "PSPNet (ResNet-101)": "PSPNet (ResNet)",
    "Segnet (VGG)": "SegNet (VGG)",
    "Deeplab v2 (VGG)": "Deeplab v2 ASPP (VGG)",
    "Deeplab v2 (ResNet-101)": "Deeplab v2 ASPP (ResNet)",
    "FCN8s (ResNet-101)": "FCN8s (ResNet)",
}
# What Michaelis et al. call COCO's figures; the ten others of their files are left out.
MICHAELIS_METRICS = {"AP": "mAP", "AP50": "mAP_50"}
MICHAELIS_ARCHITECTURES = {
    "cascade_mask_rcnn": "Cascade Mask R-CNN",
    "cascade_rcnn": "Cascade R-CNN",
    "faster_rcnn": "Faster R-CNN",
    "htc": "Hybrid Task Cascade",
    "mask_rcnn": "Mask R-CNN",
    "retinanet": "RetinaNet",
}
SWAPPED_PARAMETERS = ("internimage-b", "internimage-l")
BRIGHT_SEGFORMERS = ("mit-b1", "mit-b2", "mit-b3", "mit-b4", "mit-b5")


def main() -> None:
    """Reads the copies, checks and writes the packaged table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", type=Path, default=ROOT.parent / "shared" / "published")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "src" / "gauntlet" / "results" / "published" / "figures.csv.gz"
    )
    options = parser.parse_args()
    table = build(options.input)
    check(table)
    text = io.StringIO()
    table.to_csv(text, index=False, lineterminator="\n")
    # No file name and no time inside, so that the same figures give the same bytes.
    options.output.write_bytes(gzip.compress(text.getvalue().encode(), compresslevel=9, mtime=0))
    print(f"{len(table)} figures, {options.output.stat().st_size / 1024:.0f} KB -> {options.output}")


def build(folder: Path) -> pd.DataFrame:
    """Every published figure in the packaged form: text columns, values as fractions with the printed digits."""
    parts = [
        semsegbench(folder),
        semsegbench_rerun(folder),
        detecbench(folder, "detecbench_interim", "detecbench_interim.csv"),
        detecbench(folder, "detecbench_voc_ap50", "detecbench_voc_ap50_interim.csv"),
        detecbench(folder, "detecbench_notebook", "detecbench_notebook_interim.csv"),
        detecbench_corruptions(folder),
        adversarially_trained(folder),
        halmosi(folder),
        arnab(folder),
        spatial(folder),
        michaelis(folder),
    ]
    table = pd.concat(parts, ignore_index=True).reindex(columns=STORED_COLUMNS).fillna("")
    return table.sort_values(["source"], key=lambda names: names.map(list(SOURCES).index), kind="stable")


def check(table: pd.DataFrame) -> None:
    """Refuses a table with two figures for one cell, an unknown flag or a value outside its range."""
    cell = [column for column in STORED_COLUMNS if column not in ("value", "flag", "model_flag", "parameters")]
    twice = table[table.duplicated(cell, keep=False)]
    if len(twice):
        raise SystemExit(f"two figures for one cell:\n{twice.to_string()}")
    codes = {code for text in [*table["flag"], *table["model_flag"]] for code in text.split()}
    if codes - set(FLAGS):
        raise SystemExit(f"unknown flags: {sorted(codes - set(FLAGS))}")
    values = table["value"].astype(float)
    beyond = values.gt(1) & table["metric"].ne("IoU ratio")
    if values.lt(0).any() or beyond.any():
        raise SystemExit("a value lies outside [0, 1]")


def read(folder: Path, name: str) -> pd.DataFrame:
    """A CSV copy, plain or compressed, as text, so that no digit changes."""
    path = folder / name
    return pd.read_csv(path if path.exists() else folder / f"{name}.gz", dtype=str, keep_default_na=False)


def fraction(percent: str) -> str:
    """A printed percentage as a fraction with the same digits: "94.91" -> "0.9491"."""
    return plain(Decimal(percent).scaleb(-2))


def plain(value: Decimal) -> str:
    """Digits without an exponent or trailing zeros."""
    return format(value.normalize(), "f")


def on_unit_scale(grey_levels: str) -> str:
    """A number on the 0 to 255 scale as text on [0, 1]: "8" -> "8/255"."""
    return f"{grey_levels}/255" if grey_levels not in ("", "0") else ""


def flag_where(table: pd.DataFrame, rows: pd.Series, code: str, column: str = "flag") -> None:
    """Adds a code to the chosen rows, after any code they have."""
    table.loc[rows, column] = (table.loc[rows, column] + " " + code).str.strip()


def new_flags(table: pd.DataFrame) -> pd.DataFrame:
    """The table with empty flag columns."""
    return table.assign(flag="", model_flag="")


def segmentation_names(table: pd.DataFrame) -> pd.Series:
    """architecture/backbone, with @crop where a triple exists at two crop sizes."""
    triple = ["architecture", "backbone", "dataset"]
    ambiguous = table.groupby(triple)["crop_size"].transform("nunique") > 1
    plain_name = table["architecture"] + "/" + table["backbone"]
    return plain_name.where(~ambiguous, plain_name + "@" + table["crop_size"])


def is_model(table: pd.DataFrame, architecture: str, backbone: str, dataset: str, crop_size: str = "") -> pd.Series:
    """Which rows belong to one checkpoint."""
    chosen = table["architecture"].eq(architecture) & table["backbone"].eq(backbone) & table["dataset"].eq(dataset)
    return chosen & table["crop_size"].eq(crop_size) if crop_size else chosen


def semsegbench(folder: Path) -> pd.DataFrame:
    """The 76 segmentation checkpoints, with the faults that the README of the copies lists."""
    table = new_flags(read(folder, "semsegbench.csv"))
    kinds = {"clean": "clean", "corruption": "corruption", "attack": "attack", "acdc": "weather", "summary": "summary"}
    table = table.rename(columns={"num_params": "parameters", "time_proposed": "date"}).assign(
        source="semsegbench",
        task="segmentation",
        model=segmentation_names,
        proposal_type=lambda rows: rows["architecture"].map(
            lambda name: "mask classification" if name == "mask2former" else "per pixel"
        ),
        kind=lambda rows: rows["threat"].map(kinds),
        printed=lambda rows: rows["name"],
        value=lambda rows: rows["value"].map(fraction),
    )
    # The l2 budget is printed as 64, on the 0 to 255 scale, next to a step of 0.1 on [0, 1].
    table["epsilon"] = table["epsilon"].replace({"64": "64/255"})
    attacks = table["kind"].eq("attack")
    table["alpha"] = table["norm"].map({"linf": "0.01", "l2": "0.1", "": ""}).where(attacks, "")
    summary = table["kind"].eq("summary")
    notation = {"gam": "GAM_3", "mean": "mean of corruptions 3"}
    rem = table["norm"].map({"linf": "linf-ReM^8_20", "l2": "l2-ReM^64_20", "": ""})
    table.loc[summary, "name"] = table["name"].map(notation).fillna(rem)[summary]

    corrupted = table["kind"].eq("corruption") | table["name"].isin(notation.values())
    smallest = (
        table[table["kind"].eq("corruption")]
        .assign(number=lambda rows: rows["value"].astype(float))
        .groupby([*MODEL, "metric"], as_index=False)["number"]
        .min()
    )
    expected = table.merge(smallest, on=[*MODEL, "metric"], how="left")["number"].set_axis(table.index)
    wrong = table["name"].eq("GAM_3") & (table["value"].astype(float) - expected).abs().gt(1e-9)
    flag_where(table, wrong, "gam_not_minimum")
    flag_where(table, corrupted & is_model(table, "deeplabv3", "resnet101", "ade20k"), "repeated_run")
    for broken in (("deeplabv3", "resnet50", "ade20k"), ("deeplabv3plus", "resnet18", "cityscapes")):
        flag_where(table, corrupted & is_model(table, *broken), "failed_run")
    # The repeated figures are those of the failed run.
    flag_where(table, corrupted & is_model(table, "deeplabv3", "resnet101", "ade20k"), "failed_run")
    for backbone in BRIGHT_SEGFORMERS:
        chosen = is_model(table, "segformer", backbone, "cityscapes", "512x1024")
        flag_where(table, corrupted & chosen, "brightness_loss")
    flag_where(table, corrupted & is_model(table, "upernet", "internimage-t", "voc"), "brightness_loss")
    swapped = table["backbone"].isin(SWAPPED_PARAMETERS) & table["dataset"].eq("ade20k")
    flag_where(table, swapped, "parameters_swapped", "model_flag")
    return table


def semsegbench_rerun(folder: Path) -> pd.DataFrame:
    """Second corruption runs, with the model columns of the first."""
    first = semsegbench(folder).drop_duplicates(MODEL)
    models = first[[*MODEL, "model", "backbone_type", "proposal_type", "parameters", "date", "task", "model_flag"]]
    table = read(folder, "semsegbench_corruptions_rerun.csv").merge(models, on=MODEL, how="left", validate="m:1")
    return table.assign(
        source="semsegbench_rerun",
        kind="corruption",
        severity="3",
        printed=table["name"],
        flag="",
        value=table["value_rerun"].map(fraction),
    )


def detector_parts(name: str) -> tuple[str, str]:
    """Architecture and backbone inside an export's model name."""
    if name == "retinanet_x101-64x4d_fpn_1x_coco":
        return "RetinaNet", "X-101-64x4d-FPN"
    architecture, _, backbone = name.removesuffix("_voc0712").rpartition("_")
    return architecture, backbone


def detector_columns(folder: Path, table: pd.DataFrame) -> pd.DataFrame:
    """Architecture, backbone and their kinds, and the date from the paper's Table 4."""
    models = read(folder, "detecbench_models.csv")
    dates = dict(zip(models["architecture"].map(canonical_architecture), models["date"], strict=True))
    parts = table["model"].map(detector_parts)
    table = table.assign(architecture=parts.str[0], backbone=parts.str[1], task="detection")
    two_stage = {canonical_architecture(name) for name in TWO_STAGE.split(", ")}
    sparse = {canonical_architecture(name) for name in SPARSE.split(", ")}
    dated_as = {canonical_architecture(name): canonical_architecture(other) for name, other in DATED_AS.items()}

    def proposal(architecture: str) -> str:
        name = canonical_architecture(architecture)
        return "two-stage" if name in two_stage else "sparse" if name in sparse else "dense"

    def date(architecture: str) -> str:
        name = canonical_architecture(architecture)
        return str(dates.get(dated_as.get(name, name), ""))

    return table.assign(
        backbone_type=table["backbone"].map(
            lambda name: "transformer" if re.match("swin", name, re.IGNORECASE) else "convolution"
        ),
        proposal_type=table["architecture"].map(proposal),
        date=table["architecture"].map(date),
    )


def detecbench(folder: Path, source: str, name: str) -> pd.DataFrame:
    """One of the interim exports of detection runs."""
    table = new_flags(detector_columns(folder, read(folder, name)))
    # An attack with 0 steps in the notebook is the clean run of that attack's log: kept apart by its printed name.
    clean = table["attack"].eq("none") | table["steps"].eq("0")
    attacked = ~clean
    table = table.assign(
        source=source,
        kind=clean.map({True: "clean", False: "attack"}),
        name=table["attack"].where(attacked, "clean"),
        printed=table["attack"],
        table=table.get("notebook_commit", ""),
        norm=table["norm"].replace({"inf": "linf", "": "linf"}).where(attacked, ""),
        epsilon=table["epsilon"].map(on_unit_scale).where(attacked, ""),
        alpha=table["alpha"].map(on_unit_scale).where(attacked, ""),
        steps=table["steps"].replace({"": "1"}).where(attacked, ""),
        value=table["value"].map(lambda text: plain(Decimal(text))),
    )
    settings_missing = clean & table["steps"].eq("") & read(folder, name)["steps"].eq("")
    flag_where(table, settings_missing, "settings_missing")
    flag_where(table, table["name"].eq("fgsm"), "one_small_step")
    if "random_start" in table:
        flag_where(table, table["random_start"].eq("False"), "no_random_start")
    flag_where(table, table["alpha"].eq("0.01/255"), "tiny_step")
    flag_where(table, table["model"].eq("fsaf_swin-b_voc0712"), "near_zero")
    differs = (
        table["model"].eq("Libra R-CNN_R-101-FPN")
        & table["name"].eq("pgd")
        & table["steps"].eq("1")
        & table["metric"].eq("mAP")
        & (source != "detecbench_voc_ap50")
    )
    flag_where(table, differs, "sources_differ")
    flag_where(table, table["model"].eq("Grid R-CNN_R-101-FPN"), "wrong_config", "model_flag")
    return table


def detecbench_corruptions(folder: Path) -> pd.DataFrame:
    """The one detector under a three-dimensional corruption."""
    table = detector_columns(folder, read(folder, "detecbench_corruptions_interim.csv"))
    return new_flags(table).assign(
        source="detecbench_corruptions", kind="corruption", name=table["corruption"], printed=table["corruption"]
    )


def adversarially_trained(folder: Path) -> pd.DataFrame:
    """Table 3 of the SemSegBench paper."""
    table = new_flags(read(folder, "adversarially_trained_table3.csv"))
    clean = table["attack"].eq("none")
    architecture = table["proposed_method"].map({"Robust PSPNet": "pspnet", "Robust UPerNet-ConvNeXt-t": "upernet"})
    table = table.assign(
        source="adversarially_trained",
        table="3",
        task="segmentation",
        architecture=architecture,
        backbone=architecture.map({"pspnet": "", "upernet": "convnext-t"}),
        backbone_type="convolution",
        proposal_type="per pixel",
        training=table["training_method"],
        model=table["proposed_method"] + " " + table["training_method"],
        kind=clean.map({True: "clean", False: "attack"}),
        name=table["attack"].str.lower().where(~clean, "clean"),
        printed=table["attack"],
        norm=clean.map({True: "", False: "linf"}),
        steps=table["iterations"],
        value=table["value"].map(fraction),
    )
    flag_where(table, table["note"].ne(""), "columns_swapped")
    return table


def halmosi(folder: Path) -> pd.DataFrame:
    """Tables 1 to 7 of Halmosi et al., with the resolved attack names."""
    table = new_flags(read(folder, "halmosi_tables.csv"))
    kind = table["attack_resolved"].map({"clean": "clean", "aggregated": "battery"}).fillna("attack")
    table = table.assign(
        source="halmosi",
        task="segmentation",
        training=table["model"],
        model=table["architecture"] + " " + table["model"],
        proposal_type="per pixel",
        backbone_type="convolution",
        view=table["background"].map({"with": "all", "ignored": "foreground"}),
        metric=table["metric"].map({"Accuracy": "aAcc", "CmIoU": "mIoU", "NmIoU": "NmIoU"}),
        kind=kind,
        name=table["attack_resolved"].str.lower().replace({"aggregated": "halmosi"}),
        printed=table["attack_as_printed"],
        norm=kind.eq("attack").map({True: "linf", False: ""}),
        epsilon=kind.ne("clean").map({True: "8/255", False: ""}),
        value=table["value"].map(fraction),
    )
    flag_where(table, table["resolved_by"].eq("row_order"), "label_inferred")
    flag_where(table, table["training"].str.startswith("SEA-AT") & table["metric"].eq("NmIoU"), "nmiou_scale")
    cell = ["dataset", "model", "view", "metric", "name"]
    flag_where(table, table.groupby(cell)["value"].transform("nunique").gt(1), "sources_differ")
    return table


def arnab(folder: Path) -> pd.DataFrame:
    """Tables 1, 2, 7 to 20 of Arnab et al., with the sizes of Table 6."""
    table = new_flags(read(folder, "arnab_tables.csv"))
    sizes = read(folder, "arnab_params.csv")
    sizes = sizes.assign(network=sizes["network"].replace(ARNAB_PARAMETERS))
    parameters = {
        (network, dataset): str(round(float(megabytes) * 2**20 / 4))
        for network, dataset, megabytes in sizes.itertuples(index=False)
    }
    clean = table["epsilon"].eq("0")
    transfer = table["generator_network"].ne("") & table["inference_transform"].eq("")
    transform = table["inference_transform"].ne("")
    ratio = table["metric"].eq("IoU ratio")
    table = table.assign(
        source="arnab",
        task="segmentation",
        model=table["network"],
        proposal_type="per pixel",
        backbone_type="convolution",
        parameters=[parameters.get(key, "") for key in zip(table["network"], table["dataset"], strict=True)],
        kind=clean.map({True: "clean", False: "attack"}),
        name=table["attack"].str.lower().where(~clean, "clean"),
        printed=table["network_as_printed"],
        norm=clean.map({True: "", False: "linf"}),
        epsilon=table["epsilon"].map(on_unit_scale),
        source_model=[
            arnab_source(*pair) if chosen else ""
            for *pair, chosen in zip(table["generator_network"], table["generated_from"], transfer, strict=True)
        ],
        transform=table["inference_transform"],
        source_transform=table["generated_from"].where(transform, ""),
        pooling=table["multiscale_pooling"],
        metric=table["metric"].where(ratio, "mIoU"),
        value=table["value"].map(fraction),
    )
    flag_where(table, table["model"].eq("ICNet") & table["table"].isin(["13", "14"]) & ~clean, "repeated_rows")
    frontend = table["model"].eq("Dilated Frontend (VGG)") & table["dataset"].eq("voc") & clean
    flag_where(table, frontend, "sources_differ")
    flag_where(table, table["printed"].str.contains("100% scale (average pooling)", regex=False), "label_doubtful")
    flag_where(table, table["table"].isin(["1", "17", "18"]), "dataset_inferred")
    flag_where(table, table["table"].isin(["17", "18", "19", "20"]), "metric_inferred")
    flag_where(table, ratio & table["name"].str.startswith("iterative"), "epsilon_doubtful")
    return table


def arnab_source(network: str, scale: str) -> str:
    """The network that made the images, spelled like the rows: ("FCN8s (VGG)", "50%") -> "FCN8 50% scale (VGG)"."""
    name, _, backbone = network.replace("FCN8s", "FCN8").partition(" (")
    return f"{name} {scale if scale == 'Multiscale' else scale + ' scale'} ({backbone}"


def spatial(folder: Path) -> pd.DataFrame:
    """Table 1 of the spatial robustness paper."""
    table = new_flags(read(folder, "spatial_table1.csv"))
    clean = table["corruption"].eq("none")
    table = table.assign(
        source="spatial",
        table="1",
        task="segmentation",
        dataset="cityscapes",
        printed=table["model"],
        model=table["model"].replace({"Segformer-bo": "Segformer-b0"}),
        proposal_type="per pixel",
        backbone_type=table["model"].str.startswith("Segformer").map({True: "transformer", False: "convolution"}),
        kind=clean.map({True: "clean", False: "localized"}),
        name=table["corruption"].where(~clean, "clean"),
        severity=table["severity"].where(~clean, ""),
        ratio=clean.map({True: "", False: "0.5"}),
        patch=clean.map({True: "", False: "256"}),
        view=table["region"].map({"whole": "all", "M": "inside", "Mbar": "outside"}),
        metric="accuracy",
        value=table["accuracy"].map(fraction),
    )
    flag_where(table, ~clean, "severity_ambiguous")
    return table


def michaelis(folder: Path) -> pd.DataFrame:
    """Detectors under 19 corruptions at 5 severities; boxes and masks are told apart by the metric."""
    wide = read(folder, "michaelis_detection.csv")
    clean = wide["corruption"].eq("clean")
    parts = wide["model"].map(michaelis_model)
    wide = new_flags(wide).assign(
        source="michaelis",
        architecture=parts.str[0],
        backbone=parts.str[1],
        training=parts.str[2],
        dataset=wide["dataset"].replace({"voc": "voc0712"}),
        backbone_type="convolution",
        proposal_type=parts.str[0].map(lambda name: "dense" if name == "RetinaNet" else "two-stage"),
        kind=clean.map({True: "clean", False: "corruption"}),
        name=wide["corruption"],
        printed=wide["corruption"],
        severity=wide["severity"].where(~clean, ""),
        prefix=wide["task"].map({"bbox": "", "segm": "mask_"}),
        task="detection",
    )
    columns = [column for column in wide if column not in MICHAELIS_METRICS]
    table = wide.melt(columns, list(MICHAELIS_METRICS), var_name="figure", value_name="value")
    table = table[table["value"].ne("")]
    voc = table["dataset"].eq("voc0712")  # its own code's AP at IoU 0.5, not COCO's
    names = table["prefix"] + table["figure"].map(MICHAELIS_METRICS)
    return table.assign(metric=names.mask(voc, "pascal_voc_AP50"))


def michaelis_model(name: str) -> tuple[str, str, str]:
    """Architecture, backbone and training data inside the name of a configuration."""
    architecture = next(title for start, title in MICHAELIS_ARCHITECTURES.items() if name.startswith(start))
    backbone = re.search(r"(r50|r101|x101_32x4d|x101_64x4d)_fpn", name)
    assert backbone is not None
    kind = backbone[1].replace("_", "-").replace("r", "R-").replace("x101", "X-101")
    deformable = "-DCN" if "dconv" in name else ""
    last = name.rpartition("_")[2]
    combined = last in ("cocoscoco", "cityscity", "vocsvoc0712")
    stylized = last in ("scoco", "scity", "svoc0712")
    training = "clean and stylized data" if combined else "stylized data" if stylized else ""
    return architecture, f"{kind}{deformable}-FPN", training


if __name__ == "__main__":
    main()

"""The table of the benchmarks' models and their public checkpoints."""

from __future__ import annotations

import csv
import gzip
import re

import pytest

from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.models import zoo
from paths import DATA


def read(name: str) -> list[dict[str, str]]:
    """The rows of a copy of a published table."""
    with gzip.open(DATA / "published" / f"{name}.gz", "rt", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize(
    ("file", "count"), [("semsegbench_models.csv", 71), ("detecbench_models.csv", 62)], ids=["semseg", "detec"]
)
def test_every_model_of_the_benchmarks_is_found_by_its_printed_name(file: str, count: int) -> None:
    rows = read(file)
    assert len(rows) == count
    for row in rows:
        backbone = "custom" if row["backbone"] == "UNet Convolutions" else row["backbone"]
        entry = zoo.find(row["architecture"], backbone, row["dataset"])
        assert (entry.architecture, entry.date, entry.dataset) == (row["architecture"], row["date"], row["dataset"])
        assert entry.benchmark in ("semsegbench", "detecbench")


def test_every_checkpoint_with_figures_is_in_the_table() -> None:
    """Names and crop sizes are those of the published figures, so that the two can be joined."""
    figures = {
        (row["architecture"], row["backbone"], row["dataset"], row["crop_size"]) for row in read("semsegbench.csv")
    }
    ours = {
        (entry.model_name, entry.backbone, entry.dataset, entry.crop_size)
        for entry in zoo.entries()
        if entry.benchmark == "semsegbench"
    }
    assert len(figures) == 76
    # The paper lists Mask2Former with ResNets on VOC, without figures.
    assert {key[:3] for key in ours - figures} == {
        ("mask2former", "resnet50", "voc"),
        ("mask2former", "resnet101", "voc"),
    }
    assert figures <= ours


def test_rows_are_unique_and_well_formed() -> None:
    keys = [(entry.model_name, entry.backbone, entry.dataset, entry.crop_size) for entry in zoo.entries()]
    assert len(set(keys)) == len(keys)
    for entry in zoo.entries():
        assert entry.task in ("segmentation", "detection")
        assert entry.dataset in ("cityscapes", "ade20k", "voc", "coco")
        assert re.fullmatch(r"(\d+x\d+)?", entry.crop_size)
        assert re.fullmatch(r"|hf:[\w.-]+/[\w.-]+|torchvision:\w+", entry.source)
        assert bool(entry.openmmlab_config) == bool(entry.openmmlab_weights) == bool(entry.openmmlab_match)
        if entry.openmmlab_weights:
            assert re.fullmatch(
                r"https://(download\.openmmlab\.com|huggingface\.co/OpenGVLab)/\S+\.pth", entry.openmmlab_weights
            )
        # A checkpoint that is not the benchmark's own must say how it differs.
        assert not (entry.benchmark and entry.source) or entry.note
        # What neither benchmark has is here only for its checkpoint.
        assert entry.benchmark or entry.source


def test_a_crop_size_in_the_name_of_a_checkpoint_is_the_rows_or_is_noted() -> None:
    for entry in zoo.entries():
        named = re.search(r"-(\d{3,4})-(\d{3,4})$", entry.source)
        if named and f"{named[1]}x{named[2]}" != entry.crop_size:
            assert f"{named[1]}x{named[2]} crops where the benchmark's has {entry.crop_size}" in entry.note


@pytest.mark.parametrize(
    ("triple", "address"),
    [
        (("upernet", "convnext-t", "ade20k"), "hf:openmmlab/upernet-convnext-tiny"),
        (("SegFormer", "MIT-B0", "ADE20K"), "hf:nvidia/segformer-b0-finetuned-ade-512-512"),
        (("segformer", "mit_b3", "cityscapes"), "hf:nvidia/segformer-b3-finetuned-cityscapes-1024-1024"),
        (("Mask2Former", "Swin-Tiny", "cityscapes"), "hf:facebook/mask2former-swin-tiny-cityscapes-semantic"),
        (("DeepLabV3", "r50", "voc2012"), "torchvision:deeplabv3_resnet50"),
        (("DeepLabV3+", "ResNet-50", "cityscapes"), "mmseg:deeplabv3plus_r50-d8_4xb2-80k_cityscapes-512x1024"),
        (("DETR", "ResNet50", "coco"), "hf:facebook/detr-resnet-50"),
        (("fasterrcnn", "resnet50", "coco"), "torchvision:fasterrcnn_resnet50_fpn"),
    ],
)
def test_addresses(triple: tuple[str, str, str], address: str) -> None:
    assert zoo.find(*triple).require_address() == address


def test_weights_come_with_an_openmmlab_address() -> None:
    entry = zoo.find("pspnet", "resnet101", "voc")
    assert entry.openmmlab_match == "exact"
    assert entry.options == {"checkpoint": entry.openmmlab_weights}
    assert zoo.find("segformer", "mit-b0", "ade20k").options == {}


def test_several_crop_sizes() -> None:
    assert zoo.find("segformer", "mit-b0", "cityscapes").crop_size == "1024x1024"
    small = zoo.find("segformer", "mit-b0", "cityscapes", crop_size="512x1024")
    assert small.source == "hf:nvidia/segformer-b0-finetuned-cityscapes-512-1024"
    with pytest.raises(UnknownNameError, match="crop size of segformer with mit-b0 on cityscapes '768x768'"):
        zoo.find("segformer", "mit-b0", "cityscapes", crop_size="768x768")


def test_no_known_checkpoint_is_said() -> None:
    entry = zoo.find("segformer", "mit-b0", "voc")
    assert entry.address is None
    with pytest.raises(GauntletError, match="no public checkpoint of segformer with mit-b0 on voc is known"):
        entry.require_address()


@pytest.mark.parametrize(
    ("triple", "message"),
    [
        (("segfomer", "mit-b0", "voc"), "unknown zoo model 'segfomer'; did you mean 'segformer'"),
        (("segformer", "mit-b9", "voc"), "unknown backbone of the zoo model 'segformer' 'mit-b9'; did you mean"),
        (("unet", "custom", "voc"), r"zoo's unet with custom 'voc'; known: cityscapes\."),
    ],
)
def test_suggestions(triple: tuple[str, str, str], message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        zoo.find(*triple)


def test_frame() -> None:
    frame = zoo.frame()
    assert len(frame) == len(zoo.entries())
    assert list(frame.columns)[:4] == ["task", "model_name", "backbone", "dataset"]
    assert frame["address"].notna().sum() > 80
    assert set(frame.loc[frame["benchmark"] == "semsegbench", "openmmlab_match"]) == {"exact", "near", "other", ""}

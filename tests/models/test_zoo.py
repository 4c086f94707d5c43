"""The table of the benchmarks' models and their public checkpoints."""

from __future__ import annotations

import csv
import gzip
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.models import resolve_model, zoo
from gauntlet.models.sources.openmmlab import OpenMMLabSource
from gauntlet.models.zoo import choosing
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
        assert bool(entry.openmmlab_weights) == bool(entry.openmmlab_match)
        assert entry.openmmlab_config or not entry.openmmlab_weights
        if entry.openmmlab_weights:
            # Files that OpenMMLab's own pages point to are with their authors at times.
            assert re.fullmatch(
                r"https://(download\.openmmlab\.com|huggingface\.co/OpenGVLab|github\.com/RistoranteRist/mmlab-weights"
                r"|github\.com/orange0-jp/orange-weights)/\S+\.pth",
                entry.openmmlab_weights,
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


def test_openmmlab_has_a_configuration_for_most_rows() -> None:
    """Every row of the two benchmarks is counted by how it loads; InternImage's are on OpenMMLab's framework."""
    rows = [entry for entry in zoo.entries() if entry.benchmark]
    assert Counter((entry.benchmark, entry.loads.rpartition(" or ")[2]) for entry in rows) == {
        ("semsegbench", "mmseg"): 46,
        ("semsegbench", "mmseg with InternImage's code"): 11,
        ("semsegbench", "hf"): 7,
        ("semsegbench", "no: nothing public is known"): 14,
        ("detecbench", "mmdet"): 46,
        ("detecbench", "mmdet with your weights"): 2,
        ("detecbench", "no: needs a text encoder"): 1,
        ("detecbench", "hf"): 1,
        ("detecbench", "no: nothing public is known"): 12,
    }


def test_published_figures_are_those_of_the_benchmark_else_openmmlabs() -> None:
    assert zoo.find("pspnet", "resnet50", "cityscapes").published_figure == pytest.approx(0.7866)
    entry = zoo.find("TOOD", "ResNeXt101", "coco")
    assert (entry.benchmark_figure, entry.openmmlab_figure, entry.openmmlab_match) == ("", "47.6", "unknown")
    assert entry.published_figure == pytest.approx(0.476)
    for entry in zoo.entries():
        if entry.openmmlab_match == "exact" and entry.openmmlab_figure:
            assert abs(float(entry.openmmlab_figure) - float(entry.benchmark_figure)) <= 0.02


def test_an_address_leads_back_to_its_row() -> None:
    for entry in zoo.entries():
        for address in (entry.source, entry.openmmlab_address):
            found = zoo.entry_of(address) if address else entry
            assert found is not None
            assert address in ("", None, found.source, found.openmmlab_address)
    by_file = zoo.entry_of("mmdet:/home/me/atss_r101_fpn_1x_coco.py")
    assert by_file is zoo.find("ATSS", "ResNet101", "coco")
    assert zoo.entry_of("streets/enet") is None


def test_a_folder_of_checkpoints_means_openmmlabs_weights(tmp_path: Path) -> None:
    """Where a row has both, weights of another training and OpenMMLab's, and what is missing is said."""
    triple: dict[str, Any] = {"model_name": "DETR", "backbone": "ResNet50", "dataset": "coco"}
    with pytest.raises(GauntletError, match=r"there is no detr_r50_8xb2-150e_coco_\S+\.pth in \S+; it is at https://"):
        _ = resolve_model(**triple, checkpoints=tmp_path, trust=True).identity
    name = zoo.find(*triple.values()).openmmlab_weights.rsplit("/", 1)[-1]
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / name).write_bytes(b"weights")
    source = resolve_model(**triple, checkpoints=tmp_path, trust=True)
    assert (source.identity.name, source.task) == ("detr_r50_8xb2-150e_coco", "detection")
    assert source.origin is not None
    again = resolve_model(source.origin["address"], **source.origin["options"])
    assert again.identity == source.identity


def test_a_folder_may_have_weights_that_are_not_public(tmp_path: Path) -> None:
    triple: dict[str, Any] = {"model_name": "RetinaNet", "backbone": "ResNet50", "dataset": "voc"}
    with pytest.raises(GauntletError, match=r"retinanet_r50_fpn_1x_voc0712 needs its checkpoint"):
        resolve_model(**triple, trust=True)
    with pytest.raises(GauntletError, match=r"no retinanet_r50_fpn_1x_voc0712\.pth in \S+; put yours there under that"):
        _ = resolve_model(**triple, checkpoints=tmp_path, trust=True).identity
    (tmp_path / "retinanet_r50_fpn_1x_voc0712.pth").write_bytes(b"weights")
    assert resolve_model(**triple, checkpoints=tmp_path, trust=True).identity.name == "retinanet_r50_fpn_1x_voc0712"


def test_rows_that_can_be_loaded_are_chosen_and_the_others_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "find_spec", lambda name: object() if name == "mmdet" else None)
    monkeypatch.setattr(OpenMMLabSource, "read_config", lambda source: None)
    entry = zoo.find("ATSS", "ResNet101", "coco")
    (tmp_path / entry.openmmlab_weights.rsplit("/", 1)[-1]).write_bytes(b"weights")
    chosen, left_out = choosing.choose("detecbench", ["coco"], {"checkpoints": tmp_path, "trust": True})
    assert [address for address, _ in chosen] == ["mmdet:atss_r101_fpn_1x_coco"]
    reasons = dict(left_out)
    assert len(reasons) == 59
    assert reasons["tood with resnext101 on coco"].startswith("there is no tood_x101_64x4d_fpn_mstrain_2x_coco_")
    assert reasons["glip-l with swin-l on coco"] == "it cannot be loaded: it needs a text encoder."
    assert reasons["mm-grounding-dino with swin-l on coco"] == "the package transformers is not installed."
    assert "no public checkpoint of paa with swin-s on coco is known" in reasons["paa with swin-s on coco"]
    with pytest.raises(GauntletError, match=r"the checkpoints in \S+ are pickles .*; pass trust=True \(--trust\)"):
        choosing.choose("detecbench", ["coco"], {"checkpoints": tmp_path})
    with pytest.raises(GauntletError, match=r"no model of detecbench was trained on streets; known: coco, voc\."):
        choosing.choose("detecbench", ["streets"], {})
    with pytest.raises(UnknownNameError, match="did you mean 'semsegbench'"):
        choosing.choose("semsegbnch", [], {})


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

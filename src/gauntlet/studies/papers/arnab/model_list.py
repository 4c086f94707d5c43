"""Tables 3 to 6: which networks, how accurate, how large."""

from __future__ import annotations

from dataclasses import replace

from gauntlet.report.document import Block
from gauntlet.report.tables import Cell, Column, Table
from gauntlet.studies.contract import Study
from gauntlet.studies.drawings import slug
from gauntlet.studies.figures import Figures, interval
from gauntlet.studies.papers.arnab.networks import MEMBERS, NETWORK, printed
from gauntlet.studies.printed import Place, Printed

MEBIBYTE = 2**20
BYTES_PER_PARAMETER = 4
"""Parameters as float32."""
FULL_SIZE = {
    "ICNet": 0.672,
    "FCN8s (VGG)": 0.664,
    "Dilated Frontend (VGG)": 0.646,
    "Dilated Context (VGG)": 0.686,
    "PSPNet (ResNet)": 0.797,
}
"""Clean mIoU on Cityscapes at full size, as printed."""
WITH_FIELD = {"CRF-RNN (VGG)": 0.728, "Deeplab v2 ASPP MS (ResNet) + CRF": 0.749}
"""Clean mIoU on VOC of the networks with a CRF, as printed."""
PRINTED_SIZES = {"FCN8 (VGG), Cityscapes": 512.5, "CRF-RNN (VGG), VOC": 513.0}
"""MiB of networks that the tables of figures have under another name or not at all."""


def drawing(results: Figures) -> list[Block]:
    """Every network with its clean mIoU, its size and its parameters."""
    rows: list[list[Cell]] = []
    for model in results.models:
        count = results.parameters(NETWORK, model)
        clean = interval(results.miou(NETWORK, "clean", model))
        rows.append([model, clean, BYTES_PER_PARAMETER * count / MEBIBYTE, count])
    columns = [
        Column("network"),
        Column("clean mIoU", "percent", heat=True),
        Column("MiB", "number", note="parameters as float32"),
        Column("parameters", "count"),
    ]
    title = "Networks, how accurate and how large"
    return [Table(f"table-{slug(f'{results.place}-{title}')}", title, columns, rows)]


def printed_list() -> Printed:
    """The networks of both datasets; clean figures are those at epsilon 0 of Tables 7 and 11."""
    voc, cities = printed("", {"fgsm": 7}, ", VOC"), printed("", {"fgsm": 11}, ", Cityscapes")
    more: dict[Place, float] = {
        **{(f"{name}, VOC", NETWORK, "clean"): value for name, value in WITH_FIELD.items()},
        **{(f"{name}, Cityscapes at full size", NETWORK, "clean"): value for name, value in FULL_SIZE.items()},
    }
    clean = {place: value for place, value in {**voc.mious, **cities.mious}.items() if place[2] == "clean"}
    sizes = {name: size * MEBIBYTE / BYTES_PER_PARAMETER for name, size in PRINTED_SIZES.items()}
    note = "Sizes are printed in MiB; parameters follow from them."
    listed = Printed("Tables 3 to 7 and 11", {**clean, **more}, note=note)
    return replace(listed, sizes={**voc.sizes, **cities.sizes, **sizes})


STUDIES = (
    Study(
        name="arnab/table-3",
        title="The networks: clean mIoU, size, parameters",
        question="Which networks are compared, how accurate and how large are they?",
        setting="Networks of their authors, or trained by them; VOC and Cityscapes.",
        finding="From E-Net (1.5 MiB, 53.4 % on Cityscapes at half size) to Dilated Context (538.4 MiB, 70.4 % on "
        "VOC); PSPNet is the most accurate on both (75.9 and 74.4 %).",
        kind="list",
        members=MEMBERS,
        threats={"clean": "clean"},
        together=drawing,
        printed=printed_list,
        also=("arnab/table-4", "arnab/table-5", "arnab/table-6"),
    ),
)

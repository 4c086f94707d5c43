"""Where the published figures come from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """One published table or export.

    Attributes:
        title: what it is.
        reference: paper or repository, with the commit and the licence where there is one.
        note: what a reader has to know before using it.
    """

    title: str
    reference: str
    note: str = ""


_SEMSEGBENCH_PAPER = (
    "Agnihotri et al., SemSegBench & DetecBench: Benchmarking Reliability and Generalization Beyond Classification, "
    "arXiv 2505.18015"
)
_HALMOSI = (
    "Halmosi, Mohos, Jelasity, Evaluating the Adversarial Robustness of Semantic Segmentation: Trying Harder Pays Off, "
    "ECCV 2024"
)
_INTERIM = "an interim export, not the final DetecBench figures"

SOURCES: dict[str, Source] = {
    "semsegbench": Source(
        "SemSegBench, 76 checkpoints",
        f"{_SEMSEGBENCH_PAPER}; github.com/shashankskagnihotri/measuing_reliability_genelization @2e48c786, "
        "Config-Paths.csv (CC0 1.0)",
        "epsilon, steps and severity stand in the paper, not in the file; the l2 budget of 64 is on the 0 to 255 scale",
    ),
    "semsegbench_rerun": Source(
        "SemSegBench, second corruption runs of 16 checkpoints",
        "github.com/shashankskagnihotri/benchmarking_robustness, branch segmentation_mehmet @e0684fc5 (MIT)",
        "run-to-run noise of random corruptions for 15 models; for deeplabv3/resnet101 on ADE20K the overwritten run",
    ),
    "detecbench_interim": Source(
        "DetecBench, 129 runs, 10 July 2024",
        "github.com/shashankskagnihotri/benchmarking_robustness @3a697502, object_detection/project_filtered.csv (MIT)",
        f"{_INTERIM}; VOC models are scored with COCO metrics",
    ),
    "detecbench_voc_ap50": Source(
        "DetecBench, 51 VOC runs, 4 June 2024",
        "github.com/shashankskagnihotri/benchmarking_robustness @707ad17a, object_detection/project_filtered.csv (MIT)",
        f"{_INTERIM}; no clean runs",
    ),
    "detecbench_notebook": Source(
        "DetecBench, tables visible in vis_results.ipynb, July and August 2024",
        "github.com/shashankskagnihotri/benchmarking_robustness, commits 9e24539a, 397e471b, 0269790f, e3d87238 (MIT)",
        _INTERIM,
    ),
    "detecbench_corruptions": Source(
        "DetecBench, RTMDet-l under far_focus",
        "github.com/shashankskagnihotri/benchmarking_robustness @e3d87238, object_detection/vis_results.ipynb (MIT)",
        f"{_INTERIM}; the only detection result under a corruption that could be read",
    ),
    "adversarially_trained": Source(
        "SemSegBench, Table 3: adversarially trained models",
        _SEMSEGBENCH_PAPER,
        "the caption does not name the dataset",
    ),
    "halmosi": Source(
        "Trying Harder Pays Off, Tables 1 to 7",
        _HALMOSI,
        "read from a text conversion; the row labels of Tables 4 to 7 are shifted and were resolved",
    ),
    "arnab": Source(
        "On the Robustness of Semantic Segmentation Models to Adversarial Attacks, Tables 1, 2, 6 to 20",
        "Arnab, Miksik, Torr, CVPR 2018, arXiv 1711.09856",
        "read from a text conversion; parameter counts are Table 6's megabytes (2^20 bytes) of 32-bit floats",
    ),
    "spatial": Source(
        "Benchmarking the Spatial Robustness of DNNs, Table 1",
        "Marchiori Pietrosanti et al., Benchmarking the Spatial Robustness of DNNs via Natural and Adversarial "
        "Localized Corruptions",
        "read from a text conversion; 'Segformer-bo' is printed so; the accuracies look like class means (mAcc)",
    ),
    "michaelis": Source(
        "Benchmarking Robustness in Object Detection, 27 runs under 19 corruptions at 5 severities",
        "Michaelis et al. 2019, arXiv 1907.07484; github.com/bethgelab/robust-detection-benchmark @aecde7b (MIT, "
        "Bethge Lab 2019; the notice is michaelis_LICENSE.txt beside the figures)",
        "mask figures are called mask_mAP and so on; of VOC only AP at IoU 0.5; its TABLE.md prints 30.5 for the clean "
        "masks of the stylized Mask R-CNN, the data says 20.5",
    ),
}

EXTRA_SOURCES = ("semsegbench_rerun",)
"""Second figures for runs that another source has as well: only given when asked for by name."""

"""What is right without any image: the level that accuracies in the worst case have to be seen against.

A map that says, at every pixel, the class that is most frequent there in the labels of the training split. It never
looks, so no attack moves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gauntlet.datasets import load_dataset
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.metrics.segmentation import estimates
from gauntlet.metrics.segmentation.confusion import confusion
from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.studies.figures import FloatArray
from gauntlet.studies.pages.contract import Runs

Labels = npt.NDArray[np.integer]
MOST_MAPS = 400
"""Label maps of the training split, at most: the first ones."""


@dataclass(frozen=True)
class Blind:
    """How right the map is on the images of a part.

    Attributes:
        maps: how many label maps it was made of.
        table: its counts on the N images.
    """

    maps: int
    table: CountTable

    name = "no image at all"  # what its rows and columns are called

    @property
    def accuracy(self) -> FloatArray:
        """(R,) right pixels of all images over all pixels that count."""
        return estimates.accuracy(self.table).rows()

    @property
    def miou(self) -> FloatArray:
        """(R,) CmIoU: mean over classes, pixels of all images pooled."""
        return estimates.miou(self.table).rows()

    @property
    def nmiou(self) -> FloatArray:
        """(R,) NmIoU: mean over images of their mIoU; images without a pixel that counts are left out."""
        return estimates.miou_of_images(self.table).rows()

    @property
    def words(self) -> str:
        """What it is, in a sentence."""
        return (
            f"*{self.name[0].upper()}{self.name[1:]}* is a map that never looks: at every pixel the class that is most "
            f"frequent there in {self.maps} label maps of the training split; no attack moves it."
        )


def blind(runs: Runs) -> Blind:
    """The map of the training split of a part's dataset, on the images of the part."""
    dataset, training = runs.dataset, training_split(runs.dataset)
    prediction = most_frequent(label_maps(training), dataset.num_classes)
    table = judge(prediction, label_maps(dataset), dataset.num_classes, dataset.ignore_index)
    return Blind(len(training), table)


def training_split(dataset: Dataset) -> Dataset:
    """The training images of a dataset, sized as it sizes its own; at most MOST_MAPS."""
    told = dataset.origin
    if told is None:
        raise GauntletError(f"the training split of '{dataset.name}' is unknown; open it with load_dataset.")
    return load_dataset(
        told["name"], split="train", root=told["root"], protocol=told["protocol"], limit=MOST_MAPS, **told["options"]
    )


def label_maps(dataset: Dataset) -> Iterator[Labels]:
    """The label map (H, W) of every image."""
    for sample in dataset:
        assert sample.labels is not None  # a page about segmentation has them
        yield sample.labels


def most_frequent(maps: Iterable[Labels], num_classes: int) -> npt.NDArray[np.int64]:
    """(H, W) the most frequent class of every pixel over label maps (H, W) of one size.

    Labels that are no class (void) count for nothing; a tie goes to the first class, as does a pixel that is always
    void.
    """
    classes = np.arange(num_classes)[:, None, None]
    counts = sum((labels == classes).astype(np.int64) for labels in maps)  # (K, H, W)
    return np.asarray(np.argmax(counts, axis=0), dtype=np.int64)


def judge(
    prediction: npt.NDArray[np.int64], maps: Iterable[Labels], num_classes: int, ignore_index: int | None
) -> CountTable:
    """The counts of one prediction (H, W) against the label maps (H, W) of N images; void pixels are left out."""
    return CountTable.of((confusion(prediction, labels, num_classes, ignore_index)[0] for labels in maps), num_classes)

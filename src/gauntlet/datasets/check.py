"""Behind `gauntlet data check NAME ROOT`: is the data there, complete, readable, and what does it hold?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gauntlet.datasets import datasets, load_dataset
from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.doubts import PixelCounts, label_doubts
from gauntlet.datasets.image_files import ImageFiles
from gauntlet.datasets.tree import LayoutError
from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.numbers import counted
from gauntlet.samples import Sample

MAX_PROBLEMS = 20
"""How many problems of a split are kept in words; the others are counted."""


@dataclass
class SplitReport:
    """What was found in one split.

    Attributes:
        split: its name.
        length: images it has.
        published_length: images the published split has, or None where that is not known.
        checked: images that were read.
        sizes: "HEIGHTxWIDTH" to number of images.
        frequencies: class name to its share of the labelled pixels (ignored pixels left out), or of the objects.
        ignored: share of the pixels that count for nothing, or None without label images.
        objects, crowd, difficult: numbers of boxes, in all and with these flags.
        outside: boxes that reach more than a pixel beyond their image.
        problems: what is wrong, one sentence each, at most `MAX_PROBLEMS`.
        problem_count: how many problems there were.
        notes: what is unusual but not wrong.
        doubts: labels that a wrong reading of the masks would give as well, one sentence each with both readings.
        trivial: figures of the most frequent class as the answer everywhere; empty without label images.
    """

    split: str
    length: int = 0
    published_length: int | None = None
    checked: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    frequencies: dict[str, float] = field(default_factory=dict)
    ignored: float | None = None
    objects: int = 0
    crowd: int = 0
    difficult: int = 0
    outside: int = 0
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    trivial: dict[str, float] = field(default_factory=dict)

    def add_problem(self, sentence: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(sentence)


@dataclass
class CheckReport:
    """What was found in a dataset's folder.

    Attributes:
        dataset: its name.
        root: the folder, or None for data that comes without files.
        splits: one report per split.
    """

    dataset: str
    root: str | None
    splits: list[SplitReport]

    @property
    def ok(self) -> bool:
        """True if nothing is wrong; labels may be in doubt."""
        return not any(split.problem_count for split in self.splits)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {"dataset": self.dataset, "root": self.root, "ok": self.ok, "splits": [asdict(s) for s in self.splits]}

    def lines(self) -> Iterator[str]:
        """The report as text, line by line."""
        place = f" in {self.root}" if self.root else ""
        doubted = any(split.doubts for split in self.splits)
        verdict = "problems found" if not self.ok else "labels in doubt" if doubted else "no problems"
        yield f"{self.dataset}{place}: {verdict}"
        for split in self.splits:
            yield from _split_lines(split)


def check_dataset(
    name: str,
    root: str | Path | None = None,
    *,
    split: str | None = None,
    limit: int | None = None,
    **options: Any,
) -> CheckReport:
    """Reads a dataset and reports on its layout, counts, sizes and labels; problems are collected, not raised.

    Args:
        name: as for `load_dataset`.
        root: as for `load_dataset`.
        split: one split; by default every split that is there.
        limit: read only the first so many images of each split; the files of all are looked for anyway.
        options: further options of the dataset.
    """
    factory = datasets[name.partition(":")[0]]
    known: Sequence[str] = getattr(factory, "splits", ())
    wanted: Sequence[str | None] = [split] if split is not None else list(known) or [None]
    outcomes = [_load_split(name, root, each, options) for each in wanted]
    loaded = [each for each in outcomes if isinstance(each, Dataset)]
    reports = [_check_split(dataset, _published(factory, dataset, options), limit) for dataset in loaded]
    reports.extend(_failures([each for each in outcomes if isinstance(each, _Failure)], bool(loaded) and split is None))
    place = str(root) if root is not None else name.partition(":")[2] or None
    return CheckReport(datasets.canonical(name.partition(":")[0]), place, reports)


@dataclass(frozen=True)
class _Failure:
    split: str
    error: GauntletError


def _load_split(
    name: str, root: str | Path | None, split: str | None, options: Mapping[str, Any]
) -> Dataset | _Failure:
    try:
        return load_dataset(name, root=root, split=split, **options)
    except GauntletError as error:
        return _Failure(split or "all", error)


def _failures(failures: Sequence[_Failure], others_loaded: bool) -> Iterator[SplitReport]:
    """Reports on splits that could not be loaded; one that is not there is not wrong as long as another one is."""
    said: set[str] = set()
    for failure in failures:
        sentence = str(failure.error)
        absent = others_loaded and isinstance(failure.error, (LayoutError, UnknownNameError))
        if sentence in said or (absent and isinstance(failure.error, UnknownNameError)):
            continue
        said.add(sentence)
        report = SplitReport(failure.split)
        if absent:
            report.notes.append(sentence)
        else:
            report.add_problem(sentence)
        yield report


def _published(factory: Any, dataset: Dataset, options: Mapping[str, Any]) -> int | None:
    """The published length of a split; not known when an option chooses a part of it."""
    lengths: Mapping[str, int] = getattr(factory, "lengths", {})
    return lengths.get(dataset.split) if options.get("condition", "all") == "all" else None


def _check_split(dataset: Dataset, published: int | None, limit: int | None) -> SplitReport:
    report = SplitReport(dataset.split, len(dataset), published)
    if published is not None and published != len(dataset):
        report.notes.append(f"the published split has {published} images, this one {len(dataset)}")
    sizes: Counter[str] = Counter()
    pixels = PixelCounts.none(dataset)
    boxes = np.zeros(len(dataset.box_class_names), dtype=np.int64)
    turned = 0
    for index in range(len(dataset) if limit is None else min(limit, len(dataset))):
        try:
            sample = dataset[index]
        except GauntletError as error:
            report.add_problem(str(error))
            continue
        report.checked += 1
        turned += isinstance(dataset, ImageFiles) and dataset.is_turned(index)
        sizes[f"{sample.image.shape[0]}x{sample.image.shape[1]}"] += 1
        if sample.labels is not None:
            pixels.add(sample.labels, dataset.ignore_index)
        if sample.boxes is not None:
            boxes += np.bincount(sample.boxes.classes, minlength=len(boxes))
            _count_boxes(report, sample)
    report.sizes = dict(sizes.most_common())
    if pixels.total:
        report.ignored = pixels.void / pixels.total
        report.frequencies = _shares(dataset.class_names, pixels.classes)
        report.doubts = label_doubts(dataset, pixels)
        report.trivial = _trivial(pixels)
    else:
        report.frequencies = _shares(dataset.box_class_names, boxes)
    unused = dataset.without_image() if isinstance(dataset, ImageFiles) else []
    if unused:
        report.notes.append(f"{counted(len(unused), 'mask')} without an image, the first one is '{unused[0]}'")
    if turned:
        report.notes.append(
            f"{counted(turned, 'image')} with a camera tag (EXIF) that turns what viewers show; pixels are read as "
            "stored, and labels and boxes must fit those"
        )
    absent = [name for name, share in report.frequencies.items() if share == 0]
    if absent and report.checked:
        shown = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
        report.notes.append(f"classes that do not occur: {shown}")
    return report


def _trivial(pixels: PixelCounts) -> dict[str, float]:
    """Figures of the most frequent class as the answer everywhere: mIoU and aAcc."""
    share = int(pixels.classes.max()) / max(1, int(pixels.classes.sum()))
    return {"mIoU": share / max(1, int(np.count_nonzero(pixels.classes))), "aAcc": share}


def _count_boxes(report: SplitReport, sample: Sample) -> None:
    boxes = sample.boxes
    assert boxes is not None
    height, width = sample.image.shape[:2]
    report.objects += len(boxes)
    report.crowd += int(boxes.crowd.sum()) if boxes.crowd is not None else 0
    report.difficult += int(boxes.difficult.sum()) if boxes.difficult is not None else 0
    low, high = boxes.xyxy.min(axis=1, initial=0), boxes.xyxy[:, 2:] - np.array([width, height], dtype=np.float32)
    report.outside += int(((low < -1) | (high > 1).any(axis=1)).sum())


def _shares(names: Sequence[str], counts: np.ndarray[Any, np.dtype[np.int64]]) -> dict[str, float]:
    total = max(1, int(counts.sum()))
    return {name: int(count) / total for name, count in zip(names, counts, strict=True)}


def _split_lines(split: SplitReport) -> Iterator[str]:
    expected = f" of {split.published_length} published" if split.published_length is not None else ""
    yield f"  {split.split}: {split.length} images{expected}, {split.checked} read"
    if split.sizes:
        shown = [f"{size} ({count})" for size, count in list(split.sizes.items())[:5]]
        yield "    sizes: " + ", ".join(shown) + (f" and {len(split.sizes) - 5} more" if len(split.sizes) > 5 else "")
    if split.objects:
        flags = f"{split.crowd} crowd, {split.difficult} difficult, {split.outside} reaching outside"
        yield f"    boxes: {split.objects} ({flags})"
    used = sorted(((share, name) for name, share in split.frequencies.items() if share), reverse=True)
    if used:
        kind = "pixels" if split.ignored is not None else "objects"
        yield f"    {kind}: " + ", ".join(f"{name} {100 * share:.2f} %" for share, name in used[:20])
    if split.ignored is not None:
        yield f"    ignored pixels: {100 * split.ignored:.2f} %"
    if split.trivial:
        most = max(split.frequencies, key=lambda name: split.frequencies[name])
        figures = ", ".join(f"{name} {100 * value:.2f} %" for name, value in split.trivial.items())
        yield f"    trivial answer, '{most}' everywhere: {figures}"
    for doubt in split.doubts:
        yield f"    doubt: {doubt}"
    for note in split.notes:
        yield f"    note: {note}"
    for problem in split.problems:
        yield f"    problem: {problem}"
    if split.problem_count > len(split.problems):
        yield f"    and {split.problem_count - len(split.problems)} more problems"

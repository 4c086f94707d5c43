"""The order of the samples and their preparation in the background; both depend on the seed and the step only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.samples import Boxes, Sample, images_to_tensor
from gauntlet.seeding import ImageSeed, numpy_generator
from gauntlet.training.augmentation.images_and_labels import Augmentation, Image, Labels

Target = TypeVar("Target")
AnyPair = tuple[Image, Any]


class SampleAugmentation(Protocol[Target]):
    """Changes an image and what is to be learnt from it together; every draw comes from the generator."""

    def __call__(
        self,
        pair: tuple[Image, Target],
        rng: np.random.Generator,
        partner: Callable[[np.random.Generator], tuple[Image, Target]],
    ) -> tuple[Image, Target]: ...


@dataclass(frozen=True)
class TrainingBatch:
    """Samples of one step, or of a part of it, on the CPU.

    Attributes:
        images: (N, 3, H, W) in [0, 1], plus noise where the recipe adds some.
        labels: (N, H, W) for segmentation, the boxes of every image for detection.
    """

    images: torch.Tensor
    labels: torch.Tensor | list[Boxes]


class SampleOrder:
    """An endless sequence of indices: one permutation of the dataset after the other, each from (seed, epoch)."""

    def __init__(self, length: int, seed: int) -> None:
        if length < 1:
            raise GauntletError("the training split has no samples; check the dataset's name, split and options.")
        self.length = length
        self.seed = seed
        self._epoch = -1
        self._permutation: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def index(self, position: int) -> int:
        """The dataset index at a position of the sequence."""
        epoch, offset = divmod(position, self.length)
        if epoch != self._epoch:
            stream = ImageSeed(self.seed, f"epoch {epoch}").stream("training|order")
            self._permutation = numpy_generator(stream).permutation(self.length)
            self._epoch = epoch
        return int(self._permutation[offset])


class SamplePreparation(ABC, Generic[Target]):
    """Loads and augments the sample at a position; picklable, so that processes can do it too.

    Args:
        dataset: where samples come from.
        augmentation: what is done to a pair, with its generator and a way to draw other pairs.
        seed: of the recipe.
        cache: keep the loaded samples in memory.
    """

    def __init__(self, dataset: Dataset, augmentation: SampleAugmentation[Target], seed: int, *, cache: bool) -> None:
        self.dataset = dataset
        self.augmentation = augmentation
        self.seed = seed
        self._cache: dict[int, tuple[Image, Target]] | None = {} if cache else None

    def __call__(self, index: int, position: int) -> tuple[Image, Target]:
        """The pair of a dataset index; draws depend on (seed, position) and on nothing else."""
        stream = ImageSeed(self.seed, f"position {position}").stream("training|augmentation")
        return self.augmentation(self.load(index), numpy_generator(stream), self._draw_partner)

    def load(self, index: int) -> tuple[Image, Target]:
        """The sample as it is in the dataset."""
        if self._cache is not None and index in self._cache:
            return self._cache[index]
        sample = self.dataset[index]
        pair = sample.image, self.target(sample)
        if self._cache is not None:
            self._cache[index] = pair
        return pair

    @abstractmethod
    def target(self, sample: Sample) -> Target:
        """What is to be learnt from a sample, checked."""

    def _draw_partner(self, rng: np.random.Generator) -> tuple[Image, Target]:
        return self.load(int(rng.integers(len(self.dataset))))


class Preparation(SamplePreparation[Labels]):
    """Images with label maps."""

    augmentation: Augmentation

    def target(self, sample: Sample) -> Labels:
        if sample.labels is None:
            raise GauntletError(f"image '{sample.id}' has no label map; training needs a segmentation dataset.")
        labels = np.asarray(sample.labels)
        ignored = self.augmentation.ignore_index
        classes = self.dataset.num_classes
        strange = labels[((labels < 0) | (labels >= classes)) & (labels != ignored)]
        if strange.size:
            raise GauntletError(
                f"image '{sample.id}' has the label {int(strange[0])}; "
                f"expected 0 to {classes - 1} or {ignored} (ignored)."
            )
        small = 0 <= ignored < 256 and classes <= 256
        return labels.astype(np.uint8) if small else labels.astype(np.int32)


class BoxPreparation(SamplePreparation[Boxes]):
    """Images with boxes."""

    def target(self, sample: Sample) -> Boxes:
        if sample.boxes is None:
            raise GauntletError(f"image '{sample.id}' has no boxes; a detector needs a dataset with boxes.")
        return sample.boxes


_prepare: SamplePreparation[Any] | None = None  # of a worker process


def _start_process(preparation: SamplePreparation[Any]) -> None:
    global _prepare
    _prepare = preparation
    torch.set_num_threads(1)


def _prepare_in_process(index: int, position: int) -> AnyPair:
    assert _prepare is not None
    return _prepare(index, position)


class Loader:
    """Batches of a range of steps, prepared ahead in the background.

    Args:
        preparation: makes one sample.
        order: which sample comes when.
        workers, kind, prefetch: of `DataConfig`.
        noise: of `AugmentationConfig`.
    """

    def __init__(
        self,
        preparation: SamplePreparation[Any],
        order: SampleOrder,
        *,
        workers: int,
        kind: str,
        prefetch: int,
        noise: float = 0.0,
    ) -> None:
        self.order = order
        self.prefetch = prefetch
        self.noise = noise
        self._preparation = preparation
        self._executor: Executor | None = None
        if workers and kind == "process":
            import multiprocessing

            # "spawn": a forked copy of a process that runs torch threads can hang.
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(workers, context, _start_process, (preparation,))
        elif workers:
            self._executor = ThreadPoolExecutor(workers, thread_name_prefix="gauntlet-samples")
        self._task: Callable[[int, int], AnyPair] = preparation if kind == "thread" else _prepare_in_process

    def batches(self, positions: Iterator[Sequence[int]]) -> Iterator[TrainingBatch]:
        """One batch for each group of positions, in order."""
        if self._executor is None:
            for group in positions:
                pairs = [self._preparation(self.order.index(position), position) for position in group]
                yield self._noisy(_stack(pairs), group)
            return
        waiting: deque[tuple[Sequence[int], list[Future[AnyPair]]]] = deque()
        for group in positions:
            tasks = [self._executor.submit(self._task, self.order.index(position), position) for position in group]
            waiting.append((group, tasks))
            if len(waiting) > self.prefetch:
                yield self._finished(*waiting.popleft())
        while waiting:
            yield self._finished(*waiting.popleft())

    def _finished(self, group: Sequence[int], tasks: Sequence[Future[AnyPair]]) -> TrainingBatch:
        return self._noisy(_stack([task.result() for task in tasks]), group)

    def _noisy(self, batch: TrainingBatch, group: Sequence[int]) -> TrainingBatch:
        """The batch with the noise of every sample's own stream."""
        if not self.noise:
            return batch
        for image, position in zip(batch.images, group, strict=True):
            stream = ImageSeed(self.order.seed, f"position {position}").stream("training|noise")
            drawn = numpy_generator(stream).standard_normal(image.shape, dtype=np.float32)  # (3, H, W)
            image += self.noise * torch.from_numpy(drawn)
        return batch

    def close(self) -> None:
        """Ends the workers."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)


def _stack(pairs: Sequence[AnyPair]) -> TrainingBatch:
    sizes = {image.shape[:2] for image, _ in pairs}
    if len(sizes) != 1:
        raise GauntletError(
            f"the images of a batch have the sizes {sorted(sizes)}; set augmentation.crop to train on them."
        )
    images = images_to_tensor([image for image, _ in pairs])
    targets = [target for _, target in pairs]
    if isinstance(targets[0], Boxes):
        return TrainingBatch(images, targets)
    return TrainingBatch(images, torch.from_numpy(np.stack(targets).astype(np.int64)))

"""A tiny detector and a dataset that it sees through; processes can build it: "python:tiny_detector:tiny_detector"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from gauntlet.datasets.contract import Color, Dataset
from gauntlet.models.contract import Candidates, DetectionModel, ModelIdentity, weights_digest
from gauntlet.samples import Boxes, Sample

CELL = 8
CLASSES = ("red", "green", "blue")


class TinyBoxes(Dataset):
    """Squares of one colour on dark noise; red, green and blue ones are the objects."""

    class_names = box_class_names = CLASSES
    colors: Sequence[Color] = ((255, 0, 0), (0, 255, 0), (0, 0, 255))
    ignore_index = None

    def __init__(self, length: int = 6, size: tuple[int, int] = (32, 48), name: str = "tiny-boxes") -> None:
        self.name, self.split = name, "val"
        self._length, self._size = length, size

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Sample:
        generator = np.random.default_rng(index)
        height, width = self._size
        image = generator.integers(0, 40, (height, width, 3)).astype(np.uint8)
        cells = [(y, x) for y in range(0, height - CELL, 2 * CELL) for x in range(0, width - CELL, 2 * CELL)]
        chosen = generator.permutation(len(cells))[: generator.integers(0 if index % 5 == 4 else 1, 4)]
        corners, classes = [], []
        for number in chosen:
            y, x = cells[number] + generator.integers(0, 2, 2)  # one pixel off the grid, sometimes
            kind = int(generator.integers(len(CLASSES)))
            image[y : y + CELL, x : x + CELL, kind] = 230
            corners.append((x, y, x + CELL, y + CELL))
            classes.append(kind)
        boxes = Boxes(np.array(corners, np.float32).reshape(-1, 4), np.array(classes, np.int64))
        return Sample(f"tiny-boxes/{index}", image, boxes=boxes)

    def ids(self) -> list[str]:
        return [f"tiny-boxes/{index}" for index in range(self._length)]


class TinyDetector(DetectionModel):
    """One candidate per cell of 8 x 8 pixels: its mean colour says the class, its box is the cell, moved a little."""

    def __init__(self, threshold: float = 0.05) -> None:
        super().__init__(num_classes=len(CLASSES), class_names=CLASSES, ignore_index=None)
        self.classify = nn.Conv2d(3, len(CLASSES), 1)
        self.move = nn.Conv2d(3, 4, 1)
        self.threshold = threshold
        assert self.classify.bias is not None
        assert self.move.bias is not None
        with torch.no_grad():
            self.classify.weight.copy_((16 * torch.eye(3) - 4).reshape(3, 3, 1, 1))
            self.classify.bias.fill_(-4.0)
            self.move.weight.copy_(torch.linspace(-0.3, 0.3, 12).reshape(4, 3, 1, 1))
            self.move.bias.zero_()
        self._identity = ModelIdentity("tiny-detector", weights_digest(self))
        self.freeze()

    def candidates(self, images: torch.Tensor) -> Candidates:
        colors = functional.avg_pool2d(images, CELL)  # (N, 3, h, w)
        scores = self.classify(colors).flatten(2).transpose(1, 2)
        rows, columns = torch.meshgrid(
            torch.arange(colors.shape[2], dtype=images.dtype), torch.arange(colors.shape[3], dtype=images.dtype),
            indexing="ij",
        )  # fmt: skip
        corner = torch.stack([columns, rows], dim=-1).reshape(-1, 2).to(images.device) * CELL
        boxes = torch.cat([corner, corner + CELL], dim=1) + self.move(colors).flatten(2).transpose(1, 2)
        return Candidates(scores, boxes, scores.amax(dim=2))

    def losses(self, images: torch.Tensor, targets: Sequence[Boxes]) -> torch.Tensor:
        detected = self.candidates(images)
        losses = []
        for scores, boxes, target in zip(detected.scores, detected.boxes, targets, strict=True):
            wanted, total = torch.zeros_like(scores), scores.new_zeros(())
            centres = (boxes[:, :2] + boxes[:, 2:]).detach() / 2
            for corners, kind in zip(torch.from_numpy(target.xyxy).to(boxes), target.classes, strict=True):
                inside = ((centres > corners[:2]) & (centres < corners[2:])).all(dim=1)
                wanted[inside, int(kind)] = 1
                total = total + (boxes[inside] - corners).abs().mean(dim=1).sum()
            losses.append(total + functional.binary_cross_entropy_with_logits(scores, wanted, reduction="sum"))
        return torch.stack(losses)

    def predict(self, images: torch.Tensor) -> list[Boxes]:
        with torch.no_grad():
            detected = self.candidates(images)
        probabilities, classes = detected.scores.sigmoid().max(dim=2)
        results = []
        for score, kind, boxes in zip(probabilities, classes, detected.boxes, strict=True):
            kept = score > self.threshold
            results.append(
                Boxes(boxes[kept].float().cpu().numpy(), kind[kept].cpu().numpy(), score[kept].float().cpu().numpy())
            )
        return results


def tiny_detector() -> TinyDetector:
    return TinyDetector()

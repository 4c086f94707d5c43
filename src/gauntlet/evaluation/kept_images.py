"""What models saw: the perturbed images of an evaluation as files, with an index."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
import torch

from gauntlet.datasets.truth_files import truth_files, write_truth
from gauntlet.errors import GauntletError
from gauntlet.samples import Sample

if TYPE_CHECKING:
    from gauntlet.evaluation.jobs import PlannedJob

INDEX = "index.json"


@dataclass(frozen=True)
class KeptImages:
    """The folder of one evaluation: a PNG to look at and the exact numbers of every image.

    The numbers are float32 (H, W, 3), RGB in [0, 1], as `numpy.load` reads them; the PNG is rounded to 8 bits. Where a
    threat moved the ground truth along, labels and boxes in the frame of the image are written beside it.

    Attributes:
        folder: where they go.
    """

    folder: Path

    @classmethod
    def of(cls, folder: str | Path, planned: PlannedJob) -> KeptImages:
        """The place of an evaluation in a folder of many: its model, its threat and the beginning of its key."""
        words = f"{planned.job.model} {planned.job.threat}"
        name = re.sub(r"[^A-Za-z0-9.]+", "-", words).strip("-.")[:80]
        return cls(Path(folder) / f"{name}-{planned.job.key[:8]}")

    def write(self, position: int, image_id: str, image: torch.Tensor, moved: Sample | None = None) -> None:
        """Writes one image (3, H, W), and the ground truth where the threat moved it."""
        pixels = image.detach().permute(1, 2, 0).float().cpu().numpy()  # (H, W, 3)
        png, numbers = self._files(position, image_id)
        self.folder.mkdir(parents=True, exist_ok=True)
        np.save(numbers, pixels)
        rounded = np.round(pixels * 255).astype(np.uint8)
        if not cv2.imwrite(str(png), rounded[..., ::-1]):
            raise GauntletError(f"{png} cannot be written.")
        if moved is not None:
            write_truth(moved, png)

    def write_index(self, planned: PlannedJob) -> None:
        """Writes which files are which images of which evaluation; those of a session without a folder are missing."""
        images = []
        for position, image_id in enumerate(planned.dataset.ids()):
            png, numbers = self._files(position, image_id)
            if png.exists() and numbers.exists():
                truth = {word: path.name for word, path in truth_files(png).items() if path.exists()}
                images.append({"position": position, "id": image_id, "png": png.name, "float": numbers.name, **truth})
        job = planned.job
        facts = {"key": job.key, "model": job.model, "dataset": dict(job.dataset), "threat": dict(job.description)}
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**facts, "seed": job.seed, "images": images}, indent=1)
        (self.folder / INDEX).write_text(text + "\n", encoding="utf-8")

    def _files(self, position: int, image_id: str) -> tuple[Path, Path]:
        stem = f"{position:06d}-" + re.sub(r"[^A-Za-z0-9._]+", "-", image_id).strip("-.")[-60:]
        return self.folder / f"{stem}.png", self.folder / f"{stem}.npy"

"""What the CRF costs at 512x1024 with 19 classes, and how far its method for large images is from the exact one.

    python benchmarks/crf.py [cost] [errors] [--sides 2 1 0.5] [--data FOLDER] [--json FILE]

cost: five iterations of the preset crfrnn on two threads, forward alone and with the gradient to logits and image, in a
process of its own, whose largest resident memory is also stated. Bounds: 15 s, 40 s, 3 GB; exits with 1 when one is
missed. The images are photographs, enlarged, and a rendered scene where there are none: what it costs depends on how
many different colours an image has.

errors: photographs of CamVid, reduced and cropped to 96x128, with the logits of a published ENet: mean difference of
beliefs, pixels whose class differs, and the cosine between the gradients of the two methods.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch.nn import functional

from gauntlet.datasets import load_dataset
from gauntlet.defences.crf import Crf
from gauntlet.models import SegmentationModel, load_model
from gauntlet.samples import collate

REAL_DATA = Path(__file__).resolve().parents[2] / "shared" / "realdata"
LARGE, SMALL = (512, 1024), (96, 128)
CLASSES, ITERATIONS, THREADS = 19, 5, 2
BOUNDS = {"forward_s": 15.0, "gradient_s": 40.0, "memory_gb": 3.0}
PHOTOGRAPHS = (
    "coco_val/images/000000000285.jpg",
    "photos/imagecorruptions_test_image.jpg",
    "camvid/test/0001TP_008550.jpg",
)


class Saying(SegmentationModel):
    """Says the same logits to every image."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__(num_classes=logits.shape[1])
        self.logits = logits

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.logits


def photograph(path: Path) -> torch.Tensor:
    """(1, 3, H, W) in [0, 1]."""
    pixels = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
    return torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255


def large_images(data: Path = REAL_DATA) -> dict[str, torch.Tensor]:
    """Images of 512x1024 pixels by name."""
    found = {name: data / name for name in PHOTOGRAPHS if (data / name).is_file()}
    if not found:
        return {"streets": collate([load_dataset("streets", size=LARGE, length=1)[0]]).images}
    sizes = {name: functional.interpolate(photograph(path), LARGE, mode="bilinear") for name, path in found.items()}
    return {name: (image * 255).round() / 255 for name, image in sizes.items()}


def logits_like(image: torch.Tensor) -> torch.Tensor:
    """Smooth random logits of 19 classes for an image, (1, 19, H, W)."""
    coarse = 2 * torch.randn(1, CLASSES, 16, 32, generator=torch.Generator().manual_seed(0))
    return functional.interpolate(coarse, image.shape[-2:], mode="bicubic")


def _measure(image: torch.Tensor, with_gradient: bool) -> tuple[float, float, float]:
    torch.set_num_threads(THREADS)
    # Loads or compiles the loops, on an image of a few pixels.
    tiny = torch.rand(1, 3, 8, 8, requires_grad=True)
    Crf(Saying(torch.rand(1, CLASSES, 8, 8)), method="cells")(tiny).sum().backward()
    logits = logits_like(image).requires_grad_(with_gradient)
    image = image.requires_grad_(with_gradient)
    model = Crf(Saying(logits), preset="crfrnn", iterations=ITERATIONS)
    wall, cpu = time.perf_counter(), time.process_time()
    refined = model(image)
    if with_gradient:
        torch.autograd.grad(functional.cross_entropy(refined, logits.argmax(dim=1)), (logits, image))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def cost(image: torch.Tensor) -> dict[str, float]:
    """Seconds of wall and processor time and gigabytes for one image, each measured in a process of its own."""
    context = multiprocessing.get_context("spawn")
    found: dict[str, float] = {}
    for kind in ("forward", "gradient"):
        with ProcessPoolExecutor(1, context) as pool:
            measured = pool.submit(_measure, image, kind == "gradient").result()
        found[f"{kind}_s"], found[f"{kind}_cpu_s"], found["memory_gb"] = measured
    return found


def costs(data: Path = REAL_DATA) -> tuple[dict[str, dict[str, float]], bool]:
    """Costs by image, and whether all keep the bounds."""
    rows: dict[str, dict[str, float]] = {}
    for name, image in large_images(data).items():
        rows[name] = cost(image)
        line = (
            "{:44} forward {forward_s:5.1f} s ({forward_cpu_s:5.1f} of processors), with gradient {gradient_s:5.1f} s "
        )
        print((line + "({gradient_cpu_s:5.1f}), {memory_gb:.2f} GB").format(name, **rows[name]), flush=True)
    return rows, all(row[name] <= bound for row in rows.values() for name, bound in BOUNDS.items())


def camvid_cases(data: Path = REAL_DATA) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Name, image and logits: two photographs reduced to 96x128, and windows of that size."""
    network = load_model("camvid/enet", weights=str(data / "checkpoints" / "enet_camvid.pth"))
    for path in sorted((data / "camvid" / "test").iterdir())[:120:60]:
        image = photograph(path)
        with torch.no_grad():
            logits = network(image)
        reduced = (functional.interpolate(image, SMALL, mode="area") * 255).round() / 255
        yield f"{path.stem} reduced", reduced, functional.interpolate(logits, SMALL, mode="bilinear", antialias=True)
        window = (..., slice(120, 120 + SMALL[0]), slice(150, 150 + SMALL[1]))
        yield f"{path.stem} window", image[window].contiguous(), logits[window].contiguous()


def refined(
    image: torch.Tensor, logits: torch.Tensor, **settings: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Beliefs, and gradients to logits and image of the cross-entropy to what the logits say."""
    image, logits = image.clone().requires_grad_(), logits.clone().requires_grad_()
    found = Crf(Saying(logits), iterations=ITERATIONS, **settings)(image)
    loss = functional.cross_entropy(found, logits.argmax(dim=1))
    return (found.detach().softmax(dim=1), *torch.autograd.grad(loss, (logits, image)))


def errors(sides: Sequence[float], data: Path = REAL_DATA) -> list[dict[str, Any]]:
    """Differences of the cells from the exact kernel, a row for every photograph, preset and side."""
    rows = []
    for name, image, logits in camvid_cases(data):
        for preset in ("crfrnn", "deeplab-resnet", "pydensecrf"):
            exact = refined(image, logits, preset=preset, method="exact")
            for side in sides:
                cells = refined(image, logits, preset=preset, method="cells", side=side)
                rows.append({"image": name, "preset": preset, "side": side, **difference(exact, cells)})
                print(" ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    return rows


def difference(exact: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> dict[str, float]:
    """How far what `refined` gives with one method is from what it gives with another."""
    to_logits, to_image = (
        functional.cosine_similarity(exact[index].flatten(), other[index].flatten(), dim=0).item() for index in (1, 2)
    )
    return {
        "mean_dq": (other[0] - exact[0]).abs().mean().item(),
        "changed_percent": 100 * (other[0].argmax(1) != exact[0].argmax(1)).double().mean().item(),
        "cosine_logits": to_logits,
        "cosine_image": to_image,
    }


def summary(rows: Sequence[dict[str, Any]]) -> None:
    """Means over photographs."""
    for preset, side in sorted({(row["preset"], row["side"]) for row in rows}):
        chosen = [row for row in rows if (row["preset"], row["side"]) == (preset, side)]
        mean = {
            key: float(np.mean([row[key] for row in chosen])) for key in chosen[0] if isinstance(chosen[0][key], float)
        }
        print(preset, side, json.dumps({key: round(value, 5) for key, value in mean.items()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["cost"], help="cost, errors or both.")
    parser.add_argument("--sides", type=float, nargs="*", default=[2.0, 1.0, 0.5])
    parser.add_argument("--data", type=Path, default=REAL_DATA, help="Folder of the photographs.")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    kept = True
    if "cost" in chosen.parts:
        found["cost"], kept = costs(chosen.data)
    if "errors" in chosen.parts:
        torch.set_num_threads(1)
        found["errors"] = errors(chosen.sides, chosen.data)
        summary(found["errors"])
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))
    sys.exit(int(not kept))


if __name__ == "__main__":
    main()

"""Milliseconds per image of every corruption, beside the `imagecorruptions` package, one thread each, in one run.

The package needs an environment of its own (it does not run with current NumPy and scikit-image):

    python3.10 -m venv peer
    peer/bin/pip install "numpy==1.23.5" "scikit-image==0.19.3" "scipy==1.10.1" "opencv-python-headless==4.7.0.72" \\
        "Pillow==9.5.0" "numba==0.57.1"
    peer/bin/pip install --no-deps imagecorruptions==1.1.2
    python benchmarks/corruptions.py --peer-python peer/bin/python

Processor time of one thread. Both sides run in turns, several rounds each, and the fastest call counts: other work on
the machine then hits both alike. Exits with 1 when the geometric mean over the fifteen is below 8 or one of them is
slower than the package.

Those in 3D have no peer; on a street scene with its depth:

    python benchmarks/corruptions.py --three-d --size 128 256 --severity 3
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # before NumPy reads them
    os.environ[_variable] = "1"

import cv2  # noqa: E402
import numpy as np  # noqa: E402

from gauntlet.datasets import load_dataset  # noqa: E402
from gauntlet.threats.corruptions import COMMON, EXTRA, corrupt, names  # noqa: E402

TARGET_MEAN = 8.0

PEER = r"""
import json, sys, time, warnings
warnings.filterwarnings("ignore")
import cv2, imagecorruptions, numba, numpy as np
from imagecorruptions import corrupt
from skimage.filters import gaussian
cv2.setNumThreads(1)

# The wheel's glass_blur walks over the pixels in Python (tens of seconds); its repository compiles the walk with numba.
# The faster of the two is what we compare with.
@numba.njit
def walk(x, delta, passes):
    for _ in range(passes):
        for h in range(x.shape[0] - delta, delta, -1):
            for w in range(x.shape[1] - delta, delta, -1):
                dx, dy = np.random.randint(-delta, delta, size=2)
                x[h, w], x[h + dy, w + dx] = x[h + dy, w + dx], x[h, w]
    return x

def glass_blur(x, severity):
    sigma, delta, passes = [(0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)][severity - 1]
    x = np.uint8(gaussian(np.array(x) / 255.0, sigma=sigma, channel_axis=-1) * 255)
    x = walk(x, delta, passes)
    return np.clip(gaussian(x / 255.0, sigma=sigma, channel_axis=-1), 0, 1) * 255

imagecorruptions.corruption_dict["glass_blur"] = glass_blur
image = np.load(sys.argv[1])
for line in sys.stdin:
    name, severity, repeats = json.loads(line)
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        corrupt(image, corruption_name=name, severity=severity)
        best = min(best, time.process_time() - start)
    print(json.dumps(best), flush=True)
"""


class Peer:
    """The other package, waiting in its own interpreter."""

    def __init__(self, python: str, image_path: str) -> None:
        self._process = subprocess.Popen(
            [python, "-c", PEER, image_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._requests.close()
        self._process.wait()

    def seconds(self, name: str, severity: int, repeats: int) -> float:
        self._requests.write(json.dumps([name, severity, repeats]) + "\n")
        self._requests.flush()
        answer = self._answers.readline()
        if not answer:
            raise SystemExit(f"the peer interpreter stopped at {name}; see its message above.")
        return float(json.loads(answer))


def test_image(height: int, width: int) -> np.ndarray:
    """Waves, ramps and checks in three channels: the pattern S1 of the specification on a larger field."""
    y, x = np.mgrid[:height, :width]
    red = (
        40
        + x % 256 // 2
        + 50 * np.sin(2 * np.pi * x / 32) * np.sin(2 * np.pi * y / 32)
        + 30 * ((x // 32 + y // 32) % 2)
    )
    green = 30 + y % 256 // 2 + 50 * np.sin(2 * np.pi * (x + y) / 24) + 40 * ((x // 16 + y // 16) % 2)
    blue = 200 - (x + y) % 512 // 4 + 40 * np.cos(2 * np.pi * (x - 2 * y) / 40)
    return np.clip(np.floor(np.stack([red, green, blue], axis=2) + 0.5), 0, 255).astype(np.uint8)


def best_seconds(call: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def measure(
    image: np.ndarray, depth: np.ndarray | None, name: str, severity: int, peer: Peer | None, rounds: int, repeats: int
) -> dict[str, float]:
    """Milliseconds of the first call, of the fastest one and of the peer's fastest, and the ratio."""

    def call(seed: int = 0) -> None:
        corrupt(image, name, severity, seed, depth=depth)

    first = best_seconds(call, 1)
    for seed in range(12):  # a random corruption may have more than one texture to prepare
        call(seed)
    if peer:
        peer.seconds(name, severity, 1)
    ours = theirs = float("inf")
    for _ in range(rounds):
        ours = min(ours, best_seconds(call, repeats))
        theirs = min(theirs, peer.seconds(name, severity, repeats)) if peer else theirs
    return {"first_ms": first * 1e3, "ms": ours * 1e3, "peer_ms": theirs * 1e3, "ratio": theirs / ours}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer-python", help="interpreter of an environment with imagecorruptions 1.1.2")
    parser.add_argument("--severity", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3, help="calls per round")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--names", nargs="*", default=[*COMMON, *EXTRA], help="corruptions in 2D; all by default")
    which.add_argument("--three-d", action="store_true", help="those in 3D instead, on a street scene with its depth")
    parser.add_argument("--size", type=int, nargs=2, default=[512, 1024], help="height and width of the image")
    parser.add_argument("--json", help="file for the figures")
    arguments = parser.parse_args()

    if arguments.three_d and arguments.peer_python:
        parser.error("the corruptions in 3D have no peer; leave out --peer-python")
    cv2.setNumThreads(1)
    if arguments.three_d:
        scene = load_dataset("streets", split="val", limit=1, size=tuple(arguments.size))[0]
        image, depth, chosen = scene.image, scene.depth, names("3d")
    else:
        image, depth, chosen = test_image(*arguments.size), None, arguments.names
    rows: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        np.save(f"{folder}/image.npy", image)
        peer = None
        if arguments.peer_python:
            peer = stack.enter_context(Peer(arguments.peer_python, f"{folder}/image.npy"))
        print(f"{'corruption':20} {'first call ms':>14} {'ms':>8} {'peer ms':>8} {'times faster':>13}")
        for name in chosen:
            row = measure(image, depth, name, arguments.severity, peer, arguments.rounds, arguments.repeats)
            rows[name] = row
            print(
                f"{name:20} {row['first_ms']:14.0f} {row['ms']:8.2f} {row['peer_ms']:8.2f} {row['ratio']:13.1f}",
                flush=True,
            )
    if arguments.json:
        Path(arguments.json).write_text(json.dumps([{"name": name, **row} for name, row in rows.items()], indent=1))
    common = [row["ratio"] for name, row in rows.items() if name in COMMON]
    if not arguments.peer_python or not common:
        return 0
    mean = float(np.exp(np.mean(np.log(common))))
    print(f"geometric mean of the {len(common)} common ones: {mean:.2f} times faster; least: {min(common):.2f}")
    return 0 if mean >= TARGET_MEAN and min(common) >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())

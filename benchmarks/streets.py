"""How many street scenes a second one core renders, with labels, boxes and depth.

Example: python benchmarks/streets.py --count 200
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

from gauntlet.datasets.streets import Streets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="how many scenes to render")
    parser.add_argument("--size", type=int, nargs=2, default=(128, 256), metavar=("HEIGHT", "WIDTH"))
    arguments = parser.parse_args()
    dataset = Streets("train", length=arguments.count, size=tuple(arguments.size))
    dataset[0]  # compiles the kernels or loads them from the cache
    wall, core = time.perf_counter(), time.process_time()
    for _ in dataset:
        pass
    wall, core = time.perf_counter() - wall, time.process_time() - core
    height, width = dataset.size
    print(f"{arguments.count} scenes of {height}x{width}: {arguments.count / wall:.1f} a second of wall time,")
    print(f"{arguments.count / core:.1f} a second of one core's time ({1000 * core / arguments.count:.1f} ms a scene)")


if __name__ == "__main__":
    main()

"""What it costs to know things by what they are: shares of a clean evaluation, in one run of this script.

    OMP_NUM_THREADS=1 python benchmarks/identity.py --root CAMVID --images 64

Rows: reading the files of a dataset for the first time and again, the probe of a model, and a run of the suite `quick`
whose results are all stored against one that computes them. Without --root a folder of the same number of generated
photographs is written.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gauntlet.datasets import Dataset, contents, load_dataset
from gauntlet.datasets.streets.dataset import Streets
from gauntlet.evaluation import evaluate
from gauntlet.evaluation.execution.runner import run_jobs
from gauntlet.evaluation.plan import parse_plan, plan_jobs
from gauntlet.models import load_model
from gauntlet.models.probe import probe_model
from gauntlet.results import Store


def seconds(action: Callable[[], object], rounds: int = 1) -> float:
    """The least time of some rounds."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times)


def write_photographs(folder: Path, images: int) -> None:
    """A folder of PNG images with masks."""
    import numpy as np
    from PIL import Image

    scenes = Streets(length=images)
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True)
    for index in range(images):
        sample = scenes[index]
        assert sample.labels is not None
        Image.fromarray(sample.image).save(folder / "images" / f"{index}.png")
        Image.fromarray(np.asarray(sample.labels, dtype=np.uint8)).save(folder / "masks" / f"{index}.png")
    (folder / "classes.txt").write_text("\n".join(scenes.class_names))


def forget() -> None:
    """Forget what this process knows of files, as a new process does."""
    contents._SEEN.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="a copy of CamVid")
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--model", default="streets/enet")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        os.environ["GAUNTLET_CACHE"] = str(Path(place) / "cache")
        if given.root is None:
            write_photographs(Path(place) / "photos", given.images)
        for path in Path(place).rglob("*.png"):  # settled files, as a user's are
            os.utime(path, (1, 1))
        contents._SETTLED = -60.0

        def opened() -> Dataset:
            if given.root is None:
                return load_dataset("folder", root=Path(place) / "photos")
            return load_dataset("camvid", root=given.root, limit=given.images)

        model = load_model(given.model)
        evaluate(model, opened().subset(4))  # compiled, warm
        trusted = opened()
        trusted.trusted = True
        clean = seconds(lambda: evaluate(model, trusted))
        os.environ["GAUNTLET_CACHE"] = str(Path(place) / "empty")
        forget()
        data = opened()
        first = seconds(data.contents)
        forget()
        later = seconds(data.contents, rounds=3)
        same = seconds(data.contents, rounds=3)
        print(f"clean evaluation of {len(data)} images: {clean:.2f} s")
        for name, value in (
            ("files read for the first time", first),
            ("files known, new process", later),
            ("files known, same process", same),
            ("probe of the model", seconds(lambda: probe_model(model), rounds=3)),
        ):
            print(f"{name:32} {1000 * value:8.1f} ms {100 * value / clean:6.2f} % of it")
        scenes = {"name": "streets", "limit": given.images}
        plan = parse_plan({"models": [given.model], "datasets": [scenes], "suites": ["quick"]})
        store = Store()
        computed = seconds(lambda: run_jobs(plan_jobs(plan, "cpu"), store))
        found = seconds(lambda: run_jobs(plan_jobs(plan, "cpu"), store))
        print(f"quick on {given.images} scenes: {computed:.1f} s; all found: {100 * found / computed:.2f} % of it")


if __name__ == "__main__":
    main()

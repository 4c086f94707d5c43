"""How large a report is and how long it takes: 20 models x 40 threats, made up.

python benchmarks/report.py [--models 20] [--images 50] [--classes 19]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gauntlet.report import build_report
from gauntlet.report.order import read_scope_images
from gauntlet.report.render import html
from gauntlet.report.scope import scopes
from gauntlet.results import Store, open_store

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "report"))
from synthetic_store import LARGE, fill_store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--images", type=int, default=50)
    parser.add_argument("--classes", type=int, default=19)
    parser.add_argument("--store", type=Path, help="keep the store here, and use it again when it is there")
    parser.add_argument("--output", type=Path, help="keep the report here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.store or Path(folder) / "results.db"
        if not path.exists():
            fill(path, options.models, options.images, options.classes)
        with open_store(path, read_only=True) as store:
            measure(store, options.output or Path(folder) / "report.html")


def fill(path: Path, models: int, images: int, classes: int) -> None:
    began = time.perf_counter()
    with open_store(path) as store:
        names = [f"zoo/model-{number:02d}" for number in range(models)]
        fill_store(store, names, LARGE, images=images, classes=[f"class {number}" for number in range(classes)])
        print(f"store: {store.count()} evaluations of {images} images, made in {time.perf_counter() - began:.1f} s")


Result = TypeVar("Result")


def measure(store: Store, output: Path) -> None:
    clocks = {"wall": time.perf_counter, "processor": time.process_time}

    def seconds(work: Callable[[], Result]) -> tuple[Result, dict[str, float]]:
        began = {name: clock() for name, clock in clocks.items()}
        done = work()
        return done, {name: clock() - began[name] for name, clock in clocks.items()}

    def read() -> None:
        for scope in scopes(store.frame()):
            read_scope_images(store, scope)
            for key in scope.evaluations["key"]:
                store.load(key)

    _, reading = seconds(read)
    document, building = seconds(lambda: build_report(store))
    page, writing = seconds(lambda: html.write(document))
    output.write_text(str(page), encoding="utf-8")
    for name, parts in (("reading the store", reading), ("building, reading included", building), ("writing", writing)):
        print(f"{name}: {parts['wall']:.1f} s wall, {parts['processor']:.1f} s processor")
    beyond = {name: building[name] + writing[name] - reading[name] for name in clocks}
    print(f"beyond reading: {beyond['wall']:.1f} s wall, {beyond['processor']:.1f} s processor (limit 20)")
    print(f"size: {output.stat().st_size / 1e6:.2f} MB (limit 12)")


if __name__ == "__main__":
    main()

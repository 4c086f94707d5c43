"""Many random configurations beside independent references: segmentation, regions, detection, protocols, folders.

    python scripts/differential.py --configurations 30000 --seed 1

The state is written to --state after every hundred configurations and when the run is stopped; the same command goes on
from there. Ends with 1 when a configuration differs; the number and the seed of each are in the state.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/differential"))

from configurations import KINDS, differences

EVERY = 100


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configurations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS), help="which take turns, with commas")
    parser.add_argument("--state", type=Path, default=Path("differential.json"))
    given = parser.parse_args(arguments)
    kinds = given.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"unknown kinds {sorted(unknown)}; expected some of {', '.join(KINDS)}")
    state = {"seed": given.seed, "kinds": kinds, "next": 0, "seconds": 0.0, "compared": {}, "differences": []}
    if given.state.exists():
        state = json.loads(given.state.read_text())
        if (state["seed"], state["kinds"]) != (given.seed, kinds):
            parser.error(f"{given.state} is of another run (seed {state['seed']}); give another --state")
    return _run(state, given.configurations, given.state)


def _run(state: dict, configurations: int, path: Path) -> int:  # type: ignore[type-arg]
    compared, before, begun = Counter(state["compared"]), state["seconds"], time.process_time()

    def keep() -> None:
        state["compared"], state["seconds"] = dict(compared), before + time.process_time() - begun
        path.write_text(json.dumps(state, indent=1) + "\n")

    try:
        for number in range(state["next"], configurations):
            kind, found = differences(number, state["seed"], state["kinds"])
            compared[kind] += 1
            state["next"] = number + 1
            if found:
                state["differences"].append({"number": number, "kind": kind, "found": found})
                print(f"{kind} {number}: {found[0]}", flush=True)
            if number % EVERY == EVERY - 1:
                keep()
    except KeyboardInterrupt:
        print("stopped; the same command goes on", flush=True)
    keep()
    counts = ", ".join(f"{count} {kind}" for kind, count in compared.items())
    print(
        f"{sum(compared.values())} configurations ({counts}), {len(state['differences'])} differ, "
        f"{state['seconds']:.0f} s of processor time"
    )
    return int(bool(state["differences"]))


if __name__ == "__main__":
    sys.exit(main())

"""Thousands of mutated inputs: only success or one sentence, within 10 s of processor time and 2 GB each.

    python scripts/fuzz.py settings --cases 10000    # plans, threat files, names, options of models, recipes
    python scripts/fuzz.py files --cases 2000        # images, annotations, classes, checkpoints, safetensors, stores

Every case has a number and is made of the seed, so a run that was stopped goes on with --start. What fails is written to
--found as KIND-NUMBER.bin with its traceback; `tests/data/fuzz` keeps one of each that was mended.
"""

from __future__ import annotations

import argparse
import collections
import logging
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import fuzzing

SECONDS, MEGABYTES = 10.0, 2048


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS:g} s of processor time")


def where(error: BaseException) -> str:
    """The error and the last line of ours that it came through: what counts as one fault."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "/gauntlet/" in frame.filename]
    last = ours[-1] if ours else traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} {Path(last.filename).name}:{last.lineno}"


def run(kinds: list[str], cases: int, start: int, seed: int, found: Path) -> int:
    signal.signal(signal.SIGPROF, _too_long)
    logging.disable(logging.CRITICAL)
    faults: collections.Counter[str] = collections.Counter()
    tried: collections.Counter[str] = collections.Counter()
    taken: collections.Counter[str] = collections.Counter()
    slowest, begun = (0.0, ""), time.process_time()
    for number in range(start, cases):
        kind = kinds[number % len(kinds)]
        content = fuzzing.made(kind, number, seed)
        tried[kind] += 1
        before = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            with tempfile.TemporaryDirectory() as folder:
                taken[kind] += fuzzing.read(kind, content, Path(folder))
        except Exception as error:
            signal.setitimer(signal.ITIMER_PROF, 0)
            fault = f"{kind}: {where(error)}"
            faults[fault] += 1
            if faults[fault] == 1:
                found.mkdir(parents=True, exist_ok=True)
                (found / f"{kind}-{number}.bin").write_bytes(content)
                (found / f"{kind}-{number}.txt").write_text(f"{fault}\n{traceback.format_exc()}")
                print(f"{number}: {fault}: {str(error)[:200]!r}", flush=True)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        slowest = max(slowest, (time.process_time() - before, f"{kind} {number}"))
        if number % 500 == 499:
            print(f"{number + 1} cases, {sum(faults.values())} failed, {_peak()} MB", flush=True)
    print(
        f"seed {seed}: {sum(tried.values())} cases ({', '.join(f'{kind} {count}, {taken[kind]} taken' for kind, count in tried.items())}), "
        f"{sum(faults.values())} failed in {len(faults)} ways, slowest {slowest[0]:.1f} s ({slowest[1]}), peak "
        f"{_peak()} MB, {time.process_time() - begun:.0f} s of processor time"
    )
    return 1 if faults or _peak() > MEGABYTES else 0


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group", choices=["settings", "files", *fuzzing.KINDS])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"))
    given = parser.parse_args()
    groups = {"settings": list(fuzzing.SETTINGS), "files": list(fuzzing.FILES)}
    return run(groups.get(given.group, [given.group]), given.cases, given.start, given.seed, given.found)


if __name__ == "__main__":
    sys.exit(main())

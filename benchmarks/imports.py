"""What `import gauntlet` costs against `import torch, numpy`, each in a fresh interpreter.

python benchmarks/imports.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time


def best(code: str, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    base = best("import torch, numpy", rounds)
    for code in ("import gauntlet", "import gauntlet; gauntlet.evaluate, gauntlet.load_model, gauntlet.load_dataset"):
        seconds = best(code, rounds)
        print(f"{code:80s} {seconds:5.2f} s, {seconds / base:.2f} times 'import torch, numpy' ({base:.2f} s)")


if __name__ == "__main__":
    main()

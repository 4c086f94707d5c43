"""Time from a clone to the first figure of a network of one's own, installation included.

    python3 scripts/first_figure.py [FOLDER]

Clones this repository's last commit into FOLDER (a temporary one by default), installs it as README says, writes the
U-Net and the photographs of `tests/stranger.py`, trains for seconds, evaluates, and prints the seconds of every step.
Needs no package but Python itself.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
LIMIT = 300.0
"""Seconds that all steps together may take."""
BRING = (
    "import sys; sys.path.insert(0, sys.argv[1]); import pathlib, stranger; stranger.bring_everything(pathlib.Path())"
)


def steps(folder: Path) -> dict[str, tuple[Path, list[str]]]:
    """What is run, and where, by name."""
    clone, home = folder / "gauntlet", folder / "home"
    binaries = clone / ".venv/bin"
    photos = ["--dataset", "folder:photos", "--split", "val"]
    return {
        "clone": (folder, ["git", "clone", "--quiet", "--depth", "1", REPOSITORY.as_uri(), str(clone)]),
        "environment": (folder, [sys.executable, "-m", "venv", str(clone / ".venv")]),
        "install": (clone, [str(binaries / "pip"), "install", "--quiet", "-c", "constraints.txt", "-e", "."]),
        "bring an own network": (home, [str(binaries / "python"), "-c", BRING, str(clone / "tests")]),
        "train it": (home, [str(binaries / "gauntlet"), "train", "recipe.yaml"]),
        "first figure": (home, [str(binaries / "gauntlet"), "run", "--model", "trained/berries", *photos]),
    }


def main() -> int:
    """Runs every step; 1 where they took too long together."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="first-figure-")).resolve()
    (folder / "home").mkdir(parents=True)
    total = 0.0
    for name, (place, command) in steps(folder).items():
        began = time.monotonic()
        subprocess.run(command, cwd=place, check=True)
        seconds = time.monotonic() - began
        total += seconds
        print(f"{name}: {seconds:.1f} s", flush=True)
    print(f"from clone to first figure: {total:.1f} s, {'within' if total <= LIMIT else 'over'} {LIMIT:.0f} s")
    return int(total > LIMIT)


if __name__ == "__main__":
    sys.exit(main())

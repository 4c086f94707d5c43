"""The environment in which tests start other processes."""

from __future__ import annotations

import os
from pathlib import Path

from paths import ROOT


def environment(*folders: Path, **variables: str) -> dict[str, str]:
    """The variables of a process that imports this tree's own package, whichever copy is installed, and then `folders`.

    One thread per process, as in the tests themselves.
    """
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = [str(ROOT / "src"), *(str(folder) for folder in folders), *(folder for folder in inherited if folder)]
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path), **variables}

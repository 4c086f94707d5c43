"""Compiled loops in fresh processes: nothing compiled unasked, caches found again, folders that are not writable."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paths import ROOT
from subprocesses import environment

# Imports every module that has compiled functions, calls one of them, tells what was compiled and read from the cache.
SCRIPT = """
import importlib, json, os, sys
from pathlib import Path
import numpy as np
from numba.core import event

package = Path(sys.argv[1])
with event.install_recorder("numba:compile") as recorder:
    for file in package.rglob("*.py"):
        if "from gauntlet.compiling import" in file.read_text():
            name = ".".join(file.relative_to(package.parent).with_suffix("").parts)
            assert Path(importlib.import_module(name).__file__) == file
    imported = len(recorder.buffer)
    from gauntlet.metrics.segmentation.kernels import count_pixels
    counts = np.zeros((1, 2, 2), np.int64)
    count_pixels(np.array([0, 1, 1], np.uint8), np.array([0, 0, 9], np.uint8), None, 9, counts)
names = [record.data["dispatcher"].__name__ for _, record in recorder.buffer]
print(json.dumps({
    "counts": counts[0].tolist(), "compiled by importing": imported, "compiled": sorted(set(names)),
    "from the cache": sum(count_pixels.stats.cache_hits.values()), "writable": os.access(package, os.W_OK),
}))
"""


def first_call(package: Path, home: Path) -> dict[str, object]:
    """What `SCRIPT` prints in a process that may not write to `package`, not even as root."""
    command = [sys.executable, "-B", "-c", SCRIPT, str(package)]
    if os.geteuid() == 0:  # without this capability root is bound by permissions like everyone
        command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--", *command]
    variables = environment(XDG_CACHE_HOME=str(home / "cache"), HOME=str(home), PYTHONPATH=str(package.parent))
    variables.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(done.stdout)
    return told


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Path]:
    """A copy of the package, without weights, whose folders cannot be written."""
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root writes everywhere, and there is no setpriv here to forbid it")
    package = tmp_path / "site" / "gauntlet"
    shutil.copytree(ROOT / "src" / "gauntlet", package, ignore=shutil.ignore_patterns("*.nb[ic]", "*.safetensors"))
    folders = [package, *(path for path in package.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    yield package
    for folder in folders:
        folder.chmod(0o755)


@pytest.mark.slow
def test_a_read_only_installation_caches_in_the_home_of_the_user(installation: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    expected = {"counts": [[1, 1], [0, 0]], "compiled by importing": 0, "writable": False}
    assert first_call(installation, home) == {**expected, "compiled": ["count_pixels"], "from the cache": 0}
    assert first_call(installation, home) == {**expected, "compiled": [], "from the cache": 1}
    assert not list(installation.rglob("*.nb?"))


@pytest.mark.slow
def test_a_read_only_installation_without_a_home_compiles_in_memory(installation: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    told = first_call(installation, home)
    assert (told["counts"], told["compiled"], told["writable"]) == ([[1, 1], [0, 0]], ["count_pixels"], False)
    assert told["compiled by importing"] == 0
    assert list(home.iterdir()) == []

"""What a process keeps between passes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paths import ROOT

PROGRAM = """
import resource, runpy, sys

keep_freed_memory = runpy.run_path(sys.argv[1])["keep_freed_memory"]  # the package would import torch, for seconds

def faults():
    "Pages that the system hands out for four blocks of 64 MB, one after the other."
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        bytearray(b"1") * (64 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

default, kept = faults(), keep_freed_memory()
faults()
print(kept, default, faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_freed_memory_is_used_again_without_asking_the_system() -> None:
    command = [sys.executable, "-c", PROGRAM, str(ROOT / "src" / "gauntlet" / "evaluation" / "execution" / "memory.py")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    kept, default, again = run.stdout.split()
    if kept == "False":
        pytest.skip("another C library")
    assert int(again) < int(default) / 10

"""What a process keeps between passes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from subprocesses import environment

PROGRAM = """
import resource
import numpy as np
from gauntlet.evaluation.memory import keep_freed_memory

def faults():
    "Pages that the system hands out for ten arrays of 64 MB, one after the other."
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        np.ones(8 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

default, kept = faults(), keep_freed_memory()
faults()
print(kept, default, faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_freed_memory_is_used_again_without_asking_the_system() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment())
    kept, default, again = run.stdout.split()
    if kept == "False":
        pytest.skip("another C library")
    assert int(again) < int(default) / 10

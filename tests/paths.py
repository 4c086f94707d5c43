"""Where tests find files: reference tables beside them, and real data beside the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The repository."""

TESTS = ROOT / "tests"
"""The tests, with the networks and datasets that other processes import by name."""

DATA = TESTS / "data"
"""Reference tables and stores of earlier versions; part of the repository, so that no test has to skip for them."""

SHARED = ROOT.parent / "shared"
"""Real images and checkpoints, too large or not ours to ship; tests that need them skip where the folder is missing."""

"""DetecBench's name for no threat at all."""

from __future__ import annotations

from gauntlet.threats.contract import Clean


def IID() -> Clean:
    """Images as they are."""
    return Clean()

"""Every command, imported so that it registers itself."""

from gauntlet.cli import (
    card,
    compare,
    data,
    demo,
    doctor,
    leaderboard,
    listing,
    report,
    run,
    runs,
    show,
    site,
    study,
    train,
)

__all__ = [
    "card",
    "compare",
    "data",
    "demo",
    "doctor",
    "leaderboard",
    "listing",
    "report",
    "run",
    "runs",
    "show",
    "site",
    "study",
    "train",
]

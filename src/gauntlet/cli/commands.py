"""Every command, imported so that it registers itself."""

from gauntlet.cli import (
    card,
    certify,
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
    "certify",
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

"""Every command group, imported so that it registers itself."""

from gauntlet.cli import demo, doctor, listing, run, show

__all__ = ["demo", "doctor", "listing", "run", "show"]

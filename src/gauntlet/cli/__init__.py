"""The command line: thin layers over the public functions, one file per command, and what several commands share."""

from gauntlet.cli.app import main

__all__ = ["main"]

"""The command line: thin layers over the public functions, one file per command group."""

from gauntlet.cli.app import main

__all__ = ["main"]

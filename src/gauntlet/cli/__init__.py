"""The command line: thin layers over the public functions, one file per command or group of commands."""

from gauntlet.cli.app import main

__all__ = ["main"]

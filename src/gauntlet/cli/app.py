"""The program `gauntlet`: commands, and how errors are said."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gauntlet._version import __version__
from gauntlet.errors import GauntletError, as_sentence

app = typer.Typer(
    name="gauntlet",
    help="Find out how reliable a segmentation or detection model is.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

BAD_INPUT = 2
INTERRUPTED = 130
RESUMABLE = ("run", "train", "certify", "study", "demo")
"""Commands that go on where they were."""


def _version(value: bool) -> None:
    if value:
        typer.echo(f"gauntlet {__version__}")
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Find out how reliable a segmentation or detection model is."""


def main() -> None:
    """Runs the program; bad input is one sentence on standard error and exit code 2."""
    from gauntlet.cli import commands  # noqa: F401 - registers the commands

    debug = "--debug" in sys.argv
    # --debug is wanted wherever people put it, not only in front of the command.
    arguments = [each for each in sys.argv[1:] if each != "--debug"]
    try:
        code = app(args=arguments, standalone_mode=False)
    except GauntletError as error:
        if debug:
            raise
        typer.echo(f"gauntlet: {as_sentence(error)}", err=True)
        code = BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        code = 0  # `gauntlet list | head` is no error
    except Exception as error:
        # Usage errors know how to show themselves; newer versions of typer bring their own copy of click's classes.
        if hasattr(error, "show") and hasattr(error, "exit_code"):
            error.show()
            sys.exit(error.exit_code)
        if debug:
            raise
        typer.echo(
            f"gauntlet: unexpected {type(error).__name__}: {error} (a bug; run again with --debug and report it)",
            err=True,
        )
        code = 1
    if code == INTERRUPTED:  # some versions of typer give this code back, others raise
        resumable = bool(arguments) and arguments[0] in RESUMABLE
        more = "; what was finished is kept, run the same command again to go on" if resumable else ""
        typer.echo(f"gauntlet: stopped{more}.", err=True)
    sys.exit(code if isinstance(code, int) else 0)

"""`python -m gauntlet.training CONFIG [--output DIR] [--restart]`; the same as `gauntlet train`."""

from __future__ import annotations

import argparse
import os
import sys

from gauntlet.errors import GauntletError
from gauntlet.training.trainer import train


def main() -> int:
    """Runs the recipe named on the command line; 2 on bad input."""
    parser = argparse.ArgumentParser(prog="python -m gauntlet.training", description="Train a model from a recipe.")
    parser.add_argument("config", help="YAML recipe, such as configs/enet.yaml")
    parser.add_argument("--output", help="folder of the trained model (default: trained/NAME)")
    parser.add_argument("--restart", action="store_true", help="start anew instead of continuing")
    arguments = parser.parse_args()
    try:
        result = train(arguments.config, arguments.output, resume=not arguments.restart)
    except GauntletError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if os.environ.get("RANK", "0") == "0":
        name, value = result.headline
        print(f"clean {name} {100 * value:.2f} %; written to {result.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

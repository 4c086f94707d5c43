"""A plain report: one HTML file with the figures of some evaluations and how each was obtained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader

from gauntlet._version import __version__
from gauntlet.results.record import Evaluation


def write_report(results: Sequence[Evaluation], path: str | Path) -> Path:
    """Writes the report; everything shown is escaped.

    Args:
        results: evaluations, all of one dataset.
        path: the HTML file.
    """
    environment = Environment(loader=PackageLoader("gauntlet.report"), autoescape=True, trim_blocks=True)
    environment.filters["percent"] = lambda value: "-" if math.isnan(value) else f"{100 * value:.1f}"
    threats = list(dict.fromkeys(result.threat for result in results))
    models = list(dict.fromkeys(result.model for result in results))
    table = {(result.model, result.threat): result for result in results}
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        environment.get_template("simple.html").render(
            version=__version__, results=results, models=models, threats=threats, table=table
        )
    )
    return path

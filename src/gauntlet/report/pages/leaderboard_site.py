"""The leaderboard as a static site: relative links, no server, ready for GitHub Pages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gauntlet._version import __version__
from gauntlet.analysis.scoring.ranking import by_preference, place
from gauntlet.errors import GauntletError
from gauntlet.numbers import counted
from gauntlet.report.assembly import titles_apart
from gauntlet.report.charts import COLORS, MARKERS, Panel
from gauntlet.report.document import Finding, Findings, Part, Section, made_now, of_type
from gauntlet.report.pages.entries import METRICS, OWN, Entry
from gauntlet.report.render import plotly
from gauntlet.report.render.html import asset, environment, plotly_script, script_json
from gauntlet.report.scope import scopes
from gauntlet.report.sections import defended as wrapped
from gauntlet.report.sections import mixtures, relations
from gauntlet.report.sections.confidence import certainty, certificates
from gauntlet.report.tables import Cell, Column, Interval, Table
from gauntlet.results.published.flags import FLAGS
from gauntlet.results.published.sources import SOURCES, Source

MARK = ".gauntlet-site"
"""Says that a folder was written by this module and may be written again."""
DEFENCES = "defences.html"
OWN_SOURCE = Source("own evaluations", "evaluated with Gauntlet")
_FACT_NAMES = {"backbone_type": "backbone type", "proposal_type": "proposals", "crop_size": "crop size"}


def write_site(
    entries: Sequence[Entry],
    folder: str | Path,
    *,
    title: str = "Gauntlet leaderboard",
    defended: Sequence[Part] = (),
) -> Path:
    """Writes a site over some entries.

    Args:
        entries: of a store, published ones, or both.
        folder: made when it is missing; must be empty or hold an earlier site.
        title: of all pages.
        defended: the page of wrapped models, of `defended_parts`; without it there is none.
    """
    if not entries:
        raise GauntletError("a site needs at least one model; give a store with evaluations, or --published.")
    folder = Path(folder)
    try:
        _prepare(folder)
        (folder / DEFENCES).unlink(missing_ok=True)  # that of an earlier site, where this one has none
        for name, content in _files(entries, title, defended).items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise GauntletError(f"the site cannot be written to {folder}: {error.strerror}.") from None
    return folder


def _prepare(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise GauntletError(f"{folder} is a file; a site is a folder.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise GauntletError(f"the folder {folder} holds other files; give an empty or a new one.")
    for name in ("assets", "models"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for stale in (folder / "models").glob("*.html"):
        stale.unlink()
    (folder / MARK).write_text("written by gauntlet site; may be written again\n")
    (folder / ".nojekyll").write_text("")


def defended_parts(frame: pd.DataFrame) -> list[Part]:
    """What a store says about wrapped models and transferred attacks, a part per dataset that has something to say.

    What defended models lose on clean images, transfer matrices, ensembles over their weight, confidence against
    robustness, certificates over the radius, and what is suspicious about them: the sections that a report has too.

    Args:
        frame: as `Store.frame` gives it.
    """
    parts = []
    cut = scopes(frame)
    for scope, title in zip(cut, titles_apart(cut), strict=True):
        found = wrapped.findings(scope)
        crossed = relations.transfers(scope)
        sections = [
            wrapped.section(scope),
            Section(f"transfer-section-{scope.id}", "Transfer", crossed) if crossed else None,
            mixtures.section(scope),
            certainty.section(scope),
            certificates.section(scope),
            Section(f"suspicious-{scope.id}", "Suspicious", [Findings(found)]) if found else None,
        ]
        there = [section for section in sections if section is not None]
        if there:
            parts.append(Part(scope.id, title, counted(scope.images, "image"), there))
    return parts


def _files(entries: Sequence[Entry], title: str, defended: Sequence[Part]) -> dict[str, bytes]:
    pages_of_all = [("Leaderboard", "index.html"), ("Compare", "compare.html"), ("Correlations", "correlations.html")]
    pages_of_all += [("Defences", DEFENCES)] if defended else []
    common = {"title": title, "version": __version__, "footer": made_now("%d %B %Y"), "pages": pages_of_all}
    sources = {
        key: OWN_SOURCE if key == OWN else SOURCES[key] for key in dict.fromkeys(each.source for each in entries)
    }
    files = {f"assets/{name}": asset(name).encode() for name in ("page.css", "page.js", "plots.js", "site.js")}
    files["assets/plotly.min.js"] = plotly_script()
    files["assets/data.js"] = f"window.GAUNTLET = {script_json(site_data(entries, sources))};\n".encode()
    pages = {
        "index.html": ("site_index.html", {"entries": entries, "sources": sources.values()}),
        "compare.html": ("site_compare.html", {}),
        "correlations.html": ("site_correlations.html", {}),
    }
    for name, (template, values) in pages.items():
        page = environment().get_template(template)
        files[name] = page.render(**common, **values, root="", current=name, scripts=["data.js", "site.js"]).encode()
    if defended:
        panels = [panel for part in defended for section in part.sections for panel in of_type(section, Panel)]
        charts = script_json(
            {panel.id: {name: plotly.figure(chart) for name, chart in panel.charts.items()} for panel in panels}
        )
        page = environment().get_template("site_defences.html")
        text = page.render(**common, root="", current=DEFENCES, scripts=[], parts=defended, charts=charts)
        files[DEFENCES] = text.encode()
    page = environment().get_template("site_model.html")
    for entry in entries:
        text = page.render(
            **common,
            root="../",
            current="",
            scripts=[],
            entry=entry,
            source=sources[entry.source].title,
            facts=_facts(entry),
            findings=_findings(entry),
            tables=_tables(entry),
        )
        files[f"models/{entry.id}.html"] = text.encode()
    return files


def site_data(entries: Sequence[Entry], sources: Mapping[str, Source]) -> dict[str, Any]:
    """What the pages' scripts read; fractions in full: rounded twice they would differ from other pages."""
    scores_in_order = by_preference(dict.fromkeys(_score_names(entries)))
    return {
        "entries": [
            {
                "id": entry.id,
                "source": entry.source,
                "task": entry.task,
                "dataset": entry.dataset,
                "model": entry.model,
                "facts": dict(entry.facts),
                "scores": {metric: dict(values) for metric, values in entry.scores.items()},
                "doubtful": entry.doubtful,
            }
            for entry in entries
        ],
        "figures": {entry.id: _by_metric(entry) for entry in entries},
        "sources": {key: {"title": each.title} for key, each in sources.items()},
        "metrics": METRICS,
        "default_scores": scores_in_order,
        "score_places": {name: place(name) for name in scores_in_order},
        "colors": COLORS,
        "markers": MARKERS,
    }


def _score_names(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        for values in entry.scores.values():
            yield from values


def _by_metric(entry: Entry) -> dict[str, dict[str, float]]:
    """Figures of the whole image by metric and threat; the first where a source prints several."""
    figures: dict[str, dict[str, float]] = {}
    for figure in entry.figures:
        if figure.view == "all" and figure.metric in METRICS.get(entry.task, ()) and not math.isnan(figure.value):
            figures.setdefault(figure.metric, {}).setdefault(figure.threat, figure.value)
    return figures


def _facts(entry: Entry) -> list[tuple[str, str]]:
    facts = []
    for name, value in entry.facts.items():
        text = (
            f"{value:,.0f}"
            if name == "parameters"
            else f"{value:.0f}"
            if name == "year"
            else f"{value:g}"
            if isinstance(value, float)
            else str(value)
        )
        facts.append((_FACT_NAMES.get(name, name), text))
    return facts


def _findings(entry: Entry) -> Findings | None:
    items = [
        Finding("warning" if FLAGS[code].level != "note" else "note", code, FLAGS[code].reason) for code in entry.flags
    ]
    return Findings(items) if items else None


def _tables(entry: Entry) -> list[Table]:
    """Scores, then every figure."""
    tables = []
    names = list(dict.fromkeys(name for values in entry.scores.values() for name in values))
    if names:
        columns = [Column("score"), *(Column(metric, "percent", heat=True) for metric in entry.scores)]
        rows: list[list[Cell]] = [
            [name, *(values.get(name, math.nan) for values in entry.scores.values())] for name in names
        ]
        tables.append(Table("scores", "Scores", columns, rows, "In per cent."))
    columns = [
        Column("threat"),
        Column("kind"),
        Column("metric"),
        Column("view"),
        Column("%", "percent", heat=True),
        Column("known about it"),
    ]
    figures: list[list[Cell]] = [
        [
            each.threat,
            each.kind,
            each.metric,
            each.view,
            Interval(each.value, each.low, each.high),
            "; ".join(FLAGS[code].reason for code in each.flag.split()),
        ]
        for each in entry.figures
    ]
    tables.append(Table("figures", "Every figure", columns, figures))
    return tables

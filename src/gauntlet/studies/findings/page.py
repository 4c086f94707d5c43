"""docs/paper-findings.md: what the papers claim, recomputed from the published figures alone."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from gauntlet.studies.contract import studies
from gauntlet.studies.correlation_rules import NO, OPEN, RULES, YES
from gauntlet.studies.findings import arnab, benchmarks, halmosi, spatial
from gauntlet.studies.findings.evidence import NO_CLAIM, SELECTIONS, PaperClaim
from gauntlet.studies.pages.contract import PageRuns, PageStudy

PAPERS: Mapping[str, Callable[[], Sequence[PaperClaim]]] = {
    "SemSegBench and DetecBench (Agnihotri et al.)": benchmarks.claims,
    "Trying Harder Pays Off (Halmosi et al.)": halmosi.claims,
    "Benchmarking the Spatial Robustness of DNNs (Marchiori Pietrosanti et al.)": spatial.claims,
    "On the Robustness of Semantic Segmentation Models to Adversarial Attacks (Arnab et al.)": arnab.claims,
}
HEAD = """# What the papers claim, recomputed

Made by `gauntlet study run papers/findings --output docs` from the figures that come with the package
(`gauntlet.published`); no model was run. Each claim is computed twice: with every published cell, and without the cells
that carry a flag of the level *fault* or *doubt* (failed, repeated or doubtful runs, see [analysis](analysis.md)). ReM
and GAM are computed from their parts, never taken from the source, where 12 GAM cells are wrong.
"""
RULES_OF_VERDICTS = (
    "How a verdict is found (the rules are ours; the papers describe scatter plots and print no coefficient): "
    f"{RULES} A claim that one group is better is *{YES}* when it is and p, over relabelled models, is below 0.05; "
    "one about cases when it holds in all of them, or in more than half where the text says so. "
    f"*{OPEN.capitalize()}* means that a score sits at the floor, that an interval straddles a bound or that too few "
    f"figures are left, *{NO_CLAIM}* that the paper says nothing and the figures are a control. *Partly {YES} (2 of "
    "3)* counts the rows of a claim that can be judged; those that cannot are counted behind it."
)
FOOT = (
    "Intervals over models: the wider of 1000 resamples (seed 0) and Fisher's, from six models on; of differences of "
    "groups, those that the relabellings behind p (all, or 10,000 random ones) do not reject. Models share "
    "architectures and training recipes, so that they say less than as many independent ones would; the intervals do "
    "not know that. What a paper says is put in short, in its own terms; where a claim rests on a plot, the plot was "
    "not available. Claims that need runs of one's own are the other [studies](studies.md)."
)


def claims() -> dict[str, list[PaperClaim]]:
    """Every claim by its paper, in the order of the page."""
    return {paper: list(make()) for paper, make in PAPERS.items()}


def render(by_paper: Mapping[str, Sequence[PaperClaim]]) -> str:
    """The page as Markdown."""
    lines = [HEAD, *(f"{textwrap.fill(text, 120)}\n" for text in (RULES_OF_VERDICTS, FOOT))]
    for paper, made in by_paper.items():
        lines += [f"**{paper}**", "", "| Claim | " + " | ".join(SELECTIONS) + " |", "|---|---|---|"]
        lines += [f"| [{each.title}](#{anchor(each.title)}) | {' | '.join(verdicts(each))} |" for each in made]
        lines.append("")
    for paper, made in by_paper.items():
        lines += [f"## {paper}", ""]
        for each in made:
            lines += [f"### {each.title}", "", f"The paper: {each.words} *({each.place})*.", ""]
            lines += [*table_lines(each.evidence), ""]
            lines += [each.remark, ""] if each.remark else []
    return "\n".join(lines)


def write(runs: PageRuns, command: str) -> str:
    """The page; what it names as its command does not depend on how it was called."""
    return render(claims())


def verdicts(claim: PaperClaim) -> list[str]:
    """The verdict of a claim for both selections of cells, counted where several rows speak to it."""
    rows = claim.evidence
    return [_in_short(list(rows.loc[rows["cells"].eq(name), "verdict"])) for name in SELECTIONS]


def _in_short(of_rows: Sequence[str]) -> str:
    """The verdicts of several rows in one.

    >>> _in_short(["confirmed", "not confirmed"]), _in_short(["confirmed", "cannot be judged"])
    ('partly confirmed (1 of 2)', 'confirmed (1), 1 cannot be judged')
    """
    if NO_CLAIM in of_rows:
        return NO_CLAIM
    yes, no, open_ = (of_rows.count(each) for each in (YES, NO, OPEN))
    if not yes + no:
        return OPEN
    short = f"partly {YES} ({yes} of {yes + no})" if yes and no else YES if yes else NO
    if not open_:
        return short
    return f"{short if yes and no else f'{short} ({yes + no})'}, {open_} {OPEN}"


def table_lines(rows: pd.DataFrame) -> list[str]:
    """A table in Markdown."""
    head = ["| " + " | ".join(map(str, rows.columns)) + " |", "|" + "---|" * len(rows.columns)]
    return head + ["| " + " | ".join(map(str, row)) + " |" for row in rows.itertuples(index=False)]


def anchor(title: str) -> str:
    """The link target that Markdown makes of a heading."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


FINDINGS = PageStudy(
    name="papers/findings",
    title="What the papers claim, recomputed from the published figures",
    question="Do the papers' figures say what the papers say?",
    file="paper-findings.md",
    write=write,
    also=("semsegbench/table-1", "detecbench/table-1"),
)
studies.add(FINDINGS.name, FINDINGS, aliases=tuple(FINDINGS.also))

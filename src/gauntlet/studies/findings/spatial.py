"""Claims of Marchiori Pietrosanti et al. (docs/specs/studies.md, 7, claims 1 to 3), from their table 1."""

from __future__ import annotations

import pandas as pd

from gauntlet.results import published
from gauntlet.studies.correlation_rules import NO, YES
from gauntlet.studies.findings.evidence import PaperClaim, both, in_both, percent, points

CORRUPTIONS = ("brightness", "snow", "gaussian_noise")
CLEAR = 0.05
"""Lead in accuracy from which on a winner is clear (ours)."""
NOTE = (
    " With two transformers no test of significance is possible. Whether the severities are 1, 3, 5 or 1, 2, 3 is "
    "unclear in the paper."
)


def claims() -> list[PaperClaim]:
    """Every claim, in the order of the page."""
    tables = {name: figures(rows) for name, rows in both(published.frame(source="spatial")).items()}
    return [
        PaperClaim(
            "Transformers inside a corrupted region",
            "transformers are notably robust to localized natural corruption",
            "Abstract, Table 1",
            in_both(tables, lambda table: against_others(table, "inside")),
            "Mean accuracy inside the region over the three corruptions; confirmed means that both SegFormers lie "
            "above the median network." + NOTE,
        ),
        PaperClaim(
            "Transformers outside a corrupted region at severity 5",
            "transformers are best outside the region, significantly so at high severity",
            "Sec. 6.2, Table 1",
            in_both(tables, lambda table: best(table, "outside", CORRUPTIONS, severities=(5,))),
            "Confirmed means that the best network is a SegFormer." + NOTE,
        ),
        PaperClaim(
            "Transformers outside: more so at high severity",
            "their lead outside the region grows with severity",
            "Sec. 6.2, Table 1",
            in_both(tables, growing_lead),
            "The better SegFormer minus the best other network outside the region, mean over the three corruptions, at "
            "the highest severity against the lowest." + NOTE,
        ),
        PaperClaim(
            "Inside under noise",
            "the SegFormers are clearly the best for noise",
            "Sec. 6.2, Table 1",
            in_both(tables, lambda table: best(table, "inside", ("gaussian_noise",), lead=CLEAR)),
            f"Confirmed means that the best SegFormer is {100 * CLEAR:g} points (bound ours) ahead of the best other.",
        ),
        PaperClaim(
            "Inside under snow and brightness",
            "no clear winner",
            "Sec. 6.2, Table 1",
            in_both(tables, lambda table: best(table, "inside", ("snow", "brightness"), lead=None)),
            f"Confirmed means that the best network is less than {100 * CLEAR:g} points (bound ours) ahead of the best "
            "of the other kind.",
        ),
        PaperClaim(
            "Errors spread into clean regions",
            "errors spread outside the corrupted region, least for SegFormer",
            "Sec. 6.2, Table 1",
            in_both(tables, spread),
            "Clean accuracy of the whole image minus accuracy outside, mean over the three corruptions; confirmed "
            "means that every network loses some and that the SegFormers are the two that lose least." + NOTE,
        ),
    ]


def figures(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy by corruption, severity and view, with the clean accuracy of the whole image."""
    clean = rows[rows["kind"].eq("clean")].set_index("model")["value"]
    rows = rows[rows["kind"].ne("clean")]
    parts = rows["threat"].str.extract(r"(?P<corruption>\w+) (?P<severity>\d)")
    return rows.assign(
        corruption=parts["corruption"],
        severity=parts["severity"].astype(int),
        clean=rows["model"].map(clean),
        transformer=rows["backbone_type"].eq("transformer"),
    )


def against_others(table: pd.DataFrame, view: str) -> pd.DataFrame:
    """The SegFormers against the median of the others, mean over corruptions."""
    evidence = []
    for severity, rows in table[table["view"].eq(view)].groupby("severity"):
        means = rows.groupby(["model", "transformer"])["value"].mean().reset_index()
        first, second = (means.loc[means["transformer"].eq(kind), "value"] for kind in (True, False))
        evidence.append(
            {
                "severity": str(severity),
                "SegFormer b0, b1": " and ".join(percent(value) for value in sorted(first)),
                "12 convolution networks, median": percent(second.median()),
                "best of them": percent(second.max()),
                "verdict": YES if first.min() > second.median() else NO,
            }
        )
    return pd.DataFrame(evidence)


def best(
    table: pd.DataFrame,
    view: str,
    corruptions: tuple[str, ...],
    *,
    severities: tuple[int, ...] = (1, 3, 5),
    lead: float | None = 0.0,
) -> pd.DataFrame:
    """The best network of each kind; claimed: the SegFormers lead by more than `lead`, or (None) nobody by CLEAR."""
    evidence = []
    for corruption in corruptions:
        for severity in severities:
            rows = table[
                table["view"].eq(view) & table["corruption"].eq(corruption) & table["severity"].eq(severity)
            ].set_index("model")
            first, second = (rows.loc[rows["transformer"].eq(kind), "value"] for kind in (True, False))
            ahead = first.max() - second.max()
            evidence.append(
                {
                    "corruption": f"{corruption} {severity}",
                    "best SegFormer": f"{percent(first.max())} ({first.idxmax()})",
                    "best other": f"{percent(second.max())} ({second.idxmax()})",
                    "verdict": YES if (abs(ahead) < CLEAR if lead is None else ahead > lead) else NO,
                }
            )
    return pd.DataFrame(evidence)


def growing_lead(table: pd.DataFrame) -> pd.DataFrame:
    """The lead of the SegFormers outside, at the lowest and the highest severity."""
    outside = table[table["view"].eq("outside")]
    leads = []
    for _, rows in outside.groupby("severity"):  # in rising order
        means = rows.groupby(["model", "transformer"])["value"].mean().reset_index()
        first, second = (float(means.loc[means["transformer"].eq(kind), "value"].max()) for kind in (True, False))
        leads.append(first - second)
    low, high = leads[0], leads[-1]
    return pd.DataFrame(
        [
            {
                "severities": f"{outside['severity'].min()} and {outside['severity'].max()}",
                "lead at the lowest": points(low),
                "at the highest": points(high),
                "verdict": YES if high > max(low, 0) else NO,
            }
        ]
    )


def spread(table: pd.DataFrame) -> pd.DataFrame:
    """What is lost outside, by severity."""
    evidence = []
    outside = table[table["view"].eq("outside")]
    for severity, rows in outside.groupby("severity"):
        lost = (rows["clean"] - rows["value"]).groupby([rows["model"], rows["transformer"]]).mean().sort_values()
        kinds = list(lost.index.get_level_values("transformer"))
        evidence.append(
            {
                "severity": str(severity),
                "lost, least to most": f"{percent(lost.iloc[0])} to {percent(lost.iloc[-1])}",
                "SegFormers in the order of 14": ", ".join(str(1 + place) for place, kind in enumerate(kinds) if kind),
                "verdict": YES if lost.min() > 0 and all(kinds[:2]) else NO,
            }
        )
    return pd.DataFrame(evidence)

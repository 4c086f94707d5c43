"""Claims of Marchiori Pietrosanti et al. (docs/specs/studies.md, 7, claims 1 to 3), from their table 1."""

from __future__ import annotations

import pandas as pd

from gauntlet.results import published
from gauntlet.studies.correlation_rules import NO, YES
from gauntlet.studies.findings.evidence import PaperClaim, both, in_both, percent

CORRUPTIONS = ("brightness", "snow", "gaussian_noise")
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
            "Inside under noise",
            "the SegFormers are clearly the best for noise",
            "Sec. 6.2, Table 1",
            in_both(tables, lambda table: best(table, "inside", ("gaussian_noise",))),
        ),
        PaperClaim(
            "Inside under snow and brightness",
            "no clear winner",
            "Sec. 6.2, Table 1",
            in_both(tables, lambda table: best(table, "inside", ("snow", "brightness"), clear=False)),
            "Confirmed means that the best network is less than 5 points ahead of the best of the other kind.",
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
    clear: bool = True,
) -> pd.DataFrame:
    """The best network of each kind; `clear` claims the SegFormers first, else that nobody is far ahead."""
    evidence = []
    for corruption in corruptions:
        for severity in severities:
            rows = table[
                table["view"].eq(view) & table["corruption"].eq(corruption) & table["severity"].eq(severity)
            ].set_index("model")
            first, second = (rows.loc[rows["transformer"].eq(kind), "value"] for kind in (True, False))
            lead = first.max() - second.max()
            evidence.append(
                {
                    "corruption": f"{corruption} {severity}",
                    "best SegFormer": f"{percent(first.max())} ({first.idxmax()})",
                    "best other": f"{percent(second.max())} ({second.idxmax()})",
                    "verdict": YES if (lead > 0 if clear else abs(lead) < 0.05) else NO,
                }
            )
    return pd.DataFrame(evidence)


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

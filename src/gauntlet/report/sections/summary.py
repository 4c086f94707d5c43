"""The verdict in words: how good, how broken, by what, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gauntlet.analysis.better import FLOOR
from gauntlet.numbers import counted, format_percent, listed
from gauntlet.report.document import Bar, Block, Bullets, Section, Text, Verdict, Verdicts
from gauntlet.report.order import Order
from gauntlet.report.scope import Scope, kind_word
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.sections.defended import never_attacked_adaptively

GRADES = (
    (0.9, "holds up under"),
    (0.7, "is weakened by"),
    (0.4, "is badly hurt by"),
    (0.1, "mostly breaks under"),
    (0.0, "collapses under"),
)
"""The share that a model keeps at least of what its clean figure has above the trivial answer, and the words for it."""
GRADES_IN_WORDS = (
    "The words stand for the share of the clean figure that is kept, both counted from the trivial answer (the most "
    "frequent class everywhere, or no detections): holds up (90 % or more), weakened (70 %), badly hurt (40 %), mostly "
    "breaks (10 %), collapses (less)."
)
ADVERSARIAL = ("attack", "region_aware", "battery")
FEW_IMAGES = 50
MOST_CARDS = 6


def grade(kept: float) -> str:
    """The words for the share that is kept (`kept_share`).

    >>> grade(0.95), grade(0.05)
    ('holds up under', 'collapses under')
    """
    return next((words for least, words in GRADES if kept >= least), GRADES[-1][1])


def kept_share(figure: float, clean: float, trivial: float = 0.0) -> float:
    """The kept share of what a clean figure has above the trivial answer; NaN where it has nothing above it.

    >>> kept_share(0.5, 0.8, 0.4)
    0.25
    """
    return max(0.0, round((figure - trivial) / (clean - trivial), 12)) if clean > trivial else math.nan


def _from_floor(scope: Scope) -> str:
    return " above the trivial answer" if scope.floor else ""


def section(scope: Scope, order: Order, only_predicted: str = "") -> Section:
    """The summary of a scope.

    Args:
        scope: the evaluations.
        order: of its models.
        only_predicted: the sentence on classes that are only predicted, or "".
    """
    ranking = order.ranking
    cards = [verdict(scope, ranking, model) for model in ranking.models[:MOST_CARDS]]
    sentences = [each for each in (order.sentence(), *_observations(scope), only_predicted) if each]
    blocks: list[Block] = [Text(headline(scope, order)), Bullets(sentences)]
    if len(ranking.models) > MOST_CARDS:
        blocks.append(Text(f"The first {MOST_CARDS} of {len(ranking.models)} models:"))
    blocks += [Verdicts(scope.metric, cards), Text(GRADES_IN_WORDS)]
    return Section(f"summary-{scope.id}", "Summary", blocks)


def headline(scope: Scope, order: Order) -> str:
    """The one sentence to take home."""
    first = order.ranking.models[0]
    bars = _worst_of_either(_bars(scope, first))
    return order.headline(
        _effects(bars) if bars else f"has {format_percent(scope.clean(first).value)} % clean {scope.metric}"
    )


def _worst_of_either(bars: Sequence[Bar]) -> list[Bar]:
    """The worst bar without an opponent and the worst one with: enough for a headline."""
    attacks = [bar for bar in bars if bar.adversarial]
    others = [bar for bar in bars if not bar.adversarial]
    return [min(group, key=lambda bar: bar.value) for group in (others, attacks) if group]


def verdict(scope: Scope, ranking: Ranking, model: str) -> Verdict:
    """One model in words and bars."""
    clean, bars = scope.clean(model), _bars(scope, model)
    text = f"Clean {scope.metric} {format_percent(clean.value)} %" if not math.isnan(clean.value) else "No clean figure"
    if scope.trivial_class:
        text += f" ('{scope.trivial_class}' everywhere has {format_percent(scope.floor)} %)"
    text += f"; it {_effects(bars)}." if bars else "; it was evaluated under no threat."
    return Verdict(model, ranking.ranks[model], clean, bars, text)


def _bars(scope: Scope, model: str) -> list[Bar]:
    clean = scope.clean(model).value
    bars = []
    for kind in scope.kinds:
        worst = scope.worst(model, kind)
        if worst is not None:
            name, figure = worst
            kept = kept_share(figure.value, clean, scope.floor)
            bars.append(Bar(kind_word(kind), name, figure.value, kept, kind in ADVERSARIAL))
    return bars


def _effects(bars: Sequence[Bar]) -> str:
    parts = []
    for bar in bars:
        if math.isnan(bar.kept):
            parts.append(f"has {format_percent(bar.value)} % under its worst {bar.label} ({bar.detail})")
        else:
            parts.append(f"{grade(bar.kept)} its worst {bar.label} ({bar.detail}: {format_percent(bar.kept)} % kept)")
    return listed(parts)


def _observations(scope: Scope) -> list[str]:
    return [
        each
        for each in (
            _defended(scope),
            _worst_threat(scope),
            _attacks_at_floor(scope),
            _kinds_compared(scope),
            _classes(scope),
            _sure(scope),
            *scope.left_out,
        )
        if each
    ]


def _defended(scope: Scope) -> str:
    """Which defended models were never attacked by someone who knows of the defence."""
    models = [finding.subject for finding in never_attacked_adaptively(scope)]
    return f"Never attacked adaptively, so not to be called robust: {', '.join(models)}." if models else ""


def _worst_threat(scope: Scope) -> str:
    """The threat that costs the models most on average."""
    clean = np.array([scope.clean(model).value for model in scope.models])
    names = [name for kind in scope.kinds for name in scope.of_kind(kind)]
    losses = (clean[:, None] - scope.matrix[names].to_numpy(float)) if names else np.empty((0, 0))
    with_both = (~np.isnan(losses)).sum(axis=0)
    if not losses.size or not with_both.any():
        return ""
    means = np.where(with_both > 0, np.nansum(losses, axis=0) / np.maximum(with_both, 1), -np.inf)
    worst = int(means.argmax())
    runs = int(with_both[worst])
    loss = f"{format_percent(means[worst])} points of {scope.metric}"
    if runs == len(scope.models):
        who = "it loses" if runs == 1 else f"the {runs} models lose on average"
    elif runs == 1:
        who = f"the one of {len(scope.models)} models that was run under it loses"
    else:
        who = f"the {runs} of {len(scope.models)} models that were run under it lose on average"
    return f"The costliest of {counted(len(names), 'threat')} is {names[worst]}: {who} {loss}."


def _attacks_at_floor(scope: Scope) -> str:
    """Whether attacks leave nothing of any model, so that their order means little."""
    names = [name for kind in ("attack", "battery") for name in scope.shared(kind)]
    values = scope.matrix[names].dropna(how="all")
    floored = [name for name in names if (values[name].dropna() < FLOOR).all()]
    if not floored:
        return ""
    subject = "every model falls" if len(values) > 1 else "the model falls"
    rest = f" and {len(floored) - 1} more" if len(floored) > 1 else ""
    return (
        f"Under {floored[0]}{rest} {subject} below {100 * FLOOR:g} % {scope.metric}: orders at this floor mean nothing."
    )


def _kinds_compared(scope: Scope) -> str:
    """What kinds of threats leave on average."""
    parts = []
    clean = {model: scope.clean(model).value for model in scope.models}
    for kind in scope.kinds:
        part = scope.matrix[scope.of_kind(kind)]
        ratios = [
            kept_share(float(value), clean[str(model)], scope.floor)
            for model, row in part.iterrows()
            for value in row.dropna().to_numpy(float)
        ]
        if ratios and not np.isnan(ratios).all():
            parts.append(f"{kind_word(kind)} {format_percent(float(np.nanmean(ratios)))} %")
    return f"Kept of the clean {scope.metric}, on average by kind of threat: {listed(parts)}." if len(parts) > 1 else ""


def _classes(scope: Scope) -> str:
    """The class that loses most, as a mean over models and threats."""
    rows = scope.frame
    rows = rows[rows["metric"].isin(["IoU", "AP"]) & rows["class_name"].ne("") & rows["view"].eq("all")]
    clean = rows[rows["kind"].eq("clean")].groupby(["model", "class_name"])["value"].last()
    others = rows[rows["kind"].ne("clean")]
    if clean.empty or others.empty:
        return ""
    joined = others.join(clean.rename("clean"), on=["model", "class_name"])
    losses = (joined["clean"] - joined["value"]).groupby(joined["class_name"]).mean().dropna()
    if len(losses) < 2:
        return ""
    worst, least = str(losses.idxmax()), str(losses.idxmin())
    return (
        f"The class that suffers most is '{worst}' ({format_percent(losses[worst])} points on average), "
        f"the one that suffers least '{least}' ({format_percent(losses[least])} points)."
    )


def _sure(scope: Scope) -> str:
    rows = scope.headline
    widths = ((rows["high"] - rows["low"]) / 2).dropna()
    if widths.empty:
        return ""
    text = f"On {scope.images} images a figure is known to about ±{format_percent(float(widths.median()))} points"
    return text + (": run more images before deciding on small differences." if scope.images < FEW_IMAGES else ".")

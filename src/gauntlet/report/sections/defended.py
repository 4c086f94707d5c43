"""What the figures of a defended model are worth: was it attacked by someone who knows of the defence?

docs/specs/defences.md, 0: a defence without an adaptive attack is refused the word "robust".
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from gauntlet.models.defended_names import address_of, defences_in
from gauntlet.report.document import Finding
from gauntlet.report.scope import Scope
from gauntlet.results.descriptions import threat_settings
from gauntlet.threats.attacks import checks as honesty

RANDOM = ("transform", "noise")
"""Defences that draw: an attack knows of them when it averages gradients over draws."""
WHITE_BOX = ("attack", "battery", "region_aware")


def never_attacked_adaptively(scope: Scope) -> Iterator[Finding]:
    """Defended models that no attack met which knows of the defence."""
    rows = scope.evaluations
    for model in scope.models:
        of_model = rows[rows["model"].eq(model)]
        defences = defences_in(str(of_model["address"].iloc[0]))
        if not defences:
            continue
        on_itself = [
            kind in WHITE_BOX or (kind == "transfer" and f'"source_digest": "{digest}"' in description)
            for kind, digest, description in of_model[["kind", "digest", "description"]].itertuples(index=False)
        ]
        own = of_model[on_itself]
        if any(name in RANDOM for name in defences):
            averaged = any(_samples(description) > 1 for description in own["description"])
            if not averaged:
                yield Finding(
                    "warning",
                    model,
                    "It draws at random and was never attacked with gradients averaged over draws (samples: 10): its "
                    "figures say nothing about robustness.",
                )
        elif own.empty:
            yield Finding(
                "warning",
                model,
                "It is defended and was never attacked itself: figures of attacks made on other models say nothing "
                "about robustness.",
            )


def transfer_stronger(scope: Scope) -> Iterator[Finding]:
    """Images made on another model that are stronger than those made on the model itself: a hidden gradient."""
    rows = scope.headline[scope.headline["kind"].isin(["attack", "transfer"])]
    sources = threat_settings(rows)["source_model"]
    names = [name.removesuffix(f" from {source}") for name, source in zip(rows["threat"], sources, strict=True)]
    rows = rows.assign(attack=names, source=sources)
    for (model, attack), part in rows.groupby(["model", "attack"], sort=False):
        white, crossed = part[part["kind"].eq("attack")], part[part["kind"].eq("transfer")]
        if white.empty or crossed.empty:
            continue
        best, own = crossed.iloc[int(crossed["value"].argmin())], white.iloc[0]
        if best["value"] < own["value"] - honesty.BEST_SLACK:
            yield Finding(
                "warning",
                str(model),
                f"{attack} made on {address_of(best['source'])} is stronger than made on the model itself: its "
                "gradient is hidden.",
                f"{scope.metric} {best['value']:.3f} against {own['value']:.3f}",
            )


def averaging_stronger(scope: Scope) -> Iterator[Finding]:
    """An attack that grows much stronger when it averages over draws: the weak one met the randomness only."""
    rows = scope.headline[scope.headline["kind"].eq("attack")]
    rows = rows.assign(samples=[_samples(text) for text in rows["description"]], rest=rows["description"].map(_rest))
    for (model, _), part in rows.groupby(["model", "rest"], sort=False):
        once, averaged = part[part["samples"].eq(1)], part[part["samples"].gt(1)]
        if once.empty or averaged.empty:
            continue
        plain, strong = once.iloc[0], averaged.iloc[int(averaged["value"].argmin())]
        if strong["value"] < plain["value"] - honesty.BEST_SLACK:
            yield Finding(
                "warning",
                str(model),
                f"{strong['threat']} is stronger than {plain['threat']}: without averaging, the attack meets the "
                "randomness of the defence and not the model.",
                f"{scope.metric} {strong['value']:.3f} against {plain['value']:.3f}",
            )


def findings(scope: Scope) -> list[Finding]:
    """Everything that is suspicious about defended models, and about models that images of others fool better."""
    return [*never_attacked_adaptively(scope), *transfer_stronger(scope), *averaging_stronger(scope)]


def _samples(description: str) -> int:
    """Draws that an attack averages gradients over; the most of a battery's members."""
    attacks = _attacks(json.loads(description or "{}"))
    return max((int(str(each["samples"])) for each in attacks if "samples" in each), default=1)


def _attacks(node: object) -> Iterator[dict[str, object]]:
    if isinstance(node, dict):
        if "steps" in node:
            yield node
        for value in node.values():
            yield from _attacks(value)


def _rest(description: str) -> str:
    """A description without the number of draws."""
    content = json.loads(description or "{}")
    for each in _attacks(content):
        each.pop("samples", None)
    return json.dumps(content, sort_keys=True)

"""What the figures of a defended model are worth: was it attacked by someone who knows of the defence?

docs/specs/defences.md, 0: a defence without an adaptive attack is refused the word "robust".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from gauntlet.models.defended_names import (
    address_of,
    defences_in,
    draws_in,
    noise_alone,
    read_name,
    source_name,
    with_whole_gradient,
)
from gauntlet.report.document import Finding
from gauntlet.report.scope import Scope
from gauntlet.results.descriptions import is_plain, read_description, split_transfer, threat_settings
from gauntlet.threats.attacks import checks as honesty
from gauntlet.threats.attacks.registration import names_without_gradient

WHITE_BOX = ("attack", "battery", "region_aware")


def never_attacked_adaptively(scope: Scope) -> Iterator[Finding]:
    """Defended models that no attack met which knows of the defence."""
    rows = scope.evaluations
    for model in scope.models:
        of_model = rows[rows["model"].eq(model)]
        name = str(of_model["address"].iloc[0])
        if not defences_in(name):
            continue
        on_itself = [
            (kind in WHITE_BOX or _made_on(digest, description)) and _follows_gradient(description)
            for kind, digest, description in of_model[["kind", "digest", "description"]].itertuples(index=False)
        ]
        own = of_model[on_itself]
        if "smoothed" in defences_in(name):  # votes have no gradient: what can be attacked is the noise before them
            if not any(_averaged_through_noise(name, description) for description in of_model["description"]):
                yield Finding(
                    "warning",
                    model,
                    "It votes over noisy copies and was never shown an attack made on 'noise:' around the same model, "
                    "with the same sigma and gradients averaged over draws (samples: 10): its figures say nothing "
                    "about robustness.",
                )
        elif draws_in(name):
            averaged = any(_samples(description) > 1 for description in own["description"])
            if not averaged:
                yield Finding(
                    "warning",
                    model,
                    "It draws at random and was never attacked with gradients averaged over draws (samples: 10): its "
                    "figures say nothing about robustness.",
                )
        elif with_whole_gradient(name) != name:
            if any(_made_along_all_of_it(name, description) for description in of_model["description"]):
                continue
            yield Finding(
                "warning",
                model,
                "Its gradient leaves out what the colours of the image do in the CRF (image_gradient=false), and it "
                "was never shown an attack made on the same field with image_gradient=true, or on the model inside: "
                "its figures say nothing about robustness.",
            )
        elif own.empty:
            yield Finding(
                "warning",
                model,
                "It is defended and was never attacked itself along its gradient: figures of other attacks say nothing "
                "about robustness.",
            )


def transfer_stronger(scope: Scope) -> Iterator[Finding]:
    """Images made on another model that are stronger than those made on the model itself: a hidden gradient."""
    rows = _with_makers(scope)
    for (model, attack), part in rows.groupby(["model", "attack"], sort=False):
        white, crossed = part[part["white"]], part[~part["white"]]
        if white.empty or crossed.empty:
            continue
        best, own = crossed.iloc[int(crossed["value"].argmin())], white.iloc[0]
        if best["value"] < own["value"] - honesty.BEST_SLACK:
            source = "the model inside" if best["source"] == "inner" else address_of(best["source"])
            yield Finding(
                "warning",
                str(model),
                f"{attack} made on {source} is stronger than made on the model itself: its gradient is hidden.",
                f"{scope.metric} {best['value']:.3f} against {own['value']:.3f}",
            )


def targeted_stronger(scope: Scope) -> Iterator[Finding]:
    """Defended models that seem to gain against an attack without targets, and lose it against one with targets.

    Where the model inside was attacked too, a wrapper that keeps no more than it says nothing: a broken model may be
    broken a little more by either.
    """
    rows = _with_makers(scope)
    rows = rows[rows["white"]]
    rows = rows.join(threat_settings(rows)[["norm", "epsilon", "steps"]])
    texts = [_attack_itself(text) for text in rows["description"]]
    rows = rows.assign(plain=[is_plain(text) for text in texts], aimed=[_has_target(text) for text in texts])
    figures = rows["value"].astype(float).tolist()
    kept = dict(zip(zip(rows["address"], rows["attack"], strict=True), figures, strict=True))
    for (model, address, _, _), part in rows.groupby(["model", "address", "norm", "epsilon"], sort=False):
        read = read_name(str(address))
        untargeted, targeted = part[part["plain"] & part["steps"].gt(1)], part[part["aimed"]]
        if read is None or untargeted.empty or targeted.empty:
            continue
        weak, strong = (each.iloc[int(each["value"].argmin())] for each in (untargeted, targeted))
        inside = max((kept.get((name, weak["attack"]), -1.0) for name in read.inner), default=-1.0)
        if strong["value"] < weak["value"] - honesty.BEST_SLACK and weak["value"] > inside + honesty.BEST_SLACK:
            yield Finding(
                "warning",
                str(model),
                f"{strong['threat']}, which has targets, is stronger than {weak['threat']}: what the defence seems to "
                "gain is a saturated loss.",
                f"{scope.metric} {strong['value']:.3f} against {weak['value']:.3f}",
            )


def averaging_stronger(scope: Scope) -> Iterator[Finding]:
    """An attack that grows much stronger when it averages over draws: the weak one met the randomness only."""
    rows = _with_makers(scope)
    rows = rows[rows["white"]]
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
    rules = (never_attacked_adaptively, transfer_stronger, averaging_stronger, targeted_stronger)
    return [finding for rule in rules for finding in rule(scope)]


def _with_makers(scope: Scope) -> pd.DataFrame:
    """Figures of attacks, with the name of the `attack` alone, its `source`, and whether it is `white`.

    An attack is white where it was made on the evaluated model, be it stored as a transfer to itself.
    """
    rows = scope.headline[scope.headline["kind"].isin(["attack", "transfer"])]
    sources = threat_settings(rows)["source_model"]
    # Names as stored: those that are shown have addresses in the place of sources.
    names = [split_transfer(name, source)[0] for name, source in zip(rows["stored_threat"], sources, strict=True)]
    itself = [_made_on(digest, text) for digest, text in zip(rows["digest"], rows["description"], strict=True)]
    return rows.assign(attack=names, source=sources, white=rows["kind"].eq("attack") | np.array(itself, dtype=bool))


def _attack_itself(description: str) -> dict[str, Any]:
    """The description of an attack, also of one that is stored as a transfer."""
    content: dict[str, Any] = json.loads(description or "{}")
    return {"attack": content["transfer"]["attack"]} if "transfer" in content else content


def _follows_gradient(description: str) -> bool:
    """Whether an attack uses the gradient and may change something."""
    settings = read_description(description)
    return settings.get("attack") not in names_without_gradient() and settings.get("epsilon") != 0


def _made_on(digest: str, description: str) -> bool:
    """Whether a transferred attack was made on the model of this digest, the evaluated one, at the images' own size."""
    return f'"source_digest": "{digest}"' in description and '"source_size"' not in description


def _averaged_through_noise(name: str, description: str) -> bool:
    """Whether a transferred attack knows of the votes of a smoothed model: made on its noise, averaged over draws."""
    source = str(json.loads(description or "{}").get("transfer", {}).get("source_model", ""))
    made_on_noise = "noise" in defences_in(source) and noise_alone(source) == noise_alone(name)
    return made_on_noise and _samples(description) > 1 and _follows_gradient(description)


def _made_along_all_of_it(name: str, description: str) -> bool:
    """Whether an attack on a CRF with a part of its gradient was made on the whole field, or on the model inside it."""
    source = str(json.loads(description or "{}").get("transfer", {}).get("source_model", ""))
    read, made_on = read_name(name), source_name(source, name)
    inside = () if read is None else read.inner
    known = made_on == with_whole_gradient(name) or (made_on in inside and with_whole_gradient(made_on) == made_on)
    return known and _follows_gradient(description)


def _has_target(description: Mapping[str, Any]) -> bool:
    """Whether an attack has a target and may change the whole image."""
    options = description.get("attack", {})
    return options.get("target") not in (None, False) and is_plain({"attack": {**options, "target": None}})


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

"""What the figures of a defended model are worth: what it loses, and was it attacked by someone who knows of it?

docs/specs/defences.md, 0: a defence without an adaptive attack is refused the word "robust"; 8: clean loss first.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from gauntlet.defences.contract import Addressed, parse_settings
from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import BoolArray
from gauntlet.metrics.trials import SPREAD
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.defended_names import (
    DefendedName,
    address_of,
    defences_in,
    draws_in,
    noise_alone,
    read_name,
    source_name,
    with_whole_gradient,
)
from gauntlet.models.sources.contract import sources
from gauntlet.report.document import Finding, Section
from gauntlet.report.scope import Scope
from gauntlet.report.tables import Cell, Column, Interval, Table
from gauntlet.results.descriptions import is_plain, read_description, split_transfer, threat_settings
from gauntlet.threats.attacks import checks as honesty
from gauntlet.threats.attacks.registration import names_without_gradient

WHITE_BOX = ("attack", "battery", "region_aware")

CAPTION = (
    "The difference is what a defence gains or, where negative, loses on clean images against the model right inside "
    "it; of an ensemble, against the best of its members. The deviation (n - 1) is that of the clean figure over "
    "trials; only models that draw at random have trials. The adaptive attack is the strongest of those that know of "
    "the defence; without one, no figure says anything about robustness. A dash stands for what the store lacks."
)


def section(scope: Scope) -> Section | None:
    """What every defended model loses on clean images, its trials, and what an adaptive attack leaves; None without."""
    rows = [_row(scope, model, name) for model, name in _defended(scope).items()]
    if not rows:
        return None
    columns = [
        Column("model"),
        Column(f"clean {scope.metric} inside", "percent", note="of the model inside"),
        Column(f"clean {scope.metric}", "percent", note="of the defended model"),
        Column("difference", "points", note="the defended model less the one inside"),
        Column("trials", "count"),
        Column("deviation over trials", "percent"),
        Column("lowest adaptive", "percent", heat=True, note=f"{scope.metric} under the strongest adaptive attack"),
        Column("adaptive attack", note="which one that is"),
    ]
    table = Table(f"defended-{scope.id}", "Defended models", columns, rows, CAPTION)
    return Section(f"defended-section-{scope.id}", "Defended models", [table])


def _defended(scope: Scope) -> dict[str, str]:
    """Stored names of the defended models, by what the report calls them."""
    names = scope.evaluations.drop_duplicates("model")[["model", "address"]].itertuples(index=False)
    return {str(model): str(name) for model, name in names if defences_in(str(name))}


def _row(scope: Scope, model: str, name: str) -> list[Cell]:
    """The cells of a defended model; None and NaN are what the store lacks."""
    inside, clean = _clean_inside(scope, model), scope.clean(model)
    return [
        model,
        inside,
        clean,
        clean.value - inside.value,
        *_trials(scope, model, name),
        *_lowest_adaptive(scope, model),
    ]


def _clean_inside(scope: Scope, model: str) -> Interval:
    """The clean figure of the model right inside a defended one; of several, the best."""
    figures = [scope.clean(each) for each in _models_inside(scope, model)]
    if any(np.isnan(each.value) for each in figures):
        return Interval(np.nan)
    return max(figures, key=lambda each: each.value, default=Interval(np.nan))


def _models_inside(scope: Scope, model: str) -> list[str]:
    """What the report calls the models right inside a defended one; nothing where the store lacks one of them.

    A name may stand for several weights: the digest tells which are inside. Around a defence in tiles it tells nothing.
    """
    known = scope.evaluations.drop_duplicates("model")
    own = known[known["model"].eq(model)].iloc[0]
    read = read_name(str(own["address"]))
    if read is None:
        return []
    of_own_seed = known["seed"].eq(own["seed"])
    known = pd.concat([known[of_own_seed], known[~of_own_seed]]).drop_duplicates(["address", "digest"])
    found = [known[known["address"].eq(name)][["digest", "model"]].itertuples(index=False) for name in read.inner]
    for chosen in itertools.product(*found):
        digests, models = zip(*chosen, strict=True)
        if _digest_around(read, digests) == own["digest"]:
            return list(models)
    return []


def _digest_around(read: DefendedName, digests: Sequence[str]) -> str | None:
    """The digest of a defence around models of these digests; None where its settings are those of another version."""
    source = sources[read.prefix]
    assert isinstance(source, Addressed)
    inner = [ModelIdentity(name, digest) for name, digest in zip(read.inner, digests, strict=True)]
    try:
        settings = source.defence.settings_type(**parse_settings(read.settings, source.defence))
    except GauntletError:
        return None
    return source.defence.identity_of(inner, settings).digest


def _trials(scope: Scope, model: str, name: str) -> tuple[int | None, float | None]:
    """Trials of the clean evaluation and the deviation over them, of a model that draws at random."""
    key = scope.latest_keys().get((model, next(iter(scope.of_kind("clean")), "")))
    if key is None or not draws_in(name):
        return None, None
    rows = scope.frame[scope.frame["key"].eq(key) & scope.frame["class_name"].eq("")]
    of_trials = rows["metric"].eq(scope.metric) & rows["view"].str.startswith("trial ")
    spread = rows.loc[rows["metric"].eq(scope.metric + SPREAD), "value"]
    return max(int(of_trials.sum()), 1), None if spread.empty else float(spread.iloc[0])


def _lowest_adaptive(scope: Scope, model: str) -> tuple[Interval | None, str | None]:
    """The lowest figure under an attack that knows of the defence, and the attack."""
    rows = scope.headline[scope.headline["model"].eq(model)]
    rows = rows[_adaptive(rows)].sort_values("value", kind="stable")
    if rows.empty:
        return None, None
    threat = str(rows["threat"].iloc[0])
    return scope.figure(model, threat), threat


def never_attacked_adaptively(scope: Scope) -> Iterator[Finding]:
    """Defended models that no attack met which knows of the defence."""
    rows = scope.evaluations
    for model, name in _defended(scope).items():
        if not _adaptive(rows[rows["model"].eq(model)]).any():
            yield Finding("warning", model, _what_it_never_met(name))


def _what_it_never_met(name: str) -> str:
    """The attack that a defended model was never shown, and what its figures are worth without it."""
    if "smoothed" in defences_in(name):
        return (
            "It votes over noisy copies and was never shown an attack made on 'noise:' around the same model, with the "
            "same sigma and gradients averaged over draws (samples: 10): its figures say nothing about robustness."
        )
    if draws_in(name):
        return (
            "It draws at random and was never attacked with gradients averaged over draws (samples: 10): its figures "
            "say nothing about robustness."
        )
    if with_whole_gradient(name) != name:
        return (
            "Its gradient leaves out what the colours of the image do in the CRF (image_gradient=false), and it was "
            "never shown an attack made on the same field with image_gradient=true, or on the model inside: its "
            "figures say nothing about robustness."
        )
    return (
        "It is defended and was never attacked itself along its gradient: figures of other attacks say nothing about "
        "robustness."
    )


def _adaptive(rows: pd.DataFrame) -> BoolArray:
    """Which evaluations of defended models are attacks that know of the defence."""
    told = rows[["address", "digest", "kind", "description"]].itertuples(index=False)
    return np.array([_knows_of_defence(*map(str, each)) for each in told], dtype=bool)


def _knows_of_defence(name: str, digest: str, kind: str, description: str) -> bool:
    """Whether an evaluation of a defended model is an attack that knows of the defence."""
    if "smoothed" in defences_in(name):  # votes have no gradient: what can be attacked is the noise before them
        return _averaged_through_noise(name, description)
    on_itself = (kind in WHITE_BOX or _made_on(digest, description)) and _follows_gradient(description)
    if draws_in(name):
        return on_itself and _samples(description) > 1
    if with_whole_gradient(name) != name:
        return _made_along_all_of_it(name, description)
    return on_itself


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

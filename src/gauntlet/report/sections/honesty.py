"""What speaks for or against believing the figures, as far as the store can tell; further findings can be given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from gauntlet.analysis import gam, rem
from gauntlet.models.probe import PROBE
from gauntlet.report.document import Finding, Findings, Section, Text
from gauntlet.report.scope import Scope
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.sections import defended
from gauntlet.report.sections.distributions import ImagesOf
from gauntlet.report.versions import differing
from gauntlet.results.descriptions import threat_settings
from gauntlet.threats.attacks import checks as honesty
from gauntlet.threats.attacks.registration import names_without_gradient

FEW_IMAGES = 30
LEVELS = ("warning", "note", "good")
SINGLE_STEP = ("fgsm", "fgsm-ll", "fgsm-nth")


def from_checks(model: str, results: Sequence[honesty.Suspicion], images: int) -> list[Finding]:
    """What `gauntlet.threats.attacks.checks.check_attack` found about a model, or that it found nothing."""
    if not results:
        return [Finding("good", model, f"The checks for a hidden gradient found nothing on {images} images.")]
    return [
        Finding("warning", model, _sentence(each.sentence), f"check '{each.code}' on {images} images")
        for each in results
    ]


def section(
    scope: Scope,
    ranking: Ranking,
    images: ImagesOf,
    provenances: Sequence[Mapping[str, object]],
    given: Sequence[Finding],
) -> Section:
    """All findings of a scope, warnings first."""
    findings = [
        *given,
        *single_step_stronger(scope),
        *black_box_stronger(scope),
        *larger_budget_weaker(scope),
        *better_than_clean(scope),
        *defended.findings(scope),
        *zero_gradients(ranking, images),
        *incomplete_summaries(scope),
        *mixed_versions(provenances),
    ]
    if scope.images < FEW_IMAGES:
        findings.append(
            Finding("note", scope.title, f"Only {scope.images} images were evaluated: small differences mean nothing.")
        )
    findings.sort(key=lambda finding: LEVELS.index(finding.level))
    intro = Text(
        "Signs that a figure is not what it seems: attacks that grow weaker with a larger budget, single steps that "
        "beat iterations, attacks without a gradient that beat those with one, gradients that vanish, summaries with "
        "missing members."
    )
    if not any(finding.level == "warning" for finding in findings):
        findings.insert(
            0, Finding("good", scope.title, "Nothing in the stored figures contradicts the order of the attacks.")
        )
    return Section(f"honesty-{scope.id}", "Honesty", [intro, Findings(findings)])


def _attack_figures(scope: Scope) -> tuple[pd.DataFrame, str]:
    """Pixel accuracy (else the main figure) under every attack of the whole image, with its settings; and its name."""
    rows = scope.frame[scope.frame["view"].eq("all") & scope.frame["class_name"].eq("")]
    metric = "aAcc" if rows["metric"].eq("aAcc").any() else scope.metric
    rows = rows[rows["kind"].eq("attack") & rows["metric"].eq(metric)]
    return rows[["model", "threat", "value"]].join(threat_settings(rows)), metric


def single_step_stronger(scope: Scope) -> Iterator[Finding]:
    """Iterative attacks weaker than one step of their size: the gradient misleads (docs/specs/attacks.md, 16)."""
    rows, metric = _attack_figures(scope)
    for (model, _, _), part in rows.groupby(["model", "norm", "epsilon"], sort=False):
        single = part[part["attack"].isin(SINGLE_STEP)]
        iterative = part[~part["attack"].isin(SINGLE_STEP) & part["steps"].gt(1)]  # those that only ask have no steps
        if single.empty or iterative.empty:
            continue
        best, weak = (each.iloc[int(each["value"].argmin())] for each in (single, iterative))
        if best["value"] < weak["value"] - honesty.BEST_SLACK:
            yield Finding(
                "warning",
                str(model),
                f"A single step ({best['threat']}) is stronger than the iterative attacks of its size: the gradient "
                "misleads.",
                f"{metric} {best['value']:.3f} against {weak['value']:.3f} ({weak['threat']})",
            )


def black_box_stronger(scope: Scope) -> Iterator[Finding]:
    """Attacks that only ask stronger than all that follow the gradient: it is masked (docs/specs/beyond.md, 5)."""
    rows, metric = _attack_figures(scope)
    asking = rows["attack"].isin(names_without_gradient())
    for (model, _, _), part in rows.groupby(["model", "norm", "epsilon"], sort=False):
        black, white = part[asking[part.index]], part[~asking[part.index]]
        if black.empty or white.empty:
            continue
        strongest, rival = (each.iloc[int(each["value"].argmin())] for each in (black, white))
        if strongest["value"] < rival["value"] - honesty.BEST_SLACK:
            yield Finding(
                "warning",
                str(model),
                f"An attack that only asks the model ({strongest['threat']}) is stronger than all that follow its "
                "gradient: the gradient is masked.",
                f"{metric} {strongest['value']:.3f} against {rival['value']:.3f} ({rival['threat']})",
            )


def larger_budget_weaker(scope: Scope) -> Iterator[Finding]:
    """An attack that leaves more standing with a larger epsilon, more steps or a higher severity."""
    rows, metric = _attack_figures(scope)
    budgets = {"epsilon": "a larger epsilon", "steps": "more steps", "queries": "more queries"}
    for setting, words in budgets.items():
        fixed = [name for name in ("norm", *budgets) if name != setting]
        for (model, attack, *_), part in rows.groupby(["model", "attack", *fixed], sort=False, dropna=False):
            part = part.dropna(subset=setting).sort_values(setting, kind="stable").drop_duplicates(setting)
            rise = np.diff(part["value"].to_numpy(float))
            if len(rise) and rise.max() > honesty.LAST_SLACK:
                at = int(rise.argmax())
                before, after = part.iloc[at], part.iloc[at + 1]
                yield Finding(
                    "warning",
                    str(model),
                    f"{attack} is weaker with {words}: {after['threat']} leaves more standing than {before['threat']}.",
                    f"{metric} {after['value']:.3f} against {before['value']:.3f}",
                )


def better_than_clean(scope: Scope) -> Iterator[Finding]:
    """An attack under which the figure rises: it does nothing, or works against itself."""
    for threat in scope.of_kind("attack"):
        for model in scope.models:
            figure, clean = scope.figure(model, threat).value, scope.clean(model).value
            if figure > clean + honesty.BEST_SLACK:
                yield Finding(
                    "warning",
                    model,
                    f"{threat} raises the figure instead of lowering it.",
                    f"{scope.metric} {figure:.3f}, clean {clean:.3f}",
                )


def zero_gradients(ranking: Ranking, images: ImagesOf) -> Iterator[Finding]:
    """Attacks that met a gradient with many exact zeros (docs/specs/attacks.md, 16)."""
    for model in ranking.models:
        worst, threat = 0.0, ""
        for (name, its_threat), of_pair in images.items():
            shares = of_pair.detail("zero_gradient_share")
            if name == model and not np.isnan(shares).all() and np.nanmean(shares) > worst:
                worst, threat = float(np.nanmean(shares)), its_threat
        if worst > honesty.ZERO_ALARM:
            verdict = "its figures are invalid" if worst > honesty.ZERO_INVALID else "attacks cannot move these pixels"
            yield Finding(
                "warning", model, f"Much of the gradient is exactly zero: {verdict}.", f"{worst:.1%} under {threat}"
            )


def incomplete_summaries(scope: Scope) -> Iterator[Finding]:
    """ReM and GAM that cannot be computed because members are missing."""
    rows = scope.analysis_frame
    rows = rows[rows["metric"].eq(scope.metric) & rows["view"].eq("all")]
    for table in (rem(rows), gam(rows)):
        part = table[table["missing"].ne("")] if len(table) else table
        for (summary, missing, present), group in part.groupby(["summary", "missing", "members"], sort=False):
            count = len(str(missing).split(", "))
            words = "a member is missing" if count == 1 else f"{count} members are missing"
            if count > len(str(present).split(", ")):
                continue  # most members are missing: the summary was not intended
            yield Finding(
                "note",
                str(summary),
                f"{summary} has no value for {len(group)} of {len(scope.models)} models: {words}.",
                f"missing: {missing}",
            )


def random_models(evaluations: pd.DataFrame, provenances: Mapping[object, Mapping[str, Any]]) -> Iterator[Finding]:
    """Models that differed from themselves when they were probed (`gauntlet.models.probe`).

    Args:
        evaluations: of a scope, with key and model.
        provenances: by key.
    """
    names = evaluations["model"][[_is_random(provenances.get(key, {})) for key in evaluations["key"]]]
    for name in names.unique():
        yield Finding(
            "warning",
            str(name),
            f"{name} differs from itself: asked again for the same images, it gave other answers. Its figures cannot "
            "be repeated, and an attack on it that fails proves nothing.",
            "asked for the images of the probe before the evaluation",
        )


def _is_random(provenance: Mapping[str, Any]) -> bool:
    return bool(provenance.get(PROBE, {}).get("random"))


def mixed_versions(provenances: Sequence[Mapping[str, object]]) -> Iterator[Finding]:
    """Evaluations made with different versions, devices or precisions."""
    for name, values in differing(provenances).items():
        yield Finding("note", "how it was run", f"Evaluations differ in {name}.", ", ".join(values))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]

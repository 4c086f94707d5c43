"""Who stands where: models in order, the score that decides it, and what every model keeps of its clean figure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from gauntlet.analysis import scores
from gauntlet.analysis.leaderboard import score_columns
from gauntlet.report.scope import Scope, kind_word
from gauntlet.report.tables import Column, Interval, Table

WORST = "worst "
_RANKING_KINDS = ("corruption", "weather", "battery", "attack", "localized", "region_aware")
_MEAN = "mean of "


@dataclass(frozen=True)
class Standing:
    """The models of a scope in order."""

    scope: Scope

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Every score of `gauntlet.analysis.scores` (ReM, GAM, families, batteries), one row per model."""
        columns = [name for name in self.scope.frame if name not in ("seed", "digest", "address")]
        return scores(self.scope.frame[columns], self.scope.metric).set_index("model")

    @cached_property
    def score_names(self) -> list[str]:
        """Scores that at least one model has; the clean figure and the worst cases are not among them."""
        names = [name for name in score_columns(self.scores.reset_index()) if name != "clean"]
        kinds = self.scope.threats
        return [name for name in names if self.scores[name].notna().any() and name not in kinds]

    @cached_property
    def criterion(self) -> str:
        """What models are ranked by: GAM, else the worst shared threat of the first kind that every model has."""
        for name in self.score_names:
            if name.startswith("GAM_") and self.scores[name].notna().all():
                return name
        for kind in _RANKING_KINDS:
            if all(self.scope.worst(model, kind) is not None for model in self.scope.models):
                return WORST + kind
        return "clean"

    @property
    def criterion_words(self) -> str:
        """The criterion for a sentence."""
        if self.criterion.startswith(WORST):
            return f"{self.scope.metric} under the worst {kind_word(self.criterion.removeprefix(WORST))}"
        return f"clean {self.scope.metric}" if self.criterion == "clean" else self.criterion

    def deciding_threat(self, model: str) -> str:
        """The threat that gave a model its rank: its worst one where worst cases are ranked, else the clean images."""
        kind = "corruption" if self.criterion.startswith("GAM_") else self.criterion.removeprefix(WORST)
        worst = self.scope.worst(model, kind)
        return worst[0] if worst else next(iter(self.scope.of_kind("clean")), "")

    def score(self, model: str) -> float:
        """The figure by which a model is ranked."""
        if self.criterion.startswith(WORST):
            worst = self.scope.worst(model, self.criterion.removeprefix(WORST))
            return worst[1].value if worst else math.nan
        if self.criterion == "clean":
            return self.scope.clean(model).value
        return self.value(model, self.criterion)

    def value(self, model: str, name: str) -> float:
        """One of the scores of a model."""
        return float(self.scores[name].to_dict()[model])

    @cached_property
    def ranks(self) -> dict[str, int | None]:
        """Rank by model, best first; equal scores share the better rank, models without the score have none."""
        values = pd.Series({model: self.score(model) for model in self.scope.models}, dtype=float)
        ranks = values.rank(method="min", ascending=False)
        order = ranks.sort_values(na_position="last", kind="stable").index
        return {str(model): None if math.isnan(ranks[model]) else int(ranks[model]) for model in order}

    @property
    def models(self) -> list[str]:
        """Models, best first."""
        return list(self.ranks)

    def table(self) -> Table:
        """The leaderboard."""
        scope = self.scope
        kinds = [kind for kind in scope.kinds if scope.shared(kind)]
        columns = [
            Column("model"),
            Column("rank", "count"),
            Column("clean", "percent", heat=True),
            *(Column(f"worst {kind_word(kind)}", "percent", heat=True, note=_over(scope, kind)) for kind in kinds),
            *(Column(name, "percent", heat=True, note=_score_note(name)) for name in self.score_names),
        ]
        rows = []
        for model, rank in self.ranks.items():
            worst = [scope.worst(model, kind) for kind in kinds]
            rows.append(
                [
                    model,
                    rank,
                    scope.clean(model),
                    *(each[1] if each else None for each in worst),
                    *(self.value(model, name) for name in self.score_names),
                ]
            )
        caption = f"{scope.metric} in per cent on {scope.images} images. The best of every column is bold."
        if any(isinstance(cell, Interval) and not math.isnan(cell.low) for row in rows for cell in row):
            caption += " Ranges are 95 % bootstrap intervals over images."
        return Table(
            f"leaderboard-{scope.id}",
            f"By {self.criterion_words}",
            columns,
            rows,
            caption,
            best="column" if len(rows) > 1 else "",
        )


def _over(scope: Scope, kind: str) -> str:
    count = len(scope.shared(kind))
    return f"smallest over the {count} that every model was run under" if count > 1 else scope.shared(kind)[0]


def _score_note(name: str) -> str:
    if name.startswith(_MEAN):
        return "mean over the members of " + name.removeprefix(_MEAN)
    if "-ReM^" in name:
        return "smallest over PGD, SegPGD and CosPGD (segmentation) or BIM and PGD (detection)"
    if name.startswith("GAM_"):
        return "smallest over the common corruptions at this severity"
    return "mean over a family of corruptions" if name.split("_")[0] in ("noise", "blur", "weather", "digital") else ""

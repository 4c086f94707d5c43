"""The models of a scope in order, by the rule of `gauntlet.analysis.scoring.ranking`, with all their scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from gauntlet.analysis import scores as analysis_scores
from gauntlet.analysis.scoring import ranking
from gauntlet.analysis.scoring.rem_gam import members_of
from gauntlet.analysis.scoring.scores import score_columns
from gauntlet.metrics.intervals import too_few
from gauntlet.report.scope import Scope, kind_word
from gauntlet.report.tables import Column, Table, best_cells

_MEAN = "mean of "


def worst_name(kind: str) -> str:
    """The name of the score under the worst threat of a kind: "worst corruption"."""
    return f"worst {kind_word(kind)}"


@dataclass(frozen=True)
class Ranking:
    """The models of a scope in order.

    Attributes:
        scope: the evaluations.
        sort_by: the score that they are ranked by; by default the rule's.
    """

    scope: Scope
    sort_by: str | None = None

    @cached_property
    def summary_table(self) -> pd.DataFrame:
        """Every score of `gauntlet.analysis.scores` (ReM, GAM, families, batteries), one row per model."""
        return analysis_scores(self.scope.analysis_frame, self.scope.metric).set_index("model")

    @cached_property
    def summary_names(self) -> list[str]:
        """Scores of `summary_table` that at least one model has, but for the clean figure and those of one threat."""
        names = [name for name in score_columns(self.summary_table.reset_index()) if name != "clean"]
        threats = self.scope.threats
        return [name for name in names if self.summary_table[name].notna().any() and name not in threats]

    @cached_property
    def scores(self) -> dict[str, dict[str, float]]:
        """By model: the clean figure, the worst case over the shared threats of every kind, and the summaries."""
        every = {}
        for model in self.scope.models:
            values = {"clean": self.scope.clean(model).value}
            for kind in self.scope.kinds:
                worst = self.scope.worst_shared(model, kind)
                if worst is not None:
                    values[worst_name(kind)] = worst[1].value
            values |= self._summaries.get(model, {})  # none of a model with certificates only
            every[model] = {name: value for name, value in values.items() if not math.isnan(value)}
        return every

    @cached_property
    def _summaries(self) -> Mapping[str, dict[str, float]]:
        rows = self.summary_table[self.summary_names].astype(float).to_dict("index")
        return {str(model): {str(name): value for name, value in row.items()} for model, row in rows.items()}

    @cached_property
    def _ranked(self) -> tuple[str, dict[str, int | None]]:
        return ranking.rank(self.scores, self.sort_by)

    @property
    def criterion(self) -> str:
        """The score that models are ranked by."""
        return self._ranked[0]

    @property
    def ranks(self) -> dict[str, int | None]:
        """Rank by model, best first; equal scores share the better rank, models without the score have none."""
        return self._ranked[1]

    @property
    def models(self) -> list[str]:
        """Models, best first."""
        return list(self.ranks)

    @property
    def _kinds_by_score(self) -> dict[str, str]:
        return {worst_name(kind): kind for kind in self.scope.kinds}

    @property
    def criterion_words(self) -> str:
        """The criterion for a sentence."""
        if self.criterion in self._kinds_by_score:
            kind = self._kinds_by_score[self.criterion]
            every = len(self.scope.shared(kind)) == len(self.scope.of_kind(kind))
            return f"{self.scope.metric} under the {self.criterion}{'' if every else ' that all were run under'}"
        return f"clean {self.scope.metric}" if self.criterion == "clean" else self.criterion

    @cached_property
    def deciding(self) -> list[str]:
        """The threats over which the criterion is the smallest figure; none where it is another kind of score."""
        if self.criterion == "clean":
            return self.scope.of_kind("clean")[:1]
        kinds = {worst_name(kind): kind for kind in self.scope.kinds}
        if self.criterion in kinds:
            return self.scope.shared(kinds[self.criterion])
        if self.criterion in self.scope.threats:
            return [self.criterion]
        return members_of(self.scope.analysis_frame, self.criterion)

    def table(self) -> Table:
        """The leaderboard."""
        scope = self.scope
        kinds = [kind for kind in scope.kinds if scope.shared(kind)]
        columns = [
            Column("model"),
            Column("rank", "count"),
            Column("clean", "percent", heat=True),
            *(Column(worst_name(kind), "percent", heat=True, note=_over(scope, kind)) for kind in kinds),
            *(Column(name, "percent", heat=True, note=_score_note(name)) for name in self.summary_names),
        ]
        rows = []
        for model, place in self.ranks.items():
            worst = [scope.worst_shared(model, kind) for kind in kinds]
            rows.append(
                [
                    model,
                    place,
                    scope.clean(model),
                    *(each[1] if each else None for each in worst),
                    *(self._summaries[model][name] for name in self.summary_names),
                ]
            )
        found = Table(
            f"leaderboard-{scope.id}",
            f"By {self.criterion_words}",
            columns,
            rows,
            f"{scope.metric} in per cent on {scope.images} images.",
            best="column" if len(rows) > 1 else "",
        )
        promises = [
            " The best of every column is bold." if best_cells(found) else "",
            " Ranges are 95 % intervals over images." if found.has_intervals else f" {too_few(scope.images)}".rstrip(),
        ]
        return replace(found, caption=found.caption + "".join(promises))


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

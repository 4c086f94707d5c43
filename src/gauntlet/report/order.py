"""The order of models in words: every "A is better than B" of report, card, leaderboard and comparison."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gauntlet.analysis.better import (
    ALPHA,
    BETTER,
    EXACT_UP_TO,
    FLOOR,
    OPEN,
    WORSE,
    Relabelled,
    Told,
    relabel,
    settle,
    smallest_p_value,
)
from gauntlet.errors import DamageError
from gauntlet.metrics.intervals import MINIMUM_IMAGES
from gauntlet.numbers import counted, listed
from gauntlet.report.image_figures import Images, read_images
from gauntlet.report.scope import Scope
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.tables import format_value
from gauntlet.results import Store

_LOGGER = logging.getLogger(__name__)

ImagesOf = Mapping[tuple[str, str], Images]
"""The images of evaluations, by model and threat."""


def worst_case_test(
    images: ImagesOf, first: str, second: str, threats: Sequence[str], comparisons: int = 1, *, passing: bool = False
) -> Relabelled | None:
    """Test the worst figure of one model minus that of another over the threats that both have images of.

    Args:
        images: of the evaluations.
        first, second: models.
        threats: over which the worst is taken.
        comparisons: that the p-value will be corrected for: enough relabellings are drawn for it.
        passing: for a report: a first sample of relabellings that finds nothing ends the test.

    Returns:
        None where there are no threats that both ran on the same images, or one image.
    """
    pairs = [(images[first, each], images[second, each]) for each in threats if _both(images, first, second, each)]
    if not pairs:
        return None
    of_both = pairs[0][0].worst_figures([one for one, _ in pairs], [other for _, other in pairs])
    thorough, few = pairs[0][0].permutations
    enough = max(thorough, math.ceil(2 * comparisons / ALPHA))
    count = len(pairs[0][0].ids)
    if passing and few < enough:
        test = relabel(of_both, count, few)
        if not test.p_value() < ALPHA or comparisons * smallest_p_value(count, few) < ALPHA:
            return test
    return relabel(of_both, count, enough)


def _both(images: ImagesOf, first: str, second: str, threat: str) -> bool:
    one, other = images.get((first, threat)), images.get((second, threat))
    return one is not None and other is not None and one.same_images(other)


@dataclass(frozen=True)
class Order:
    """The models of a ranking, and which of them can be told apart from the first.

    Attributes:
        ranking: the models in order.
        images: of their evaluations.
    """

    ranking: Ranking
    images: ImagesOf

    @cached_property
    def ranked(self) -> list[str]:
        """Models that have the score, best first."""
        return [model for model, rank in self.ranking.ranks.items() if rank is not None]

    @property
    def pairs(self) -> int:
        """Comparisons that are corrected for: the first was chosen by its figure, so it is one of all pairs."""
        return len(self.ranked) * (len(self.ranked) - 1) // 2

    @cached_property
    def told(self) -> dict[str, Told | None]:
        """The outcome for every other model, compared with the first; None where nothing can be compared."""
        if len(self.ranked) < 2:
            return {}
        first, *others = self.ranked
        tests = [
            worst_case_test(self.images, first, other, self.ranking.deciding, self.pairs, passing=True)
            for other in others
        ]
        return dict(zip(others, settle(tests, self.ranking.scope.images, self.pairs), strict=True))

    @property
    def worse(self) -> list[str]:
        """Models that the first is better than."""
        return [model for model, told in self.told.items() if told is not None and told.verdict == WORSE]

    def headline(self, effects: str) -> str:
        """The one sentence to take home.

        Args:
            effects: how the first model does: "holds up under its worst corruption ...".
        """
        models, by = self.ranking.models, self.ranking.criterion_words
        first = models[0]
        if len(models) == 1 or not self.ranked:
            return f"{first} {effects}."
        if len(self.ranked) == 1:
            return f"{first} is the only one of {len(models)} models that has {by}, so there is no order: it {effects}."
        among = f"{len(models)} models"
        if len(self.ranked) < len(models):
            among = f"the {len(self.ranked)} of {among} that have it"
        if len(self.worse) == len(self.ranked) - 1:
            return f"{first} is the most reliable of {among} by {by}: it {effects}."
        top = [model for model in self.ranked if self.ranking.ranks[model] == 1]
        shared = (
            f"{listed(top)} share the highest figure; {first}"
            if len(top) > 1
            else f"{first} has the highest figure and"
        )
        return f"No model can be called the most reliable of {among} by {by}: {shared} {effects}."

    def sentence(self) -> str:
        """Which models can be told apart from the first, and how sure that is; "" where there is no order."""
        if len(self.ranked) < 2:
            return ""
        first, by, images = self.ranked[0], self.ranking.criterion_words, self.ranking.scope.images
        known = {model: told for model, told in self.told.items() if told is not None}
        if not known:
            why = "no counts of the same images are kept" if self.ranking.deciding else "it is no smallest figure"
            return f"The order by {by} was not tested: {why}."
        if images < MINIMUM_IMAGES:
            return f"The order by {by} was not tested: that takes {MINIMUM_IMAGES} images, not {images}."
        told_as = {
            verdict: [model for model, told in known.items() if told.verdict == verdict]
            for verdict in (WORSE, OPEN, BETTER)
        }
        parts = [
            f"{first} is better than {listed(told_as[WORSE])}" if told_as[WORSE] else "",
            f"{first} {OPEN} from {listed(told_as[OPEN])}" if told_as[OPEN] else "",
            f"under the threats that both were run under, {first} is worse than {listed(told_as[BETTER])}"
            if told_as[BETTER]
            else "",
            f"{listed([model for model in self.told if model not in known])} shares no counted threat with {first}"
            if len(known) < len(self.told)
            else "",
        ]
        closest, told = next(iter(known.items()))
        text = f"By {by}: {'; '.join(filter(None, parts))}. {closest} minus {first}: {told_words(told, self.metric)}."
        return f"{text} {out_of_reach(images, self.pairs)}".rstrip()

    @property
    def metric(self) -> str:
        """The figure that is compared."""
        return self.ranking.scope.metric


def told_words(told: Told, metric: str) -> str:
    """The numbers of a comparison: "-2.9 points of mIoU (-5.1 to -0.4), p = 0.012, for 3 comparisons = 0.036"."""
    text = f"{format_value(told.difference, 'points')} points of {metric}"
    if not math.isnan(told.low):
        text += f" ({format_value(told.low, 'points')} to {format_value(told.high, 'points')})"
    if told.at_floor:
        return f"{text}, both below {100 * FLOOR:g} %, where an order means nothing"
    if math.isnan(told.p_value):
        return text
    text += f", p {_chance(told.p_value)}"
    if told.comparisons > 1:
        text += f", for {counted(told.comparisons, 'comparison')} {_chance(told.adjusted)}"
    return text


def _chance(p_value: float) -> str:
    written = format_value(p_value, "chance")
    return written if written.startswith("<") else f"= {written}"


def out_of_reach(images: int, comparisons: int) -> str:
    """How many images it takes for a difference to be found after so many comparisons; "" where there are enough."""
    if images > EXACT_UP_TO or comparisons * smallest_p_value(images) < ALPHA:
        return ""
    counts = range(images + 1, EXACT_UP_TO + 1)
    needed = next((each for each in counts if comparisons * smallest_p_value(each) < ALPHA), EXACT_UP_TO + 1)
    return f"With {counted(comparisons, 'comparison')} a test takes {needed} images."


def read_scope_images(
    store: Store, scope: Scope, threats: Sequence[str] | None = None
) -> dict[tuple[str, str], Images]:
    """The images of the latest evaluation of every model and threat of a scope; of some threats only if given."""
    keys = {pair: key for pair, key in scope.latest_keys().items() if threats is None or pair[1] in threats}
    read: dict[tuple[str, str], Images] = {}
    for pair, key in keys.items():
        try:
            images = read_images(store, key)
        except DamageError as error:  # its figures have a checksum of their own, and fit it
            _LOGGER.warning("%s", error)
            continue
        if images is not None:
            read[pair] = images
    return read


def store_order(store: Store, scope: Scope, sort_by: str | None = None) -> Order:
    """The order of the models of a scope, with the images that it takes."""
    ranking = Ranking(scope, sort_by)
    return Order(ranking, read_scope_images(store, scope, ranking.deciding))

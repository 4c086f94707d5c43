"""From a store to a report as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.evaluation.reloading import Loaders
from gauntlet.numbers import counted
from gauntlet.report.document import Block, Document, Finding, Gallery, Part, Section, Text, made_now
from gauntlet.report.gallery import build_gallery, worst_images
from gauntlet.report.image_figures import Images
from gauntlet.report.order import Order, read_scope_images
from gauntlet.report.scope import Scope, kind_word, scopes
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.sections import (
    batteries,
    boxes,
    classes,
    defended,
    distributions,
    error_types,
    honesty,
    mixtures,
    obtained,
    published,
    relations,
    strength,
    summary,
    threats,
    untested,
)
from gauntlet.report.sections.confidence import calibration, certainty, certificates
from gauntlet.report.trivial_answer import only_predicted_sentence, with_trivial
from gauntlet.results import Evaluation, Store

MOST_GALLERIES = 24


@dataclass(frozen=True)
class Options:
    """What goes into a report.

    Attributes:
        title: of the page.
        gallery: worst images per model and kind of threat; 0 for none. The threats are run again on them.
        findings: what other checks found, by model (`gauntlet.threats.attacks.checks`).
        loaders: how a gallery finds models and datasets.
        skipped: told why a gallery could not be made, besides the page.
        reference: name of a model that the errors of localized corruptions are also given against (CE).
    """

    title: str = "Gauntlet report"
    gallery: int = 0
    findings: Sequence[Finding] = ()
    loaders: Loaders = field(default_factory=Loaders)
    skipped: Callable[[str], None] = lambda reason: None
    reference: str | None = None


def build_report(store: Store, options: Options | None = None) -> Document:
    """The report over all finished evaluations of a store, as data."""
    options = options or Options()
    frame = store.frame()
    if frame.empty:
        raise GauntletError(f"the store {store.address} holds no finished evaluation; 'gauntlet run' makes some.")
    cut = scopes(frame)
    models = {model for scope in cut for model in scope.models}
    if options.reference is not None and options.reference not in models:
        raise unknown_name("model of the store", options.reference, sorted(models))
    parts = [
        replace(build_part(store, scope, options), title=title)
        for scope, title in zip(cut, titles_apart(cut), strict=True)
    ]
    columns = {"model": "model", "threat": "threat", "evaluation": "key"}
    counts = {word: frame[column].nunique() for word, column in columns.items()}
    subtitle = ", ".join(counted(count, word) for word, count in counts.items())
    return Document(options.title, subtitle, parts, made_now())


def titles_apart(cut: Sequence[Scope]) -> list[str]:
    """A title for each scope; where two have one dataset and split, with the task and the number of images."""
    titles = Counter(scope.title for scope in cut)
    return [
        f"{scope.title}, {scope.task}, {counted(scope.images, 'image')}" if titles[scope.title] > 1 else scope.title
        for scope in cut
    ]


def build_part(store: Store, scope: Scope, options: Options) -> Part:
    """The report over one scope."""
    images = read_scope_images(store, scope)
    scope = with_trivial(scope, images)
    ranking = Ranking(scope)
    rows = scope.evaluations
    evaluations = {key: stored for key in rows["key"] if (stored := store.load(key)) is not None}
    provenances = [each.provenance for each in evaluations.values()]
    given = [each for each in options.findings if each.subject in scope.models or each.subject == scope.title]
    given += honesty.random_models(rows, {key: each.provenance for key, each in evaluations.items()})
    overview = threats.overview(scope, ranking)
    board: list[Block] = [ranking.table(), *([overview] if overview else [])]
    sections: list[Section | None] = [
        summary.section(scope, Order(ranking, images), only_predicted_sentence(scope, images)),
        Section(f"leaderboard-section-{scope.id}", "Leaderboard", board),
        *threats.sections(scope, ranking, images, options.reference),
        published.section(scope, evaluations),
        boxes.section(scope, ranking),
        error_types.section(scope, ranking, images),
        strength.section(scope, ranking),
        batteries.section(scope, ranking, images, evaluations),
        distributions.section(scope, ranking, images),
        classes.section(scope, ranking),
        calibration.section(scope, ranking, images),
        gallery_section(scope, ranking, evaluations, images, options) if options.gallery else None,
        relations.section(scope, ranking),
        defended.section(scope),
        mixtures.section(scope, images),
        certainty.section(scope),
        certificates.section(scope, {key: store.metric_options(key) for key in _certified(scope)}),
        honesty.section(scope, ranking, images, provenances, given),
        untested.section(scope, ranking),
        obtained.section(scope, ranking, evaluations, store.address),
    ]
    counts = {"image": scope.images, "model": len(scope.models), "threat": len(scope.threats)}
    subtitle = ", ".join(counted(count, word) for word, count in counts.items())
    return Part(scope.id, scope.title, subtitle, [each for each in sections if each is not None])


def _certified(scope: Scope) -> list[str]:
    """Keys of the evaluations that took votes."""
    rows = scope.evaluations
    return [str(key) for key in rows.loc[rows["kind"].eq("certify"), "key"]]


def gallery_section(
    scope: Scope,
    ranking: Ranking,
    evaluations: Mapping[str, Evaluation],
    images: Mapping[tuple[str, str], Images],
    options: Options,
) -> Section:
    """The worst images of every model under its worst threat of every kind."""
    intro = "Images on which a threat does most damage, run again for this page."
    blocks: list[Block] = [Text(intro)]
    candidates = [(model, kind) for model in ranking.models for kind in scope.kinds]
    keys = scope.latest_keys()
    clean_name = next(iter(scope.of_kind("clean")), "")
    for model, kind in candidates:
        worst = scope.worst(model, kind)
        attacked = images.get((model, worst[0])) if worst else None
        if worst is None or attacked is None:
            continue
        title = f"{model}: worst {kind_word(kind)}, {worst[0]}"
        if len(blocks) > MOST_GALLERIES:
            blocks.append(Text(f"The first {MOST_GALLERIES} galleries; 'gauntlet show' draws any other image."))
            break
        ids = worst_images(images.get((model, clean_name)), attacked, options.gallery)
        blocks.append(_gallery_or_reason(evaluations[keys[model, worst[0]]], ids, attacked, title, options))
    if len(blocks) == 1:
        blocks = [Text("No pictures: the store keeps no counts of single images of these evaluations.")]
    return Section(f"gallery-{scope.id}", "Gallery", blocks)


def _gallery_or_reason(
    evaluation: Evaluation, ids: Sequence[str], stored: Images, title: str, options: Options
) -> Gallery | Text:
    """A gallery, or why there is none: a model that was given as an object cannot be loaded again."""
    try:
        return build_gallery(evaluation, ids, stored, title, options.loaders)
    except GauntletError as error:
        reason = f"{title}: no pictures, since {error}"
        options.skipped(reason)
        return Text(reason)

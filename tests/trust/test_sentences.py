"""Every sentence of the summary, leaderboard and list of gaps of constructed stores, checked against their numbers.

Row of issue 38: a report said "most reliable" of models that no test can tell apart. A sentence that no reader here
knows fails: whoever adds one adds the reader that checks it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
from synthetic_store import BATTERY, CLASSES, CORRUPTIONS, MadeUpThreat, image_counts, put

from gauntlet.metrics import SegmentationMetric
from gauntlet.report import build_report
from gauntlet.report.document import Bullets, Document, Part, Section, Text, Verdicts, of_type
from gauntlet.report.order import read_scope_images
from gauntlet.report.pages.comparison import compare_models
from gauntlet.report.pages.comparison_page import verdict
from gauntlet.report.pages.entries import store_orders
from gauntlet.report.pages.model_card import card_data, card_text
from gauntlet.report.scope import Scope, scopes
from gauntlet.report.sections.summary import GRADES, GRADES_IN_WORDS
from gauntlet.report.tables import Interval, Table, best_cells
from gauntlet.report.trivial_answer import with_trivial
from gauntlet.results import Job, Store
from gauntlet.results.record import ImageRow

CLEAN = MadeUpThreat("clean", {"clean": {}}, 0, 0)
FOG, NOISE = (
    MadeUpThreat(f"{name}-3", {"corruption": {"name": name, "severity": 3}}, 0, 0) for name in ("fog", "gaussian_noise")
)
PGD = MadeUpThreat(
    "pgd linf 8/255 x20", {"attack": {"name": "pgd", "norm": "linf", "epsilon": 8 / 255, "steps": 20}}, 0, 0
)
WEAK = MadeUpThreat(
    "pgd linf 8/255 x2",
    {"attack": {"name": "pgd", "norm": "linf", "epsilon": 8 / 255, "steps": 2, "region": None}},
    0,
    0,
)
HALMOSI = MadeUpThreat("halmosi 8/255", {"battery": {"name": "halmosi", "epsilon": 8 / 255}}, 0, 0, BATTERY)
ALL_CORRUPTIONS = [
    MadeUpThreat(f"{name}-3", {"corruption": {"name": name, "severity": 3}}, 0, 0) for name in CORRUPTIONS
]
OPTIONS: dict[str, Any] = {"class_names": list(CLASSES), "ignore_index": 255, "background_index": None}


def add(
    store: Store,
    model: str,
    kept: Sequence[tuple[MadeUpThreat, float]],
    *,
    images: int = 12,
    noise: int = 0,
    dataset: str = "streets",
    version: int = 1,
) -> None:
    """Evaluations of a model that gets so much right under every threat, with noise of its own."""
    metric = SegmentationMetric(**OPTIONS)
    identity = {"name": dataset, "split": "val", "length": images, "ids": "0123456789abcdef", "protocol": {}}
    for place, (threat, share) in enumerate(kept):
        job = Job("segmentation", model, model, identity, threat.name, threat.kind, threat.description, version, 0)
        started = store.begin(
            job, images=images, batch_size=4, metric=OPTIONS, provenance={"started": f"2026-03-01T10:00:{place:02d}"}
        )
        shared, own = np.random.default_rng(1), np.random.default_rng([noise, place])
        rows = []
        for image in range(images):
            hard = 0.85 + 0.3 * shared.random(len(CLASSES))
            sizes = (2000 * shared.dirichlet(np.linspace(3, 0.6, len(CLASSES)))).astype(np.int64)
            accuracy = np.clip(share * hard * own.normal(1, 0.05), 0, 0.99)
            counts = [image_counts(accuracy, sizes, own, view) for view in threat.views]
            rows.append(ImageRow(image, f"{dataset}/{image}", type(counts[0]).stack(counts).to_bytes(), {}))
        store.add_images(started, rows, threat.views)
        store.finish(started, metric.compute((metric.decode(row.counts) for row in rows), threat.views))


@dataclass(frozen=True)
class Case:
    """A constructed store.

    Attributes:
        fill: makes the evaluations.
        better: by data set, the pairs (better, worse) that differ beyond doubt in what ranks them; all others are equal
            or cannot be tested.
        headlines: what the headlines must be like, one per data set.
    """

    fill: Callable[[Store], None]
    better: Mapping[str, set[tuple[str, str]]] = field(default_factory=dict)
    headlines: Sequence[str] = ()


def _clear(store: Store) -> None:
    for noise, (model, share) in enumerate((("a", 0.3), ("b", 0.5), ("c", 0.7))):
        add(store, model, [(CLEAN, 0.9), (FOG, share), (NOISE, 0.8), (PGD, share / 2)], noise=noise)


def _ties(store: Store) -> None:
    for model in ("a", "b"):
        add(store, model, [(CLEAN, 0.9), (FOG, 0.5)])


def _equal(store: Store) -> None:
    for noise, model in enumerate(("a", "b", "c", "d")):
        add(store, model, [(CLEAN, 0.9), (FOG, 0.5), (NOISE, 0.5)], noise=noise)


def _floor(store: Store) -> None:
    add(store, "a", [(CLEAN, 0.9), (FOG, 0.02)], images=20, noise=1)
    add(store, "b", [(CLEAN, 0.9), (FOG, 0.0)], images=20, noise=2)


def _partial(store: Store) -> None:
    add(store, "a", [(CLEAN, 0.9), *((each, 0.6) for each in ALL_CORRUPTIONS)])
    add(store, "b", [(CLEAN, 0.9), (FOG, 0.3), (NOISE, 0.6)], noise=1)


def _one_with_score(store: Store) -> None:
    add(store, "a", [(CLEAN, 0.9), (FOG, 0.5)])
    add(store, "b", [(CLEAN, 0.6)], noise=1)


def _one_image(store: Store) -> None:
    for noise, (model, share) in enumerate((("a", 0.2), ("b", 0.8))):
        add(store, model, [(CLEAN, share), (FOG, share)], images=1, noise=noise)


def _few_images(store: Store) -> None:
    for noise, (model, share) in enumerate((("a", 0.2), ("b", 0.8))):
        add(store, model, [(CLEAN, 0.9), (FOG, share)], images=7, noise=noise)


def _random_models(store: Store) -> None:
    for noise, model in enumerate(("a", "b", "c")):
        add(store, model, [(CLEAN, 1 / len(CLASSES)), (FOG, 1 / len(CLASSES)), (PGD, 0.0)], noise=noise)


def _mixed_versions(store: Store) -> None:
    for noise, (model, share) in enumerate((("a", 0.2), ("b", 0.7))):
        add(store, model, [(CLEAN, 0.9)], noise=noise)
        add(store, model, [(FOG, share)], noise=noise, version=noise + 1)


def _two_data_sets(store: Store) -> None:
    for dataset, share in (("streets", 0.3), ("fields", 0.7)):
        add(store, "a", [(CLEAN, 0.9), (FOG, share)], dataset=dataset)
        add(store, "b", [(CLEAN, 0.9), (FOG, 0.5)], dataset=dataset, noise=1)


def _weak_attack(store: Store) -> None:
    add(store, "a", [(CLEAN, 0.9), (WEAK, 0.8)])


def _other_worst(store: Store) -> None:
    """As in the demo report: each is far ahead under the threat that is worst for the other, not in what ranks."""
    add(store, "a", [(CLEAN, 0.9), (FOG, 0.4), (NOISE, 0.8)], noise=1)
    add(store, "b", [(CLEAN, 0.9), (FOG, 0.8), (NOISE, 0.4)], noise=2)


def _without_counts(store: Store) -> None:
    for model, value in (("a", 0.2), ("b", 0.6)):
        put(store, model, "clean", {"clean": {}}, mIoU=0.8)
        put(store, model, "fog-3", FOG.description, mIoU=value)


def _battery(store: Store) -> None:
    add(store, "a", [(CLEAN, 0.9), (HALMOSI, 0.1)])
    add(store, "b", [(CLEAN, 0.9), (HALMOSI, 0.5)], noise=1)


MOST, NONE = "is the most reliable of", "No model can be called the most reliable of"
CASES = {
    "clear differences": Case(_clear, {"streets": {("c", "a"), ("c", "b"), ("b", "a")}}, [MOST]),
    "ties": Case(_ties, headlines=["share the highest figure"]),
    "equal models": Case(_equal, headlines=[NONE]),
    "all at the floor": Case(_floor, headlines=[""]),
    "a partial suite": Case(_partial, {"streets": {("a", "b")}}, [""]),
    "a score that one model has": Case(_one_with_score, headlines=["a is the only one of 2 models"]),
    "one image": Case(_one_image, headlines=[NONE]),
    "seven images": Case(_few_images, headlines=[NONE]),
    "random models": Case(_random_models, headlines=[NONE]),
    "mixed versions": Case(_mixed_versions, headlines=["b is the only one of 2 models"]),
    "two data sets": Case(_two_data_sets, {"streets": {("b", "a")}, "fields": {("a", "b")}}, [MOST, MOST]),
    "an attack of two steps": Case(_weak_attack, headlines=["a "]),
    "other worst threats": Case(_other_worst, headlines=[NONE]),
    "figures without counts": Case(_without_counts, headlines=[NONE]),
    "a battery": Case(_battery, headlines=[NONE]),  # clean figures rank, and they are equal
}


@dataclass(frozen=True)
class Facts:
    """The numbers of one data set, from the frame of the store."""

    scope: Scope
    better: set[tuple[str, str]]

    @property
    def values(self) -> pd.DataFrame:
        rows = self.scope.frame
        rows = rows[rows["metric"].eq("mIoU") & rows["class_name"].eq("") & rows["view"].eq("all")]
        return rows.pivot_table(index="model", columns="threat", values="value", aggfunc="last", dropna=False)

    @property
    def kinds(self) -> dict[str, str]:
        return {str(threat): str(kind) for threat, kind in self.scope.frame[["threat", "kind"]].itertuples(index=False)}

    @property
    def trivial(self) -> float:
        return self.scope.floor

    def clean(self, model: str) -> float:
        return float(self.values.loc[[model], "clean"].iloc[0])

    def figure(self, model: str, threat: str) -> float:
        return float(self.values.loc[[model], threat].iloc[0])

    def worst(self, model: str, kind: str) -> float:
        figures = [self.figure(model, name) for name in map(str, self.values) if self.kinds[name] == kind]
        return min(value for value in figures if not math.isnan(value))

    def kept(self, figure: float, clean: float) -> float:
        return max(0.0, (figure - self.trivial) / (clean - self.trivial)) if clean > self.trivial else math.nan

    def score(self, model: str, by: str) -> float:
        """The score that a phrase names, over the threats that all models with one of the kind were run under."""
        if by.startswith("clean"):
            return self.clean(model)
        if by in self.values:
            return self.figure(model, by)
        assert by.startswith(("GAM_3", "mIoU under the worst corruption")), by
        names = [name for name, kind in self.kinds.items() if kind == "corruption"]
        part = self.values.reindex(columns=names).dropna(how="all")
        whole = part.dropna() if by == "GAM_3" else part.dropna(axis="columns")
        return float(whole.min(axis=1).to_dict().get(model, math.nan))


Reader = Callable[[re.Match[str], Facts], None]
READERS: list[tuple[re.Pattern[str], Reader]] = []


def reads(pattern: str) -> Callable[[Reader], Reader]:
    def register(reader: Reader) -> Reader:
        READERS.append((re.compile(pattern), reader))
        return reader

    return register


def read(sentence: str, facts: Facts) -> None:
    """Finds the reader of a sentence, which checks it; a sentence that nobody reads is a fault of its author."""
    for pattern, reader in READERS:
        match = pattern.fullmatch(sentence)
        if match:
            reader(match, facts)
            return
    pytest.fail(f"no reader for: {sentence}")


def names_in(text: str) -> list[str]:
    return re.split(r", | and ", text)


EFFECT = re.compile(
    r"(?P<words>holds up under|is weakened by|is badly hurt by|mostly breaks under|collapses under) its worst "
    r"(?P<kind>[a-z ]+?) \((?P<threat>[^:]+): (?P<kept>[\d.]+) % kept\)"
)
ABSOLUTE = re.compile(r"has (?P<value>[\d.]+) % under its worst (?P<kind>[a-z ]+?) \((?P<threat>[^)]+)\)")
KIND_OF = {"corruption": "corruption", "attack": "attack", "battery of attacks": "battery"}


def check_effects(model: str, text: str, facts: Facts) -> None:
    rest = text
    for match in EFFECT.finditer(text):
        figure = facts.figure(model, match["threat"])
        assert figure == pytest.approx(facts.worst(model, KIND_OF[match["kind"]]))
        kept = facts.kept(figure, facts.clean(model))
        assert float(match["kept"]) == pytest.approx(100 * kept, abs=0.051)
        assert match["words"] == next(words for least, words in GRADES if round(kept, 12) >= least)
        rest = rest.replace(match[0], "")
    for match in ABSOLUTE.finditer(text):
        assert float(match["value"]) == pytest.approx(100 * facts.figure(model, match["threat"]), abs=0.051)
        assert math.isnan(facts.kept(0, facts.clean(model)))
        rest = rest.replace(match[0], "")
    for match in re.finditer(r"has ([\d.]+) % clean mIoU", text):
        assert float(match[1]) == pytest.approx(100 * facts.clean(model), abs=0.051)
        rest = rest.replace(match[0], "")
    assert re.fullmatch(r"[, ]*(and)?[, ]*(was evaluated under no threat)?", rest), rest


def check_highest(model: str, models: Iterable[str], by: str, facts: Facts) -> None:
    own = facts.score(model, by)
    assert all(not facts.score(other, by) > own + 1e-12 for other in models)


@reads(r"(?P<a>\w+) is the most reliable of (?P<n>\d+) models by (?P<by>.+?): it (?P<effects>.+)\.")
def _most_reliable(match: re.Match[str], facts: Facts) -> None:
    models = list(facts.values.index)
    assert int(match["n"]) == len(models)
    check_highest(match["a"], models, match["by"], facts)
    for other in models:
        assert other == match["a"] or (match["a"], other) in facts.better
        assert not math.isnan(facts.score(other, match["by"]))  # it has the score
    check_effects(match["a"], match["effects"], facts)


@reads(
    r"(?P<a>\w+) is the only one of (?P<n>\d+) models that has (?P<by>.+?), so there is no order: it (?P<effects>.+)\."
)
def _only_one(match: re.Match[str], facts: Facts) -> None:
    models = list(facts.values.index)
    assert int(match["n"]) == len(models)
    assert [model for model in models if not math.isnan(facts.score(model, match["by"]))] == [match["a"]]
    check_effects(match["a"], match["effects"], facts)


@reads(
    r"No model can be called the most reliable of (?P<n>\d+) models by (?P<by>.+?): "
    r"((?P<tied>.+?) share the highest figure; )?(?P<a>\w+)( has the highest figure and)? (?P<effects>.+)\."
)
def _no_model(match: re.Match[str], facts: Facts) -> None:
    models = list(facts.values.index)
    assert int(match["n"]) == len(models)
    check_highest(match["a"], models, match["by"], facts)
    others = [model for model in models if model != match["a"]]
    told = all((match["a"], other) in facts.better for other in others)
    assert not told, "the models differ beyond doubt"
    scores = {model: facts.score(model, match["by"]) for model in models}
    top = [model for model, score in scores.items() if score == max(scores.values())]
    assert (names_in(match["tied"]) if match["tied"] else top[:1]) == top
    check_effects(match["a"], match["effects"], facts)


@reads(r"(?P<a>\w+) (?P<effects>(holds|is (weakened|badly)|mostly|collapses|has \d).+)\.")
def _single(match: re.Match[str], facts: Facts) -> None:
    assert list(facts.values.index) == [match["a"]]
    check_effects(match["a"], match["effects"], facts)


@reads(
    r"By (?P<by>.+?): (?P<claims>[^.]+)\. (?P<b>\w+) minus (?P<a>\w+): (?P<d>[+-]?[\d.]+) points of mIoU(?P<rest>.*)\."
)
def _order(match: re.Match[str], facts: Facts) -> None:
    difference = facts.score(match["b"], match["by"]) - facts.score(match["a"], match["by"])
    assert float(match["d"]) == pytest.approx(100 * difference, abs=0.051)
    said: list[str] = []
    for claim in match["claims"].split("; "):
        found = re.fullmatch(r"(\w+) (is better than|cannot be told apart from) (.+)", claim)
        assert found, claim
        for other in names_in(found[3]):
            assert (found[2] == "is better than") == ((found[1], other) in facts.better)
            said.append(other)
    assert sorted([match["a"], *said]) == sorted(
        model for model in facts.values.index if not math.isnan(facts.score(model, match["by"]))
    )
    if "both below 2 %" in match["rest"]:
        assert max(facts.score(match[side], match["by"]) for side in "ab") < 0.02
        return
    numbers = re.search(r" \((?P<low>[+-]?[\d.]+) to (?P<high>[+-]?[\d.]+)\)", match["rest"])
    p = re.search(r"(?P<sign>[<=]) (?P<p>[\d.]+)( With.*)?$", match["rest"])
    assert p, match["rest"]
    apart = (match["a"], match["b"]) in facts.better
    assert (float(p["p"]) < 0.05) == apart
    if numbers:
        assert (float(numbers["high"]) < 0 or float(numbers["low"]) > 0) == apart
        assert float(numbers["low"]) <= float(match["d"]) <= float(numbers["high"])


@reads(r"The order by (?P<by>.+?) was not tested: (?P<why>.+)\.")
def _not_tested(match: re.Match[str], facts: Facts) -> None:
    if match["why"].startswith("that takes 8 images, not "):
        assert int(match["why"].split()[-1]) == facts.scope.images < 8
    else:
        assert match["why"] == "no counts of the same images are kept"


@reads(
    r"The costliest of (?P<n>\d+) threats? is (?P<threat>.+?): (?P<who>.+?) loses? (on average )?(?P<loss>[-\d.]+) "
    r"points of mIoU\."
)
def _costliest(match: re.Match[str], facts: Facts) -> None:
    threats = [name for name, kind in facts.kinds.items() if kind != "clean"]
    assert int(match["n"]) == len(threats)
    losses = {name: (facts.values["clean"] - facts.values[name]).mean() for name in threats}
    assert losses[match["threat"]] == pytest.approx(max(losses.values()))
    assert float(match["loss"]) == pytest.approx(100 * losses[match["threat"]], abs=0.051)
    runs = int(facts.values[match["threat"]].notna().sum())
    numbers = [int(each) for each in re.findall(r"\d+", match["who"])]
    assert not numbers or numbers[0] in (runs, len(facts.values)), match["who"]


@reads(r"Under (?P<threat>.+?)( and (?P<more>\d+) more)? (every model falls|the model falls) below 2 % mIoU: .+")
def _at_floor(match: re.Match[str], facts: Facts) -> None:
    assert (facts.values[match["threat"]].dropna() < 0.02).all()


@reads(r"Kept of the clean mIoU, on average by kind of threat: (?P<parts>.+)\.")
def _kept_by_kind(match: re.Match[str], facts: Facts) -> None:
    for part in names_in(match["parts"]):
        found = re.fullmatch(r"(?P<kind>[a-z ]+) (?P<kept>[\d.]+) %", part)
        assert found, part
        names = [name for name, kind in facts.kinds.items() if kind == KIND_OF[found["kind"]]]
        ratios = [
            facts.kept(value, facts.clean(str(model)))
            for model, row in facts.values[names].iterrows()
            for value in row.dropna()
        ]
        assert float(found["kept"]) == pytest.approx(100 * np.nanmean(ratios), abs=0.051)


@reads(
    r"The class that suffers most is '(?P<most>\w+)' \((?P<m>[-\d.]+) points on average\), the one that suffers least "
    r"'(?P<least>\w+)' \((?P<l>[-\d.]+) points\)\."
)
def _classes(match: re.Match[str], facts: Facts) -> None:
    rows = facts.scope.frame
    rows = rows[rows["metric"].eq("IoU") & rows["class_name"].ne("") & rows["view"].eq("all")]
    wide = rows.pivot_table(index=["model", "class_name"], columns="threat", values="value")
    losses = -wide.drop(columns="clean").sub(wide["clean"], axis="index").stack()
    means = losses.groupby("class_name").mean()
    assert (match["most"], match["least"]) == (means.idxmax(), means.idxmin())
    assert [float(match[side]) for side in "ml"] == pytest.approx([100 * means.max(), 100 * means.min()], abs=0.051)


@reads(r"On (?P<n>\d+) images? a figure is known to about ±(?P<width>[\d.]+) points(: run more .+|\.)")
def _sure(match: re.Match[str], facts: Facts) -> None:
    rows = facts.scope.frame
    rows = rows[rows["metric"].eq("mIoU") & rows["class_name"].eq("") & rows["view"].eq("all")]
    assert int(match["n"]) == facts.scope.images >= 8
    widths = ((rows["high"] - rows["low"]) / 2).dropna()
    assert float(match["width"]) == pytest.approx(100 * widths.median(), abs=0.051)


@reads(r"Left out: .+")
def _left_out(match: re.Match[str], facts: Facts) -> None:
    assert "version" in match[0]


@reads(
    r"(Clean mIoU (?P<clean>[\d.]+) %|No clean figure)( \('(?P<name>\w+)' everywhere has (?P<floor>[\d.]+) "
    r"%\))?; it (?P<effects>.+)\."
)
def _card(match: re.Match[str], facts: Facts) -> None:
    pytest.fail("cards are read with the name of their model")


def read_card(model: str, text: str, facts: Facts) -> None:
    match = next(match for pattern, reader in READERS if reader is _card and (match := pattern.fullmatch(text)))
    assert float(match["clean"]) == pytest.approx(100 * facts.clean(model), abs=0.051)
    if match["floor"]:
        assert float(match["floor"]) == pytest.approx(100 * facts.trivial, abs=0.051)
    check_effects(model, match["effects"], facts)


def check_leaderboard(table: Table, facts: Facts) -> None:
    """The caption describes its table, and ranks follow the figures of the column that ranks."""
    found = re.fullmatch(
        r"mIoU in per cent on (\d+) images?\.( The best of every column is bold\.)?"
        r"( Ranges are 95 % intervals over images\.)?(.*)",
        table.caption,
    )
    assert found, table.caption
    assert int(found[1]) == facts.scope.images
    assert bool(found[2]) == bool(best_cells(table))
    ranged = [cell for row in table.rows for cell in row if isinstance(cell, Interval) and not math.isnan(cell.low)]
    assert bool(found[3]) == bool(ranged)
    by = table.title.removeprefix("By ")
    for row in table.rows:
        score = facts.score(str(row[0]), by)
        higher = sum(facts.score(str(other[0]), by) > score for other in table.rows)
        assert row[1] == (None if math.isnan(score) else 1 + higher)


def check_gaps(section: Section, facts: Facts) -> None:
    """Kinds of threats that a sentence leaves out were run strongly enough; those it names were not."""
    strong = {
        "clean images": "clean",
        "white-box attacks, linf": PGD.name,
        "batteries of attacks": HALMOSI.name,
    }
    (bullets,) = of_type(section, Bullets)
    assert [item.split(": ")[0] for item in bullets.items] == [str(row) for row in _in_order(section)]
    for item in bullets.items:
        model, missing = item.removesuffix(".").split(": ", 1)
        for kind, threat in strong.items():
            run = threat in facts.values and not math.isnan(facts.figure(model, threat))
            assert run == (kind not in missing), item
        if WEAK.name in facts.values:
            assert "white-box attacks, linf (too weak)" in missing
            assert "attacks in a region," in missing


def _in_order(section: Section) -> list[str]:
    (table,) = of_type(section, Table)
    return [column.name for column in table.columns[3:-1]]


def section(part: Part, title: str) -> Section:
    return next(each for each in part.sections if each.title == title)


@pytest.fixture(scope="module", params=CASES)
def filled(request: pytest.FixtureRequest) -> Iterator[tuple[Case, Store, Document]]:
    case = CASES[request.param]
    with Store() as store:
        case.fill(store)
        yield case, store, build_report(store)


def test_every_sentence_says_what_the_numbers_say(filled: tuple[Case, Store, Document]) -> None:
    case, store, document = filled
    cut = {scope.id: with_trivial(scope, read_scope_images(store, scope)) for scope in scopes(store.frame())}
    assert len(document.parts) == len(case.headlines)
    for part, headline in zip(document.parts, case.headlines, strict=True):
        facts = Facts(cut[part.id], case.better.get(cut[part.id].dataset, set()))
        summary = section(part, "Summary")
        texts = [text.text for text in of_type(summary, Text)]
        assert headline in texts[0]
        for sentence in texts:
            if sentence != GRADES_IN_WORDS:
                read(sentence, facts)
        for bullets in of_type(summary, Bullets):
            for sentence in bullets.items:
                read(sentence, facts)
        for cards in of_type(summary, Verdicts):
            for card in cards.items:
                read_card(card.model, card.text, facts)
        (board, *_) = of_type(section(part, "Leaderboard"), Table)
        check_leaderboard(board, facts)
        check_gaps(section(part, "What was not tested"), facts)


def test_report_card_leaderboard_and_comparison_say_the_same_of_an_order(filled: tuple[Case, Store, Document]) -> None:
    _, store, document = filled
    said = [
        sentence
        for part in document.parts
        for bullets in of_type(section(part, "Summary"), Bullets)
        for sentence in bullets.items
        if sentence.startswith(("By ", "The order by "))
    ]
    assert sorted(each for each in store_orders(store).values() if each) == sorted(said)
    models = sorted(set(store.frame()["model"]))
    card = card_text(store, models[0], card_data(store, models[0]))
    plain = card.replace("\\", "")
    assert all(sentence in plain for sentence in said)
    if len(models) == 2:
        compared = compare_models(store, *models)
        assert all(each.order.sentence() in ("", *said) for each in compared)
        for each in compared:
            words = verdict(each)
            for difference in each.differences:
                outside = difference.change.low > 0 or difference.change.high < 0
                assert outside == (difference.verdict != "cannot be told apart")
            assert ("cannot be told apart" in words or "not tested" in words) or not any(
                difference.verdict == "cannot be told apart" for difference in each.differences
            )


def test_there_are_twelve_stores_and_more() -> None:
    assert len(CASES) >= 12
    assert len({case.fill for case in CASES.values()}) == len(CASES)


def test_a_model_of_which_all_is_of_older_versions_has_a_card() -> None:
    with Store() as store:
        add(store, "a", [(CLEAN, 0.9)], images=2)
        add(store, "b", [(CLEAN, 0.9)], images=2, version=2)
        assert "pipeline_tag" not in card_text(store, "a", card_data(store, "a"))

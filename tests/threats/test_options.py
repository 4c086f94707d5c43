"""What is known about an option stands once, with its field; names of threats follow from it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from gauntlet.threats import build_threat, build_threats
from gauntlet.threats.contract import known_options
from gauntlet.threats.options import PLAIN, STEPS, Option, merged, options_of
from gauntlet.threats.sweeps import as_written


@dataclass(frozen=True)
class Base:
    steps: int = field(default=20, metadata=STEPS.metadata)
    plain: str = "a"


@dataclass(frozen=True)
class Other(Base):
    steps: int = 50


class Model(BaseModel):
    severity: Annotated[int, Option(swept=True)] = 3
    plain: str = "a"


def test_dataclasses_and_pydantic_models_are_read_alike() -> None:
    assert options_of(Base) == {"steps": STEPS, "plain": Option()}
    assert options_of(Model) == {"severity": Option(swept=True), "plain": Option()}


def test_another_default_keeps_what_the_base_says() -> None:
    assert options_of(Other)["steps"] is STEPS


def test_of_two_options_with_one_name_the_one_that_is_always_named_wins() -> None:
    unusual, always = Option(swept=True), Option("always", swept=True)
    assert merged([{"rounds": unusual}, {"rounds": always}]) == {"rounds": always}
    assert merged([{"rounds": always}, {"rounds": unusual}]) == {"rounds": always}
    assert merged([{"rounds": PLAIN}, {"rounds": unusual}]) == {"rounds": unusual}


def test_what_can_be_swept_and_drawn() -> None:
    known = known_options()
    assert {name for name, option in known.items() if option.swept} == {
        "name", "epsilon", "alpha", "steps", "norm", "restarts", "samples", "severity", "ratio", "mode", "rounds",
        "threshold", "size", "patch", "position", "source_model", "sigma", "rank", "artifact", "control", "content",
        "draw", "place",
        "degrees", "dx", "dy", "factor", "slope", "k1", "k2", "turn", "tilt", "draws", "shift", "queries", "share",
    }  # fmt: skip
    assert {name for name, option in known.items() if option.axis} == {
        "severity", "epsilon", "ratio", "steps", "rounds", "sigma", "rank",
        "degrees", "factor", "slope", "k1", "k2", "turn", "tilt", "draws", "queries",
    }  # fmt: skip
    assert {name for name, option in known.items() if option.named == "never"} == {
        "ignore_index", "source_digest", "tau", "correction", "tolerated",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"name": "pgd"}, "pgd linf 8/255 x20"),
        ({"name": "pgd", "norm": "l2", "epsilon": 0.5}, "pgd l2 0.5 x20"),
        (
            {"name": "pgd", "alpha": 0.005, "samples": 3, "restarts": 2},
            "pgd linf 8/255 x20 alpha 0.005 restarts 2 samples 3",
        ),
        (
            {"name": "bim", "loss": "segpgd", "random_start": True, "rule": "sign"},
            "bim linf 8/255 x20 loss segpgd rule sign random_start True",
        ),
        ({"name": "pgd", "target": 1, "returns": "best"}, "pgd linf 8/255 x20 returns best to 1"),
        ({"name": "fgsm-ll", "epsilon": "2/255"}, "fgsm-ll linf 2/255 x1"),
        ({"name": "dag"}, "dag"),
        ({"name": "pdpgd", "threshold": 0.9}, "pdpgd x500 threshold 0.9"),
        ({"name": "pdpgd", "epsilon": "8/255"}, "pdpgd linf 8/255 x500"),
        (
            {"name": "tog-mislabeling", "towards": "ml", "confidence": 0.2},
            "tog-mislabeling linf 8/255 x10 towards ml confidence 0.2",
        ),
        (
            {"name": "bim", "region": {"square": {"size": "quarter", "position": "centre"}}},
            "bim linf 8/255 x20 in square quarter centre",
        ),
    ],
)
def test_names_are_what_they_have_always_been(options: dict[str, Any], name: str) -> None:
    assert build_threat({"attack": options}).name == name


def test_what_used_to_be_left_out_of_a_name_is_in_it() -> None:
    def name(**options: Any) -> str:
        return build_threat({"attack": {"name": "pgd", **options}}).name.removeprefix("pgd linf 8/255 x20 ")

    assert name(labels="prediction") == "labels prediction"
    assert name(fooling_region=3, target=1) == "to 1 aimed at 3"
    assert name(fooling_region={"class": 3}) == "aimed at class 3"
    assert name(fooling_region={"square": {"size": 32}}) == "aimed at square 32"
    assert name(class_weights=[1, 2]) == "class_weights [1.0, 2.0]"
    assert build_threat({"attack": {"name": "pdpgd", "norm": "l2"}}).name == "pdpgd l2 x500"
    assert build_threat({"attack": {"name": "fgsm-nth", "rank": 3}}).name == "fgsm-nth linf 8/255 x1 rank 3"


SIZES = st.sampled_from([8, 16, "quarter", {"height": 8, "width": 16}, {"height": 16, "width": 8}])
MASKS = st.one_of(
    st.fixed_dictionaries(
        {
            "square": st.fixed_dictionaries(
                {"size": SIZES}, optional={"position": st.sampled_from(["centre", "top-left"])}
            )
        }
    ),
    st.fixed_dictionaries({"box": st.just([0, 0, 8, 8]) | st.just([0, 0, 8, 9])}),
    st.fixed_dictionaries(
        {
            "patches": st.fixed_dictionaries(
                {"patch": SIZES, "ratio": st.sampled_from([0.25, 0.5])}, optional={"mode": st.just("exact")}
            )
        }
    ),
)
AIMS = MASKS | st.sampled_from([1, 2, {"class": 1}, {"class": 2}])
TARGETS = st.sampled_from([1, 2, "least-likely", {"rank": 2}, {"rank": 3}, {"permutation": [1, 0]}, [0, 1]])
NUMBERS = st.sampled_from(["1/255", "2/255", 0.01, 0.005, 0.25])
SHARED: dict[str, st.SearchStrategy[Any]] = {
    "norm": st.sampled_from(["linf", "l2"]),
    "epsilon": NUMBERS,
    "alpha": NUMBERS,
    "steps": st.sampled_from([1, 5, 20]),
    "samples": st.sampled_from([1, 2]),
    "precision": st.sampled_from(["fp32", "bf16"]),
    "threshold": st.sampled_from([0.5, 0.9, 0.99]),
    "target": TARGETS,
    "region": MASKS,
    "fooling_region": AIMS,
}
BALL = {
    "random_start": st.booleans(),
    "noise": st.sampled_from(["uniform", "scaled"]),
    "restarts": st.sampled_from([1, 2]),
    "returns": st.sampled_from(["last", "best"]),
    "loss": st.sampled_from(["ce", "segpgd", "cospgd"]),
    "class_weights": st.sampled_from([[1, 2], [2, 1]]),
    "box": st.booleans(),
}
GRADIENT = {
    **BALL,
    "rule": st.sampled_from(["steepest", "sign", "raw"]),
    "reduction": st.sampled_from(["sum", "mean"]),
    "evaluate_last": st.booleans(),
    "labels": st.sampled_from(["truth", "prediction"]),
}
MINIMUM = {"clip": st.sampled_from(["elementwise", "rescale"])}
LINF = {"norm": st.just("linf")}
OWN: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "pgd": GRADIENT,
    "bim": GRADIENT,
    "fgsm": {**GRADIENT, "steps": st.just(1)},
    "fgsm-nth": {**GRADIENT, "rank": st.sampled_from([1, 2, 3])},
    "ifgsm": {**GRADIENT, "iteration_rule": st.sampled_from(["paper", "kurakin"])},
    "ifgsm-ll": {**GRADIENT, "moving_target": st.just(True), "target": st.just("least-likely")},
    "mifgsm": GRADIENT,
    "apgd": BALL,
    "sea-jsd": {**BALL, "radius": st.sampled_from(["reduction", "fixed"])},
    "apgd-jsd": {
        **BALL,
        "radius": st.sampled_from(["reduction", "fixed", "wave"]),
        "returns": st.sampled_from(["best", "best-miou"]),
        "first_step": st.sampled_from([0.5, 2]),
        "warm_start": st.sampled_from(["accuracy", "miou"]),
        "worth_from": st.sampled_from([0, 0.01]),
    },
    "alma-prox": {**MINIMUM, **LINF, "penalty_grad": st.sampled_from(["exact", "reference"])},
    "dag": {**MINIMUM, "on_fail": st.sampled_from(["last", "clean"]), "strong": st.booleans()},
    "fmn": {**MINIMUM, "gamma": NUMBERS, "last_gamma": NUMBERS, "pixels": st.sampled_from(["open", "all"])},
    "pdpgd": MINIMUM,
    "pdgd": MINIMUM,
    "minimal-pgd": {**MINIMUM, "rounds": st.sampled_from([3, 13]), "largest": NUMBERS, "loss": BALL["loss"]},
    "tog-untargeted": {**GRADIENT, "goal": st.sampled_from(["untargeted", "vanishing"]), "confidence": NUMBERS},
    "tog-mislabeling": {**GRADIENT, "towards": st.sampled_from(["ll", "ml"]), "confidence": NUMBERS},
}
APGD = ("apgd", "sea-jsd", "apgd-jsd")


NAMES = st.sampled_from(sorted(OWN))


@st.composite
def attacks_with_options(draw: st.DrawFn, names: st.SearchStrategy[str] = NAMES) -> dict[str, Any]:
    name = draw(names)
    known = {**SHARED, **OWN[name]}
    if name in APGD:
        del known["alpha"]
    chosen = draw(st.lists(st.sampled_from(sorted(known)), max_size=4, unique=True))
    return {"name": name, **{key: draw(known[key]) for key in chosen}}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two descriptions of one attack that mostly differ in little."""
    one = draw(attacks_with_options())
    other = draw(attacks_with_options(st.just(one["name"])))
    keep = draw(st.sets(st.sampled_from(sorted(one))))
    return one, {**other, **{key: one[key] for key in keep}}


def assert_told_apart(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Names are equal exactly where descriptions are."""
    first, second = build_threat(one), build_threat(other)
    same = json.dumps(first.describe(), sort_keys=True) == json.dumps(second.describe(), sort_keys=True)
    assert (first.name == second.name) == same, (first.name, second.name)


@settings(deadline=None, max_examples=60)
@given(pairs())
def test_attacks_of_different_description_have_different_names(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_told_apart({"attack": pair[0]}, {"attack": pair[1]})


def test_the_ignore_index_is_not_named() -> None:
    first, second = (build_threat({"attack": {"name": "pgd", "ignore_index": index}}) for index in (0, 255))
    assert first.describe() != second.describe()
    assert first.name == second.name


@settings(deadline=None, max_examples=75)
@given(pairs(), st.sampled_from([1, 2]), st.sampled_from([1, 2]), st.booleans(), st.booleans(), MASKS, MASKS)
def test_rounds_of_different_description_have_different_names(
    pair: tuple[dict[str, Any], dict[str, Any]],
    rounds: int,
    other_rounds: int,
    literal: bool,
    other_literal: bool,
    region: dict[str, Any],
    other_region: dict[str, Any],
) -> None:
    assert_told_apart(
        {"region_aware": {"attack": pair[0], "rounds": rounds, "literal": literal, "region": region}},
        {"region_aware": {"attack": pair[1], "rounds": other_rounds, "literal": other_literal, "region": other_region}},
    )


CORRUPTIONS = st.one_of(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["fog", "snow"])},
        optional={
            "severity": st.integers(1, 5),
            "stream": st.sampled_from(["fast", "legacy"]),
            "channels": st.sampled_from(["rgb", "bgr"]),
        },
    ),
    st.fixed_dictionaries(
        {"name": st.just("fog_3d")}, optional={"depth_rule": st.sampled_from(["metric", "estimated"])}
    ),
    st.fixed_dictionaries({"name": st.just("frost")}, optional={"frost_textures": st.sampled_from(["/a", "/b"])}),
)
GRIDS = st.fixed_dictionaries(
    {},
    optional={"ratio": st.sampled_from([0.25, 0.5]), "patch": SIZES, "mode": st.sampled_from(["bernoulli", "exact"])},
)


@settings(deadline=None, max_examples=75)
@given(CORRUPTIONS, CORRUPTIONS)
def test_corruptions_of_different_description_have_different_names(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert_told_apart({"corruption": one}, {"corruption": other})


PLACES = GRIDS | st.builds(lambda mask: {"region": mask}, MASKS)


@settings(deadline=None, max_examples=75)
@given(CORRUPTIONS, CORRUPTIONS, PLACES, PLACES)
def test_localized_threats_of_different_description_have_different_names(
    one: dict[str, Any], other: dict[str, Any], place: dict[str, Any], other_place: dict[str, Any]
) -> None:
    assert_told_apart({"localized": {"corruption": one, **place}}, {"localized": {"corruption": other, **other_place}})


BATTERY_OPTIONS = st.fixed_dictionaries(
    {"name": st.sampled_from(["semsegbench", "sea"])},
    optional={
        "epsilon": st.sampled_from(["2/255", "8/255"]),
        "budget": st.sampled_from([1, 0.5]),
        "steps": st.sampled_from([30, 60]),
        "norm": st.sampled_from(["linf", "l2"]),
        "region": MASKS,
        "together": st.booleans(),
        "skip": st.booleans(),
    },
)
OWN_MEMBERS = st.dictionaries(
    st.sampled_from(["a", "b"]), attacks_with_options(st.sampled_from(["pgd", "apgd"])), min_size=1
)
BATTERIES = BATTERY_OPTIONS | st.builds(lambda members: {"name": "sea", "members": members}, OWN_MEMBERS)


@settings(deadline=None, max_examples=75)
@given(BATTERIES, BATTERIES)
def test_batteries_of_different_description_have_different_names(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = build_threat({"battery": one}), build_threat({"battery": other})
    assume(first.describe() != second.describe())
    assert first.name != second.name


def test_names_of_batteries() -> None:
    def name(**options: Any) -> str:
        return build_threat({"battery": options}).name

    assert name(name="sea") == "battery sea 8/255"
    assert name(name="sea", epsilon="4/255", budget=0.01) == "battery sea 4/255 budget 0.01"
    assert name(name="sea", steps=3, skip=False) == "battery sea 8/255 x3 without skipping"
    assert name(name="sea", norm="l2", region={"square": {"size": {"height": 8, "width": 9}}}) == (
        "battery sea 8/255 l2 in square [8, 9]"
    )
    stored = build_threat({"battery": {"name": "halmosi", "epsilon": "4/255"}}).describe()["battery"]
    assert name(**stored) == "battery halmosi 4/255"


@pytest.mark.parametrize(
    "description",
    [
        {"localized": {"corruption": {"name": "fog"}, "patch": {"height": 8, "width": 16}}},
        {"localized": {"corruption": {"name": "fog"}, "region": {"square": {"size": {"height": 8, "width": 16}}}}},
        {"attack": {"name": "pgd", "region": {"square": {"size": {"height": 8, "width": 16}}}}},
        {"attack": {"name": "pgd", "fooling_region": {"square": {"size": {"height": 8, "width": 16}}}}},
        {"region_aware": {"region": {"patches": {"patch": {"height": 8, "width": 16}, "ratio": 0.5}}}},
        {"battery": {"name": "sea", "epsilon": "4/255"}},
    ],
    ids=str,
)
def test_what_is_written_for_a_stored_description_is_that_one_threat(description: dict[str, Any]) -> None:
    threat = build_threat(description)
    (again,) = build_threats(as_written(threat.describe()))
    assert again.describe() == threat.describe()

"""Every attack has a typed function with its options and defaults, and the function does what `build` does."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from attack_fixture import IMAGES, LABELS, network

from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.threats import attacks
from gauntlet.threats.attacks import call_arguments
from gauntlet.threats.attacks.registration import Preset

BATCH = ["model", "images", "labels"]
BY_NAME = {"name", "goal"}
"""Options that the name of a function fixes."""
OTHER_NAMES = {"labels": "labels_from"}
"""`labels` is the ground truth in a call, so that the option of this name has another one."""
PRESETS = [name for name in attacks.names() if isinstance(attacks.attacks[name], Preset)]


def function(name: str) -> Any:
    return getattr(attacks, name.replace("-", "_"))


def shared(name: str) -> dict[str, Any]:
    """The arguments that a function takes as `**more` with their types: the keys of a TypedDict of `call_arguments`."""
    annotation = inspect.signature(function(name)).parameters["more"].annotation
    return get_type_hints(getattr(call_arguments, annotation.removeprefix("Unpack[").removesuffix("]")))


def budget(name: str) -> dict[str, Any]:
    """The defaults of the options in a function's signature."""
    parameters = list(inspect.signature(function(name)).parameters.values())
    assert [each.name for each in parameters[:3]] == BATCH
    assert [each.name for each in parameters[-1:]] == ["more"]
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in parameters[3:-1])
    return {each.name: each.default for each in parameters[3:-1]}


@pytest.mark.parametrize("name", [*attacks.names(), *attacks.batteries()])
def test_every_name_has_a_function_that_says_what_it_is(name: str) -> None:
    assert inspect.isfunction(function(name))
    assert function(name).__name__ in attacks.__all__
    assert function(name).__doc__.rstrip().endswith(".")
    assert {"target", "region", "fooling_region", "seed"} <= set(shared(name))


@pytest.mark.parametrize("name", PRESETS)
def test_options_and_defaults_are_those_of_the_attack(name: str) -> None:
    preset = attacks.attacks[name]
    assert isinstance(preset, Preset)
    defaults = {each.name: preset.defaults.get(each.name, each.default) for each in fields(preset.kind)}
    options = {OTHER_NAMES.get(key, key): value for key, value in defaults.items() if key not in BY_NAME}
    in_signature = budget(name)
    assert in_signature == {key: options[key] for key in ("epsilon", "steps", "queries") if key in options}
    assert len(in_signature) == 2
    assert set(in_signature) | set(shared(name)) == set(options) | {"seed", "start"}
    assert not set(in_signature) & set(shared(name))
    assert attacks.build(name, **in_signature).describe() == attacks.build(name).describe()


ONE_NORM = {"alma-prox": "linf", "label-only": "linf"}
"""Attacks that are defined for one norm only; they refuse the other with a message of their own."""


@pytest.mark.parametrize("name", PRESETS)
def test_the_words_that_a_type_lists_are_those_that_the_attack_takes(name: str) -> None:
    original = {new: old for old, new in OTHER_NAMES.items()}
    for key, kind in shared(name).items():
        if get_origin(kind) is not Literal:
            continue
        words = [word for word in get_args(kind) if key != "norm" or ONE_NORM.get(name, word) == word]
        for word in words:
            described = attacks.build(name, **{original.get(key, key): word}).describe()
            assert described[original.get(key, key)] == word
        with pytest.raises(GauntletError, match="none-of-these"):
            attacks.build(name, **{original.get(key, key): "none-of-these"})


def test_options_of_the_region_aware_rounds() -> None:
    made = inspect.signature(attacks.RegionAware).parameters
    expected = {key for key in made if key != "options"}
    assert budget("region-aware") == {"attack": made["attack"].default}
    assert {"attack", *shared("region-aware")} == expected | set(get_type_hints(call_arguments.Call))


@pytest.mark.parametrize("name", attacks.batteries())
def test_options_of_batteries(name: str) -> None:
    made = inspect.signature(attacks.build_battery).parameters
    expected = {key: each.default for key, each in made.items() if key not in ("name", "members", "options")}
    assert budget(name) == {key: expected[key] for key in ("epsilon", "budget")}
    assert {*budget(name), *shared(name)} == set(expected) | set(get_type_hints(call_arguments.Call))


@pytest.mark.parametrize(
    ("name", "options", "call"),
    [
        ("pgd", {"epsilon": "8/255", "steps": 3}, {"seed": [4, 5]}),
        ("fgsm-ll", {}, {"region": {"square": {"size": 8}}}),
        ("ifgsm", {"epsilon": "2/255"}, {}),
        ("cospgd", {"steps": 3, "norm": "l2"}, {"target": 0, "seed": 1}),
        ("mifgsm", {"steps": 3}, {"fooling_region": 2}),
        ("apgd", {"steps": 8}, {"start": 1 - IMAGES}),
        ("sea-mce-bal", {"steps": 10, "class_weights": [1, 2, 3, 4, 5]}, {}),
        ("dag", {"steps": 3, "epsilon": "4/255"}, {}),
        ("minimal-pgd", {"steps": 10, "rounds": 3, "threshold": 0.5}, {}),
        ("square", {"queries": 5, "norm": "l2"}, {"start": 1 - IMAGES}),
        ("label-only", {"queries": 5, "epsilon": "16/255"}, {"seed": 2}),
        ("region-aware", {"rounds": 2, "attack": {"name": "bim", "steps": 2}}, {"seed": 1}),
        ("semsegbench", {"budget": 0.1}, {"seed": 3}),
    ],
)
def test_a_function_does_what_build_does(name: str, options: dict[str, Any], call: dict[str, Any]) -> None:
    built = attacks.build(name, **options)(network, IMAGES, LABELS, **call)
    called = function(name)(network, IMAGES, LABELS, **options, **call)
    assert torch.equal(called.images, built.images)
    assert torch.equal(called.queries.forward, built.queries.forward)
    assert not torch.equal(called.images, IMAGES)


def test_the_option_labels_is_reached_by_its_other_name() -> None:
    wrong = (LABELS + 1) % 5
    built = attacks.build("bim", steps=2, labels="prediction")(network, IMAGES, wrong)
    assert torch.equal(attacks.bim(network, IMAGES, wrong, steps=2, labels_from="prediction").images, built.images)
    assert not torch.equal(attacks.bim(network, IMAGES, wrong, steps=2).images, built.images)


def test_a_misspelt_option_is_named() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'epsilon'"):
        attacks.pgd(network, IMAGES, LABELS, epsilonn=1)  # type: ignore[call-arg]


def test_an_attack_on_boxes_refuses_pixels() -> None:
    with pytest.raises(ValueError, match="aims at boxes"):
        attacks.tog_vanishing(network, IMAGES, LABELS)

"""Bad input gets one sentence that says what was expected; every option is checked when the attack is built."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from attack_fixture import IMAGES, LABELS, network

from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.threats.attacks import attacks, batteries, build, names

REQUIRED = (
    "fgsm fgsm-ll bim ifgsm-ll pgd segpgd cospgd apgd padam-ce padam-cos sea-bce sea-mce sea-jsd sea-msl alma-prox dag "
    "pdpgd fmn region-aware"
)


def test_registered_names() -> None:
    assert set(REQUIRED.split()) <= set(names())
    assert {"sea", "halmosi", "semsegbench"} <= set(batteries())


@pytest.mark.parametrize("error", [TypeError, KeyError, ValueError, GauntletError])
def test_an_attack_that_needs_options_is_listed_for_pixels(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def picky(**options: Any) -> Any:
        raise error("the option 'direction' is missing.")

    monkeypatch.setitem(attacks._entries, "picky", picky)
    assert {"pgd", "picky"} <= set(names("segmentation"))
    assert "pgd" in names("detection")
    assert "picky" not in names("detection")


@pytest.mark.parametrize("name", names())
def test_descriptions_are_complete_and_canonical(name: str) -> None:
    attack = build(name)
    description = attack.describe()
    assert json.loads(json.dumps(description)) == description
    assert description["name"] == name
    assert build(**description).describe() == description
    assert isinstance(attack.version, int)


def test_equal_options_have_equal_descriptions() -> None:
    assert build("fgsm", epsilon="8/255").describe() == build("fgsm", epsilon=8 / 255, alpha="8/255").describe()
    assert build("dag", gamma=0.003).describe() == build("dag", alpha=0.003).describe()
    assert build("pgd", loss="bce").describe()["loss"] == "segpgd"
    assert build("pgd", epsilon=None, steps=None).describe() == build("pgd").describe()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pgd", {"epsilon": -0.1}, "epsilon must not be negative"),
        ("pgd", {"epsilon": 8}, "epsilon must lie in"),
        ("pgd", {"epsilon": "eight"}, "epsilon must be a number"),
        ("pgd", {"alpha": 0}, "alpha must be positive"),
        ("apgd", {"steps": 0}, "steps must be a whole number of at least 1"),
        ("pgd", {"steps": 2.5}, "steps must be a whole number"),
        ("dag", {"steps": 0}, "steps must be a whole number of at least 1"),
        ("dag", {"alpha": 0}, "alpha must be positive"),
        ("dag", {"threshold": 1.5}, "threshold must lie in"),
        ("pgd", {"restarts": 0}, "restarts must be a whole number of at least 1"),
        ("pgd", {"norm": "l1"}, "norm 'l1'"),
        ("pgd", {"returns": "first"}, "returned iterate 'first'"),
        ("pgd", {"loss": "cospdg"}, "did you mean 'cospgd'"),
        ("pgd", {"epsilonn": 1}, "did you mean 'epsilon'"),
        ("pgd", {"precision": "fp16"}, "precision 'fp16'"),
        ("pgd", {"samples": 0}, "samples must be"),
        ("pgd", {"class_weights": [0, 0]}, "class_weights must be"),
        ("pgd", {"ignore_index": "void"}, "ignore_index must be"),
        ("pgd", {"target": "most-likely"}, "target must be"),
        ("pgd", {"target": -2}, "target must be"),
        ("fgsm", {"target": [{"rank": 2}, {"rank": 3}]}, "target must be"),
        ("fgsm", {"target": ["a"]}, "target must be"),
        ("fgsm", {"target": [0, 1.5]}, "target must be"),
        ("fgsm", {"target": {"permutation": "10"}}, "target must be"),
        ("fgsm", {"target": {"permutation": 3}}, "target must be"),
        ("fgsm", {"target": {"rank": True}}, "target must be"),
        ("pgd", {"region": {"circle": 3}}, "unknown mask 'circle'"),
        ("pgd", {"region": "centre"}, "region as an option"),
        ("fgsm-nth", {"rank": 0}, "rank must be"),
        ("alma-prox", {"norm": "l2"}, "norm of alma-prox"),
        ("dag", {"random_start": True}, "always has random_start=False"),
        ("dag", {"clip": "both"}, "clip 'both'"),
        ("sea-jsd", {"radius": "growing"}, "radius 'growing'"),
        ("ifgsm", {"iteration_rule": "x"}, "iteration rule"),
        ("region-aware", {"rounds": 0}, "rounds must be"),
        ("region-aware", {"attack": "region-aware"}, "inside region-aware"),
        ("region-aware", {"attack": "pdg"}, "did you mean"),
        ("halmosi", {"budget": 0}, "budget must be positive"),
        ("halmosi", {"epsilon": 2}, "epsilon must lie in"),
        ("halmosi", {"table": "no"}, "table of a battery must be true or false, not 'no'"),
        ("halmosi", {"skip": 0}, "skip of a battery must be true or false, not 0"),
        ("semsegbench", {"gamma": 1}, "option of the attack 'pgd'"),
        ("mine", {"members": {"a": {}}}, "needs the name of an attack"),
        ("pdg", {}, "did you mean"),
    ],
)
def test_bad_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(GauntletError, match=message) as error:
        build(name, **options)
    assert "\n" not in str(error.value)


def test_unknown_attack_is_its_own_error() -> None:
    with pytest.raises(UnknownNameError, match="segpgd"):
        build("segpdg")


BAD_CALLS: list[tuple[dict[str, Any], str]] = [
    ({"images": IMAGES * 255}, "divide 8-bit images by 255"),
    ({"images": torch.full_like(IMAGES, float("nan"))}, "images must lie in"),
    ({"images": (IMAGES * 255).to(torch.uint8)}, "float32 or float64"),
    ({"images": IMAGES[0]}, r"shape \(N, 3, H, W\)"),
    ({"images": IMAGES[:, :2]}, r"shape \(N, 3, H, W\)"),
    ({"labels": LABELS[:, :8]}, "labels must be integers of shape"),
    ({"labels": LABELS.double()}, "labels must be integers"),
    ({"labels": torch.full_like(LABELS, 7)}, "a label is 7"),
    ({"labels": torch.full_like(LABELS, -3)}, "a label is -3"),
    ({"target": 5}, "5 classes"),
    ({"target": [0, 1]}, "permutation"),
    ({"target": torch.zeros(3, 3, dtype=torch.int64)}, "the target map has the shape"),
    ({"target": {"rank": 6}}, "rank of the target is 6"),
    ({"region": torch.ones(3, 3)}, "region has the shape"),
    ({"region": torch.full((16, 16), 0.5)}, "zeros and ones"),
    ({"region": {"square": {"size": 40}}}, "does not fit"),
    ({"seed": [1, 2, 3]}, "3 seeds were given for 2 images"),
    ({"start": IMAGES[:1]}, "start has the shape"),
    ({"model": lambda images: network(images)[:, :, ::2]}, "the model returned logits of shape"),
    ({"model": lambda images: network(images)[:1]}, "the model returned logits of shape"),
    ({"model": lambda images: {"out": network(images)}}, "the model returned a dict"),
    ({"model": lambda images: network(images.detach())}, "no gradient"),
    ({"model": lambda images: network(images) / 0 * 0}, "NaN"),
]


@pytest.mark.parametrize(("change", "message"), BAD_CALLS)
def test_bad_calls(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"model": network, "images": IMAGES, "labels": LABELS, **change}
    with pytest.raises(GauntletError, match=message) as error:
        build("bim", steps=2)(**arguments)
    assert "\n" not in str(error.value)


def test_labels_are_checked_against_what_the_model_states() -> None:
    class Stated(torch.nn.Module):
        num_classes, ignore_index = 5, None

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return network(images)

    labels = LABELS.clone()
    labels[0, 0, 0] = 255
    with pytest.raises(GauntletError, match="a label is 255"):
        build("bim")(Stated(), IMAGES, labels)
    with pytest.raises(GauntletError, match="target class 9"):
        build("bim")(Stated(), IMAGES, LABELS, target=9)


def test_too_few_classes() -> None:
    def binary(images: torch.Tensor) -> torch.Tensor:
        return network(images)[:, :2]

    labels = LABELS.clamp(max=1)
    with pytest.raises(GauntletError, match="alma-prox needs a model of at least 3 classes"):
        build("alma-prox", steps=2)(binary, IMAGES, labels)
    with pytest.raises(GauntletError, match="needs at least 3 classes"):
        build("bim", loss="dlr", steps=2)(binary, IMAGES, labels)
    with pytest.raises(GauntletError, match="class_weights has 3 values for 2 classes"):
        build("sea-mce-bal", class_weights=[1, 1, 1], steps=3)(binary, IMAGES, labels)
    assert build("pdpgd", steps=3)(binary, IMAGES, labels).images.shape == IMAGES.shape


def test_targets() -> None:
    attack = build("bim", steps=6, epsilon=0.2, alpha=0.05)

    def at(target: Any) -> torch.Tensor:
        images: torch.Tensor = attack(network, IMAGES, LABELS, target=target).images
        return images

    assert torch.equal(at(0), at(torch.zeros(16, 16, dtype=torch.int64)))
    assert not torch.equal(at(0), attack(network, IMAGES, LABELS).images), "class 0 is a target like any other"
    order = [1, 2, 3, 4, 0]
    assert torch.equal(at(order), at(torch.tensor(order)[LABELS]))
    assert torch.equal(at(order), at({"permutation": order}))
    assert torch.equal(at(np.array(order)), at(order))
    assert torch.equal(at("least-likely"), at(network(IMAGES).argmin(1)))
    assert torch.equal(at({"rank": 5}), at("least-likely"))
    second = network(IMAGES).topk(2, dim=1).indices[:, 1]
    assert torch.equal(at({"rank": 2}), at(second))
    assert torch.equal(build("bim", steps=6, epsilon=0.2, alpha=0.05, target=0)(network, IMAGES, LABELS).images, at(0))


def test_a_target_map_may_leave_pixels_out() -> None:
    target = torch.zeros(16, 16, dtype=torch.int64)
    target[:8] = 255
    outcome = build("bim", steps=2)(network, IMAGES, LABELS, target=target)
    assert outcome.counted.tolist() == [128, 128]


def test_fooling_region_by_class() -> None:
    attack = build("bim", steps=3)
    first = attack(network, IMAGES, LABELS, fooling_region=2)
    assert first.counted.tolist() == (LABELS == 2).flatten(1).sum(1).tolist()
    assert torch.equal(first.images, attack(network, IMAGES, LABELS, fooling_region=LABELS == 2).images)
    assert torch.equal(first.images, attack(network, IMAGES, LABELS, fooling_region={"class": 2}).images)
    nowhere = attack(network, IMAGES, LABELS, fooling_region=torch.zeros(16, 16, dtype=torch.bool))
    assert torch.equal(nowhere.images, IMAGES)


def test_random_regions_follow_the_image_seed() -> None:
    attack = build("bim", steps=2, region={"patches": {"patch": 4, "ratio": 0.5}})
    outcome = attack(network, IMAGES, LABELS, seed=[1, 2])
    assert outcome.region is not None
    assert not torch.equal(outcome.region[0], outcome.region[1])
    alone = attack(network, IMAGES[1:], LABELS[1:], seed=[2])
    assert alone.region is not None
    assert torch.equal(alone.region[0], outcome.region[1])
    changed = (outcome.images != IMAGES).any(1)
    assert not (changed & ~outcome.region).any()

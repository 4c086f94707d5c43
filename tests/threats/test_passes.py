"""What a threat says it costs, against how often the model was really asked."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gauntlet
from gauntlet.models.wrapping import wrap_model
from gauntlet.samples import Batch, collate
from gauntlet.threats import Passes, Threat, build_threat
from gauntlet.threats.attacks import Outcome, attacks, build, build_battery
from gauntlet.threats.attacks.registration import names_without_gradient
from tiny import TinyDataset, tiny_network
from tiny_detector import TinyBoxes, TinyDetector

EXACT: list[dict[str, Any]] = [
    {"name": "fgsm"},
    {"name": "fgsm-ll"},
    {"name": "fgsm-nth"},
    {"name": "bim", "steps": 3},
    {"name": "ifgsm", "epsilon": "2/255"},
    {"name": "ifgsm-ll", "epsilon": "2/255"},
    {"name": "pgd", "steps": 4, "samples": 3},
    {"name": "pgd", "steps": 2, "target": 1},
    {"name": "pgd", "steps": 2, "target": {"rank": 2}},
    {"name": "segpgd", "steps": 3, "norm": "l2"},
    {"name": "cospgd", "steps": 3},
    {"name": "padam-ce", "steps": 3},
    {"name": "padam-cos", "steps": 3},
    {"name": "apgd", "steps": 5, "returns": "best-loss"},
    {"name": "apgd", "steps": 5, "returns": "last", "samples": 2},
    {"name": "sea-jsd", "steps": 10, "returns": "last"},
    {"name": "sea-mce", "steps": 2, "returns": "last"},
    {"name": "sea-mce-bal", "steps": 2, "returns": "last"},
    {"name": "sea-mce", "steps": 10, "returns": "last", "radius": "fixed"},
    {"name": "apgd-jsd", "steps": 10, "returns": "last", "radius": "wave"},
    {"name": "alma-prox", "steps": 4},
    {"name": "fmn", "steps": 4},
    {"name": "pdpgd", "steps": 4, "samples": 2},
    {"name": "pdgd", "steps": 4, "target": "least-likely"},
]
# Images that are not won entirely go the whole way: with next to no budget the bound is reached.
REACHED: list[dict[str, Any]] = [
    {"name": "mifgsm", "steps": 3, "epsilon": 1e-6},
    {"name": "pgd", "steps": 3, "epsilon": 1e-6, "restarts": 3},
    {"name": "pgd", "steps": 3, "epsilon": 1e-6, "restarts": 2, "returns": "best"},
    {"name": "pgd", "steps": 3, "epsilon": 1e-6, "returns": "best", "evaluate_last": False},
    {"name": "apgd", "steps": 5, "epsilon": 1e-6},
    {"name": "apgd", "steps": 5, "epsilon": 1e-6, "restarts": 2, "returns": "last"},
    {"name": "sea-bce", "steps": 20, "epsilon": 1e-6},
    {"name": "apgd-jsd", "steps": 6, "epsilon": 1e-6, "returns": "best-miou", "restarts": 2},
    {"name": "dag", "steps": 3, "alpha": 1e-6},
    {"name": "square", "queries": 5, "epsilon": 1e-6, "restarts": 2},
    {"name": "label-only", "queries": 6, "epsilon": 1e-6},
    {"name": "minimal-pgd", "steps": 2, "rounds": 3, "largest": 1e-6},
]
EASY = {"box": [4, 4, 5, 6]}  # two pixels, which are soon won
STRONG: list[dict[str, Any]] = [
    {"name": "mifgsm", "steps": 12, "epsilon": 1, "alpha": 0.2, "fooling_region": EASY},
    {"name": "pgd", "steps": 12, "epsilon": 1, "alpha": 0.2, "restarts": 3, "fooling_region": EASY},
    {"name": "apgd", "steps": 12, "epsilon": 1, "fooling_region": EASY},
    {"name": "sea-msl", "steps": 12, "epsilon": 1, "fooling_region": EASY},
    {"name": "dag", "alpha": 0.2, "fooling_region": EASY},
    {"name": "minimal-pgd", "steps": 4, "rounds": 4, "alpha": 0.5, "fooling_region": EASY},
]
ON_DETECTORS: list[dict[str, Any]] = [
    {"name": "fgsm"},
    {"name": "bim", "steps": 12},
    {"name": "pgd", "steps": 3, "target": 1},
    {"name": "apgd", "steps": 12, "returns": "best-loss"},
    {"name": "padam-ce", "steps": 3},
    {"name": "tog-untargeted", "steps": 3},
    {"name": "tog-vanishing", "steps": 3},
    {"name": "tog-fabrication", "steps": 3},
    {"name": "tog-mislabeling", "steps": 3},
    {"name": "tog-mislabeling", "steps": 3, "target": 1},
]
REACHED_ON_DETECTORS: list[dict[str, Any]] = [
    {"name": "pgd", "steps": 21, "epsilon": 1e-6, "returns": "best"},
    {"name": "pgd", "steps": 20, "epsilon": 1e-6, "returns": "best", "restarts": 2},
    {"name": "pgd", "steps": 3, "epsilon": 1e-6, "restarts": 2},
    {"name": "apgd", "steps": 12, "epsilon": 1e-6},
    {"name": "apgd", "steps": 20, "epsilon": 1e-6},
    {"name": "square", "queries": 5, "epsilon": 1e-6},
    {"name": "square", "queries": 5, "epsilon": 1e-6, "loss": "accuracy"},
    {"name": "dag", "steps": 3, "alpha": 1e-6},
]


def batch(dataset: Any, count: int = 2) -> Batch:
    return collate([dataset[index] for index in range(count)], ignore_index=dataset.ignore_index)


PIXELS, OBJECTS = batch(TinyDataset()), batch(TinyBoxes(2))


def on_pixels(options: dict[str, Any]) -> Outcome:
    labels = PIXELS.labels
    assert labels is not None
    outcome: Outcome = build(**options)(tiny_network(), PIXELS.images, labels)
    return outcome


def on_objects(options: dict[str, Any]) -> Outcome:
    outcome: Outcome = build(**options)(TinyDetector(), OBJECTS.images, OBJECTS.boxes)
    return outcome


def asked(outcome: Any) -> list[Passes]:
    queries = outcome.queries
    return [Passes(*each) for each in zip(queries.forward.tolist(), queries.backward.tolist(), strict=True)]


@pytest.mark.parametrize("options", [*EXACT, *REACHED], ids=str)
def test_an_attack_without_early_stop_asks_as_often_as_it_says(options: dict[str, Any]) -> None:
    assert asked(on_pixels(options)) == [build(**options).passes()] * 2


@pytest.mark.parametrize("options", [*ON_DETECTORS, *REACHED_ON_DETECTORS], ids=str)
def test_an_attack_on_a_detector_asks_as_often_as_it_says(options: dict[str, Any]) -> None:
    assert asked(on_objects(options)) == [build(**options).passes("detection")] * 2


@pytest.mark.parametrize("options", STRONG, ids=str)
def test_an_attack_that_stops_early_asks_less(options: dict[str, Any]) -> None:
    most = build(**options).passes()
    made = asked(on_pixels(options))
    assert all(each.forward <= most.forward and each.backward <= most.backward for each in made)
    assert any(each.backward < most.backward for each in made)


def test_every_attack_says_what_it_costs() -> None:
    costs = {name: attacks[name]().passes() for name in attacks.names()}
    asking = {name for name, each in costs.items() if each.backward == 0}
    assert asking == set(names_without_gradient()) == {"square", "label-only"}
    assert all(each.forward >= each.backward for each in costs.values())
    tested = {options["name"] for options in [*EXACT, *REACHED, *STRONG, *ON_DETECTORS]}
    assert tested | {"region-aware"} == set(costs)


class Counted(torch.nn.Module):
    """The tiny network, and how many images it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.network, self.images = tiny_network(), 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.images += len(images)
        result: torch.Tensor = self.network(images)
        return result


def test_a_battery_costs_its_members_and_a_look_at_each() -> None:
    members = {"a": {"name": "pgd", "steps": 3, "epsilon": 1e-6}, "b": {"name": "dag", "steps": 2, "alpha": 1e-6}}
    battery = build_battery("mine", members=members)
    model = Counted()
    assert PIXELS.labels is not None
    outcome = battery(model, PIXELS.images, PIXELS.labels)
    assert asked(outcome) == [battery.passes()] * 2 == [Passes(9, 5)] * 2
    assert model.images == 2 * 9


def test_rounds_cost_an_attack_and_a_look_each() -> None:
    options: dict[str, Any] = {"name": "region-aware", "epsilon": 1e-6, "steps": 2, "rounds": 3}
    assert asked(on_pixels(options)) == [build(**options).passes()] * 2 == [Passes(1 + 3 * 3, 3 * 2)] * 2


@pytest.mark.parametrize(
    ("description", "passes"),
    [
        ({"clean": {}}, Passes(1)),
        ({"corruption": {"name": "fog"}}, Passes(1)),
        ({"localized": {"corruption": {"name": "fog"}}}, Passes(2)),
        ({"attack": {"name": "pgd", "steps": 20, "restarts": 3}}, Passes(3 * 21 + 1, 60)),
        ({"attack": {"name": "pgd", "region": {"square": {"size": 8}}}}, Passes(22, 20)),
        ({"region_aware": {"rounds": 3, "attack": {"steps": 50}}}, Passes(1 + 3 * 51 + 1, 150)),
        ({"battery": {"name": "semsegbench"}}, Passes(1 + 3 * 21 + 4, 60)),
    ],
)
def test_the_passes_of_a_threat_count_the_predictions_for_its_figures(
    description: dict[str, Any], passes: Passes
) -> None:
    assert build_threat(description).passes() == passes


@pytest.mark.parametrize(
    "description",
    [
        {"attack": {"name": "bim", "steps": 2}},
        {"attack": {"name": "bim", "steps": 2, "region": {"square": {"size": 8}}}},
        {"battery": {"name": "semsegbench", "epsilon": 1e-6, "steps": 2}},
        {"region_aware": {"attack": {"name": "bim", "epsilon": 1e-6, "steps": 2}, "region": {"square": {"size": 8}}}},
        {"localized": {"corruption": {"name": "brightness"}, "patch": 8}},
        {"corruption": {"name": "brightness"}},
        {"clean": {}},
    ],
    ids=str,
)
def test_an_evaluation_asks_as_often_as_its_threat_says(description: dict[str, Any]) -> None:
    counted = Counted()
    threat: Threat = build_threat(description)
    model = wrap_model(counted, num_classes=3, mean=(0, 0, 0), std=(1, 1, 1))  # known: nothing is tried first
    gauntlet.evaluate(model, TinyDataset(2, sizes=((32, 48),)), threat, prepare="off")
    assert counted.images == 2 * threat.passes().forward

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from training_squares import recipe

from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.models import architectures
from gauntlet.models.wrapping import WrappedSegmentation
from gauntlet.training import train
from gauntlet.training.config import AdversarialConfig
from gauntlet.training.division import DividedObjective
from gauntlet.training.log import read_log
from gauntlet.training.objectives import AdversarialObjective, Objective, StepInfo, frozen, scaled_attack

EPSILON = 8 / 255
PGD = {"name": "pgd", "epsilon": "8/255", "alpha": "4/255", "steps": 2}
SEEDS = (7, 8, 9, 10)
INFO = StepInfo(done=0.9, seeds=SEEDS)
QUIET = Silent()


def wrapped(name: str = "test-net", **options: Any) -> WrappedSegmentation:
    torch.manual_seed(0)
    network = architectures.build(name, 3, **options)
    return WrappedSegmentation(network, num_classes=3, ignore_index=255, stride=network.stride)


def batch(count: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 3, (count, 16, 16), generator=generator)
    labels[:, :2] = 255
    return torch.rand(count, 3, 16, 16, generator=generator), labels


def config(**changes: Any) -> AdversarialConfig:
    return AdversarialConfig.model_validate({"attack": PGD, **changes})


@pytest.mark.parametrize(("share", "attacked"), [(1.0, 4), (0.5, 2), (0.25, 1)])
def test_the_share_of_the_batch_is_attacked_inside_the_ball(share: float, attacked: int) -> None:
    objective = AdversarialObjective(wrapped(), config(share=share))
    images, labels = batch()
    prepared, same = objective.prepare(images, labels, INFO)
    distances = (prepared - images).abs().amax(dim=(1, 2, 3))
    assert torch.equal(distances > 0, torch.arange(4) >= 4 - attacked)
    assert distances.max() <= EPSILON + 1e-6
    assert torch.equal(same, labels)
    before = objective.forward(images, labels)
    assert objective.forward(prepared, labels) > before


def test_an_attack_leaves_batch_norm_and_trainability_alone() -> None:
    objective = AdversarialObjective(wrapped(), config()).train()
    objective.model.get_parameter("module.encoder.0.bias").requires_grad_(False)
    before = {key: value.clone() for key, value in objective.model.state_dict().items()}
    objective.prepare(*batch(), INFO)
    assert all(torch.equal(value, before[key]) for key, value in objective.model.state_dict().items())
    assert objective.model.training
    assert objective.model.get_submodule("module").training
    trainable = [name for name, parameter in objective.model.named_parameters() if parameter.requires_grad]
    assert trainable == [name for name, _ in objective.model.named_parameters() if name != "module.encoder.0.bias"]
    assert all(parameter.grad is None for parameter in objective.model.parameters())


def test_frozen_comes_back_after_an_error() -> None:
    model = wrapped().train()
    with pytest.raises(ZeroDivisionError), frozen(model):
        _ = 1 / int(model.training)
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_the_budget_grows_on_the_ramp() -> None:
    objective = AdversarialObjective(wrapped(), config(ramp=0.5))
    images, labels = batch()
    distances = [
        (objective.prepare(images, labels, StepInfo(done, SEEDS))[0] - images).abs().max().item()
        for done in (0.0, 0.25, 0.5, 0.9)
    ]
    assert distances == pytest.approx([EPSILON / 16, EPSILON * 9 / 16, EPSILON, EPSILON], rel=1e-3)
    assert scaled_attack(PGD, 0.5) == {"name": "pgd", "epsilon": EPSILON / 2, "alpha": EPSILON / 4, "steps": 2}


def test_a_batch_without_labels_costs_nothing_and_moves_nothing() -> None:
    objective = Objective(wrapped())
    images, labels = batch()
    loss = objective(images, torch.full_like(labels, 255))
    loss.backward()
    assert loss.item() == 0
    assert all(not parameter.grad.any() for parameter in objective.parameters() if parameter.grad is not None)


def test_an_unknown_attack_shows_before_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match="unknown attack 'pdg'"):
        train(recipe(adversarial={"attack": {"name": "pdg"}}), tmp_path, progress=QUIET)


class TestDividedObjective:
    def objective(self, **options: Any) -> DividedObjective:
        objective = DividedObjective(wrapped(**options), config(method="ddc-at", share=0.5))
        torch.nn.init.normal_(objective.branches.get_parameter("module.auxiliary.0.weight"))
        return objective.train()

    def test_boundary_pixels_are_those_whose_divided_prediction_changes(self) -> None:
        objective = self.objective()
        images, labels = batch()
        prepared, _, boundary = objective.prepare(images, labels, INFO)
        attacked = objective.perturb(images, labels, SEEDS, 0.9)
        assert torch.equal(prepared, torch.cat((images[:2], attacked[2:])))
        objective.eval()
        with torch.no_grad():
            changed = objective.predict(images) != objective.predict(attacked)
        assert torch.equal(boundary[:2].bool(), changed[:2])
        assert not boundary[2:].any()
        assert 0 < boundary.sum() < boundary[:2].numel()

    def test_each_pixel_learns_in_the_branch_that_the_mask_chooses(self) -> None:
        objective = self.objective(plain=True)
        images, labels = batch()
        weight, bias = (objective.branches.get_parameter(f"module.mask.0.{name}") for name in ("weight", "bias"))
        torch.nn.init.zeros_(weight)
        for chosen, silent in ((0, "auxiliary"), (1, "main")):
            with torch.no_grad():
                bias.copy_(torch.eye(3)[chosen])
            objective.zero_grad()
            objective(images, labels, torch.zeros_like(labels)).backward()
            gradients = {
                name: getattr(objective.branches.module, name)[0].weight.grad.abs().sum().item()
                for name in ("main", "auxiliary")
            }
            assert gradients.pop(silent) == 0
            assert all(gradients.values())

    def test_the_mask_loss_is_added(self) -> None:
        objective = self.objective().eval()
        images, labels = batch()
        with torch.no_grad():
            logits, mask = objective.divide(images)
            expected = objective.criterion(logits, labels)
            expected += torch.nn.functional.cross_entropy(mask, torch.ones_like(labels))
            assert objective(images, labels, torch.ones_like(labels)).item() == pytest.approx(expected.item())

    def test_a_single_sample_cannot_be_halved(self) -> None:
        with pytest.raises(GauntletError, match="two samples or more"):
            self.objective().prepare(*batch(1), INFO)


@pytest.mark.parametrize(
    "adversarial",
    [
        {"attack": PGD},
        {"attack": {**PGD, "name": "segpgd"}, "share": 0.5},
        {"method": "sea-at", "attack": {"steps": 2}},
        {"attack": PGD, "method": "ddc-at", "share": 0.5},
    ],
    ids=["pgd-at", "segpgd-at", "sea-at", "ddc-at"],
)
def test_every_method_learns_and_keeps_a_plain_network(tmp_path: Path, adversarial: dict[str, Any]) -> None:
    result = train(recipe(adversarial=adversarial, epochs=8, ema=0.5), tmp_path, progress=QUIET)
    assert result.miou > 0.4
    losses = [float(row["loss"]) for row in read_log(tmp_path / "log.csv")]
    assert losses[-1] < 0.8 * losses[0]
    method = adversarial.get("method", "pgd-at")
    assert result.card["kind"].startswith(f"{method} {100 * adversarial.get('share', 1.0):g} %, ")
    assert result.card["model"]["parameters"] == 3 * 9 * 8 + 8 + 16 + 8 * 3 + 3

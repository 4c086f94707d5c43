"""Attacks as threats: a description in, adversarial images out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel
from gauntlet.numbers import format_number
from gauntlet.samples import Batch
from gauntlet.seeding import ImageSeed
from gauntlet.threats import attacks
from gauntlet.threats.attacks import Attack
from gauntlet.threats.attacks.regions import region_mask
from gauntlet.threats.contract import Perturbed, Threat, threats


@threats.register("attack")
class AttackThreat(Threat):
    """One attack: {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 20}}.

    With a `region`, figures inside and outside of it are reported.
    """

    def __init__(self, options: Mapping[str, Any] | Attack) -> None:
        self.attack = options if isinstance(options, Attack) else build_attack(options)
        self.version = type(self.attack).version  # type: ignore[misc]

    @property
    def name(self) -> str:
        return attack_name(self.attack)

    def describe(self) -> dict[str, Any]:
        return {"attack": self.attack.describe()}

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        labels = need_labels(batch)
        attack = replace(self.attack, ignore_index=batch.ignore_index)
        outcome = attack(model, batch.images, labels, seed=[each.stream(f"attack|{attack.name}") for each in seeds])
        region = region_mask(attack.region, labels, "region")
        return Perturbed(outcome.images, region, details=outcome_details(outcome))


def build_attack(options: Mapping[str, Any]) -> Attack:
    """An attack from its options, the name among them."""
    if "name" not in options:
        raise GauntletError("an attack needs a name, for example {name: pgd, epsilon: 8/255}.")
    attack: Attack = attacks.build(**options)
    return attack


def attack_name(attack: Attack) -> str:
    """A short name with the budget: "pgd linf 8/255 x20"."""
    parts = [attack.name]
    if getattr(attack, "epsilon", None) is not None:
        parts += [attack.norm, format_number(attack.epsilon)]  # type: ignore[attr-defined]
    if getattr(attack, "steps", None) is not None:
        parts.append(f"x{attack.steps}")  # type: ignore[attr-defined]
    if attack.target is not None:
        parts.append(f"to {attack.target}")
    if attack.region is not None:
        parts.append("in a region")
    return " ".join(parts)


def need_labels(batch: Batch) -> torch.Tensor:
    """The labels of a batch; an error where the dataset has none."""
    if batch.labels is None:
        raise GauntletError(f"image '{batch.samples[0].id}' has no label map; attacks on segmentation need one.")
    return batch.labels


def outcome_details(outcome: attacks.Outcome) -> dict[str, list[Any]]:
    """Facts per image that are stored with the counts."""
    return {
        "norm": outcome.norms.tolist(),
        "forwards": outcome.queries.forward.tolist(),
        "backwards": outcome.queries.backward.tolist(),
        "zero_gradient_share": list(outcome.details.get("zero_gradient_share", [None] * len(outcome.images))),
    }

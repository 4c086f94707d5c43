"""Attacks as threats: one attack, a battery of them, the region-aware multi-attack."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.contract import GauntletModel
from gauntlet.numbers import format_number
from gauntlet.samples import Batch, Boxes
from gauntlet.seeding import ImageSeed
from gauntlet.tasks import DETECTION, task_of
from gauntlet.threats import attacks
from gauntlet.threats.attacks import Attack, Battery, RegionAware
from gauntlet.threats.attacks.detection.targets import wanted_boxes
from gauntlet.threats.attacks.engine.targets import Target, is_target_file
from gauntlet.threats.contract import Candidate, Perturbed, Threat, threats
from gauntlet.threats.masks import MaskBuilder, parse_mask

CLEAN = "clean"
NAMED = (
    "alpha",
    "restarts",
    "samples",
    "loss",
    "rule",
    "random_start",
    "returns",
    "threshold",
    "towards",
    "confidence",
    "strong",
)
"""Options of an attack that are in its name where they are not as usual."""


@threats.register("attack")
class AttackThreat(Threat):
    """One attack: {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 20}}.

    With a "region" (a mask of `gauntlet.threats.masks`) only the pixels inside change, and figures inside and outside
    of it are reported.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        given = dict(options)
        self.region = Region(given.pop("region", None))
        if "name" not in given:
            raise GauntletError("an attack needs a name, for example {name: pgd, epsilon: 8/255}.")
        attack = attacks.build(**given)
        if not isinstance(attack, Attack):
            kind = "region_aware" if isinstance(attack, RegionAware) else "battery"
            raise GauntletError(f"'{given['name']}' is described by {{{kind}: {{...}}}}, not by {{attack: {{...}}}}.")
        self.attack = attack
        self.version = attack.version  # type: ignore[misc]

    @property
    def name(self) -> str:
        return " ".join([attack_name(self.attack), *self.region.words])

    def describe(self) -> dict[str, Any]:
        return {"attack": {**self.attack.describe(), **self.region.describe()}}

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        attack = replace(self.attack, ignore_index=batch.ignore_index)
        masks = self.region.masks(batch, seeds)
        outcome = attack(
            model,
            batch.images,
            truth_of(model, batch),
            target=target_of(attack, model, batch),
            region=masks,
            seed=streams(seeds, attack.name),
        )
        details = {
            "norm": outcome.norms.tolist(),
            "forwards": outcome.queries.forward.tolist(),
            "backwards": outcome.queries.backward.tolist(),
            "zero_gradient_share": list(outcome.details["zero_gradient_share"]),
        }
        return Perturbed(outcome.images, masks, details=details)


@threats.register("battery")
class BatteryThreat(Threat):
    """Several attacks, the worst case per image and metric: {"battery": {"name": "halmosi", "epsilon": "8/255"}}.

    An image is skipped once nothing can lower its figure; worst cases are the same as without. With "skip": False every
    attack runs on every image, and each has figures of its own.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        if "name" not in options:
            raise GauntletError(f"a battery needs a name; there are {', '.join(attacks.batteries())}.")
        self._options = dict(options)
        self.battery: Battery = attacks.build_battery(**options)
        self.version = self.battery.version  # type: ignore[misc]

    @property
    def name(self) -> str:
        epsilon = next(iter(self.battery.members.values())).describe().get("epsilon")
        words = ["battery", self.battery.name, *([] if epsilon is None else [format_number(epsilon)])]
        budget = self._options.get("budget", 1)
        return " ".join([*words, *([f"budget {budget}"] if budget != 1 else [])])

    def describe(self) -> dict[str, Any]:
        return {"battery": {**self.battery.describe(), **({} if self.battery.skip else {"skip": False})}}

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        members = {
            name: replace(member, ignore_index=batch.ignore_index) for name, member in self.battery.members.items()
        }
        battery = Battery(self.battery.name, members, skip=self.battery.skip, together=self.battery.together)
        outcome = battery(model, batch.images, truth_of(model, batch), seed=streams(seeds, f"battery|{battery.name}"))
        everywhere = torch.ones(len(batch), dtype=torch.bool)
        candidates = {CLEAN: Candidate(batch.images, everywhere)}
        for index, name in enumerate(outcome.names):
            candidates[name] = Candidate(outcome.candidates[name], outcome.ran[index])
        details: dict[str, list[Any]] = {
            "forwards": outcome.queries.forward.tolist(),
            "backwards": outcome.queries.backward.tolist(),
        }
        for index, name in enumerate(outcome.names):
            if outcome.measures_norm[index]:
                details[f"norm {name}"] = [_finite(value) for value in outcome.norms[index].tolist()]
                details[f"share {name}"] = [_finite(value) for value in outcome.shares[index].tolist()]
        return Perturbed(outcome.images, candidates=candidates, details=details)


@threats.register("region_aware")
class RegionAwareThreat(Threat):
    """Rounds of an attack in a region, the worst case per pixel: {"region_aware": {"attack": {...}, "rounds": 3}}."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        known = ("attack", "rounds", "literal", "region")
        for key in options:
            if key not in known:
                raise unknown_name("option of the threat 'region_aware'", str(key), known)
        self.region = Region(options.get("region") or {"square": {"size": "quarter", "position": "centre"}})
        self.attack = RegionAware(
            options.get("attack") or "bim", rounds=options.get("rounds", 3), literal=bool(options.get("literal", False))
        )
        self.version = self.attack.version  # type: ignore[misc]

    @property
    def name(self) -> str:
        return " ".join([attack_name(self.attack.attack), f"in {self.attack.rounds} rounds", *self.region.words])

    def describe(self) -> dict[str, Any]:
        described = {"attack": self.attack.attack.describe(), "rounds": self.attack.rounds}
        literal = {"literal": True} if self.attack.literal else {}
        return {"region_aware": {**described, **literal, **self.region.describe()}}

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        inner = replace(self.attack.attack, ignore_index=batch.ignore_index)
        attack = RegionAware(inner, rounds=self.attack.rounds, literal=self.attack.literal)
        masks = self.region.masks(batch, seeds)
        outcome = attack(model, batch.images, truth_of(model, batch), region=masks, seed=streams(seeds, inner.name))
        details = {name: values for name, values in outcome.details.items() if name != "clean_fooled"}
        seen = outcome.predictions if outcome.detections is None else outcome.detections
        return Perturbed(outcome.images, masks, predictions=seen, details=details)


class Region:
    """Where an attack may change pixels: a described mask per image, or everywhere."""

    def __init__(self, description: Mapping[str, Any] | None) -> None:
        self._description = None if description is None else dict(description)
        self._build: MaskBuilder | None = None if description is None else parse_mask(description)

    @property
    def words(self) -> list[str]:
        """What the region adds to a threat's name."""
        if self._description is None:
            return []
        kind, options = next(iter(self._description.items()))
        values = options.values() if isinstance(options, Mapping) else options
        return ["in", kind, *(str(value) for value in values)]

    def describe(self) -> dict[str, Any]:
        """The option as it was given, or none."""
        return {} if self._description is None else {"region": self._description}

    def masks(self, batch: Batch, seeds: Sequence[ImageSeed]) -> torch.Tensor | None:
        """The masks of a batch, bool (N, H, W), on its device; None for everywhere."""
        if self._build is None:
            return None
        height, width = batch.images.shape[-2:]
        stacked = np.stack([self._build(height, width, seed.stream("mask")) for seed in seeds])
        return torch.from_numpy(stacked).to(batch.images.device)


def attack_name(attack: Attack) -> str:
    """A short name with the budget: "pgd linf 8/255 x20"."""
    described = attack.describe()
    words = [attack.name]
    if described.get("epsilon") is not None:
        words += [attack.norm, format_number(described["epsilon"])]
    if described.get("steps") is not None:
        words.append(f"x{described['steps']}")
    given = {key: described[key] for key in ("norm", "epsilon", "steps") if described.get(key) is not None}
    usual = attacks.build(attack.name, **given).describe()
    for key in NAMED:
        if described.get(key) != usual.get(key):
            value = described[key]
            words.append(f"{key} {format_number(value) if isinstance(value, float) else value}")
    if attack.target is not None and attack.target != usual.get("target"):
        aim = attack.target["file"] if is_target_file(attack.target) else attack.target
        words.append(f"to {aim}")
    return " ".join(words)


def truth_of(model: GauntletModel, batch: Batch) -> torch.Tensor | list[Boxes]:
    """What a model of its task is attacked with: labels or boxes; an error where the dataset has none."""
    return batch.boxes if task_of(model) == DETECTION else need_labels(batch)


def target_of(attack: Attack, model: GauntletModel, batch: Batch) -> Target:
    """The target of a call: None for the attack's own; the entries of a target file by the ids of the images."""
    if task_of(model) != DETECTION or not is_target_file(attack.target):
        return None
    ids = [sample.id for sample in batch.samples]
    return wanted_boxes(attack.target, batch.boxes, model.num_classes, ids)


def need_labels(batch: Batch) -> torch.Tensor:
    """The labels of a batch; an error where the dataset has none."""
    if batch.labels is None:
        raise GauntletError(f"image '{batch.samples[0].id}' has no label map; attacks on segmentation need one.")
    return batch.labels


def streams(seeds: Sequence[ImageSeed], name: str) -> list[int]:
    """The seed of every image for an attack."""
    return [seed.stream(f"attack|{name}") for seed in seeds]


def _finite(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None

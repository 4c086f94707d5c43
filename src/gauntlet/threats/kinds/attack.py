"""Attacks as threats: one attack, a battery of them, the region-aware multi-attack."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict

from gauntlet.errors import GauntletError
from gauntlet.models.code_identity import code_of_others
from gauntlet.models.contract import GauntletModel
from gauntlet.models.defended_names import defences_in
from gauntlet.models.randomness import random_parts
from gauntlet.samples import Batch, Boxes
from gauntlet.seeding import ImageSeed
from gauntlet.tasks import DETECTION, task_of
from gauntlet.threats import attacks
from gauntlet.threats.asking import label_maps
from gauntlet.threats.attacks import Attack, Battery, RegionAware
from gauntlet.threats.attacks.detection.targets import wanted_boxes
from gauntlet.threats.attacks.engine.outcome import Outcome
from gauntlet.threats.attacks.engine.targets import Target, is_target_file
from gauntlet.threats.contract import Candidate, Perturbed, Threat, threats
from gauntlet.threats.kinds.corruption import parse_options
from gauntlet.threats.masks import MaskBuilder, canonical_mask, mask_options, mask_text, parse_mask
from gauntlet.threats.options import EPSILON, PLAIN, ROUNDS, Option, in_name_order, merged, options_of
from gauntlet.threats.passes import Passes

CLEAN = "clean"
BATTERY_FLAGS = ("skip", "table", "keep", "together")
LOOK = Passes(forward=1)
"""What the figures of one image cost."""


def _code_of(used: Iterable[Attack]) -> str:
    """Digest of the attacks, losses and step rules that are not Gauntlet's own; "" where all are."""
    parts: list[object] = []
    for attack in used:
        parts.append(type(attack))
        if (rule := getattr(attack, "rule", "")) in attacks.step_rules:
            parts.append(attacks.step_rules[rule])
        if (name := getattr(attack, "loss", "")) in attacks.losses:
            loss = attacks.losses[name]
            functions = [
                each for pixel in (loss, loss.track) if pixel is not None for each in (pixel.base, pixel.weight)
            ]
            parts += [each for each in functions if each is not None]
    return code_of_others(*parts)


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

    @classmethod
    def declared_options(cls) -> dict[str, Option]:
        """The options of all attacks, and those of the regions that attacks are kept to."""
        schemas = dict.fromkeys(getattr(make, "kind", None) for _, make in attacks.attacks.items())
        return merged([*(options_of(schema) for schema in schemas if isinstance(schema, type)), mask_options()])

    def check_model(self, name: str) -> None:
        check_gradient(self.name, [self.attack], name)

    def uses(self) -> str:
        return _code_of([self.attack])

    def passes(self, task: str = "segmentation") -> Passes:
        return self.attack.passes(task) + self.region.looks * LOOK

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
        """Such as "battery halmosi 8/255 budget 0.1", followed by what every member was given.

        Members that are not those of the registered battery are told apart by a digest of their descriptions.
        """
        first = next(iter(self.battery.members.values()))
        described = {**self._options, **first.describe()}
        epsilon = described.get("epsilon")
        words = ["battery", self.battery.name, *([] if epsilon is None else [EPSILON.word("epsilon", epsilon)])]
        if "members" not in self._options:
            shared = {key for key in self._options if key not in ("name", "epsilon", *BATTERY_FLAGS)}
            shared -= {"budget"} if self._options.get("budget") == 1 else set()
            options = dict.fromkeys(sorted(shared), PLAIN) | options_of(type(first))
            words += [option.word(key, described[key]) for key, option in in_name_order(options) if key in shared]
        elif not self._is_registered(epsilon):
            written = json.dumps(self.battery.describe()["members"], sort_keys=True)
            words.append(f"members {hashlib.sha256(written.encode()).hexdigest()[:8]}")
        words += ["together"] if self.battery.together else []
        words += ["with table"] if self.battery.table else []
        return " ".join([*words, *([] if self.battery.skip else ["without skipping"])])

    def _is_registered(self, epsilon: float | None) -> bool:
        """Whether the members are those that the name alone stands for, at this epsilon."""
        if self.battery.name not in attacks.batteries():
            return False
        usual = attacks.build_battery(self.battery.name, epsilon=epsilon)
        return bool(usual.describe()["members"] == self.battery.describe()["members"])

    def check_model(self, name: str) -> None:
        check_gradient(self.name, self.battery.members.values(), name)

    def uses(self) -> str:
        return _code_of(self.battery.members.values())

    def passes(self, task: str = "segmentation") -> Passes:
        return self.battery.passes(task) + (len(self.battery.members) + 1) * LOOK

    def describe(self) -> dict[str, Any]:
        # A table changes no worst case, but what is stored beside it: attacks that it runs have figures of their own.
        flags = {**({} if self.battery.skip else {"skip": False}), **({"table": True} if self.battery.table else {})}
        return {"battery": {**self.battery.describe(), **flags}}

    def images_per_pass(self, batch_size: int) -> int:
        return batch_size if self.battery.together else 1

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        members = {
            name: replace(member, ignore_index=batch.ignore_index) for name, member in self.battery.members.items()
        }
        flags = {flag: getattr(self.battery, flag) for flag in ("skip", "table", "together")}
        battery = Battery(self.battery.name, members, **flags)
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
            details[f"forwards {name}"] = outcome.attack_queries.forward[index].tolist()
            details[f"backwards {name}"] = outcome.attack_queries.backward[index].tolist()
            if outcome.measures_norm[index]:
                details[f"norm {name}"] = [_finite(value) for value in outcome.norms[index].tolist()]
                details[f"share {name}"] = [_finite(value) for value in outcome.shares[index].tolist()]
        return Perturbed(outcome.images, candidates=candidates, details=details)


class RegionAwareOptions(BaseModel):
    """What is run in rounds, and where.

    Attributes:
        attack: the name or the options of the attack.
        rounds: how many attacks.
        literal: see `RegionAware`.
        region: a mask of `gauntlet.threats.masks`; a square of a quarter of the shorter side in the middle by default.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    attack: str | dict[str, Any] | None = None
    rounds: Annotated[Any, ROUNDS] = 3
    literal: Annotated[bool, Option(written="{name}")] = False
    region: dict[str, Any] | None = None


@threats.register("region_aware")
class RegionAwareThreat(Threat):
    """Rounds of an attack in a region, the worst case per pixel: {"region_aware": {"attack": {...}, "rounds": 3}}."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        given = parse_options("region_aware", RegionAwareOptions, options)
        self.region = Region(given.region or {"square": {"size": "quarter", "position": "centre"}})
        self.attack = RegionAware(given.attack or "bim", rounds=given.rounds, literal=given.literal)
        self.version = self.attack.version  # type: ignore[misc]

    @property
    def name(self) -> str:
        named_options = {"rounds": self.attack.rounds, **({"literal": True} if self.attack.literal else {})}
        options = in_name_order(self.declared_options())
        words = [option.word(key, named_options[key]) for key, option in options if key in named_options]
        return " ".join([attack_name(self.attack.attack), *words, *self.region.words])

    @classmethod
    def declared_options(cls) -> dict[str, Option]:
        return options_of(RegionAwareOptions)

    def check_model(self, name: str) -> None:
        check_gradient(self.name, [self.attack.attack], name)

    def uses(self) -> str:
        return _code_of([self.attack.attack])

    def passes(self, task: str = "segmentation") -> Passes:
        # The rounds give the predictions, the figures need the clean ones; a random model is looked at anew after each.
        return self.attack.passes(task) + LOOK

    def describe(self) -> dict[str, Any]:
        described = {"attack": self.attack.attack.describe(), "rounds": self.attack.rounds}
        literal = {"literal": True} if self.attack.literal else {}
        return {"region_aware": {**described, **literal, **self.region.describe()}}

    def outcome(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Outcome:
        """The worst case, and every round by itself."""
        inner = replace(self.attack.attack, ignore_index=batch.ignore_index)
        attack = RegionAware(inner, rounds=self.attack.rounds, literal=self.attack.literal)
        masks = self.region.masks(batch, seeds)
        return attack(model, batch.images, truth_of(model, batch), region=masks, seed=streams(seeds, inner.name))

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        outcome, masks = self.outcome(model, batch, seeds), self.region.masks(batch, seeds)
        details = {name: values for name, values in outcome.details.items() if name != "clean_fooled"}
        said = outcome.predictions if outcome.detections is None else outcome.detections
        if outcome.judge is not None and random_parts(model):  # no figure is of draws that the attack saw
            shown = (batch.images, *(each.images for each in outcome.rounds))
            said = outcome.judge([label_maps(model, images, seeds) for images in shown])
        return Perturbed(outcome.images, masks, predictions=said, details=details)


class Region:
    """Where an attack may change pixels: a described mask per image, or everywhere.

    Attributes:
        looks: predictions that the figures need: of the changed images, and of the clean ones to compare regions.
    """

    def __init__(self, description: Mapping[str, Any] | None) -> None:
        self._description = None if description is None else canonical_mask(description)
        self._build: MaskBuilder | None = None if self._description is None else parse_mask(self._description)
        self.looks = 1 if description is None else 2

    @property
    def words(self) -> list[str]:
        """What the region adds to a threat's name."""
        return [] if self._description is None else ["in", mask_text(self._description)]

    def describe(self) -> dict[str, Any]:
        """The option in canonical form, or none."""
        return {} if self._description is None else {"region": self._description}

    def masks(self, batch: Batch, seeds: Sequence[ImageSeed]) -> torch.Tensor | None:
        """The masks of a batch, bool (N, H, W), on its device; None for everywhere."""
        if self._build is None:
            return None
        height, width = batch.images.shape[-2:]
        stacked = np.stack([self._build(height, width, seed.stream("mask")) for seed in seeds])
        return torch.from_numpy(stacked).to(batch.images.device)


def attack_name(attack: Attack) -> str:
    """A short name with the budget, and every option that is not as usual for it: "pgd linf 8/255 x20 restarts 2".

    Usual is what the attack has by default; some defaults follow from the budget, or from options named before.
    """
    described = attack.describe()
    options = in_name_order(options_of(type(attack)))
    always = {key for key, option in options if option.named == "always" and described[key] is not None}
    if described.get("epsilon") is None:  # the norm of no budget
        always -= {"norm"}
    named_options = {key: described[key] for key in always}
    usual = attacks.build(**named_options).describe()
    words = []
    for key, option in options:
        if key in always:
            words.append(option.word(key, described[key]))
        elif option.named != "never" and described.get(key) != usual.get(key):
            words.append(option.word(key, described[key]))
            named_options[key] = described[key]
            usual = attacks.build(**named_options).describe()
    return " ".join(words)


def check_gradient(threat: str, members: Iterable[Attack], model: str) -> None:
    """An error where attacks follow a gradient and the model of a stored name counts votes, which have none."""
    if "smoothed" in defences_in(model) and any(attack.needs_gradient for attack in members):
        raise GauntletError(
            f"'{model}' counts votes and has no gradient for '{threat}'; make the attack on 'noise:' with the same "
            "sigma and several samples and transfer its images, or leave it out (--skip)."
        )


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

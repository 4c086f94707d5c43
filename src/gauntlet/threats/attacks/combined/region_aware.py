"""The region-aware multi-attack of Marchiori Pietrosanti et al.: rounds that aim at what is still right, and the worst case per pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.samples import Boxes
from gauntlet.threats.attacks.detection.rounds import attack_objects_in_rounds
from gauntlet.threats.attacks.engine.contract import Attack, attacks, whole
from gauntlet.threats.attacks.engine.device import bridge, crosses
from gauntlet.threats.attacks.engine.inputs import expand_seeds
from gauntlet.threats.attacks.engine.labels import label_map
from gauntlet.threats.attacks.engine.outcome import Outcome, Queries
from gauntlet.threats.attacks.engine.posing import DETECTION, SEGMENTATION, task_of
from gauntlet.threats.attacks.engine.problem import Problem, steady
from gauntlet.threats.attacks.engine.regions import Region, describe_region
from gauntlet.threats.attacks.engine.targets import Target
from gauntlet.threats.passes import Passes


class RegionAware:
    """Algorithm 1 of Marchiori Pietrosanti et al. around any attack (docs/specs/attacks.md, 13).

    Every round attacks the clean image anew and aims at the pixels that no earlier round has won. The result is no
    output of one image but the worst case per pixel: `Outcome.predictions` (on a detector per
    object: `Outcome.detections`).

    Args:
        attack: an attack, its description, or its name; BIM with 50 steps of 2.5 epsilon / 50 by default.
        rounds: how many attacks.
        literal: the update as printed, which loses what earlier rounds won (it becomes class 0) instead of the
            corrected one.
        region: default for the call's region.
        options: of the attack, where it is given by name.
    """

    name = "region-aware"

    def __init__(
        self,
        attack: Attack | Mapping[str, Any] | str = "bim",
        *,
        rounds: int = 3,
        literal: bool = False,
        region: Region = None,
        **options: Any,
    ) -> None:
        whole(rounds, "rounds", 1)
        self.rounds = rounds
        self.literal = literal
        self.region = describe_region(region, "region")
        self.attack = _inner(attack, options)

    @property
    def version(self) -> int:
        """Raised with the wrapped attack's."""
        return self.attack.version

    @property
    def tasks(self) -> tuple[str, ...]:
        """What the wrapped attack can be used on."""
        return self.attack.tasks

    @property
    def norm(self) -> str:
        """The wrapped attack's norm."""
        return self.attack.norm

    def passes(self, task: str = SEGMENTATION) -> Passes:
        """How often a model of a task is asked about one image, at most: every round is an attack and a look."""
        look = Passes(forward=1)
        return self.attack.posing_passes(task) + look + self.rounds * (self.attack.passes(task) + look)

    def describe(self) -> dict[str, Any]:
        """Every option with its value, JSON-able."""
        return {
            "name": self.name,
            "attack": self.attack.describe(),
            "rounds": self.rounds,
            "literal": self.literal,
            "region": self.region,
        }

    def __call__(
        self,
        model: Any,
        images: torch.Tensor,
        labels: torch.Tensor | Sequence[Boxes],
        target: Target = None,
        region: Region = None,
        fooling_region: Region = None,
        seed: int | Sequence[int] = 0,
    ) -> Outcome:
        """Attacks a batch; arguments as for any attack.

        Returns:
            images of the round that won most, `predictions` with the worst case per pixel, one outcome per round in
            `rounds`; `fooled` counts the pixels that are lost in `predictions`.
        """
        if crosses(model, images):
            bridged = bridge(model, images, labels)
            return self(*bridged, target, region, fooling_region, seed).to(images.device)
        inner = self.attack
        target = inner.target if target is None else target
        region = self.region if region is None else region
        if task_of(model) == DETECTION:
            if self.literal:
                raise GauntletError("literal=True reproduces an update of pixels; leave it out for a detector.")
            return attack_objects_in_rounds(
                inner,
                self.rounds,
                model,
                images,
                labels,  # type: ignore[arg-type] # checked where the problem is posed
                target,
                region,
                fooling_region,
                seed,
            )
        with steady(model, images.device, 0):
            seeds = expand_seeds(seed, len(images))
            problem = inner.pose(model, images, labels, target, region, fooling_region, seeds)
            assert isinstance(problem, Problem)
            predictions = label_map(problem.look(problem.images).logits)
        won = self._won(problem, predictions)
        clean_won = won
        rounds: list[Outcome] = []
        news: list[torch.Tensor] = []
        aims: list[torch.Tensor] = []
        for _ in range(self.rounds):
            open_pixels = problem.counted & ~won
            if not open_pixels.any():
                break
            # Anew every round, from the clean image: only the aim changes.
            outcome = inner(model, images, labels, target, problem.region, open_pixels, seed)
            with steady(model, images.device, 0):
                current = label_map(problem.look(outcome.images).logits)
            new = open_pixels & self._won(problem, current)
            still = open_pixels & ~new
            if self.literal:
                predictions = torch.where(new, current, predictions * still)
            else:
                predictions = torch.where(new, current, predictions)
            won = won | new
            rounds.append(outcome)
            news.append(new.flatten(1).sum(1))
            aims.append(open_pixels.flatten(1).sum(1))
        return self._outcome(problem, predictions, clean_won, rounds, news, aims)

    @staticmethod
    def _won(problem: Problem, predictions: torch.Tensor) -> torch.Tensor:
        at_label = predictions == problem.labels
        return problem.counted & (at_label if problem.targeted else ~at_label)

    def _outcome(
        self,
        problem: Problem,
        predictions: torch.Tensor,
        clean_won: torch.Tensor,
        rounds: list[Outcome],
        news: list[torch.Tensor],
        aims: list[torch.Tensor],
    ) -> Outcome:
        images = problem.images.clone()
        norms = torch.zeros(len(images), dtype=torch.float64, device=images.device)
        forward, backward = problem.tally.forward.clone(), problem.tally.backward.clone()
        if rounds:
            best = torch.stack(news).argmax(0)
            for index, outcome in enumerate(rounds):
                images[best == index], norms[best == index] = (
                    outcome.images[best == index],
                    outcome.norms[best == index],
                )
                forward, backward = forward + outcome.queries.forward, backward + outcome.queries.backward
        fooled = self._won(problem, predictions).flatten(1).sum(1)
        return Outcome(
            images=images,
            norms=norms,
            queries=Queries(forward, backward),
            threshold=self.attack.threshold,
            counted=problem.counts,
            count_fooled=lambda: fooled,
            details={
                "clean_fooled": clean_won.flatten(1).sum(1).tolist(),
                "fooling_pixels": torch.stack(aims).T.tolist() if aims else [[] for _ in range(len(images))],
                "newly_fooled": torch.stack(news).T.tolist() if news else [[] for _ in range(len(images))],
            },
            region=problem.region,
            predictions=predictions,
            rounds=tuple(rounds),
        )


def _inner(attack: Attack | Mapping[str, Any] | str, options: Mapping[str, Any]) -> Attack:
    """The wrapped attack; its errors name it."""
    if isinstance(attack, Attack):
        if options:
            raise GauntletError("give the options of the wrapped attack when building it, or give its name instead.")
        return attack
    given: dict[str, Any] = dict(attack) if isinstance(attack, Mapping) else {"name": attack}
    given.update(options)
    name = given.pop("name", "bim")
    if name == RegionAware.name:
        raise unknown_name("attack inside region-aware", name, [])
    if (
        name == "bim"
    ):  # Marchiori Pietrosanti et al. gives 50 steps and no step size; 2.5 epsilon / steps is ours (docs/specs/attacks.md, 13)
        given.setdefault("steps", 50)
    made = attacks[name](**given)
    if not isinstance(made, Attack):
        raise GauntletError(f"'{name}' cannot be wrapped by region-aware; choose a single attack.")
    epsilon = getattr(made, "epsilon", None)
    if name == "bim" and given.get("alpha") is None and epsilon:
        made = replace(made, alpha=2.5 * epsilon / given["steps"])  # type: ignore[call-arg]
    return made


attacks.add(RegionAware.name, RegionAware)

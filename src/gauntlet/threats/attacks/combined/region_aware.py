"""The region-aware multi-attack (Marchiori Pietrosanti et al.): each round aims at the pixels that are still right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.tasks import DETECTION, SEGMENTATION, task_of
from gauntlet.threats.attacks.detection.rounds import attack_objects_in_rounds
from gauntlet.threats.attacks.engine.batch_call import BatchAttack, BatchCall
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.labels import label_map
from gauntlet.threats.attacks.engine.option_checks import whole
from gauntlet.threats.attacks.engine.outcome import Outcome, Queries
from gauntlet.threats.attacks.engine.problem import Problem, steady
from gauntlet.threats.attacks.engine.regions import Region, describe_region
from gauntlet.threats.attacks.registration import attacks
from gauntlet.threats.passes import Passes


class RegionAware(BatchAttack[Outcome]):
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

    def attack_batch(self, call: BatchCall) -> Outcome:
        """Runs the rounds.

        Returns:
            images of the round that won most, `predictions` with the worst case per pixel, one outcome per round in
            `rounds`; `fooled` counts the pixels that are lost in `predictions`.
        """
        call.refuse_start(self.name)
        call = replace(
            call,
            target=self.attack.target if call.target is None else call.target,
            region=self.region if call.region is None else call.region,
        )
        if task_of(call.model) != DETECTION:
            return self._attack_pixels(call)
        if self.literal:
            raise GauntletError("literal=True reproduces an update of pixels; leave it out for a detector.")
        return attack_objects_in_rounds(self.attack, self.rounds, call)

    def _attack_pixels(self, call: BatchCall) -> Outcome:
        """The rounds on a segmentation model."""
        device = call.images.device
        with steady(call.model, device, 0):
            problem = self.attack.pose(call)
            assert isinstance(problem, Problem)
            record = WorstPixels(problem, label_map(problem.look(problem.images).logits), self.literal)
        for _ in range(self.rounds):
            open_pixels = record.open
            if not open_pixels.any():
                break
            # Anew every round, from the clean image: only the aim changes.
            aimed = replace(call, region=problem.region, fooling_region=open_pixels)
            outcome = self.attack.attack_batch(aimed)
            with steady(call.model, device, 0):
                record.add(outcome, label_map(problem.look(outcome.images).logits))
        return record.outcome(self.attack.threshold)


class WorstPixels:
    """The worst case per pixel over the rounds so far.

    Args:
        problem: the batch.
        predictions: of the clean images, int64 (N, H, W).
        literal: see `RegionAware`.
    """

    def __init__(self, problem: Problem, predictions: torch.Tensor, literal: bool) -> None:
        self.problem, self.predictions, self.literal = problem, predictions, literal
        self.won = self._won(predictions)
        self.clean_won = self.won
        self.rounds: list[Outcome] = []
        self.newly_won: list[torch.Tensor] = []
        self.aimed_at: list[torch.Tensor] = []

    @property
    def open(self) -> torch.Tensor:
        """Pixels that count and that no round has won, bool (N, H, W)."""
        return self.problem.counted & ~self.won

    def _won(self, predictions: torch.Tensor) -> torch.Tensor:
        """Counted pixels where predictions are what the attack wants, bool (N, H, W)."""
        at_label = predictions == self.problem.labels
        return self.problem.counted & (at_label if self.problem.targeted else ~at_label)

    def add(self, outcome: Outcome, predictions: torch.Tensor) -> None:
        """Takes a round: its outcome and the predictions for its images, int64 (N, H, W)."""
        aimed_at = self.open
        new = aimed_at & self._won(predictions)
        kept = self.predictions * (aimed_at & ~new) if self.literal else self.predictions
        self.predictions = torch.where(new, predictions, kept)
        self.won = self.won | new
        self.rounds.append(outcome)
        self.newly_won.append(new.flatten(1).sum(1))
        self.aimed_at.append(aimed_at.flatten(1).sum(1))

    def outcome(self, threshold: float) -> Outcome:
        """The images of the round that won most, and the worst case per pixel."""
        problem = self.problem
        images = problem.images.clone()
        norms = torch.zeros(len(images), dtype=torch.float64, device=images.device)
        forward, backward = problem.tally.forward.clone(), problem.tally.backward.clone()
        best_round = torch.stack(self.newly_won).argmax(0) if self.rounds else torch.zeros_like(problem.counts)
        for index, each in enumerate(self.rounds):
            chosen = best_round == index
            images[chosen], norms[chosen] = each.images[chosen], each.norms[chosen]
            forward, backward = forward + each.queries.forward, backward + each.queries.backward
        fooled = self._won(self.predictions).flatten(1).sum(1)
        return Outcome(
            images=images,
            norms=norms,
            queries=Queries(forward, backward),
            threshold=threshold,
            counted=problem.counts,
            count_fooled=lambda: fooled,
            details={
                "clean_fooled": self.clean_won.flatten(1).sum(1).tolist(),
                "fooling_pixels": _by_image(self.aimed_at, len(images)),
                "newly_fooled": _by_image(self.newly_won, len(images)),
            },
            region=problem.region,
            predictions=self.predictions,
            rounds=tuple(self.rounds),
            originals=problem.images,
            judge=self.judge,
        )

    def judge(self, predictions: Sequence[torch.Tensor]) -> torch.Tensor:
        """The worst case per pixel of other predictions: for the clean images, then for those of every round."""
        clean, *of_rounds = predictions
        again = WorstPixels(self.problem, clean, self.literal)
        for outcome, each in zip(self.rounds, of_rounds, strict=True):
            again.add(outcome, each)
        return again.predictions


def _by_image(counts: Sequence[torch.Tensor], images: int) -> list[list[int]]:
    """Counts of every round, (N,) each, as one list per image."""
    by_image: list[list[int]] = torch.stack(list(counts)).T.tolist() if counts else [[] for _ in range(images)]
    return by_image


def _inner(attack: Attack | Mapping[str, Any] | str, options: Mapping[str, Any]) -> Attack:
    """The attack that region-aware wraps; errors about its options name it."""
    if isinstance(attack, Attack):
        if options:
            raise GauntletError("give the options of the wrapped attack when building it, or give its name instead.")
        return attack
    given: dict[str, Any] = dict(attack) if isinstance(attack, Mapping) else {"name": attack}
    given.update(options)
    name = given.pop("name", "bim")
    if name == RegionAware.name:
        raise unknown_name("attack inside region-aware", name, [])
    # The paper has BIM with 50 steps and states no step size; 2.5 epsilon / steps is ours (docs/specs/attacks.md, 13).
    if name == "bim":
        given.setdefault("steps", 50)
    wrapped = attacks[name](**given)
    if not isinstance(wrapped, Attack):
        raise GauntletError(f"'{name}' cannot be wrapped by region-aware; choose a single attack.")
    epsilon = getattr(wrapped, "epsilon", None)
    if name == "bim" and given.get("alpha") is None and epsilon:
        wrapped = replace(wrapped, alpha=2.5 * epsilon / given["steps"])  # type: ignore[call-arg]
    return wrapped

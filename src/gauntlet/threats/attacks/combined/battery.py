"""Batteries: several attacks on every image, the worst case per image and metric (docs/specs/metrics.md, 7 and 8)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from gauntlet.errors import GauntletError
from gauntlet.tasks import DETECTION, SEGMENTATION, task_of
from gauntlet.threats.attacks.algorithms.minimum_norm import MinimumNorm
from gauntlet.threats.attacks.combined.battery_outcome import CLEAN, BatteryOutcome, joined
from gauntlet.threats.attacks.detection.problem import ObjectProblem
from gauntlet.threats.attacks.engine.batch_call import BatchAttack, BatchCall
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.outcome import Outcome, Queries
from gauntlet.threats.attacks.engine.posing import check_images, check_labels, pose
from gauntlet.threats.attacks.engine.problem import BatchProblem, Problem, steady
from gauntlet.threats.attacks.engine.regions import Region
from gauntlet.threats.attacks.engine.request import Request
from gauntlet.threats.attacks.engine.seeds import image_seed
from gauntlet.threats.passes import Passes


class Battery(BatchAttack[BatteryOutcome]):
    """A named set of attacks.

    Args:
        name: what it is called.
        members: attacks by name; the order decides ties.
        skip: leave out an image once all its figures are 0: no attack can lower any of them. What a member finds not
            worth its passes (`Attack.worth_above`) is left out in any case, since it is part of the member.
        table: run the minimum-perturbation attacks on every image all the same, for a complete `minimum_table`.
        keep: whether the outcome holds every attack's images.
        together: attack the images of a batch together. One by one is the default: kernels round differently for
            another batch size, so only then does skipping change nothing at all. On a GPU together is faster.
    """

    def __init__(
        self,
        name: str,
        members: Mapping[str, Attack],
        *,
        skip: bool = True,
        table: bool = False,
        keep: bool = True,
        together: bool = False,
    ) -> None:
        if not members:
            raise GauntletError("a battery needs at least one attack.")
        for option, value in {"skip": skip, "table": table, "keep": keep, "together": together}.items():
            if not isinstance(value, bool):
                raise GauntletError(f"{option} of a battery must be true or false, not {value!r}.")
        self.name = name
        self.members = dict(members)
        self.skip = skip
        self.table = table
        self.keep = keep
        self.together = together

    @property
    def version(self) -> int:
        """Raised with any member's."""
        return 1 + sum(member.version - 1 for member in self.members.values())

    def passes(self, task: str = SEGMENTATION) -> Passes:
        """How often a model of a task is asked about one image, at most: by every attack, and about what it made."""
        look = Passes(forward=1)
        return sum((member.passes(task) + look for member in self.members.values()), look)

    def describe(self) -> dict[str, Any]:
        """Every option of every member, JSON-able. `skip`, `table` and `keep` change no figure and are left out."""
        members = {name: member.describe() for name, member in self.members.items()}
        return {"name": self.name, "together": self.together, "members": members}

    def attack_batch(self, call: BatchCall) -> BatteryOutcome:
        """Runs the attacks; each draws from streams of its own."""
        call.refuse_start(self.name)
        check_images(call.images)
        for member in self.members.values():
            member.check_task(call.model)
        if task_of(call.model) != DETECTION:
            call = replace(call, labels=check_labels(call.labels, call.images))
        count = len(call.images)
        if self.together or count == 1:
            return self._run(call)
        return joined([self._run(call.select(torch.tensor([row]))) for row in range(count)])

    def _run(self, call: BatchCall) -> BatteryOutcome:
        """Runs the attacks on images that are attacked together."""
        first = next(iter(self.members.values()))
        request = Request(
            region=first.region if call.region is None else call.region,
            fooling_region=first.fooling_region if call.fooling_region is None else call.fooling_region,
            precision=first.precision,
            seeds=call.seeds,
            ignore_index=first.ignore_index,
            ignore=_ignored_by_all(self.members.values()),
        )
        with steady(call.model, call.images.device, 0):
            problem = pose(call.model, call.images, call.labels, request)
            clean = problem.figures(problem.images)
        call = replace(call, region=problem.region, fooling_region=_drawn_aim(problem, request.fooling_region))
        table = WorstCases(problem, clean, len(self.members))
        candidates: dict[str, torch.Tensor] = {}
        for index, (name, attack) in enumerate(self.members.items()):
            rows = self._rows(attack, table.worst)
            made = table.images.clone()
            if len(rows):
                begin = None if attack.starts_from is None else table.chosen[attack.starts_from]
                outcome = _attacked(replace(call, start=begin).select(rows), attack, f"battery|{name}")
                made[rows.to(made.device)] = outcome.images
                table.add(index, rows, outcome, isinstance(attack, MinimumNorm))
            if self.keep:
                candidates[name] = made
        return table.outcome(self.members, candidates)

    def _rows(self, attack: Attack, worst: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Images that this attack is run on; those with nothing that counts never are."""
        figures = torch.stack(list(worst.values()))
        counted = ~torch.isnan(figures).all(0)
        if self.skip and not (self.table and isinstance(attack, MinimumNorm)):
            counted &= (figures > 0).any(0)
        if attack.worth_above > 0:
            counted &= (figures > attack.worth_above).any(0)
        return torch.nonzero(counted).flatten()


class WorstCases:
    """The figures of every attack and image, and the worst case of every image and metric so far.

    Args:
        problem: the images, posed without a target.
        clean: figures of the clean images by metric, float64 (N,); they are the first candidates.
        attacks: how many attacks there will be.
    """

    def __init__(self, problem: BatchProblem, clean: dict[str, torch.Tensor], attacks: int) -> None:
        count, metrics = len(problem), problem.metrics
        unknown = torch.full((attacks, count), math.nan, dtype=torch.float64)
        self.problem, self.clean = problem, clean
        self.ran = torch.zeros(attacks, count, dtype=torch.bool)
        self.figures = {metric: unknown.clone() for metric in metrics}
        self.norms, self.shares = unknown.clone(), unknown.clone()
        nothing = torch.zeros(attacks, count, dtype=torch.int64)
        self.queries = Queries(nothing.clone(), nothing.clone())
        self.worst = {metric: clean[metric].clone() for metric in metrics}
        self.choice = {metric: torch.full((count,), CLEAN) for metric in metrics}
        self.chosen = {metric: problem.images.clone() for metric in metrics}

    @property
    def images(self) -> torch.Tensor:
        """The worst case of every image by the metric that decides, (N, 3, H, W)."""
        return self.chosen[self.problem.metrics[0]]

    def add(self, index: int, rows: torch.Tensor, outcome: Outcome, measures_norm: bool) -> None:
        """Takes what an attack made of some rows.

        Args:
            index: of the attack.
            rows: int64, on the CPU.
            outcome: for these rows, in order.
            measures_norm: whether the attack looks for a minimum perturbation.
        """
        tally, device = self.problem.tally, self.problem.images.device
        tally.forward[rows] += outcome.queries.forward
        tally.backward[rows] += outcome.queries.backward
        self.queries.forward[index, rows] = outcome.queries.forward
        self.queries.backward[index, rows] = outcome.queries.backward
        self.ran[index, rows] = True
        if measures_norm:
            self.norms[index, rows], self.shares[index, rows] = outcome.norms.cpu(), outcome.share.cpu()
        with steady(self.problem.model, device, 0):
            figures = self.problem.select(rows.to(device)).figures(outcome.images)
        for metric, values in figures.items():
            self.figures[metric][index, rows] = values
            worse = values < self.worst[metric][rows]
            self.worst[metric][rows[worse]] = values[worse]
            self.choice[metric][rows[worse]] = index
            self.chosen[metric][rows[worse].to(device)] = outcome.images[worse.to(device)]

    def outcome(self, members: Mapping[str, Attack], candidates: Mapping[str, torch.Tensor]) -> BatteryOutcome:
        """The outcome after the last attack."""
        return BatteryOutcome(
            names=tuple(members),
            images=self.images,
            chosen_images=self.chosen,
            ran=self.ran,
            figures=self.figures,
            clean=self.clean,
            choice=self.choice,
            worst=self.worst,
            candidates=candidates,
            norms=self.norms,
            shares=self.shares,
            queries=Queries(self.problem.tally.forward, self.problem.tally.backward),
            attack_queries=self.queries,
            measures_norm=[isinstance(member, MinimumNorm) for member in members.values()],
        )


def _attacked(call: BatchCall, attack: Attack, purpose: str) -> Outcome:
    """What an attack makes of the images of a call, with draws of its own."""
    return attack.attack_batch(replace(call, seeds=[image_seed(seed, purpose) for seed in call.seeds]))


def _ignored_by_all(members: Iterable[Attack]) -> tuple[int, ...]:
    """The classes that no member counts: the figures of a battery leave them out too."""
    return tuple(sorted(set.intersection(*(set(member.ignore) for member in members))))


def _drawn_aim(problem: BatchProblem, fooling_region: Region) -> Region:
    """The fooling region as every attack gets it: what is drawn at random is drawn once, for all of them."""
    if isinstance(problem, Problem):
        return problem.counted
    if isinstance(problem, ObjectProblem) and problem.aim.mask is not None:
        return problem.aim.mask
    return fooling_region

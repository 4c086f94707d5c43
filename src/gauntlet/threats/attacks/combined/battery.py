"""Batteries: several attacks on every image, the worst case kept per image and per metric (docs/specs/metrics.md, 7 and 8)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gauntlet.errors import GauntletError
from gauntlet.numbers import Number, parse_number
from gauntlet.registry import Registry
from gauntlet.samples import Boxes
from gauntlet.threats.attacks.algorithms.minimum_norm import MinimumNorm
from gauntlet.threats.attacks.detection.problem import ObjectProblem
from gauntlet.threats.attacks.engine.contract import Attack, attacks, image_seed, positive
from gauntlet.threats.attacks.engine.device import bridge, crosses
from gauntlet.threats.attacks.engine.inputs import check_images, check_labels, expand_seeds
from gauntlet.threats.attacks.engine.outcome import Queries
from gauntlet.threats.attacks.engine.posing import DETECTION, SEGMENTATION, pose_task, task_of
from gauntlet.threats.attacks.engine.problem import Problem, steady
from gauntlet.threats.attacks.engine.regions import Region
from gauntlet.threats.attacks.engine.targets import Target
from gauntlet.threats.passes import Passes

CLEAN = -1
"""The index of the clean image among the candidates; it comes before the attacks, so a tie goes to it."""


@dataclass
class BatteryOutcome:
    """What a battery made of a batch.

    With A attacks and N images; a skipped cell is one whose image had nothing left to lose.

    The metrics are "accuracy" and "miou" of an image's pixels; for a detector "f1" of its detections and "recall", the
    share of its objects that are found at any score.

    Attributes:
        names: of the A attacks.
        images: (N, 3, H, W), the worst case by the first metric. chosen_images: the worst case of every metric.
        ran: bool (A, N), False where skipped.
        figures: by metric, float64 (A, N); NaN where skipped or where no pixel counts.
        clean: by metric, float64 (N,).
        choice: by metric, int64 (N,): index of the attack with the smallest figure, the lowest of a tie, -1 for the
            clean image. Skipping never changes it.
        worst: by metric, float64 (N,): the figure of the choice.
        candidates: by attack, (N, 3, H, W); where skipped, the image that left nothing to lose. Empty unless kept.
        norms, shares: float64 (A, N), for minimum-perturbation attacks: size before clipping and share of fooled
            pixels; NaN elsewhere and where skipped.
        queries: forward and backward passes per image, all attacks together.
        measures_norm: for each attack, whether it looks for a minimum perturbation.
    """

    names: Sequence[str]
    images: torch.Tensor
    chosen_images: Mapping[str, torch.Tensor]
    ran: torch.Tensor
    figures: Mapping[str, torch.Tensor]
    clean: Mapping[str, torch.Tensor]
    choice: Mapping[str, torch.Tensor]
    worst: Mapping[str, torch.Tensor]
    candidates: Mapping[str, torch.Tensor]
    norms: torch.Tensor
    shares: torch.Tensor
    queries: Queries
    measures_norm: Sequence[bool]

    def to(self, device: torch.device) -> BatteryOutcome:
        """The same with all images on a device."""
        return replace(
            self,
            images=self.images.to(device),
            chosen_images={metric: images.to(device) for metric, images in self.chosen_images.items()},
            candidates={name: images.to(device) for name, images in self.candidates.items()},
        )

    @property
    def accuracy(self) -> torch.Tensor:
        """Pixel accuracy of every attack and image, (A, N)."""
        return self.figures["accuracy"]

    @property
    def miou(self) -> torch.Tensor:
        """Image mIoU of every attack and image, (A, N)."""
        return self.figures["miou"]

    @property
    def f1(self) -> torch.Tensor:
        """F1 of every attack and image, (A, N); detectors only."""
        return self.figures["f1"]

    def distribution(self, metric: str | None = None) -> dict[str, int]:
        """How often each attack, or the clean image, is the worst case by a metric, the first by default."""
        metric = next(iter(self.choice)) if metric is None else metric
        choice = self.choice[metric]
        counted = choice[~torch.isnan(self.worst[metric])]
        return {name: int((counted == index).sum()) for index, name in enumerate(("clean", *self.names), start=CLEAN)}

    def minimum_table(self, share: float = 0.99) -> dict[str, list[float]]:
        """The size of the smallest successful perturbation per attack and image, and over all attacks ("smallest").

        inf where the attack stays below the share, NaN where it was skipped (`table=True` runs it everywhere). Raw
        material of a cumulative distribution: F(ε) is the part of entries at most ε (docs/specs/metrics.md, 8).
        """
        table: dict[str, list[float]] = {}
        rows = []
        for index, name in enumerate(self.names):
            norms, shares = self.norms[index], self.shares[index]
            if not self.measures_norm[index]:
                continue
            sizes = torch.where(shares >= share - 1e-12, norms, torch.full_like(norms, math.inf))
            sizes = torch.where(torch.isnan(norms), norms, sizes)
            rows.append(torch.where(torch.isnan(sizes), torch.full_like(sizes, math.inf), sizes))
            table[name] = sizes.tolist()
        if rows:
            table["smallest"] = torch.stack(rows).amin(0).tolist()
        return table


class Battery:
    """A named set of attacks.

    Args:
        name: what it is called.
        members: attacks by name; the order decides ties.
        skip: leave out an image once all its figures are 0: no attack can lower any of them.
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

    def __call__(
        self,
        model: Any,
        images: torch.Tensor,
        labels: torch.Tensor | Sequence[Boxes],
        target: Target = None,
        region: Region = None,
        fooling_region: Region = None,
        seed: int | Sequence[int] = 0,
    ) -> BatteryOutcome:
        """Runs the attacks on a batch; arguments as for any attack. Each attack draws from streams of its own."""
        if crosses(model, images):
            bridged = bridge(model, images, labels)
            return self(*bridged, target, region, fooling_region, seed).to(images.device)
        check_images(images)
        for member in self.members.values():
            member.check_task(model)
        if task_of(model) != DETECTION:
            labels = check_labels(labels, images)  # type: ignore[arg-type] # checked there
        seeds = expand_seeds(seed, len(images))
        if self.together or len(images) == 1:
            return self._run(model, images, labels, target, region, fooling_region, seeds)
        parts = []
        for row in range(len(images)):
            one = torch.tensor([row])
            truth, aim, mask, aimed_at = (
                _part(value, one, len(images)) for value in (labels, target, region, fooling_region)
            )
            parts.append(self._run(model, images[one], truth, aim, mask, aimed_at, seeds[row : row + 1]))
        return _joined(parts)

    def _run(
        self,
        model: Any,
        images: torch.Tensor,
        labels: torch.Tensor | Sequence[Boxes],
        target: Target,
        region: Region,
        fooling_region: Region,
        seeds: Sequence[int],
    ) -> BatteryOutcome:
        first = next(iter(self.members.values()))
        region = first.region if region is None else region
        fooling_region = first.fooling_region if fooling_region is None else fooling_region
        with steady(model, images.device, 0):
            truth = pose_task(
                model,
                images,
                labels,
                region=region,
                fooling_region=fooling_region,
                ignore_index=first.ignore_index,
                precision=first.precision,
                seeds=seeds,
            )
            clean = truth.figures(truth.images)
        region = truth.region
        if isinstance(truth, Problem):  # what is drawn at random is drawn once
            fooling_region = truth.counted
        elif isinstance(truth, ObjectProblem) and truth.aim.mask is not None:
            fooling_region = truth.aim.mask
        deciding = truth.metrics[0]
        count, total = len(images), len(self.members)
        unknown = torch.full((total, count), math.nan, dtype=torch.float64)
        figures = {metric: unknown.clone() for metric in truth.metrics}
        norms, shares = unknown.clone(), unknown.clone()
        ran = torch.zeros(total, count, dtype=torch.bool)
        worst = {metric: clean[metric].clone() for metric in truth.metrics}
        choice = {metric: torch.full((count,), CLEAN) for metric in truth.metrics}
        chosen = {metric: truth.images.clone() for metric in truth.metrics}
        candidates: dict[str, torch.Tensor] = {}
        for index, (name, attack) in enumerate(self.members.items()):
            rows = self._rows(attack, worst)
            made = chosen[deciding].clone()
            if len(rows):
                here = rows.to(images.device)
                outcome = attack(
                    model,
                    images[here],
                    _part(labels, rows, count),
                    _part(target, rows, count),
                    _part(region, rows, count),
                    _part(fooling_region, rows, count),
                    [image_seed(seeds[row], f"battery|{name}") for row in rows.tolist()],
                )
                truth.tally.forward[rows] += outcome.queries.forward
                truth.tally.backward[rows] += outcome.queries.backward
                made[here] = outcome.images
                ran[index, rows] = True
                if isinstance(attack, MinimumNorm):
                    norms[index, rows], shares[index, rows] = outcome.norms.cpu(), outcome.share.cpu()
                with steady(model, images.device, 0):
                    found = truth.select(here).figures(outcome.images)
                for metric in truth.metrics:
                    figures[metric][index, rows] = found[metric]
                    better = found[metric] < worst[metric][rows]
                    worst[metric][rows[better]] = found[metric][better]
                    choice[metric][rows[better]] = index
                    chosen[metric][here[better.to(here.device)]] = outcome.images[better.to(here.device)]
            if self.keep:
                candidates[name] = made
        return BatteryOutcome(
            names=tuple(self.members),
            images=chosen[deciding],
            chosen_images=chosen,
            ran=ran,
            figures=figures,
            clean=clean,
            choice=choice,
            worst=worst,
            candidates=candidates,
            norms=norms,
            shares=shares,
            queries=Queries(truth.tally.forward, truth.tally.backward),
            measures_norm=[isinstance(member, MinimumNorm) for member in self.members.values()],
        )

    def _rows(self, attack: Attack, worst: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Images that this attack is run on; those with nothing that counts never are."""
        figures = torch.stack(list(worst.values()))
        counted = ~torch.isnan(figures).all(0)
        if self.skip and not (self.table and isinstance(attack, MinimumNorm)):
            counted &= (figures > 0).any(0)
        return torch.nonzero(counted).flatten()


def _joined(parts: Sequence[BatteryOutcome]) -> BatteryOutcome:
    """Outcomes of single images as one of all of them."""

    def rows(pick: Callable[[BatteryOutcome], torch.Tensor], dim: int = 0) -> torch.Tensor:
        return torch.cat([pick(part) for part in parts], dim)

    def metrics(pick: Callable[[BatteryOutcome], Mapping[str, torch.Tensor]], dim: int = 0) -> dict[str, torch.Tensor]:
        return {key: torch.cat([pick(part)[key] for part in parts], dim) for key in pick(parts[0])}

    return BatteryOutcome(
        names=parts[0].names,
        images=rows(lambda part: part.images),
        chosen_images=metrics(lambda part: part.chosen_images),
        ran=rows(lambda part: part.ran, 1),
        figures=metrics(lambda part: part.figures, 1),
        clean=metrics(lambda part: part.clean),
        choice=metrics(lambda part: part.choice),
        worst=metrics(lambda part: part.worst),
        candidates=metrics(lambda part: part.candidates),
        norms=rows(lambda part: part.norms, 1),
        shares=rows(lambda part: part.shares, 1),
        queries=Queries(rows(lambda part: part.queries.forward), rows(lambda part: part.queries.backward)),
        measures_norm=parts[0].measures_norm,
    )


def _plain(values: Sequence[Any]) -> bool:
    """Whether a list is one value, such as a permutation of classes, and not one entry per image."""
    return any(isinstance(each, int) for each in values)


def _part(value: Any, rows: torch.Tensor, count: int) -> Any:
    """Rows of an argument that is given per image; anything else as it is."""
    if isinstance(value, (list, tuple)) and len(value) == count and not _plain(value):
        return [value[row] for row in rows.tolist()]
    if hasattr(value, "ndim") and value.ndim >= 3 and len(value) == count:
        return value[rows.numpy() if not isinstance(value, torch.Tensor) else rows.to(value.device)]
    return value


battery_members: Registry[Mapping[str, tuple[str, Mapping[str, Any]]]] = Registry("battery", "gauntlet.batteries")
"""Batteries by name: for each member, the attack's name and its options."""

battery_members.add("sea", {name: (name, {}) for name in ("sea-jsd", "sea-mce", "sea-msl", "sea-bce")})
battery_members.add("semsegbench", {name: (name, {}) for name in ("pgd", "segpgd", "cospgd")})
battery_members.add("detecbench", {name: (name, {"steps": 20, "alpha": 0.01}) for name in ("bim", "pgd")})
battery_members.add(
    "detectors",  # ours: what DetecBench lacks, on the training loss and on the candidates
    {
        "pgd": ("pgd", {}),
        "apgd": ("apgd", {}),
        "padam-ce": ("padam-ce", {}),
        "tog-vanishing": ("tog-vanishing", {"steps": 20}),
        "tog-untargeted": ("tog-untargeted", {"steps": 20}),
    },
)
battery_members.add(
    "halmosi",  # docs/specs/attacks.md, 12: the order is Halmosi et al.'s attack index 0 to 9
    {
        "alma-prox": ("alma-prox", {}),
        "padam-ce": ("padam-ce", {}),
        "padam-cos": ("padam-cos", {}),
        "dag-0.001": ("dag", {"alpha": 0.001, "steps": 200}),
        "dag-0.003": ("dag", {"alpha": 0.003, "steps": 200}),
        "pdpgd": ("pdpgd", {}),
        "sea-jsd": ("sea-jsd", {}),
        "sea-mce": ("sea-mce", {}),
        "sea-msl": ("sea-msl", {}),
        "sea-bce": ("sea-bce", {}),
    },
)


def build_battery(
    name: str,
    *,
    epsilon: Number | None = None,
    budget: Number = 1.0,
    members: Mapping[str, Mapping[str, Any]] | None = None,
    skip: bool = True,
    table: bool = False,
    keep: bool = True,
    together: bool = False,
    **options: Any,
) -> Battery:
    """A battery by its name, or one of one's own.

    Args:
        name: "sea", "halmosi", "semsegbench", for detectors "detecbench" or "detectors", or a registered one; any name
            where `members` are given.
        epsilon: the radius, 8/255 by default; results of minimum-perturbation attacks are clipped to it.
        budget: factor on every attack's number of steps, 1 for the published ones.
        members: descriptions of attacks by the name that results go under, in place of a registered set.
        skip, table, keep, together: see `Battery`.
        options: given to every member.
    """
    made: dict[str, Attack] = {}
    factor = positive(budget, "budget")
    if members is None:
        name = battery_members.canonical(name)
        plans = {
            member: {"epsilon": 8 / 255, **own, "name": attack}
            for member, (attack, own) in battery_members[name].items()
        }
    else:
        plans = {member: dict(plan) for member, plan in members.items()}
    if epsilon is not None:
        options["epsilon"] = parse_number(epsilon, "epsilon")
    for member, plan in plans.items():
        if "name" not in plan:
            raise GauntletError(f"the member '{member}' of the battery '{name}' needs the name of an attack.")
        attack = attacks[plan.pop("name")]
        built = attack(**{**plan, **options})
        if not isinstance(built, Attack):
            raise GauntletError(f"the member '{member}' of the battery '{name}' is not a single attack.")
        if factor != 1:
            if built.describe()["steps"] is None:
                raise GauntletError(f"the member '{member}' of the battery '{name}' needs its steps for a budget.")
            steps = max(1, round(factor * built.describe()["steps"]))
            built = attack(**{**plan, **options, "steps": steps})
        made[member] = built
    return Battery(name, made, skip=skip, table=table, keep=keep, together=together)

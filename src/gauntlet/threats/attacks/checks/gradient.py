"""What a model with a useful gradient would not show (docs/specs/attacks.md, 16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gauntlet.errors import GauntletError
from gauntlet.models.randomness import random_parts
from gauntlet.samples import Boxes
from gauntlet.threats.attacks.checks.suspicion import BEST_SLACK, LAST_SLACK, Suspicion, Trial
from gauntlet.threats.attacks.engine.constraints import ball
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.device import bridge
from gauntlet.threats.attacks.engine.losses import losses
from gauntlet.threats.attacks.engine.option_checks import radius, whole
from gauntlet.threats.attacks.engine.posing import pose
from gauntlet.threats.attacks.engine.problem import BatchProblem, Problem, Tally, steady
from gauntlet.threats.attacks.engine.request import Request
from gauntlet.threats.attacks.engine.seeds import expand_seeds, image_seed, uniform_draws
from gauntlet.threats.attacks.presets import build

ITERATIVE, SINGLE_STEP, BLACK_BOX = "bim", "fgsm", "square"
"""The attacks that are compared."""
ZERO_ALARM, ZERO_INVALID = 0.01, 0.5
"""Share of exactly zero gradient elements that is suspicious, and that makes results invalid."""
BY_CHANCE_ONE_IN = 20
"""The F1 that boxes set by chance would hardly reach, as one over this."""
VANISHING = 1e-8
"""A gradient of the summed loss below this everywhere is lost in half precision and in Adam's constant."""
LOOKS = 9
"""Draws over which the accuracy of a random model is averaged, the same ones for everything that is compared."""


@dataclass(frozen=True)
class Measured:
    """What the checks are judged by: accuracies in [0, 1] over the batch, and shares of gradient elements.

    Accuracy is that of pixels; for a detector the mean F1 of the images. Of a random model it is the mean over LOOKS
    draws that no attack has seen.

    Attributes:
        classes: K; one over it is what chance reaches (BY_CHANCE_ONE_IN for a detector).
        clean: accuracy without an attack.
        attack: of the iterative attack at epsilon with T steps; best iterates. last: its last iterates.
        single_step: FGSM at epsilon.
        larger_epsilon: the iterative attack at twice epsilon. more_steps: with twice the steps. Last iterates.
        whole_box: with epsilon 1 and many steps, or None when not measured. Best iterates.
        noise: the strongest of several uniform noises of size epsilon, per image.
        transfer: images made against another model, or None when there is none.
        zero_gradient: share of exactly zero elements of the gradient at the clean images.
        tiny_gradient: share of images whose largest gradient element is below VANISHING.
        black_box: under an attack that only asks the model, or None when not measured.
    """

    classes: int
    clean: float
    attack: float
    last: float
    single_step: float
    larger_epsilon: float
    more_steps: float
    whole_box: float | None
    noise: float
    transfer: float | None
    zero_gradient: float
    tiny_gradient: float
    black_box: float | None = None


def measure(model: Any, images: torch.Tensor, labels: torch.Tensor | Sequence[Boxes], trial: Trial) -> Measured:
    """The figures behind `check_attack`; arguments as there."""
    steps, norm, ignore_index, other_model = trial.steps, trial.norm, trial.ignore_index, trial.other_model
    size = radius(trial.epsilon, norm)
    whole(steps, "steps", 1)
    whole(trial.noises, "noises", 1)
    whole(trial.whole_box_steps, "whole_box_steps", 0)
    whole(trial.queries, "queries", 0)
    if other_model is not None:
        other_model, _, _ = bridge(other_model, images, labels)
    model, images, labels = bridge(model, images, labels)
    problem = judging(model, images, labels, trial)
    if int(problem.counts.sum()) == 0:
        raise GauntletError("the images have no labelled pixel; give some with labels.")

    seeds = attack_seeds(trial, len(images))

    def iterative(epsilon: float, steps: int, returns: str) -> Attack:
        return iterative_attack(epsilon, steps, returns, norm, ignore_index)

    def attacked(attack: Attack, against: Any = model) -> float:
        return accuracy(problem, attack(against, images, labels, seed=seeds).images)

    double = min(2 * size, 1.0) if norm == "linf" else 2 * size
    everything = 1.0 if norm == "linf" else float(images[0].numel()) ** 0.5
    strong = iterative(size, steps, "best")
    strong.check_task(model)
    asking = {"epsilon": size, "norm": norm, "ignore_index": ignore_index, "queries": trial.queries}
    zero, tiny = _gradients(problem)
    return Measured(
        classes=_classes(problem),
        clean=accuracy(problem, images),
        attack=attacked(strong),
        last=attacked(iterative(size, steps, "last")),
        single_step=attacked(build(SINGLE_STEP, epsilon=size, norm=norm, ignore_index=ignore_index)),
        larger_epsilon=attacked(iterative(double, steps, "last")),
        more_steps=attacked(iterative(size, 2 * steps, "last")),
        whole_box=attacked(iterative(everything, trial.whole_box_steps, "best")) if trial.whole_box_steps else None,
        noise=_strongest_noise(problem, size, norm, trial.noises, trial.seed),
        transfer=None if other_model is None else attacked(strong, other_model),
        zero_gradient=zero,
        tiny_gradient=tiny,
        black_box=attacked(build(BLACK_BOX, **asking)) if trial.queries else None,
    )


def judge(measured: Measured) -> list[Suspicion]:
    """What is suspicious about some figures; thresholds from docs/specs/attacks.md, 16."""
    return [suspicion for rule in RULES for suspicion in rule(measured)]


def zero_gradient(measured: Measured) -> Iterator[Suspicion]:
    """Many elements of the gradient are exactly zero."""
    if measured.zero_gradient > ZERO_ALARM:
        invalid = measured.zero_gradient > ZERO_INVALID
        yield Suspicion(
            "zero-gradient",
            "error" if invalid else "warning",
            f"{measured.zero_gradient:.1%} of the gradient's elements are exactly zero: attacks cannot move these "
            + ("and their figures are invalid." if invalid else "pixels."),
            {"zero_gradient": measured.zero_gradient},
        )


def vanishing_gradient(measured: Measured) -> Iterator[Suspicion]:
    """The gradient of some images is tiny everywhere."""
    if measured.tiny_gradient > 0:
        yield Suspicion(
            "vanishing-gradient",
            "error" if measured.tiny_gradient > ZERO_INVALID else "warning",
            f"the gradient of {measured.tiny_gradient:.1%} of the images is below {VANISHING:g} everywhere: the "
            "softmax is saturated; use losses on logits, targeted or transferred attacks.",
            {"tiny_gradient": measured.tiny_gradient},
        )


def larger_budget_weaker(measured: Measured) -> Iterator[Suspicion]:
    """An attack with a larger epsilon or more steps leaves more accuracy."""
    for code, name, stronger in (
        ("larger-epsilon-weaker", "twice the epsilon", measured.larger_epsilon),
        ("more-steps-weaker", "twice the steps", measured.more_steps),
    ):
        if stronger > measured.last + LAST_SLACK:
            yield Suspicion(
                code,
                "warning",
                f"an attack with {name} is weaker: accuracy {stronger:.3f} against {measured.last:.3f}.",
                {"attack": measured.last, "stronger": stronger},
            )


def iterative_weaker(measured: Measured) -> Iterator[Suspicion]:
    """A single step leaves less accuracy than the iterative attack."""
    if measured.single_step < measured.attack - BEST_SLACK:
        yield Suspicion(
            "iterative-weaker",
            "error",
            f"the iterative attack leaves accuracy {measured.attack:.3f}, a single step only "
            f"{measured.single_step:.3f}: the gradient misleads.",
            {"attack": measured.attack, "single_step": measured.single_step},
        )


def transfer_stronger(measured: Measured) -> Iterator[Suspicion]:
    """Images made against another model leave less accuracy than those made against the model itself."""
    if measured.transfer is not None and measured.transfer < measured.attack - BEST_SLACK:
        yield Suspicion(
            "transfer-stronger",
            "error",
            f"images made against another model leave accuracy {measured.transfer:.3f}, those made against the model "
            f"itself {measured.attack:.3f}: the model hides its gradient.",
            {"attack": measured.attack, "transfer": measured.transfer},
        )


def black_box_stronger(measured: Measured) -> Iterator[Suspicion]:
    """An attack that never sees the gradient leaves less accuracy than one that follows it."""
    if measured.black_box is not None and measured.black_box < measured.attack - BEST_SLACK:
        yield Suspicion(
            "black-box-stronger",
            "error",
            f"an attack that only asks the model leaves accuracy {measured.black_box:.3f}, the one that follows its "
            f"gradient {measured.attack:.3f}: the gradient is masked.",
            {"attack": measured.attack, "black_box": measured.black_box},
        )


def noise_as_strong(measured: Measured) -> Iterator[Suspicion]:
    """Random noise is as strong as the attack."""
    if measured.noise <= measured.attack and measured.attack > 0:
        yield Suspicion(
            "noise-as-strong",
            "error",
            f"random noise leaves accuracy {measured.noise:.3f}, the attack {measured.attack:.3f}: the attack does "
            "nothing.",
            {"attack": measured.attack, "noise": measured.noise, "clean": measured.clean},
        )


def whole_box_survives(measured: Measured) -> Iterator[Suspicion]:
    """An attack without any bound leaves more accuracy than chance would."""
    if measured.whole_box is not None and measured.whole_box > 1 / measured.classes:
        yield Suspicion(
            "whole-box-survives",
            "error",
            f"without any bound the attack leaves accuracy {measured.whole_box:.3f}, above chance "
            f"({1 / measured.classes:.3f}): the gradient is masked.",
            {"whole_box": measured.whole_box, "chance": 1 / measured.classes},
        )


RULES: Sequence[Callable[[Measured], Iterator[Suspicion]]] = (
    zero_gradient,
    vanishing_gradient,
    larger_budget_weaker,
    iterative_weaker,
    transfer_stronger,
    black_box_stronger,
    noise_as_strong,
    whole_box_survives,
)
"""Every rule, in the order of their suspicions."""


def iterative_attack(epsilon: float, steps: int, returns: str, norm: str, ignore_index: int | str | None) -> Attack:
    """BIM with steps of 2.5 epsilon / steps; linf steps of more than the pixels' range would be the same points."""
    alpha = 2.5 * epsilon / steps or 1.0
    attack: Attack = build(
        ITERATIVE,
        epsilon=epsilon,
        alpha=min(alpha, 1.0) if norm == "linf" else alpha,
        steps=steps,
        norm=norm,
        returns=returns,
        ignore_index=ignore_index,
    )
    return attack


def _classes(problem: BatchProblem) -> int:
    """The number of classes of a segmentation model; BY_CHANCE_ONE_IN for a detector."""
    if not isinstance(problem, Problem):
        return BY_CHANCE_ONE_IN
    with steady(problem.model, problem.images.device, 0):
        return problem.look(problem.images).logits.shape[1]


def judging(model: Any, images: torch.Tensor, labels: Any, trial: Trial) -> BatchProblem:
    """The problem by which images are judged; a random model draws numbers in it that no attack draws."""
    seeds = [image_seed(trial.seed, f"judge|{row}") for row in range(len(images))]
    return pose(model, images, labels, Request(ignore_index=trial.ignore_index, seeds=seeds))


def attack_seeds(trial: Trial, count: int) -> list[int]:
    """One seed per image for the attacks that are compared."""
    return [image_seed(trial.seed, f"attack|{row}") for row in range(count)]


def accuracy(problem: BatchProblem, images: torch.Tensor) -> float:
    """Share of what counts that the attack has not won, over the looks."""
    return _left(problem, _won(problem, images))


def _won(problem: BatchProblem, images: torch.Tensor) -> torch.Tensor:
    """What the attack has won per image, summed over the looks; they have the same draws in every call."""
    fresh = replace(problem, tally=Tally.of(len(problem)))
    with steady(problem.model, images.device, 0):
        return torch.stack([fresh.won(images) for _ in range(_looks(problem))]).sum(0)


def _left(problem: BatchProblem, won: torch.Tensor) -> float:
    return 1 - int(won.sum()) / (_looks(problem) * int(problem.counts.sum()))


def _looks(problem: BatchProblem) -> int:
    return LOOKS if random_parts(problem.model) else 1


def _gradients(problem: BatchProblem) -> tuple[float, float]:
    """Of the gradients at the clean images: the share of zero elements, and that of images where all are tiny."""
    rows = torch.nonzero(problem.counts > 0).flatten()
    part = problem.select(rows)
    with steady(problem.model, problem.images.device, 0):
        gradient = part.evaluate(part.images, losses["ce"], 0.0).gradient
    zero = float((gradient == 0).double().mean())
    tiny = float((gradient.abs().flatten(1).amax(1) < VANISHING).double().mean())
    return zero, tiny


def _strongest_noise(problem: BatchProblem, size: float, norm: str, noises: int, seed: int) -> float:
    """Accuracy under the strongest of several uniform noises, chosen per image; every noise meets the same draws."""
    sizes = torch.full((len(problem),), size, dtype=torch.float64, device=problem.images.device)
    allowed = ball(norm, problem.images, sizes, None)
    most = torch.zeros_like(problem.counts)
    seeds = expand_seeds(seed, len(problem))
    for draw in range(noises):
        noise = uniform_draws(problem.images, seeds, f"noise|{draw}")
        points = allowed.finish(allowed.project(allowed.noise(noise, False)))
        most = torch.maximum(most, _won(problem, points))
    return _left(problem, most)
